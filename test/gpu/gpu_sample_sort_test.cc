/*
 * gpu_sample_sort_test.cc
 *	  Tests gpu_bucket's sample sort (cuda/bucket/sample_sort.cuh) on an emulated
 *	  device: the number of launches and the order of the result, for values that
 *	  cluster at bucket boundaries, sizes next to every limit, and inputs that
 *	  mislead the sample.
 *
 * Launches are checked only for fixed inputs.  With a random input a slot may
 * overflow by chance, and the sort then rightly takes more launches; its seed is
 * printed, and only the order is checked.
 *
 * usage: gpu_sample_sort_test [seed]
 */
#include <algorithm>
#include <random>
#include <vector>

#include "bucket/sample_sort.cuh"
#include "emulation/emulated_test.h"

typedef uint64_t Key;

static std::mt19937_64 rng;
static int	bucket_algorithm;

/* Launches of each kind of sample sort. */
#define ONCE		2			/* scatter, sort */
#define TWICE		5			/* sample, histogram, scatter, scatter, sort */
#define MAPPED		4			/* sample, histogram, partition, sort */
#define REPEATED	-1			/* repeated after an overflow of a slot */
#define ANY			-2

enum Shape
{
	UNIFORM, EQUAL, TWO_VALUES, FEW_VALUES, SKEWED, CLUSTERED_ENDS, ASCENDING_RUNS, SHAPES
};

static std::vector<Key>
make_keys(Shape shape, uint64_t n)
{
	std::vector<Key> keys(n);

	for (uint64_t i = 0; i < n; i++)
	{
		Key			v = rng();

		switch (shape)
		{
			case UNIFORM:
				break;
			case EQUAL:
				v = 77;
				break;
			case TWO_VALUES:
				v = v % 2 ? 0 : ~(Key) 0;
				break;
			case FEW_VALUES:
				v = v % 13 * 0x0101010101010101u;
				break;
			case SKEWED:
				v >>= v % 60;
				break;
			case CLUSTERED_ENDS:
				v = v & 1 ? ~(Key) 0 - (v >> 1) % 3 : (v >> 1) % 3;
				break;
			case ASCENDING_RUNS:
				v = i % (n / 5) << 20 | (v % 4 == 0 ? v >> 44 : 0);
				break;
			default:
				break;
		}
		keys[i] = v;
	}
	return keys;
}

/* Keys that mislead the sample: all other keys lie between two sampled keys. */
static std::vector<Key>
misleading_keys(uint64_t n, uint32_t samples)
{
	std::vector<Key> keys(n);

	for (uint64_t i = 0; i < n; i++)
		keys[i] = ((Key) 1 << 63) + rng() % 100;
	for (uint32_t i = 0; i < samples; i++)
	{
		Key			v = rng();

		keys[sample_position(i, samples, (uint32_t) n)] = v >> v % 60;
	}
	return keys;
}

template <class K> static void
check_sort(const std::vector<Key> &keys, uint32_t output, int launches, const char *what)
{
	uint64_t	n = keys.size();
	std::vector<uint32_t> order(n);
	GpusortProblem problem = {};
	GpusortResult result;
	GpusortError err = {};
	K		   *input,
			   *keys_out;
	void	   *p;
	char		name[160];
	bool		right = true;

	snprintf(name, sizeof(name), "%s, n=%llu, u%d, output=%u", what, (unsigned long long) n,
			 (int) sizeof(K) * 8, output);
	problem.n = n;
	problem.key_width = problem.end_bit = sizeof(K) * 8;
	problem.output = output;
	MUST(api->sort_scratch(ctx, bucket_algorithm, &problem, &problem.scratch_bytes, NULL, &must_err));
	MUST(api->device_alloc(ctx, n * sizeof(K), &p, &must_err));
	problem.keys = input = static_cast<K *>(p);
	MUST(api->device_alloc(ctx, n * sizeof(K), &p, &must_err));
	problem.keys_out = keys_out = static_cast<K *>(p);
	MUST(api->device_alloc(ctx, n * 4, &p, &must_err));
	problem.rids_out = static_cast<uint32_t *>(p);
	MUST(api->device_alloc(ctx, problem.scratch_bytes, &problem.scratch, &must_err));
	memset(problem.scratch, 0xa5, problem.scratch_bytes);
	for (uint64_t i = 0; i < n; i++)
	{
		input[i] = (K) keys[i];
		if constexpr (sizeof(K) == 4)
			input[i] = (K) (keys[i] >> 32) ^ (K) keys[i];
		order[i] = (uint32_t) i;
	}
	std::stable_sort(order.begin(), order.end(), [&] (uint32_t a, uint32_t b)
					 {
						 return input[a] < input[b];
					 });
	if (api->sort_run(stream, bucket_algorithm, &problem, &result, &err) != GPUSORT_OK)
		fail(name, err.message);
	for (uint64_t i = 0; i < n && right; i++)
	{
		if (output & GPUSORT_OUT_RIDS)
			right = problem.rids_out[i] == order[i];
		if (output & GPUSORT_OUT_KEYS)
			right = right && keys_out[i] == input[order[i]];
	}
	expect(right, name, "is wrong");
	snprintf(err.message, sizeof(err.message), "%d launches", (int) result.launches);
	expect(launches == ANY || (launches == REPEATED ? result.launches > TWICE
							   : result.launches == launches), name, err.message);
	api->device_free(ctx, input);
	api->device_free(ctx, keys_out);
	api->device_free(ctx, problem.rids_out);
	api->device_free(ctx, problem.scratch);
}

/* Scratch must not shrink with more keys: callers ask for the largest n. */
static void
check_scratch(int key_bits, uint32_t output)
{
	static const uint64_t sizes[] = {
		4608, 8192, 8193, 1 << 17, (1 << 17) + 1, SAMPLE_SORT_MAX_ONCE, SAMPLE_SORT_MAX_ONCE + 1,
		SAMPLE_SORT_MAX - 1, SAMPLE_SORT_MAX, SAMPLE_SORT_MAX + 1, 3 * SAMPLE_SORT_MAX
	};
	uint64_t	least = 0;

	for (uint64_t n : sizes)
	{
		GpusortProblem problem = {};
		uint64_t	bytes;

		problem.n = n;
		problem.key_width = problem.end_bit = key_bits;
		problem.output = output;
		problem.facts = GPUSORT_MAY_CLOBBER_INPUT;
		MUST(api->sort_scratch(ctx, bucket_algorithm, &problem, &bytes, NULL, &must_err));
		expect(bytes >= least, "scratch", "fewer keys need more scratch");
		least = bytes;
	}
}

/* Fixed inputs: checks the launches and the order of each. */
static void
check_routes()
{
	rng.seed(1);
	for (int shape = 0; shape < SHAPES; shape++)
		for (uint64_t n : {8193, 16411})
		{
			std::vector<Key> keys = make_keys((Shape) shape, n);

			check_sort<uint32_t>(keys, GPUSORT_OUT_RIDS, ONCE, "scattered once");
			check_sort<uint64_t>(keys, GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, ONCE, "scattered once");
			check_sort<unsigned __int128>(keys, GPUSORT_OUT_RIDS, ONCE, "scattered once");
		}
	check_sort<uint32_t>(make_keys(SKEWED, 8192), GPUSORT_OUT_RIDS, 1, "one block");
	check_sort<uint64_t>(make_keys(TWO_VALUES, 1 << 17), GPUSORT_OUT_RIDS, ONCE, "128 buckets");
	check_sort<uint32_t>(make_keys(FEW_VALUES, (1 << 17) + 1), GPUSORT_OUT_RIDS, ONCE,
						 "256 buckets");
	check_sort<uint64_t>(make_keys(SKEWED, SAMPLE_SORT_MAX_ONCE), GPUSORT_OUT_KEYS, ONCE,
						 "the most keys that are scattered once");
	check_sort<uint64_t>(make_keys(TWO_VALUES, SAMPLE_SORT_MAX_ONCE + 1), GPUSORT_OUT_RIDS, TWICE,
						 "two values, scattered twice");
	check_sort<uint64_t>(make_keys(SKEWED, 400000), GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, TWICE,
						 "scattered twice");
	check_sort<unsigned __int128>(make_keys(SKEWED, 300000), GPUSORT_OUT_RIDS, TWICE, "u128 scattered twice");
	check_sort<uint64_t>(make_keys(EQUAL, SAMPLE_SORT_MAX_ONCE + 1), GPUSORT_OUT_RIDS, MAPPED, "equal");
	check_sort<uint32_t>(make_keys(TWO_VALUES, SAMPLE_SORT_MAX_ONCE + 1), GPUSORT_OUT_RIDS, MAPPED,
						 "u32, two values");

	/* a slot overflows, and the sort is repeated */
	check_sort<uint64_t>(misleading_keys(20000, SAMPLE_SORT_MAX_SAMPLES / 2), GPUSORT_OUT_RIDS, REPEATED, "misled");
	check_sort<uint64_t>(misleading_keys(200000, SAMPLE_SORT_MAX_SAMPLES), GPUSORT_OUT_RIDS, REPEATED, "misled");
}

/* Random keys and sizes: checks the order only. */
static void
check_order()
{
	for (int shape = 0; shape < SHAPES; shape++)
	{
		std::vector<Key> keys = make_keys((Shape) shape, 8193 + rng() % 20000);

		check_sort<uint32_t>(keys, GPUSORT_OUT_RIDS, ANY, "random, scattered once");
		check_sort<uint64_t>(keys, GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, ANY, "random, scattered once");
		check_sort<unsigned __int128>(keys, GPUSORT_OUT_RIDS, ANY, "random, scattered once");
	}
	check_sort<uint64_t>(make_keys((Shape) (rng() % SHAPES), SAMPLE_SORT_MAX_ONCE + 1 + rng() % 50000),
						 GPUSORT_OUT_RIDS, ANY, "random, scattered twice");
}

int
main(int argc, char **argv)
{
	uint64_t	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : std::random_device()();

	printf("# seed %llu\n", (unsigned long long) seed);
	open_library();
	end_context("the first context");
	begin_context(90, 6);
	while (strcmp(api->algorithm(bucket_algorithm)->name, "gpu_bucket") != 0)
		bucket_algorithm++;
	check_routes();
	rng.seed(seed);
	check_order();
	for (uint32_t output = 1; output <= 3; output++)
		for (int bits = 32; bits <= 128; bits *= 2)
			check_scratch(bits, output);
	end_context("sample sort inputs");
	begin_context(90, 132);
	return close_library("gpu sample sort");
}
