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
#include "store/row.h"
#include "store/row_shape.h"

typedef struct PageScan
{
	SeqScanState *child;
	bool		whole;			/* the child's rows are the tuples as they lie */
	RowShape   *shape;			/* or they have this one; or NULL */
	PageKeys	keys;
	AttrNumber *atts;			/* the child's columns in the tuple, from 0 */
	TupleTableSlot *tuple_slot;
	TupleTableSlot *row_slot;	/* the child's row; tuple_slot if whole */

	/* the rows of the current page */
	BlockNumber block;
	int			n;
	bool		direct;			/* page_scan_write() can be used */
	Size		bytes;			/* as stored MinimalTuples, if so */
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
	PageScan   *scan;			/* of current; NULL: rows come one by one */
} PageSource;

extern void page_source_init(PageSource *source, PlanState *top);

/*
 * The plan has just given out a row: takes that row and those after it on its
 * page.  The plan's next row is the next page's first.  The rows stay where they
 * are until then.  NULL if the row has to be taken by itself.  Memory is taken
 * from cxt; stage is that of the sort.
 */
extern PageScan *page_source_take(PageSource *source, const Stage *stage, MemoryContext cxt);

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

/* Bytes of row i as MinimalTuple, of a direct page. */
static inline Size
page_scan_len(const PageScan *scan, int i)
{
	return scan->whole ? (Size) scan->lens[i] - MINIMAL_TUPLE_OFFSET : scan->shape->len;
}

/* Writes it to row, which has MAXALIGN of so many bytes. */
static inline void
page_scan_write(const PageScan *scan, int i, char *row)
{
	if (scan->whole)
		row_copy(row, (const char *) scan->tuples[i] + MINIMAL_TUPLE_OFFSET,
				 (Size) scan->lens[i] - MINIMAL_TUPLE_OFFSET);
	else
		row_shape_write(scan->shape, page_scan_data(scan, i), row);
}

#endif							/* GPUSORT_PAGE_SCAN_H */
