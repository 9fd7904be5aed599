/*
 * incremental_state.h
 *	  State of a GpuSort Incremental.
 */
#ifndef GPUSORT_NODES_INCREMENTAL_INCREMENTAL_STATE_H
#define GPUSORT_NODES_INCREMENTAL_INCREMENTAL_STATE_H

#include "postgres.h"

#include "nodes/base/distinct_filter.h"
#include "nodes/incremental/incremental.h"
#include "scan/scan.h"

/* What EXPLAIN shows of the sorts of batches, or of groups. */
typedef struct SortGroups
{
	int64		n;				/* sorts */
	uint64		algorithms[2];	/* bit sets of algorithm ids: of full sorts,
								 * and of bounded sorts */
	bool		batches;		/* batches of small groups */
	int64		memory_kb;		/* sum of the sorts in memory */
	int64		memory_peak_kb;
	int64		disk_kb;		/* sum of the sorts that wrote runs */
	int64		disk_peak_kb;
} SortGroups;

typedef struct IncrementalState
{
	CustomScanState css;
	SortPlan	sort;
	DistinctFilter *filter;		/* drops duplicates; NULL without distinct
								 * columns */
	int			nprefix;		/* leading sort columns by which the child's
								 * rows are ordered */
	GroupColumns *prefix;		/* these columns, of the current group */
	AttrNumber	last_key_attno; /* greatest column number of the sort columns */

	IndexSource *source;		/* the child's rows */

	/* the current execution */
	bool		begun;
	size_t		bound;			/* rows wanted; 0: all */
	uint64		returned;		/* rows returned */
	TupleTableSlot *ahead;		/* the child's next row, which is not taken
								 * yet; NULL: none */
	bool		divided;		/* the batch's last group is large, and the
								 * child may have more rows of it */
	bool		after_large;	/* the last group was large */
	double		last_rows;		/* rows of the last large group */
	SortResult *result;			/* rows being returned; NULL: none */

	struct GroupBatch *batch;			/* rows of small groups; NULL until needed */
	Sorter	   *sorter;			/* sorts a large group; NULL until needed */
	bool		sorter_begun;	/* the sorter has rows */
	SortReport	batch_report;	/* of all batches that are not counted yet */
	SortGroups	batches;
	SortGroups	groups;
} IncrementalState;

extern void incremental_explain(CustomScanState *css, List *ancestors, ExplainState *es);

#endif							/* GPUSORT_NODES_INCREMENTAL_INCREMENTAL_STATE_H */
