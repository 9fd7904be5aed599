/*
 * plan.c
 *	  Replaces a Merge Join above a GpuSort by a GpuSort Join.
 *
 * The join must be an inner, left, semi or anti join whose keys are columns of both
 * children, as they are above a Sort.  A Materialize of the inner side goes: it is there
 * because PostgreSQL's Merge Join marks and restores, or to spare the Sort a final merge.
 * It stays if it keeps rows for a rescan.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "compat.h"
#include "nodes/join/join.h"
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

/* Fills a key.  False if the clause compares anything but columns of the children. */
static bool
set_key(JoinKeyFormat *key, const MergeJoin *join, int i)
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
	JoinFormat	format = {.jointype = join->join.jointype,.inner_unique = join->join.inner_unique,
	.nkeys = list_length(join->mergeclauses),.clauses = join->mergeclauses,.condition = join->join.joinqual};
	CustomScan *cscan;

	if (IsA(inner, Material) && inner->initPlan == NIL && (!rewind || sorts_serially(inner->lefttree)))
		inner = inner->lefttree;
	if (!gpusort_merge_joins || !merge_join_has_node(format.jointype) || format.nkeys == 0 ||
		(!gpusort_plan_is(plan->lefttree) && !gpusort_plan_is(inner)))
		return plan;
	format.keys = palloc(format.nkeys * sizeof(JoinKeyFormat));
	for (int i = 0; i < format.nkeys; i++)
	{
		if (!set_key(&format.keys[i], join, i))
			return plan;
	}

	cscan = makeNode(CustomScan);
	cscan->scan.plan = *plan;
	cscan->scan.plan.type = T_CustomScan;
	cscan->scan.plan.righttree = inner;
	join_plan_fill(cscan, &format);
	compat_count_disabled(cscan);
	/* its target list computes expressions */
	cscan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	cscan->methods = &join_scan_methods;
	return &cscan->scan.plan;
}
