/*
 * key_sample.c
 *	  Distribution and presortedness of keys, from samples.
 *
 * gpu_bucket (cuda/bucket) and gpu_radix depend on the distribution of the keys.
 * gpu_bucket divides the key range into slices of equal width.  If those hold
 * unequal numbers of keys, it divides at the quantiles of a sample, gives frequent
 * values slices of their own, and divides each quantile into slices of equal
 * width.  The classes follow that:
 *
 *	uniform			slices of equal width hold equal numbers of keys
 *	frequent		uniform, except for frequent values
 *	skewed			uniform between the quantiles
 *	clustered		not uniform between the quantiles, because
 *					- keys are clustered at every scale (rarely set bits, texts).
 *					  Take three sample keys in order.  If keys are uniform
 *					  between them, the middle one lies within 1/16 of the
 *					  distance of an outer one in 2 of 16 cases.  If keys are
 *					  clustered, it does so more often.  The test uses one key
 *					  of each pair, because neighbours may be correlated; or
 *					- values repeat that are too rare for the sample to find,
 *					  beside unique ones (Zipf's law)
 *	long prefix		clustered, and many sample keys differ in late bits only:
 *					gpu_radix needs all digits (cuda/radix/radix_lead.cuh)
 *
 * Keys in a hundred narrow ranges or more are classified as clustered although
 * quantiles would suffice; the sample is too small to tell.
 */
#include <math.h>

#include "cost/cost_internal.h"

/* Slices of the uniformity test; half as many below FEW_KEYS. */
#define SLICES			16
#define FEW_KEYS		512

/* A slice with more than this multiple of the mean is too full. */
#define SLICE_FULL		3 / 2

/* Smaller samples are classified as uniform. */
#define LEAST_KEYS		128
#define LEAST_GAPS		64

/* A uniform sample has no value with more than 1/MOST_EQUAL of the keys. */
#define MOST_EQUAL		40

/* gpu_bucket finds a value as frequent if it has more than 1/FREQUENT of the keys. */
#define FREQUENT		200

/*
 * A key is close to a neighbour within 1/GAP_NEXT_TO of the gap.  Keys are clustered
 * if more than this share is close: 2/16 are if keys are uniform, 4/16 in Thearling's
 * distribution entropy1.
 */
#define GAP_NEXT_TO		16
#define GAPS_CLUSTERED	3 / 16

/*
 * Keys repeat without frequent values: more than 1/REPEATING of the keys repeat, and
 * more than 1/RARE of the keys do not.
 */
#define REPEATING		12
#define RARE			4

/*
 * Two keys differ late if they share LATE_BITS bits beyond the common prefix.  The
 * class is "long prefix" if more than 1/MOST_LATE of the neighbours differ late.
 */
#define LATE_BITS		28
#define MOST_LATE		16

/* Keys that are not frequent need not be uniform below 1/FEW_INFREQUENT of the sample. */
#define FEW_INFREQUENT		8

/* Sorts by a kernel, which is many times faster than qsort(). */
static const SortRec64 *
sort_sample(SortRec64 *sample, size_t n, GpuSampleScratch *scratch)
{
	SortProblem problem = {
		.format = SORT_REC_64,
		.recs = sample,
		.n = n,
		.end_bit = 64,
		.rids_ascending = true,
		.scratch = scratch
	};

	cpu_radix_kernel.run(&problem);
	return problem.result;
}

/*
 * Do n sorted keys fill slices of equal width equally?  The slices divide the inner
 * 98 %, so that outliers do not count.  True if a slice is only one value wide.
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

/* Are keys clustered between their neighbours? */
static bool
gaps_clustered(const SortRec64 *recs, size_t n)
{
	/* the two previous different keys */
	uint64_t	last[2] = {0};
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

/* Classifies the sample.  Its contents are destroyed. */
static void
classify(SortRec64 *sample, size_t n, GpuSampleSeen *seen)
{
	GpuSampleScratch scratch;
	uint64_t	keys[2 * GPU_SAMPLE_PAIRS];

	/* keys without frequent values */
	uint64_t	infrequent[2 * GPU_SAMPLE_PAIRS];
	const SortRec64 *recs = sort_sample(sample, n, &scratch);
	size_t		ninfrequent = 0;
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
				infrequent[ninfrequent++] = recs[i].key;
		}
	}
	seen->repeated = n == 0 ? 0 : (double) (n - rare) / n;
	if (n < LEAST_KEYS || keys[n - 1 - n / 100] - keys[n / 100] < SLICES ||
		(most <= n / MOST_EQUAL && slices_uniform(keys, n)))
		seen->key_distribution = GPUSORT_KEYS_UNIFORM;
	else if (gaps_clustered(recs, n) || (ninfrequent - rare > n / REPEATING && rare > n / RARE))
		seen->key_distribution = differ_late(keys, n) ? GPUSORT_KEYS_LONG_PREFIX : GPUSORT_KEYS_CLUSTERED;
	else if (ninfrequent < n / FEW_INFREQUENT || slices_uniform(infrequent, ninfrequent))
		seen->key_distribution = GPUSORT_KEYS_FREQUENT;
	else
		seen->key_distribution = GPUSORT_KEYS_SKEWED;
}

void
gpu_sample_keys(size_t n, GpuSamplePair pair, void *arg, GpuSampleSeen *seen)
{
	SortRec64	sample[2 * GPU_SAMPLE_PAIRS] __attribute__((aligned(64)));
	size_t		step = n < GPU_SAMPLE_PAIRS ? 1 : n / GPU_SAMPLE_PAIRS;
	size_t		taken = 0;

	for (size_t i = 0; i + 1 < n && taken < 2 * GPU_SAMPLE_PAIRS; i += step)
	{
		uint64_t	keys[2];

		pair(arg, i, keys);
		for (int k = 0; k < 2; k++, taken++)
			sample[taken] = (SortRec64) {.key = keys[k],.rid = (uint32_t) taken};
	}
	classify(sample, taken, seen);
}

/* ------------------------------------------------------------------------
 * Ascending runs that overlap
 *
 * An input with few descents is either nearly sorted or consists of ascending runs.
 * Pairs of random records distinguish the two: in a nearly sorted input at most an
 * eighth is in the wrong order (presorted.c), with overlapping runs nearly half.
 * ------------------------------------------------------------------------
 */

#define SCATTERED_MIN_ROWS	4096
#define SCATTERED_SAMPLE	64
#define SCATTERED_PAIRS		(SCATTERED_SAMPLE * (SCATTERED_SAMPLE - 1) / 2)

/* The key of record i, without the bits below begin_bit. */
static inline SortKey
record_key(const RouteFacts *facts, const void *recs, size_t i)
{
	uint32_t	rid;
	SortKey		key = sort_rec_get(recs, facts->format, facts->begin_bit, i, &rid);

	return facts->format == SORT_REC_PACKED ? key : key >> facts->begin_bit;
}

void
gpusort_route_sample(RouteFacts *facts, const void *recs)
{
	size_t		step = facts->n / SCATTERED_SAMPLE;
	uint32_t	random = 1;
	SortKey		keys[SCATTERED_SAMPLE];
	int			wrong = 0;

	facts->scattered = false;
	/* the facts may already exclude a nearly sorted input */
	if (!facts->order_known || facts->n < SCATTERED_MIN_ROWS ||
		facts->descents < PRESORTED_MAX_RUNS || facts->ascents == 0 ||
		facts->descents > facts->n / PRESORTED_PER_DESCENT)
		return;
	for (int i = 0; i < SCATTERED_SAMPLE; i++)
	{
		/* a random record of each part, because the runs may have equal lengths */
		random = random * UINT32_C(1664525) + UINT32_C(1013904223);
		keys[i] = record_key(facts, recs, i * step + (random >> 8) % step);
		for (int j = 0; j < i; j++)
			wrong += keys[i] < keys[j];
	}
	facts->scattered = wrong > SCATTERED_PAIRS / 5;
}
