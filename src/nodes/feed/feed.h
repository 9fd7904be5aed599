/*
 * feed.h
 *	  The node GpuSort Feed: a participant of a parallel sort.
 */
#ifndef GPUSORT_NODES_FEED_FEED_H
#define GPUSORT_NODES_FEED_FEED_H

#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/base/plan_format.h"
#include "parallel/parallel.h"
#include "scan/scan.h"
#include "sort/sort.h"

/* Plan node "Custom Scan (GpuSort Feed)". */
extern const NodeType partial_sort_node;

typedef struct PartialSortState
{
	CustomScanState css;
	SortPlan	sort;
	bool		done;			/* all rows are taken and sorted */
	size_t		bound;			/* leader only: rows wanted; 0: all */
	Sorter	   *sorter;
	SortResult *result;			/* result of the last sort */
	PageSource	pages;
	SortSpec	spec;			/* keys_only may change between executions */
	Sink	   *share_sink;		/* of this participant's rows for the device job */

	Exchange   *exchange;		/* NULL: no workers, or the node was shut down */
	int			ring;			/* ring of this worker; -1 in the leader */

	/* leader only */
	bool		leader_participation;	/* the setting at the launch */
	DeviceProducer producer;	/* the job to which all participants send rows */
	Sink	   *device_sink;	/* sink of that job in sorter; NULL: no job */
	Sorter	   *share_sorter;	/* sends the leader's own rows to that job */

	/* for EXPLAIN, after shutdown */
	int			nreports;		/* planned workers + 1; 0: no exchange */
	ParticipantReport *reports; /* by ring; the leader's is the last */
} PartialSortState;

/*
 * ExecProcNode of the leader's partial sort while workers are launched: returns
 * an all-NULL row that the parent discards.
 */
extern TupleTableSlot *partial_sort_exec_dummy(PlanState *pstate);

/*
 * Leader, before workers are launched: opens a device job to which all
 * participants send their rows; false if that is not possible.  *returned notes
 * the rows that the parent returns.
 */
extern bool partial_sort_open_device_job(PartialSortState *partial, double rows, double row_bytes,
										 int participants, ReturnedRows *returned);

/* Leader: sends its own share of the rows to the job. */
extern void partial_sort_send_own_rows(PartialSortState *partial);

/* Leader: all participants have sent these rows to the device; sorts them.  False if the device failed. */
extern bool partial_sort_device_sort(PartialSortState *partial, const DeviceSent *sent_to_device);

/* Leader: ends the job.  Its report stays readable. */
extern void partial_sort_close_device_job(PartialSortState *partial);

/* Leader: stops the exchange, so that no participant waits any more. */
extern void partial_sort_stop(PartialSortState *partial);

#endif							/* GPUSORT_NODES_FEED_FEED_H */
