/*
 * plan.c
 *	  Replaces WindowAgg nodes of finished plans by GpuSort Window nodes.
 *
 * A WindowAgg is replaced, whatever node gives its rows their order, if the node knows all its
 * functions: row numbers, ranks and counts of rows; lag() and lead() of a column with a constant
 * distance; first_value() and last_value() of a column, and PostgreSQL's own aggregates whose final
 * functions only read, with a frame that begins with the partition.  A frame with an offset stays with the
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

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "expression.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/window/window.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "settings.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The functions of a WindowAgg. */
typedef struct WindowFuncs
{
	int			frame_options;
	List	   *funcs;			/* distinct WindowFuncs */
	bool		refused;		/* the node does not know a function */
} WindowFuncs;

/* The counter of a frame's rows.  False if the frame does not begin with the partition. */
static bool
frame_counter(int frame_options, WindowValue *value)
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

/* Reads lag() or lead(). */
static bool
read_distance(const WindowFunc *func, WindowFunction *function)
{
	const Var  *arg = linitial(func->args);
	int			nargs = list_length(func->args);

	function->distance = 1;
	if (nargs > 1)
	{
		const Const *distance = lsecond(func->args);

		if (!IsA(distance, Const) || distance->constisnull)
			return false;
		function->distance = DatumGetInt32(distance->constvalue);
	}
	if (nargs > 2)
	{
		function->missing = lthird(func->args);
		if (!IsA(function->missing, Const))
			return false;
	}
	if (!IsA(arg, Var) || function->distance < 0 || function->distance > WINDOW_MOST_DISTANCE)
		return false;
	function->att = arg->varattno;
	return true;
}

/* The transition type of an aggregate that the node computes; InvalidOid: of another function. */
static Oid
aggregate_transition_type(const WindowFunc *func)
{
	HeapTuple	tuple;
	const FormData_pg_aggregate *form;
	Oid			type = InvalidOid;

	/* EXPLAIN can print JSON_ARRAYAGG() and its like with their WindowFunc alone, from 16 on */
	if (func->wintype == JSONOID || func->wintype == JSONBOID)
		return InvalidOid;
	if (!func->winagg || func->winfnoid >= FirstNormalObjectId || contain_volatile_functions((Node *) func) ||
		contain_subplans((Node *) func))
		return InvalidOid;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(func->winfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", func->winfnoid);
	form = (const FormData_pg_aggregate *) GETSTRUCT(tuple);
	/* its final function is called again when more rows have been added */
	if (form->aggkind == AGGKIND_NORMAL && form->aggfinalmodify == AGGMODIFY_READ_ONLY && !form->aggfinalextra &&
		!IsPolymorphicType(form->aggtranstype))
		type = form->aggtranstype;
	ReleaseSysCache(tuple);
	return type;
}

/* Does the function only number or count rows?  Sets *function. */
static bool
numbers_rows(const WindowFunc *func, int frame_options, WindowFunction *function)
{
	const Const *arg;

	if (func->aggfilter != NULL)
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
			return frame_counter(frame_options, &function->value);
		case F_COUNT_:
			return frame_counter(frame_options, &function->value);
		default:
			return false;
	}
}

bool
window_function_read(const WindowFunc *func, int frame_options, WindowFunction *function)
{
	memset(function, 0, sizeof(*function));
	if (compat_ignores_nulls(func))
		return false;
	if (numbers_rows(func, frame_options, function))
		return true;
	switch (func->winfnoid)
	{
		case F_LAG_ANYELEMENT:
		case F_LAG_ANYELEMENT_INT4:
		case F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
			function->value = WINDOW_LAG;
			return read_distance(func, function);
		case F_LEAD_ANYELEMENT:
		case F_LEAD_ANYELEMENT_INT4:
		case F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
			function->value = WINDOW_LEAD;
			return read_distance(func, function);
		case F_FIRST_VALUE:
		case F_LAST_VALUE:
			function->value = func->winfnoid == F_FIRST_VALUE ? WINDOW_FIRST_VALUE : WINDOW_LAST_VALUE;
			if (!IsA(linitial(func->args), Var))
				return false;
			function->att = linitial_node(Var, func->args)->varattno;
			break;
		default:
			function->value = WINDOW_AGGREGATE;
			if (!OidIsValid(aggregate_transition_type(func)))
				return false;
	}
	return frame_counter(frame_options, &function->frame_end);
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
	if (!window_function_read((WindowFunc *) node, funcs->frame_options, &function))
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
	return (Node *) makeVar(INDEX_VAR, i + 1, ((const WindowFunc *) node)->wintype, -1,
							 ((const WindowFunc *) node)->wincollid, 0);
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

/* The Aggref of a window function that is an aggregate. */
static Aggref *
make_aggref(const WindowFunc *func, int number)
{
	Aggref	   *aggref = makeNode(Aggref);
	ListCell   *lc;

	aggref->aggfnoid = func->winfnoid;
	aggref->aggtype = func->wintype;
	aggref->aggcollid = func->wincollid;
	aggref->inputcollid = func->inputcollid;
	aggref->aggtranstype = aggregate_transition_type(func);
	foreach(lc, func->args)
	{
		Expr	   *arg = lfirst(lc);

		aggref->aggargtypes = lappend_oid(aggref->aggargtypes, exprType((Node *) arg));
		aggref->args = lappend(aggref->args, makeTargetEntry(arg, foreach_current_index(lc) + 1, NULL, false));
	}
	aggref->aggfilter = func->aggfilter;
	aggref->aggstar = func->winstar;
	aggref->aggkind = AGGKIND_NORMAL;
	aggref->aggsplit = AGGSPLIT_SIMPLE;
	aggref->aggno = aggref->aggtransno = number;
	aggref->location = -1;
	return aggref;
}

/* Writes the functions into the node, with custom_scan_tlist, which describes their values. */
static void
set_functions(CustomScan *cscan, const WindowFuncs *funcs)
{
	Agg		   *agg = makeNode(Agg);
	ListCell   *lc;

	agg->aggstrategy = AGG_PLAIN;
	agg->aggsplit = AGGSPLIT_SIMPLE;
	foreach(lc, funcs->funcs)
	{
		WindowFunc *func = lfirst_node(WindowFunc, lc);
		WindowFunction function;
		int			naggs = list_length(agg->plan.targetlist);

		(void) window_function_read(func, funcs->frame_options, &function);
		if (function.value == WINDOW_AGGREGATE)
			agg->plan.targetlist = lappend(agg->plan.targetlist,
										   makeTargetEntry((Expr *) make_aggref(func, naggs), naggs + 1, NULL, false));
		cscan->custom_scan_tlist = lappend(cscan->custom_scan_tlist,
										   makeTargetEntry(compat_window_func_to_print(func),
														   foreach_current_index(lc) + 1,
														   get_func_name(func->winfnoid), false));
	}
	cscan->custom_private = lappend(cscan->custom_private, funcs->funcs);
	cscan->custom_private = lappend(cscan->custom_private, agg->plan.targetlist != NIL ? list_make1(agg) : NIL);
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

	if (!gpusort_windows || child->plan_rows < gpusort_min_rows || window->startOffset != NULL ||
		window->endOffset != NULL)
		return &window->plan;
	targetlist = (List *) replace_functions((Node *) window->plan.targetlist, &funcs);
	qual = (List *) replace_functions((Node *) window->plan.qual, &funcs);

	/*
	 * Vars of runCondition are entries of the WindowAgg's target list.  runConditionOrig is for EXPLAIN: Vars in the
	 * arguments of its functions do not refer to the child.
	 */
	condition = (List *) replace_functions(expr_expand_vars((Node *) window->runCondition, window->plan.targetlist),
										   &funcs);
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
