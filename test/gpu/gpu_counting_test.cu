/*
 * gpu_counting_test.cu
 *	  The GPU sorts that index by a known range of keys, and the merge sort around
 *	  its own tile boundaries, against a stable sort on the host.
 *
 * usage: gpu_counting_test [quick | tiny]
 *
 * All arrays of a problem lie in one block of device memory with gaps between
 * them.  Outputs and scratch are poisoned; after the sort the gaps and the
 * inputs must be unchanged.  "quick" is small enough for compute-sanitizer's
 * memcheck, "tiny" for its racecheck.
 */
#include <algorithm>
#include <random>
#include <vector>

#include "bench/cpu/distributions.h"
#include "gpu_test.cuh"

#define GAP			1024
#define SENTINEL	0x5a
#define POISON		0xa5

typedef unsigned __int128 Key;

/* One input: keys of bits [begin_bit, end_bit) in [least, least + range). */
struct Input
{
	const char *distribution;
	int			key_bits;
	int			begin_bit;
	int			end_bit;
	uint64_t	least;
	uint64_t	range;			/* 0: whole width, range not reported */
	bool		distinct;
	std::vector<Key> values;
	std::vector<unsigned char> packed;
	std::vector<uint32_t> order;
};

static void
emit_value(void *arg, size_t i, DistKey key)
{
	(*static_cast<std::vector<Key> *>(arg))[i] = ((Key) key.hi << 64) | key.lo;
}

static Key
low_bits(int bits)
{
	return bits == 0 ? 0 : ~(Key) 0 >> (128 - bits);
}

static void
make_input(Input &input, size_t n)
{
	int			bits = input.end_bit - input.begin_bit;
	uint32_t	noise = 12345;
	std::mt19937 random(7);

	input.values.resize(n);
	if (input.distinct)
	{
		for (size_t i = 0; i < n; i++)
			input.values[i] = (Key) i * input.range / n;
		if (strcmp(input.distribution, "uniform") == 0)
			std::shuffle(input.values.begin(), input.values.end(), random);
	}
	else if (distribution_generate(input.distribution, input.range ? 32 : bits, n, n,
								   emit_value, &input.values) != 0)
	{
		printf("not ok: no distribution %s\n", input.distribution);
		exit(1);
	}
	else if (input.range)
		for (Key &v : input.values)
			v = v * input.range >> 32;

	input.packed.resize(n * (input.key_bits / 8));
	for (size_t i = 0; i < n; i++)
	{
		Key			other = 0;
		Key			key;

		input.values[i] += input.least;
		for (int j = 0; j < 4; j++)
			other = other << 32 | (noise = noise * 1664525 + 1013904223);
		key = (other & ~(low_bits(bits) << input.begin_bit)) |
			(input.values[i] << input.begin_bit);
		memcpy(&input.packed[i * (input.key_bits / 8)], &key, input.key_bits / 8);
	}
	input.order.resize(n);
	for (size_t i = 0; i < n; i++)
		input.order[i] = (uint32_t) i;
	std::stable_sort(input.order.begin(), input.order.end(), [&] (uint32_t a, uint32_t b)
					 {
						 return input.values[a] < input.values[b];
					 });
}

static int
algorithm_by_name(const char *name)
{
	for (int a = 0; api->algorithm(a); a++)
		if (strcmp(api->algorithm(a)->name, name) == 0)
			return a;
	printf("not ok: no algorithm %s\n", name);
	exit(1);
}

/*
 * Runs one problem; returns false if the algorithm refuses it.  With false
 * facts the outputs are not checked.
 */
static bool
check_sort(const char *name, const Input &input, uint32_t output, bool given_rids,
		   bool clobber, bool false_facts = false)
{
	enum
	{
		KEYS, RIDS, KEYS_OUT, RIDS_OUT, SCRATCH, ARRAYS
	};

	int			algorithm = algorithm_by_name(name);
	size_t		n = input.values.size();
	size_t		width = input.key_bits / 8;
	uint64_t	sizes[ARRAYS] = {n * width, n * 4, n * width, n * 4, 0};
	uint64_t	offset[ARRAYS];
	uint64_t	end = GAP;
	std::vector<unsigned char> contents,
				expected;
	GpusortProblem problem = {};
	GpusortResult result;
	GpusortError err = {};
	GpusortStatus status;
	const char *why;
	char		what[200];
	void	   *memory;

	snprintf(what, sizeof(what), "%s u%d [%d, %d) n=%zu range=%llu %s output=%u rids=%d%s",
			 name, input.key_bits, input.begin_bit, input.end_bit, n,
			 (unsigned long long) input.range, input.distribution, output,
			 (int) given_rids, clobber ? " clobber" : "");
	problem.n = n;
	problem.key_width = input.key_bits;
	problem.begin_bit = input.begin_bit;
	problem.end_bit = input.end_bit;
	problem.output = output;
	if (input.range)
	{
		problem.facts |= GPUSORT_FACT_KEY_RANGE;
		problem.key_min.lo = input.least;
		problem.key_max.lo = input.least + input.range - 1;
	}
	if (input.distinct)
		problem.facts |= GPUSORT_FACT_DISTINCT_KEYS;
	if (clobber)
		problem.facts |= GPUSORT_MAY_CLOBBER_INPUT;
	status = api->sort_scratch(ctx, algorithm, &problem, &sizes[SCRATCH], &why, &err);
	if (status == GPUSORT_UNSUPPORTED)
		return false;
	if (status != GPUSORT_OK)
	{
		fail(what, err.message);
		return false;
	}
	checks++;
	for (int i = 0; i < ARRAYS; i++)
	{
		offset[i] = end;
		end = (end + sizes[i] + GAP + 255) / 256 * 256;
	}
	contents.assign(end, SENTINEL);
	for (int i = KEYS_OUT; i < ARRAYS; i++)
		memset(contents.data() + offset[i], POISON, sizes[i]);
	memcpy(contents.data() + offset[KEYS], input.packed.data(), n * width);
	for (size_t i = 0; i < n; i++)
	{
		uint32_t	rid = (uint32_t) (i * 2654435761u);

		memcpy(contents.data() + offset[RIDS] + i * 4, &rid, 4);
	}
	expected = contents;
	MUST(api->device_alloc(ctx, end, &memory, &must_err));
	MUST(api->copy_in(stream, memory, contents.data(), end, &must_err));
	problem.keys = (char *) memory + offset[KEYS];
	problem.rids = given_rids ? (uint32_t *) ((char *) memory + offset[RIDS]) : NULL;
	problem.keys_out = (char *) memory + offset[KEYS_OUT];
	problem.rids_out = (uint32_t *) ((char *) memory + offset[RIDS_OUT]);
	problem.scratch = (char *) memory + offset[SCRATCH];
	problem.scratch_bytes = sizes[SCRATCH];
	if (api->sort_run(stream, algorithm, &problem, &result, &err) != GPUSORT_OK ||
		api->stream_wait(stream, &err) != GPUSORT_OK)
	{
		fail(what, err.message);
		exit(1);
	}
	MUST(api->copy_out(stream, contents.data(), memory, end, &must_err));
	MUST(api->stream_wait(stream, &must_err));
	api->device_free(ctx, memory);

	/* the memory as it should be: with the outputs, and unchanged elsewhere */
	for (size_t i = 0; i < n; i++)
	{
		uint32_t	from = input.order[i];

		if (output & GPUSORT_OUT_KEYS)
			memcpy(expected.data() + offset[KEYS_OUT] + i * width, &input.packed[from * width],
				   width);
		if (output & GPUSORT_OUT_RIDS)
		{
			uint32_t	rid = given_rids ? (uint32_t) (from * 2654435761u) : from;

			memcpy(expected.data() + offset[RIDS_OUT] + i * 4, &rid, 4);
		}
	}
	memcpy(expected.data() + offset[SCRATCH], contents.data() + offset[SCRATCH], sizes[SCRATCH]);
	if (clobber)
		memcpy(expected.data() + offset[KEYS], contents.data() + offset[KEYS], sizes[KEYS]);
	for (int i = KEYS_OUT; i <= RIDS_OUT && false_facts; i++)
		memcpy(expected.data() + offset[i], contents.data() + offset[i], sizes[i]);
	if (contents != expected)
	{
		uint64_t	at = std::mismatch(contents.begin(), contents.end(), expected.begin()).first -
			contents.begin();
		static const char *const array[] = {"keys", "rids", "keys_out", "rids_out", "scratch"};
		char		detail[100];
		int			i = 0;

		while (i + 1 < ARRAYS && at >= offset[i + 1])
			i++;
		snprintf(detail, sizeof(detail), "byte %lld of %s (%llu long) is wrong",
				 (long long) (at - offset[i]), array[i], (unsigned long long) sizes[i]);
		fail(what, detail);
	}
	return true;
}

/* Sorts with all kinds of output; returns the number that the algorithm accepted. */
static int
check_outputs(const char *name, const Input &input, bool all_kinds)
{
	int			accepted = 0;

	accepted += check_sort(name, input, GPUSORT_OUT_KEYS, false, false);
	accepted += check_sort(name, input, GPUSORT_OUT_RIDS, false, false);
	if (all_kinds)
	{
		accepted += check_sort(name, input, GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, false, false);
		accepted += check_sort(name, input, GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, true, false);
		accepted += check_sort(name, input, GPUSORT_OUT_RIDS, true, true);
	}
	return accepted;
}

/* One input for all kernels that count or merge. */
static void
check_tiny(void)
{
	static const char *const by_value[] = {"gpu_counting", "gpu_hp", "gpu_hp0", "gpu_onehot",
	NULL};
	static const uint64_t ranges[] = {100, 60001, 700001};
	static const size_t sizes[] = {300, 20001, 1 << 21};

	for (int i = 0; i < 3; i++)
	{
		Input		input = {};

		input.distribution = "repeated70";
		input.key_bits = 32;
		input.end_bit = 32;
		input.least = 3;
		input.range = ranges[i];
		make_input(input, sizes[i]);
		for (int a = 0; by_value[a]; a++)
			check_sort(by_value[a], input, GPUSORT_OUT_KEYS, false, false);
		if (i < 2)
			check_sort("gpu_counting", input, GPUSORT_OUT_RIDS, true, false);
	}
	for (const char *distribution : {"uniform", "nearly_sorted"})
	{
		Input		input = {};

		input.distribution = distribution;
		input.key_bits = 64;
		input.end_bit = 64;
		make_input(input, 30001);
		check_sort("gpu_merge", input, GPUSORT_OUT_RIDS, false, false);
	}
	{
		Input		input = {};

		input.distribution = "uniform";
		input.key_bits = 32;
		input.end_bit = 32;
		input.range = 40000;
		input.distinct = true;
		make_input(input, 20000);
		check_sort("gpu_hp1", input, GPUSORT_OUT_KEYS, false, false);
	}
}

/* Sorts of keys in this range; every algorithm but gpu_onehot must accept some of them. */
static void
check_range(const char *const *names, int key_bits, size_t n, uint64_t least,
			uint64_t range, bool quick)
{
	static const char *const distributions[] = {
		"uniform", "repeated100", "repeated70", "sorted", "zipf", "fewvalues", "gaussian",
		"reversed", "nearly_sorted", "entropy3", NULL
	};

	for (int d = 0; distributions[d]; d++)
	{
		Input		input = {};

		if ((quick && d > 3) || (n > 300000 && d > 4))
			continue;
		input.distribution = distributions[d];
		input.key_bits = key_bits;
		input.end_bit = key_bits;
		input.least = least;
		input.range = range;
		make_input(input, n);
		for (int a = 0; names[a]; a++)
			if (check_outputs(names[a], input, d < 2 && n < 300000) == 0 && n > 1 &&
				strcmp(names[a], "gpu_onehot") != 0 && key_bits < 128)
				fail(names[a], "accepts no sort of a range that it must accept");
	}
}

/* Keys with bits outside [begin_bit, end_bit), which do not order. */
static void
check_part_of_key(const char *const *names, int key_bits, int begin_bit, int end_bit,
				  size_t n, uint64_t range)
{
	Input		input = {};

	input.distribution = "uniform";
	input.key_bits = key_bits;
	input.begin_bit = begin_bit;
	input.end_bit = end_bit;
	input.least = 3;
	input.range = range;
	make_input(input, n);
	for (int a = 0; names[a]; a++)
		check_outputs(names[a], input, true);
}

static void
check_distinct(int key_bits, size_t n, uint64_t range, const char *distribution)
{
	Input		input = {};

	input.distribution = distribution;
	input.key_bits = key_bits;
	input.end_bit = key_bits;
	input.least = 1000;
	input.range = range;
	input.distinct = true;
	make_input(input, n);
	if (!check_sort("gpu_hp1", input, GPUSORT_OUT_KEYS, false, false))
		fail("gpu_hp1", "accepts no distinct keys");
}

static void
check_merge(int key_bits, size_t n, const char *distribution, bool all_kinds)
{
	Input		input = {};

	input.distribution = distribution;
	input.key_bits = key_bits;
	input.end_bit = key_bits;
	make_input(input, n);
	if (check_outputs("gpu_merge", input, all_kinds) == 0)
		fail("gpu_merge", "accepts no sort");
}

/* Keys outside the reported range may make the result wrong, but nothing else. */
static void
check_false_range(const char *name, size_t n, uint64_t range)
{
	Input		input = {};

	input.distribution = "uniform";
	input.key_bits = 32;
	input.end_bit = 32;
	make_input(input, n);
	input.range = range;
	input.least = 5;
	input.distinct = true;
	if (!check_sort(name, input, GPUSORT_OUT_KEYS, false, false, true))
		fail(name, "accepts no keys without rids");
	check_sort(name, input, GPUSORT_OUT_RIDS, false, false, true);
}

int
main(int argc, char **argv)
{
	static const char *const by_value[] = {"gpu_counting", "gpu_hp", "gpu_hp0", NULL};
	static const char *const small[] = {"gpu_onehot", "gpu_counting", NULL};
	static const size_t sizes[] = {
		2, 31, 33, 255, 4095, 4096, 4097, 8191, 8192, 8193, 16385, 65537, 131072, 262147
	};
	static const uint64_t ranges[] = {1, 2, 255, 256, 257, 1000, 4096, 65535, 65536};
	static const size_t tiles[] = {
		15, 16, 511, 512, 513, 1025, 16385, 32768, 32769, 65536, 65537, 70001, 122881, 262144, 262145,
		500009, 524288, 524289, 1500001
	};
	bool		tiny = argc > 1 && strcmp(argv[1], "tiny") == 0;
	bool		quick = tiny || (argc > 1 && strcmp(argv[1], "quick") == 0);

	open_library();
	check_tiny();
	for (int width = 32; width <= 128 && !tiny; width *= 2)
	{
		/* each method of counting: one window, several, pages, direct */
		for (size_t n : sizes)
			for (uint64_t range : ranges)
				if (quick ? (n == 8193 || n == 33) && (range == 257 || range == 65536)
					: range % 2 || n % 2 || width == 32)
					check_range(by_value, width, n, width == 32 ? 77 : 1ull << 40, range,
								quick);
		if (quick)
			check_range(by_value, width, 20000, 0, 300000, true);
		else
		{
			check_range(by_value, width, 262147, 5, 16 * 262147, false);
			check_range(by_value, width, 200000, 5, 120000, false);
			check_range(by_value, width, 1500001, 1, 70000, false);
			check_range(by_value, width, 1500001, 0, 240000, false);
		}
		for (size_t n : sizes)
			for (uint64_t range : ranges)
				if (n <= 4096 && range * (n / 32 + 2) <= 32768 && (!quick || n == 33))
					check_range(small, width, n, 9, range, quick);

		/* rids: one to four passes */
		check_part_of_key(by_value, width, 5, 12, 9001, 100);
		check_part_of_key(by_value, width, 3, 21, 20001, 60000);
		if (!quick)
		{
			check_part_of_key(by_value, width, 4, 30, 100001, 1500000);
			check_part_of_key(by_value, width, 1, 31, 1600001, 1 << 24 | 1);
		}
		if (width < 128)
		{
			check_distinct(width, 1000, 1000, "uniform");
			check_distinct(width, 30001, 30001, "sorted");
			check_distinct(width, 30001, 100003, "uniform");
			check_distinct(width, 65536, 16 * 65536, "uniform");
		}
		for (size_t n : tiles)
		{
			static const char *const distributions[] = {
				"uniform", "repeated100", "sorted", "nearly_sorted", "reversed", "zipf",
				"tail", "tworuns", NULL
			};

			for (int d = 0; distributions[d]; d++)
				if (quick ? (n == 513 || n == 16385 || n == 32769 || (n == 70001 && d % 2 == 0)) && d < 6 : true)
					check_merge(width, n, distributions[d], n < 20000 || d == 0);
		}
	}
	/* pages: above 2^21 keys and 6 windows; a bucket's last page full or not */
	if (!quick)
	{
		check_range(by_value, 32, (1 << 21) + 5, 3, 700001, false);
		check_range(by_value, 64, (1 << 21), 1ull << 33, 1000000, false);
		check_range(by_value, 32, 5000011, 0, 1 << 21, false);
	}
	check_false_range("gpu_counting", 10000, 1000);
	check_false_range("gpu_counting", 10000, 70000);
	check_false_range("gpu_onehot", 500, 100);
	check_false_range("gpu_hp", 10000, 1000);
	check_false_range("gpu_hp1", 10000, 10000);
	check_false_range("gpu_hp0", 10000, 1000);
	return close_library("gpu counting and merging");
}
