/*
 * stat.h
 *	  Statistics of sorts by algorithm, and of index builds: the views gpusort_stat and
 *	  gpusort_index_builds.
 */
#ifndef GPUSORT_MONITOR_STAT_H
#define GPUSORT_MONITOR_STAT_H

#include "postgres.h"

struct Algorithm;				/* kernel/algorithm.h */

/* What is added to the counters of an algorithm, in the order of the view's columns; all fields are uint64 */
typedef struct SortStatCount
{
	uint64		sorts;
	uint64		rows;
	uint64		bytes;			/* peak memory, or bytes written to disk */
	uint64		spills;			/* sorts that wrote runs */
	uint64		fallbacks;		/* sorts for which it was forced or chosen, but could not run */
	uint64		timed;			/* sorts that the times below count */
	uint64		ingest_us;		/* reading rows, including the plan below */
	uint64		sort_us;
	uint64		spill_us;		/* writing and merging runs */
	uint64		predicted_us;	/* predicted time of the kernels, if predicted */
	uint64		measured_us;	/* real time of the predicted kernels */
} SortStatCount;

/* Requests shared memory, while libraries are preloaded. */
extern void gpusort_stat_init(void);

/* Called by gpusort_stat_reset(), for counters elsewhere; may be NULL. */
extern void (*gpusort_stat_reset_too) (void);

/* Counts a fallback: the algorithm was forced or chosen but could not run. */
extern void gpusort_stat_fallback(const struct Algorithm *algorithm);

/* Adds to the counters of the algorithm that ran; NULL: there were no rows. */
extern void gpusort_stat_add(const struct Algorithm *algorithm, const SortStatCount *count);

/* What is added to the counters of a route and reason; all fields are uint64 */
typedef struct IndexStatCount
{
	uint64		builds;
	uint64		rows;			/* index tuples */
	uint64		pages;			/* pages of the indexes, metapages included */
	uint64		workers;		/* parallel workers */
	uint64		gpu_builds;		/* builds of which a GPU sorted all rows or some */
	uint64		spills;			/* builds that wrote runs */
	uint64		spilled_bytes;
	uint64		us;				/* whole time */
	uint64		scan_us;		/* parts of it; 0 for a stock build */
	uint64		sort_us;
	uint64		load_us;
} IndexStatCount;

/*
 * Adds to the counters of a route.  reason is NULL for a build of ours; otherwise it says
 * why PostgreSQL built the index.  Both texts are copied.
 */
extern void index_stat_add(const char *route, const char *reason, const IndexStatCount *count);

#endif							/* GPUSORT_MONITOR_STAT_H */
