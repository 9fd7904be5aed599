/*
 * row_page.c
 *	  The rows of a heap page: their keys.
 */
#include "postgres.h"

#include "sort/row_page.h"

/* Where the keys of a tuple lie that has them in other than fixed places. */
static inline void
walk_keys(const RowPage *page, int i, PageKeyPlaces where)
{
	const TupleWalk *walk = page->key_walk;
	WalkAt		at[WALK_MAX_STEPS];
	const char *cols[MaxTupleAttributeNumber];

	if (likely(tuple_walk(walk, page->tuples[i], page->lens[i], at)))
	{
		for (int c = 0; c < page->nkeys; c++)
		{
			const WalkColumn *col = &walk->cols[page->keys.att[c]];

			where[c][i] = at[col->step].begin + col->offset;
		}
		return;
	}
	tuple_walk_columns(walk, page->tuples[i], page->lens[i], cols);
	for (int c = 0; c < page->nkeys; c++)
		where[c][i] = cols[page->keys.att[c]];
}

void
row_page_find_keys(const RowPage *page, int first, PageKeyPlaces where)
{
	for (int i = first; i < page->n; i++)
	{
		page_ahead_ask(&page->ahead, i);
		if (page_keys_fixed(&page->keys, page->tuples[i]))
		{
			for (int c = 0; c < page->nkeys; c++)
				where[c][i] = row_page_data(page, i) + page->keys.offset[c];
		}
		else
			walk_keys(page, i, where);
	}
}

void
row_page_stage(RowPage *page, int first, Stage *stage, const StageWriter *writer, size_t at)
{
	const char *data[MaxHeapTuplesPerPage];
	PageKeyPlaces where;
	int			i;

	for (i = first; i < page->n && page_keys_fixed(&page->keys, page->tuples[i]); i++)
		data[i] = row_page_data(page, i);
	if (likely(i == page->n))
	{
		page_keys_stage(&page->keys, stage, writer, at, data + first, i - first);
		return;
	}
	for (i = first; i < page->n; i++)
		walk_keys(page, i, where);
	for (int c = 0; c < stage->ncols; c++)
		page_keys_stage_column(&page->keys, stage, writer, c, at, where[c] + first, page->n - first);
}
