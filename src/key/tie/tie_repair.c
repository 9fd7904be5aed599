/*
 * tie_repair.c
 *	  Values nearly in order: those out of place are picked out, sorted and merged back.
 *
 * Hints (tie_hints.c) may put some values wrong.  Going through them, what is smaller
 * than the one before is picked out together with that, so that what stays is in order
 * and has at least all values but two for each that was out of place.  That takes a
 * comparison for each, and what is picked out is sorted by comparison.
 *
 * Equal values come in their rows' order and stay in it.
 */
#include "postgres.h"

#include "key/tie/tie_rows.h"

/* So few may be out of place that it pays. */
#define REPAIR_PART			8

#define OUT_OF_PLACE		PG_UINT32_MAX
#define NONE				(PG_UINT32_MAX - 1)

static inline int
compare(SortSupport ssup, const SortRec64 *a, const SortRec64 *b)
{
	return tie_compare(ssup, (Datum) a->key, (Datum) b->key);
}

/* Sets the pad of records that are out of place; false if there are more than most. */
static bool
find_misplaced(SortSupport ssup, SortRec64 *recs, size_t n, size_t most, size_t *found)
{
	uint32		top = 0;		/* the last one in order; its pad is the one before */
	uint32		before;

	*found = 0;
	recs[0].pad = NONE;
	for (size_t i = 1; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		tie_prefetch_value(recs, i, n);
		if (top == NONE || compare(ssup, &recs[top], &recs[i]) <= 0)
		{
			recs[i].pad = top;
			top = i;
			continue;
		}
		if (*found + 2 > most)
			return false;
		*found += 2;
		before = recs[top].pad;
		recs[i].pad = recs[top].pad = OUT_OF_PLACE;
		top = before;
	}
	return true;
}

bool
tie_repair(TieBreak *tb, TieColumn *col, SortRec64 *recs, SortRec64 *scratch, size_t n)
{
	SortSupport ssup = tie_comparator(tb, col);
	size_t		most = n / REPAIR_PART;
	size_t		misplaced;
	size_t		in_order = 0;
	SortRec64  *out = scratch;

	/* pads name records */
	if (n >= NONE || !find_misplaced(ssup, recs, n, most, &misplaced))
		return false;
	for (size_t i = 0; i < n; i++)
	{
		if (recs[i].pad == OUT_OF_PLACE)
			*out++ = recs[i];
		else
			recs[in_order++] = recs[i];
	}
	tie_merge_sort(tb, col, scratch, out, misplaced);

	/* from the end, where there is room */
	while (misplaced > 0)
	{
		SortRec64  *a = &recs[in_order - 1];
		SortRec64  *b = &scratch[misplaced - 1];
		int			cmp = in_order == 0 ? -1 : compare(ssup, a, b);

		if (cmp > 0 || (cmp == 0 && a->rid > b->rid))
		{
			recs[in_order + misplaced - 1] = *a;
			in_order--;
		}
		else
		{
			recs[in_order + misplaced - 1] = *b;
			misplaced--;
		}
	}
	for (size_t i = 0; i < n; i++)
		recs[i].pad = TIE_OTHER_WORD;
	return true;
}
