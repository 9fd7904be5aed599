/*
 * gpu_random_test.cc
 *	  Tests every algorithm with random problems on emulated devices of four
 *	  architectures, against a stable sort.
 *
 * Arrays have exactly the required length, so that the address sanitizer
 * reports an access behind their ends.
 *
 * usage: gpu_random_test [problems [seed]]
 */
#include <algorithm>
#include <random>
#include <vector>

#include "emulation/emulated_test.h"

typedef unsigned __int128 Key;

static std::vector<Key>
random_keys(std::mt19937_64 &random, uint64_t n, int width)
{
	std::vector<Key> keys(n);
	Key			mask = ~(Key) 0 >> (128 - width);
	int			shape = (int) (random() % 8);
	int			narrow = (int) (random() % width);
	Key			one = ((Key) random() << 64 | random()) & mask;

	for (uint64_t i = 0; i < n; i++)
	{
		Key			v = ((Key) random() << 64 | random()) & mask;

		switch (shape)
		{
			case 0:				/* uniform */
				break;
			case 1:				/* few bits */
				v >>= narrow;
				break;
			case 2:				/* clustered near zero, at all scales */
				v >>= random() % width;
				break;
			case 3:				/* mostly one value */
				v = random() % 8 ? one : v;
				break;
			case 4:				/* a few values and their neighbours */
				v = (one * (v % 7) + (random() % 3)) & mask;
				break;
			case 5:				/* the ends of the range */
				v = v & 1 ? mask - (v >> 1) % 3 : (v >> 1) % 3;
				break;
			default:
				break;
		}
		keys[i] = v;
	}
	if (shape >= 6)
	{
		std::sort(keys.begin(), keys.end());
		if (random() % 3 == 0)
			std::reverse(keys.begin(), keys.end());
		for (uint64_t swaps = random() % 3 * n / 100; swaps > 0; swaps--)
		{
			uint64_t	at = random() % n;

			std::swap(keys[at], keys[std::min(n - 1, at + random() % 40)]);
		}
	}
	return keys;
}

static void
check_random(std::mt19937_64 &random)
{
	static const uint64_t most[] = {64, 700, 5000, 20000, 70000};
	int			key_bits = 32 << random() % 3;
	int			begin = random() % 2 ? 0 : (int) (random() % key_bits);
	int			end = random() % 2 ? key_bits : begin + 1 + (int) (random() % (key_bits - begin));
	uint64_t	n = random() % most[random() % 5];
	size_t		width = key_bits / 8;
	std::vector<Key> values = random_keys(random, n, end - begin);
	std::vector<uint32_t> order(n);
	GpusortProblem problem = {};
	Key			least = 0,
				greatest = 0;
	Exact		keys(n * width),
				rids(n * 4);

	for (uint64_t i = 0; i < n; i++)
	{
		Key			other = (Key) random() << 64 | random();
		Key			mask = ~(Key) 0 >> (128 - (end - begin)) << begin;
		Key			key = (values[i] << begin) | (other & ~mask);

		memcpy(keys.p.get() + i * width, &key, width);
		order[i] = (uint32_t) i;
		least = i == 0 || values[i] < least ? values[i] : least;
		greatest = std::max(greatest, values[i]);
	}
	std::stable_sort(order.begin(), order.end(), [&] (uint32_t a, uint32_t b)
					 {
						 return values[a] < values[b];
					 });
	problem.n = n;
	problem.key_width = key_bits;
	problem.begin_bit = begin;
	problem.end_bit = end;
	problem.output = 1 + (uint32_t) (random() % 3);
	problem.facts = random() % 2 ? GPUSORT_MAY_CLOBBER_INPUT : 0;
	if (random() % 2)
	{
		problem.facts |= GPUSORT_FACT_KEY_RANGE;
		problem.key_min = {(uint64_t) least, (uint64_t) (least >> 64)};
		problem.key_max = {(uint64_t) greatest, (uint64_t) (greatest >> 64)};
	}
	if (std::adjacent_find(order.begin(), order.end(), [&] (uint32_t a, uint32_t b)
						   {
							   return values[a] == values[b];
						   }) == order.end())
		problem.facts |= GPUSORT_FACT_DISTINCT_KEYS;
	if (random() % 2)
	{
		bool		ascending = random() % 2;

		problem.facts |= ascending ? GPUSORT_FACT_RIDS_ASCENDING : 0;
		for (uint64_t i = 0; i < n; i++)
		{
			uint32_t	rid = (uint32_t) (ascending ? UINT32_MAX - 1 - 5 * (n - 1 - i)
										  : i * 2654435761u);

			memcpy(rids.p.get() + 4 * i, &rid, 4);
		}
		problem.rids = (const uint32_t *) rids.p.get();
	}
	for (int a = 0; api->algorithm(a); a++)
	{
		Exact		input(n * width),
					keys_out(n * width),
					rids_out(n * 4);
		uint64_t	bytes;
		GpusortError err = {};
		char		what[160];
		bool		right;

		if (api->sort_scratch(ctx, a, &problem, &bytes, NULL, &err) != GPUSORT_OK)
			continue;

		Exact		scratch(bytes);

		memcpy(input.p.get(), keys.p.get(), n * width);
		problem.keys = input.p.get();
		problem.keys_out = keys_out.p.get();
		problem.rids_out = (uint32_t *) rids_out.p.get();
		problem.scratch = scratch.p.get();
		problem.scratch_bytes = bytes;
		right = api->sort_run(stream, a, &problem, NULL, &err) == GPUSORT_OK;
		for (uint64_t i = 0; i < n && right; i++)
		{
			uint32_t	from = order[i];

			/* keys_out has whole keys, in the order of the stable sort */
			if (problem.output & GPUSORT_OUT_KEYS)
				right = memcmp(keys_out.p.get() + i * width, keys.p.get() + from * width,
							   width) == 0;
			if (right && (problem.output & GPUSORT_OUT_RIDS))
				right = problem.rids_out[i] == (problem.rids ? problem.rids[from] : from);
		}
		if (right && !(problem.facts & GPUSORT_MAY_CLOBBER_INPUT))
			right = memcmp(input.p.get(), keys.p.get(), n * width) == 0;
		snprintf(what, sizeof(what), "random problem %llu, sm_%d: %s u%d [%d, %d) n=%llu facts=%x "
				 "output=%u", (unsigned long long) checks, emulation.arch,
				 api->algorithm(a)->name, key_bits, begin, end, (unsigned long long) n,
				 problem.facts, problem.output);
		expect(right, what, err.message[0] ? err.message : "is wrong");
	}
}

int
main(int argc, char **argv)
{
	static const int archs[] = {75, 80, 86, 90};
	int			problems = argc > 1 ? atoi(argv[1]) : 150;
	std::mt19937_64 random(argc > 2 ? strtoull(argv[2], NULL, 10) : 1);

	open_library();
	end_context("the first context");
	for (int i = 0; i < problems; i++)
	{
		begin_context(archs[random() % 4], 1 + (int) (random() % 40));
		check_random(random);
		end_context("random problems");
	}
	begin_context(90, 132);
	return close_library("gpu random problems");
}
