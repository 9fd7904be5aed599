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
 * comes for free.  It must be kept if that it is equal cannot be told: if not all key
 * columns are staged, or a column's images are equal but may be inexact.  Then what
 * follows decides nothing either, and the comparators settle it.  An inexact image
 * that is larger is that of a row strictly behind, so such rows fall as any.
 *
 * Memory policy: two arenas take turns, each with at most 2 * bound rows (1024
 * for a small bound).  If they do not fit work_mem the caller goes on without a
 * bound and writes runs; the threshold holds nevertheless.
 */
#include "postgres.h"

#include "sort/limit.h"

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
		if (!row_store(sorter->writer, &sorter->spare, slot, &rid))
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

		sorter->threshold_inexact[c] = col->range.inexact;
		sorter->threshold_null[c] = col->nulls != NULL && col->nulls[nkept - 1];
		sorter->threshold[c] = col->wide ? ((uint64 *) col->images)[nkept - 1] :
			((uint32 *) col->images)[nkept - 1];
	}
	sorter->have_threshold = true;
}

/*
 * Column c of a row against the threshold's: > 0 if it goes behind it, whatever
 * follows.
 */
static inline int
compare_threshold(const Sorter *sorter, int c, bool null, uint64 image)
{
	if (unlikely(null || sorter->threshold_null[c]))
	{
		if (null && sorter->threshold_null[c])
			return 0;
		return null != sorter->stage.cols[c].nulls_first ? 1 : -1;
	}
	if (image == sorter->threshold[c])
		return 0;
	return image > sorter->threshold[c] ? 1 : -1;
}

bool
limit_rejects(const Sorter *sorter, TupleTableSlot *slot)
{
	const Stage *stage = &sorter->stage;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		bool		null = slot->tts_isnull[col->att];
		bool		inexact = sorter->threshold_inexact[c];
		int			cmp = compare_threshold(sorter, c, null, null ? 0 :
											key_image(col, slot->tts_values[col->att], &inexact));

		if (cmp != 0)
			return cmp > 0;
		if (inexact && !null)
			return false;
	}
	return stage->complete;
}

bool
limit_rejects_at(const Sorter *sorter, const PageKeys *keys, const char *data)
{
	const Stage *stage = &sorter->stage;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		bool		inexact = sorter->threshold_inexact[c];
		int			cmp = compare_threshold(sorter, c, false,
											key_image_at(col, col->kind, col->flip,
														 data + keys->offset[c], &inexact));

		if (cmp != 0)
			return cmp > 0;
		if (inexact)
			return false;
	}
	return stage->complete;
}
