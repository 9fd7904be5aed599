/*
 * planner.h
 *	  The planner's hooks, as start-up installs them.
 */
#ifndef GPUSORT_PLANNER_PLANNER_H
#define GPUSORT_PLANNER_PLANNER_H

#include "postgres.h"

#include "nodes/plannodes.h"

extern void gpusort_planner_init(void);

/* ------------------------------------------------------------------------
 * ORDER BY: one process or many workers, by what our sorts cost.
 * ------------------------------------------------------------------------
 */

extern void gpusort_ordered_init(void);

#endif							/* GPUSORT_PLANNER_PLANNER_H */
