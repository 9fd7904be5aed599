/*
 * parallel.h
 *	  Sorts of parallel plans become one sort of many workers.
 */
#ifndef GPUSORT_PARALLEL_H
#define GPUSORT_PARALLEL_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "nodes/plannodes.h"

/* Does a Gather or Gather Merge give rows as they come from below? */
extern bool rows_as_they_are(const Plan *gather);

/*
 * In place of Gather Merge above Sort: a GpuSort above a Gather of Feeds.  limit, which
 * may be NULL, bounds the rows wanted.
 */
extern Plan *parallel_from_gather_merge(GatherMerge *merge, Sort *sort, const KeyColumn *keys,
										Limit *limit);

/* The same in place of Sort above Gather, of which this is true. */
extern bool parallel_possible(const Gather *gather);
extern Plan *parallel_from_gather(Sort *sort, Gather *gather, const KeyColumn *keys, Limit *limit);

#endif							/* GPUSORT_PARALLEL_H */
