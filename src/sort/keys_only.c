/*
 * keys_only.c
 *	  Sorts whose rows are their keys.
 *
 * SELECT k ... ORDER BY k, the inputs of DISTINCT, of GROUP BY and of many merge
 * joins have no column that is not a sort key, and the value of an integer, a
 * date or a time can be told from its image.  Then rows need not be kept at all:
 * keys are staged, packed without rids, sorted, and decoded as they are given
 * out.  There is no arena to fill and no row to fetch from a random place; equal
 * rows cannot be told apart, so any sort of them is stable.
 *
 * Floats are not decoded (-0 and NaN payloads would be lost), and the columns must
 * fit 128 bits at their natural width, so that the key is always exact: only kinds
 * with exact images are decodable.
 *
 * Memory policy: as any sort's; a run that does not fit is written as rows, so
 * that the merge knows no difference.
 */
#include "postgres.h"

#include "key/decode.h"
#include "miscadmin.h"
#include "sort/device_check.h"
#include "sort/keys_only.h"

bool
keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	int			bits = 0;

	if (nkeys > STAGE_MAX_COLUMNS)
		return false;
	for (int k = 0; k < nkeys; k++)
	{
		if (!key_decodable(keys[k].kind))
			return false;
		/* one bit more for a NULL */
		bits += key_wide(keys[k].kind) ? 65 : 33;
	}
	if (bits > 128)
		return false;

	for (int att = 0; att < desc->natts; att++)
	{
		bool		found = false;

		for (int k = 0; k < nkeys; k++)
			found |= (keys[k].attno == att + 1);
		if (!found)
			return false;
	}
	return true;
}

void
keys_only_put(Sorter *sorter, TupleTableSlot *slot)
{
	Stage	   *stage = &sorter->stage;

	if (unlikely(stage->n == stage->capacity) && !sorter_stage_room(sorter, 1))
		sorter_write_run(sorter);
	stage_row(stage, slot->tts_values, slot->tts_isnull, 0);
	if (unlikely(stage->n >= sorter->send_at))
		device_keys_stream(sorter);
	if (unlikely(sorter_taken(sorter) > sorter->limit))
		sorter_write_run(sorter);
}

void
keys_only_sort(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	KeyLayout  *layout = &sorter->keys_layout;
	KeyRange	ranges[STAGE_MAX_COLUMNS];
	KeyOrder	order;
	SortRecFormat format;

	sorter->keys = NULL;
	sorter->n = 0;
	sorter->batch_n = 0;
	if (stage->n == 0)
		return;

	key_stage_ranges(stage, ranges);
	key_layout(layout, stage, ranges);
	if (device_keys_sort(sorter, layout, key_layout_range(stage, layout)))
		return;
	format = layout->total_bits <= 64 ? SORT_REC_PACKED : SORT_REC_128;
	bulk_reserve(sorter->bulk, &sorter->recs, stage->n * sort_rec_size(format), 0);
	if (format == SORT_REC_PACKED)
		pack_words(stage, layout, layout->total_bits, 0, sorter->recs.ptr, &order);
	else
		pack_wide(stage, layout, format, sorter->recs.ptr, &order);
	sorter->keys = sorter_run_kernel(sorter, stage->n, format, 0, layout->total_bits,
									 key_layout_range(stage, layout), &order, true);
	sorter->keys_format = format;
	sorter->n = stage->n;
	sorter_free_other(sorter, sorter->keys);
}

/*
 * Decodes keys [start, start + count), at most KEYS_BATCH of them, into the
 * batch, column by column.
 */
static void
decode_batch(Sorter *sorter, size_t start, int count)
{
	const Stage *stage = &sorter->stage;
	const KeyLayout *layout = &sorter->keys_layout;
	KeysBatch  *batch = sorter->keys_batch;

	if (batch == NULL)
		batch = sorter->keys_batch =
			MemoryContextAlloc(sorter->cxt, sizeof(KeysBatch));
	if (sorter->keys_format == SORT_REC_PACKED)
		decode_words(stage, layout, (const uint64 *) sorter->keys + start, count, KEYS_BATCH,
					 batch->values[0], batch->isnull[0]);
	else
	{
		const SortRec128 *recs = (const SortRec128 *) sorter->keys + start;

		for (int i = 0; i < count; i++)
			decode_key128(stage, layout, (Key128) recs[i].hi << 64 | recs[i].lo, KEYS_BATCH,
						  &batch->values[0][i], &batch->isnull[0][i]);
	}
	sorter->batch_start = start;
	sorter->batch_n = count;
}

void
keys_only_to_slot(Sorter *sorter, size_t i, TupleTableSlot *slot)
{
	/* the batch is where the reader goes, also backwards */
	if (i - sorter->batch_start >= sorter->batch_n)
	{
		size_t		start = i / KEYS_BATCH * KEYS_BATCH;

		decode_batch(sorter, start, (int) Min(KEYS_BATCH, sorter->n - start));
	}
	keys_batch_to_slot(sorter, i, slot);
}

void
keys_only_write_run(Sorter *sorter, RunWriter *writer)
{
	for (size_t i = 0; i < sorter->n; i++)
	{
		Datum		values[STAGE_MAX_COLUMNS];
		bool		isnull[STAGE_MAX_COLUMNS];
		union
		{
			MinimalTupleData row;
			/* a value and its padding, and what a writer wants beyond them */
			char		room[MAXALIGN(SizeofMinimalTupleHeader + 8) + STAGE_MAX_COLUMNS * 16 + 16];
		}			buf;

		if (i % KEYS_BATCH == 0)
		{
			CHECK_FOR_INTERRUPTS();
			decode_batch(sorter, i, (int) Min(KEYS_BATCH, sorter->n - i));
		}
		keys_batch_row(sorter, i, values, isnull);
		Assert(row_writer_room(sorter->writer, values, isnull) <= sizeof(buf));
		(void) row_writer_write(sorter->writer, values, isnull, (char *) &buf);
		run_writer_row(writer, &buf.row);
	}
}

uint64
keys_only_sum(Sorter *sorter, const KeyLayout *layout, size_t from)
{
	uint64		sum = 0;

	for (size_t i = from; i < sorter->n; i++)
	{
		Datum		values[STAGE_MAX_COLUMNS];
		bool		isnull[STAGE_MAX_COLUMNS];
		Key128		key = 0;

		if ((i - from) % KEYS_BATCH == 0)
		{
			CHECK_FOR_INTERRUPTS();
			decode_batch(sorter, i, (int) Min(KEYS_BATCH, sorter->n - i));
		}
		keys_batch_row(sorter, i, values, isnull);
		if (layout->total_bits > 0)
			key = pack_row(&sorter->stage, layout, values, isnull) >> (128 - layout->total_bits);
		sum += device_check_sum((const char *) &key, 128, 1);
	}
	return sum;
}

void
keys_only_copy_row(Sorter *sorter, MinimalTuple row, TupleTableSlot *slot)
{
	TupleTableSlot *from = sorter_merge_slot(sorter);
	int			natts = slot->tts_tupleDescriptor->natts;

	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	row_to_slot(from, row);
	slot_getallattrs(from);
	memcpy(slot->tts_values, from->tts_values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, from->tts_isnull, natts * sizeof(bool));
	slot->tts_nvalid = natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}
