/*
 * row.h
 *	  A slot's row copied once, into the arena, as a MinimalTuple.
 */
#ifndef GPUSORT_ROW_H
#define GPUSORT_ROW_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "store/arena.h"
#include "utils/memutils.h"

/*
 * Rows from a scan without projection are in heap format already and are copied
 * as they are; others are formed in place.  Returns NULL if the arena is full.
 */
static inline MinimalTuple
row_store(Arena *arena, TupleTableSlot *slot, uint32 *rid)
{
	const TupleTableSlotOps *ops = slot->tts_ops;
	MinimalTuple row;
	Size		len;

	if (ops == &TTSOpsBufferHeapTuple || ops == &TTSOpsHeapTuple)
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (likely(tuple != NULL))
		{
			len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
			row = (MinimalTuple) arena_alloc(arena, MAXALIGN(len), rid);
			if (unlikely(row == NULL))
				return NULL;
			memcpy(row, (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET, len);
			row->t_len = len;
			return row;
		}
	}
	else if (ops == &TTSOpsMinimalTuple)
	{
		MinimalTuple tuple = ((MinimalTupleTableSlot *) slot)->mintuple;

		if (likely(tuple != NULL))
		{
			len = tuple->t_len;
			row = (MinimalTuple) arena_alloc(arena, MAXALIGN(len), rid);
			if (unlikely(row == NULL))
				return NULL;
			memcpy(row, tuple, len);
			return row;
		}
	}

	/* a virtual row */
	{
		TupleDesc	desc = slot->tts_tupleDescriptor;
		int			natts = desc->natts;
		bool		hasnull = false;
		Size		hoff = SizeofMinimalTupleHeader;
		Size		data_len;

		slot_getallattrs(slot);
		for (int i = 0; i < natts; i++)
			hasnull |= slot->tts_isnull[i];
		if (hasnull)
			hoff += BITMAPLEN(natts);
		hoff = MAXALIGN(hoff);
		data_len = heap_compute_data_size(desc, slot->tts_values, slot->tts_isnull);
		len = hoff + data_len;
		if (!AllocSizeIsValid(len))
			elog(ERROR, "invalid memory alloc request size %zu", len);

		row = (MinimalTuple) arena_alloc(arena, MAXALIGN(len), rid);
		if (unlikely(row == NULL))
			return NULL;
		/* padding must be zero: a reader tells short varlenas by it */
		memset(row, 0, MAXALIGN(len));
		row->t_len = len;
		HeapTupleHeaderSetNatts(row, natts);
		row->t_hoff = hoff + MINIMAL_TUPLE_OFFSET;
		heap_fill_tuple(desc, slot->tts_values, slot->tts_isnull,
						(char *) row + hoff, data_len,
						&row->t_infomask, hasnull ? row->t_bits : NULL);
		return row;
	}
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
