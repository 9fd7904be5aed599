/*
 * feed.h
 *	  The executor node "Custom Scan (GpuSort Feed)": a participant of a parallel sort.
 */
#ifndef GPUSORT_FEED_H
#define GPUSORT_FEED_H

#include "postgres.h"

#include "compat.h"
#include "key/type/keytype.h"
#include "node/scan/page_scan.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "sort/parallel/exchange.h"
#include "sort/parallel/participant.h"
#include "sort/sorter.h"

/*
 * A sort of many workers is a node more than what it replaces.  A Feed's number, which
 * names its shared memory and its figures, is the Sort's and this; the planner counts its
 * nodes from 0.
 */
#define FEED_NODE_ID	(1 << 30)

typedef struct FeedState
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
	DeviceFeed	device;			/* its job that all send rows to, if it is on; */
	Sink	   *lead;			/* what gives them out: its sorter's; NULL: none; */
	Sorter	   *share;			/* and what sends its own rows there */

	/* and for EXPLAIN */
	int			nreports;		/* workers planned, and the leader last */
	ParticipantReport *reports;
} FeedState;

extern void feed_node_init(void);

/* Does this plan stand above a Gather of Feeds? */
extern bool plan_above_feeds(const CustomScan *cscan);

/* The Feed below a parallel sort's Gather. */
extern FeedState *feed_of_gather(GatherState *gather);

/* In the leader, in place of the node's function: a row that says nothing. */
extern TupleTableSlot *feed_announce(PlanState *pstate);

/*
 * In the leader, before there are workers: all participants are to send their rows into a job on a
 * device, if there is one to be had.  given is where it is noted which rows were given out.
 */
extern bool feed_lead(FeedState *feed, double rows, double row_bytes, int participants,
					  GivenRows *given);

/* The leader's own share goes there. */
extern void feed_lead_share(FeedState *feed);

/* The rows are on the device: sorts them; false if they are lost. */
extern bool feed_lead_sort(FeedState *feed);

/* No job any more; what it was is still told. */
extern void feed_lead_end(FeedState *feed);

/* In the leader: nobody waits for it any more. */
extern void feed_stop(FeedState *feed);

extern const CustomScanMethods feed_scan_methods;

/* explain.c */
extern void feed_explain(CustomScanState *css, List *ancestors, ExplainState *es);
extern void participant_report_fill(ParticipantReport *to, const SortReport *report,
									bool keys_only);

#endif							/* GPUSORT_FEED_H */
