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
#include "utils/memutils.h"

/* How a slot's row will be stored, and in how many bytes. */
typedef struct RowForm
{
	Size		len;
	const char *image;			/* the MinimalTuple's bytes; NULL: form them */
	Size		data_len;
	Size		hoff;
	bool		hasnull;
} RowForm;

/* A row of values. */
static inline void
row_measure_values(TupleDesc desc, Datum *values, bool *isnull, RowForm *form)
{
	form->image = NULL;
	form->hasnull = false;
	for (int i = 0; i < desc->natts; i++)
		form->hasnull |= isnull[i];
	form->hoff = SizeofMinimalTupleHeader;
	if (form->hasnull)
		form->hoff += BITMAPLEN(desc->natts);
	form->hoff = MAXALIGN(form->hoff);
	form->data_len = heap_compute_data_size(desc, values, isnull);
	form->len = form->hoff + form->data_len;
	if (!AllocSizeIsValid(form->len))
		elog(ERROR, "invalid memory alloc request size %zu", form->len);
}

/* Writes it: MAXALIGN(form->len) bytes at row. */
static inline void
row_write_values(TupleDesc desc, Datum *values, bool *isnull, const RowForm *form,
				 MinimalTuple row)
{
	/* padding must be zero: a reader tells short varlenas by it */
	memset(row, 0, MAXALIGN(form->len));
	row->t_len = form->len;
	HeapTupleHeaderSetNatts(row, desc->natts);
	row->t_hoff = form->hoff + MINIMAL_TUPLE_OFFSET;
	heap_fill_tuple(desc, values, isnull, (char *) row + form->hoff, form->data_len,
					&row->t_infomask, form->hasnull ? row->t_bits : NULL);
}

/*
 * Rows from a scan without projection are in heap format already and are copied
 * as they are; others are formed in place.
 */
static inline void
row_measure(TupleTableSlot *slot, RowForm *form)
{
	const TupleTableSlotOps *ops = slot->tts_ops;

	form->data_len = form->hoff = 0;
	form->hasnull = false;
	if (ops == &TTSOpsBufferHeapTuple || ops == &TTSOpsHeapTuple)
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
			form->image = (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET;
			return;
		}
	}
	else if (ops == &TTSOpsMinimalTuple)
	{
		MinimalTuple tuple = ((MinimalTupleTableSlot *) slot)->mintuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len;
			form->image = (char *) tuple;
			return;
		}
	}

	/* a virtual row */
	slot_getallattrs(slot);
	row_measure_values(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull, form);
}

/* Rows up to this length are copied in words, without a call. */
#define ROW_COPY_WORDS	128

/*
 * A MinimalTuple of len bytes copied from a heap page, where it has MAXALIGN(len)
 * bytes to itself, as it has at row.
 */
static inline void
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
}

/* Writes it: MAXALIGN(form->len) bytes at row. */
static inline void
row_write(TupleTableSlot *slot, const RowForm *form, MinimalTuple row)
{
	if (likely(form->image != NULL))
	{
		memcpy(row, form->image, form->len);
		row->t_len = form->len;
		return;
	}
	row_write_values(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull, form, row);
}

/* Stores the slot's row; NULL if the arena is full. */
static inline MinimalTuple
row_store(Arena *arena, TupleTableSlot *slot, uint32 *rid)
{
	RowForm		form;
	MinimalTuple row;

	row_measure(slot, &form);
	row = (MinimalTuple) arena_alloc(arena, MAXALIGN(form.len), rid);
	if (unlikely(row == NULL))
		return NULL;
	row_write(slot, &form, row);
	return row;
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
