/*
 * plan.c
 *	  Replaces WindowAgg nodes of finished plans by GpuSort Window nodes.
 *
 * A WindowAgg is replaced if it stands directly above a GpuSort, or above a WindowAgg
 * that was replaced, and if all its functions only number or count rows: row_number(),
 * rank(), dense_rank(), percent_rank(), cume_dist(), ntile() with a constant, and count(*)
 * with a frame that begins with the partition.  A frame with an offset stays with the
 * WindowAgg, because its expression may raise an error.
 *
 * Only the topmost of several WindowAggs stops at its run condition.  Behind the row that
 * fails the condition of a lower WindowAgg its functions return NULL, and the qual of the
 * topmost one filters these rows.
 *
 * Behind the row that fails its run condition a WindowAgg computes its target list for rows
 * of the partition that it has read ahead.  It stays if the target list may fail or have
 * effects.
 */
#include "postgres.h"

#include "compat.h"
#include "expression.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/sort/sort_node.h"
#include "nodes/window/window.h"
#include "optimizer/optimizer.h"
#include "settings.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* The functions of a WindowAgg. */
typedef struct WindowFuncs
{
	int			frame_options;
	List	   *funcs;			/* distinct WindowFuncs */
	bool		refused;		/* a function does more than number rows */
} WindowFuncs;

/* The rows that count(*) counts in a frame.  False if the frame does not begin with the partition. */
static bool
counted_rows(int frame_options, WindowValue *value)
{
	if ((frame_options & FRAMEOPTION_START_UNBOUNDED_PRECEDING) == 0 || (frame_options & FRAMEOPTION_EXCLUSION) != 0)
		return false;
	if (frame_options & FRAMEOPTION_END_UNBOUNDED_FOLLOWING)
		*value = WINDOW_PARTITION_ROWS;
	else if ((frame_options & FRAMEOPTION_END_CURRENT_ROW) == 0)
		return false;
	else
		*value = frame_options & FRAMEOPTION_ROWS ? WINDOW_ROW_NUMBER : WINDOW_PEERS_END;
	return true;
}

/* The only argument of the function, if it is a constant and not NULL; otherwise NULL. */
static const Const *
constant_argument(const WindowFunc *func)
{
	const Const *arg = linitial(func->args);

	return list_length(func->args) == 1 && IsA(arg, Const) && !arg->constisnull ? arg : NULL;
}

/* Does the function only number or count rows?  Sets *function. */
static bool
numbers_rows(const WindowFunc *func, int frame_options, WindowFunction *function)
{
	const Const *arg;

	function->buckets = 0;
	if (func->aggfilter != NULL || compat_ignores_nulls(func))
		return false;
	switch (func->winfnoid)
	{
		case F_ROW_NUMBER:
			function->value = WINDOW_ROW_NUMBER;
			return true;
		case F_RANK_:
			function->value = WINDOW_RANK;
			return true;
		case F_DENSE_RANK_:
			function->value = WINDOW_DENSE_RANK;
			return true;
		case F_PERCENT_RANK_:
			function->value = WINDOW_PERCENT_RANK;
			return true;
		case F_CUME_DIST_:
			function->value = WINDOW_CUME_DIST;
			return true;
		case F_NTILE:
			function->value = WINDOW_NTILE;
			arg = constant_argument(func);
			/* other numbers of buckets raise an error, or give NULL */
			if (arg == NULL || DatumGetInt32(arg->constvalue) <= 0)
				return false;
			function->buckets = DatumGetInt32(arg->constvalue);
			return true;
		case F_COUNT_ANY:
			if (constant_argument(func) == NULL)
				return false;
			return counted_rows(frame_options, &function->value);
		case F_COUNT_:
			return counted_rows(frame_options, &function->value);
		default:
			return false;
	}
}

/* Does the WindowAgg read rows behind the one that it returns? */
static bool
reads_ahead(const WindowAgg *window, const List *funcs)
{
	ListCell   *lc;

	foreach(lc, funcs)
	{
		Oid			func = lfirst_node(WindowFunc, lc)->winfnoid;

		if (func != F_ROW_NUMBER && func != F_RANK_ && func != F_DENSE_RANK_)
			return true;
	}
	/* it looks for the end of the peer group, though these functions do not need it */
	return window->ordNumCols > 0 &&
		((window->frameOptions & FRAMEOPTION_ROWS) == 0 || (window->frameOptions & FRAMEOPTION_EXCLUSION) != 0);
}

/*
 * expression_tree_mutator: replaces each WindowFunc by a Var for its value, and collects
 * the functions.
 */
static Node *
replace_functions(Node *node, void *context)
{
	WindowFuncs *funcs = context;
	WindowFunction function;
	int			i;

	if (node == NULL)
		return NULL;
	if (!IsA(node, WindowFunc))
		return expression_tree_mutator(node, replace_functions, context);
	if (!numbers_rows((WindowFunc *) node, funcs->frame_options, &function))
	{
		funcs->refused = true;
		return node;
	}
	for (i = 0; i < list_length(funcs->funcs); i++)
	{
		if (equal(list_nth(funcs->funcs, i), node))
			break;
	}
	if (i == list_length(funcs->funcs))
		funcs->funcs = lappend(funcs->funcs, node);
	return (Node *) makeVar(INDEX_VAR, i + 1, ((const WindowFunc *) node)->wintype, -1, InvalidOid, 0);
}

/*
 * Hides the first column that the target list takes from the child unchanged.  To see
 * whether a projection is needed, the executor compares leading Vars of a CustomScan's
 * target list with the scan tuple.  It expects no Vars for the child among them; a server
 * that is built with assertions ends otherwise.
 */
static void
hide_child_column(List *targetlist)
{
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (!IsA(var, Var) || var->varno == INDEX_VAR)
			continue;
		tle->expr = (Expr *) makeRelabelType((Expr *) var, var->vartype, var->vartypmod, var->varcollid,
											 COERCE_IMPLICIT_CAST);
		return;
	}
}

/* Writes the functions into the node: their numbers, and custom_scan_tlist, which describes their values. */
static void
set_functions(CustomScan *cscan, const WindowFuncs *funcs)
{
	List	   *numbers = NIL;
	ListCell   *lc;

	foreach(lc, funcs->funcs)
	{
		WindowFunc *func = lfirst_node(WindowFunc, lc);
		WindowFunction function;

		(void) numbers_rows(func, funcs->frame_options, &function);
		numbers = lappend_int(numbers, function.value);
		numbers = lappend_int(numbers, function.buckets);
		cscan->custom_scan_tlist = lappend(cscan->custom_scan_tlist,
										   makeTargetEntry(compat_window_func_to_print(func),
														   foreach_current_index(lc) + 1,
														   get_func_name(func->winfnoid), false));
	}
	cscan->custom_private = lappend(cscan->custom_private, numbers);
}

Plan *
replace_window(WindowAgg *window)
{
	Plan	   *child = window->plan.lefttree;
	WindowFuncs funcs = {.frame_options = window->frameOptions};
	WindowAgg  *kept = makeNode(WindowAgg);
	CustomScan *cscan;
	List	   *targetlist;
	List	   *qual;
	List	   *condition;

	if (!gpusort_windows || (!gpusort_plan_is(child) && !custom_plan_is(child, &window_node)) ||
		window->startOffset != NULL || window->endOffset != NULL)
		return &window->plan;
	targetlist = (List *) replace_functions((Node *) window->plan.targetlist, &funcs);
	qual = (List *) replace_functions((Node *) window->plan.qual, &funcs);
	condition = (List *) replace_functions((Node *) window->runConditionOrig, &funcs);
	if (funcs.refused || funcs.funcs == NIL)
		return &window->plan;
	if (condition != NIL && window->topWindow && window->partNumCols > 0 && reads_ahead(window, funcs.funcs) &&
		expr_is_loud((Node *) targetlist))
		return &window->plan;

	hide_child_column(targetlist);
	cscan = custom_plan_make(&window->plan, child, NIL, &window_node);
	cscan->scan.plan.targetlist = targetlist;
	cscan->scan.plan.qual = qual;
	cscan->custom_exprs = condition;
	*kept = *window;
	kept->plan = (Plan) {.type = T_WindowAgg};
	kept->runCondition = kept->runConditionOrig = NIL;
	cscan->custom_private = list_make1(kept);
	set_functions(cscan, &funcs);
	/* its target list computes expressions */
	cscan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	return &cscan->scan.plan;
}
