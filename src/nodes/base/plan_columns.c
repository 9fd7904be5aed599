/*
 * plan_columns.c
 *	  Columns of finished plans: where they are computed, and what a replaced node returned.
 *
 * A Var of a finished plan refers to a target list: that of a child, or the list of the
 * columns that a scan returns before its projection.  Of a CustomScan this is
 * custom_scan_tlist, whose Vars refer to the children or, in nodes of other extensions, to
 * tables.
 */
#include "postgres.h"

#include "nodes/base/plan_columns.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

/* The list of a scan's columns, to which INDEX_VAR refers; NIL for other nodes. */
static List *
scan_tlist(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_CustomScan:
			return ((const CustomScan *) plan)->custom_scan_tlist;
		case T_ForeignScan:
			return ((const ForeignScan *) plan)->fdw_scan_tlist;
		case T_IndexOnlyScan:
			return ((const IndexOnlyScan *) plan)->indextlist;
		default:
			return NIL;
	}
}

/*
 * The entry that a Var of a plan's expressions refers to; NULL for a Var that is not followed.
 * *plan becomes the node to whose target lists this entry's Vars refer in turn.
 */
static const TargetEntry *
var_entry(const Plan **plan, const Var *var)
{
	const Plan *child = NULL;

	switch (var->varno)
	{
		case INDEX_VAR:
			return get_tle_by_resno(scan_tlist(*plan), var->varattno);
		case OUTER_VAR:
			child = outerPlan(*plan);
			break;
		case INNER_VAR:
			child = innerPlan(*plan);
			break;
	}
	if (child == NULL)
		return NULL;
	*plan = child;
	return get_tle_by_resno(child->targetlist, var->varattno);
}

const Node *
plan_expr_source(const Plan *plan, const Node *expr)
{
	while (IsA(expr, Var))
	{
		const TargetEntry *tle = var_entry(&plan, (const Var *) expr);

		if (tle == NULL)
			break;
		expr = (const Node *) tle->expr;
	}
	return expr;
}

AttrNumber
sort_output_column(const CustomScan *sort, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, sort->scan.plan.targetlist)
	{
		const TargetEntry *tle = lfirst_node(TargetEntry, lc);
		const Var  *var = (const Var *) tle->expr;

		if (IsA(var, Var) && var->varno == INDEX_VAR && var->varattno == attno)
			return tle->resno;
	}
	return 0;
}

bool
plan_returns_input(const Plan *plan)
{
	const Plan *child = outerPlan(plan);
	ListCell   *lc;
	ListCell   *below;

	if (list_length(plan->targetlist) != list_length(child->targetlist))
		return false;
	forboth(lc, plan->targetlist, below, child->targetlist)
	{
		const TargetEntry *tle = lfirst_node(TargetEntry, lc);
		const Var  *var = (const Var *) tle->expr;

		/* a constant is not read from the row below */
		if (IsA(var, Const) &&
			equal(var, plan_expr_source(child, (const Node *) lfirst_node(TargetEntry, below)->expr)))
			continue;
		if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno != tle->resno)
			return false;
	}
	return true;
}

#ifdef USE_ASSERT_CHECKING

/* The expression below casts that keep all bits, where it is computed. */
static const Node *
column_source(const Plan *plan, const TargetEntry *tle)
{
	const Node *expr = (const Node *) tle->expr;

	while (IsA(expr, RelabelType))
		expr = (const Node *) ((const RelabelType *) expr)->arg;
	return plan_expr_source(plan, expr);
}

PlanOutput
plan_output(const Plan *plan)
{
	PlanOutput	output = {0};
	ListCell   *lc;

	foreach(lc, plan->targetlist)
	{
		const TargetEntry *tle = lfirst_node(TargetEntry, lc);

		output.columns = lappend(output.columns, flatCopyTargetEntry(unconstify(TargetEntry *, tle)));
		output.sources = lappend(output.sources, unconstify(Node *, column_source(plan, tle)));
	}
	return output;
}

void
check_plan_output(const PlanOutput *output, const Plan *plan)
{
	ListCell   *column;
	ListCell   *source;
	ListCell   *lc;

	Assert(list_length(output->columns) == list_length(plan->targetlist));
	forthree(column, output->columns, source, output->sources, lc, plan->targetlist)
	{
		const TargetEntry *old = lfirst_node(TargetEntry, column);
		const TargetEntry *new = lfirst_node(TargetEntry, lc);
		const Node *from = column_source(plan, new);

		Assert(old->resno == new->resno && old->resjunk == new->resjunk);
		Assert(exprType((Node *) old->expr) == exprType((Node *) new->expr));
		Assert(exprTypmod((Node *) old->expr) == exprTypmod((Node *) new->expr));
		Assert(exprCollation((Node *) old->expr) == exprCollation((Node *) new->expr));
		/* other expressions may refer to other columns of a child that was changed as well */
		if (IsA(from, Var) || IsA(from, Const))
			Assert(equal(from, lfirst(source)));
	}
}

#endif							/* USE_ASSERT_CHECKING */
