/*
 * sort_node.h
 *	  The node GpuSort, for the planner and for the nodes above it.
 */
#ifndef GPUSORT_NODES_SORT_SORT_NODE_H
#define GPUSORT_NODES_SORT_SORT_NODE_H

#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "nodes/sort/sorted_input.h"

/* Plan node "Custom Scan (GpuSort)". */
extern const CustomScanMethods gpusort_scan_methods;

/* Prepares the slots of such nodes, when the library is loaded. */
extern void gpusort_node_init(void);

/* Is this a GpuSort, serial or parallel? */
extern bool gpusort_plan_is(const Plan *plan);

/* Is this GpuSort parallel, that is, above a Gather of partial sorts? */
extern bool plan_above_partial_sorts(const CustomScan *cscan);

#endif							/* GPUSORT_NODES_SORT_SORT_NODE_H */
