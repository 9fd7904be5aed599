/*
 * stat.h
 *	  Counters of what ran: the view gpusort_stat.
 */
#ifndef GPUSORT_STAT_H
#define GPUSORT_STAT_H

#include "postgres.h"

#include "sort/sorter.h"

/* Hooks for shared memory; to be called while libraries are preloaded. */
extern void gpusort_stat_init(void);

/* Counts a sort that an algorithm should have run and could not. */
extern void gpusort_stat_fallback(const char *algorithm);

/* Counts a finished sort. */
extern void gpusort_stat_count(const SorterReport *report);

#endif							/* GPUSORT_STAT_H */
