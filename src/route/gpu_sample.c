/*
 * gpu_sample.c
 *	  How keys are spread; see gpu_sample.h.
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
#include "route/gpu_sample.h"

#include <string.h>

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
#define GAPS_CROWDED	3 / 16

/* Repeating but not frequent: one of twelve keys, while one of four does not repeat. */
#define REPEATING		12
#define RARE			4

/* Neighbours that share so many bits beyond what all share: late, if one of so many does. */
#define LATE_BITS		28
#define MOST_LATE		16

/* What is left beside frequent values need not be even if it is less than one of so many. */
#define FEW_LEFT		8

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
slices_even(const uint64_t *keys, size_t n)
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
gaps_crowded(const SortRec64 *recs, size_t n)
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
	return found >= LEAST_GAPS && next_to > found * GAPS_CROWDED;
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
		(most <= n / MOST_EQUAL && slices_even(keys, n)))
		seen->spread = GPUSORT_SPREAD_EVEN;
	else if (gaps_crowded(recs, n) || (lefts - rare > n / REPEATING && rare > n / RARE))
		seen->spread = differ_late(keys, n) ? GPUSORT_SPREAD_DEEP : GPUSORT_SPREAD_CROWDED;
	else if (lefts < n / FEW_LEFT || slices_even(left, lefts))
		seen->spread = GPUSORT_SPREAD_FREQUENT;
	else
		seen->spread = GPUSORT_SPREAD_UNEVEN;
}
