/*
 * gather_workers.c
 *	  What has become of the workers of a parallel sort.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/execParallel.h"
#include "miscadmin.h"
#include "node/parallel/feed.h"
#include "node/parallel/gather_workers.h"
#include "node/parallel/parallel_sort.h"
#include "postmaster/bgworker.h"

static bool
has_ended(const GatherState *gather, int worker)
{
	pid_t		pid;

	return GetBackgroundWorkerPid(gather->pei->pcxt->worker[worker].bgwhandle, &pid) == BGWH_STOPPED;
}

bool
gather_worker_gone(void *arg, int ring)
{
	ParallelSortState *node = arg;
	GatherState *gather = node->gather;
	bool		gone = false;

	for (int r = 0; r < gather->nworkers_launched; r++)
	{
		if (!has_ended(gather, r))
			continue;
		/* why, it may have told */
		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&node->feed->exchange->rings[r].state) == RING_OPEN)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("lost connection to parallel worker")));
		/* it never came: the Gather will complain in the end; */
		if (pg_atomic_read_u32(&node->feed->exchange->rings[r].state) == RING_UNUSED)
			exchange_absent(node->feed->exchange, r);
		/* or it has ended */
		gone = gone || r == ring;
	}
	return gone;
}

bool
gather_workers_ended(const GatherState *gather)
{
	for (int r = 0; r < gather->nworkers_launched; r++)
	{
		if (!has_ended(gather, r))
			return false;
	}
	return true;
}
