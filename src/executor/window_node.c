/*
 * window_node.c
 *	  The executor node "Custom Scan (GpuSort Window)": window functions that number rows.
 *
 * row_number(), rank(), dense_rank() and a running count(*) depend only on how many rows
 * and peer groups of the partition came before.  The child returns the rows in order, so
 * three counters suffice, and each row is passed on when it comes.  WindowAgg
 * stores the partition in a tuplestore, reads each row from it, and calls each function.
 *
 * A row belongs to a new partition or peer group if a column differs from that of the
 * row before (group_column.c).
 *
 * The child's row is the outer tuple of the node's expressions, and the values of the
 * functions are its scan tuple: custom_scan_tlist has a column for each function.  The
 * child's columns are therefore not copied.
 *
 * If the run condition (rn <= 3) fails for a row, it fails for the following rows of the
 * partition.  They are skipped; without partitions the node has ended.
 *
 * Memory policy: the compared columns of one row, in the query's memory context.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "executor/executor_internal.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/ruleutils.h"

typedef struct WindowState
{
	CustomScanState css;
	WindowFormat format;
	GroupColumn *columns;		/* of the partition, then of the order */
	int			ncompared;		/* columns that matter for the functions */
	AttrNumber	last_attno;		/* greatest column number among them */
	ExprState  *run_condition;	/* NULL: none */
	ExprState  *filter;			/* the node's qual; NULL: none */
	TupleTableSlot *values;		/* the functions' values */
	bool		begun;			/* columns[] have a row's values */

	/* the run condition has failed for a row of the partition */
	bool		skipping;
	bool		ended;			/* no more rows will be returned */
	int64		counters[WINDOW_COUNTERS];	/* of the current row */
} WindowState;

static Node *window_create_state(CustomScan *cscan);
static void window_begin(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *window_exec_custom(CustomScanState *css);
static void window_end(CustomScanState *css);
static void window_rescan(CustomScanState *css);
static void window_explain(CustomScanState *css, List *ancestors, ExplainState *es);

const CustomScanMethods window_scan_methods = {
	.CustomName = "GpuSort Window",
	.CreateCustomScanState = window_create_state
};

static const CustomExecMethods window_exec_methods = {
	.CustomName = "GpuSort Window",
	.BeginCustomScan = window_begin,
	.ExecCustomScan = window_exec_custom,
	.EndCustomScan = window_end,
	.ReScanCustomScan = window_rescan,
	.ExplainCustomScan = window_explain
};

/* ------------------------------------------------------------------------
 * Format in the plan: three lists of numbers in custom_private
 * ------------------------------------------------------------------------
 */

bool
window_plan_is(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &window_scan_methods;
}

void
window_plan_fill(CustomScan *cscan, const WindowFormat *format)
{
	List	   *columns = NIL;
	List	   *operators = NIL;
	List	   *counters = NIL;

	columns = list_make1_int(format->npartition);
	for (int i = 0; i < format->ncolumns; i++)
	{
		columns = lappend_int(columns, format->columns[i].attno);
		operators = lappend_oid(operators, format->columns[i].equality);
		operators = lappend_oid(operators, format->columns[i].collation);
	}
	for (int i = 0; i < format->ncounters; i++)
		counters = lappend_int(counters, format->counters[i]);
	cscan->custom_private = list_make3(columns, operators, counters);
}

static void
window_plan_read(const CustomScan *cscan, WindowFormat *format)
{
	const List *columns = linitial(cscan->custom_private);
	const List *operators = lsecond(cscan->custom_private);
	const List *counters = lthird(cscan->custom_private);

	format->npartition = linitial_int(columns);
	format->ncolumns = list_length(columns) - 1;
	format->columns = palloc(format->ncolumns * sizeof(ComparedColumn));
	for (int i = 0; i < format->ncolumns; i++)
	{
		format->columns[i].attno = list_nth_int(columns, i + 1);
		format->columns[i].equality = list_nth_oid(operators, 2 * i);
		format->columns[i].collation = list_nth_oid(operators, 2 * i + 1);
	}
	format->ncounters = list_length(counters);
	format->counters = palloc(format->ncounters * sizeof(WindowCounter));
	for (int i = 0; i < format->ncounters; i++)
		format->counters[i] = (WindowCounter) list_nth_int(counters, i);
}

/* ------------------------------------------------------------------------
 * Comparing a row with the row before
 * ------------------------------------------------------------------------
 */

/*
 * Number of the first compared column in which the child's row differs from the row
 * before; ncompared if there is none.  Keeps the row's values.
 */
static pg_attribute_always_inline int
first_difference(WindowState *node, TupleTableSlot *row)
{
	MemoryContext scratch = node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory;
	int			n = node->ncompared;
	int			first = 0;

	slot_getsomeattrs(row, node->last_attno);
	if (likely(node->begun))
		first = group_columns_first_difference(node->columns, n, row, scratch);
	for (int i = first; i < n; i++)
		group_column_keep(&node->columns[i], row, node->css.ss.ps.state->es_query_cxt);
	return first;
}

/* ------------------------------------------------------------------------
 * Returning rows
 * ------------------------------------------------------------------------
 */

/* Advances the counters to the child's row. */
static pg_attribute_always_inline void
count_row(WindowState *node, TupleTableSlot *row)
{
	int64	   *counters = node->counters;
	int			first = first_difference(node, row);

	if (unlikely(!node->begun) || first < node->format.npartition)
	{
		for (int i = 0; i < WINDOW_COUNTERS; i++)
			counters[i] = 1;
		node->begun = true;
		node->skipping = false;
		return;
	}
	counters[WINDOW_ROW_NUMBER]++;
	if (first < node->ncompared)
	{
		counters[WINDOW_RANK] = counters[WINDOW_ROW_NUMBER];
		counters[WINDOW_DENSE_RANK]++;
	}
}

static TupleTableSlot *
window_exec(PlanState *pstate)
{
	WindowState *node = (WindowState *) pstate;
	ExprContext *econtext = pstate->ps_ExprContext;
	PlanState  *outer = outerPlanState(pstate);

	while (!node->ended)
	{
		TupleTableSlot *row;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		row = ExecProcNode(outer);
		if (TupIsNull(row))
		{
			node->ended = true;
			break;
		}
		count_row(node, row);
		if (node->skipping)
			continue;
		for (int i = 0; i < node->format.ncounters; i++)
			node->values->tts_values[i] = Int64GetDatum(node->counters[node->format.counters[i]]);
		econtext->ecxt_outertuple = row;
		econtext->ecxt_scantuple = node->values;
		if (!ExecQual(node->run_condition, econtext))
		{
			node->skipping = true;
			node->ended = node->format.npartition == 0;
			continue;
		}
		if (!ExecQual(node->filter, econtext))
		{
			InstrCountFiltered1(node, 1);
			continue;
		}
		if (pstate->ps_ProjInfo == NULL)
			return node->values;
		return ExecProject(pstate->ps_ProjInfo);
	}
	return ExecClearTuple(pstate->ps_ResultTupleSlot);
}

static TupleTableSlot *
window_exec_custom(CustomScanState *css)
{
	return window_exec(&css->ss.ps);
}

static Node *
window_create_state(CustomScan *cscan)
{
	WindowState *node = (WindowState *) newNode(sizeof(WindowState), T_CustomScanState);

	node->css.methods = &window_exec_methods;
	return (Node *) node;
}

/* Does a function depend on peer groups? */
static bool
needs_peers(const WindowFormat *format)
{
	for (int i = 0; i < format->ncounters; i++)
	{
		if (format->counters[i] != WINDOW_ROW_NUMBER)
			return true;
	}
	return false;
}

static void
window_begin(CustomScanState *css, EState *estate, int eflags)
{
	WindowState *node = (WindowState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	TupleDesc	desc;

	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	desc = ExecGetResultType(outerPlanState(css));

	window_plan_read(cscan, &node->format);
	node->ncompared = needs_peers(&node->format) ? node->format.ncolumns : node->format.npartition;
	node->columns = palloc(node->ncompared * sizeof(GroupColumn));
	for (int i = 0; i < node->ncompared; i++)
	{
		const ComparedColumn *column = &node->format.columns[i];

		group_column_init(&node->columns[i], column->attno, column->equality, column->collation, desc);
		node->last_attno = Max(node->last_attno, node->columns[i].attno);
	}
	node->run_condition = ExecInitQual(cscan->custom_exprs, &css->ss.ps);
	node->filter = css->ss.ps.qual;

	node->values = css->ss.ss_ScanTupleSlot;
	memset(node->values->tts_isnull, 0, node->format.ncounters * sizeof(bool));
	ExecStoreVirtualTuple(node->values);
	css->ss.ps.ExecProcNode = window_exec;
}

static void
window_end(CustomScanState *css)
{
	ExecEndNode(outerPlanState(css));
}

static void
window_rescan(CustomScanState *css)
{
	WindowState *node = (WindowState *) css;
	PlanState  *outer = outerPlanState(css);

	node->begun = node->skipping = node->ended = false;
	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* ------------------------------------------------------------------------
 * EXPLAIN
 * ------------------------------------------------------------------------
 */

/* Shows the format's columns [from, to) as the property "label". */
static void
explain_columns(const WindowState *node, const char *label, int from, int to, List *context,
				bool useprefix, ExplainState *es)
{
	const Plan *child = outerPlan(node->css.ss.ps.plan);
	List	   *result = NIL;

	for (int i = from; i < to; i++)
	{
		TargetEntry *tle = get_tle_by_resno(child->targetlist, node->format.columns[i].attno);

		if (tle == NULL)
			elog(ERROR, "no tlist entry for column %d", node->format.columns[i].attno);
		result = lappend(result, deparse_expression((Node *) makeVarFromTargetEntry(OUTER_VAR, tle),
													context, useprefix, true));
	}
	if (result != NIL)
		ExplainPropertyList(label, result, es);
}

static void
window_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	WindowState *node = (WindowState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	bool		useprefix = (compat_explain_tables(es) > 1 || es->verbose);
	List	   *functions = NIL;
	ListCell   *lc;

	foreach(lc, cscan->custom_scan_tlist)
		functions = lappend(functions, lfirst_node(TargetEntry, lc)->resname);
	ExplainPropertyList("Window Functions", functions, es);
	explain_columns(node, "Partition Key", 0, node->format.npartition, context, useprefix, es);
	explain_columns(node, "Order Key", node->format.npartition, node->format.ncolumns, context, useprefix, es);
	if (cscan->custom_exprs != NIL)
		ExplainPropertyText("Run Condition",
							deparse_expression((Node *) make_ands_explicit(cscan->custom_exprs), context,
											   useprefix, false), es);
}
