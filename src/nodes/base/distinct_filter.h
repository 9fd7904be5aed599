/*
 * distinct_filter.h
 *	  Drops duplicates of rows that come in sort order.
 */
#ifndef GPUSORT_NODES_BASE_DISTINCT_FILTER_H
#define GPUSORT_NODES_BASE_DISTINCT_FILTER_H

#include "postgres.h"

#include "nodes/base/group_column.h"
#include "nodes/base/plan_format.h"

/*
 * Drops duplicates of rows that come in sort order, for results that have them
 * (SortResult.duplicates).
 */
typedef struct DistinctFilter
{
	uint64		dropped;		/* rows that did not pass */
	bool		begun;			/* the columns have the values of the last row
								 * that has passed */
	GroupColumns *columns;
} DistinctFilter;

/* Creates a filter of the rows that a sort's child returns. */
extern DistinctFilter *distinct_filter_create(const CustomScanState *css, const SortPlan *sort);

/* Other rows follow, or the rows begin again. */
extern void distinct_filter_reset(DistinctFilter *filter);

/* Does the row differ from all rows before? */
extern bool distinct_filter_pass(DistinctFilter *filter, TupleTableSlot *row);

#endif							/* GPUSORT_NODES_BASE_DISTINCT_FILTER_H */
