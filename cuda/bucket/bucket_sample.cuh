/*
 * bucket_sample.cuh
 *	  Samples the keys for gpu_bucket's first round and chooses the map to
 *	  buckets: slices of equal width, or quantiles.
 *
 * Slices are chosen if the sample is uniform over them: the sum of the squares
 * of the slices' counts is close to the least possible sum.  Otherwise the
 * sample is sorted and the quantile map is made from it (quantile_map.cuh).  The
 * kernel has one block.
 *
 * Memory: shared memory for the sample's codes and the spans.
 */
#ifndef GPUSORT_BUCKET_SAMPLE_CUH
#define GPUSORT_BUCKET_SAMPLE_CUH

#include "bucket/bucket_plan.cuh"
#include "merge/merge_block.cuh"

#define SAMPLE_THREADS		1024
#define SAMPLE_ITEMS		15	/* samples per thread; odd against bank
								 * conflicts */
#define FEW_SAMPLE_ITEMS	3	/* the same for up to MAX_FEW_SAMPLES keys */
#define MAX_FEW_SAMPLES		(1u << 21)

/*
 * Least number of samples, and about that of keys, for which a value gets a
 * span of its own.
 */
#define MIN_EQUAL_SAMPLES	6
#define MIN_EQUAL_KEYS		1500

static_assert(MAX_SPANS <= SAMPLE_THREADS, "a thread makes a span");

/* Number of samples. */
template <int ITEMS> __host__ __device__ constexpr uint32_t
samples()
{
	return SAMPLE_THREADS * ITEMS;
}

/* Number of slices for the test; their counters share memory with the codes. */
template <int ITEMS> __host__ __device__ constexpr uint32_t
test_slices()
{
	return samples<ITEMS>() / 4 < 4096 ? samples<ITEMS>() / 4 : 4096;
}

/* Arguments of the sample kernel.  Pointers are device memory. */
template <class K> struct SampleArgs
{
	const K    *keys;
	const uint32_t *rids;		/* rids, which ascend; NULL: a key's index is
								 * its rid */
	uint32_t	n;
	KeyBits<K>	bits;
	bool		range_known;	/* lo and hi are the caller's key range */
	K			lo;
	K			hi;
	uint32_t	slice_buckets;	/* number of slices of equal width */
	uint32_t	buckets;		/* number of buckets by quantiles */
	uint32_t	wanted;			/* buckets distributed by frequency */
	uint32_t	quantiles;		/* most quantiles */
	uint32_t	equal_samples;	/* least samples of a value with its own span */
	bool		split_equal;	/* buckets of equal keys are divided by rid */
	/* skewed keys of several values go to sample sort, without a quantile map */
	bool		may_sample_sort;
	Segment<K> *segment;		/* gets the map by slices */
	uint32_t   *first_tile;		/* gets the segment's first tile, 0 */
	QuantileMap<K> *map;		/* gets the map by quantiles */
	uint16_t   *tags;			/* gets the tags of its buckets */
	BucketPlan *plan;			/* cleared */
	uint32_t   *counts;			/* cleared: counts_size counters */
	uint32_t	counts_size;
	uint32_t   *readback;		/* gets READBACK_SKEWED */
	uint32_t	sequence_number;
};

/* The spans while the map is made, in shared memory. */
struct SpanStarts
{
	uint32_t	start[MAX_SPANS + 1];	/* first code of each span */
	uint32_t	bucket[MAX_SPANS + 1];	/* its first bucket; SPAN_EQUAL */
	uint32_t	claimed[MAX_SPANS]; /* 1: a thread has stored its value */
};

/* Bytes of dynamic shared memory of the sample kernel. */
template <int ITEMS> static constexpr size_t
sample_shared()
{
	return samples<ITEMS>() * sizeof(uint32_t) + sizeof(SpanStarts);
}

/* Number of sorted codes that are less than code. */
__device__ __forceinline__ uint32_t
codes_below(const uint32_t *codes, uint32_t count, uint32_t code)
{
	uint32_t	lo = 0,
				hi = count;

	while (lo < hi)
	{
		uint32_t	middle = (lo + hi) / 2;

		if (codes[middle] < code)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/* Is the sample skewed over slices of equal width between lo and hi? */
template <class K, int ITEMS> __device__ static bool
sample_is_skewed(const K sample[ITEMS], K lo, K hi, uint32_t buckets,
				 uint32_t *counters, uint32_t *room)
{
	uint32_t	slices = min(buckets, test_slices<ITEMS>());
	BucketMap<K> map = make_map<K>(lo, hi, slices);
	uint32_t	squares = 0,
				total;

	for (uint32_t i = threadIdx.x; i < slices; i += SAMPLE_THREADS)
		counters[i] = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		atomicAdd(&counters[map(sample[i])], 1);
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < slices; i += SAMPLE_THREADS)
		squares += counters[i] * counters[i];
	(void) block_exclusive_sum<SAMPLE_THREADS>(squares, room, &total);
	__syncthreads();

	/* uniform keys hardly exceed 1.04 times their expectation */
	return total - samples<ITEMS>() >
		(uint32_t) (1.04f * samples<ITEMS>() * samples<ITEMS>() / (slices - 2));
}

/* Merge sort of all threads' codes into codes[], in shared memory. */
template <int ITEMS> __device__ static void
sort_codes(uint32_t code[ITEMS], uint32_t *codes)
{
	const KeyBits<uint32_t> whole = {~0u, 0};
	uint32_t	first = threadIdx.x * ITEMS;

#pragma unroll
	for (int round = 0; round < ITEMS; round++)
#pragma unroll
		for (int i = round & 1; i + 1 < ITEMS; i += 2)
		{
			uint32_t	less = min(code[i], code[i + 1]);

			code[i + 1] = max(code[i], code[i + 1]);
			code[i] = less;
		}
	for (uint32_t width = ITEMS;; width *= 2)
	{
		uint32_t	a = first / (2 * width) * (2 * width);
		uint32_t	b = a + width;
		uint32_t	diagonal = first - a;
		uint32_t	taken;
		uint32_t	from[ITEMS];

		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			codes[first + i] = code[i];
		__syncthreads();
		if (width >= samples<ITEMS>())
			return;
		taken = merge_path(codes + a, width, codes + b, width, diagonal, whole);
		merge_serial<uint32_t, ITEMS>(codes, a + taken, b, b + diagonal - taken,
											 b + width, whole, code, from);
	}
}

/*
 * Finds the spans: boundaries at quantiles of the sorted codes, and around
 * codes with many samples.  Thread t tests quantile t.  Halves the quantiles
 * until the buckets suffice.  Returns the number of spans.
 */
template <class K, int ITEMS> __device__ static uint32_t
find_spans(const SampleArgs<K> &args, const uint32_t *codes, SpanStarts *spans,
		   uint32_t *room)
{
	constexpr uint32_t SAMPLES = samples<ITEMS>();
	/* slices for other values with the code of a span of one value */
	constexpr uint32_t BESIDE = sizeof(K) > 4 ? 2 : 0;

	for (uint32_t quantiles = args.quantiles;; quantiles /= 2)
	{
		uint32_t	t = threadIdx.x;
		uint32_t	code = codes[min(t, quantiles - 1) * SAMPLES / quantiles];
		bool		mine = t < quantiles &&
			(t == 0 || codes[(t - 1) * SAMPLES / quantiles] != code);
		uint32_t	from = mine ? codes_below(codes, SAMPLES, code) : 0;
		uint32_t	to = from;
		bool		equal;
		uint32_t	before,
					total,
					count,
					spare;

		/* index of the first greater code */
		if (mine)
			to = code == ~0u ? SAMPLES : codes_below(codes, SAMPLES, code + 1);
		equal = mine && to - from >= args.equal_samples;
		before = (equal ? 2 : mine) + (t == 0);
		before = block_exclusive_sum<SAMPLE_THREADS>(before | (uint32_t) equal << 16,
													 room, &total);
		count = (total & 0xffff) + 1;
		spare = count + BESIDE * (total >> 16);
		__syncthreads();
		if (count >= MAX_SPANS || spare + args.wanted / 4 * 3 > args.buckets)
			continue;
		spare = args.buckets - spare;

		auto set = [&] (uint32_t span, uint32_t equals, uint32_t start, uint32_t rank,
						bool all_equal)
		{
			spans->start[span] = start;
			spans->bucket[span] = (span + BESIDE * equals +
								   (uint32_t) ((uint64_t) rank * spare / SAMPLES)) |
				(all_equal ? SPAN_EQUAL : 0);
			spans->claimed[span] = 0;
		};
		uint32_t	span = before & 0xffff;
		uint32_t	equals = before >> 16;

		/*
		 * span 0: below the sample; then the quantiles; the last: above the
		 * sample
		 */
		if (t == 0)
			set(span++, 0, 0, 0, false);
		if (equal)
		{
			set(span, equals, code, from, true);
			set(span + 1, equals + 1, code == ~0u ? code : code + 1, to, false);
		}
		else if (mine)
			set(span, equals, code, from, false);
		if (t == 0)
		{
			uint32_t	most = codes[SAMPLES - 1];

			set(count - 1, total >> 16, most == ~0u ? most : most + 1, SAMPLES, false);
			spans->bucket[count] = args.buckets;
		}
		__syncthreads();
		return count;
	}
}

/* Computes the map and the tags from the spans. */
template <class K> __device__ static void
make_quantile_map(const SampleArgs<K> &args, const SpanStarts *spans, uint32_t count,
				  K origin)
{
	constexpr uint32_t BESIDE = sizeof(K) > 4 ? 2 : 0;
	QuantileMap<K> *map = args.map;
	uint32_t	i = threadIdx.x;
	uint32_t	rid_lo = args.rids ? args.rids[0] : 0;
	uint32_t	rid_hi = args.rids ? args.rids[args.n - 1] : args.n - 1;

	if (i == 0)
	{
		map->origin = origin;
		map->rid_lo = rid_lo;
	}
	if (i < count)
	{
		uint32_t	bucket = spans->bucket[i] & ~SPAN_EQUAL;
		uint64_t	slices = (spans->bucket[i + 1] & ~SPAN_EQUAL) - bucket;
		uint64_t	end = i + 1 < count ? spans->start[i + 1]
			: UINT64_C(1) << 32;
		uint64_t	width = end - spans->start[i];
		uint64_t	scale;
		K			base = i > 0 ? least_of_code<K>(spans->start[i], origin) : 0;
		K			top = i + 1 < count
			? least_of_code<K>(spans->start[i + 1], origin) - 1 : args.bits.mask;

		if (spans->bucket[i] & SPAN_EQUAL)
			scale = args.split_equal
				? ((slices - BESIDE) << 32) / ((uint64_t) (rid_hi - rid_lo) + 1) : 0;
		else
			scale = width > slices ? (slices << 32) / width : UINT32_MAX;
		map->table.span[i].bucket = spans->bucket[i];
		map->table.span[i].scale = (uint32_t) min(scale, (uint64_t) UINT32_MAX);
		map->base[i] = base;
		map->shift[i] = max(highest_bit((K) ((top - base) | 1)) - 31, 0);
	}
	else
	{
		/* the entry behind the last span has its end */
		map->table.span[i].bucket = i == count && BESIDE > 0 ? args.buckets
			: args.buckets - 1;
		map->table.span[i].scale = 0;
	}

	/* node i of the search tree, which is stored level by level */
	if (i > 0)
	{
		int			level = highest_bit(i);
		uint32_t	span = (2 * (i - (1u << level)) + 1) << (SPAN_LEVELS - 1 - level);

		map->table.tree[i] = span < count ? spans->start[span] : ~0u;
	}
	for (uint32_t bucket = i; bucket < args.buckets; bucket += SAMPLE_THREADS)
	{
		uint32_t	span = 0,
					end = count;
		bool		equal;

		while (end - span > 1)
		{
			uint32_t	middle = (span + end) / 2;

			if ((spans->bucket[middle] & ~SPAN_EQUAL) <= bucket)
				span = middle;
			else
				end = middle;
		}
		equal = (spans->bucket[span] & SPAN_EQUAL) &&
			(BESIDE == 0 || (bucket > (spans->bucket[span] & ~SPAN_EQUAL) &&
							 bucket < (spans->bucket[span + 1] & ~SPAN_EQUAL) - 1));
		args.tags[bucket] = (uint16_t) (span | (equal ? BUCKET_EQUAL : 0));
	}
}

/* Stores the value of each span of one value, from one of its samples. */
template <class K, int ITEMS> __device__ static void
name_equal_values(const SampleArgs<K> &args, const K sample[ITEMS],
				  SpanStarts *spans, uint32_t count, K origin)
{
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	code = value_code<K>(sample[i], origin);
		uint32_t	span = 0,
					end = count;

		while (end - span > 1)
		{
			uint32_t	middle = (span + end) / 2;

			if (spans->start[middle] <= code)
				span = middle;
			else
				end = middle;
		}
		if ((spans->bucket[span] & SPAN_EQUAL) && spans->start[span] == code &&
			atomicExch(&spans->claimed[span], 1) == 0)
			args.map->only[span] = sample[i];
	}
}

/* Starts round one: samples, chooses the map, clears counters.  One block. */
template <class K, int ITEMS>
__global__ void __launch_bounds__(SAMPLE_THREADS, 1)
sample_kernel(const SampleArgs<K> args)
{
	extern __shared__ __align__(16) uint32_t codes[];
	SpanStarts *spans = reinterpret_cast<SpanStarts *>(codes + samples<ITEMS>());

	__shared__ K key_room[2 * SAMPLE_THREADS / 32];
	__shared__ uint32_t room[SAMPLE_THREADS / 32];

	K			sample[ITEMS];
	K			lo = args.lo,
				hi = args.hi;
	K			origin,
				most;
	uint32_t	code[ITEMS];
	uint32_t	count;
	uint32_t	skewed;

	for (uint32_t i = threadIdx.x; i < args.counts_size / 4; i += SAMPLE_THREADS)
		reinterpret_cast<uint4 *>(args.counts)[i] = make_uint4(0, 0, 0, 0);
	for (uint32_t i = threadIdx.x; i < sizeof(BucketPlan) / 4; i += SAMPLE_THREADS)
		reinterpret_cast<uint32_t *>(args.plan)[i] = 0;
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		sample[i] = args.bits(args.keys[sample_position(i * SAMPLE_THREADS + threadIdx.x,
														samples<ITEMS>(), args.n)]);
	origin = all_ones<K>();
	most = 0;
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		origin = sample[i] < origin ? sample[i] : origin;
		most = sample[i] > most ? sample[i] : most;
	}
	block_min_max<SAMPLE_THREADS>(origin, most, key_room);
	if (!args.range_known)
	{
		lo = origin;
		hi = most;
		widen_range(lo, hi, args.bits.mask, highest_bit(samples<ITEMS>()));
	}
	skewed = !sample_is_skewed<K, ITEMS>(sample, lo, hi, args.slice_buckets, codes, room) ? 0 :
		args.may_sample_sort && origin < most ? SKEWED_SAMPLE_SORT : SKEWED_MAPPED;
	if (threadIdx.x == 0)
	{
		args.segment->map = make_map<K>(lo, hi, args.slice_buckets);
		args.segment->start = 0;
		args.segment->end = args.n;
		args.segment->first_bucket = 0;
		args.segment->by_rid = 0;
		args.first_tile[0] = 0;
		args.map->skewed = skewed;
		args.readback[READBACK_SKEWED] = skewed;
		__threadfence_system();
		*(volatile uint32_t *) &args.readback[READBACK_SEQUENCE] = args.sequence_number;
	}
	if (skewed != SKEWED_MAPPED)
		return;

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		code[i] = value_code<K>(sample[i], origin);
	sort_codes<ITEMS>(code, codes);
	count = find_spans<K, ITEMS>(args, codes, spans, room);
	make_quantile_map(args, spans, count, origin);
	if (sizeof(K) > 4)
		name_equal_values<K, ITEMS>(args, sample, spans, count, origin);
}

#endif							/* GPUSORT_BUCKET_SAMPLE_CUH */
