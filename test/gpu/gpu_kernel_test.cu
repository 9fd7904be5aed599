/*
 * gpu_kernel_test.cu
 *	  Every algorithm of the GPU library, through its ABI, against a stable sort
 *	  on the host.
 *
 * usage: gpu_kernel_test [all | quick | race [ALGORITHM]]
 *
 * Sizes lie around every boundary of the kernels: one block, one large block, the
 * tiles of the moves, one level of buckets and two.  Outputs and scratch are
 * poisoned and have sentinels on both sides.  "quick" is small enough for
 * compute-sanitizer's memcheck, "race" for its racecheck.
 */
#include <algorithm>
#include <vector>

#include "bench/cpu/distributions.h"
#include "gpu_test.cuh"

#define SENTINEL_BYTES	1024
#define SENTINEL		0x5a
#define POISON			0xa5

/* Keys from which on leading digits are tried; fewer in builds for tests. */
#ifdef LEAD_MIN_SIZE
#define LEAD_QUICK		17409
#else
#define LEAD_QUICK		(1 << 20)
#endif

typedef unsigned __int128 Key;

static const char *only;		/* the one algorithm to test; NULL: all */

/* Device memory with sentinels on both sides. */
struct Guarded
{
	unsigned char *base;
	uint64_t	bytes;

	void *data() const
	{
		return base + SENTINEL_BYTES;
	}
};

static Guarded
guarded(uint64_t bytes, int fill)
{
	Guarded		g;
	std::vector<unsigned char> host(bytes + 2 * SENTINEL_BYTES, SENTINEL);
	void	   *p;

	memset(host.data() + SENTINEL_BYTES, fill, bytes);
	MUST(api->device_alloc(ctx, host.size(), &p, &must_err));
	MUST(api->copy_in(stream, p, host.data(), host.size(), &must_err));
	MUST(api->stream_wait(stream, &must_err));
	g.base = static_cast<unsigned char *>(p);
	g.bytes = bytes;
	return g;
}

/* Reads the data back; true if both sentinels are unchanged. */
static bool
read_guarded(const Guarded &g, std::vector<unsigned char> &data)
{
	bool		whole = true;

	data.resize(g.bytes + 2 * SENTINEL_BYTES);
	MUST(api->copy_out(stream, data.data(), g.base, data.size(), &must_err));
	MUST(api->stream_wait(stream, &must_err));
	for (int i = 0; i < SENTINEL_BYTES; i++)
		whole = whole && data[i] == SENTINEL &&
			data[SENTINEL_BYTES + g.bytes + i] == SENTINEL;
	data.erase(data.begin(), data.begin() + SENTINEL_BYTES);
	data.resize(g.bytes);
	return whole;
}

static void
drop(Guarded &g)
{
	api->device_free(ctx, g.base);
}

/* One input and the expected result of its sorts. */
struct Input
{
	const char *distribution;
	int			key_bits;
	int			begin_bit;
	int			end_bit;
	std::vector<Key> keys;
	std::vector<uint32_t> order;	/* positions, sorted stably */
};

static void
emit_key(void *arg, size_t i, DistKey key)
{
	(*static_cast<std::vector<Key> *>(arg))[i] = ((Key) key.hi << 64) | key.lo;
}

static Key
ordering_bits(const Input &input, Key key)
{
	return (key >> input.begin_bit) &
		(~(Key) 0 >> (128 - (input.end_bit - input.begin_bit)));
}

static void
find_order(Input &input)
{
	input.order.resize(input.keys.size());
	for (size_t i = 0; i < input.keys.size(); i++)
		input.order[i] = (uint32_t) i;
	std::stable_sort(input.order.begin(), input.order.end(),
					 [&] (uint32_t a, uint32_t b)
					 {
						 return ordering_bits(input, input.keys[a]) <
							 ordering_bits(input, input.keys[b]);
					 });
}

static void
make_input(Input &input, size_t n)
{
	uint32_t	noise = 12345;

	input.keys.resize(n);
	if (distribution_generate(input.distribution, input.end_bit - input.begin_bit, n,
							  n, emit_key, &input.keys) != 0)
	{
		printf("not ok: no distribution %s\n", input.distribution);
		exit(1);
	}

	/* random bits outside [begin_bit, end_bit) */
	for (Key &key : input.keys)
	{
		Key			other = 0;

		for (int i = 0; i < 4; i++)
			other = other << 32 | (noise = noise * 1664525 + 1013904223);
		if (input.end_bit - input.begin_bit < input.key_bits)
		{
			Key			mask = (~(Key) 0 >> (128 - (input.end_bit - input.begin_bit)))
				<< input.begin_bit;

			key = (key << input.begin_bit) | (other & ~mask);
		}
		if (input.key_bits < 128)
			key &= (~(Key) 0 >> (128 - input.key_bits));
	}
	find_order(input);
}

static void
pack_keys(const Input &input, std::vector<unsigned char> &packed)
{
	size_t		width = input.key_bits / 8;

	packed.resize(input.keys.size() * width);
	for (size_t i = 0; i < input.keys.size(); i++)
		memcpy(&packed[i * width], &input.keys[i], width);	/* little-endian */
}

enum Rids
{
	RIDS_POSITIONS, RIDS_ASCENDING, RIDS_ANY
};

/*
 * Runs one problem; checks its outputs, and that it wrote nowhere else.
 * Returns the number of its passes.
 */
static int
check_sort(int algorithm, const Input &input, uint32_t output, Rids rids, bool clobber)
{
	const GpusortAlgorithm *info = api->algorithm(algorithm);
	size_t		n = input.keys.size();
	size_t		width = input.key_bits / 8;
	std::vector<unsigned char> packed,
				got;
	std::vector<uint32_t> returned(n);
	GpusortProblem problem = {};
	GpusortResult result = {};
	GpusortError err = {};
	Guarded		keys,
				rid_array,
				keys_out,
				rids_out,
				scratch;
	uint64_t	scratch_bytes;
	const char *why;
	char		what[200];
	bool		same = true;

	snprintf(what, sizeof(what), "%s u%d [%d, %d) n=%zu %s output=%u rids=%d clobber=%d",
			 info->name, input.key_bits, input.begin_bit, input.end_bit, n,
			 input.distribution, output, (int) rids, (int) clobber);
	problem.n = n;
	problem.key_width = input.key_bits;
	problem.begin_bit = input.begin_bit;
	problem.end_bit = input.end_bit;
	problem.output = output;
	if (rids == RIDS_ASCENDING)
		problem.facts |= GPUSORT_FACT_RIDS_ASCENDING;
	if (clobber)
		problem.facts |= GPUSORT_MAY_CLOBBER_INPUT;
	switch (api->sort_scratch(ctx, algorithm, &problem, &scratch_bytes, &why, &err))
	{
		case GPUSORT_OK:
			break;
		case GPUSORT_UNSUPPORTED:
			return 0;
		default:
			fail(what, err.message);
			return 0;
	}
	checks++;

	pack_keys(input, packed);
	for (size_t i = 0; i < n; i++)
		returned[i] = rids == RIDS_ASCENDING ? (uint32_t) (3 * i + 7)
			: (uint32_t) (i * 2654435761u);
	keys = guarded(n * width, POISON);
	rid_array = guarded(n * 4, POISON);
	keys_out = guarded(n * width, POISON);
	rids_out = guarded(n * 4, POISON);
	scratch = guarded(scratch_bytes, POISON);
	MUST(api->copy_in(stream, keys.data(), packed.data(), packed.size(), &must_err));
	MUST(api->copy_in(stream, rid_array.data(), returned.data(), n * 4, &must_err));
	problem.keys = keys.data();
	problem.rids = rids == RIDS_POSITIONS ? NULL : (const uint32_t *) rid_array.data();
	problem.keys_out = output & GPUSORT_OUT_KEYS ? keys_out.data() : NULL;
	problem.rids_out = output & GPUSORT_OUT_RIDS ? (uint32_t *) rids_out.data() : NULL;
	problem.scratch = scratch.data();
	problem.scratch_bytes = scratch_bytes;
	if (api->sort_run(stream, algorithm, &problem, &result, &err) != GPUSORT_OK ||
		api->stream_wait(stream, &err) != GPUSORT_OK)
	{
		fail(what, err.message);
		if (gpusort_is_broken((GpusortStatus) err.status))
			exit(1);
	}
	else
	{
		if (!read_guarded(keys_out, got))
			fail(what, "wrote outside keys_out");
		for (size_t i = 0; i < n && same && (output & GPUSORT_OUT_KEYS); i++)
			same = memcmp(&got[i * width], &packed[input.order[i] * width], width) == 0;
		if (!same)
			fail(what, "keys are wrong");
		same = true;
		if (!read_guarded(rids_out, got))
			fail(what, "wrote outside rids_out");
		for (size_t i = 0; i < n && same && (output & GPUSORT_OUT_RIDS); i++)
		{
			uint32_t	rid;

			memcpy(&rid, &got[i * 4], 4);
			same = rid == (rids == RIDS_POSITIONS ? input.order[i]
						   : returned[input.order[i]]);
		}
		if (!same)
			fail(what, "rids are wrong");
		if (!read_guarded(scratch, got))
			fail(what, "wrote outside scratch");
		if (!read_guarded(keys, got))
			fail(what, "wrote outside keys");
		if (!clobber && got != packed)
			fail(what, "wrote into its input");
		if (!read_guarded(rid_array, got))
			fail(what, "wrote outside rids");
	}
	drop(keys);
	drop(rid_array);
	drop(keys_out);
	drop(rids_out);
	drop(scratch);
	return result.passes;
}

/* Every kind of problem on one input, for each algorithm that accepts it. */
static void
check_input(const Input &input, bool all_kinds)
{
	for (int a = 0; api->algorithm(a); a++)
	{
		if (!api->algorithm(a)->stable ||	/* gpu_counting_test.cu has these */
			(only && strcmp(only, api->algorithm(a)->name) != 0))
			continue;
		/* as the device process sorts: positions, input is overwritten */
		check_sort(a, input, GPUSORT_OUT_RIDS, RIDS_POSITIONS, true);
		if (!all_kinds)
			continue;
		check_sort(a, input, GPUSORT_OUT_RIDS, RIDS_POSITIONS, false);
		check_sort(a, input, GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, RIDS_POSITIONS, true);
		check_sort(a, input, GPUSORT_OUT_KEYS, RIDS_POSITIONS, false);
		check_sort(a, input, GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS, RIDS_ANY, false);
		check_sort(a, input, GPUSORT_OUT_RIDS, RIDS_ASCENDING, true);
	}
}

/*
 * gpu_radix by leading digits: uniform keys take a few passes and a fix-up
 * pass.  A frequent value with a rare neighbour, which the sample misses, is
 * sorted again by all digits.
 */
static void
check_leading_digits(size_t n)
{
	int			radix = 0;

	while (strcmp(api->algorithm(radix)->name, "gpu_radix") != 0)
		radix++;
	if (only && strcmp(only, "gpu_radix") != 0)
		return;
	for (int key_bits : {64, 128})
		for (uint32_t output = 1; output <= 3; output++)
		{
			Input		input = {"uniform", key_bits, 0, key_bits, {}, {}};
			int			digits = key_bits / 8;

			make_input(input, n);
			checks += 2;
			if (check_sort(radix, input, output, RIDS_ANY, false) >= digits)
				fail("gpu_radix", "sorts uniform keys by all digits");
			for (size_t i = 0; i < n; i++)
				if (i % 10 < 7)
					input.keys[i] = (Key) 5 << (key_bits - 3) | (i > n / 2 && i < n / 2 + 8 ? 0 : 1);
			input.distribution = "frequent and a rare neighbour";
			find_order(input);
			if (check_sort(radix, input, output, RIDS_ANY, output == 1) <= digits)
				fail("gpu_radix", "does not sort again by all digits");
		}
}

/* Invalid calls are refused with an error. */
static void
check_refusals(void)
{
	for (int a = 0; api->algorithm(a); a++)
	{
		GpusortProblem problem = {};
		GpusortError err = {};
		uint64_t	bytes;
		const char *why;
		int32_t		cancel = 1;
		void	   *p;

		checks += 4;
		problem.n = 100000;
		problem.key_width = 32;
		problem.begin_bit = 8;
		problem.end_bit = 8;
		problem.output = GPUSORT_OUT_KEYS;
		if (api->sort_scratch(ctx, a, &problem, &bytes, &why, &err) != GPUSORT_BAD_CALL)
			fail(api->algorithm(a)->name, "accepts an empty bit range");
		problem.begin_bit = 0;
		problem.end_bit = 16;
		problem.output = 0;
		if (api->sort_scratch(ctx, a, &problem, &bytes, &why, &err) != GPUSORT_BAD_CALL)
			fail(api->algorithm(a)->name, "accepts a problem without output");
		problem.output = GPUSORT_OUT_RIDS;
		if (api->sort_scratch(ctx, a, &problem, &bytes, &why, &err) != GPUSORT_OK)
			continue;
		MUST(api->device_alloc(ctx, problem.n * 12 + bytes + 4096, &p, &must_err));
		problem.keys = p;
		problem.rids_out = (uint32_t *) ((char *) p + 400128);
		problem.scratch = (char *) p + 800256;
		problem.scratch_bytes = bytes - 1;
		if (api->sort_run(stream, a, &problem, NULL, &err) != GPUSORT_BAD_CALL)
			fail(api->algorithm(a)->name, "accepts too little scratch");
		problem.scratch_bytes = bytes;
		problem.cancel = &cancel;
		if (api->sort_run(stream, a, &problem, NULL, &err) != GPUSORT_STOPPED)
			fail(api->algorithm(a)->name, "does not stop");
		MUST(api->stream_wait(stream, &must_err));
		api->device_free(ctx, p);
	}
}

static void
check_memory(void)
{
	GpusortContext *small;
	GpusortError err = {};
	GpusortMemory memory;
	void	   *a,
			   *b;

	checks += 3;
	MUST(api->context_create(0, 64 << 20, &small, &must_err));
	if (api->device_alloc(small, UINT64_C(65) << 20, &a, &err) != GPUSORT_NO_MEMORY)
		fail("device_alloc", "goes over its budget");
	MUST(api->device_alloc(small, 40 << 20, &a, &must_err));
	api->device_free(small, a);
	if (api->device_alloc(small, 60 << 20, &b, &err) != GPUSORT_OK)
		fail("device_alloc", "does not reuse freed memory");
	api->device_memory(small, 1, &memory);
	if (memory.budget != 64 << 20 || memory.used != 60 << 20 || memory.kept != 0)
		fail("device_memory", "is wrong");
	api->context_destroy(small);
}

int
main(int argc, char **argv)
{
	static const int bits[][3] = {
		{32, 0, 32}, {64, 0, 64}, {128, 0, 128},
		{32, 5, 21}, {32, 31, 32}, {32, 0, 24}, {64, 0, 40}, {64, 20, 64}, {128, 30, 110}
	};
	static const size_t sizes[] = {
		0, 1, 2, 3, 31, 32, 33, 511, 512, 513, 1000, 4095, 4096, 4097, 4607, 4608, 4609,
		6143, 6144, 6145, 8191, 8192, 8193, 12289, 17407, 17408, 17409, 40000, 131075
	};
	static const size_t large_sizes[] = {1000003, 3000001, 4100001};
	bool		race = argc > 1 && strcmp(argv[1], "race") == 0;
	bool		quick = race || (argc > 1 && strcmp(argv[1], "quick") == 0);

	only = argc > 2 ? argv[2] : NULL;
	open_library();
	if (gpusort_cuda_api(GPUSORT_ABI_VERSION + 1) != NULL)
		fail("gpusort_cuda_api", "accepts a later version of the interface");
	check_memory();
	check_refusals();
	if (!race)
		check_leading_digits(quick ? LEAD_QUICK : 1 << 21);
	for (const int *range : bits)
	{
		Input		input;

		input.key_bits = range[0];
		input.begin_bit = range[1];
		input.end_bit = range[2];
		for (int d = 0; distribution_names[d]; d++)
		{
			if (race && (d % 8 != 0 || range[1] != 0 || range[2] != range[0]))
				continue;
			input.distribution = distribution_names[d];
			for (size_t n : sizes)
			{
				bool		usual = d == 0 || n % 512 == 1 || n > 17409;
				/* gpu_random_test tests many ranges of bits, in less time */
				bool		in_part = range[2] - range[1] < range[0] && n > 4609;

				if (quick ? n > 20000 || (n != 33 && n != 4609 && n != 17409) || (race && n == 33) ||
					(d > (in_part ? 1 : 6) && !race) : !usual)
					continue;
				make_input(input, n);
				check_input(input, !quick || (d < 2 && !race && !in_part));
			}
			for (size_t n : large_sizes)
			{
				/*
				 * More tiles than run at once: a tile must not overwrite another's
				 * input.  An odd number of digits, and buckets of one pass.
				 */
				bool		odd_digits = input.begin_bit == 0 && d == 0;
				bool		one_pass = n == 3000001;

				/* every kind of problem, also with buckets by quantiles */
				bool		skewed = strcmp(input.distribution, "zipf") == 0 &&
					input.key_bits == 64;

				if (!quick && (one_pass ? d == 0 : n < 2000000 || d % 3 == 0 || skewed) &&
					(input.end_bit - input.begin_bit == input.key_bits || odd_digits))
				{
					make_input(input, n);
					check_input(input, d == 0 || skewed);
				}
			}
		}
	}
	return close_library("gpu kernels");
}
