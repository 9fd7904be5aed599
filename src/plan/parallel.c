/*
 * parallel.c
 *	  Sorts of parallel plans become one sort of many workers.
 *
 *		Gather Merge            Sort                 GpuSort
 *		  -> Sort         or      -> Gather    :       -> Gather
 *		       -> partial              -> partial           -> GpuSort Feed
 *		                                                         -> partial
 *
 * The Feeds sort, each in its process, and the node on top merges what they have
 * sorted; no row goes through the Gather.  The Gather's output is its input, so that all
 * target lists but the upper one refer to the one below one to one.
 *
 * The new node gives its rows once, forward, as a Gather Merge does.  A Sort can do
 * more; where that may be asked for it stays one (replace.c).
 */
#include "postgres.h"

#include "compat.h"
#include "node/gpusort_node.h"
#include "node/parallel/feed.h"
#include "node/plan_format.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "plan/parallel.h"
#include "plan/replace.h"

/* OUTER_VAR is INDEX_VAR from now on: what was the child's output is the scan's. */
static Node *
outer_to_index(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == OUTER_VAR)
	{
		Var		   *var = copyObject((Var *) node);

		var->varno = INDEX_VAR;
		return (Node *) var;
	}
	return expression_tree_mutator(node, outer_to_index, context);
}

/* A Feed in place of a Sort, above a partial plan; input refers to the plan's output. */
static Plan *
make_feed(const Plan *sort, List *input, Plan *partial, const KeyColumn *keys, int nkeys)
{
	CustomScan *feed = plan_scan_of_input(sort, input);

	feed->scan.plan.plan_node_id = sort->plan_node_id + FEED_NODE_ID;
	feed->scan.plan.lefttree = partial;
	feed->scan.plan.parallel_aware = true;
	feed->scan.plan.parallel_safe = true;
	/* a Sort above the Gather has initplans of its own */
	feed->scan.plan.initPlan = NIL;
	feed->scan.plan.plan_rows = partial->plan_rows;
	feed->scan.plan.extParam = partial->extParam;
	feed->scan.plan.allParam = partial->allParam;
	compat_count_disabled(feed);
	feed->methods = &feed_scan_methods;
	gpusort_plan_fill(feed, keys, nkeys, NULL);
	return &feed->scan.plan;
}

Plan *
parallel_from_gather_merge(GatherMerge *merge, Sort *sort, const KeyColumn *keys, Limit *limit)
{
	List	   *input = sort->plan.targetlist;
	CustomScan *top = plan_scan_of_input(&merge->plan, input);
	Gather	   *gather = makeNode(Gather);

	gather->plan = merge->plan;
	gather->plan.type = T_Gather;
	gather->plan.plan_node_id = sort->plan.plan_node_id;
	gather->plan.targetlist = copyObject(input);
	gather->plan.initPlan = NIL;	/* they are the upper node's */
	gather->plan.lefttree = make_feed(&sort->plan, copyObject(input), sort->plan.lefttree,
									  keys, sort->numCols);
	gather->num_workers = merge->num_workers;
	gather->rescan_param = merge->rescan_param;
	gather->initParam = merge->initParam;

	/* it may compute something of the rows */
	top->scan.plan.targetlist =
		(List *) outer_to_index((Node *) merge->plan.targetlist, NULL);
	top->scan.plan.lefttree = &gather->plan;
	compat_count_disabled(top);
	top->methods = &gpusort_scan_methods;
	gpusort_plan_fill(top, keys, sort->numCols, limit);
	return &top->scan.plan;
}

bool
rows_as_they_are(const Plan *gather)
{
	ListCell   *lc;
	ListCell   *below;

	if (list_length(gather->targetlist) != list_length(gather->lefttree->targetlist))
		return false;
	forboth(lc, gather->targetlist, below, gather->lefttree->targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (IsA(var, Const) && equal(var, lfirst_node(TargetEntry, below)->expr))
			continue;
		if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno != tle->resno)
			return false;
	}
	return true;
}

bool
parallel_possible(const Gather *gather)
{
	return !gather->single_copy && !gather->invisible && rows_as_they_are(&gather->plan);
}

Plan *
parallel_from_gather(Sort *sort, Gather *gather, const KeyColumn *keys, Limit *limit)
{
	CustomScan *top = plan_scan_of_input(&sort->plan, sort->plan.targetlist);

	gather->plan.lefttree = make_feed(&sort->plan, copyObject(gather->plan.targetlist),
									  gather->plan.lefttree, keys, sort->numCols);
	compat_count_disabled(top);
	top->methods = &gpusort_scan_methods;
	gpusort_plan_fill(top, keys, sort->numCols, limit);
	return &top->scan.plan;
}
