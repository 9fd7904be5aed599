/*
 * plan.c
 *	  The plan node of GpuSort Incremental, in place of an Incremental Sort.
 */
#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/base/plan_format.h"
#include "nodes/incremental/incremental.h"

Plan *
incremental_plan_make(IncrementalSort *incremental, const KeyColumn *keys, Limit *limit)
{
	Sort	   *sort = &incremental->sort;
	CustomScan *cscan = custom_plan_make(&sort->plan, sort->plan.lefttree, sort->plan.targetlist, &incremental_node);

	gpusort_plan_fill(cscan, keys, sort->numCols, limit);
	cscan->custom_private = lappend(cscan->custom_private, list_make1_int(incremental->nPresortedCols));
	return &cscan->scan.plan;
}
