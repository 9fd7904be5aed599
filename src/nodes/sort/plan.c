/*
 * plan.c
 *	  Plan nodes of GpuSort, in place of a Sort, a Gather Merge, or a Sort above a Gather.
 *
 * A GpuSort returns its input rows, so its target list refers to custom_scan_tlist one to one,
 * and that refers to the child as the Sort's did.
 */
#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/base/plan_columns.h"
#include "nodes/base/plan_format.h"
#include "nodes/feed/feed.h"
#include "nodes/sort/sort_node.h"
#include "rewrite/rewriteManip.h"

bool
plan_above_partial_sorts(const CustomScan *cscan)
{
	const Plan *gather = outerPlan(cscan);

	return IsA(gather, Gather) && custom_plan_is(outerPlan(gather), &partial_sort_node);
}

Plan *
sort_plan_make(Sort *sort, const KeyColumn *keys, int nkeys, Limit *limit)
{
	CustomScan *cscan = custom_plan_make(&sort->plan, sort->plan.lefttree, sort->plan.targetlist, &sort_node);

	cscan->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN | CUSTOMPATH_SUPPORT_MARK_RESTORE;
	gpusort_plan_fill(cscan, keys, nkeys, limit);
	return (Plan *) cscan;
}

/* ------------------------------------------------------------------------
 * Parallel sorts
 *
 *		Gather Merge            Sort                 GpuSort
 *		  -> Sort         or      -> Gather    :       -> Gather
 *		       -> partial              -> partial           -> GpuSort Feed
 *		                                                         -> partial
 *
 * Each GpuSort Feed sorts the rows of its process, and the GpuSort merges them.  No row
 * passes through the Gather.  The Gather returns its input, so all target lists except
 * the top one refer to the one below one to one.
 *
 * The GpuSort returns its rows once and forward, as a Gather Merge does.  If a rescan or
 * a backward scan is possible, a Sort above a Gather is not replaced by a parallel sort.
 * ------------------------------------------------------------------------
 */

/* Makes a GpuSort Feed for a Sort above a partial plan; input refers to the plan's output. */
static Plan *
make_partial_sort(const Plan *sort, List *input, Plan *partial, const KeyColumn *keys, int nkeys)
{
	CustomScan *feed = custom_plan_make(sort, partial, input, &partial_sort_node);

	feed->scan.plan.plan_node_id = sort->plan_node_id + PARTIAL_SORT_NODE_ID;
	feed->scan.plan.parallel_aware = true;
	feed->scan.plan.parallel_safe = true;
	/* the initplans of a Sort above the Gather belong to the GpuSort */
	feed->scan.plan.initPlan = NIL;
	feed->scan.plan.plan_rows = partial->plan_rows;
	feed->scan.plan.extParam = partial->extParam;
	feed->scan.plan.allParam = partial->allParam;
	gpusort_plan_fill(feed, keys, nkeys, NULL);
	return &feed->scan.plan;
}

Plan *
parallel_sort_from_gather_merge(GatherMerge *merge, Sort *sort, const KeyColumn *keys, int nkeys, Limit *limit)
{
	List	   *input = sort->plan.targetlist;
	CustomScan *top;
	Gather	   *gather = makeNode(Gather);

	gather->plan = merge->plan;
	gather->plan.type = T_Gather;
	gather->plan.plan_node_id = sort->plan.plan_node_id;
	gather->plan.targetlist = copyObject(input);
	gather->plan.initPlan = NIL;	/* initPlans belong to the GpuSort */
	gather->plan.lefttree = make_partial_sort(&sort->plan, copyObject(input), sort->plan.lefttree,
											  keys, nkeys);
	gather->num_workers = merge->num_workers;
	gather->rescan_param = merge->rescan_param;
	gather->initParam = merge->initParam;

	top = custom_plan_make(&merge->plan, &gather->plan, input, &sort_node);
	/* the Gather Merge's target list may compute expressions */
	top->scan.plan.targetlist = copyObject(merge->plan.targetlist);
	ChangeVarNodes((Node *) top->scan.plan.targetlist, OUTER_VAR, INDEX_VAR, 0);
	gpusort_plan_fill(top, keys, nkeys, limit);
	return &top->scan.plan;
}

bool
parallel_sort_possible(const Gather *gather)
{
	return !gather->single_copy && !gather->invisible && plan_returns_input(&gather->plan);
}

Plan *
parallel_sort_from_gather(Sort *sort, Gather *gather, const KeyColumn *keys, int nkeys, Limit *limit)
{
	CustomScan *top = custom_plan_make(&sort->plan, &gather->plan, sort->plan.targetlist, &sort_node);
	Plan	   *partial = gather->plan.lefttree;
	Plan	   *feed;

	feed = make_partial_sort(&sort->plan, copyObject(gather->plan.targetlist), partial, keys, nkeys);
	/* the Sort's cost is the node's above the Gather */
	feed->startup_cost = feed->total_cost = partial->total_cost;
	gather->plan.lefttree = feed;
	gpusort_plan_fill(top, keys, nkeys, limit);
	return &top->scan.plan;
}
