/*
 * merge_next.h
 *	  The next row of a Merge, for loops over rows.
 */
#ifndef GPUSORT_SORT_MERGE_NEXT_H
#define GPUSORT_SORT_MERGE_NEXT_H

#include "postgres.h"

#include "sort/merge.h"

/* The next row, valid until the next call.  NULL at the end or if rows are lost. */
static inline MinimalTuple
merge_next(Merge *merge)
{
	if (unlikely(merge->next == merge->n) && !merge_round(merge))
		return NULL;
	if (likely(merge->next + MERGE_PREFETCH < merge->n))
		__builtin_prefetch(arena_at(&merge->windows, merge->rids[merge->next + MERGE_PREFETCH]));
	return (MinimalTuple) arena_at(&merge->windows, merge->rids[merge->next++]);
}

#endif							/* GPUSORT_SORT_MERGE_NEXT_H */
