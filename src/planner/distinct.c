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

void
drop_duplicates_below(const Plan *plan)
{
	CustomScan *sort = (CustomScan *) plan->lefttree;
	NeighbourColumns node;
	KeyColumn  *keys;
	int			nkeys;

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
	gpusort_plan_set_distinct(sort, node.n);
	if (plan_above_partial_sorts(sort))
		gpusort_plan_set_distinct((CustomScan *) outerPlan(outerPlan(sort)), node.n);
}
