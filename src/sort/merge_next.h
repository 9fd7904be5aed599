/*
 * merge_next.h
 *	  The next row of a Merge, for loops over rows.
 */
#ifndef GPUSORT_SORT_MERGE_NEXT_H
#define GPUSORT_SORT_MERGE_NEXT_H

#include "postgres.h"

#include "sort/result.h"

/* Rows are prefetched this many rows ahead. */
#define MERGE_PREFETCH	8

/* The next row, valid until the next call.  NULL at the end or if rows are lost. */
static inline MinimalTuple
merge_next(Merge *merge)
{
	MemoryResult *rows = &merge->rows;
	ArrayResult *array = &rows->array;

	if (unlikely(array->pos == array->n) && !merge_round(merge))
		return NULL;
	if (likely(array->pos + MERGE_PREFETCH < array->n))
		__builtin_prefetch(arena_at(&rows->arena, rows->rids[array->pos + MERGE_PREFETCH]));
	return (MinimalTuple) arena_at(&rows->arena, rows->rids[array->pos++]);
}

#endif							/* GPUSORT_SORT_MERGE_NEXT_H */
