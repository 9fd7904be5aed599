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

/* Installs the hook that adds sorted paths for groups and windows, and raises costs of hashing. */
extern void gpusort_grouping_init(void);

/* Installs the hook that adds merge joins of our sorts, and raises costs of hash joins. */
extern void gpusort_joins_init(void);

/* Installs the hook that lets foreign partitions be sorted here. */
extern void gpusort_shards_init(void);

#endif							/* GPUSORT_PLANNER_PLANNER_H */
