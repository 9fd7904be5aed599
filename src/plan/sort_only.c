/*
 * sort_only.c
 *	  Columns that a statement sorts by and does not return.
 *
 * SELECT id, t ... ORDER BY t COLLATE "C" has three columns: the planner lets what is
 * below the sort make t once more under the other collation, and the executor drops it from
 * each row that the statement returns.  The two are the same bytes, so the GpuSort on top
 * of a plan sorts by the one that is returned, and the other is made no more: rows are
 * shorter by it, and often are whole tuples then, and none has to be made without it.
 *
 * Only of columns that differ in nothing but collation or type modifier, so that EXPLAIN
 * shows the same key; and only where a sort, maybe below a LIMIT, is all that knows them.
 */
#include "postgres.h"

#include "node/parallel/feed.h"
#include "node/plan_format.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planmain.h"
#include "plan/sort_only.h"

/* The column that is the same but for its collation, of the n first; 0 if there is none. */
static AttrNumber
find_twin(List *tlist, int n, const TargetEntry *tle)
{
	Node	   *expr = (Node *) tle->expr;

	while (IsA(expr, RelabelType))
		expr = (Node *) ((RelabelType *) expr)->arg;
	if (!IsA(expr, Var) || exprType(expr) != exprType((Node *) tle->expr))
		return 0;
	for (int i = 0; i < n; i++)
	{
		if (equal(list_nth_node(TargetEntry, tlist, i)->expr, expr))
			return i + 1;
	}
	return 0;
}

/* Does the sort's column i come from the child's column i? */
static bool
from_same_place(const CustomScan *sort, int i)
{
	const Var  *var = (Var *) list_nth_node(TargetEntry, sort->custom_scan_tlist, i)->expr;

	return IsA(var, Var) && var->varno == OUTER_VAR && var->varattno == i + 1;
}

void
plan_leave_out_twins(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;
	Plan	   *plan = top;
	CustomScan *sort;
	Plan	   *child;
	int			n = list_length(top->targetlist);
	int			left = n;

	/* LIMIT ... WITH TIES compares columns, rows that are locked have more to them */
	if (stmt->commandType != CMD_SELECT || stmt->rowMarks != NIL)
		return;
	if (IsA(plan, Limit) && ((Limit *) plan)->uniqNumCols == 0)
		plan = plan->lefttree;
	sort = (CustomScan *) plan;
	if (!gpusort_plan_is(plan) || plan_above_feeds(sort))
		return;
	child = plan->lefttree;
	if (IsA(child, CustomScan) || IsA(child, ForeignScan) || !is_projection_capable_plan(child) ||
		list_length(plan->targetlist) != n || list_length(child->targetlist) != n)
		return;

	for (int i = 0; i < n; i++)
	{
		if (!from_same_place(sort, i))
			return;
	}
	for (; left > 1 && list_nth_node(TargetEntry, top->targetlist, left - 1)->resjunk; left--)
	{
		AttrNumber	twin = find_twin(child->targetlist, left - 1,
									 list_nth_node(TargetEntry, child->targetlist, left - 1));

		if (twin == 0)
			break;
		gpusort_plan_move_key(sort, left, twin);
	}
	if (left == n)
		return;
	top->targetlist = list_truncate(top->targetlist, left);
	plan->targetlist = list_truncate(plan->targetlist, left);
	sort->custom_scan_tlist = list_truncate(sort->custom_scan_tlist, left);
	child->targetlist = list_truncate(child->targetlist, left);
}
