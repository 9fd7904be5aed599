/*
 * scan_internal.h
 *	  Interfaces between the files that read the child's scans.
 */
#ifndef GPUSORT_SCAN_SCAN_INTERNAL_H
#define GPUSORT_SCAN_SCAN_INTERNAL_H

#include "postgres.h"

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "scan/scan.h"
#include "sort/sort.h"
#include "utils/rel.h"

/* Is this a sequential scan of a heap, outside of EvalPlanQual? */
extern bool is_heap_scan(PlanState *ps);

/* Stores a tuple of the current page in a slot. */
static inline void
heap_tuple_to_slot(TupleTableSlot *slot, const SeqScanState *child, BlockNumber block,
				   OffsetNumber offset, HeapTupleHeader header, uint16 len)
{
	HeapTuple	tuple = &((HeapTupleTableSlot *) slot)->tupdata;

	tuple->t_len = len;
	tuple->t_data = header;
	tuple->t_tableOid = RelationGetRelid(child->ss.ss_currentRelation);
	/* conditions may refer to ctid */
	ItemPointerSet(&tuple->t_self, block, offset);
	ExecStoreHeapTuple(tuple, slot, false);
}

/* ------------------------------------------------------------------------
 * Rows that are columns of their tuples (page_scan.c)
 * ------------------------------------------------------------------------
 */

/* A scan whose rows are columns of its tuples. */
typedef struct PageScan
{
	RowPage		page;			/* rows of the current page */
	SeqScanState *child;

	/* table column (from 0) of each column of the row */
	AttrNumber *atts;
	TupleTableSlot *tuple_slot; /* a tuple of the table */
	TupleTableSlot *row_slot;	/* child's row; tuple_slot for whole tuples */
	BlockNumber block;			/* number of the current page */
	OffsetNumber offsets[MaxHeapTuplesPerPage]; /* line pointers of its rows */
} PageScan;

/* Creates a page scan; NULL if the plan is not a heap scan that returns columns. */
extern PageScan *page_scan_create(PlanState *ps, const KeyBuffer *keybuf);

/*
 * Takes the rows of the scan's page, from the one that the scan returned last.  page_scan_measure()
 * follows.
 */
extern bool page_scan_take(PageScan *scan);

/*
 * Removes the rows from the first one that do not satisfy the scan's condition.
 * Returns how many were removed.
 */
extern int page_scan_filter(PageScan *scan, int first);

/* Sets whether the page's rows can be copied without a slot, and the bytes that they need. */
extern void page_scan_measure(PageScan *scan);
extern void page_scan_end(PageScan *scan);

/* ------------------------------------------------------------------------
 * Rows that are computed from their tuples (computed_scan.c)
 * ------------------------------------------------------------------------
 */

typedef struct RowProgram RowProgram;

/* A scan whose rows are computed from its tuples. */
typedef struct ComputedScan
{
	RowPage		page;			/* computed rows */
	SeqScanState *child;
	MemoryContext cxt;			/* has all of this */
	TupleTableSlot *slot;		/* the tuple that a row is computed from */
	RowProgram *program;		/* computes rows; NULL: the child's projection
								 * does */
	char	   *memory;			/* of the page's rows; NULL: rows come in
								 * slots only */
	RowWriter  *writer;			/* writes them */

	/* tuples of the current heap page */
	BlockNumber block;
	int			n;
	int			next;			/* the next tuple to compute a row from */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	PageAhead	ahead;
} ComputedScan;

/* Creates a computed scan; NULL if the plan is not a heap scan with a projection. */
extern ComputedScan *computed_scan_create(PlanState *ps, const KeyBuffer *keybuf);

/* Takes the tuples that follow the scan's last row on its page. */
extern void computed_scan_take(ComputedScan *scan);

/*
 * Computes the next rows of the current heap page, which become rows of scan->page.  Stops
 * at a row that does not fit the page; *single is this row, valid until the next call, or
 * NULL.  Returns the number of rows.
 */
extern int	computed_scan_rows(ComputedScan *scan, TupleTableSlot **single);
extern void computed_scan_end(ComputedScan *scan);

/* ------------------------------------------------------------------------
 * Rows that are computed from heap tuples (row_program.c)
 * ------------------------------------------------------------------------
 */

/*
 * Creates a program that computes the target list of a scan from tuples of desc, in the
 * current memory context.  NULL if the target list has other expressions than columns,
 * constants and function calls.
 */
extern RowProgram *row_program_create(const Scan *plan, TupleDesc desc);

/*
 * Computes the row of a tuple of len bytes.  The arrays have its columns until the next
 * call.  Values passed by reference lie in the tuple, or in the current memory context.
 */
extern void row_program_run(RowProgram *program, const HeapTupleHeaderData *tuple, Size len,
							const Datum **values, const bool **isnull);

/* ------------------------------------------------------------------------
 * Early cutoffs (early_cutoff.c)
 * ------------------------------------------------------------------------
 */

/*
 * Returns the scan that comes last in the plan if its table's last pages may be read before
 * the scan begins; otherwise NULL.
 */
extern PlanState *early_cutoff_scan(PlanState *plan);

/*
 * Gives a bounded sort that has no rows yet a cutoff from the last pages of
 * the table: the wanted number of rows is there, or before them in sort order.
 * Without effect where the table is small for the number of rows.
 */
extern void early_cutoff_take(PageScan *scan, Sorter *sorter, size_t bound);

#endif							/* GPUSORT_SCAN_SCAN_INTERNAL_H */
