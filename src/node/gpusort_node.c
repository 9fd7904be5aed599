/*
 * gpusort_node.c
 *	  The executor node "Custom Scan (GpuSort)": to the rest of the executor, a
 *	  Sort.
 *
 * Like nodeSort.c it is thin: it pulls the child's rows into a sorter on the
 * first call, then hands rows out.  Two liberties are taken with the custom scan
 * interface, both for the sake of a cheap row: the result slot holds the stored
 * MinimalTuple itself instead of a copy of its values, and the executor calls
 * gpusort_exec() directly instead of through nodeCustom.c.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "node/gpusort_node.h"
#include "node/rerun.h"
#include "sort/device_check.h"
#include "sort/keys_only.h"
#include "sort/sorter_page.h"
#include "stat.h"
#include "utils/guc.h"
#include "utils/memutils.h"

static Node *gpusort_create_state(CustomScan *cscan);
static void gpusort_begin(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *gpusort_exec_custom(CustomScanState *css);
static void gpusort_end(CustomScanState *css);
static void gpusort_rescan(CustomScanState *css);
static void gpusort_mark(CustomScanState *css);
static void gpusort_restore(CustomScanState *css);

static const CustomScanMethods gpusort_scan_methods = {
	.CustomName = "GpuSort",
	.CreateCustomScanState = gpusort_create_state
};

static const CustomExecMethods gpusort_exec_methods = {
	.CustomName = "GpuSort",
	.BeginCustomScan = gpusort_begin,
	.ExecCustomScan = gpusort_exec_custom,
	.EndCustomScan = gpusort_end,
	.ReScanCustomScan = gpusort_rescan,
	.MarkPosCustomScan = gpusort_mark,
	.RestrPosCustomScan = gpusort_restore,
	.ExplainCustomScan = gpusort_explain
};

void
gpusort_node_init(void)
{
	RegisterCustomScanMethods(&gpusort_scan_methods);
}

void
gpusort_node_fill_plan(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit)
{
	List	   *lists[GPUSORT_PRIVATE_COUNT] = {NIL};

	for (int i = 0; i < nkeys; i++)
	{
		lists[GPUSORT_PRIVATE_ATTNO] =
			lappend_int(lists[GPUSORT_PRIVATE_ATTNO], keys[i].attno);
		lists[GPUSORT_PRIVATE_SORTOP] =
			lappend_oid(lists[GPUSORT_PRIVATE_SORTOP], keys[i].sortop);
		lists[GPUSORT_PRIVATE_COLLATION] =
			lappend_oid(lists[GPUSORT_PRIVATE_COLLATION], keys[i].collation);
		lists[GPUSORT_PRIVATE_NULLS_FIRST] =
			lappend_int(lists[GPUSORT_PRIVATE_NULLS_FIRST], keys[i].nulls_first);
		lists[GPUSORT_PRIVATE_DESCENDING] =
			lappend_int(lists[GPUSORT_PRIVATE_DESCENDING], keys[i].descending);
		lists[GPUSORT_PRIVATE_KIND] =
			lappend_int(lists[GPUSORT_PRIVATE_KIND], keys[i].kind);
	}
	cscan->custom_private = NIL;
	for (int i = 0; i < GPUSORT_PRIVATE_COUNT; i++)
		cscan->custom_private = lappend(cscan->custom_private, lists[i]);
	if (limit != NULL)
		cscan->custom_exprs = list_make2(limit->limitCount, limit->limitOffset);
	cscan->methods = &gpusort_scan_methods;
}

static Node *
gpusort_create_state(CustomScan *cscan)
{
	GpuSortState *node = (GpuSortState *) newNode(sizeof(GpuSortState), T_CustomScanState);

	node->css.methods = &gpusort_exec_methods;
	node->nkeys = list_length(linitial(cscan->custom_private));
	return (Node *) node;
}

/* How many rows of the front are wanted; 0: all.  The Limit reports errors. */
static size_t
gpusort_bound(GpuSortState *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	int64		count;
	int64		offset = 0;
	Datum		value;
	bool		isnull;

	if (node->limit_count == NULL)
		return 0;
	value = ExecEvalExprSwitchContext(node->limit_count, econtext, &isnull);
	if (isnull)
		return 0;
	count = DatumGetInt64(value);
	if (node->limit_offset != NULL)
	{
		value = ExecEvalExprSwitchContext(node->limit_offset, econtext, &isnull);
		offset = isnull ? 0 : DatumGetInt64(value);
	}
	if (count < 0 || offset < 0 || count > PG_INT32_MAX || offset > PG_INT32_MAX)
		return 0;
	/* a LIMIT 0 does not ask for rows at all; if it did, one would do */
	return Max(1, (size_t) (count + offset));
}

static bool
gpusort_can_rerun(void *arg)
{
	return plan_can_rerun(arg);
}

/* Takes all rows of the child; false if they were lost with a device. */
static bool
gpusort_take_rows(GpuSortState *node)
{
	PlanState  *outer = outerPlanState(node);
	Sorter	   *sorter = node->sorter;
	MemoryContext cxt = node->css.ss.ps.state->es_query_cxt;
	PageScan   *pages;
	instr_time	start;
	instr_time	end;

	sorter_clock(sorter, &start);
	for (;;)
	{
		TupleTableSlot *slot = page_source_next(&node->pages);

		if (slot != NULL)
		{
			sorter->report.page_rows++;
			sorter_put(sorter, slot);
			continue;
		}
		slot = ExecProcNode(outer);
		if (TupIsNull(slot) || unlikely(sorter->lost))
			break;
		pages = !node->pages.possible ? NULL :
			page_source_take(&node->pages, &sorter->stage, cxt);
		if (pages != NULL)
			sorter_put_page(sorter, pages);
		else
			sorter_put(sorter, slot);
	}
	sorter_clock(sorter, &end);
	INSTR_TIME_ACCUM_DIFF(sorter->report.ingest_time, end, start);
	if (!sorter->lost)
		sorter_perform(sorter);
	return !sorter->lost;
}

/*
 * The same once more, on the CPU; returns how many rows were given out before, and their
 * sum.  The child's order may depend on the memory that it has (rerun.c).
 */
static uint64
gpusort_take_rows_again(GpuSortState *node, uint64 *sum)
{
	int			nest = NewGUCNestLevel();
	uint64		given;

	set_config_option("work_mem", psprintf("%d", node->work_mem), PGC_USERSET,
					  PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	set_config_option("hash_mem_multiplier", psprintf("%.17g", node->hash_mem_multiplier),
					  PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	given = sorter_begin_again(node->sorter, sum);
	ExecReScan(outerPlanState(node));
	(void) gpusort_take_rows(node);
	AtEOXact_GUC(true, nest);
	return given;
}

static void
gpusort_count(const SorterReport *report)
{
	SortCount	count = {0};

	if (report->sorted)
	{
		count.algorithm = report->decision.algorithm;
		/* a failure of the device has been counted when it happened */
		if (report->decision.forced_why_not != NULL && !report->device_failed)
			count.passed_over = report->facts.forced;
	}
	count.rows = report->rows;
	count.spilled = report->runs > 0;
	count.bytes = count.spilled ? report->disk_bytes : report->memory_peak;
	gpusort_stat_count(&count);
}

/* Takes all rows of the child and sorts them. */
static void
gpusort_run(GpuSortState *node)
{
	EState	   *estate = node->css.ss.ps.state;
	PlanState  *outer = outerPlanState(node);
	ScanDirection direction = estate->es_direction;
	Sorter	   *sorter;
	uint64		sum;

	if (node->sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
		SortSpec	spec;

		spec.desc = ExecGetResultType(outer);
		spec.keys = node->keys;
		spec.nkeys = node->nkeys;
		spec.random_access = node->random_access;
		spec.keys_only = node->keys_only;
		spec.can_rerun = gpusort_can_rerun;
		spec.can_rerun_arg = outer;
		/* a clock is dear to a sort of ten rows */
		spec.timing = compat_node_timed(&node->css.ss.ps);
		node->sorter = sorter_create(&spec);
		MemoryContextSwitchTo(old);
	}
	sorter = node->sorter;

	/* the child runs forward, whichever way we are asked to go */
	estate->es_direction = ForwardScanDirection;
	node->bound = gpusort_bound(node);
	node->work_mem = work_mem;
	node->hash_mem_multiplier = hash_mem_multiplier;
	sorter_begin(sorter, node->bound, outer->plan->plan_rows);

	if (!gpusort_take_rows(node))
		(void) gpusort_take_rows_again(node, &sum);
	estate->es_direction = direction;
	gpusort_count(&sorter->report);
	node->sort_done = true;
}

/*
 * The device failed while rows were given out: goes on with the first that was
 * not, from a sort on the CPU.  Those before it are now the same, or the result that was
 * begun cannot be completed.
 */
static bool
gpusort_recover(GpuSortState *node, TupleTableSlot *slot)
{
	MinimalTuple row;
	uint64		given;
	uint64		sum;

	ExecClearTuple(slot);
	given = gpusort_take_rows_again(node, &sum);
	for (uint64 i = 0; i < given; i++)
	{
		if (i % 4096 == 0)
			CHECK_FOR_INTERRUPTS();
		if (!sorter_next(node->sorter, true, slot))
			device_wrong_beginning();
		row = ((MinimalTupleTableSlot *) slot)->mintuple;
		sum -= row_sum((const char *) row, row->t_len);
	}
	if (given > 0 && sum != 0)
		device_wrong_beginning();
	return sorter_next(node->sorter, true, slot);
}

static TupleTableSlot *
gpusort_exec(PlanState *pstate)
{
	GpuSortState *node = (GpuSortState *) pstate;
	TupleTableSlot *slot = pstate->ps_ResultTupleSlot;

	CHECK_FOR_INTERRUPTS();
	if (unlikely(!node->sort_done))
		gpusort_run(node);
	if (sorter_next(node->sorter, ScanDirectionIsForward(pstate->state->es_direction), slot))
		return slot;
	if (unlikely(node->sorter->lost) && gpusort_recover(node, slot))
		return slot;
	return ExecClearTuple(slot);
}

static TupleTableSlot *
gpusort_exec_custom(CustomScanState *css)
{
	return gpusort_exec(&css->ss.ps);
}

static void
gpusort_begin(CustomScanState *css, EState *estate, int eflags)
{
	GpuSortState *node = (GpuSortState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *lists[GPUSORT_PRIVATE_COUNT];

	for (int i = 0; i < GPUSORT_PRIVATE_COUNT; i++)
		lists[i] = list_nth(cscan->custom_private, i);
	node->keys = palloc(node->nkeys * sizeof(KeyColumn));
	for (int i = 0; i < node->nkeys; i++)
	{
		KeyColumn  *key = &node->keys[i];

		key->attno = list_nth_int(lists[GPUSORT_PRIVATE_ATTNO], i);
		key->sortop = list_nth_oid(lists[GPUSORT_PRIVATE_SORTOP], i);
		key->collation = list_nth_oid(lists[GPUSORT_PRIVATE_COLLATION], i);
		key->nulls_first = list_nth_int(lists[GPUSORT_PRIVATE_NULLS_FIRST], i);
		key->descending = list_nth_int(lists[GPUSORT_PRIVATE_DESCENDING], i);
		key->kind = (KeyKind) list_nth_int(lists[GPUSORT_PRIVATE_KIND], i);
	}

	if (cscan->custom_exprs != NIL)
	{
		node->limit_count = ExecInitExpr(linitial(cscan->custom_exprs), &css->ss.ps);
		node->limit_offset = ExecInitExpr(lsecond(cscan->custom_exprs), &css->ss.ps);
	}

	node->random_access =
		(eflags & (EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)) != 0;
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	page_source_init(&node->pages, outerPlanState(css));

	/* rows are given as they are stored (see the file's header), or as values */
	Assert(css->ss.ps.ps_ProjInfo == NULL);
	node->keys_only = cscan->custom_exprs == NIL &&
		keys_only_possible(ExecGetResultType(outerPlanState(css)), node->keys, node->nkeys);
	if (!node->keys_only)
		ExecInitResultSlot(&css->ss.ps, &TTSOpsMinimalTuple);
	css->ss.ps.ExecProcNode = gpusort_exec;
}

static void
gpusort_end(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;

	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	page_source_end(&node->pages);
	if (node->sorter != NULL)
	{
		sorter_end(node->sorter);
		MemoryContextDelete(node->sorter->cxt);
		node->sorter = NULL;
	}
	ExecEndNode(outerPlanState(css));
}

static void
gpusort_rescan(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;
	PlanState  *outer = outerPlanState(css);

	/* Not sorted yet: the child, if it must, is rescanned on its first call. */
	if (!node->sort_done)
		return;

	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (outer->chgParam != NULL || !node->random_access ||
		node->bound != gpusort_bound(node))
	{
		node->sort_done = false;
		sorter_end(node->sorter);
		if (outer->chgParam == NULL)
			ExecReScan(outer);
	}
	else
		sorter_rewind(node->sorter);
}

static void
gpusort_mark(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;

	if (node->sort_done)
		sorter_mark(node->sorter);
}

static void
gpusort_restore(CustomScanState *css)
{
	GpuSortState *node = (GpuSortState *) css;

	if (node->sort_done)
		sorter_restore(node->sorter);
}
