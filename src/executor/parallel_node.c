/*
 * parallel_node.c
 *	  The GpuSort node above a Gather of partial sorts.
 *
 * The Feeds sort, in the workers and maybe in the leader; this node merges what they
 * have sorted.  The Gather launches the workers when it is first asked for a row, and
 * has none for us but one that says nothing (launch()).  The leader's own
 * share is then run directly, and the streams are merged (block_merge.h).  If there are
 * many workers the leader takes no share, as PostgreSQL reckons with, and has the streams of
 * two that merge the others' (exchange.h).  When they have
 * ended the Gather is read to its end, so that workers' errors and figures
 * arrive as under any Gather.
 *
 * With a GPU that is worth it all send their rows there, and the leader gives out what comes back
 * (parallel_device.c).  Should rows be lost with it the Gather is run again without, and those that had
 * been given are passed over.
 *
 * Without workers there is one stream, the leader's, and nothing to merge: its rows
 * come straight from its sort.
 *
 * The node reads forward, once: plans that ask for more keep a Sort (plan/parallel.c).
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "access/htup_details.h"
#include "access/parallel.h"
#include "compat.h"
#include "executor/execParallel.h"
#include "executor/executor.h"
#include "executor/executor_internal.h"
#include "executor/gpusort_executor.h"
#include "executor/nodeSubplan.h"
#include "gpu/gpu.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "parallel/sort_cost.h"
#include "postmaster/bgworker.h"
#include "settings.h"
#include "storage/dsm_impl.h"
#include "utils/memutils.h"

/* Where POSIX shared memory lies, on systems that say so. */
#define POSIX_SHARED_MEMORY		"/dev/shm"

/* What a Gather has of it for a worker: queues, plan, snapshots; and some room. */
#define GATHER_WORKER_BYTES		(256 * 1024)

static void parallel_sort_begin(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *parallel_sort_exec_custom(CustomScanState *css);
static void pick_exec(ParallelSortState *node);
static void parallel_sort_end(CustomScanState *css);
static void parallel_sort_rescan(CustomScanState *css);
static void parallel_sort_shutdown(CustomScanState *css);
static bool next_elsewhere(ParallelSortState *node, TupleTableSlot *slot);

static const CustomExecMethods parallel_sort_exec_methods = {
	.CustomName = "GpuSort",
	.BeginCustomScan = parallel_sort_begin,
	.ExecCustomScan = parallel_sort_exec_custom,
	.EndCustomScan = parallel_sort_end,
	.ReScanCustomScan = parallel_sort_rescan,
	.ShutdownCustomScan = parallel_sort_shutdown,
	.ExplainCustomScan = parallel_sort_explain
};

static bool parallel_device_lead(ParallelSortState *node);
static bool parallel_device_sort(ParallelSortState *node);
static bool gather_worker_gone(void *arg, int ring);
static bool gather_workers_ended(const GatherState *gather);

Node *
parallel_sort_create_state(void)
{
	ParallelSortState *node = (ParallelSortState *) newNode(sizeof(ParallelSortState),
															T_CustomScanState);

	node->css.methods = &parallel_sort_exec_methods;
	return (Node *) node;
}

/* ------------------------------------------------------------------------
 * Streams
 * ------------------------------------------------------------------------
 */

/*
 * The workers' streams that have rows, in the current memory context; returns how many.
 * sources has room for one of each worker.
 */
static int
open_rings(ParallelSortState *node, BlockSource **sources)
{
	int			n = 0;

	for (int r = 0; r < node->gather->nworkers_launched; r++)
	{
		/* not taken yet: it will be the first */
		if (exchange_next_block(node->partial->exchange, r, EXCHANGE_LEADER, false, gather_worker_gone,
								node) != NULL)
			sources[n++] = block_source_ring(node->partial->exchange, r, EXCHANGE_LEADER,
											 gather_worker_gone, node);
	}
	return n;
}

/* Runs the leader's share; true if it has rows. */
static bool
run_own_share(ParallelSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;
	GatherState *gather = node->gather;

	if (!gather->need_to_scan_locally)
		return false;
	/* as the Gather itself would have it */
	estate->es_query_dsa = gather->pei != NULL ? gather->pei->area : NULL;
	(void) ExecProcNode(&node->partial->css.ss.ps);
	estate->es_query_dsa = NULL;
	return sorter_report(node->partial->sorter)->rows > 0;
}

/*
 * Is there room for what the workers would share?  Containers may have little, and to
 * find out by trying would be an error.
 */
static bool
enough_shared_memory(const GatherState *gather)
{
	int			workers = ((const Gather *) gather->ps.plan)->num_workers;
	struct statvfs room;

	if (gather->pei != NULL || dynamic_shared_memory_type != DSM_IMPL_POSIX ||
		statvfs(POSIX_SHARED_MEMORY, &room) != 0)
		return true;
	return (uint64) room.f_bavail * room.f_frsize >
		exchange_size(workers) + (workers + 1) * GATHER_WORKER_BYTES;
}

/*
 * Launches the workers.  A Gather gives the first row that there is, and is not to wait
 * for a worker's, for there is none: the leader's own Feed gives it one, whether its
 * share is to be run or not.  For that the leader takes part as long as the Gather asks.  No
 * function is to see it: the workers set what they are told is wanted (feed.c), and the initplans,
 * which the Gather would evaluate for them, are evaluated before.
 */
static void
launch(ParallelSortState *node)
{
	GatherState *gather = node->gather;
	PlanState  *partial = &node->partial->css.ss.ps;
	ExecProcNodeMtd partial_sort_exec = partial->ExecProcNode;
	bool		participation = parallel_leader_participation;
	EState	   *estate = gather->ps.state;
	bool		parallel = estate->es_use_parallel_mode;
	bool		workers = parallel && enough_shared_memory(gather);

	if (workers && ((const Gather *) gather->ps.plan)->num_workers > 0)
		ExecSetParamPlanMulti(((const Gather *) gather->ps.plan)->initParam,
							  GetPerTupleExprContext(estate));
	node->partial->participation = participation;
	partial->ExecProcNode = partial_sort_announce;
	PG_TRY();
	{
		parallel_leader_participation = true;
		estate->es_use_parallel_mode = workers;
		(void) ExecProcNode(&gather->ps);
	}
	PG_FINALLY();
	{
		parallel_leader_participation = participation;
		estate->es_use_parallel_mode = parallel;
	}
	PG_END_TRY();
	partial->ExecProcNode = partial_sort_exec;
	/* who takes rows: workers may have ended since, and have no readers any more */
	gather->need_to_scan_locally = gather->nworkers_launched == 0 ||
		(participation && gather->nworkers_launched < EXCHANGE_MANY && node->partial->lead == NULL);
	if (node->partial->exchange != NULL)
		exchange_expect(node->partial->exchange, gather->nworkers_launched +
						(gather->need_to_scan_locally || (participation && node->partial->lead != NULL)));
}

/* The rows were lost with the device: all is begun once more, without it. */
static void
begin_again(ParallelSortState *node)
{
	node->device_failed = true;
	partial_sort_lead_end(node->partial);
	partial_sort_stop(node->partial);
	ExecReScan(&node->gather->ps);
}

/* Starts the workers, and gets all streams to their first rows. */
static void
parallel_sort_start(ParallelSortState *node)
{
	MemoryContext old;
	BlockSource **sources;
	bool		own;

	node->partial->bound = sort_node_bound(node->css.ss.ps.ps_ExprContext, node->limit_count,
										node->limit_offset);
	node->on_device = false;
	if (parallel_device_lead(node))
	{
		launch(node);
		if (node->gather->nworkers_launched > 0 && parallel_device_sort(node))
			return;
		if (node->gather->nworkers_launched > 0)
		{
			begin_again(node);
			launch(node);
		}
		else
		{
			partial_sort_lead_end(node->partial);
			if (node->partial->exchange != NULL)
				node->partial->exchange->device.on = false;
		}
	}
	else
		launch(node);
	own = run_own_share(node);

	old = MemoryContextSwitchTo(node->cxt);
	sources = palloc((node->gather->nworkers_launched + 1) * sizeof(BlockSource *));
	node->nstreams = open_rings(node, sources);
	if (node->nstreams > 0)
	{
		/* who has rows to give knows it */
		const CommonKeyRange *common_range = exchange_common_range(node->partial->exchange, node->keys, node->nkeys);

		if (own)
			sources[node->nstreams++] = block_source_own(&node->partial->spec, common_range,
														 node->partial->result);
		node->merge = block_merge_create(&node->partial->spec, common_range, sources, node->nstreams);
		node->phase = PARALLEL_SORT_MERGE;
	}
	else
	{
		node->nstreams = own ? 1 : 0;
		node->phase = PARALLEL_SORT_SERIAL;
	}
	MemoryContextSwitchTo(old);
}

/*
 * For EXPLAIN: the Gather's rows are those that this node has returned, until now, in place of the
 * row that says nothing.
 */
static void
count_gather(ParallelSortState *node)
{
	PlanState  *own = &node->css.ss.ps;
	PlanState  *gather = &node->gather->ps;

	if (own->instrument != NULL && gather->instrument != NULL)
		InstrUpdateTupleCount(gather->instrument,
							  own->instrument->ntuples + own->instrument->tuplecount -
							  gather->instrument->ntuples - gather->instrument->tuplecount);
}

/* All rows were given out: the workers end. */
static void
parallel_sort_finish(ParallelSortState *node)
{
	PlanState  *gather = &node->gather->ps;

	node->phase = PARALLEL_SORT_END;
	pick_exec(node);
	while (!TupIsNull(ExecProcNode(gather)))
		;						/* there is none */
	count_gather(node);
}

/* Puts the next row into the slot; false at the end. */
static inline bool
parallel_sort_next(ParallelSortState *node, TupleTableSlot *slot)
{
	if (likely(node->phase == PARALLEL_SORT_MERGE))
	{
		MinimalTuple row = block_merge_next(node->merge);

		if (unlikely(row == NULL))
			return false;
		row_to_slot(slot, row);
		return true;
	}
	if (likely(node->phase == PARALLEL_SORT_DEVICE) &&
		likely(result_next(node->partial->result, RESULT_STREAM, true, slot)))
		return true;
	return next_elsewhere(node, slot);
}

/* Puts the next row that was not given before into the slot; false at the end. */
static bool
next_again(ParallelSortState *node, TupleTableSlot *slot)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		node->phase = node->resumed;
		if (!returned_rows_left(node->returned))
		{
			pick_exec(node);
			return parallel_sort_next(node, slot);
		}
		if (!parallel_sort_next(node, slot))
			sort_wrong_beginning();
		node->phase = PARALLEL_SORT_AGAIN;
		if (!returned_rows_was(node->returned, ((MinimalTupleTableSlot *) slot)->mintuple))
			return true;
	}
}

/* There is no next row, or it was lost with the device: then the rest comes from a sort without it. */
static bool
after_device(ParallelSortState *node, TupleTableSlot *slot)
{
	if (!sorter_failed(node->partial->sorter))
		return false;
	ExecClearTuple(slot);
	returned_rows_begin(node->returned);
	begin_again(node);
	parallel_sort_start(node);
	node->resumed = node->phase;
	node->phase = PARALLEL_SORT_AGAIN;
	pick_exec(node);
	return next_again(node, slot);
}

/* The same where there is more to it. */
static pg_noinline bool
next_elsewhere(ParallelSortState *node, TupleTableSlot *slot)
{
	switch (node->phase)
	{
		case PARALLEL_SORT_NEW:
			parallel_sort_start(node);
			pick_exec(node);
			return parallel_sort_next(node, slot);
		case PARALLEL_SORT_SERIAL:
			return node->nstreams > 0 && result_next(node->partial->result, RESULT_PLAIN, true, slot);
		case PARALLEL_SORT_DEVICE:
			return after_device(node, slot);
		case PARALLEL_SORT_AGAIN:
			return next_again(node, slot);
		case PARALLEL_SORT_MERGE:
		case PARALLEL_SORT_END:
			break;
	}
	return false;
}

static TupleTableSlot *
parallel_sort_exec(PlanState *pstate)
{
	ParallelSortState *node = (ParallelSortState *) pstate;
	TupleTableSlot *slot = node->row_slot;

	CHECK_FOR_INTERRUPTS();
	if (likely(parallel_sort_next(node, slot)))
		return slot;
	ExecClearTuple(slot);
	if (node->phase != PARALLEL_SORT_END)
		parallel_sort_finish(node);
	return slot;
}

/* The same while rows are merged, or come from a device: those that are there take no question. */
static TupleTableSlot *
parallel_sort_exec_merge(PlanState *pstate)
{
	ParallelSortState *node = (ParallelSortState *) pstate;
	BlockMerge *merge = node->merge;
	TupleTableSlot *slot = node->row_slot;

	if (unlikely(!block_merge_ready(merge)))
		return parallel_sort_exec(pstate);
	row_to_slot(slot, block_merge_take(merge));
	return slot;
}

static TupleTableSlot *
parallel_sort_exec_device(PlanState *pstate)
{
	ParallelSortState *node = (ParallelSortState *) pstate;
	RowStream  *stream = &((StreamResult *) node->partial->result)->stream;
	TupleTableSlot *slot = node->row_slot;
	MinimalTuple row;

	/* interrupts are looked for now and then */
	if (unlikely(stream->left % MERGE_BATCH == 0 || (row = row_stream_next(stream)) == NULL))
		return parallel_sort_exec(pstate);
	row_to_slot(slot, row);
	return slot;
}

/* From now on the executor calls the function for this phase; where rows are projected there is one for all. */
static void
pick_exec(ParallelSortState *node)
{
	PlanState  *pstate = &node->css.ss.ps;

	if (pstate->ps_ProjInfo == NULL)
		ExecSetExecProcNode(pstate, node->phase == PARALLEL_SORT_MERGE ? parallel_sort_exec_merge :
							node->phase == PARALLEL_SORT_DEVICE ? parallel_sort_exec_device :
							parallel_sort_exec);
}

/* The same where the Gather Merge in our place computed something. */
static TupleTableSlot *
parallel_sort_exec_project(PlanState *pstate)
{
	ExprContext *econtext = pstate->ps_ExprContext;
	TupleTableSlot *slot = parallel_sort_exec(pstate);

	if (TupIsNull(slot))
		return ExecClearTuple(pstate->ps_ResultTupleSlot);
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	return ExecProject(pstate->ps_ProjInfo);
}

static TupleTableSlot *
parallel_sort_exec_custom(CustomScanState *css)
{
	return css->ss.ps.ExecProcNode(&css->ss.ps);
}

static void
parallel_sort_begin(CustomScanState *css, EState *estate, int eflags)
{
	ParallelSortState *node = (ParallelSortState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	TupleDesc	desc;

	node->keys = gpusort_plan_keys(cscan, &node->nkeys);
	gpusort_plan_limit(cscan, &css->ss.ps, &node->limit_count, &node->limit_offset);

	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	node->gather = castNode(GatherState, outerPlanState(css));
	node->partial = partial_sort_of_gather(node->gather);
	desc = ExecGetResultType(outerPlanState(css));
	node->cxt = AllocSetContextCreate(estate->es_query_cxt, "GpuSort merge",
									  ALLOCSET_DEFAULT_SIZES);

	node->returned = returned_rows_create();
	/* rows are given as they lie */
	if (css->ss.ps.ps_ProjInfo == NULL)
	{
		ExecInitResultSlot(&css->ss.ps, &TTSOpsMinimalTuple);
		node->row_slot = css->ss.ps.ps_ResultTupleSlot;
		css->ss.ps.ExecProcNode = parallel_sort_exec;
	}
	else
	{
		compat_init_scan_slot(estate, &css->ss, desc, &TTSOpsMinimalTuple);
		ExecAssignScanProjectionInfoWithVarno(&css->ss, INDEX_VAR);
		node->row_slot = css->ss.ss_ScanTupleSlot;
		css->ss.ps.ExecProcNode = parallel_sort_exec_project;
	}
}

static void
parallel_sort_end(CustomScanState *css)
{
	ParallelSortState *node = (ParallelSortState *) css;

	ExecClearTuple(node->row_slot);
	returned_rows_reset(node->returned);
	ExecEndNode(outerPlanState(css));
}

static void
parallel_sort_rescan(CustomScanState *css)
{
	ParallelSortState *node = (ParallelSortState *) css;
	PlanState  *outer = outerPlanState(css);

	/* not begun: the Gather, if it must, is rescanned on its first call */
	if (node->phase == PARALLEL_SORT_NEW)
		return;
	ExecClearTuple(node->row_slot);
	count_gather(node);
	partial_sort_stop(node->partial);
	if (node->partial->lead != NULL)
		partial_sort_lead_end(node->partial);
	returned_rows_reset(node->returned);
	MemoryContextReset(node->cxt);
	node->merge = NULL;
	node->phase = PARALLEL_SORT_NEW;
	pick_exec(node);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* The Gather has been shut down, and its memory is gone. */
static void
parallel_sort_shutdown(CustomScanState *css)
{
	ParallelSortState *node = (ParallelSortState *) css;

	if (node->phase != PARALLEL_SORT_NEW)
		count_gather(node);
	if (node->phase == PARALLEL_SORT_MERGE || node->phase == PARALLEL_SORT_AGAIN ||
		node->phase == PARALLEL_SORT_DEVICE)
	{
		ExecClearTuple(node->row_slot);
		node->phase = PARALLEL_SORT_END;
		pick_exec(node);
	}
}

/* ------------------------------------------------------------------------
 * A parallel sort whose rows are all in one job on a device: the leader's part.
 *
 * It opens the job (sort/device/rows/device_feed.c), sends its own share of the rows, waits for the workers'
 * and gives the job more room if they need it; parallel_sort.c gives the rows out, or has the Gather run
 * again if they are lost.
 * ------------------------------------------------------------------------
 */

/*
 * Before there are workers: opens a job for their rows, if that is quicker, or is wanted by
 * gpusort.algorithm.
 */
static bool
parallel_device_lead(ParallelSortState *node)
{
	const Gather *gather = (const Gather *) node->gather->ps.plan;
	const Algorithm *forced = gpusort_forced_algorithm();
	int			participants = gather->num_workers + (parallel_leader_participation ? 1 : 0);
	SortCostFacts facts = {0};

	facts.rows = Max(gather->plan.plan_rows, 2);
	facts.row_bytes = MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(gather->plan.plan_width);
	facts.bound = node->partial->bound;
	facts.keys = node->keys;
	facts.nkeys = node->nkeys;
	/* what is lost with the device must come once more; and a pause would hold it */
	if (node->device_failed || gather->num_workers == 0 ||
		!node->gather->ps.state->es_use_parallel_mode || gpusort_verify || device_may_pause() ||
		!sort_cost_producers(&facts, gather->num_workers, parallel_leader_participation, forced != NULL) ||
		!plan_can_rerun_shared(outerPlanState(&node->partial->css.ss.ps)))
		return false;
	return partial_sort_lead(node->partial, facts.rows, facts.row_bytes, participants, node->returned);
}

/* The leader's rows. */
static void
send_own_share(ParallelSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;

	/* as the Gather would have it */
	estate->es_query_dsa = node->gather->pei->area;
	partial_sort_lead_share(node->partial);
	estate->es_query_dsa = NULL;
}

static bool
serve_device(void *arg)
{
	ParallelSortState *node = arg;

	(void) gather_worker_gone(node, 0);
	return !gather_workers_ended(node->gather) && producer_serve(node->partial->lead);
}

/*
 * The workers have been launched: waits for their rows, and has them sorted.  False if they
 * are lost; otherwise the node's phase says where they are.
 */
static bool
parallel_device_sort(ParallelSortState *node)
{
	Exchange   *ex = node->partial->exchange;
	DeviceSent	sent_to_device;

	if (parallel_leader_participation)
		send_own_share(node);
	if (!exchange_wait_sent(ex, serve_device, node))
	{
		/* a worker may have seen before us that the device has failed: it is for us to say so */
		(void) producer_serve(node->partial->lead);
		return false;
	}
	exchange_sent(ex, &sent_to_device);
	node->nstreams = 0;
	node->on_device = true;
	if (sent_to_device.rows == 0)
	{
		partial_sort_lead_end(node->partial);
		node->phase = PARALLEL_SORT_SERIAL;
	}
	else if (partial_sort_lead_sort(node->partial))
		node->phase = PARALLEL_SORT_DEVICE;
	else
		return false;
	return true;
}

/* ------------------------------------------------------------------------
 * What has become of the workers of a parallel sort.
 * ------------------------------------------------------------------------
 */

static bool
has_ended(const GatherState *gather, int worker)
{
	pid_t		pid;

	return GetBackgroundWorkerPid(gather->pei->pcxt->worker[worker].bgwhandle, &pid) == BGWH_STOPPED;
}

/*
 * An ExchangeGone, whose argument is a ParallelSortState: has the worker of this ring ended, or
 * another that it may wait for, without a word?  An ERROR if one was taking rows.
 */
static bool
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
		if (pg_atomic_read_u32(&node->partial->exchange->rings[r].state) == RING_OPEN)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("lost connection to parallel worker")));
		/* it never came: the Gather will complain in the end; */
		if (pg_atomic_read_u32(&node->partial->exchange->rings[r].state) == RING_UNUSED)
			exchange_absent(node->partial->exchange, r);
		/* or it has ended */
		gone = gone || r == ring;
	}
	return gone;
}

/* Have all that were launched ended? */
static bool
gather_workers_ended(const GatherState *gather)
{
	for (int r = 0; r < gather->nworkers_launched; r++)
	{
		if (!has_ended(gather, r))
			return false;
	}
	return true;
}
