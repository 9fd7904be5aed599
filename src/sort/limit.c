/*
 * limit.c
 *	  Bounded sorts: only the first rows are wanted.
 *
 * Rows are collected until there are twice as many as wanted, or memory is full;
 * these are sorted, and the last row that is wanted becomes the threshold: what
 * sorts behind it is thrown away, and from then on a row that does is not even
 * stored.  In an input without order nearly every row falls to that one comparison
 * of images.  In the worst case, an input in reverse, every row is sorted once
 * among 2 * bound others, where a heap would sift it down.
 *
 * An equal row is behind the threshold too, because it came later: stability
 * comes for free.  Where images cannot tell that rows are equal, because not all key
 * columns are staged or a column's images are equal but may be inexact, what follows
 * decides nothing, and the row is compared with the threshold's row itself.  An inexact
 * image that is larger is that of a row strictly behind, so such rows fall as any.
 *
 * Memory policy: the rows that stay are moved together where they are, so a bound
 * whose rows fit work_mem writes no file.  If they do not fit, runs are written;
 * one that has as many rows as are wanted gives a threshold, too, and ends there.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/limit.h"

#define ROWS_PER_INTERRUPT_CHECK	4096

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

/* The staged row with this rid. */
static size_t
find_rid(const Stage *stage, uint32 rid)
{
	size_t		from = 0;
	size_t		to = stage->n;

	while (to - from > 1)
	{
		size_t		mid = from + (to - from) / 2;

		if (stage->rids[mid] <= rid)
			from = mid;
		else
			to = mid;
	}
	return from;
}

void
limit_set_threshold(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	uint32		last = sorter->rids[sorter->bound - 1];
	size_t		i = find_rid(stage, last);

	/* images of rows to come are compared with these */
	stage_freeze(stage);
	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];

		sorter->threshold_inexact[c] = col->range.inexact;
		sorter->threshold_null[c] = col->nulls != NULL && col->nulls[i];
		sorter->threshold[c] = stage_image_at(col, i);
	}
	if (!stage->exact)
	{
		MinimalTuple row = (MinimalTuple) arena_at(&sorter->arena, last);

		bulk_reserve(sorter->bulk, &sorter->threshold_row, row->t_len, 0);
		memcpy(sorter->threshold_row.ptr, row, row->t_len);
	}
	sorter->have_threshold = true;
}

/*
 * Is staged row i, which is this one, among those that are wanted?  last is the rid of
 * the last that is; equal rows are wanted in the order in which they came.
 */
static bool
limit_keeps(const Sorter *sorter, size_t i, MinimalTuple row, uint32 last)
{
	const Stage *stage = &sorter->stage;
	bool		equal = stage->complete;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		bool		null = col->nulls != NULL && col->nulls[i];
		int			cmp = compare_threshold(sorter, c, null, stage_image_at(col, i));

		if (cmp != 0)
			return cmp < 0;
		if (sorter->threshold_inexact[c] && !null)
		{
			equal = false;
			break;
		}
	}
	if (!equal)
	{
		int			cmp = tiebreak_compare(sorter->tiebreak, row, sorter->threshold_row.ptr);

		if (cmp != 0)
			return cmp < 0;
	}
	return stage->rids[i] <= last;
}

void
limit_cut(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	size_t		n = stage->n;
	size_t		kept = 0;
	Arena		from;
	uint32		last;

	Assert(n > sorter->bound);
	sorter_sort_staged(sorter);
	limit_set_threshold(sorter);
	last = sorter->rids[sorter->bound - 1];
	sorter->rids = NULL;
	sorter->n = 0;

	arena_compact_begin(&sorter->arena, &from);
	stage_keep_begin(stage);
	for (size_t i = 0; i < n; i++)
	{
		MinimalTuple row = (MinimalTuple) arena_at(&from, stage->rids[i]);
		uint32		rid;
		char	   *to;

		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!limit_keeps(sorter, i, row, last))
			continue;
		to = arena_alloc(&sorter->arena, MAXALIGN(row->t_len), &rid);
		if (to == NULL)
			elog(ERROR, "a bounded sort's rows do not fit its arena");
		memmove(to, row, MAXALIGN(row->t_len));
		stage_keep(stage, i, kept++, rid);
	}
	stage_keep_end(stage, kept);
	arena_compact_end(&sorter->arena, &from);
	if (kept != sorter->bound)
		elog(ERROR, "a bounded sort kept %zu rows of %zu", kept, sorter->bound);
}

bool
limit_rejects(const Sorter *sorter, TupleTableSlot *slot)
{
	const Stage *stage = &sorter->stage;
	bool		equal = stage->complete;

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
		{
			equal = false;
			break;
		}
	}
	return equal ||
		tiebreak_compare_slot(sorter->tiebreak, slot, sorter->threshold_row.ptr) >= 0;
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
