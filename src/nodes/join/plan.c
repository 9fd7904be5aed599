/*
 * plan.c
 *	  Replaces a Merge Join above a GpuSort by a GpuSort Join.
 *
 * The join must be an inner, left, semi or anti join whose keys are columns of both
 * children, as they are above a Sort.  A Materialize of the inner side goes: it is there
 * because PostgreSQL's Merge Join marks and restores, or to spare the Sort a final merge.
 * A Materialize that keeps rows for a rescan stays.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "compat.h"
#include "nodes/join/join.h"
#include "nodes/shared/shared.h"
#include "nodes/sort/sort_node.h"
#include "settings.h"
#include "utils/lsyscache.h"

/* Column of a child below RelabelTypes; 0: another expression. */
static AttrNumber
column_of(const Node *expr, int varno)
{
	while (IsA(expr, RelabelType))
		expr = (const Node *) ((const RelabelType *) expr)->arg;
	if (!IsA(expr, Var) || ((const Var *) expr)->varno != varno)
		return 0;
	return ((const Var *) expr)->varattno;
}

bool
merge_key_read(const MergeJoin *join, int i, MergeKey *key)
{
	const OpExpr *clause = list_nth_node(OpExpr, join->mergeclauses, i);
	int			strategy;

	key->outer = column_of(linitial(clause->args), OUTER_VAR);
	key->inner = column_of(lsecond(clause->args), INNER_VAR);
	if (key->outer <= 0 || key->inner <= 0)
		return false;
	key->reverse = compat_merge_key_reversed(join, i);
	key->opfamily = join->mergeFamilies[i];
	key->collation = join->mergeCollations[i];
	get_op_opfamily_properties(clause->opno, key->opfamily, false, &strategy, &key->outer_type, &key->inner_type);
	return strategy == BTEqualStrategyNumber &&
		OidIsValid(get_opfamily_proc(key->opfamily, key->outer_type, key->inner_type, BTORDER_PROC)) &&
		OidIsValid(get_opfamily_member(key->opfamily, key->outer_type, key->outer_type, BTEqualStrategyNumber));
}

/* Is this a GpuSort that can be rescanned without another sort? */
static bool
sorts_serially(const Plan *plan)
{
	return gpusort_plan_is(plan) && !plan_above_partial_sorts((const CustomScan *) plan);
}

Plan *
replace_merge_join(MergeJoin *join, bool rewind)
{
	Plan	   *plan = &join->join.plan;
	Plan	   *inner = plan->righttree;
	MergeJoin  *kept = makeNode(MergeJoin);
	MergeKey	key;
	CustomScan *cscan;

	if (IsA(inner, Material) && inner->initPlan == NIL && (!rewind || sorts_serially(inner->lefttree)))
		inner = inner->lefttree;
	if (!gpusort_merge_joins || !merge_join_has_node(join->join.jointype) || join->mergeclauses == NIL ||
		(!gpusort_plan_is(plan->lefttree) && !gpusort_plan_is(inner) && !custom_plan_is(inner, &shared_sort_node)))
		return plan;
	for (int i = 0; i < list_length(join->mergeclauses); i++)
	{
		if (!merge_key_read(join, i, &key))
			return plan;
	}

	cscan = custom_plan_make(plan, plan->lefttree, NIL, &join_node);
	cscan->scan.plan.righttree = inner;
	*kept = *join;
	kept->join.plan = (Plan) {.type = T_MergeJoin};
	cscan->custom_private = list_make1(kept);
	/* the node's target list computes expressions */
	cscan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	return &cscan->scan.plan;
}
