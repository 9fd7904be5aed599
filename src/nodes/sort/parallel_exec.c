/*
 * parallel_exec.c
 *	  The executor node "Custom Scan (GpuSort)" above a Gather of partial sorts.
 *
 * The partial sorts run in the workers and maybe in the leader; this node merges
 * their sorted rows.  When the workers are launched, the leader's own share is
 * sorted directly, and the participants' streams are merged (merge_tree.c).  If
 * there are many workers and no LIMIT of few rows, the leader takes no share and
 * reads two streams: two workers merge the streams of all workers (exchange.c).
 * After the last row Gather is read to its end, so that the workers' errors and
 * instrumentation arrive as under any Gather.
 *
 * Without workers there is at most one stream, the leader's, and nothing to
 * merge: its rows come directly from its sort.
 *
 * If the cost model prefers a GPU, the leader opens a device job
 * (gpu/producer.c), all participants send their rows there, and the leader
 * returns the sorted rows.  If the device fails, Gather is run again without it,
 * and rows that were returned before are skipped.
 *
 * Rows that consist of their sort keys are sent as keys (parallel/key_block.c).
 *
 * With distinct columns the participants and the merge drop duplicates.  Those that
 * remain in rows from a GPU are dropped here (DistinctFilter).
 *
 * The node is read forward and once.  In plans that need more, the planner keeps
 * a serial sort.
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "access/htup_details.h"
#include "access/parallel.h"
#include "compat.h"
#include "executor/execParallel.h"
#include "executor/executor.h"
#include "executor/nodeSubplan.h"
#include "gpu/gpu.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/distinct_filter.h"
#include "nodes/base/explain_sort.h"
#include "nodes/base/pause.h"
#include "nodes/base/plan_format.h"
#include "nodes/base/rerun.h"
#include "nodes/feed/feed.h"
#include "nodes/sort/sort_state.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "postmaster/bgworker.h"
#include "settings.h"
#include "storage/dsm_impl.h"
#include "utils/memutils.h"

/* File system of POSIX shared memory, on systems that have one. */
#define POSIX_SHARED_MEMORY		"/dev/shm"

/* Shared memory of a Gather for each worker: queues, plan, snapshots, and a margin. */
#define GATHER_WORKER_BYTES		(256 * 1024)

static void choose_exec(ParallelSortState *node);
static bool next_other_phase(ParallelSortState *node, TupleTableSlot *slot);

/* ------------------------------------------------------------------------
 * Workers
 * ------------------------------------------------------------------------
 */

/* Has a launched worker ended? */
static bool
worker_has_ended(const GatherState *gather, int worker)
{
	pid_t		pid;

	return GetBackgroundWorkerPid(gather->pei->pcxt->worker[worker].bgwhandle, &pid) == BGWH_STOPPED;
}

/*
 * ExchangeWorkerGone callback: has the worker of this ring ended?  Marks workers
 * that ended without beginning as absent.  An ERROR if a worker ended while it
 * had rows to write.
 */
static bool
gather_worker_gone(void *arg, int ring)
{
	ParallelSortState *node = arg;
	GatherState *gather = node->gather;
	bool		gone = false;

	for (int r = 0; r < gather->nworkers_launched; r++)
	{
		if (!worker_has_ended(gather, r))
			continue;
		/* reports the worker's own error, if it sent one */
		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&node->partial->exchange->rings[r].state) == RING_OPEN)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("lost connection to parallel worker")));
		/* the worker never began: Gather reports that at its end */
		if (pg_atomic_read_u32(&node->partial->exchange->rings[r].state) == RING_UNUSED)
			exchange_absent(node->partial->exchange, r);
		gone = gone || r == ring;
	}
	return gone;
}

/* Have all launched workers ended? */
static bool
gather_workers_ended(const GatherState *gather)
{
	for (int r = 0; r < gather->nworkers_launched; r++)
	{
		if (!worker_has_ended(gather, r))
			return false;
	}
	return true;
}

/*
 * Is there enough shared memory for the exchange?  Containers may have little,
 * and a failed allocation would be an error.
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
 * Launches the workers.  Gather launches them when it is asked for a tuple, and
 * returns the first tuple of any participant.  The workers send no tuples, so
 * the leader's partial sort returns a dummy tuple.  For that
 * parallel_leader_participation is on during the call; the workers inherit it
 * and set it back (partial_sort_init_worker()).  User functions must not see the
 * changed setting, so the initplans that Gather would evaluate for the workers
 * are evaluated before.
 */
static void
launch_workers(ParallelSortState *node)
{
	GatherState *gather = node->gather;
	PlanState  *partial = &node->partial->css.ss.ps;
	ExecProcNodeMtd partial_sort_exec = partial->ExecProcNode;
	bool		participation = parallel_leader_participation;
	EState	   *estate = gather->ps.state;
	bool		parallel = estate->es_use_parallel_mode;
	bool		workers = parallel && enough_shared_memory(gather);
	bool		on_device;

	if (workers && ((const Gather *) gather->ps.plan)->num_workers > 0)
		ExecSetParamPlanMulti(((const Gather *) gather->ps.plan)->initParam,
							  GetPerTupleExprContext(estate));
	node->partial->leader_participation = participation;
	partial->ExecProcNode = partial_sort_exec_dummy;
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
	on_device = node->partial->device_sink != NULL;

	/* nworkers_launched, because nreaders does not count workers that have ended */
	gather->need_to_scan_locally = gather->nworkers_launched == 0 ||
		(!on_device && exchange_participants(gather->nworkers_launched, node->partial->bound) >
		 gather->nworkers_launched);
	if (node->partial->exchange != NULL)
		exchange_expect(node->partial->exchange, gather->nworkers_launched +
						(gather->need_to_scan_locally || (participation && on_device)));
}

/* ------------------------------------------------------------------------
 * Streams on the CPU
 * ------------------------------------------------------------------------
 */

/* Sorts the leader's own share; true if it has rows. */
static bool
run_own_share(ParallelSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;
	GatherState *gather = node->gather;

	if (!gather->need_to_scan_locally)
		return false;
	/* as Gather sets it around its child */
	estate->es_query_dsa = gather->pei != NULL ? gather->pei->area : NULL;
	(void) ExecProcNode(&node->partial->css.ss.ps);
	estate->es_query_dsa = NULL;
	return node->partial->sorter->report->rows > 0;
}

/* ------------------------------------------------------------------------
 * Streams from a device
 * ------------------------------------------------------------------------
 */

/*
 * Before workers are launched: opens a device job for all participants' rows, if
 * that is quicker or demanded by gpusort.algorithm.
 */
static bool
parallel_sort_open_device_job(ParallelSortState *node)
{
	const Gather *gather = (const Gather *) node->gather->ps.plan;
	const Algorithm *forced = gpusort_forced_algorithm();
	int			participants = gather->num_workers + (parallel_leader_participation ? 1 : 0);
	SortCostFacts facts = {0};

	facts.rows = Max(gather->plan.plan_rows, 2);
	facts.row_bytes = MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(gather->plan.plan_width);
	facts.bound = node->partial->bound;
	facts.keys = node->sort.keys;
	facts.nkeys = node->sort.nkeys;
	facts.keys_only = node->keys_only;
	facts.compares = node->compares;
	if (node->partial->spec.distinct > 0)
		facts.groups = node->partial->spec.groups > 0 ? node->partial->spec.groups : facts.rows;

	/*
	 * The child must be repeatable, in case the device fails, and the run
	 * must not pause while it holds the device.
	 */
	if (node->device_failed || gather->num_workers == 0 ||
		!node->gather->ps.state->es_use_parallel_mode || gpusort_verify || device_may_pause() ||
		!sort_cost_prefers_device(&facts, gather->num_workers, forced != NULL) ||
		!plan_can_rerun(outerPlanState(&node->partial->css.ss.ps), true))
		return false;
	return partial_sort_open_device_job(node->partial, facts.rows, facts.row_bytes, participants,
										&node->returned);
}

/* ExchangeServe callback: grows the job if it needs more room. */
static bool
serve_device(void *arg)
{
	ParallelSortState *node = arg;

	(void) gather_worker_gone(node, 0);
	return !gather_workers_ended(node->gather) && producer_serve(node->partial->device_sink);
}

/*
 * After workers were launched: waits for all rows and sorts them on the device.
 * False if the device failed; otherwise sets the node's phase.
 */
static bool
parallel_sort_on_device(ParallelSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;
	Exchange   *ex = node->partial->exchange;
	DeviceSent	sent_to_device;

	if (parallel_leader_participation)
	{
		/* as Gather sets it around its child */
		estate->es_query_dsa = node->gather->pei->area;
		partial_sort_send_own_rows(node->partial);
		estate->es_query_dsa = NULL;
	}
	if (!exchange_wait_all(ex, serve_device, node))
	{
		/* a worker may have noticed the failure first: the leader reports it */
		(void) producer_serve(node->partial->device_sink);
		return false;
	}
	exchange_sent(ex, &sent_to_device);
	node->nstreams = 0;
	node->on_device = true;
	if (sent_to_device.rows == 0)
	{
		partial_sort_close_device_job(node->partial);
		node->phase = PARALLEL_SORT_SERIAL;
	}
	else if (partial_sort_device_sort(node->partial, &sent_to_device))
		node->phase = PARALLEL_SORT_DEVICE;
	else
		return false;
	return true;
}

/* ------------------------------------------------------------------------
 * Returning rows
 * ------------------------------------------------------------------------
 */

/* The device failed: prepares a second run without it. */
static void
restart_without_device(ParallelSortState *node)
{
	node->device_failed = true;
	partial_sort_close_device_job(node->partial);
	partial_sort_stop(node->partial);
	ExecReScan(&node->gather->ps);
}

/* Launches the workers and waits until all streams have their first rows. */
static void
parallel_sort_start(ParallelSortState *node)
{
	MemoryContext old;
	BlockSource **sources;
	bool		launched;
	bool		own;

	node->partial->bound = sort_plan_bound(&node->sort, &node->css);
	node->on_device = false;
	node->partial->spec.keys_only = false;
	launched = parallel_sort_open_device_job(node);
	if (launched)
	{
		launch_workers(node);
		if (node->gather->nworkers_launched > 0 && parallel_sort_on_device(node))
			return;
		if (node->gather->nworkers_launched > 0)
		{
			restart_without_device(node);
			launched = false;
		}
		else
		{
			partial_sort_close_device_job(node->partial);
			if (node->partial->exchange != NULL)
				node->partial->exchange->producer.on = false;
		}
	}
	if (!launched)
	{
		/* rows that were returned before are recognized among rows */
		node->partial->spec.keys_only = node->keys_only && !returned_rows_pending(&node->returned);
		launch_workers(node);
	}
	/* without workers the rows come directly from the leader's sort */
	if (node->gather->nworkers_launched == 0)
		node->partial->spec.keys_only = false;
	own = run_own_share(node);

	old = MemoryContextSwitchTo(node->cxt);
	sources = palloc((node->gather->nworkers_launched + 1) * sizeof(BlockSource *));
	node->nstreams = exchange_open_streams(node->partial->exchange, node->gather->nworkers_launched,
										   gather_worker_gone, node, sources);
	if (node->nstreams > 0 || (own && node->partial->spec.keys_only))
	{
		/* a ring has rows only after the barrier */
		const CommonKeyRange *common_range = exchange_common_range(node->partial->exchange,
																   node->sort.keys, node->sort.nkeys);

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
 * For EXPLAIN: sets the Gather's row count to the rows that this node has
 * returned, in place of the dummy row.
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

/* No row follows.  Waits for the workers to end, and returns the empty slot. */
static TupleTableSlot *
parallel_sort_finish(ParallelSortState *node)
{
	PlanState  *gather = &node->gather->ps;

	ExecClearTuple(node->row_slot);
	if (node->phase == PARALLEL_SORT_END)
		return node->row_slot;
	if (node->resumes && returned_rows_pending(&node->returned))
		sort_wrong_beginning();
	node->phase = PARALLEL_SORT_END;
	choose_exec(node);
	while (!TupIsNull(ExecProcNode(gather)))
		;						/* Gather returns no rows */
	count_gather(node);
	return node->row_slot;
}

/* Puts the next row into the slot; false at the end. */
static inline bool
parallel_sort_next(ParallelSortState *node, TupleTableSlot *slot)
{
	if (likely(node->phase == PARALLEL_SORT_MERGE))
	{
		MinimalTuple row = merge_tree_next(node->merge);

		if (unlikely(row == NULL))
			return false;
		row_to_slot(slot, row);
		return true;
	}
	if (likely(node->phase == PARALLEL_SORT_DEVICE) &&
		likely(result_next(node->partial->result, RESULT_STREAM, true, slot)))
		return true;
	return next_other_phase(node, slot);
}

/* The device has no next row: the end, or a failure.  After a failure begins the second run. */
static bool
next_after_device(ParallelSortState *node, TupleTableSlot *slot)
{
	if (!sorter_failed(node->partial->sorter))
		return false;
	ExecClearTuple(slot);
	/* if the rows from the device contain duplicates, the second run must not drop them */
	if (node->partial->result->duplicates)
		node->partial->spec.distinct = 0;
	returned_rows_begin(&node->returned);
	restart_without_device(node);
	node->resumes = true;
	parallel_sort_start(node);
	choose_exec(node);
	return parallel_sort_next(node, slot);
}

/* parallel_sort_next() in all phases but MERGE; in DEVICE only at the end of the rows. */
static pg_noinline bool
next_other_phase(ParallelSortState *node, TupleTableSlot *slot)
{
	switch (node->phase)
	{
		case PARALLEL_SORT_NEW:
			parallel_sort_start(node);
			choose_exec(node);
			return parallel_sort_next(node, slot);
		case PARALLEL_SORT_SERIAL:
			return node->nstreams > 0 && result_next(node->partial->result, RESULT_PLAIN, true, slot);
		case PARALLEL_SORT_DEVICE:
			return next_after_device(node, slot);
		case PARALLEL_SORT_MERGE:
		case PARALLEL_SORT_END:
			break;
	}
	return false;
}

/* Is the row neither a duplicate nor, in a second run, a row that was returned before? */
static bool
row_is_new(ParallelSortState *node, TupleTableSlot *slot)
{
	if (node->resumes && returned_rows_pending(&node->returned))
	{
		if (returned_rows_skip(&node->returned, slot_minimal_tuple(slot)))
			return false;
	}
	else if (node->resumes)
	{
		node->resumes = false;
		choose_exec(node);
	}
	return !node->filters || distinct_filter_pass(node->filter, slot);
}

static TupleTableSlot *
parallel_sort_exec(PlanState *pstate)
{
	ParallelSortState *node = (ParallelSortState *) pstate;
	TupleTableSlot *slot = node->row_slot;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (unlikely(!parallel_sort_next(node, slot)))
			return parallel_sort_finish(node);
	} while (unlikely(node->filters || node->resumes) && !row_is_new(node, slot));
	return slot;
}

/* The next row while rows are merged: a short path for rows that are ready. */
static TupleTableSlot *
parallel_sort_exec_merge(PlanState *pstate)
{
	ParallelSortState *node = (ParallelSortState *) pstate;
	MergeTree  *merge = node->merge;
	TupleTableSlot *slot = node->row_slot;

	if (unlikely(merge->next == merge->end))
		return parallel_sort_exec(pstate);
	row_to_slot(slot, merge_tree_next(merge));
	return slot;
}

/* Every row of this number from a device takes the long path, which checks for interrupts. */
#define ROWS_PER_SHORT_PATH	128

/* The next row while rows come from a device: a short path for rows of the current chunk. */
static TupleTableSlot *
parallel_sort_exec_device(PlanState *pstate)
{
	ParallelSortState *node = (ParallelSortState *) pstate;
	RowStream  *stream = &((StreamResult *) node->partial->result)->stream;
	TupleTableSlot *slot = node->row_slot;
	MinimalTuple row;

	if (unlikely(stream->left % ROWS_PER_SHORT_PATH == 0 || (row = row_stream_next(stream)) == NULL))
		return parallel_sort_exec(pstate);
	row_to_slot(slot, row);
	return slot;
}

/* May the rows of this phase be equal to the row before in the distinct columns? */
static bool
phase_has_duplicates(const ParallelSortState *node)
{
	const PartialSortState *partial = node->partial;

	if (node->sort.distinct == 0)
		return false;
	/* a second run returns the duplicates of the first one again */
	if (partial->spec.distinct == 0)
		return true;
	return (node->phase == PARALLEL_SORT_DEVICE || (node->phase == PARALLEL_SORT_SERIAL && node->nstreams > 0)) &&
		partial->result->duplicates;
}

/* Makes the executor call the function for this phase; with a projection there is only one. */
static void
choose_exec(ParallelSortState *node)
{
	PlanState  *pstate = &node->css.ss.ps;

	node->filters = phase_has_duplicates(node);
	if (node->filters && node->filter == NULL)
		node->filter = distinct_filter_create(&node->css, &node->sort);
	if (pstate->ps_ProjInfo == NULL)
		ExecSetExecProcNode(pstate, node->filters || node->resumes ? parallel_sort_exec :
							node->phase == PARALLEL_SORT_MERGE ? parallel_sort_exec_merge :
							node->phase == PARALLEL_SORT_DEVICE ? parallel_sort_exec_device : parallel_sort_exec);
}

/* The next row with the projection of the Gather Merge that this node replaces. */
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

static void
parallel_sort_begin(CustomScanState *css, EState *estate, int eflags)
{
	ParallelSortState *node = (ParallelSortState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	TupleDesc	desc;

	sort_plan_read(&node->sort, css);
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	node->gather = castNode(GatherState, outerPlanState(css));
	node->partial = (PartialSortState *) outerPlanState(node->gather);
	Assert(node->partial->css.methods == &partial_sort_node.exec);
	desc = ExecGetResultType(outerPlanState(css));
	node->keys_only = node->sort.limit_count == NULL && node->sort.limit_offset == NULL &&
		keys_only_possible(desc, node->sort.keys, node->sort.nkeys);
	node->cxt = AllocSetContextCreate(estate->es_query_cxt, "GpuSort merge",
									  ALLOCSET_DEFAULT_SIZES);

	node->returned.cxt = estate->es_query_cxt;
	/* without a projection, rows are returned where they lie */
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
	returned_rows_reset(&node->returned);
	ExecEndNode(outerPlanState(css));
}

static void
parallel_sort_rescan(CustomScanState *css)
{
	ParallelSortState *node = (ParallelSortState *) css;
	PlanState  *outer = outerPlanState(css);

	/* before the start, ExecProcNode() rescans a Gather with changed parameters */
	if (node->phase == PARALLEL_SORT_NEW)
		return;
	ExecClearTuple(node->row_slot);
	count_gather(node);
	partial_sort_stop(node->partial);
	if (node->partial->device_sink != NULL)
		partial_sort_close_device_job(node->partial);
	returned_rows_reset(&node->returned);
	MemoryContextReset(node->cxt);
	node->merge = NULL;
	if (node->filter != NULL)
		distinct_filter_reset(node->filter);
	node->phase = PARALLEL_SORT_NEW;
	node->resumes = false;
	choose_exec(node);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* The Gather below was shut down before this node, and its shared memory is gone. */
static void
parallel_sort_shutdown(CustomScanState *css)
{
	ParallelSortState *node = (ParallelSortState *) css;

	if (node->phase != PARALLEL_SORT_NEW)
		count_gather(node);
	if (node->phase == PARALLEL_SORT_MERGE || node->phase == PARALLEL_SORT_DEVICE)
	{
		ExecClearTuple(node->row_slot);
		node->phase = PARALLEL_SORT_END;
		choose_exec(node);
	}
}

static void
parallel_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	ParallelSortState *node = (ParallelSortState *) css;

	explain_keys(css, &node->sort, 0, ancestors, es);
	if (!es->analyze || node->phase == PARALLEL_SORT_NEW)
		return;
	if (node->on_device)
	{
		explain_sort(css, node->partial->sorter->report, false, node->filter, es);
		return;
	}
	ExplainPropertyInteger("Sort Streams", NULL, node->nstreams, es);
	if (node->sort.distinct > 0 && (node->merge != NULL || node->filter != NULL))
		explain_dropped("", 0, node->merge != NULL ? node->merge->dropped : 0, 0, node->filter, es);
}

const NodeType parallel_sort_node = {
	.exec = {
		.CustomName = "GpuSort",
		.BeginCustomScan = parallel_sort_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = parallel_sort_end,
		.ReScanCustomScan = parallel_sort_rescan,
		.ShutdownCustomScan = parallel_sort_shutdown,
		.ExplainCustomScan = parallel_sort_explain
	},
	.state_size = sizeof(ParallelSortState)
};
