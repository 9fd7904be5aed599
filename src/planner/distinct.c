/*
 * distinct.c
 *	  Unique and Group nodes that the sort below makes superfluous.
 *
 * Unique and Group return the first of neighbours that are equal in some columns.  If these
 * are the leading columns of a GpuSort or a GpuSort Incremental directly below, and the sort
 * compares them as the node does, the sort leaves out the other rows, and the node goes.
 *
 * A Group stays if it has a HAVING, or if its target list is more than the sort's columns.
 * Then its sort leaves out the duplicates, too.
 *
 * PostgreSQL's partial DISTINCT has a Unique node in each worker, too.  A parallel sort
 * drops duplicates in each participant, so this node goes before the Sort below is
 * replaced.
 */
#include "postgres.h"

#include "nodes/base/plan_columns.h"
#include "nodes/base/plan_format.h"
#include "nodes/incremental/incremental.h"
#include "nodes/nodeFuncs.h"
#include "nodes/sort/sort_node.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
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

#define NODE_COLUMNS(node, prefix) \
	((NeighbourColumns) {(node)->numCols, (node)->prefix##ColIdx, (node)->prefix##Operators, \
						 (node)->prefix##Collations})

/* Does the node compare this key, which is column attno of the sort's output, by the sort's own equality? */
static bool
compares_key(const NeighbourColumns *node, const KeyColumn *key, AttrNumber attno)
{
	for (int i = 0; i < node->n; i++)
	{
		if (node->columns[i] == attno)
			return node->collations[i] == key->collation && key_orders_by_equality(key) &&
				node->operators[i] == get_equality_op_for_ordering_op(key->sortop, NULL);
	}
	return false;
}

/* Are the node's columns the leading ones of the sort? */
static bool
columns_lead(const NeighbourColumns *node, const CustomScan *sort, const KeyColumn *keys, int nkeys)
{
	if (node->n == 0 || node->n > nkeys)
		return false;
	for (int i = 0; i < node->n; i++)
	{
		if (!compares_key(node, &keys[i], sort_output_column(sort, keys[i].attno)))
			return false;
	}
	return true;
}

/* The planner's estimate of the values of the columns; 0: it expects no duplicates. */
static double
expected_groups(const Plan *plan, const CustomScan *sort, const KeyColumn *keys, int n)
{
	double		most = 1;

	for (int k = 0; k < n; k++)
	{
		const TargetEntry *key = get_tle_by_resno(sort->custom_scan_tlist, keys[k].attno);

		most *= most_values(plan_expr_source(&sort->scan.plan, (const Node *) key->expr));
	}
	most = Min(most, plan->plan_rows);
	/* for a UNION PostgreSQL expects none, and does not know */
	return most < sort->scan.plan.plan_rows ? most : 0;
}

/* The sort takes the node's place. */
static Plan *
take_place(Plan *plan, CustomScan *sort)
{
	Plan	   *own = &sort->scan.plan;

	apply_tlist_labeling(own->targetlist, plan->targetlist);
	own->startup_cost = plan->startup_cost;
	own->total_cost = plan->total_cost;
	own->plan_rows = plan->plan_rows;
	own->plan_width = plan->plan_width;
	own->parallel_safe = plan->parallel_safe;
	own->initPlan = list_concat(plan->initPlan, own->initPlan);
	own->extParam = plan->extParam;
	own->allParam = plan->allParam;
	/* the node is read forward only, as the plan above expects */
	sort->flags = 0;
	return own;
}

Plan *
replace_unique(Plan *plan)
{
	CustomScan *sort = (CustomScan *) plan->lefttree;
	NeighbourColumns node = IsA(plan, Unique) ? NODE_COLUMNS((const Unique *) plan, uniq) :
		NODE_COLUMNS((const Group *) plan, grp);
	KeyColumn  *keys;
	int			nkeys;
	double		groups;

	if ((!gpusort_plan_is(plan->lefttree) && !custom_plan_is(plan->lefttree, &incremental_node)) ||
		sort->custom_exprs != NIL)
		return plan;
	keys = gpusort_plan_keys(sort, &nkeys);
	if (!columns_lead(&node, sort, keys, nkeys))
		return plan;
	groups = expected_groups(plan, sort, keys, node.n);
	gpusort_plan_set_distinct(sort, node.n, groups);
	if (gpusort_plan_is(&sort->scan.plan) && plan_above_partial_sorts(sort))
		gpusort_plan_set_distinct((CustomScan *) outerPlan(outerPlan(sort)), node.n, groups);
	if (plan->qual != NIL || !plan_returns_input(plan))
		return plan;
	return take_place(plan, sort);
}

/* Do two Unique nodes compare the same columns? */
static bool
compare_same_columns(const Unique *a, const Unique *b)
{
	return a->numCols == b->numCols &&
		memcmp(a->uniqColIdx, b->uniqColIdx, a->numCols * sizeof(AttrNumber)) == 0 &&
		memcmp(a->uniqOperators, b->uniqOperators, a->numCols * sizeof(Oid)) == 0 &&
		memcmp(a->uniqCollations, b->uniqCollations, a->numCols * sizeof(Oid)) == 0;
}

void
drop_partial_unique(const Unique *unique)
{
	GatherMerge *merge = (GatherMerge *) unique->plan.lefttree;
	const Unique *partial;

	if (!IsA(merge, GatherMerge) || !IsA(outerPlan(merge), Unique))
		return;
	partial = (const Unique *) outerPlan(merge);
	if (!IsA(outerPlan(partial), Sort) || !plan_returns_input(&merge->plan) || !compare_same_columns(unique, partial) ||
		partial->plan.initPlan != NIL)
		return;
	outerPlan(merge) = outerPlan(partial);
	merge->plan.plan_rows = outerPlan(partial)->plan_rows * shares_of(merge->num_workers);
}
