/*
 * row_page.h
 *	  The rows of a heap page, as a sort takes them all at once.
 *
 * Filled by whoever has such pages (node/scan/page_scan.c).  The rows lie as tuples
 * on their page and stay there until the sort has taken them.
 */
#ifndef GPUSORT_ROW_PAGE_H
#define GPUSORT_ROW_PAGE_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "key/page_keys.h"
#include "store/row.h"
#include "store/row_pick.h"

typedef struct RowPage RowPage;

/* The page that comes after this one. */
typedef struct PageAhead
{
	const char *page;			/* not pinned, only to be asked for; NULL: not known */
	int			step;			/* bytes of it to ask for with each row of this one; 0 */
	int			skip;			/* so many pages that are not looked for */
} PageAhead;

struct RowPage
{
	/* of every page */
	bool		whole;			/* rows are the tuples as they lie */
	RowPick    *pick;			/* or made so; or NULL */
	PageKeys	keys;
	int			nkeys;
	TupleWalk  *key_walk;		/* to keys in other than fixed places */

	/* Row i in a slot, until the next call. */
	TupleTableSlot *(*row) (RowPage *page, int i);

	/* of this one */
	int			n;
	bool		direct;			/* row_page_write() can be used */
	Size		bytes;			/* for which there has to be room, if so */
	PageAhead	ahead;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
};

/* Where the keys of a page's rows lie, by column; NULL is one. */
typedef const char *PageKeyPlaces[STAGE_MAX_COLUMNS][MaxHeapTuplesPerPage];

/* Finds those of rows [first, page->n). */
extern void row_page_find_keys(const RowPage *page, int first, PageKeyPlaces where);

/*
 * Stages the keys of rows [first, page->n) as the stage's from place at on, for
 * which there is room, and does not count them.
 */
extern void row_page_stage(RowPage *page, int first, Stage *stage, const StageWriter *writer, size_t at);

/*
 * Asks for the next page's memory, as much as is row i's share: all at once would wait.  Into
 * the second cache, which has more loads under way than the first.  Always inline, or it is
 * taken for a function that does nothing.
 */
static pg_attribute_always_inline void
page_ahead_ask(const PageAhead *ahead, int i)
{
	const char *from = ahead->page + i * ahead->step;

	for (int at = 0; at < ahead->step; at += 64)
		__builtin_prefetch(from + at, 0, 2);
}

/* Where a tuple's columns begin. */
static inline const char *
row_page_data(const RowPage *page, int i)
{
	return (const char *) page->tuples[i] + page->tuples[i]->t_hoff;
}

/* Room that row i of a direct page needs: at least what it will take. */
static inline Size
row_page_room(const RowPage *page, int i)
{
	return page->whole ? MAXALIGN(page->lens[i] - MINIMAL_TUPLE_OFFSET) :
		row_pick_room(page->pick, page->tuples[i], page->lens[i]);
}

/* Writes it as a MinimalTuple; returns how many bytes it takes, MAXALIGN'ed. */
static inline Size
row_page_write(const RowPage *page, int i, char *row)
{
	page_ahead_ask(&page->ahead, i);
	if (page->whole)
		return row_copy(row, (const char *) page->tuples[i] + MINIMAL_TUPLE_OFFSET,
						(Size) page->lens[i] - MINIMAL_TUPLE_OFFSET);
	return row_pick(page->pick, page->tuples[i], page->lens[i], row);
}

#endif							/* GPUSORT_ROW_PAGE_H */
