/*
 * gpu_lead_test.cc
 *	  Tests gpu_radix by leading digits (cuda/radix/radix_lead.cuh) on an
 *	  emulated device: the number of passes, whether the result was fixed up or
 *	  sorted again by all digits, and its order.
 *
 * The inputs mislead the sample: keys at positions that are not sampled form
 * runs that leading digits cannot order.  Their length is the longest that the
 * fix-up pass sorts, or longer by one.
 *
 * Passes and launches are checked for fixed inputs.  With random inputs, whose
 * seed is printed, the sample may choose more or fewer digits; only the order
 * is checked.
 *
 * usage: gpu_lead_test [seed [problems]]
 */
#include <algorithm>
#include <random>
#include <vector>

#include "radix/radix_lead.cuh"
#include "emulation/emulated_test.h"

typedef unsigned __int128 Key;

static std::mt19937_64 rng;
static int	radix_algorithm;

/* How an input was sorted, by the number of launches besides the passes. */
enum Route
{
	ANY, NOT_SAMPLED = 1,		/* count */
	ALL_DIGITS,					/* sample, count */
	FIXED_UP,					/* sample, count, fix up */
	SORTED_AGAIN				/* sample, count, fix up, count */
};

static Key
random_key()
{
	return (Key) rng() << 64 | rng();
}

/* A sort: the values lie in bits [begin, end) of keys of key_bits bits. */
struct Case
{
	int			key_bits;
	int			begin;
	int			end;
	uint32_t	output;
	uint32_t	facts;
	bool		rids;			/* rids that are not positions */
};

struct Problem
{
	Case		c;
	GpusortProblem problem;
	Exact		input,
				keys,
				rids,
				keys_out,
				rids_out;
	std::unique_ptr<Exact> scratch;
	std::vector<uint32_t> order;

	size_t bytes() const
	{
		return c.key_bits / 8;
	}

	Problem(const Case &what, const std::vector<Key> &values)
		: c(what), problem(), input(values.size() * bytes()), keys(values.size() * bytes()),
		  rids(values.size() * 4), keys_out(values.size() * bytes()), rids_out(values.size() * 4),
		  order(values.size())
	{
		Key			mask = ~(Key) 0 >> (128 - (c.end - c.begin)) << c.begin;

		for (size_t i = 0; i < values.size(); i++)
		{
			Key			key = (values[i] << c.begin & mask) | (random_key() & ~mask);
			uint32_t	rid = (uint32_t) (i * 2654435761u);

			memcpy(keys.p.get() + i * bytes(), &key, bytes());
			memcpy(rids.p.get() + i * 4, &rid, 4);
			order[i] = (uint32_t) i;
		}
		std::stable_sort(order.begin(), order.end(), [&] (uint32_t a, uint32_t b)
						 {
							 return (values[a] << c.begin & mask) < (values[b] << c.begin & mask);
						 });
		problem.n = values.size();
		problem.key_width = c.key_bits;
		problem.begin_bit = c.begin;
		problem.end_bit = c.end;
		problem.output = c.output;
		problem.facts = c.facts;
		MUST(api->sort_scratch(ctx, radix_algorithm, &problem, &problem.scratch_bytes, NULL, &must_err));
		scratch.reset(new Exact(problem.scratch_bytes));
		problem.keys = input.p.get();
		problem.rids = c.rids ? (const uint32_t *) rids.p.get() : NULL;
		problem.keys_out = keys_out.p.get();
		problem.rids_out = (uint32_t *) rids_out.p.get();
		problem.scratch = scratch->p.get();
	}

	GpusortStatus run(GpusortResult *result, GpusortError *err)
	{
		memcpy(input.p.get(), keys.p.get(), problem.n * bytes());
		memset(scratch->p.get(), 0xa5, problem.scratch_bytes);
		memset(problem.keys_out, 0xa5, problem.n * bytes());
		memset(problem.rids_out, 0xa5, problem.n * 4);
		return api->sort_run(stream, radix_algorithm, &problem, result, err);
	}

	bool is_right() const
	{
		bool		right = c.facts & GPUSORT_MAY_CLOBBER_INPUT ||
			memcmp(input.p.get(), keys.p.get(), problem.n * bytes()) == 0;

		for (size_t i = 0; i < order.size() && right; i++)
		{
			uint32_t	rid = c.rids ? problem.rids[order[i]] : order[i];

			if (c.output & GPUSORT_OUT_KEYS)
				right = memcmp(keys_out.p.get() + i * bytes(), keys.p.get() + order[i] * bytes(),
							   bytes()) == 0;
			if (c.output & GPUSORT_OUT_RIDS)
				right = right && problem.rids_out[i] == rid;
		}
		return right;
	}
};

static void
check_sort(const Case &c, const std::vector<Key> &values, Route route, int passes, const char *name)
{
	Problem		problem(c, values);
	GpusortResult result;
	GpusortError err = {};
	char		what[160];
	char		was[80];

	snprintf(what, sizeof(what), "%s, n=%zu, u%d [%d, %d), output=%u, facts=%x, rids=%d", name,
			 values.size(), c.key_bits, c.begin, c.end, c.output, c.facts, (int) c.rids);
	if (problem.run(&result, &err) != GPUSORT_OK)
		fail(what, err.message);
	expect(problem.is_right(), what, "is wrong");
	snprintf(was, sizeof(was), "took %d passes of %d launches", (int) result.passes,
			 (int) result.launches);
	expect(route == ANY || result.launches - result.passes == route, what, was);
	expect(passes == 0 || result.passes == passes, what, was);
}

static const uint32_t keys_and_rids = GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS;

static Case
whole(int key_bits, uint32_t output = keys_and_rids, uint32_t facts = 0, bool rids = false)
{
	return Case{key_bits, 0, key_bits, output, facts, rids};
}

/* Uniform values of the given number of bits. */
static std::vector<Key>
uniform_values(size_t n, int bits)
{
	std::vector<Key> values(n);

	for (Key &v : values)
		v = random_key() >> (128 - bits);
	return values;
}

/*
 * Values outside of the sample form runs: their upper bits are equal, their
 * lower bits random and sometimes equal.  The remaining values are uniform and
 * less than those of the runs.
 */
static std::vector<Key>
hidden_runs(size_t n, int bits, uint32_t length, uint32_t runs)
{
	std::vector<Key> values(n);
	std::vector<bool> seen(n);
	Key			prefix = 0;
	size_t		left = (size_t) length * runs;

	for (uint32_t i = 0; i < LEAD_SAMPLES; i++)
		seen[sample_position(i, LEAD_SAMPLES, (uint32_t) n)] = true;
	for (size_t i = n; i-- > 0;)
	{
		values[i] = random_key() >> (129 - bits);
		if (seen[i] || left == 0)
			continue;
		if (left-- % length == 0 || prefix == 0)
			prefix = ((random_key() | (Key) 1 << 127) >> (128 - bits) >> 12) << 12;
		values[i] = prefix | (rng() % 300 * 13);
	}
	return values;
}

/*
 * A few frequent values; and one rare value at a position that is not sampled,
 * unless is_there.
 */
static std::vector<Key>
hidden_value(size_t n, int bits, int frequent, bool is_there)
{
	std::vector<Key> values(n),
				some = uniform_values(frequent, bits);
	bool		put = !is_there;

	for (Key &v : some)
		v |= 2;
	for (size_t i = 0; i < n; i++)
		values[i] = some[rng() % frequent];
	for (size_t at = n / 2; !put; at++)
	{
		put = true;
		for (uint32_t i = 0; i < LEAD_SAMPLES; i++)
			put = put && sample_position(i, LEAD_SAMPLES, (uint32_t) n) != at;
		if (put)
			values[at] = some[0] - 1;
	}
	return values;
}

/* Fixed inputs: checks how each is sorted. */
static void
check_routes()
{
	static const uint32_t outputs[] = {GPUSORT_OUT_KEYS, GPUSORT_OUT_RIDS, keys_and_rids};

	rng.seed(1);
	check_sort(whole(64), uniform_values(2 * LEAD_SAMPLES - 1, 64), NOT_SAMPLED, 8, "few keys");
	check_sort(Case{64, 3, 27, keys_and_rids, 0, false}, uniform_values(5000, 64), NOT_SAMPLED, 3, "few digits");
	for (int bits : {64, 128})
		for (uint32_t output : outputs)
			for (uint32_t facts : {0u, (uint32_t) GPUSORT_MAY_CLOBBER_INPUT})
			{
				bool		rids = facts == 0;

				check_sort(whole(bits, output, facts, rids), uniform_values(20000, bits), FIXED_UP, 3, "uniform");
				check_sort(whole(bits, output, facts, rids), hidden_runs(20000, bits, 200, 80),
						   FIXED_UP, 3, "runs");
				check_sort(whole(bits, output, facts, rids), hidden_runs(20000, bits, LEAD_RUN + 1, 60),
						   SORTED_AGAIN, 3 + bits / 8, "runs too long");
				check_sort(Case{bits, 5, bits - 3, output, facts, rids},
						   hidden_runs(20000, bits - 8, LEAD_RUN + 1, 60), SORTED_AGAIN, 3 + bits / 8 - 1,
						   "runs too long, an odd number of digits");
			}
	for (int bits : {32, 64, 128})
	{
		check_sort(whole(bits), hidden_value(20000, bits, 16, false), FIXED_UP, 2, "16 values");
		check_sort(whole(bits), hidden_value(20000, bits, 16, true), SORTED_AGAIN, 2 + bits / 8,
				   "16 values and a hidden one");
		check_sort(whole(bits), std::vector<Key>(20000, 77), ALL_DIGITS, 1, "one value");
	}

	/* runs of each length are fixed up, also across the blocks' parts */
	for (uint32_t length : {2u, 31u, 32u, 33u, (uint32_t) LEAD_RUN - 1, (uint32_t) LEAD_RUN})
		for (int bits : {64, 128})
			check_sort(whole(bits), hidden_runs(19999, bits, length, 15000 / length), FIXED_UP, 3, "runs");
	check_sort(whole(64), hidden_runs(20000, 64, LEAD_RUN + 1, 1), SORTED_AGAIN, 11, "one run too long");
	check_sort(whole(64), hidden_runs(20000, 64, 9000, 1), SORTED_AGAIN, 11, "one run, much too long");

	/* no number of leading bits suffices */
	{
		std::vector<Key> values = uniform_values(20000, 64);

		for (Key &v : values)
			v >>= rng() % 64;
		check_sort(whole(64), values, ALL_DIGITS, 8, "clustered");
		for (Key &v : values)
			v = rng() & rng() & rng() & rng() & rng() & rng();
		check_sort(whole(64), values, ALL_DIGITS, 8, "mostly zeros");

		/* ascending upper bits, then equal ones; the lower bits descend */
		for (size_t i = 0; i < values.size(); i++)
			values[i] = (Key) i << 49 | (rng() & 1);
		check_sort(whole(64), values, ANY, 0, "ascending");
		for (size_t i = 0; i < values.size(); i++)
			values[i] = (Key) (i / 100) << 44 | (99 - i % 100);
		check_sort(whole(64), values, ANY, 0, "runs that descend");
	}

	/* a frequent value is a long run that is in order */
	{
		std::vector<Key> values = uniform_values(20000, 64);

		for (Key &v : values)
			v = rng() % 10 < 7 ? 12345678901234567u : v;
		check_sort(whole(64), values, FIXED_UP, 0, "one value, mostly");
	}
}

/*
 * A sort that is repeated by all digits: each of its calls fails once, and it
 * is stopped at each launch.
 */
static void
check_interrupted()
{
	GpusortError err = {};
	GpusortResult result;
	uint64_t	calls = emulation.calls,
				launches = emulation.launches;
	int32_t		stop = 0;

	rng.seed(2);

	Problem		problem(Case{64, 5, 61, keys_and_rids, 0, true}, hidden_runs(9000, 56, LEAD_RUN + 1, 20));

	calls = emulation.calls;
	expect(problem.run(&result, &err) == GPUSORT_OK && problem.is_right() &&
		   result.launches - result.passes == SORTED_AGAIN, "interrupted", "is wrong");
	calls = emulation.calls - calls;
	launches = emulation.launches - launches;
	for (uint64_t k = 1; k <= calls; k++)
	{
		emulation.fail_in = (int) k;
		emulation.fail_with = cudaErrorIllegalAddress;
		expect(problem.run(NULL, &err) == GPUSORT_CUDA_ERROR && err.message[0] != '\0',
			   "interrupted", "does not report the error");
		emulation.fail_in = 0;
		expect(cudaGetLastError() == cudaSuccess, "interrupted", "leaves an error");
	}
	problem.problem.cancel = &stop;
	for (uint64_t k = 1; k < launches; k++)
	{
		emulation.stop = &stop;
		emulation.stop_at = emulation.launches + k;
		expect(problem.run(NULL, &err) == GPUSORT_STOPPED, "interrupted",
			   "does not stop between launches");
		emulation.stop = NULL;
		stop = 0;
	}
	expect(problem.run(NULL, &err) == GPUSORT_OK && problem.is_right(), "interrupted",
		   "is wrong afterwards");
}

/* Random keys and sizes: checks the order only. */
static void
check_random(int problems)
{
	for (int i = 0; i < problems; i++)
	{
		int			key_bits = 32 << rng() % 3;
		int			begin = rng() % 2 ? 0 : (int) (rng() % (key_bits / 2));
		int			end = rng() % 2 ? key_bits : key_bits - (int) (rng() % (key_bits / 2));
		int			bits = end - begin;
		size_t		n = 2 * LEAD_SAMPLES + rng() % 9000;
		std::vector<Key> values;

		switch (rng() % 5)
		{
			case 0:
				values = uniform_values(n, bits);
				break;
			case 1:
				values = hidden_runs(n, bits, 1 + (uint32_t) (rng() % 20), 1 + (uint32_t) (rng() % 900));
				break;
			case 2:
				values = hidden_runs(n, bits, 1 + (uint32_t) (rng() % 300), 1 + (uint32_t) (rng() % 30));
				break;
			case 3:
				values = hidden_value(n, bits, 1 + (int) (rng() % 300), rng() % 2);
				break;
			default:
				values = uniform_values(n, bits);
				for (Key &v : values)
					v &= random_key() | (rng() % 3 ? 0xfff : 0);
				break;
		}
		check_sort(Case{key_bits, begin, end, 1 + (uint32_t) (rng() % 3),
				   rng() % 2 ? (uint32_t) GPUSORT_MAY_CLOBBER_INPUT : 0, rng() % 2 != 0}, values, ANY, 0,
				   "random");
	}
}

int
main(int argc, char **argv)
{
	uint64_t	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : std::random_device()();

	printf("# seed %llu\n", (unsigned long long) seed);
	open_library();
	while (strcmp(api->algorithm(radix_algorithm)->name, "gpu_radix") != 0)
		radix_algorithm++;
	end_context("the first context");
	begin_context(90, 6);
	check_routes();
	check_interrupted();
	rng.seed(seed);
	check_random(argc > 2 ? atoi(argv[2]) : 40);
	end_context("leading digits");
	begin_context(90, 132);
	return close_library("gpu leading digits");
}
