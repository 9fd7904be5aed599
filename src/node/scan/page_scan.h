/*
 * page_scan.h
 *	  A sequential scan's rows, a page at a time.
 */
#ifndef GPUSORT_PAGE_SCAN_H
#define GPUSORT_PAGE_SCAN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "node/scan/scan_rows.h"
#include "sort/row_page.h"

typedef struct PageScan
{
	RowPage		page;			/* the rows of the current page */
	SeqScanState *child;
	AttrNumber *atts;			/* the child's columns in the tuple, from 0 */
	TupleTableSlot *tuple_slot;
	TupleTableSlot *row_slot;	/* the child's row; tuple_slot if rows are whole tuples */
	BlockNumber block;
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

/* The plan is about to give its first row, perhaps once more: what is left of a page is of no use to this run. */
extern void page_source_begin(PageSource *source);

/*
 * The plan has just given out a row: takes that row and those after it on its
 * page.  The plan's next row is the next page's first.  The rows stay where they
 * are until then.  NULL if the row has to be taken by itself.  Memory is taken
 * from cxt; stage has the sort's key columns.
 */
extern RowPage *page_source_take(PageSource *source, const Stage *stage, MemoryContext cxt);

extern TupleTableSlot *page_source_next_computed(PageSource *source);

/*
 * The plan's next row, where it is computed from a page of which a row has been
 * given out; NULL: ask the plan.
 */
static inline TupleTableSlot *
page_source_next(PageSource *source)
{
	return source->computed == NULL ? NULL : page_source_next_computed(source);
}

extern void page_source_end(PageSource *source);

#endif							/* GPUSORT_PAGE_SCAN_H */
