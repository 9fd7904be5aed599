/*
 * memory_sort.h
 *	  Sorting a batch: pack keys, route, run a kernel or offload, resolve ties.
 */
#ifndef GPUSORT_SORT_MEMORY_SORT_H
#define GPUSORT_SORT_MEMORY_SORT_H

#include "postgres.h"

#include "sort/batch.h"
#include "sort/result.h"
#include "sort/sort_env.h"

/* A sorted batch.  The arrays lie in env->recs or env->scratch. */
typedef struct Sorted
{
	size_t		n;
	const uint32 *rids;			/* row ids in order; NULL: keys only */
	const EqualColumns *equal;	/* of each row and the row before; NULL: not known */
	const void *keys;			/* sorted keys; NULL: rows */
	SortRecFormat format;		/* of keys */
	int			rid_bits;		/* of keys as SORT_REC_PACKED */
	KeyLayout	layout;			/* of keys */
	bool		duplicates;		/* a device has left duplicates; only of rows */
} Sorted;

/* What the caller of order_batch() needs. */
typedef enum OrderFlags
{
	ORDER_PLAIN = 0,

	/* the key buffer is needed afterwards */
	ORDER_KEEP_KEYS = 1 << 0,

	/*
	 * The rows lie in the cache, so that sorting them on a device gains
	 * nothing.
	 */
	ORDER_IN_CACHE = 1 << 1,

	/*
	 * The batch is one of several of its sort.  If it has few rows, the sort
	 * has many such batches, and no device sorts them, even a forced one.
	 */
	ORDER_PART = 1 << 2,

	/* Sorted.equal is wanted */
	ORDER_COMPARE = 1 << 3
} OrderFlags;

/* Sorts the rows of the batch. */
extern void order_batch(SortEnv *env, Batch *batch, int flags, Sorted *sorted);

#endif							/* GPUSORT_SORT_MEMORY_SORT_H */
