/*
 * parallel_device.c
 *	  A parallel sort whose rows are all in one job on a device: the leader's part.
 *
 * It opens the job (sort/device/rows/device_feed.c), sends its own share of the rows, waits for the workers'
 * and gives the job more room if they need it; parallel_sort.c gives the rows out, or has the Gather run
 * again if they are lost.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/execParallel.h"
#include "miscadmin.h"
#include "node/device_pause.h"
#include "node/parallel/feed.h"
#include "node/parallel/gather_workers.h"
#include "node/parallel/parallel_device.h"
#include "node/rerun.h"
#include "optimizer/optimizer.h"
#include "settings.h"
#include "sort/sort_cost.h"

bool
parallel_device_lead(ParallelSortState *node)
{
	const Gather *gather = (const Gather *) node->gather->ps.plan;
	const Algorithm *forced = gpusort_forced_algorithm();
	int			participants = gather->num_workers + (parallel_leader_participation ? 1 : 0);
	SortCostFacts facts = {0};

	facts.rows = Max(gather->plan.plan_rows, 2);
	facts.row_bytes = MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(gather->plan.plan_width);
	facts.bound = node->feed->bound;
	facts.keys = node->keys;
	facts.nkeys = node->nkeys;
	/* what is lost with the device must come once more; and a pause would hold it */
	if (node->device_failed || gather->num_workers == 0 ||
		!node->gather->ps.state->es_use_parallel_mode || gpusort_verify || device_may_pause() ||
		!sort_cost_feeds(&facts, gather->num_workers, parallel_leader_participation, forced != NULL) ||
		!plan_can_rerun_shared(outerPlanState(&node->feed->css.ss.ps)))
		return false;
	return feed_lead(node->feed, facts.rows, facts.row_bytes, participants, node->given);
}

/* The leader's rows. */
static void
send_own_share(ParallelSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;

	/* as the Gather would have it */
	estate->es_query_dsa = node->gather->pei->area;
	feed_lead_share(node->feed);
	estate->es_query_dsa = NULL;
}

static bool
attend_device(void *arg)
{
	ParallelSortState *node = arg;

	(void) gather_worker_gone(node, 0);
	return !gather_workers_ended(node->gather) && device_feed_attend(node->feed->lead);
}

bool
parallel_device_sort(ParallelSortState *node)
{
	Exchange   *ex = node->feed->exchange;
	DeviceFed	fed;

	if (parallel_leader_participation)
		send_own_share(node);
	if (!exchange_wait_fed(ex, attend_device, node))
	{
		/* a worker may have seen before us that the device has failed: it is for us to say so */
		(void) device_feed_attend(node->feed->lead);
		return false;
	}
	exchange_fed(ex, &fed);
	node->nstreams = 0;
	node->on_device = true;
	if (fed.rows == 0)
	{
		feed_lead_end(node->feed);
		node->phase = PARALLEL_SORT_ALONE;
	}
	else if (feed_lead_sort(node->feed))
		node->phase = PARALLEL_SORT_DEVICE;
	else
		return false;
	return true;
}
