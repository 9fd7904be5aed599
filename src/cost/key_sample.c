/*
 * key_sample.c
 *	  The distribution of keys, from a sample.
 *
 * What is asked is what gpu_bucket does with keys (cuda/bucket), as comparisons do not care.
 * It cuts the range into slices of equal width.  Where those are uneven, it cuts at a sample's
 * quantiles instead, values that are frequent there get slices of their own, and from one quantile
 * to the next slices are of equal width again.  So there are four kinds: equal slices will do; they
 * would but for frequent values; quantiles will do; and keys of which even slices between
 * quantiles are crowded, because
 *
 *	- they are uneven at any scale (keys whose bits are rarely set, say, or texts with
 *	  prefixes).  Of three neighbours in a sample the middle one lies anywhere between the outer
 *	  ones if keys are even from one to the next: one in eight within a sixteenth of
 *	  that, next to one of them.  Of keys that are not, more do.  For that only one of each pair
 *	  is taken: what came together may lie together;
 *	- values repeat that are not frequent enough to be seen, beside rare ones (Zipf's law).
 *
 * Of those it is also asked what gpu_radix leaves out (cuda/radix/radix_lead.cuh): where many neighbours
 * in the sample differ only behind more bits than tell most keys apart, it needs all digits.
 *
 * Keys in a hundred narrow places or more look crowded to so small a sample, though quantiles would
 * still tell them apart.
 */
#include <math.h>
#include <string.h>

#include "cost/cost.h"

/* Slices of equal width between the sample's ends, half as many of few keys; and when one is too full. */
#define SLICES			16
#define FEW_KEYS		512
#define SLICE_FULL		3 / 2

/* Fewer keys say nothing. */
#define LEAST_KEYS		128
#define LEAST_GAPS		64

/* Of how many keys one value may have one: by Zipf's law the first of 2^28 has one of 28. */
#define MOST_EQUAL		40

/* One that has more than one of so many is seen by gpu_bucket, too. */
#define FREQUENT		200

/* Keys next to one of their neighbours: of 16 two if they are even, four by entropy1. */
#define GAP_NEXT_TO		16
#define GAPS_CLUSTERED	3 / 16

/* Repeating but not frequent: one of twelve keys, while one of four does not repeat. */
#define REPEATING		12
#define RARE			4

/* Neighbours that share so many bits beyond what all share: late, if one of so many does. */
#define LATE_BITS		28
#define MOST_LATE		16

/* What is left beside frequent values need not be even if it is less than one of so many. */
#define FEW_LEFT		8

static bool route_scattered(const RouteFacts *facts, const void *recs);

int
sample_compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

void
gpu_sample_problem(GpuSample *sample, SortProblem *problem)
{
	memset(problem, 0, sizeof(*problem));
	problem->format = SORT_REC_64;
	problem->recs = sample->recs;
	problem->n = sample->n;
	problem->end_bit = 64;
	problem->rids_ascending = true;
}

/* Sorted, by a kernel: some five microseconds in place of the C library's eighty. */
static const SortRec64 *
sort_sample(GpuSample *sample, GpuSampleScratch *scratch)
{
	SortProblem problem;

	gpu_sample_problem(sample, &problem);
	problem.scratch = scratch;
	cpu_radix_kernel.run(&problem);
	return problem.result;
}

/*
 * Do n sorted keys fall evenly into slices?  The ends are those of the inner 98 %, so
 * that a few strays do not make all else look crowded.  So few values that a slice is one are another
 * thing.
 */
static bool
slices_uniform(const uint64_t *keys, size_t n)
{
	size_t		counts[SLICES] = {0};
	size_t		slices = n < FEW_KEYS ? SLICES / 2 : SLICES;
	size_t		from = n / 100;
	uint64_t	width = (keys[n - 1 - from] - keys[from]) / slices + 1;

	for (size_t i = from; width > 1 && i < n - from; i++)
	{
		if (++counts[(keys[i] - keys[from]) / width] > n / slices * SLICE_FULL)
			return false;
	}
	return true;
}

/* Are keys crowded between their neighbours? */
static bool
gaps_clustered(const SortRec64 *recs, size_t n)
{
	uint64_t	last[2] = {0};	/* the two before, all different */
	size_t		found = 0;
	size_t		next_to = 0;

	for (size_t i = 0; i < n; i++)
	{
		uint64_t	key = recs[i].key;

		if (recs[i].rid % 2 != 0 || (found > 0 && key == last[1]))
			continue;
		if (++found > 2)
		{
			uint64_t	part = (key - last[0]) / GAP_NEXT_TO;

			next_to += last[1] - last[0] < part || key - last[1] < part;
		}
		last[0] = last[1];
		last[1] = key;
	}
	return found >= LEAST_GAPS && next_to > found * GAPS_CLUSTERED;
}

/* Do many of the sorted keys differ in late bits only? */
static bool
differ_late(const uint64_t *keys, size_t n)
{
	uint64_t	all = keys[n - 1] ^ keys[0];
	size_t		differ = 0;
	size_t		late = 0;

	for (size_t i = 1; i < n; i++)
	{
		differ += keys[i] != keys[i - 1];
		late += keys[i] != keys[i - 1] && (keys[i] ^ keys[i - 1]) <= all >> LATE_BITS;
	}
	return late > differ / MOST_LATE;
}

void
gpu_sample_look(GpuSample *sample, GpuSampleSeen *seen)
{
	GpuSampleScratch scratch;
	uint64_t	keys[2 * GPU_SAMPLE_PAIRS];
	uint64_t	left[2 * GPU_SAMPLE_PAIRS]; /* without frequent values */
	const SortRec64 *recs = sort_sample(sample, &scratch);
	size_t		n = sample->n;
	size_t		lefts = 0;
	size_t		rare = 0;
	size_t		most = 0;
	size_t		run;

	for (size_t i = 0; i < n; i += run)
	{
		for (run = 1; i + run < n && recs[i + run].key == recs[i].key; run++)
			;
		rare += run == 1;
		most = run > most ? run : most;
		for (size_t k = 0; k < run; k++)
		{
			keys[i + k] = recs[i].key;
			if (run <= n / FREQUENT)
				left[lefts++] = recs[i].key;
		}
	}
	seen->repeated = n == 0 ? 0 : (double) (n - rare) / n;
	if (n < LEAST_KEYS || keys[n - 1 - n / 100] - keys[n / 100] < SLICES ||
		(most <= n / MOST_EQUAL && slices_uniform(keys, n)))
		seen->key_distribution = GPUSORT_KEYS_UNIFORM;
	else if (gaps_clustered(recs, n) || (lefts - rare > n / REPEATING && rare > n / RARE))
		seen->key_distribution = differ_late(keys, n) ? GPUSORT_KEYS_LONG_PREFIX : GPUSORT_KEYS_CLUSTERED;
	else if (lefts < n / FEW_LEFT || slices_uniform(left, lefts))
		seen->key_distribution = GPUSORT_KEYS_FREQUENT;
	else
		seen->key_distribution = GPUSORT_KEYS_SKEWED;
}

/* ------------------------------------------------------------------------
 * Estimates how many distinct keys there are, from a sample of the records.
 *
 * Two inputs of the same key range can differ in it: 100 values that lie far
 * apart touch 100 cells of a counting sort's table, uniform keys touch all of
 * them.  Only narrow keys are sampled, as only they can be counted.
 *
 * A sample of m keys out of D equally frequent ones is expected to hold
 * D * (1 - exp(-m / D)) distinct ones; solved for D by bisection.  If some keys
 * are more frequent than others, the estimate is on the low side, which is the
 * side we want: frequent cells stay in the cache.
 * ------------------------------------------------------------------------
 */

#define SAMPLE_MIN_ROWS		4096	/* no sample of less */
#define SAMPLE_LARGE_ROWS	65536	/* the larger sample from here on */
#define SAMPLE_SMALL		64
#define SAMPLE_LARGE		256
#define SAMPLE_MAX_BITS		24
#define SAMPLE_MIN_BITS		9	/* fewer bits make a table that is small anyway */

#define TABLE_BITS			10	/* of the hash table: 4 times the sample */
#define TABLE_SIZE			(1 << TABLE_BITS)

static inline uint32_t
sample_key(const RouteFacts *facts, const void *recs, size_t i)
{
	uint32_t	mask = ((uint32_t) 1 << (facts->end_bit - facts->begin_bit)) - 1;
	int			shift = facts->begin_bit;
	unsigned __int128 key;

	switch (facts->format)
	{
		case SORT_REC_PACKED:
			return (uint32_t) (((const uint64_t *) recs)[i] >> shift) & mask;
		case SORT_REC_64:
			return (uint32_t) (((const SortRec64 *) recs)[i].key >> shift) & mask;
		case SORT_REC_128:
			break;
	}
	key = (unsigned __int128) ((const SortRec128 *) recs)[i].hi << 64 |
		((const SortRec128 *) recs)[i].lo;
	return (uint32_t) (key >> shift) & mask;
}

/* How many different keys are among m records, evenly spread? */
static unsigned
distinct_in_sample(const RouteFacts *facts, const void *recs, unsigned m)
{
	uint32_t	table[TABLE_SIZE];	/* key + 1; 0 is free */
	uint32_t	keys[SAMPLE_LARGE];
	unsigned	distinct = 0;

	/* all loads first, so that their cache misses overlap */
	for (unsigned i = 0; i < m; i++)
		keys[i] = sample_key(facts, recs, facts->n / m * i) + 1;

	memset(table, 0, sizeof(table));
	for (unsigned i = 0; i < m; i++)
	{
		uint32_t	slot = (keys[i] * UINT32_C(0x9E3779B1)) >> (32 - TABLE_BITS);

		while (table[slot] != 0 && table[slot] != keys[i])
			slot = (slot + 1) % TABLE_SIZE;
		distinct += table[slot] == 0;
		table[slot] = keys[i];
	}
	return distinct;
}

void
gpusort_route_sample(RouteFacts *facts, const void *recs)
{
	int			bits = facts->end_bit - facts->begin_bit;
	unsigned	m = facts->n < SAMPLE_LARGE_ROWS ? SAMPLE_SMALL : SAMPLE_LARGE;
	unsigned	distinct;
	double		low = -9;		/* of log2(D / m) */
	double		high = 6;

	facts->scattered = route_scattered(facts, recs);
	if (facts->n < SAMPLE_MIN_ROWS || bits < SAMPLE_MIN_BITS || bits > SAMPLE_MAX_BITS)
		return;
	distinct = distinct_in_sample(facts, recs, m);
	if (distinct > m * 9 / 10)
		return;

	for (int i = 0; i < 10; i++)
	{
		double		middle = (low + high) / 2;
		double		d = m * exp2(middle);

		if (d * (1 - exp(-(double) m / d)) < distinct)
			low = middle;
		else
			high = middle;
	}
	facts->distinct = (uint64_t) fmax(1, m * exp2(high));
}

/* ------------------------------------------------------------------------
 * Inputs of which each part is in order, but not the whole.
 *
 * Few keys smaller than the one before mean a sorted input with some records out of
 * place, or ascending runs: i % 1000 is one of runs of a thousand.  Pairs of records from
 * anywhere tell: of the first, as few are in the wrong order as records are out of
 * place, an eighth at most (presorted.c); of runs that begin anywhere nearly half are.
 * ------------------------------------------------------------------------
 */

#define SCATTERED_MIN_ROWS	4096
#define SCATTERED_SAMPLE	64
#define SCATTERED_PAIRS		(SCATTERED_SAMPLE * (SCATTERED_SAMPLE - 1) / 2)

/* Fewer descents are runs that are merged. */
#define SCATTERED_MIN_RUNS	4

typedef unsigned __int128 Key;

static inline Key
key_at(const RouteFacts *facts, const void *recs, size_t i)
{
	switch (facts->format)
	{
		case SORT_REC_PACKED:
			return ((const uint64_t *) recs)[i] >> facts->begin_bit;
		case SORT_REC_64:
			return ((const SortRec64 *) recs)[i].key;
		case SORT_REC_128:
			break;
	}
	return (Key) ((const SortRec128 *) recs)[i].hi << 64 | ((const SortRec128 *) recs)[i].lo;
}

/* Are these records so?  False if they cannot be meant for an input nearly in order. */
static bool
route_scattered(const RouteFacts *facts, const void *recs)
{
	size_t		step = facts->n / SCATTERED_SAMPLE;
	uint32_t	random = 1;
	Key			keys[SCATTERED_SAMPLE];
	int			wrong = 0;

	if (!facts->order_known || facts->n < SCATTERED_MIN_ROWS ||
		facts->descents < SCATTERED_MIN_RUNS || facts->ascents == 0 ||
		facts->descents > facts->n / ORDERED_PER_DESCENT)
		return false;
	for (int i = 0; i < SCATTERED_SAMPLE; i++)
	{
		/* anywhere in its part: the runs may be of one length */
		random = random * UINT32_C(1664525) + UINT32_C(1013904223);
		keys[i] = key_at(facts, recs, i * step + (random >> 8) % step);
		for (int j = 0; j < i; j++)
			wrong += keys[i] < keys[j];
	}
	return wrong > SCATTERED_PAIRS / 5;
}
