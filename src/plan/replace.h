/*
 * replace.h
 *	  Sort nodes of finished plans become GpuSort nodes.
 */
#ifndef GPUSORT_REPLACE_H
#define GPUSORT_REPLACE_H

#include "postgres.h"

#include "nodes/plannodes.h"

extern void gpusort_planner_init(void);

/*
 * A CustomScan with costs, rows, parameters and child of a node, whose output is its
 * input, to which the entries of the list refer.
 */
extern CustomScan *plan_scan_of_input(const Plan *like, List *input);

#endif							/* GPUSORT_REPLACE_H */
