/*
 * rerun.c
 *	  Can a plan be run again with the same rows in the same order?
 *
 * A sort whose rows were lost with a device starts over from its child.  That is
 * right only if the child's second run gives what its first gave: no volatile
 * function, nothing written, no rows shared with other processes, no source that
 * reads once.  A scan under one snapshot qualifies, also a synchronized one (a
 * rescan keeps its starting block).  Nodes are allowed by name; all others are
 * taken for not repeatable.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "node/rerun.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"

static bool
expr_can_rerun(void *expr)
{
	return expr == NULL ||
		(!contain_volatile_functions((Node *) expr) && !contain_subplans((Node *) expr));
}

static bool
list_can_rerun(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
	{
		if (!plan_can_rerun(lfirst(lc)))
			return false;
	}
	return true;
}

/* What is particular to the node's kind; its children come after. */
static bool
node_can_rerun(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_Hash:
		case T_Material:
			return true;
		case T_Result:
			return expr_can_rerun(((Result *) plan)->resconstantqual);
		case T_IndexScan:
			return expr_can_rerun(((IndexScan *) plan)->indexqual);
		case T_IndexOnlyScan:
			return expr_can_rerun(((IndexOnlyScan *) plan)->indexqual);
		case T_BitmapIndexScan:
			return expr_can_rerun(((BitmapIndexScan *) plan)->indexqual);
		case T_BitmapHeapScan:
			return expr_can_rerun(((BitmapHeapScan *) plan)->bitmapqualorig);
		case T_FunctionScan:
			return expr_can_rerun(((FunctionScan *) plan)->functions);
		case T_ValuesScan:
			return expr_can_rerun(((ValuesScan *) plan)->values_lists);
		case T_NestLoop:
			return expr_can_rerun(((NestLoop *) plan)->join.joinqual);
		case T_MergeJoin:
			return expr_can_rerun(((MergeJoin *) plan)->join.joinqual) &&
				expr_can_rerun(((MergeJoin *) plan)->mergeclauses);
		case T_HashJoin:
			return expr_can_rerun(((HashJoin *) plan)->join.joinqual) &&
				expr_can_rerun(((HashJoin *) plan)->hashclauses);
		case T_SubqueryScan:
			return plan_can_rerun(((SubqueryScan *) plan)->subplan);
		case T_Append:
			return list_can_rerun(((Append *) plan)->appendplans);
		default:
			return false;
	}
}

bool
plan_can_rerun(Plan *plan)
{
	if (plan == NULL)
		return true;
	check_stack_depth();
	return !plan->parallel_aware &&
		expr_can_rerun(plan->targetlist) && expr_can_rerun(plan->qual) &&
		node_can_rerun(plan) &&
		plan_can_rerun(plan->lefttree) && plan_can_rerun(plan->righttree);
}
