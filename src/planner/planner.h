/*
 * planner.h
 *	  The planner's hooks, as start-up installs them.
 */
#ifndef GPUSORT_PLANNER_PLANNER_H
#define GPUSORT_PLANNER_PLANNER_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Installs the planner hook, which replaces Sort nodes. */
extern void gpusort_planner_init(void);

/* Installs the hook that adds sort paths at our costs. */
extern void gpusort_ordered_init(void);

/* Installs the hook that chooses between sorting and hashing of groups. */
extern void gpusort_grouping_init(void);

/* Installs the hook that chooses between merge joins and hash joins. */
extern void gpusort_joins_init(void);

#endif							/* GPUSORT_PLANNER_PLANNER_H */
