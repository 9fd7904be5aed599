/*
 * result_next.h
 *	  The next row of a result, for loops over rows.
 */
#ifndef GPUSORT_SORT_RESULT_NEXT_H
#define GPUSORT_SORT_RESULT_NEXT_H

#include "postgres.h"

#include "sort/merge_next.h"
#include "sort/result.h"

/*
 * The next row of the chunk, which has one.  NULL if its checksum shows that it is none
 * of the rows that were sent to the device.
 */
static inline MinimalTuple
row_stream_next(RowStream *stream)
{
	MinimalTuple row = (MinimalTuple) stream->next;
	uint64		sum;

	if (unlikely(!row_is_whole(stream->next, stream->end - stream->next, &stream->secret, &sum)))
		return NULL;
	stream->sum += sum;
	stream->last = stream->next;
	stream->next += MAXALIGN(row->t_len);
	stream->left--;
	return row;
}

/*
 * Puts the next row into the slot.  False at the end or if rows are lost.  kind is a
 * constant: the kind of the result, or RESULT_PLAIN, which serves all kinds.
 */
static pg_attribute_always_inline bool
result_next(SortResult *result, ResultKind kind, bool forward, TupleTableSlot *slot)
{
	if (kind == RESULT_ROWS)
	{
		MemoryResult *memory = (MemoryResult *) result;
		ArrayResult *array = &memory->array;

		if (likely(forward && array->pos < array->n))
		{
			uint32		rid = memory->rids[array->pos];

			if (unlikely(array->pos % RESULT_PREFETCH == 0))
				result_rows_prefetch(memory);
			row_to_slot(slot, (MinimalTuple) arena_at(&memory->arena, rid));
			array->pos++;
			return true;
		}
	}
	if (kind == RESULT_KEYS)
	{
		KeysResult *keys = (KeysResult *) result;

		if (likely(forward && key_reader_has(&keys->reader, keys->array.pos)))
		{
			key_reader_to_slot(&keys->reader, keys->array.pos, slot);
			keys->array.pos++;
			return true;
		}
	}
	if (kind == RESULT_STREAM)
	{
		StreamResult *stream = (StreamResult *) result;

		if (likely(stream->stream.left > 0))
		{
			MinimalTuple row = row_stream_next(&stream->stream);

			if (likely(row != NULL))
			{
				row_to_slot(slot, row);
				return true;
			}
		}
	}
	if (kind == RESULT_MERGE)
	{
		Merge	   *merge = (Merge *) result;

		if (likely(merge->rows.array.pos < merge->rows.array.n))
		{
			row_to_slot(slot, merge_next(merge));
			return true;
		}
	}
	return result->methods->next(result, forward, slot);
}

#endif							/* GPUSORT_SORT_RESULT_NEXT_H */
