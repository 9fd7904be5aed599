/*
 * page_scan.h
 *	  A sequential scan's rows, a page at a time.
 */
#ifndef GPUSORT_PAGE_SCAN_H
#define GPUSORT_PAGE_SCAN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "key/page_keys.h"
#include "node/scan_rows.h"
#include "store/row.h"
#include "store/row_pick.h"

typedef struct PageScan
{
	SeqScanState *child;
	bool		whole;			/* the child's rows are the tuples as they lie */
	RowPick    *pick;			/* or made so; or NULL */
	PageKeys	keys;
	int			nkeys;
	TupleWalk  *key_walk;		/* to keys in other than fixed places */
	AttrNumber *atts;			/* the child's columns in the tuple, from 0 */
	TupleTableSlot *tuple_slot;
	TupleTableSlot *row_slot;	/* the child's row; tuple_slot if whole */

	/* the rows of the current page */
	BlockNumber block;
	int			n;
	bool		direct;			/* page_scan_write() can be used */
	Size		bytes;			/* for which there has to be room, if so */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} PageScan;

/* Where the rows of a plan come from: a scan, or the scans below an Append in turn. */
typedef struct PageSource
{
	PlanState  *top;
	bool		possible;		/* it may have pages at all */
	PlanState  *current;		/* the plan that gave the last row */
	int			rows;			/* that came one by one from it */
	bool		known;			/* scan was looked for */
	PageScan   *scan;			/* of current; NULL: rows come one by one, */
	ScanRows   *computed;		/* unless they are computed from a page's tuples */
} PageSource;

extern void page_source_init(PageSource *source, PlanState *top);

/*
 * The plan has just given out a row: takes that row and those after it on its
 * page.  The plan's next row is the next page's first.  The rows stay where they
 * are until then.  NULL if the row has to be taken by itself.  Memory is taken
 * from cxt; stage is that of the sort.
 */
extern PageScan *page_source_take(PageSource *source, const Stage *stage, MemoryContext cxt);

/*
 * The plan's next row, where it is computed from a page of which a row has been
 * given out; NULL: ask the plan.
 */
extern TupleTableSlot *page_source_next(PageSource *source);

extern void page_source_end(PageSource *source);

/* Row i as the child would give it out, until the next call. */
extern TupleTableSlot *page_scan_row(PageScan *scan, int i);

/*
 * Stages the keys of all rows as rows [at, at + n), for which there is room, and
 * does not count them.
 */
extern void page_scan_stage(PageScan *scan, Stage *stage, size_t at);

/* Where a tuple's columns begin. */
static inline const char *
page_scan_data(const PageScan *scan, int i)
{
	return (const char *) scan->tuples[i] + scan->tuples[i]->t_hoff;
}

/* Room that row i of a direct page needs: at least what it will take. */
static inline Size
page_scan_room(const PageScan *scan, int i)
{
	return scan->whole ? MAXALIGN(scan->lens[i] - MINIMAL_TUPLE_OFFSET) :
		row_pick_room(scan->pick, scan->tuples[i], scan->lens[i]);
}

/* Writes it as a MinimalTuple; returns how many bytes it takes, MAXALIGN'ed. */
static inline Size
page_scan_write(const PageScan *scan, int i, char *row)
{
	if (scan->whole)
		return row_copy(row, (const char *) scan->tuples[i] + MINIMAL_TUPLE_OFFSET,
						(Size) scan->lens[i] - MINIMAL_TUPLE_OFFSET);
	return row_pick(scan->pick, scan->tuples[i], scan->lens[i], row);
}

#endif							/* GPUSORT_PAGE_SCAN_H */
