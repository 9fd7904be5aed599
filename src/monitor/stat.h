/*
 * stat.h
 *	  Statistics by algorithm: the view gpusort_stat.
 */
#ifndef GPUSORT_MONITOR_STAT_H
#define GPUSORT_MONITOR_STAT_H

#include "postgres.h"

struct Algorithm;				/* kernel/algorithm.h */

/* Figures of a finished sort */
typedef struct SortCount
{
	const struct Algorithm *algorithm;	/* that ran; NULL: no rows */

	/* Forced or chosen algorithm that could not run; NULL: none. */
	const struct Algorithm *passed_over;
	uint64		rows;
	uint64		bytes;			/* peak memory, or bytes written to disk */
	bool		spilled;		/* the sort wrote runs */
	bool		timed;			/* the times below are set */
	double		ingest_us;		/* reading rows, including the plan below */
	double		sort_us;
	double		spill_us;		/* writing and merging runs */
	double		predicted_us;	/* predicted time of the kernels, if predicted */
	double		measured_us;	/* real time of the predicted kernels */
} SortCount;

/* Requests shared memory, while libraries are preloaded. */
extern void gpusort_stat_init(void);

/* Called by gpusort_stat_reset(), for counters elsewhere; may be NULL. */
extern void (*gpusort_stat_reset_too) (void);

/* Counts a fallback: the algorithm was forced or chosen but could not run. */
extern void gpusort_stat_fallback(const struct Algorithm *algorithm);

/* Counts a finished sort. */
extern void gpusort_stat_count(const SortCount *sort);

#endif							/* GPUSORT_MONITOR_STAT_H */
