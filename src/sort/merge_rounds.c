/*
 * merge_rounds.c
 *	  The frame of a k-way merge by rounds, of rows or of keys.
 *
 * A loser tree needs log2(k) unpredictable comparisons for each row, and keys made row by
 * row.  A round works in the cache, makes keys column by column, and compares only to find
 * its bound and how far it reaches in each window.
 *
 * Equal keys of several runs stay in the order of their runs: those of a run before the
 * bound's belong to the round, those of a later run do not.  If equal keys are equal rows
 * in any order, all belong to it.
 *
 * Memory policy: the windows' keys lie in env->scratch, the records of a round and the
 * kernel's scratch in env->recs.  After an ERROR the sort's memory context and resource
 * owner release everything.
 */
#include "postgres.h"

#include "kernel/algorithm.h"
#include "sort/distinct.h"
#include "sort/merge_rounds.h"

/* Below this number of records a comparison sort is faster than the radix sort. */
#define RADIX_MIN_RECORDS	4096

void *
rounds_begin(MergeRounds *rounds, Size record, Size scratch, Size further)
{
	SortEnv    *env = rounds->env;
	Size		n = (Size) rounds->nruns * rounds->window;
	Size		keys_size = TYPEALIGN(64, n * rounds_key_size(rounds->layout));

	Assert(rounds->layout->exact || rounds->compare_rows != NULL);
	rounds->cxt = CurrentMemoryContext;
	rounds->wide = rounds->layout->total_bits > 64;
	rounds->windows = palloc0(rounds->nruns * sizeof(RunWindow));
	for (int r = 0; r < rounds->nruns; r++)
		rounds->windows[r].first = r * rounds->window;
	rounds->records_size = TYPEALIGN(64, n * record);
	bulk_reserve(env->bulk, &env->recs, rounds->records_size + n * scratch, 0);
	bulk_reserve(env->bulk, &env->scratch, keys_size + further, 0);
	rounds->keys = env->scratch.ptr;
	return (char *) env->scratch.ptr + keys_size;
}

/* Finds the last key of this round; returns its run.  -1: no run has more keys on disk. */
static int
find_bound(MergeRounds *rounds, uint32 *bound)
{
	int			found = -1;
	Key128		least = 0;

	for (int r = 0; r < rounds->nruns; r++)
	{
		const RunWindow *window = &rounds->windows[r];
		uint32		last = window->first + window->n - 1;
		Key128		key;

		if (window->n == 0 || !window->more)
			continue;
		key = rounds_key(rounds, last);
		if (found < 0 || key < least ||
			(key == least && !rounds->layout->exact && rounds->compare_rows(rounds, last, *bound) < 0))
		{
			found = r;
			least = key;
			*bound = last;
		}
	}
	return found;
}

/* Counts the keys below key, or not above it, among n ascending keys; without a branch. */
static pg_attribute_always_inline uint32
count_keys_of_width(const void *keys, bool wide, uint32 n, Key128 key, bool not_above)
{
	uint32		from = 0;

	key = wide ? key : (uint64) key;
	while (n > 0)
	{
		uint32		half = (n + 1) / 2;
		Key128		mid = key_of_width(keys, wide, from + half - 1);

		from += (mid < key) | (not_above & (mid == key)) ? half : 0;
		n -= half;
	}
	return from;
}

static uint32
count_window_keys(const MergeRounds *rounds, uint32 id, uint32 n, Key128 key, bool not_above)
{
	const void *keys = rounds_key_address(rounds, id);

	return rounds->wide ? count_keys_of_width(keys, true, n, key, not_above) :
		count_keys_of_width(keys, false, n, key, not_above);
}

/* Counts the keys of window r that belong to a round up to this bound. */
static uint32
count_up_to(MergeRounds *rounds, int r, uint32 bound, int bound_run)
{
	uint32		first = rounds->windows[r].first;
	uint32		n = rounds->windows[r].n;
	bool		equal_too = rounds->compare_rows == NULL || r < bound_run;
	Key128		key = rounds_key(rounds, bound);
	uint32		from;
	uint32		to;

	if (r == bound_run || n == 0)
		return n;
	if (rounds_key(rounds, first) > key)
		return 0;
	if (rounds->layout->exact)
		return count_window_keys(rounds, first, n, key, equal_too);
	from = count_window_keys(rounds, first, n, key, false);
	if (from == n || rounds_key(rounds, first + from) != key)
		return from;
	to = count_window_keys(rounds, first, n, key, true);
	while (from < to)
	{
		uint32		mid = from + (to - from) / 2;
		int			cmp = rounds->compare_rows(rounds, first + mid, bound);

		if (cmp < 0 || (cmp == 0 && equal_too))
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

size_t
rounds_choose(MergeRounds *rounds)
{
	size_t		n = 0;
	uint32		bound = 0;
	int			bound_run = find_bound(rounds, &bound);

	rounds->sources = 0;
	for (int r = 0; r < rounds->nruns; r++)
	{
		RunWindow  *window = &rounds->windows[r];

		window->taken = bound_run < 0 ? window->n : count_up_to(rounds, r, bound, bound_run);
		if (window->taken == 0)
			continue;
		n += window->taken;
		rounds->sources++;
		rounds->source = r;
	}
	return n;
}

Key128
rounds_range(const MergeRounds *rounds, int *bits)
{
	Key128		min = ~(Key128) 0;
	Key128		max = 0;

	for (int r = 0; r < rounds->nruns; r++)
	{
		const RunWindow *window = &rounds->windows[r];

		if (window->taken == 0)
			continue;
		min = Min(min, rounds_key(rounds, window->first));
		max = Max(max, rounds_key(rounds, window->first + window->taken - 1));
	}
	*bits = highest_bit(max - min);
	return min;
}

void *
rounds_sort(MergeRounds *rounds, SortProblem *problem)
{
	SortEnv    *env = rounds->env;
	const SortKernel *kernel =
		sort_algorithms[problem->n < RADIX_MIN_RECORDS ? ALGORITHM_CPU_MERGE : ALGORITHM_CPU_RADIX].kernel;

	if (problem->descents == 0)
		return env->recs.ptr;
	problem->rids_ascending = true;
	problem->order_known = true;
	bulk_reserve(env->bulk, &env->recs, rounds->records_size + kernel->scratch_bytes(problem),
				 rounds->records_size);
	problem->recs = env->recs.ptr;
	problem->scratch = (char *) env->recs.ptr + rounds->records_size;
	if (kernel->run(problem) != SORT_OK)
		elog(ERROR, "kernel cannot sort a round of a merge");
	return problem->result;
}
