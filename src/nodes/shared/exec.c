/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Shared)": rows of a partial plan, sorted by all processes together.
 *
 * Each process takes its share of the child's rows and sorts this share; share/shared_sort.c merges the shares of all
 * processes.  If a process is alone, it returns its own rows.  The inner side of a merge join in workers returns all
 * rows in every process.  Below groups in workers the rows are divided: each process returns its own ranges of keys.
 *
 * The rows are returned once and forward.  After a rescan in the same execution of the Gather all rows are read again;
 * divided rows are not, and the Gather above them is rescanned with the node.
 *
 * Memory policy: a sort under work_mem, which ends before rows are returned; then a block, and a row longer than a
 * block.
 *
 * On error: as under any Gather.  The files are deleted with the query's shared memory.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/explain_sort.h"
#include "nodes/base/pause.h"
#include "nodes/base/sort_count.h"
#include "nodes/shared/shared.h"
#include "store/store.h"
#include "utils/memutils.h"

/* Takes and sorts the child's rows; *range gets the range of their keys.  NULL: there are no rows. */
static SortResult *
sort_own_rows(SharedSortState *node, CommonKeyRange *range)
{
	const PlanState *outer = outerPlanState(node);
	SortResult *result;

	if (node->sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);

		node->spec.participants = node->shared != NULL ? node->shared->nslots : 0;
		node->spec.timing = compat_node_timed(&node->css.ss.ps);
		node->sorter = sorter_create(&node->spec);
		MemoryContextSwitchTo(old);
	}
	sorter_begin(node->sorter, &(SortBegin) {.rows_expected = outer->plan->plan_rows});
	page_source_take_rows(&node->pages, node->sorter, NULL);
	sorter_common_range(node->sorter, range);
	result = sorter_perform(node->sorter, device_may_pause());
	sort_node_count(node->sorter->report);
	return node->sorter->report->rows > 0 ? result : NULL;
}

/* The filter of keys that the rows make; NULL: none. */
static KeyFilter *
made_filter(const SharedSortState *node)
{
	return node->pages.key_filter.role == KEY_FILTER_ADDS ? node->pages.key_filter.filter : NULL;
}

static Size
filter_bytes(const SharedSortState *node)
{
	return made_filter(node) != NULL ? key_filter_bytes(made_filter(node)) : 0;
}

/* Sorts together with the other processes, unless that is done, and opens the stream of rows. */
static void
run_shared(SharedSortState *node)
{
	SharedSort *shared = node->shared;
	KeyFilter  *filter = made_filter(node);
	SortResult *own = NULL;
	CommonKeyRange range;
	MemoryContext old;

	if (shared_sort_begin(shared))
	{
		own = sort_own_rows(node, &range);
		participant_report_fill(&shared->slots[shared_sort_me()].report, node->sorter->report, node->spec.keys_only);
		if (filter != NULL)
			key_filter_publish(filter, shared_sort_words(shared));
		else if (shared->word_bytes > 0)
			pg_atomic_write_u32(&shared->words_incomplete, 1);
	}
	shared_sort_run(shared, &node->spec, own, &range, node->divided);
	if (filter != NULL)
		key_filter_adopt(filter, pg_atomic_read_u32(&shared->words_incomplete) == 0 ? shared_sort_words(shared) : NULL);
	if (node->sorter != NULL)
		sorter_end(node->sorter);
	old = MemoryContextSwitchTo(node->cxt);
	node->stream = shared_sort_open(shared, &node->spec, node->divided, &node->reader);
	MemoryContextSwitchTo(old);
}

/* Sorts in this process alone. */
static void
run_alone(SharedSortState *node)
{
	CommonKeyRange *range = palloc(sizeof(CommonKeyRange));
	SortResult *own = sort_own_rows(node, range);
	MemoryContext old = MemoryContextSwitchTo(node->cxt);
	BlockSource *source = own != NULL ? block_source_own(&node->spec, range, own) : NULL;

	node->reader = block_reader_create(&node->spec, range, source);
	MemoryContextSwitchTo(old);
	pfree(range);
}

static TupleTableSlot *
shared_sort_exec(PlanState *pstate)
{
	SharedSortState *node = (SharedSortState *) pstate;
	TupleTableSlot *slot = pstate->ps_ResultTupleSlot;

	CHECK_FOR_INTERRUPTS();
	if (unlikely(node->reader == NULL))
	{
		if (node->shared != NULL)
			run_shared(node);
		else if (!node->shut_down)
			run_alone(node);
		else
			elog(ERROR, "gpusort: a shared sort was asked for rows after its shutdown");
	}
	return likely(block_reader_next(node->reader, slot)) ? slot : ExecClearTuple(slot);
}

static void
shared_sort_begin_node(CustomScanState *css, EState *estate, int eflags)
{
	SharedSortState *node = (SharedSortState *) css;
	TupleDesc	desc;

	sort_plan_read(&node->sort, css);
	node->divided = shared_sort_divides((const CustomScan *) css->ss.ps.plan);
	outerPlanState(css) = ExecInitNode(outerPlan(css->ss.ps.plan), estate, eflags);
	page_source_init(&node->pages, outerPlanState(css));
	desc = ExecGetResultType(outerPlanState(css));
	node->spec.desc = desc;
	node->spec.keys = node->sort.keys;
	node->spec.nkeys = node->sort.nkeys;
	node->spec.node = css->ss.ps.plan->plan_node_id;
	node->spec.keys_only = keys_only_possible(desc, node->sort.keys, node->sort.nkeys);
	node->cxt = AllocSetContextCreate(estate->es_query_cxt, "GpuSort reader", ALLOCSET_DEFAULT_SIZES);

	/* the target list has the child's columns, in their order */
	css->ss.ps.ps_ProjInfo = NULL;
	ExecInitResultSlot(&css->ss.ps, node->spec.keys_only ? &TTSOpsVirtual : &TTSOpsMinimalTuple);
	css->ss.ps.ExecProcNode = shared_sort_exec;
}

/* Forgets the rows. */
static void
end_reading(SharedSortState *node)
{
	ExecClearTuple(node->css.ss.ps.ps_ResultTupleSlot);
	if (node->stream != NULL)
		shared_sort_close(node->stream);
	node->stream = NULL;
	node->reader = NULL;
	MemoryContextReset(node->cxt);
}

static void
shared_sort_end_node(CustomScanState *css)
{
	SharedSortState *node = (SharedSortState *) css;

	end_reading(node);
	page_source_end(&node->pages);
	if (node->sorter != NULL)
		sorter_destroy(node->sorter);
	ExecEndNode(outerPlanState(css));
}

static void
shared_sort_rescan(CustomScanState *css)
{
	SharedSortState *node = (SharedSortState *) css;
	PlanState  *outer = outerPlanState(css);

	/* a process that is alone returns the rows of its sorter */
	if (node->reader != NULL && node->stream == NULL)
		sorter_end(node->sorter);
	end_reading(node);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* ------------------------------------------------------------------------
 * Shared memory
 * ------------------------------------------------------------------------
 */

static Size
shared_sort_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return shared_sort_size(pcxt->nworkers, filter_bytes((SharedSortState *) css));
}

static void
shared_sort_init_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	SharedSortState *node = (SharedSortState *) css;

	/* without a segment there will be no workers */
	node->shared = pcxt->seg != NULL ? coordinate : NULL;
	node->shut_down = false;
	if (node->shared != NULL)
		shared_sort_init(node->shared, pcxt->nworkers, filter_bytes(node), pcxt->seg);
}

static void
shared_sort_reinit_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	SharedSortState *node = (SharedSortState *) css;

	node->shared = pcxt->seg != NULL ? coordinate : NULL;
	node->shut_down = false;
	if (node->shared != NULL)
		shared_sort_reset(node->shared);
}

static void
shared_sort_init_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	SharedSortState *node = (SharedSortState *) css;

	node->shared = coordinate;

	/* the leader may have decided against a filter: its join may be rewound, or work_mem has changed since */
	if (filter_bytes(node) != node->shared->word_bytes)
		node->pages.key_filter.role = KEY_FILTER_NONE;
	shared_sort_attach(node->shared);
}

/* Leader: copies the reports from shared memory, which is freed after the shutdown. */
static void
shared_sort_shutdown(CustomScanState *css)
{
	SharedSortState *node = (SharedSortState *) css;

	if (node->shared == NULL || IsParallelWorker())
		return;
	if (node->nreports == 0)
	{
		node->nreports = node->shared->nslots;
		node->reports = MemoryContextAlloc(css->ss.ps.state->es_query_cxt,
										   node->nreports * sizeof(ParticipantReport));
	}
	for (int p = 0; p < node->nreports; p++)
		node->reports[p] = node->shared->slots[p].report;
	node->shared = NULL;
	node->shut_down = true;
}

static void
shared_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	SharedSortState *node = (SharedSortState *) css;

	explain_keys(css, &node->sort, 0, ancestors, es);
	if (node->divided)
		ExplainPropertyText("Rows Divided", "by ranges of keys", es);
	if (!es->analyze)
		return;
	if (node->nreports > 0)
		explain_participants(&node->reports[0], node->reports + 1, node->nreports - 1, es);
	else if (node->sorter != NULL)
		explain_sort(css, node->sorter->report, node->spec.keys_only, NULL, es);
}

const NodeType shared_sort_node = {
	.scan = {.CustomName = "GpuSort Shared",.CreateCustomScanState = custom_create_state},
	.exec = {
		.CustomName = "GpuSort Shared",
		.BeginCustomScan = shared_sort_begin_node,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = shared_sort_end_node,
		.ReScanCustomScan = shared_sort_rescan,
		.EstimateDSMCustomScan = shared_sort_estimate_dsm,
		.InitializeDSMCustomScan = shared_sort_init_dsm,
		.ReInitializeDSMCustomScan = shared_sort_reinit_dsm,
		.InitializeWorkerCustomScan = shared_sort_init_worker,
		.ShutdownCustomScan = shared_sort_shutdown,
		.ExplainCustomScan = shared_sort_explain
	},
	.state_size = sizeof(SharedSortState)
};
