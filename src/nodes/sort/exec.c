/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort)".
 *
 * Like nodeSort.c it is thin: the first call puts the child's rows into a
 * sorter, and every call returns a row of the sorter's result.  Two differences
 * from other custom scans make returning a row cheap.  The result slot points
 * to the stored MinimalTuple instead of having a copy of its values.  And the
 * executor calls the node's function directly instead of through nodeCustom.c:
 * gpusort_exec_first(), and after the sort the function for the kind of the
 * result.
 *
 * If a GPU fails, the child is run again and the rows are sorted on the CPU;
 * rows that were returned before are skipped.
 *
 * With distinct columns the node stands for the Unique or Group node above the
 * Sort, too: it returns no row that is equal to the row before in these columns.
 * Most results have no duplicates.  gpusort_exec_distinct() drops those of the
 * other results.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/distinct_filter.h"
#include "nodes/base/explain_sort.h"
#include "nodes/base/pause.h"
#include "nodes/base/plan_format.h"
#include "nodes/base/rerun.h"
#include "nodes/base/sort_count.h"
#include "nodes/sort/sort_state.h"
#include "parallel/parallel.h"
#include "scan/scan.h"
#include "service/service.h"
#include "settings.h"
#include "store/store.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* ------------------------------------------------------------------------
 * Slot of rows that are made from their keys
 *
 * The slot is a virtual one, whose values the parent reads without deforming a tuple.
 * But window functions and Materialize also copy rows to MinimalTuples, and a
 * virtual slot's copy looks up the columns' types again for each row.  This slot
 * has a row writer, which has looked them up once.
 *
 * Parent nodes make slots of this kind for their own rows.  Those slots have no
 * writer and copy as virtual slots do.
 * ------------------------------------------------------------------------
 */

typedef struct KeysSlot
{
	VirtualTupleTableSlot base;
	RowWriter  *writer;			/* copies rows; NULL: copy as a virtual slot */
} KeysSlot;

static TupleTableSlotOps keys_slot_ops;

static MinimalTuple
keys_slot_copy_minimal(TupleTableSlot *slot COMPAT_COPY_EXTRA_PARAM)
{
	const RowWriter *writer = ((KeysSlot *) slot)->writer;
	char	   *mem;

	if (unlikely(writer == NULL))
		return TTSOpsVirtual.copy_minimal_tuple(slot COMPAT_COPY_EXTRA_ARG);
	mem = palloc(COMPAT_COPY_EXTRA + row_writer_room(writer, slot->tts_values, slot->tts_isnull));
	memset(mem, 0, COMPAT_COPY_EXTRA);
	(void) row_writer_write(writer, slot->tts_values, slot->tts_isnull, mem + COMPAT_COPY_EXTRA);
	return (MinimalTuple) (mem + COMPAT_COPY_EXTRA);
}

void
gpusort_node_init(void)
{
	keys_slot_ops = TTSOpsVirtual;
	keys_slot_ops.base_slot_size = sizeof(KeysSlot);
	keys_slot_ops.copy_minimal_tuple = keys_slot_copy_minimal;
}

/* ------------------------------------------------------------------------
 * Sorting
 * ------------------------------------------------------------------------
 */

/* SortSpec.can_rerun */
static bool
gpusort_can_rerun(void *arg)
{
	return plan_can_rerun(arg, false);
}

/* Takes all rows of the child and sorts them; false if the device failed. */
static bool
gpusort_take_rows(GpuSortState *node)
{
	page_source_take_rows(&node->pages, node->sorter, NULL);
	node->result = sorter_perform(node->sorter, device_may_pause());
	return node->result != NULL;
}

/*
 * After a device failed: runs the child again and sorts on the CPU.  The settings
 * of the first run are restored, because the order of the child's rows may
 * depend on them (plan_can_rerun()).
 */
static void
gpusort_rerun_on_cpu(GpuSortState *node)
{
	int			nest = NewGUCNestLevel();

	set_config_option("work_mem", psprintf("%d", node->work_mem), PGC_USERSET,
					  PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	set_config_option("hash_mem_multiplier", psprintf("%.17g", node->hash_mem_multiplier),
					  PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	sorter_begin_again(node->sorter);
	ExecReScan(outerPlanState(node));
	(void) gpusort_take_rows(node);
	AtEOXact_GUC(true, nest);
}

/* Creates the sorter if there is none, and sorts the child's rows. */
static void
gpusort_run(GpuSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;
	PlanState  *outer = outerPlanState(node);
	ScanDirection direction = estate->es_direction;

	if (node->sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

		/* reading the clock takes long compared with a sort of ten rows */
		node->spec.timing = compat_node_timed(&node->css.ss.ps);
		node->sorter = sorter_create(&node->spec);
		MemoryContextSwitchTo(old);
	}

	/* the child runs forward, even if the parent reads backward */
	estate->es_direction = ForwardScanDirection;
	if (node->filter != NULL)
		distinct_filter_reset(node->filter);
	node->bound = sort_plan_bound(&node->sort, &node->css);
	node->work_mem = work_mem;
	node->hash_mem_multiplier = hash_mem_multiplier;
	sorter_begin(node->sorter, &(SortBegin) {.bound = node->bound,.rows_expected = outer->plan->plan_rows});

	if (!gpusort_take_rows(node))
		gpusort_rerun_on_cpu(node);
	InstrCountFiltered1(&node->css.ss.ps, node->pages.key_filter.dropped);
	estate->es_direction = direction;
	sort_node_count(node->sorter->report);
}

/* ------------------------------------------------------------------------
 * Returning rows
 * ------------------------------------------------------------------------
 */

static void gpusort_choose_exec(GpuSortState *node);

/*
 * The result has no next row.  At its end, returns the empty slot.  If the device
 * failed after rows had been returned, repeats the sort on the CPU and returns the
 * first row that was not returned.
 */
static pg_noinline TupleTableSlot *
gpusort_after_last(GpuSortState *node, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	if (!sorter_failed(node->sorter))
		return slot;
	gpusort_rerun_on_cpu(node);
	gpusort_choose_exec(node);
	sorter_skip_returned(node->sorter, slot);
	return result_next(node->result, RESULT_PLAIN, true, slot) ? slot : ExecClearTuple(slot);
}

static pg_attribute_always_inline TupleTableSlot *
gpusort_exec_as(PlanState *pstate, ResultKind kind)
{
	GpuSortState *node = (GpuSortState *) pstate;
	TupleTableSlot *slot = pstate->ps_ResultTupleSlot;
	bool		forward = ScanDirectionIsForward(pstate->state->es_direction);

	CHECK_FOR_INTERRUPTS();
	if (likely(result_next(node->result, kind, forward, slot)))
		return slot;
	return gpusort_after_last(node, slot);
}

static TupleTableSlot *
gpusort_exec_rows(PlanState *pstate)
{
	return gpusort_exec_as(pstate, RESULT_ROWS);
}

static TupleTableSlot *
gpusort_exec_keys(PlanState *pstate)
{
	return gpusort_exec_as(pstate, RESULT_KEYS);
}

static TupleTableSlot *
gpusort_exec_stream(PlanState *pstate)
{
	return gpusort_exec_as(pstate, RESULT_STREAM);
}

static TupleTableSlot *
gpusort_exec_merge(PlanState *pstate)
{
	return gpusort_exec_as(pstate, RESULT_MERGE);
}

static TupleTableSlot *
gpusort_exec_plain(PlanState *pstate)
{
	return gpusort_exec_as(pstate, RESULT_PLAIN);
}

/* Returns the next row that is no duplicate. */
static TupleTableSlot *
gpusort_exec_distinct(PlanState *pstate)
{
	GpuSortState *node = (GpuSortState *) pstate;
	TupleTableSlot *slot;

	do
	{
		slot = gpusort_exec_plain(pstate);
	} while (!TupIsNull(slot) && !distinct_filter_pass(node->filter, slot));
	return slot;
}

/* Sorts, unless that is done, and returns the next row. */
static TupleTableSlot *
gpusort_exec_first(PlanState *pstate)
{
	GpuSortState *node = (GpuSortState *) pstate;

	CHECK_FOR_INTERRUPTS();
	if (node->result == NULL)
	{
		gpusort_run(node);
		gpusort_choose_exec(node);
	}
	return node->result->duplicates ? gpusort_exec_distinct(pstate) : gpusort_exec_plain(pstate);
}

/* Makes the executor call the function for this result. */
static void
gpusort_choose_exec(GpuSortState *node)
{
	static const ExecProcNodeMtd functions[] = {
		[RESULT_ROWS] = gpusort_exec_rows,
		[RESULT_KEYS] = gpusort_exec_keys,
		[RESULT_STREAM] = gpusort_exec_stream,
		[RESULT_MERGE] = gpusort_exec_merge,
		[RESULT_PLAIN] = gpusort_exec_plain
	};

	if (!node->result->duplicates)
	{
		ExecSetExecProcNode(&node->css.ss.ps, functions[node->result->methods->kind]);
		return;
	}
	if (node->filter == NULL)
		node->filter = distinct_filter_create(&node->css, &node->sort);
	ExecSetExecProcNode(&node->css.ss.ps, gpusort_exec_distinct);
}

/*
 * Keys that exceed work_mem are written to runs.  Their rows may be sent to a GPU instead,
 * whose memory holds them.
 */
static bool
rows_suit_device(const GpuSortState *node)
{
	PlanState  *outer = outerPlanState(node);
	const Algorithm *forced = gpusort_forced_algorithm();
	SortCostFacts facts = {0};

	if (node->spec.random_access || device_state() != DEVICE_STATE_READY ||
		(forced != NULL && (!algorithm_on_gpu(forced) || forced->by_value || forced->keys_only)))
		return false;
	facts.rows = outer->plan->plan_rows;
	facts.row_bytes = MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(outer->plan->plan_width);
	facts.keys = node->sort.keys;
	facts.nkeys = node->sort.nkeys;
	if (node->sort.distinct > 0)
		facts.groups = node->sort.groups;
	return sort_cost_prefers_device(&facts, 0, forced != NULL) && plan_can_rerun(outer, false);
}

static void
gpusort_begin(CustomScanState *css, EState *estate, int eflags)
{
	GpuSortState *node = (GpuSortState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	sort_plan_read(&node->sort, css);
	node->spec.random_access = (eflags & (EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)) != 0;
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	page_source_init(&node->pages, outerPlanState(css));

	Assert(css->ss.ps.ps_ProjInfo == NULL);
	node->spec.desc = ExecGetResultType(outerPlanState(css));
	node->spec.keys = node->sort.keys;
	node->spec.nkeys = node->sort.nkeys;
	node->spec.distinct = node->sort.distinct;
	node->spec.groups = node->sort.groups;
	node->spec.node = css->ss.ps.plan->plan_node_id;
	node->spec.can_rerun = gpusort_can_rerun;
	node->spec.can_rerun_arg = outerPlanState(css);
	node->spec.keys_only = node->sort.limit_count == NULL && node->sort.limit_offset == NULL &&
		keys_only_possible(node->spec.desc, node->sort.keys, node->sort.nkeys) && !rows_suit_device(node);
	ExecInitResultSlot(&css->ss.ps, node->spec.keys_only ? &keys_slot_ops : &TTSOpsMinimalTuple);
	if (node->spec.keys_only)
		((KeysSlot *) css->ss.ps.ps_ResultTupleSlot)->writer = row_writer_create(ExecGetResultType(&css->ss.ps));
	css->ss.ps.ExecProcNode = gpusort_exec_first;
}

static void
gpusort_end(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;

	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	page_source_end(&node->pages);
	if (node->sorter != NULL)
		sorter_destroy(node->sorter);
	ExecEndNode(outerPlanState(css));
}

static void
gpusort_rescan(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;
	PlanState  *outer = outerPlanState(css);

	Assert(!node->pages.asked);
	/* before the sort, ExecProcNode() rescans a child with changed parameters */
	if (node->result == NULL)
		return;

	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (outer->chgParam != NULL || !node->spec.random_access ||
		node->bound != sort_plan_bound(&node->sort, &node->css))
	{
		node->result = NULL;
		sorter_end(node->sorter);
		ExecSetExecProcNode(&css->ss.ps, gpusort_exec_first);
		if (outer->chgParam == NULL)
			ExecReScan(outer);
	}
	else
	{
		node->result->methods->rewind(node->result);
		if (node->filter != NULL)
			distinct_filter_reset(node->filter);
	}
}

static void
gpusort_mark(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;

	if (node->result != NULL)
		node->result->methods->mark(node->result);
}

static void
gpusort_restore(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;

	if (node->result != NULL)
		node->result->methods->restore(node->result);
}

static void
gpusort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	GpuSortState *node = (GpuSortState *) css;
	const PlanState *ps = &css->ss.ps;

	explain_keys(css, &node->sort, 0, ancestors, es);
	if (es->analyze && ps->instrument != NULL && ps->instrument->nfiltered1 > 0)
		ExplainPropertyFloat("Rows Removed by Merge Cond", NULL,
							 ps->instrument->nfiltered1 / ps->instrument->nloops, 0, es);
	if (es->analyze && node->result != NULL)
		explain_sort(css, node->sorter->report, node->spec.keys_only, node->filter, es);
}

static Node *
gpusort_create_state(CustomScan *cscan)
{
	return custom_state_make(plan_above_partial_sorts(cscan) ? &parallel_sort_node : &sort_node);
}

const NodeType sort_node = {
	.scan = {.CustomName = "GpuSort",.CreateCustomScanState = gpusort_create_state},
	.exec = {
		.CustomName = "GpuSort",
		.BeginCustomScan = gpusort_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = gpusort_end,
		.ReScanCustomScan = gpusort_rescan,
		.MarkPosCustomScan = gpusort_mark,
		.RestrPosCustomScan = gpusort_restore,
		.ExplainCustomScan = gpusort_explain
	},
	.state_size = sizeof(GpuSortState)
};
