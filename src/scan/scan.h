/*
 * scan.h
 *	  The child's rows, read by heap page.
 */
#ifndef GPUSORT_SCAN_SCAN_H
#define GPUSORT_SCAN_SCAN_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "port/atomics.h"
#include "scan/key_filter.h"
#include "sort/sort.h"

/* ------------------------------------------------------------------------
 * Rows of the child, by slot or by heap page (page_source.c)
 * ------------------------------------------------------------------------
 */

/* State of the child's scans that are read page by page. */
typedef struct PageSource
{
	PlanState  *plan;			/* the child */
	bool		possible;		/* the child is a SeqScan or an Append */
	PlanState  *scan_plan;		/* the plan node that returned the last row */
	int			single_rows;	/* rows that scan_plan returned in slots */
	bool		examined;		/* scan and computed are set for scan_plan */

	/* set if the rows of scan_plan are columns of its tuples; or NULL */
	struct PageScan *scan;

	/* set if its rows have expressions; or NULL */
	struct ComputedScan *computed;

	KeyFilterUse key_filter;	/* set by the owner, for all scans */

	bool		asked;			/* the child returned its first row, which is not taken yet */
	TupleTableSlot *first;		/* that row; empty or NULL: the child has no rows */
} PageSource;

extern void page_source_init(PageSource *source, PlanState *plan);

/* Has the child rows?  Asks it for the first one, which page_source_take_rows() then takes. */
extern bool page_source_has_rows(PageSource *source);

/* Frees the scans of the source, which may be used again. */
extern void page_source_end(PageSource *source);

/*
 * Puts all rows of the child into a sorter.  Stops early if the sorter's device
 * failed or *stop is set (stop may be NULL).
 */
extern void page_source_take_rows(PageSource *source, Sorter *sorter, pg_atomic_uint32 *stop);

/* ------------------------------------------------------------------------
 * Input of a GpuSort Incremental: rows of the child, of an index scan by heap page
 * (index_source.c)
 * ------------------------------------------------------------------------
 */

typedef struct IndexSource IndexSource;

/* Creates a source of the rows of any child, in the current memory context. */
extern IndexSource *index_source_create(PlanState *plan);

/* Returns the child's next row, valid until the next call; NULL at the end. */
extern TupleTableSlot *index_source_next(IndexSource *source);

/* The child begins again. */
extern void index_source_rescan(IndexSource *source);
extern void index_source_end(IndexSource *source);

#endif							/* GPUSORT_SCAN_SCAN_H */
