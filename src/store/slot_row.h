/*
 * slot_row.h
 *	  Rows in slots: storing them in the arena, and the way back.
 */
#ifndef GPUSORT_STORE_SLOT_ROW_H
#define GPUSORT_STORE_SLOT_ROW_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "store/arena.h"
#include "store/row_copy.h"
#include "store/row_writer.h"

/* ---- Rows in slots ---- */

/*
 * The MinimalTuple that the slot has; NULL: it has none.  A slot of MinimalTuples may have
 * values only: a stock Sort of one column sorts Datums and returns such slots.
 */
static inline MinimalTuple
slot_minimal_tuple(const TupleTableSlot *slot)
{
	return slot->tts_ops == &TTSOpsMinimalTuple ? ((const MinimalTupleTableSlot *) slot)->mintuple : NULL;
}

/* The HeapTuple that the slot has; NULL: it has none. */
static inline HeapTuple
slot_heap_tuple(const TupleTableSlot *slot)
{
	return slot->tts_ops == &TTSOpsBufferHeapTuple || slot->tts_ops == &TTSOpsHeapTuple ?
		((const HeapTupleTableSlot *) slot)->tuple : NULL;
}

/* ---- Storing a slot's row in the arena ---- */

/* Makes size bytes available at arena->next; false if the arena is full. */
static inline bool
arena_reserve(Arena *arena, BulkOwner *owner, Size size)
{
	return likely(size <= (Size) (arena->end - arena->next)) || arena_make_room(arena, owner, size);
}

/* Allocates a row of size bytes (MAXALIGN'ed); NULL if the arena is full. */
static inline char *
arena_alloc(Arena *arena, BulkOwner *owner, Size size, uint32 *rid)
{
	char	   *row;

	if (unlikely(!arena_reserve(arena, owner, size)))
		return NULL;
	row = arena->next;
	*rid = arena_take(arena, size);
	return row;
}

/* The form of a slot's row before it is stored. */
typedef struct RowForm
{
	Size		room;			/* upper bound of the stored size, MAXALIGN'ed */

	/* bytes of the MinimalTuple; NULL: form it from values */
	const char *tuple;
	Size		len;			/* bytes of tuple */
} RowForm;

/* Does the slot have a heap or minimal tuple?  Slots of a scan without projection do. */
static inline bool
row_has_tuple(TupleTableSlot *slot, RowForm *form)
{
	HeapTuple	tuple = slot_heap_tuple(slot);
	MinimalTuple row;

	if (tuple != NULL)
	{
		form->len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
		form->tuple = (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET;
	}
	else if ((row = slot_minimal_tuple(slot)) != NULL)
	{
		form->len = row->t_len;
		form->tuple = (char *) row;
	}
	else
		return false;
	form->room = MAXALIGN(form->len);
	return true;
}

/* Deforms the slot's row and adapts the writer to the slot. */
static inline void
row_prepare(RowWriter *writer, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	if (unlikely(slot->tts_tupleDescriptor != writer->desc &&
				 slot->tts_tupleDescriptor != writer->same_layout))
		row_writer_adapt(writer, slot->tts_tupleDescriptor);
}

static inline void
row_measure_values(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	form->tuple = NULL;
	form->len = 0;
	form->room = row_writer_room(writer, slot->tts_values, slot->tts_isnull);
	if (unlikely(!AllocSizeIsValid(form->room)))
		row_writer_check(writer, slot->tts_values, slot->tts_isnull);
}

/* Finds the form of a slot's row and its room. */
static inline void
row_measure(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	if (row_has_tuple(slot, form))
		return;
	row_prepare(writer, slot);
	row_measure_values(writer, slot, form);
}

/* Rows up to this length are copied in words, without a call of memcpy(). */
#define ROW_COPY_WORDS	128

/*
 * Copies a MinimalTuple of len bytes from a heap page; returns MAXALIGN(len).  Both
 * source and destination have MAXALIGN(len) bytes.
 */
static inline Size
row_copy(char *row, const char *tuple, Size len)
{
	if (likely(len <= ROW_COPY_WORDS))
	{
		for (Size at = 0; at < len; at += sizeof(uint64))
		{
			memcpy(row + at, tuple + at, sizeof(uint64));
			/* keeps the compiler from making the loop a call of memcpy() */
			pg_compiler_barrier();
		}
	}
	else
		memcpy(row, tuple, len);
	((MinimalTuple) row)->t_len = len;
	return MAXALIGN(len);
}

/*
 * Makes a MinimalTuple of a copied heap tuple.  heap_form_tuple() marks its tuples as
 * composite values by these two bits; heap_getattr() would then read the type's OID from
 * bytes that are the MinimalTuple's length.
 */
static inline void
row_clear_composite(MinimalTuple row)
{
	const uint16 composite = HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID;

	if (unlikely((row->t_infomask & composite) == composite))
		row->t_infomask &= ~composite;
}

/* Writes a slot's row in this form; returns its MAXALIGN'ed size. */
static inline Size
row_write(const RowWriter *writer, TupleTableSlot *slot, const RowForm *form, char *row)
{
	if (form->tuple == NULL)
		return row_writer_write(writer, slot->tts_values, slot->tts_isnull, row);
	memcpy(row, form->tuple, form->len);
	((MinimalTuple) row)->t_len = form->len;
	row_clear_composite((MinimalTuple) row);
	return form->room;
}

/* Stores the slot's row in the arena; false if the arena is full. */
static inline bool
row_store(RowWriter *writer, Arena *arena, BulkOwner *owner, TupleTableSlot *slot, uint32 *rid)
{
	RowForm		form;

	if (!row_has_tuple(slot, &form))
	{
		Size		size;

		row_prepare(writer, slot);
		size = row_writer_try(writer, slot->tts_values, slot->tts_isnull, arena->next, arena->end - arena->next);
		if (likely(size > 0))
		{
			*rid = arena_take(arena, size);
			return true;
		}
		row_measure_values(writer, slot, &form);
	}
	if (unlikely(!arena_reserve(arena, owner, form.room)))
		return false;
	*rid = arena_take(arena, row_write(writer, slot, &form, arena->next));
	return true;
}

/*
 * Prefetches a row of about this many bytes, all its cache lines: a miss of a later line
 * costs as much as one of the first.  Prefetches into the second-level cache, which
 * allows more loads in flight than the first.
 */
static inline void
row_prefetch(const char *row, int bytes)
{
	__builtin_prefetch(row, 0, 2);
	/* the row begins at a multiple of 8 bytes, anywhere in its first cache line */
	for (int at = 64; at < bytes + 56; at += 64)
		__builtin_prefetch(row + at, 0, 2);
}

/*
 * Stores a row in a slot of TTSOpsMinimalTuple, which does not own it.  This is
 * ExecStoreMinimalTuple() without the cases that do not occur here.
 */
static inline void
row_to_slot(TupleTableSlot *slot, MinimalTuple row)
{
	MinimalTupleTableSlot *mslot = (MinimalTupleTableSlot *) slot;

	Assert(TTS_IS_MINIMALTUPLE(slot));
	/* the slot's previous row may have been materialised */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	mslot->mintuple = row;
	mslot->off = 0;
	mslot->minhdr.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	mslot->minhdr.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
}

/* Offset of a row among rows that lie together, in units of 8 bytes. */
typedef uint16 RowPlace;

#endif							/* GPUSORT_STORE_SLOT_ROW_H */
