/*
 * parallel_sort.h
 *	  The executor node "Custom Scan (GpuSort)" above a Gather of GpuSort Feeds.
 */
#ifndef GPUSORT_PARALLEL_SORT_H
#define GPUSORT_PARALLEL_SORT_H

#include "postgres.h"

#include "compat.h"
#include "key/type/keytype.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

typedef enum ParallelSortPhase
{
	PARALLEL_SORT_NEW,
	PARALLEL_SORT_ALONE,		/* the leader's rows are all, if there are any */
	PARALLEL_SORT_MERGE,
	PARALLEL_SORT_DEVICE,		/* the workers' rows come from a device */
	PARALLEL_SORT_AGAIN,		/* they were lost with it: to those that had not been given */
	PARALLEL_SORT_END
} ParallelSortPhase;

typedef struct ParallelSortState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	ExprState  *limit_count;	/* of the Limit above, if one bounds this node */
	ExprState  *limit_offset;
	GatherState *gather;
	struct FeedState *feed;
	ParallelSortPhase phase;
	MemoryContext cxt;			/* of the merge */
	struct BlockMerge *merge;
	int			nstreams;
	bool		device_failed;	/* it is not tried again */
	bool		on_device;		/* the last execution's rows came from there */
	struct GivenRows *given;	/* when a device is lost */
	ParallelSortPhase resumed;	/* after PARALLEL_SORT_AGAIN */
	TupleTableSlot *row_slot;	/* a row as it lies */
} ParallelSortState;

extern Node *parallel_sort_create_state(void);

/* explain.c */
extern void parallel_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es);

#endif							/* GPUSORT_PARALLEL_SORT_H */
