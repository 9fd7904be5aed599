/*
 * route_distribution_test.c
 *	  Tests the distribution of keys as estimated from samples, and the GPU
 *	  algorithm chosen for each distribution.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "route_test.h"

/* Keys of a sampled input; inputs of each kind. */
#define INPUT_ROWS		1000000
#define INPUT_ROUNDS	50

/* An input of n keys make(arg, i). */
typedef struct Input
{
	size_t		n;
	uint64_t	(*make) (uint64_t arg, size_t i);
	uint64_t	arg;
	size_t		pairs;			/* pairs that were sampled */
} Input;

/* Sampled pairs never lie behind the input's keys. */
static void
make_pair(void *arg, size_t i, uint64_t keys[2])
{
	Input	   *input = arg;

	CHECK(i + 1 < input->n);
	keys[0] = input->make(input->arg, i);
	keys[1] = input->make(input->arg, i + 1);
	input->pairs++;
}

/* The distribution of n keys, as a sample shows it. */
static GpuSampleSeen
seen_of_rows(size_t n, uint64_t (*make) (uint64_t arg, size_t i), uint64_t arg)
{
	Input		input = {n, make, arg, 0};
	GpuSampleSeen seen;

	gpu_sample_keys(n, make_pair, &input, &seen);
	CHECK(input.pairs == (n > GPU_SAMPLE_PAIRS ? GPU_SAMPLE_PAIRS : n > 0 ? n - 1 : 0));
	return seen;
}

static GpuSampleSeen
seen_of(uint64_t (*make) (uint64_t arg, size_t i), uint64_t arg)
{
	return seen_of_rows(INPUT_ROWS, make, arg);
}

/* Uniform over a range of arg values. */
static uint64_t
up_to(uint64_t most, size_t i)
{
	(void) i;
	return next_random() % most;
}

static uint64_t
ascending(uint64_t step, size_t i)
{
	return i * step;
}

/* A bell curve, narrower by arg bits than the range. */
static uint64_t
bell(uint64_t shift, size_t i)
{
	uint64_t	sum = 0;

	(void) i;
	for (int d = 0; d < 12; d++)
		sum += next_random() >> (4 + shift);
	return sum;
}

/* Random numbers of a random length of up to 64 bits. */
static uint64_t
tail(uint64_t bits, size_t i)
{
	(void) i;
	return next_random() >> next_random() % bits;
}

/* arg keys of ten have one value; the other keys are uniform. */
static uint64_t
most_equal(uint64_t of_ten, size_t i)
{
	(void) i;
	return next_random() % 10 < of_ten ? 12345 : next_random();
}

/* One key of arg keys has a fixed value; the other keys are uniform. */
static uint64_t
one_of(uint64_t many, size_t i)
{
	return i / 2 % many == 0 ? UINT64_C(5) << 61 : next_random() << 1;
}

/* arg random values, each with the same frequency. */
static uint64_t
scattered(uint64_t values, size_t i)
{
	(void) i;
	return next_random() % values * UINT64_C(0x9E3779B97F4A7C15);
}

/* Values with Zipf's frequencies, scattered over the range. */
static uint64_t
zipf(uint64_t values, size_t i)
{
	double		unit = (double) (next_random() >> 11) * ldexp(1, -53);

	(void) i;
	return (uint64_t) pow((double) values, unit) * UINT64_C(0x9E3779B97F4A7C15);
}

/* The bitwise AND of arg random numbers. */
static uint64_t
common(uint64_t numbers, size_t i)
{
	uint64_t	key = next_random();

	(void) i;
	while (--numbers > 0)
		key &= next_random();
	return key;
}

/* Strings of arg letters out of 26, 8 bits each, of different frequencies. */
static uint64_t
words(uint64_t length, size_t i)
{
	uint64_t	key = 0;

	(void) i;
	while (length-- > 0)
		key = key << 8 | ('a' + (next_random() % 26) * (next_random() % 26) / 26);
	return key;
}

/* A few clusters, each a hundred thousandth of the gaps between them. */
static uint64_t
clusters(uint64_t count, size_t i)
{
	(void) i;
	return next_random() % count * (UINT64_MAX / count) + next_random() % (UINT64_MAX / count / 100000);
}

/* A wave: consecutive keys have near values, as a series of measurements. */
static uint64_t
waves(uint64_t height, size_t i)
{
	return (uint64_t) ((1 + sin((double) i / 3000)) * (double) height) + next_random() % 1000;
}

static void
test_gpu_distribution(void)
{
	static const struct
	{
		const char *name;
		uint64_t	(*make) (uint64_t arg, size_t i);
		uint64_t	arg;
		GpusortDistribution want;
	}			cases[] = {
		{"uniform", up_to, UINT64_MAX, GPUSORT_KEYS_UNIFORM},
		{"100 numbers", up_to, 100, GPUSORT_KEYS_UNIFORM},
		{"one number", up_to, 1, GPUSORT_KEYS_UNIFORM},
		{"in order", ascending, UINT64_C(1) << 40, GPUSORT_KEYS_UNIFORM},
		{"most equal", most_equal, 7, GPUSORT_KEYS_FREQUENT},
		{"nearly all equal", most_equal, 9, GPUSORT_KEYS_FREQUENT},
		{"one of 28", one_of, 28, GPUSORT_KEYS_FREQUENT},
		{"16 values", scattered, 16, GPUSORT_KEYS_FREQUENT},
		{"bell", bell, 4, GPUSORT_KEYS_SKEWED},
		{"narrow bell", bell, 30, GPUSORT_KEYS_SKEWED},
		{"tail", tail, 60, GPUSORT_KEYS_SKEWED},
		{"5 clusters", clusters, 5, GPUSORT_KEYS_SKEWED},
		{"7 clusters", clusters, 7, GPUSORT_KEYS_SKEWED},
		{"waves", waves, UINT64_C(1) << 50, GPUSORT_KEYS_SKEWED},
		{"zipf", zipf, 100000, GPUSORT_KEYS_CLUSTERED},
		{"zipf of many", zipf, 100000000, GPUSORT_KEYS_CLUSTERED},
		{"bits of 2", common, 2, GPUSORT_KEYS_CLUSTERED},
		{"bits of 4", common, 4, GPUSORT_KEYS_LONG_PREFIX},
		{"bits of 6", common, 6, GPUSORT_KEYS_LONG_PREFIX},
		{"texts", words, 8, GPUSORT_KEYS_CLUSTERED},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
	{
		int			right = 0;

		for (int round = 0; round < INPUT_ROUNDS; round++)
			right += seen_of(cases[c].make, cases[c].arg).key_distribution == cases[c].want;
		if (right < INPUT_ROUNDS * 4 / 5)
		{
			failures++;
			fprintf(stderr, "%s: %d of %d samples show the distribution\n", cases[c].name, right, INPUT_ROUNDS);
		}
	}
	CHECK(seen_of(up_to, UINT64_MAX).repeated == 0);
	CHECK(seen_of(up_to, 1).repeated == 1);
	CHECK(fabs(seen_of(most_equal, 7).repeated - 0.7) < 0.1);
}

/* Uniform, after "count" outliers. */
static uint64_t
outliers(uint64_t count, size_t i)
{
	return i < count ? UINT64_MAX : next_random() >> 20;
}

/* A few outliers, or a few keys, do not make a distribution. */
static void
test_gpu_sample(void)
{
	CHECK(seen_of_rows(501, outliers, 3).key_distribution == GPUSORT_KEYS_UNIFORM);
	for (size_t n = 0; n < 65; n++)
	{
		GpuSampleSeen seen = seen_of_rows(n, zipf, 1000);

		CHECK(seen.key_distribution == GPUSORT_KEYS_UNIFORM && seen.repeated >= 0 && seen.repeated <= 1);
	}
	/* sampled pairs are distributed over all keys: seen_of_rows() counts them */
	for (size_t n = 0; n < 5000; n += 1 + n / 7)
		(void) seen_of_rows(n, outliers, 0);
}

/* The scratch for sorting a sample is as large as the kernel requires. */
static void
test_gpu_sample_scratch(void)
{
	SortProblem problem = {.format = SORT_REC_64,.end_bit = 64,.rids_ascending = true};

	for (problem.n = 0; problem.n <= 2 * GPU_SAMPLE_PAIRS; problem.n++)
		CHECK(cpu_radix_kernel.scratch_bytes(&problem) <= sizeof(GpuSampleScratch));
}

/*
 * The fastest GPU algorithm for each distribution, as measured in
 * bench/results/gpu-h200-sweep.csv.
 */
static void
test_gpu_distribution_choice(void)
{
	static const struct
	{
		int			log2_rows;
		int			key_bits;
		GpusortDistribution key_distribution;
		const char *want;
	}			cases[] = {
		{18, 32, GPUSORT_KEYS_SKEWED, "gpu_bucket"},
		{18, 32, GPUSORT_KEYS_CLUSTERED, "gpu_bucket"},
		{20, 32, GPUSORT_KEYS_FREQUENT, "gpu_bucket"},
		{20, 32, GPUSORT_KEYS_SKEWED, "gpu_radix"},
		{20, 32, GPUSORT_KEYS_CLUSTERED, "gpu_radix"},
		{24, 32, GPUSORT_KEYS_FREQUENT, "gpu_radix"},
		{16, 64, GPUSORT_KEYS_CLUSTERED, "gpu_bucket"},
		{19, 64, GPUSORT_KEYS_SKEWED, "gpu_merge"},
		{20, 64, GPUSORT_KEYS_CLUSTERED, "gpu_bucket"},
		{22, 64, GPUSORT_KEYS_FREQUENT, "gpu_radix"},
		{22, 64, GPUSORT_KEYS_SKEWED, "gpu_bucket"},
		{22, 64, GPUSORT_KEYS_CLUSTERED, "gpu_radix"},
		{26, 64, GPUSORT_KEYS_CLUSTERED, "gpu_radix"},
		{26, 64, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		{19, 128, GPUSORT_KEYS_FREQUENT, "gpu_radix"},
		{19, 128, GPUSORT_KEYS_LONG_PREFIX, "gpu_merge"},
		{22, 128, GPUSORT_KEYS_CLUSTERED, "gpu_radix"},
		{22, 128, GPUSORT_KEYS_LONG_PREFIX, "gpu_bucket"},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
	{
		RouteFacts	facts = facts_of((size_t) 1 << cases[c].log2_rows, cases[c].key_bits);
		double		us = HUGE_VAL;
		const Algorithm *got;

		set_gpu(&facts, cases[c].key_bits);
		facts.gpu.key_distribution = cases[c].key_distribution;
		got = gpu_choose(&facts, &us);
		CHECK(got != NULL);
		if (got != NULL && strcmp(got->name, cases[c].want) != 0)
		{
			failures++;
			fprintf(stderr, "2^%d keys of %d bits, distribution %d: %s is not %s\n", cases[c].log2_rows,
					cases[c].key_bits, cases[c].key_distribution, got->name, cases[c].want);
		}
	}
}

void
route_distribution_tests(void)
{
	test_gpu_distribution();
	test_gpu_sample();
	test_gpu_sample_scratch();
	test_gpu_distribution_choice();
}
