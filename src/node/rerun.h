/*
 * rerun.h
 *	  Can a plan be run again with the same rows in the same order?
 */
#ifndef GPUSORT_RERUN_H
#define GPUSORT_RERUN_H

#include "postgres.h"

#include "nodes/execnodes.h"

/*
 * After ExecReScan(), under the same work_mem and hash_mem_multiplier, whatever other
 * sessions do meanwhile.
 */
extern bool plan_can_rerun(PlanState *ps);

/* The same rows in whatever order, and shared by workers in whatever way. */
extern bool plan_can_rerun_shared(PlanState *ps);

#endif							/* GPUSORT_RERUN_H */
