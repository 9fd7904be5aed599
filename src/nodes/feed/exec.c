/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Feed)": a participant of a parallel sort.
 *
 * A partial sort runs below a Gather, in each worker and, if the leader takes
 * part, in the leader.  It sorts its share of the child's rows in a sorter of
 * its own.  A worker writes its sorted rows to its ring of the exchange, and the
 * GpuSort above the Gather merges the rings (nodes/sort/parallel_exec.c).  So no row passes
 * through the Gather.
 *
 * If the leader has a device job (gpu/producer.c), all participants send their
 * rows there and write nothing.
 *
 * Memory: each participant uses the memory of a sort, under its work_mem.
 *
 * On error: a worker's error goes to the leader as under any Gather.  If the
 * query ends early, the executor shuts down or ends this node in the leader
 * before the Gather waits for its workers.  That stops the exchange, and a
 * worker that waits for room in its ring wakes up and ends.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/explain_sort.h"
#include "nodes/base/pause.h"
#include "nodes/base/sort_count.h"
#include "nodes/feed/feed.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "service/service.h"
#include "utils/memutils.h"

/* Creates *sorter if there is none, and begins a sort as one of several participants. */
static void
begin_sort(PartialSortState *partial, Sorter **sorter, int participants, SortBegin begin)
{
	if (*sorter != NULL && (*sorter)->keybuf->keys_only != partial->spec.keys_only)
	{
		sorter_destroy(*sorter);
		*sorter = NULL;
	}
	if (*sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(partial->css.ss.ps.state->es_query_cxt);

		partial->spec.participants = participants;
		partial->spec.timing = compat_node_timed(&partial->css.ss.ps);
		*sorter = sorter_create(&partial->spec);
		MemoryContextSwitchTo(old);
	}
	begin.keep_duplicates = partial->spec.distinct == 0;
	sorter_begin(*sorter, &begin);
}

/* SortBegin.make_sink: the sink of a participant of the device job. */
static Sink *
make_participant_sink(SortEnv *env, Batch *batch, void *arg)
{
	PartialSortState *partial = arg;

	partial->share_sink = producer_join(env, batch, &partial->exchange->producer, partial->device_sink);
	return partial->share_sink;
}

/* Sends this participant's rows to the leader's device job. */
static void
send_rows(PartialSortState *partial, Sorter **sorter, int me)
{
	Exchange   *ex = partial->exchange;
	ExchangeSlot *slot = exchange_slot(ex, me);
	PlanState  *outer = outerPlanState(partial);
	SortBegin	begin = {
		.rows_expected = outer->plan->plan_rows,.make_sink = make_participant_sink,.make_sink_arg = partial
	};
	const SortReport *report;
	bool		sent;

	begin_sort(partial, sorter, ex->nrings + 1, begin);
	page_source_take_rows(&partial->pages, *sorter, &ex->stopped);
	sent = sorter_perform(*sorter, false) != NULL;
	producer_sent(partial->share_sink, &slot->sent_to_device);
	report = (*sorter)->report;
	participant_report_fill(&slot->report, report, false);
	if (!sent)
		exchange_fail_device(ex);
	exchange_arrive(ex, me);
	if (partial->css.ss.ps.instrument != NULL)
		InstrUpdateTupleCount(partial->css.ss.ps.instrument, (double) report->rows);
	sorter_end(*sorter);
}

void
partial_sort_send_own_rows(PartialSortState *partial)
{
	if (partial->css.ss.ps.instrument != NULL)
		InstrStartNode(partial->css.ss.ps.instrument);
	send_rows(partial, &partial->share_sorter, partial->exchange->nrings);
	if (partial->css.ss.ps.instrument != NULL)
		InstrStopNode(partial->css.ss.ps.instrument, 0);
}

/* Takes and sorts all rows, and in a worker writes them to the ring. */
static void
partial_sort_run(PartialSortState *partial)
{
	PlanState  *outer = outerPlanState(partial);
	Exchange   *ex = partial->exchange;
	const SortReport *report;
	SortBegin	begin = {
		.bound = ex != NULL ? ex->bound : partial->bound,.rows_expected = outer->plan->plan_rows,
		.shared_cutoff = ex != NULL ? &ex->first_bound : NULL
	};
	ExchangeSlot *slot = NULL;
	int			me = 0;

	if (ex != NULL)
	{
		me = partial->ring >= 0 ? partial->ring : ex->nrings;
		slot = exchange_slot(ex, me);
		if (partial->ring >= 0)
			exchange_open_ring(ex, partial->ring);
	}
	begin_sort(partial, &partial->sorter, ex != NULL ? ex->nrings + 1 : 0, begin);
	page_source_take_rows(&partial->pages, partial->sorter, ex != NULL ? &ex->stopped : NULL);
	if (ex != NULL)
	{
		sorter_common_range(partial->sorter, &slot->common_range);
		exchange_arrive(ex, me);
	}
	partial->result = sorter_perform(partial->sorter, device_may_pause());
	report = partial->sorter->report;
	sort_node_count(report);
	if (ex != NULL)
		participant_report_fill(&slot->report, report, partial->spec.keys_only);
	if (partial->css.ss.ps.instrument != NULL)
		InstrUpdateTupleCount(partial->css.ss.ps.instrument, (double) report->rows);
	if (partial->ring >= 0)
	{
		uint64		dropped = exchange_write_ring(ex, partial->ring, &partial->spec,
												  report->rows > 0 ? partial->result : NULL,
												  NULL, NULL);

		/* runs are merged while the ring is written */
		slot->report.dropped_in_merges = report->dropped_in_merges + dropped;
		sorter_end(partial->sorter);
	}
}

TupleTableSlot *
partial_sort_exec_dummy(PlanState *pstate)
{
	return ExecStoreAllNullTuple(pstate->ps_ResultTupleSlot);
}

static TupleTableSlot *
partial_sort_exec(PlanState *pstate)
{
	PartialSortState *partial = (PartialSortState *) pstate;

	CHECK_FOR_INTERRUPTS();
	if (!partial->done)
	{
		if (partial->ring >= 0 && partial->exchange->producer.on)
		{
			exchange_open_ring(partial->exchange, partial->ring);
			send_rows(partial, &partial->sorter, partial->ring);
			exchange_end_ring(partial->exchange, partial->ring);
		}
		else
			partial_sort_run(partial);
		partial->done = true;
	}
	return ExecClearTuple(pstate->ps_ResultTupleSlot);
}

static void
partial_sort_begin(CustomScanState *css, EState *estate, int eflags)
{
	PartialSortState *partial = (PartialSortState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	partial->ring = -1;			/* the leader's, until a worker is told its own */
	sort_plan_read(&partial->sort, css);
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	page_source_init(&partial->pages, outerPlanState(css));

	/*
	 * Without can_rerun: a participant does not use a device for its own rows
	 * alone.  After a failure of the device, a second scan would return other
	 * rows to it.
	 */
	partial->spec.desc = ExecGetResultType(outerPlanState(css));
	partial->spec.keys = partial->sort.keys;
	partial->spec.nkeys = partial->sort.nkeys;
	partial->spec.distinct = partial->sort.distinct;
	partial->spec.groups = partial->sort.groups;
	partial->spec.node = css->ss.ps.plan->plan_node_id - PARTIAL_SORT_NODE_ID;
	Assert(css->ss.ps.ps_ProjInfo == NULL);
	css->ss.ps.ExecProcNode = partial_sort_exec;
}

/* Arguments of make_leader_sink(). */
typedef struct LeaderSinkArgs
{
	double		rows;
	double		row_bytes;
	int			participants;
	ReturnedRows *returned;
	PartialSortState *partial;
} LeaderSinkArgs;

/* SortBegin.make_sink: opens the device job. */
static Sink *
make_leader_sink(SortEnv *env, Batch *batch, void *arg)
{
	LeaderSinkArgs *args = arg;

	args->partial->device_sink = producer_lead(env, batch, args->rows, args->row_bytes, args->participants,
											   args->returned, &args->partial->producer);
	return args->partial->device_sink;
}

bool
partial_sort_open_device_job(PartialSortState *partial, double rows, double row_bytes,
							 int participants, ReturnedRows *returned)
{
	LeaderSinkArgs args = {rows, row_bytes, participants, returned, partial};
	SortBegin	begin = {
		.rows_expected = rows,.make_sink = make_leader_sink,.make_sink_arg = &args
	};

	/*
	 * End a sort of an earlier execution: a node with changed parameters is
	 * rescanned only when it is asked for a row.
	 */
	if (partial->done)
		sorter_end(partial->sorter);
	partial->done = false;
	begin_sort(partial, &partial->sorter, participants, begin);
	if (partial->device_sink == NULL)
		partial_sort_close_device_job(partial);
	return partial->device_sink != NULL;
}

bool
partial_sort_device_sort(PartialSortState *partial, const DeviceSent *sent_to_device)
{
	producer_collect(partial->device_sink, sent_to_device);
	partial->result = sorter_perform(partial->sorter, false);
	if (partial->result == NULL)
		return false;
	sort_node_count(partial->sorter->report);
	return true;
}

void
partial_sort_close_device_job(PartialSortState *partial)
{
	sorter_end(partial->sorter);
	partial->device_sink = NULL;
	partial->producer.on = false;
}

void
partial_sort_stop(PartialSortState *partial)
{
	if (partial->exchange != NULL && partial->ring < 0)
		exchange_stop(partial->exchange);
}

static void
partial_sort_end(CustomScanState *css)
{
	PartialSortState *partial = (PartialSortState *) css;

	partial_sort_stop(partial);
	page_source_end(&partial->pages);
	if (partial->sorter != NULL)
		sorter_destroy(partial->sorter);
	if (partial->share_sorter != NULL)
		sorter_destroy(partial->share_sorter);
	ExecEndNode(outerPlanState(css));
}

static void
partial_sort_rescan(CustomScanState *css)
{
	PartialSortState *partial = (PartialSortState *) css;
	PlanState  *outer = outerPlanState(css);

	if (partial->done)
		sorter_end(partial->sorter);
	partial->done = false;
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* ------------------------------------------------------------------------
 * Shared memory
 * ------------------------------------------------------------------------
 */

static Size
partial_sort_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return exchange_size(pcxt->nworkers);
}

static void
partial_sort_reinit_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	PartialSortState *partial = (PartialSortState *) css;

	partial->exchange = coordinate;
	exchange_reset(partial->exchange, partial->bound, &partial->producer);
	partial->exchange->leader_participation = partial->leader_participation;
	partial->exchange->all_rows = partial->spec.distinct == 0;
	partial->exchange->keys_only = partial->spec.keys_only;
}

static void
partial_sort_init_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	exchange_init(coordinate, pcxt->nworkers);
	partial_sort_reinit_dsm(css, pcxt, coordinate);
}

static void
partial_sort_init_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	PartialSortState *partial = (PartialSortState *) css;

	partial->exchange = coordinate;
	partial->ring = ParallelWorkerNumber;
	if (partial->exchange->all_rows)
		partial->spec.distinct = 0;
	partial->spec.keys_only = partial->exchange->keys_only;

	/* the workers inherit the value that the leader has set for their launch */
	parallel_leader_participation = partial->exchange->leader_participation;
}

/* Leader: copies the reports from shared memory, which is freed after the shutdown. */
static void
partial_sort_shutdown(CustomScanState *css)
{
	PartialSortState *partial = (PartialSortState *) css;
	Exchange   *ex = partial->exchange;

	if (ex == NULL || partial->ring >= 0)
		return;
	exchange_stop(ex);
	if (partial->nreports < ex->nrings + 1)
		partial->reports = MemoryContextAlloc(css->ss.ps.state->es_query_cxt,
											  (ex->nrings + 1) * sizeof(ParticipantReport));
	partial->nreports = ex->nrings + 1;
	for (int p = 0; p < partial->nreports; p++)
		partial->reports[p] = exchange_slot(ex, p)->report;
	/* runs are merged while the rows are returned */
	if (partial->done)
		partial->reports[ex->nrings].dropped_in_merges = partial->sorter->report->dropped_in_merges;
	partial->exchange = NULL;
}

/* Shows the leader's sort and the workers' sorts. */
static void
partial_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	PartialSortState *partial = (PartialSortState *) css;
	ParticipantReport own;

	explain_keys(css, &partial->sort, 0, ancestors, es);
	if (!es->analyze)
		return;
	if (partial->nreports > 0)
		explain_participants(&partial->reports[partial->nreports - 1], partial->reports, partial->nreports - 1, es);
	else if (partial->done)
	{
		participant_report_fill(&own, partial->sorter->report, partial->spec.keys_only);
		explain_participants(&own, NULL, 0, es);
	}
}

const NodeType partial_sort_node = {
	.scan = {.CustomName = "GpuSort Feed",.CreateCustomScanState = custom_create_state},
	.exec = {
		.CustomName = "GpuSort Feed",
		.BeginCustomScan = partial_sort_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = partial_sort_end,
		.ReScanCustomScan = partial_sort_rescan,
		.EstimateDSMCustomScan = partial_sort_estimate_dsm,
		.InitializeDSMCustomScan = partial_sort_init_dsm,
		.ReInitializeDSMCustomScan = partial_sort_reinit_dsm,
		.InitializeWorkerCustomScan = partial_sort_init_worker,
		.ShutdownCustomScan = partial_sort_shutdown,
		.ExplainCustomScan = partial_sort_explain
	},
	.state_size = sizeof(PartialSortState)
};
