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

typedef struct PageScan
{
	SeqScanState *child;
	bool		whole;			/* the child's rows are the tuples as they lie */
	PageKeys	keys;
	AttrNumber *atts;			/* the child's columns in the tuple, from 0 */
	TupleTableSlot *tuple_slot;
	TupleTableSlot *row_slot;	/* the child's row; tuple_slot if whole */

	/* the rows of the current page */
	int			n;
	Size		bytes;			/* as stored MinimalTuples */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
} PageScan;

/*
 * For a child that is a scan of a heap without conditions; NULL for any other.
 * Lives in the current memory context.
 */
extern PageScan *page_scan_create(PlanState *child, const Stage *stage);

/*
 * The child has just given out a row: takes that row and those after it on its
 * page.  The child's next row is the next page's first.  The rows stay where they
 * are until then.  False if it cannot be done with this page.
 */
extern bool page_scan_take(PageScan *scan);

/* Row i as the child would give it out, until the next call. */
extern TupleTableSlot *page_scan_row(PageScan *scan, int i);

/*
 * Stages the keys of all rows as rows [at, at + n), for which there is room, and
 * does not count them.
 */
extern void page_scan_stage(PageScan *scan, Stage *stage, size_t at);

extern void page_scan_end(PageScan *scan);

/* Where a tuple's columns begin. */
static inline const char *
page_scan_data(const PageScan *scan, int i)
{
	return (const char *) scan->tuples[i] + scan->tuples[i]->t_hoff;
}

#endif							/* GPUSORT_PAGE_SCAN_H */
