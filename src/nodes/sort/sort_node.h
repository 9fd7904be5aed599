/*
 * sort_node.h
 *	  The node GpuSort, for the planner and for the nodes above it.
 */
#ifndef GPUSORT_NODES_SORT_SORT_NODE_H
#define GPUSORT_NODES_SORT_SORT_NODE_H

#include "postgres.h"

#include "key/key.h"
#include "nodes/base/custom_node.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "nodes/sort/sorted_input.h"

/* Plan node "Custom Scan (GpuSort)". */
extern const NodeType sort_node;

/* Prepares the slots of such nodes, when the library is loaded. */
extern void gpusort_node_init(void);

/* Is this a GpuSort, serial or parallel? */
static inline bool
gpusort_plan_is(const Plan *plan)
{
	return custom_plan_is(plan, &sort_node);
}

/* Is this GpuSort parallel, that is, above a Gather of partial sorts? */
extern bool plan_above_partial_sorts(const CustomScan *cscan);

/* Makes a GpuSort in place of a Sort.  keys: the Sort's, and perhaps more; limit: above the Sort, or NULL. */
extern Plan *sort_plan_make(Sort *sort, const KeyColumn *keys, int nkeys, Limit *limit);

/* Replaces a Gather Merge above a Sort by a parallel sort.  keys, limit: as for sort_plan_make(). */
extern Plan *parallel_sort_from_gather_merge(GatherMerge *merge, Sort *sort, const KeyColumn *keys, int nkeys,
											 Limit *limit);

/* Can a Sort above the Gather become a parallel sort? */
extern bool parallel_sort_possible(const Gather *gather);

/* Replaces a Sort above a Gather by a parallel sort; parallel_sort_possible() holds. */
extern Plan *parallel_sort_from_gather(Sort *sort, Gather *gather, const KeyColumn *keys, int nkeys, Limit *limit);

#endif							/* GPUSORT_NODES_SORT_SORT_NODE_H */
