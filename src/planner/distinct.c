/*
 * distinct.c
 *	  Duplicates that the sort below a Unique or Group node may drop.
 *
 * Unique and Group return the first of neighbours that are equal in some columns.  If these
 * are the leading columns of a GpuSort directly below, and the sort compares them as the
 * node does, the sort may leave out the other rows: the node returns the same rows.  The
 * node stays, because a sort need not find all duplicates, and because a Group computes its
 * target list and its HAVING.  It costs little above a sort that returns few rows.
 */
#include "postgres.h"

#include "executor/gpusort_executor.h"
#include "planner/planner_internal.h"
#include "utils/lsyscache.h"

/* Columns by which a node compares neighbours. */
typedef struct NeighbourColumns
{
	int			n;
	const AttrNumber *columns;
	const Oid  *operators;
	const Oid  *collations;
} NeighbourColumns;

/* Does the node compare this sort key by the sort's own equality? */
static bool
compares_key(const NeighbourColumns *node, const KeyColumn *key)
{
	for (int i = 0; i < node->n; i++)
	{
		if (node->columns[i] == key->attno)
			return node->collations[i] == key->collation &&
				node->operators[i] == get_equality_op_for_ordering_op(key->sortop, NULL);
	}
	return false;
}

/* Are the node's columns the leading ones of the sort? */
static bool
columns_lead(const NeighbourColumns *node, const KeyColumn *keys, int nkeys)
{
	if (node->n == 0 || node->n > nkeys)
		return false;
	for (int i = 0; i < node->n; i++)
	{
		if (!compares_key(node, &keys[i]))
			return false;
	}
	return true;
}

/* The expression that a plan's column has where it is computed. */
static Node *
column_expression(const Plan *plan, AttrNumber attno)
{
	for (;;)
	{
		const TargetEntry *tle = list_nth_node(TargetEntry, plan->targetlist, attno - 1);
		const Var  *var = (const Var *) tle->expr;

		if (!IsA(var, Var) || !(var->varno == OUTER_VAR || var->varno == INDEX_VAR) ||
			var->varattno <= 0 || outerPlan(plan) == NULL)
			return (Node *) var;
		plan = outerPlan(plan);
		attno = var->varattno;
	}
}

/* The planner's estimate of the values of the columns; 0: it expects no duplicates. */
static double
expected_groups(const Plan *plan, const CustomScan *sort, const KeyColumn *keys, int n)
{
	double		most = 1;

	for (int k = 0; k < n; k++)
		most *= most_values(column_expression(outerPlan(sort), keys[k].attno));
	most = Min(most, plan->plan_rows);
	/* for a UNION PostgreSQL expects none, and does not know */
	return most < sort->scan.plan.plan_rows ? most : 0;
}

void
drop_duplicates_below(const Plan *plan)
{
	CustomScan *sort = (CustomScan *) plan->lefttree;
	NeighbourColumns node;
	KeyColumn  *keys;
	int			nkeys;
	double		groups;

	if (!gpusort_plan_is(plan->lefttree) || sort->custom_exprs != NIL)
		return;
	if (IsA(plan, Unique))
	{
		const Unique *unique = (const Unique *) plan;

		node = (NeighbourColumns)
		{
			unique->numCols, unique->uniqColIdx, unique->uniqOperators,
				unique->uniqCollations
		};
	}
	else
	{
		const Group *group = (const Group *) plan;

		node = (NeighbourColumns)
		{
			group->numCols, group->grpColIdx, group->grpOperators, group->grpCollations
		};
	}
	keys = gpusort_plan_keys(sort, &nkeys);
	if (!columns_lead(&node, keys, nkeys))
		return;
	groups = expected_groups(plan, sort, keys, node.n);
	gpusort_plan_set_distinct(sort, node.n, groups);
	if (plan_above_partial_sorts(sort))
		gpusort_plan_set_distinct((CustomScan *) outerPlan(outerPlan(sort)), node.n, groups);
}
