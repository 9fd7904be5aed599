/*
 * distinct.h
 *	  Drops the duplicates of a batch, of sorted row ids and of sorted keys.
 */
#ifndef GPUSORT_SORT_DISTINCT_H
#define GPUSORT_SORT_DISTINCT_H

#include "postgres.h"

#include "port/pg_bitutils.h"
#include "sort/batch.h"
#include "sort/distinct_test.h"
#include "sort/sort_env.h"

/* Columns of the key buffer that the first distinct keys take. */
extern int	distinct_columns(const KeyColumn *keys, int distinct);

/* The test for the uppermost key_bits of keys of this layout. */
extern DistinctTest distinct_test(int distinct_cols, const KeyLayout *layout, int key_bits);

/* The table for the uppermost key_bits of keys of this layout, right-aligned. */
extern void equal_columns_table(EqualColumnsTable table, const KeyColumn *keys, int nkeys, const KeyLayout *layout,
								int key_bits);

/* Number of the highest bit of a key, from 1; 0: none. */
static inline int
highest_bit(Key128 key)
{
	if ((uint64) (key >> 64) != 0)
		return 65 + pg_leftmost_one_pos64((uint64) (key >> 64));
	return (uint64) key == 0 ? 0 : 1 + pg_leftmost_one_pos64((uint64) key);
}

/* All bits of a key but the lowest ones. */
static inline Key128
distinct_mask(int cut)
{
	return cut >= 128 ? 0 : ~(Key128) 0 << cut;
}

/* Room for a row of this size in place of the one before, in memory of cxt. */
extern char *kept_row_room(KeptRow *kept, MemoryContext cxt, Size size);

/* Keeps a copy of the row in place of the one before. */
extern void kept_row_set(KeptRow *kept, MemoryContext cxt, MinimalTuple row);
extern void kept_row_free(KeptRow *kept);

/* Positions of a sorted array at which a row may be equal to the row before. */
static inline Size
position_set_bytes(size_t n)
{
	return (n / 64 + 1) * sizeof(uint64);
}

/*
 * Bytes of a position set for all rids of an arena that has rows.  next_rid is 0 if the
 * arena is full: it wraps behind the last rid.
 */
static inline Size
rid_set_bytes(uint32 next_rid)
{
	return position_set_bytes((uint32) (next_rid - 1));
}

static inline void
position_set_add(uint64 *set, size_t i)
{
	set[i / 64] |= UINT64CONST(1) << i % 64;
}

static inline bool
position_set_has(const uint64 *set, size_t i)
{
	return (set[i / 64] >> i % 64 & 1) != 0;
}

/*
 * Drops the rows at the positions of the set from n sorted rids, in place; unless exact,
 * only rows that are equal to the row before.  Without a set, all rows are compared.
 * Returns the number of remaining rids.
 */
extern size_t distinct_rids(const SortEnv *env, const Arena *arena, uint32 *rids, size_t n,
							const uint64 *set, bool exact);

/* Drops the duplicates of n sorted keys, in place.  Returns the number of remaining keys. */
extern size_t distinct_keys(const SortEnv *env, const KeyLayout *layout, SortRecFormat format, void *keys,
							size_t n);

/* Have rows i and j the same normalized keys in the first ncols columns? */
static inline bool
same_normkeys(const KeyBuffer *keybuf, int ncols, size_t i, size_t j)
{
	for (int c = 0; c < ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = col->nulls != NULL && col->nulls[i];

		if (null != (col->nulls != NULL && col->nulls[j]))
			return false;
		if (!null && keybuf_normkey_at(col, i) != keybuf_normkey_at(col, j))
			return false;
	}
	return true;
}

/* Drops the duplicates of presorted rows: rids are those of the key buffer, or in reverse. */
extern size_t distinct_presorted(const SortEnv *env, const Batch *batch, bool reverse, uint32 *rids);

/*
 * Expected number of different values of the distinct columns among this number of rows, by
 * the planner's estimate and a sample of the buffered keys.
 */
extern double distinct_expected(const SortEnv *env, const KeyBuffer *keybuf, double rows);

/* Does a sample of the buffered keys have many duplicates? */
extern bool distinct_sample(const SortEnv *env, const KeyBuffer *keybuf);

/* Sorts the batch and keeps one of its equal rows each.  Returns the number of rows that were dropped. */
extern size_t distinct_batch(SortEnv *env, Batch *batch);

#endif							/* GPUSORT_SORT_DISTINCT_H */
