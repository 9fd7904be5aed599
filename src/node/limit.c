/*
 * limit.c
 *	  Bounded sorts: only the first rows are wanted.
 *
 * Rows are collected until there are twice as many as wanted; these are sorted,
 * the first half kept, and the last row kept becomes the threshold: from then on
 * a row that sorts behind it is not even stored.  In an input without order
 * nearly every row falls to that one comparison of images.  In the worst case, an
 * input in reverse, every row is sorted once among 2 * bound others, where a heap
 * would sift it down.
 *
 * An equal row is behind the threshold too, because it came later: stability
 * comes for free.  Only if not all key columns are staged must it be kept, for
 * the comparators to settle.
 *
 * Memory policy: two arenas take turns, each with at most 2 * bound rows (1024
 * for a small bound).  If they do not fit work_mem the caller goes on without a
 * bound and writes runs; the threshold holds nevertheless.
 */
#include "postgres.h"

#include "node/limit.h"

void
limit_cut(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	Arena		kept;
	size_t		nkept;

	sorter_sort_staged(sorter);
	nkept = Min(sorter->n, sorter->bound);

	stage_reset(stage);
	arena_reset(&sorter->spare);
	for (size_t i = 0; i < nkept; i++)
	{
		TupleTableSlot *slot = sorter_merge_slot(sorter);
		uint32		rid;

		row_to_slot(slot, (MinimalTuple) arena_at(&sorter->arena, sorter->rids[i]));
		slot_getsomeattrs(slot, stage->last_att);
		if (row_store(&sorter->spare, slot, &rid) == NULL)
			elog(ERROR, "a bounded sort's rows do not fit its arena");
		stage_row(stage, slot->tts_values, slot->tts_isnull, rid);
	}
	ExecClearTuple(sorter->merge_slot);

	kept = sorter->spare;
	sorter->spare = sorter->arena;
	sorter->arena = kept;
	sorter->rids = NULL;
	sorter->n = 0;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];

		sorter->threshold_null[c] = col->nulls != NULL && col->nulls[nkept - 1];
		sorter->threshold[c] = col->wide ? ((uint64 *) col->images)[nkept - 1] :
			((uint32 *) col->images)[nkept - 1];
	}
	sorter->have_threshold = true;
}

bool
limit_rejects(const Sorter *sorter, TupleTableSlot *slot)
{
	const Stage *stage = &sorter->stage;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		bool		null = slot->tts_isnull[col->att];

		if (null || sorter->threshold_null[c])
		{
			if (null && sorter->threshold_null[c])
				continue;
			return null != col->nulls_first;
		}
		else
		{
			uint64		image = key_image(col->kind, col->flip, slot->tts_values[col->att]);

			if (image != sorter->threshold[c])
				return image > sorter->threshold[c];
		}
	}
	return stage->complete;
}
