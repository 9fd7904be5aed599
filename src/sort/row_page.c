/*
 * row_page.c
 *	  The rows of a heap page: their keys.
 */
#include "postgres.h"

#include "sort/row_page.h"

/* Where tuple i's keys lie, or NULL. */
static inline void
find_keys(const RowPage *page, int i, const char *(*where)[MaxHeapTuplesPerPage])
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
row_page_stage(RowPage *page, int first, Stage *stage, size_t at)
{
	const char *data[MaxHeapTuplesPerPage];
	const char *where[STAGE_MAX_COLUMNS][MaxHeapTuplesPerPage];
	int			i;

	for (i = first; i < page->n && page_keys_fixed(&page->keys, page->tuples[i]); i++)
		data[i] = row_page_data(page, i);
	if (likely(i == page->n))
	{
		page_keys_stage(&page->keys, stage, at, data + first, i - first);
		return;
	}
	for (i = first; i < page->n; i++)
		find_keys(page, i, where);
	for (int c = 0; c < stage->ncols; c++)
		page_keys_stage_column(&page->keys, stage, c, at, where[c] + first, page->n - first);
}
