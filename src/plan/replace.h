/*
 * replace.h
 *	  Sort nodes of finished plans become GpuSort nodes.
 */
#ifndef GPUSORT_REPLACE_H
#define GPUSORT_REPLACE_H

extern void gpusort_planner_init(void);

#endif							/* GPUSORT_REPLACE_H */
