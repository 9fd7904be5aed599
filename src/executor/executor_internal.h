/*
 * executor_internal.h
 *	  What the executor's modules share.
 */
#ifndef GPUSORT_EXECUTOR_EXECUTOR_INTERNAL_H
#define GPUSORT_EXECUTOR_EXECUTOR_INTERNAL_H

#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "key/type/keytype.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "parallel/parallel.h"
#include "port/atomics.h"
#include "sort/sort.h"

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

/* ------------------------------------------------------------------------
 * A sequential scan's rows, a page at a time.
 * ------------------------------------------------------------------------
 */

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

/* ------------------------------------------------------------------------
 * What nodes that sort have in common: rows in, a LIMIT's bound, counters.
 * ------------------------------------------------------------------------
 */

/*
 * Puts all rows of a plan into a sorter; pages is its source of pages.  Not to the end
 * if rows were lost with a device, or if *stop (NULL: never) is seen to be set.
 */
extern void sort_node_take_rows(Sorter *sorter, PlanState *outer, PageSource *pages,
								pg_atomic_uint32 *stop);

/* How many rows of the front are wanted by a LIMIT and OFFSET; 0: all. */
extern size_t sort_node_bound(ExprContext *econtext, ExprState *limit_count,
							  ExprState *limit_offset);

/* Counts a sort for the view gpusort_stat. */
extern void sort_node_count(const SortReport *report);

/* ------------------------------------------------------------------------
 * The slot of rows that are their keys.
 * ------------------------------------------------------------------------
 */

extern TupleTableSlotOps keys_slot_ops;

/* ------------------------------------------------------------------------
 * The executor node "Custom Scan (GpuSort Feed)": a participant of a parallel sort.
 * ------------------------------------------------------------------------
 */

/*
 * A sort of many workers is a node more than what it replaces.  A Feed's number, which
 * names its shared memory and its figures, is the Sort's and this; the planner counts its
 * nodes from 0.
 */
#define PARTIAL_SORT_NODE_ID	(1 << 30)

typedef struct PartialSortState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	bool		done;			/* all rows are in, and sorted */
	size_t		bound;			/* the leader's: rows wanted; 0: all */
	Sorter	   *sorter;
	SortResult *result;			/* of the sort that is done */
	PageSource	pages;			/* of the child */
	SortSpec	spec;

	Exchange   *exchange;		/* NULL: there is nobody else */
	bool		stopped;		/* ... any more, since the node was shut down */
	int			ring;			/* a worker's; -1 in the leader */

	/* the leader's */
	bool		participation;	/* parallel_leader_participation, which launch() changes */
	DeviceProducer	device;			/* its job that all send rows to, if it is on; */
	Sink	   *lead;			/* what gives them out: its sorter's; NULL: none; */
	Sorter	   *share;			/* and what sends its own rows there */

	/* and for EXPLAIN */
	int			nreports;		/* workers planned, and the leader last */
	ParticipantReport *reports;
} PartialSortState;

extern void partial_sort_node_init(void);

/* Does this plan stand above a Gather of Feeds? */
extern bool plan_above_partial_sorts(const CustomScan *cscan);

/* The Feed below a parallel sort's Gather. */
extern PartialSortState *partial_sort_of_gather(GatherState *gather);

/* In the leader, in place of the node's function: a row that says nothing. */
extern TupleTableSlot *partial_sort_announce(PlanState *pstate);

/*
 * In the leader, before there are workers: all participants are to send their rows into a job on a
 * device, if there is one to be had.  given is where it is noted which rows were given out.
 */
extern bool partial_sort_lead(PartialSortState *partial, double rows, double row_bytes, int participants,
					  ReturnedRows *returned);

/* The leader's own share goes there. */
extern void partial_sort_lead_share(PartialSortState *partial);

/* The rows are on the device: sorts them; false if they are lost. */
extern bool partial_sort_lead_sort(PartialSortState *partial);

/* No job any more; what it was is still told. */
extern void partial_sort_lead_end(PartialSortState *partial);

/* In the leader: nobody waits for it any more. */
extern void partial_sort_stop(PartialSortState *partial);

extern const CustomScanMethods partial_sort_scan_methods;

/* explain.c */
extern void partial_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es);
extern void participant_report_fill(ParticipantReport *to, const SortReport *report,
									bool keys_only);

/* ------------------------------------------------------------------------
 * What has become of the workers of a parallel sort.
 * ------------------------------------------------------------------------
 */

/* ------------------------------------------------------------------------
 * The executor node "Custom Scan (GpuSort)" above a Gather of GpuSort Feeds.
 * ------------------------------------------------------------------------
 */

typedef enum ParallelSortPhase
{
	PARALLEL_SORT_NEW,
	PARALLEL_SORT_SERIAL,		/* the leader's rows are all, if there are any */
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
	struct PartialSortState *partial;
	ParallelSortPhase phase;
	MemoryContext cxt;			/* of the merge */
	struct BlockMerge *merge;
	int			nstreams;
	bool		device_failed;	/* it is not tried again */
	bool		on_device;		/* the last execution's rows came from there */
	struct ReturnedRows *returned;	/* when a device is lost */
	ParallelSortPhase resumed;	/* after PARALLEL_SORT_AGAIN */
	TupleTableSlot *row_slot;	/* a row as it lies */
} ParallelSortState;

extern Node *parallel_sort_create_state(void);

/* explain.c */
extern void parallel_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es);

/* ------------------------------------------------------------------------
 * A parallel sort whose rows are all in one job on a device: the leader's part.
 * ------------------------------------------------------------------------
 */

#endif							/* GPUSORT_EXECUTOR_EXECUTOR_INTERNAL_H */
