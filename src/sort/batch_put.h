/*
 * batch_put.h
 *	  Puts rows or keys into a batch, for loops over rows.
 */
#ifndef GPUSORT_SORT_BATCH_PUT_H
#define GPUSORT_SORT_BATCH_PUT_H

#include "postgres.h"

#include "sort/batch.h"

/* Takes the row in the slot.  Its key columns are deformed.  False if there is no room. */
static inline bool
batch_put_row(Batch *batch, const KeyWriter *keys, RowWriter *writer, TupleTableSlot *slot)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	uint32		rid;

	if (unlikely(keybuf->n == keybuf->capacity) && !batch_key_room(batch, keys->owner, 1))
		return false;
	if (unlikely(!row_store(writer, &batch->arena, keys->owner, slot, &rid)))
		return false;
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, rid);
	return true;
}

/*
 * Takes the keys of the row in the slot, which are deformed, and its TID if keys have row
 * ids.  False if there is no room.
 */
static inline bool
batch_put_key(Batch *batch, const KeyWriter *keys, TupleTableSlot *slot)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	uint32		rid = 0;

	if (unlikely(keybuf->n == keybuf->capacity) && !batch_key_room(batch, keys->owner, 1))
		return false;
	if (!keybuf->keys_only)
	{
		const MinimalTupleData *row = slot_minimal_tuple(slot);
		ItemPointerData tid;

		row_get_tid(row, &tid);
		rid = tid_rid(&tid, (row->t_infomask2 & ROW_DEAD) != 0);
	}
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, rid);
	return true;
}

#endif							/* GPUSORT_SORT_BATCH_PUT_H */
