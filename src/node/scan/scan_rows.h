/*
 * scan_rows.h
 *	  A sequential scan's rows where it computes them from its tuples.
 */
#ifndef GPUSORT_SCAN_ROWS_H
#define GPUSORT_SCAN_ROWS_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "sort/row_page.h"

typedef struct ScanRows
{
	SeqScanState *child;
	TupleTableSlot *slot;		/* the tuple that a row is computed from */

	/* the tuples of the current page */
	BlockNumber block;
	int			n;
	int			next;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	PageAhead	ahead;
} ScanRows;

/* For a scan of a heap that computes its rows; NULL for any other plan. */
extern ScanRows *scan_rows_create(PlanState *ps);

/* The scan has just given out a row: takes the tuples after it on its page. */
extern void scan_rows_take(ScanRows *rows);

/* The scan's next row, until the next call; NULL: it is not on that page. */
extern TupleTableSlot *scan_rows_next(ScanRows *rows);

extern void scan_rows_end(ScanRows *rows);

#endif							/* GPUSORT_SCAN_ROWS_H */
