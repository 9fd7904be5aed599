/*
 * index_stat.h
 *	  Statistics of index builds: the view gpusort_index_builds.
 */
#ifndef GPUSORT_MONITOR_INDEX_STAT_H
#define GPUSORT_MONITOR_INDEX_STAT_H

#include "postgres.h"

/* What is added to the counters of a route and reason */
typedef struct IndexStatCount
{
	uint64		builds;
	uint64		rows;			/* index tuples */
	uint64		pages;			/* pages of the indexes, metapages included */
	uint64		workers;		/* parallel workers */
	uint64		gpu_builds;		/* builds whose rows a GPU sorted, or a part of them */
	uint64		spills;			/* builds that wrote runs */
	uint64		spilled_bytes;
	uint64		us;				/* whole time */
	uint64		scan_us;		/* parts of it; 0 for a stock build */
	uint64		sort_us;
	uint64		load_us;
} IndexStatCount;

/* Requests shared memory, while libraries are preloaded. */
extern void index_stat_init(void);

/*
 * Adds to the counters of a route.  reason is NULL for a build of ours, and says otherwise
 * why the build was stock's.  Both texts are copied.
 */
extern void index_stat_add(const char *route, const char *reason, const IndexStatCount *count);

/* Sets all counters to zero. */
extern void index_stat_reset(void);

#endif							/* GPUSORT_MONITOR_INDEX_STAT_H */
