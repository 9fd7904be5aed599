/*
 * stat.h
 *	  Counters of what ran: the view gpusort_stat.
 */
#ifndef GPUSORT_MONITOR_STAT_H
#define GPUSORT_MONITOR_STAT_H

#include "postgres.h"

struct Algorithm;				/* kernel/algorithm.h */

/* What a sort came to. */
typedef struct SortCount
{
	const struct Algorithm *algorithm;	/* that sorted it; NULL: no rows */
	const struct Algorithm *passed_over;	/* that should have and could not; NULL: none */
	uint64		rows;
	uint64		bytes;			/* memory at the peak, or written to disk */
	bool		spilled;		/* it wrote runs */
	bool		timed;			/* there are times: */
	double		ingest_us;		/* the plan's below included */
	double		sort_us;
	double		spill_us;		/* runs were written and merged */
	double		predicted_us;	/* of kernels' runs for which there was a prediction, */
	double		measured_us;	/* and what they took */
} SortCount;

/* Hooks for shared memory; to be called while libraries are preloaded. */
extern void gpusort_stat_init(void);

/* What gpusort_stat_reset() resets beside these counters; NULL: nothing. */
extern void (*gpusort_stat_reset_too) (void);

/* Counts a sort that an algorithm should have run and could not. */
extern void gpusort_stat_fallback(const struct Algorithm *algorithm);

/* Counts a finished sort. */
extern void gpusort_stat_count(const SortCount *sort);

#endif							/* GPUSORT_MONITOR_STAT_H */
