/*
 * rerun.h
 *	  Can a plan be run again with the same rows?
 */
#ifndef GPUSORT_NODES_BASE_RERUN_H
#define GPUSORT_NODES_BASE_RERUN_H

#include "postgres.h"

#include "nodes/execnodes.h"

/*
 * Does the plan return the same rows in the same order after ExecReScan(),
 * under the same work_mem and hash_mem_multiplier, whatever other sessions do?
 * shared: workers share the plan, and the rows may come in any order.
 */
extern bool plan_can_rerun(PlanState *ps, bool shared);

#endif							/* GPUSORT_NODES_BASE_RERUN_H */
