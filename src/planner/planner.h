/*
 * planner.h
 *	  The planner's hooks, as start-up installs them.
 */
#ifndef GPUSORT_PLANNER_PLANNER_H
#define GPUSORT_PLANNER_PLANNER_H

/* Installs the hooks that add our paths, and the one that replaces nodes of finished plans. */
extern void gpusort_planner_init(void);

#endif							/* GPUSORT_PLANNER_PLANNER_H */
