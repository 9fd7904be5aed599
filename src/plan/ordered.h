/*
 * ordered.h
 *	  ORDER BY: one process or many workers, by what our sorts cost.
 */
#ifndef GPUSORT_ORDERED_H
#define GPUSORT_ORDERED_H

extern void gpusort_ordered_init(void);

#endif							/* GPUSORT_ORDERED_H */
