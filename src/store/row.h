/*
 * row.h
 *	  A slot's row copied once, into the arena, as a MinimalTuple.
 */
#ifndef GPUSORT_ROW_H
#define GPUSORT_ROW_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "port/atomics.h"
#include "store/arena.h"
#include "store/row_writer.h"
#include "utils/memutils.h"

/* How a slot's row will be stored, and the room that it takes at most. */
typedef struct RowForm
{
	Size		room;			/* MAXALIGN'ed */
	const char *image;			/* the MinimalTuple's bytes; NULL: form them */
	Size		len;			/* of the image */
} RowForm;

/* Is the slot's row in heap format already?  Rows from a scan without projection are. */
static inline bool
row_has_image(TupleTableSlot *slot, RowForm *form)
{
	const TupleTableSlotOps *ops = slot->tts_ops;

	if (ops == &TTSOpsBufferHeapTuple || ops == &TTSOpsHeapTuple)
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
			form->image = (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET;
			form->room = MAXALIGN(form->len);
			return true;
		}
	}
	else if (ops == &TTSOpsMinimalTuple)
	{
		MinimalTuple tuple = ((MinimalTupleTableSlot *) slot)->mintuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len;
			form->image = (char *) tuple;
			form->room = MAXALIGN(form->len);
			return true;
		}
	}
	return false;
}

/* A virtual row's values, and a writer for them. */
static inline void
row_prepare(RowWriter *writer, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	if (unlikely(slot->tts_tupleDescriptor != writer->desc &&
				 slot->tts_tupleDescriptor != writer->alike))
		row_writer_adapt(writer, slot->tts_tupleDescriptor);
}

static inline void
row_measure_values(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	form->image = NULL;
	form->len = 0;
	form->room = row_writer_room(writer, slot->tts_values, slot->tts_isnull);
	if (unlikely(!AllocSizeIsValid(form->room)))
		row_writer_check(writer, slot->tts_values, slot->tts_isnull);
}

/* A row that is in heap format is copied as it is, another is formed in place. */
static inline void
row_measure(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	if (row_has_image(slot, form))
		return;
	row_prepare(writer, slot);
	row_measure_values(writer, slot, form);
}

/* Rows up to this length are copied in words, without a call. */
#define ROW_COPY_WORDS	128

/*
 * A MinimalTuple of len bytes copied from a heap page, where it has MAXALIGN(len)
 * bytes to itself, as it has at row.  Returns MAXALIGN(len).
 */
static inline Size
row_copy(char *row, const char *image, Size len)
{
	if (likely(len <= ROW_COPY_WORDS))
	{
		for (Size at = 0; at < len; at += sizeof(uint64))
		{
			memcpy(row + at, image + at, sizeof(uint64));
			/* or the compiler makes it a call again */
			pg_compiler_barrier();
		}
	}
	else
		memcpy(row, image, len);
	((MinimalTuple) row)->t_len = len;
	return MAXALIGN(len);
}

/* Writes it; returns how many bytes it takes, MAXALIGN'ed. */
static inline Size
row_write(const RowWriter *writer, TupleTableSlot *slot, const RowForm *form, char *row)
{
	if (form->image == NULL)
		return row_writer_write(writer, slot->tts_values, slot->tts_isnull, row);
	memcpy(row, form->image, form->len);
	((MinimalTuple) row)->t_len = form->len;
	return form->room;
}

/* Stores the slot's row; false if the arena is full. */
static inline bool
row_store(RowWriter *writer, Arena *arena, BulkOwner *owner, TupleTableSlot *slot, uint32 *rid)
{
	RowForm		form;

	if (!row_has_image(slot, &form))
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
 * Asks for the memory of a row, some of about so many bytes: whoever reads its columns
 * waits for the second line as long as for the first.  Into the second cache, which has more
 * loads under way than the first: of 10M rows of 120 bytes each costs 15 ns less.
 */
static inline void
row_prefetch(const char *row, int bytes)
{
	__builtin_prefetch(row, 0, 2);
	/* it may begin anywhere in its first line */
	for (int at = 64; at < bytes + 32; at += 64)
		__builtin_prefetch(row + at, 0, 2);
}

/*
 * Puts a stored row into a slot of TTSOpsMinimalTuple that never owns its
 * tuple: ExecStoreMinimalTuple without the questions that cannot arise here.
 */
static inline void
row_to_slot(TupleTableSlot *slot, MinimalTuple row)
{
	MinimalTupleTableSlot *mslot = (MinimalTupleTableSlot *) slot;

	Assert(TTS_IS_MINIMALTUPLE(slot));
	/* somebody may have materialised the row before */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	mslot->mintuple = row;
	mslot->off = 0;
	mslot->minhdr.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	mslot->minhdr.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
}

#endif							/* GPUSORT_ROW_H */
