/*
 * arrival.c
 *	  The order in which a stage's rows came: noticed while they do.
 *
 * Timestamps and serial numbers grow, and tables are often read in the order in which
 * they were filled.  As long as rows come in order, or each before the last, their
 * images are compared while they are in the cache; the first row that does not fit
 * ends that, and an input without order costs a test a page.  What has been found is
 * said of rows, not of images, and so holds when a prefix of strings shrinks and
 * images change.
 *
 * Columns decide one after the other, as in the keys that pack.c makes; where all
 * images are equal, but some value may not be, nothing is known.  A row that equals
 * the one before is in order, but not in reverse, because equal rows keep their order.
 */
#include "postgres.h"

#include "key/stage.h"

void
arrival_begin(Stage *stage)
{
	stage->arrival.ways = stage->ncols > 0 ? ARRIVAL_UP | ARRIVAL_DOWN : 0;
	stage->arrival.varied = false;
	stage->arrival.seen = 0;
}

/* Row i, of which its first column does not tell all. */
static void
look_at_row(Stage *stage, size_t i)
{
	Arrival    *arrival = &stage->arrival;
	int			cmp;

	if (!stage_compare(stage, i, i - 1, &cmp))
		arrival->ways = 0;
	else if (cmp == 0)
		arrival->ways &= ARRIVAL_UP;
	else
	{
		arrival->ways &= cmp > 0 ? ARRIVAL_UP : ARRIVAL_DOWN;
		arrival->varied = true;
	}
}

/* How many of rows [from, n) have a smaller, and how many an equal image than the row before. */
#define COUNT_STEPS(image_t) \
	do { \
		const image_t *images = col->images; \
		for (size_t i = from; i < stage->n; i++) \
		{ \
			smaller += images[i] < images[i - 1]; \
			equal += images[i] == images[i - 1]; \
		} \
	} while (0)

void
arrival_look(Stage *stage)
{
	Arrival    *arrival = &stage->arrival;
	const StageColumn *col = &stage->cols[0];
	size_t		from = Max(arrival->seen, 1);
	size_t		smaller = 0;
	size_t		equal = 0;

	arrival->seen = stage->n;
	if (from >= stage->n || arrival->ways == 0)
		return;
	if (unlikely(key_range_unplaced(col, &col->range)))
	{
		arrival->ways = 0;
		return;
	}
	if (col->wide)
		COUNT_STEPS(uint64);
	else
		COUNT_STEPS(uint32);
	if (col->nulls == NULL && equal == 0)
	{
		if (smaller > 0)
			arrival->ways &= ~ARRIVAL_UP;
		if (smaller < stage->n - from)
			arrival->ways &= ~ARRIVAL_DOWN;
		arrival->varied = true;
		return;
	}
	for (size_t i = from; i < stage->n && arrival->ways != 0; i++)
		look_at_row(stage, i);
}
