/*
 * partial_sort.c
 *	  The executor node "Custom Scan (GpuSort Feed)": a participant of a parallel sort.
 *
 * It runs below a Gather, in each worker and, if it takes part, in the leader.  It takes
 * all rows of its share of the plan below into a sorter of its own, sorts them, and,
 * in a worker, writes them in order into its ring of the exchange; the GpuSort above the
 * Gather merges them (parallel_sort.c).  So no row goes through the Gather.  Of many workers
 * two have another task: each merges its group's rings and its own rows into its ring.
 *
 * But the Gather has to be got going without waiting for anybody's last row: it is
 * given one at once by feed_announce(), which is for nobody.
 *
 * Where the leader has got a job on a device for all of them (sort/device/rows/device_feed.c) the
 * Feeds send their rows there, and have none to write.
 *
 * Memory: that of a sort, in each participant.
 *
 * On error: a worker's goes to the leader as any.  Before the Gather waits for its
 * workers to end, the executor shuts this node down or ends it in the leader: then the
 * exchange is stopped, and a worker that waits for room in its ring wakes and ends.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/executor_internal.h"
#include "executor/gpusort_executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "service/service_internal.h"
#include "utils/memutils.h"

static Node *feed_create_state(CustomScan *cscan);
static void feed_begin(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *feed_exec_custom(CustomScanState *css);
static void feed_end(CustomScanState *css);
static void feed_rescan(CustomScanState *css);
static Size feed_estimate_dsm(CustomScanState *css, ParallelContext *pcxt);
static void feed_init_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate);
static void feed_reinit_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate);
static void feed_init_worker(CustomScanState *css, shm_toc *toc, void *coordinate);
static void feed_shutdown(CustomScanState *css);

const CustomScanMethods feed_scan_methods = {
	.CustomName = "GpuSort Feed",
	.CreateCustomScanState = feed_create_state
};

static const CustomExecMethods feed_exec_methods = {
	.CustomName = "GpuSort Feed",
	.BeginCustomScan = feed_begin,
	.ExecCustomScan = feed_exec_custom,
	.EndCustomScan = feed_end,
	.ReScanCustomScan = feed_rescan,
	.EstimateDSMCustomScan = feed_estimate_dsm,
	.InitializeDSMCustomScan = feed_init_dsm,
	.ReInitializeDSMCustomScan = feed_reinit_dsm,
	.InitializeWorkerCustomScan = feed_init_worker,
	.ShutdownCustomScan = feed_shutdown,
	.ExplainCustomScan = feed_explain
};

void
feed_node_init(void)
{
	RegisterCustomScanMethods(&feed_scan_methods);
}

bool
plan_above_feeds(const CustomScan *cscan)
{
	const Plan *gather = outerPlan(cscan);

	return IsA(gather, Gather) && IsA(outerPlan(gather), CustomScan) &&
		((const CustomScan *) outerPlan(gather))->methods == &feed_scan_methods;
}

FeedState *
feed_of_gather(GatherState *gather)
{
	FeedState  *feed = (FeedState *) outerPlanState(gather);

	Assert(IsA(feed, CustomScanState) && feed->css.methods == &feed_exec_methods);
	return feed;
}

static Node *
feed_create_state(CustomScan *cscan)
{
	FeedState  *feed = (FeedState *) newNode(sizeof(FeedState), T_CustomScanState);

	feed->css.methods = &feed_exec_methods;
	feed->ring = -1;
	return (Node *) feed;
}

static bool
feed_cannot_rerun(void *arg)
{
	return false;
}

/* A worker's own rows go into its ring, */
static void
write_own(FeedState *feed)
{
	Exchange   *ex = feed->exchange;
	BlockWriter *writer = block_writer_create(&feed->spec,
											  exchange_frame(ex, feed->keys, feed->nkeys));
	RowBlock   *block;

	while ((block = exchange_block_to_write(ex, feed->ring)) != NULL &&
		   block_writer_fill(writer, feed->result, block))
	{
		exchange_block_written(ex, feed->ring);
		CHECK_FOR_INTERRUPTS();
	}
}

/* or together with those of n other rings, merged. */
static void
write_merged(FeedState *feed, const int *rings, int n)
{
	Exchange   *ex = feed->exchange;
	const KeyFrame *frame = exchange_frame(ex, feed->keys, feed->nkeys);
	BlockSource **sources = palloc((n + 1) * sizeof(BlockSource *));
	BlockRefill *refill;
	RowBlock   *block;
	int			nsources = 0;

	if (sorter_report(feed->sorter)->rows > 0)
		sources[nsources++] = block_source_own(&feed->spec, frame, feed->result);
	for (int i = 0; i < n; i++)
		sources[nsources++] = block_source_ring(ex, rings[i], feed->ring, NULL, NULL);
	refill = block_refill_create(block_merge_create(&feed->spec, frame, sources, nsources));
	while ((block = exchange_block_to_write(ex, feed->ring)) != NULL &&
		   block_refill_fill(refill, block))
	{
		exchange_block_written(ex, feed->ring);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
feed_write(FeedState *feed)
{
	Exchange   *ex = feed->exchange;
	MemoryContext cxt;
	MemoryContext old;
	int		   *rings;
	int			n;

	/* who has no rows may have others' to merge */
	if (!exchange_wait_agreed(ex))
		return;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort blocks", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	rings = palloc(ex->nrings * sizeof(int));
	n = exchange_rings_of(ex, feed->ring, rings);
	if (n > 0)
		write_merged(feed, rings, n);
	else if (sorter_report(feed->sorter)->rows > 0)
		write_own(feed);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* Begins a sort, one of so many participants'. */
static void
begin_sort(FeedState *feed, Sorter **sorter, int participants, size_t bound, double rows)
{
	if (*sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(feed->css.ss.ps.state->es_query_cxt);

		feed->spec.participants = participants;
		feed->spec.timing = compat_node_timed(&feed->css.ss.ps);
		*sorter = sorter_create(&feed->spec);
		MemoryContextSwitchTo(old);
	}
	sorter_begin(*sorter, bound, rows);
}

static Sink *
make_join(SortEnv *env, Batch *batch, void *arg)
{
	FeedState  *feed = arg;

	return device_feed_join(env, batch, &feed->exchange->device, feed->lead);
}

/* A participant's rows go to the leader's job. */
static void
send_rows(FeedState *feed, Sorter **sorter, int me)
{
	Exchange   *ex = feed->exchange;
	ExchangeSlot *slot = exchange_slot(ex, me);
	PlanState  *outer = outerPlanState(feed);
	const SortReport *report;
	Sink	   *sink;
	bool		sent;

	begin_sort(feed, sorter, ex->nrings + 1, 0, outer->plan->plan_rows);
	sink = sorter_use_sink(*sorter, make_join, feed);
	sort_node_take_rows(*sorter, outer, &feed->pages, &ex->stopped);
	sent = sorter_perform(*sorter, false) != NULL;
	device_feed_sent(sink, &slot->fed);
	report = sorter_report(*sorter);
	participant_report_fill(&slot->report, report, false);
	if (!sent)
		exchange_lose_device(ex);
	exchange_arrive(ex, me);
	if (feed->css.ss.ps.instrument != NULL)
		InstrUpdateTupleCount(feed->css.ss.ps.instrument, (double) report->rows);
	sorter_end(*sorter);
}

static void
feed_run_device(FeedState *feed)
{
	exchange_open_ring(feed->exchange, feed->ring);
	send_rows(feed, &feed->sorter, feed->ring);
	exchange_end_ring(feed->exchange, feed->ring);
}

void
feed_lead_share(FeedState *feed)
{
	if (feed->css.ss.ps.instrument != NULL)
		InstrStartNode(feed->css.ss.ps.instrument);
	send_rows(feed, &feed->share, feed->exchange->nrings);
	if (feed->css.ss.ps.instrument != NULL)
		InstrStopNode(feed->css.ss.ps.instrument, 0);
}

/* Takes and sorts all rows. */
static void
feed_run(FeedState *feed)
{
	PlanState  *outer = outerPlanState(feed);
	Exchange   *ex = feed->exchange;
	const SortReport *report;
	ExchangeSlot *slot = NULL;
	int			me = 0;

	if (ex != NULL)
	{
		me = feed->ring >= 0 ? feed->ring : ex->nrings;
		slot = exchange_slot(ex, me);
		if (feed->ring >= 0)
			exchange_open_ring(ex, feed->ring);
	}
	begin_sort(feed, &feed->sorter, ex != NULL ? ex->nrings + 1 : 0, ex != NULL ? ex->bound : feed->bound,
			   outer->plan->plan_rows);
	if (ex != NULL)
		sorter_share_bound(feed->sorter, &ex->first_bound);
	sort_node_take_rows(feed->sorter, outer, &feed->pages, ex != NULL ? &ex->stopped : NULL);
	if (ex != NULL)
	{
		sorter_key_frame(feed->sorter, &slot->frame);
		exchange_arrive(ex, me);
	}
	feed->result = sorter_perform(feed->sorter, device_may_pause());
	report = sorter_report(feed->sorter);
	sort_node_count(report);
	if (ex != NULL)
		participant_report_fill(&slot->report, report, false);
	if (feed->css.ss.ps.instrument != NULL)
		InstrUpdateTupleCount(feed->css.ss.ps.instrument, (double) report->rows);
	if (feed->ring >= 0)
	{
		feed_write(feed);
		exchange_end_ring(ex, feed->ring);
		sorter_end(feed->sorter);
	}
}

TupleTableSlot *
feed_announce(PlanState *pstate)
{
	/* without it the Gather waits for its workers to end */
	if (fault_ordered() == DEVICE_FAULT_LATE_LEADER && ((FeedState *) pstate)->lead != NULL)
		return ExecClearTuple(pstate->ps_ResultTupleSlot);
	return ExecStoreAllNullTuple(pstate->ps_ResultTupleSlot);
}

static TupleTableSlot *
feed_exec(PlanState *pstate)
{
	FeedState  *feed = (FeedState *) pstate;
	TupleTableSlot *slot = pstate->ps_ResultTupleSlot;

	CHECK_FOR_INTERRUPTS();
	if (!feed->done)
	{
		if (feed->ring >= 0 && feed->exchange->device.on)
			feed_run_device(feed);
		else
			feed_run(feed);
		feed->done = true;
	}
	return ExecClearTuple(slot);
}

static TupleTableSlot *
feed_exec_custom(CustomScanState *css)
{
	return feed_exec(&css->ss.ps);
}

static void
feed_begin(CustomScanState *css, EState *estate, int eflags)
{
	FeedState  *feed = (FeedState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	feed->keys = gpusort_plan_keys(cscan, &feed->nkeys);
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	page_source_init(&feed->pages, outerPlanState(css));
	/* a participant's rows do not go to a device by themselves: it would not get the same ones again */
	feed->spec.desc = ExecGetResultType(outerPlanState(css));
	feed->spec.keys = feed->keys;
	feed->spec.nkeys = feed->nkeys;
	feed->spec.node = css->ss.ps.plan->plan_node_id - FEED_NODE_ID;
	feed->spec.can_rerun = feed_cannot_rerun;
	Assert(css->ss.ps.ps_ProjInfo == NULL);
	css->ss.ps.ExecProcNode = feed_exec;
}

/* What feed_lead() hands to its sink's maker. */
typedef struct LeadArgs
{
	double		rows;
	double		row_bytes;
	int			participants;
	GivenRows  *given;
	DeviceFeed *device;
} LeadArgs;

static Sink *
make_lead(SortEnv *env, Batch *batch, void *arg)
{
	LeadArgs   *args = arg;

	return device_feed_lead(env, batch, args->rows, args->row_bytes, args->participants, args->given,
							args->device);
}

bool
feed_lead(FeedState *feed, double rows, double row_bytes, int participants, GivenRows *given)
{
	LeadArgs	args = {rows, row_bytes, participants, given, &feed->device};

	/* what it had as a participant; that it is to be rescanned it hears when it is asked for rows */
	if (feed->done)
		sorter_end(feed->sorter);
	feed->done = false;
	begin_sort(feed, &feed->sorter, participants, 0, rows);
	feed->lead = sorter_use_sink(feed->sorter, make_lead, &args);
	if (feed->lead == NULL)
		feed_lead_end(feed);
	return feed->lead != NULL;
}

bool
feed_lead_sort(FeedState *feed)
{
	DeviceFed	fed;

	exchange_fed(feed->exchange, &fed);
	device_feed_collect(feed->lead, &fed);
	feed->result = sorter_perform(feed->sorter, false);
	if (feed->result == NULL)
		return false;
	sort_node_count(sorter_report(feed->sorter));
	return true;
}

void
feed_lead_end(FeedState *feed)
{
	sorter_end(feed->sorter);
	feed->lead = NULL;
	feed->device.on = false;
}

void
feed_stop(FeedState *feed)
{
	if (feed->exchange != NULL && feed->ring < 0)
		exchange_stop(feed->exchange);
}

static void
feed_end(CustomScanState *css)
{
	FeedState  *feed = (FeedState *) css;

	feed_stop(feed);
	page_source_end(&feed->pages);
	if (feed->sorter != NULL)
	{
		sorter_destroy(feed->sorter);
		feed->sorter = NULL;
	}
	if (feed->share != NULL)
	{
		sorter_destroy(feed->share);
		feed->share = NULL;
	}
	ExecEndNode(outerPlanState(css));
}

static void
feed_rescan(CustomScanState *css)
{
	FeedState  *feed = (FeedState *) css;
	PlanState  *outer = outerPlanState(css);

	if (feed->done)
		sorter_end(feed->sorter);
	feed->done = false;
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* ------------------------------------------------------------------------
 * Shared memory
 * ------------------------------------------------------------------------
 */
static Size
feed_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return exchange_size(pcxt->nworkers);
}

static void
feed_reinit_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	FeedState  *feed = (FeedState *) css;

	feed->exchange = coordinate;
	feed->stopped = false;
	exchange_reset(feed->exchange, feed->bound, &feed->device);
	feed->exchange->participation = feed->participation;
}

static void
feed_init_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	exchange_init(coordinate, pcxt->nworkers);
	feed_reinit_dsm(css, pcxt, coordinate);
}

static void
feed_init_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	FeedState  *feed = (FeedState *) css;

	feed->exchange = coordinate;
	feed->ring = ParallelWorkerNumber;
	/* it came with the settings that the leader had while it launched the workers */
	parallel_leader_participation = feed->exchange->participation;
}

/* The leader keeps what is to be told; the shared memory goes. */
static void
feed_shutdown(CustomScanState *css)
{
	FeedState  *feed = (FeedState *) css;
	Exchange   *ex = feed->exchange;

	if (ex == NULL || feed->ring >= 0)
		return;
	exchange_stop(ex);
	if (feed->nreports < ex->nrings + 1)
		feed->reports = MemoryContextAlloc(css->ss.ps.state->es_query_cxt,
										   (ex->nrings + 1) * sizeof(ParticipantReport));
	feed->nreports = ex->nrings + 1;
	for (int p = 0; p < feed->nreports; p++)
		feed->reports[p] = exchange_slot(ex, p)->report;
	feed->exchange = NULL;
	feed->stopped = true;
}
