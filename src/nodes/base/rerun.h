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
 */
extern bool plan_can_rerun(PlanState *ps);

/* SortSpec.can_rerun of sorts whose child is never run again. */
extern bool sort_cannot_rerun(void *arg);

/* The same for plans shared by workers: the same rows, in any order. */
extern bool plan_can_rerun_shared(PlanState *ps);

#endif							/* GPUSORT_NODES_BASE_RERUN_H */
