/*
 * tie_abbreviated.c
 *	  Values in the order of what their type makes to abbreviate them.
 *
 * Where hints (tie_hints.c) say nothing, as of Chinese, many values are ordered by
 * abbreviations, each made once, and only those with equal ones are compared.
 */
#include "postgres.h"

#include "key/tie/tie_rows.h"
#include "key/type/abbreviated.h"
#include "key/type/key_maker.h"

/* Fewer are compared as quickly. */
#define ABBREVIATED_MIN_ROWS	64

void
tie_order_words(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n, SortSupport ssup)
{
	uint64		prev;
	bool		alone = false;	/* has the one before a word of its own? */

	tie_sort_words(tb, recs, n);
	prev = ~recs[0].key;
	for (size_t i = 0; i < n; i++)
	{
		uint64		word = recs[i].key;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		recs[i].key = (uint64) tie_value(tb, col, tie_row(tb, recs[i].rid), &isnull);
		recs[i].pad = TIE_SAME_WORD;
		if (word != prev)
		{
			bool		before_alone = alone;

			alone = i + 1 == n || recs[i + 1].key != word;
			recs[i].pad = TIE_OTHER_WORD;
			/* both are where they will stay, and at hand */
			if (ssup != NULL && alone && before_alone &&
				tie_compare(ssup, (Datum) recs[i - 1].key, (Datum) recs[i].key) < 0)
				recs[i].pad = TIE_BEHIND;
		}
		prev = word;
	}
}

/* Makes the column's images, if its type abbreviates. */
static StageColumn *
find_abbreviation(TieBreak *tb, TieColumn *col)
{
	const KeyColumn *key = &tb->keys[col - tb->cols];
	StageColumn *image = MemoryContextAllocZero(tb->cxt, sizeof(StageColumn));

	image->kind = abbreviated_kind(key);
	image->flip = col->flip;
	col->abbreviator = key_maker_create(tb->cxt, key, image->kind);
	return image;
}

bool
tie_abbreviated(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	SortSupport ssup = tie_comparator(tb, col);
	size_t		start = 0;
	uint32		rank = 0;
	bool		inexact;

	/* those whose images are abbreviations have had theirs */
	if (col->kind != KEY_COMPARED || n < ABBREVIATED_MIN_ROWS)
		return false;
	if (col->abbreviated == NULL)
		col->abbreviated = find_abbreviation(tb, col);
	if (col->abbreviated->kind != KEY_ABBREVIATED)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		tie_prefetch_value(recs, i, n);
		recs[i].key = key_image(col->abbreviated, col->abbreviator, (Datum) recs[i].key, &inexact);
	}
	tie_order_words(tb, col, recs, n, NULL);
	for (size_t i = 1; i <= n; i++)
	{
		size_t		len = i - start;

		if (i < n && recs[i].pad == TIE_SAME_WORD)
			continue;
		if (len > 1)
		{
			tie_compare_sort(tb, col, recs + start, len);
			(void) tie_rank(ssup, recs + start, len, true);
		}
		else
			recs[start].key = 0;
		for (size_t j = start; j < i; j++)
			recs[j].key += rank;
		rank = (uint32) recs[i - 1].key + 1;
		start = i;
	}
	return true;
}
