/*
 * distinct.c
 *	  Drops duplicates: of rows that are equal in the distinct columns, the first is kept.
 *
 * DISTINCT, UNION and GROUP BY want each value of some columns once.  If these are the
 * leading columns of the sort, the sort drops the other rows as soon as it sees that
 * they are equal: when a batch is sorted, and when runs are merged.  Memory, files and
 * the exchange between processes then have one row of each value.
 *
 * The rows of a batch are sorted first, so duplicates are neighbours.  If the packed keys
 * are exact, neighbours with equal bits are equal.  Otherwise the rows of such neighbours
 * are compared by the sort's comparators, once all ties are resolved.
 *
 * Few values: the host sink is full before memory is, at DISTINCT_EARLY_BYTES.  If a sample
 * of the buffered keys has many duplicates, the batch is sorted and its duplicates are
 * dropped, while it is in the cache.  The remaining rows keep their order in the arena and
 * stand before all later ones, so the first of equal rows is still the one that came first.
 * If few rows were dropped, the sort does not try again before memory is full.
 *
 * A device drops duplicates where keys are exact (src/gpu).  distinct_expected() tells it
 * whether that pays.  If it does not, or if a sort that has returned duplicates from a
 * device is repeated, the result has duplicates (SortResult.duplicates).  The node that
 * returns its rows then drops them.
 *
 * Memory policy: a bit for each row, where keys are inexact; a copy of a row where rows
 * come one after the other.
 */
#include "postgres.h"

#include <math.h>

#include "kernel/rec.h"
#include "miscadmin.h"
#include "sort/distinct.h"

/* Keys of a sample.  Its rows lie evenly in the batch. */
#define SAMPLE_KEYS			1024

/*
 * distinct_expected() samples 1/ESTIMATE_SHARE of the keys, within these limits.
 * With fewer equal pairs than ESTIMATE_PAIRS the sample tells no number of values.
 */
#define ESTIMATE_SHARE		256
#define ESTIMATE_KEYS		8192
#define ESTIMATE_PAIRS		4

/* A row is prefetched this many rows before it is compared. */
#define COMPARE_PREFETCH	8

/* ------------------------------------------------------------------------
 * Sorted rows
 * ------------------------------------------------------------------------
 */

int
distinct_columns(const KeyColumn *keys, int distinct)
{
	int			cols = 0;

	for (int k = 0; k < distinct; k++)
		cols += key_traits[keys[k].kind].words;
	return cols;
}

DistinctTest
distinct_test(int distinct_cols, const KeyLayout *layout, int key_bits)
{
	DistinctTest test;
	int			ncols = Min(distinct_cols, layout->ncols);
	int			bits = 0;

	for (int c = 0; c < ncols; c++)
		bits += layout->cols[c].bits;
	test.cut = Max(0, key_bits - bits);
	/* of a layout's columns, only the last one may be inexact */
	test.exact = bits <= key_bits &&
		(distinct_cols < layout->ncols || (distinct_cols == layout->ncols && layout->may_be_exact));
	return test;
}

void
equal_columns_table(EqualColumnsTable table, const KeyColumn *keys, int nkeys, const KeyLayout *layout, int key_bits)
{
	int			bit = key_bits;
	int			c = 0;
	int			k;

	for (k = 0; k < nkeys; k++)
	{
		for (int end = Min(distinct_columns(keys, k + 1), layout->ncols); c < end; c++)
		{
			for (int i = 0; i < layout->cols[c].bits && bit > 0; i++)
				table[bit--] = k;
		}
	}
	while (k > 0 && !distinct_test(distinct_columns(keys, k), layout, key_bits).exact)
		k--;
	table[0] = k | EQUAL_COLUMNS_LEAST;
}

/* Are two rows equal in the distinct columns? */
static inline bool
rows_equal(const SortEnv *env, const Arena *arena, uint32 a, uint32 b)
{
	return tiebreak_equal(env->tiebreak, env->spec.distinct, (MinimalTuple) arena_at(arena, a),
						  (MinimalTuple) arena_at(arena, b));
}

size_t
distinct_rids(const SortEnv *env, const Arena *arena, uint32 *rids, size_t n, const uint64 *set, bool exact)
{
	size_t		kept = 1;

	for (size_t i = 1; i < n; i++)
	{
		if (!exact && i + COMPARE_PREFETCH < n &&
			(set == NULL || position_set_has(set, i + COMPARE_PREFETCH)))
			__builtin_prefetch(arena_at(arena, rids[i + COMPARE_PREFETCH]));
		if ((set != NULL && !position_set_has(set, i)) || !(exact || rows_equal(env, arena, rids[kept - 1], rids[i])))
			rids[kept++] = rids[i];
	}
	return Min(kept, n);
}

/* Drops the keys that are equal to the one before in the bits of mask; format is a constant. */
static pg_attribute_always_inline size_t
distinct_keys_format(void *keys, SortRecFormat format, size_t n, Key128 mask)
{
	uint32		rid;
	Key128		prev = sort_rec_get(keys, format, 0, 0, &rid);
	size_t		kept = 1;

	for (size_t i = 1; i < n; i++)
	{
		Key128		key = sort_rec_get(keys, format, 0, i, &rid);

		sort_rec_set(keys, format, 0, kept, key, rid);
		kept += ((key ^ prev) & mask) != 0;
		prev = key;
	}
	return kept;
}

size_t
distinct_keys(const SortEnv *env, const KeyLayout *layout, SortRecFormat format, void *keys, size_t n)
{
	Key128		mask = distinct_mask(distinct_test(env->distinct_cols, layout, layout->total_bits).cut);

	/* keys without rows are exact */
	return format == SORT_REC_PACKED ? distinct_keys_format(keys, SORT_REC_PACKED, n, mask) :
		distinct_keys_format(keys, SORT_REC_128, n, mask);
}

size_t
distinct_presorted(const SortEnv *env, const Batch *batch, bool reverse, uint32 *rids)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	int			ncols = Min(env->distinct_cols, keybuf->ncols);
	size_t		n = keybuf->n;
	size_t		kept = 1;

	for (size_t i = 1; i < n; i++)
	{
		uint32		rid = rids[i];
		size_t		at = reverse ? n - i : i;

		if (!same_normkeys(keybuf, ncols, at, at - 1) ||
			!(keybuf->exact || rows_equal(env, &batch->arena, rids[kept - 1], rid)))
			rids[kept++] = rid;
	}
	return kept;
}

/* ------------------------------------------------------------------------
 * Batches of few values
 * ------------------------------------------------------------------------
 */

/* A number that is equal for equal normalized keys of the distinct columns. */
static inline uint64
hash_normkeys(const KeyBuffer *keybuf, int ncols, size_t i)
{
	uint64		hash = 0;

	for (int c = 0; c < ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = col->nulls != NULL && col->nulls[i];

		hash = (hash ^ (null ? 1 : keybuf_normkey_at(col, i) + 2)) * UINT64CONST(0x9E3779B97F4A7C15);
		hash ^= hash >> 32;
	}
	return hash;
}

/* Hashes of s keys, evenly chosen, in ascending order. */
static void
sample_hashes(const SortEnv *env, const KeyBuffer *keybuf, uint64 *sample, size_t s)
{
	int			ncols = Min(env->distinct_cols, keybuf->ncols);
	size_t		step = keybuf->n / s;

	for (size_t i = 0; i < s; i++)
		sample[i] = hash_normkeys(keybuf, ncols, i * step);
	qsort(sample, s, sizeof(uint64), compare_uint64);
}

/* Number of equal pairs in a sample of s keys. */
static double
sample_pairs(const SortEnv *env, const KeyBuffer *keybuf, size_t s)
{
	uint64	   *sample = palloc(s * sizeof(uint64));
	double		pairs = 0;
	size_t		run = 0;

	sample_hashes(env, keybuf, sample, s);
	/* a run of r equal hashes has r * (r - 1) / 2 pairs */
	for (size_t i = 1; i < s; i++)
	{
		run = sample[i] == sample[i - 1] ? run + 1 : 0;
		pairs += run;
	}
	pfree(sample);
	return pairs;
}

/* Expected number of values among n rows that are drawn at random from this number of values. */
static double
values_among(double values, double n)
{
	return values * (1 - exp(-n / values));
}

/*
 * The planner's estimate is for all rows of the sort.  It counts unless the sample
 * contradicts it: without equal pairs there are more values, and if most keys of the
 * sample are equal to another one there are few.
 */
double
distinct_expected(const SortEnv *env, const KeyBuffer *keybuf, double rows)
{
	double		all = Max(env->rows_expected, rows);
	double		groups = Min(env->spec.groups, all);
	size_t		s = Min(keybuf->n, Min(ESTIMATE_KEYS, Max(SAMPLE_KEYS, keybuf->n / ESTIMATE_SHARE)));
	double		pairs = s == 0 ? 0 : sample_pairs(env, keybuf, s);
	double		planned;

	if (groups >= 1)
		planned = groups * (1 - pow(1 - rows / all, all / groups));
	else
		planned = rows;
	if (pairs < 1)
		return Max(planned, s == 0 ? 0 : values_among((double) s * s / 8, rows));
	if (groups >= 1 ? pairs >= s / 8.0 : pairs >= ESTIMATE_PAIRS)
		return values_among((double) s * s / 2 / pairs, rows);
	return planned;
}

/*
 * Of s rows of d values, about s * s / 2d pairs are equal.  Many duplicates are there if n
 * rows have at most n / 2 values.
 */
bool
distinct_sample(const SortEnv *env, const KeyBuffer *keybuf)
{
	size_t		n = keybuf->n;
	uint64		sample[SAMPLE_KEYS];
	size_t		equal = 0;

	if (n < SAMPLE_KEYS)
		return n > 0;
	sample_hashes(env, keybuf, sample, SAMPLE_KEYS);
	for (size_t i = 1; i < SAMPLE_KEYS; i++)
		equal += (sample[i] == sample[i - 1]);
	return equal > 0 && equal >= SAMPLE_KEYS * SAMPLE_KEYS / n;
}

/* ------------------------------------------------------------------------
 * Rows that come one after the other
 * ------------------------------------------------------------------------
 */

char *
kept_row_room(KeptRow *kept, MemoryContext cxt, Size size)
{
	if (kept->size < size)
	{
		kept_row_free(kept);
		kept->row = MemoryContextAllocHuge(cxt, size);
		kept->size = size;
	}
	return kept->row;
}

void
kept_row_set(KeptRow *kept, MemoryContext cxt, MinimalTuple row)
{
	memcpy(kept_row_room(kept, cxt, row->t_len), row, row->t_len);
}

void
kept_row_free(KeptRow *kept)
{
	if (kept->row != NULL)
		pfree(kept->row);
	kept->row = NULL;
	kept->size = 0;
}
