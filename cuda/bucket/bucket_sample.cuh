/*
 * bucket_sample.cuh
 *	  What round one of the bucket sort learns from a sample: the range of values, and
 *	  whether slices of equal width will do.
 *
 * They do if the sample falls evenly into them: the sum of the squares of its
 * counts, which is least for an even distribution, is near that.  If not, the sample
 * is sorted and the quantile map made from it (quantile_map.cuh).  One block does it all;
 * for an even distribution that takes some 10 us, else 30.
 */
#ifndef GPUSORT_BUCKET_SAMPLE_CUH
#define GPUSORT_BUCKET_SAMPLE_CUH

#include "bucket/bucket_plan.cuh"
#include "merge/merge_block.cuh"

#define SAMPLE_THREADS		1024
#define SAMPLE_ITEMS		15	/* of a thread; odd: no bank conflicts in blocked order */
#define FEW_SAMPLE_ITEMS	3
#define FEW_SAMPLES_MOST	(1u << 21)	/* keys for which those are enough */
#define EQUAL_SAMPLES		6	/* least samples of one code that get a span of its own */
#define EQUAL_KEYS			1500	/* and about the least keys */

static_assert(MAX_SPANS <= SAMPLE_THREADS, "a thread makes a span");

template <int ITEMS> __host__ __device__ constexpr uint32_t
samples()
{
	return SAMPLE_THREADS * ITEMS;
}

/* Slices that are looked at; their counters fit where codes will go. */
template <int ITEMS> __host__ __device__ constexpr uint32_t
even_slices()
{
	return samples<ITEMS>() / 4 < 4096 ? samples<ITEMS>() / 4 : 4096;
}

template <class K> struct SampleArgs
{
	const K    *keys;
	const uint32_t *rids;		/* ascending; NULL: positions */
	uint32_t	n;
	KeyBits<K>	bits;
	bool		range_known;
	K			lo;				/* if known */
	K			hi;
	uint32_t	even_buckets;	/* of equal width */
	uint32_t	buckets;		/* of the quantile map */
	uint32_t	wanted;			/* of those, for an even share of the keys */
	uint32_t	quantiles;		/* the most to be used */
	uint32_t	equal_samples;	/* of one code: a span of its own */
	bool		split_equal;	/* rids decide between equal keys */
	bool		may_be_flat;	/* no map is wanted if slices are skewed and values differ */
	Segment<K> *segment;		/* takes the map of equal slices */
	uint32_t   *first_tile;
	QuantileMap<K> *map;
	uint16_t   *tags;			/* by bucket */
	BucketPlan *plan;			/* to be zeroed, as are */
	uint32_t   *counts;
	uint32_t	counts_size;
	uint32_t   *readback;		/* is told whether slices are skewed */
	uint32_t	sequence_number;
};

/* The boundaries between spans. */
struct SpanStarts
{
	uint32_t	start[MAX_SPANS + 1];
	uint32_t	bucket[MAX_SPANS + 1];	/* the first; SPAN_EQUAL */
	uint32_t	claimed[MAX_SPANS];
};

template <int ITEMS> static constexpr size_t
sample_shared()
{
	return samples<ITEMS>() * sizeof(uint32_t) + sizeof(SpanStarts);
}

/* How many of the sorted codes are less than code. */
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

/* Is the sample skewed over slices of equal width? */
template <class K, int ITEMS> __device__ static bool
sample_is_skewed(const K sample[ITEMS], K lo, K hi, uint32_t buckets,
				 uint32_t *counters, uint32_t *room)
{
	uint32_t	slices = min(buckets, even_slices<ITEMS>());
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

	/* 1.04 times what an even distribution has, which chance hardly makes of one */
	return total - samples<ITEMS>() >
		(uint32_t) (1.04f * samples<ITEMS>() * samples<ITEMS>() / (slices - 2));
}

/* Sorts the threads' codes into codes[]. */
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
 * Boundaries at quantiles of the sorted codes, and around codes with many samples;
 * returns how many spans there are.  A thread looks at the quantile of its number.
 */
template <class K, int ITEMS> __device__ static uint32_t
find_spans(const SampleArgs<K> &args, const uint32_t *codes, SpanStarts *spans,
		   uint32_t *room)
{
	constexpr uint32_t SAMPLES = samples<ITEMS>();
	constexpr uint32_t BESIDE = sizeof(K) > 4 ? 2 : 0;	/* slices beside equal keys */

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
					key_distribution;

		/* the first code greater */
		if (mine)
			to = code == ~0u ? SAMPLES : codes_below(codes, SAMPLES, code + 1);
		equal = mine && to - from >= args.equal_samples;
		before = (equal ? 2 : mine) + (t == 0);
		before = block_exclusive_sum<SAMPLE_THREADS>(before | (uint32_t) equal << 16,
													 room, &total);
		count = (total & 0xffff) + 1;
		key_distribution = count + BESIDE * (total >> 16);
		__syncthreads();
		if (count >= MAX_SPANS || key_distribution + args.wanted / 4 * 3 > args.buckets)
			continue;
		key_distribution = args.buckets - key_distribution;

		auto set = [&] (uint32_t span, uint32_t equals, uint32_t start, uint32_t rank,
						bool all_equal)
		{
			spans->start[span] = start;
			spans->bucket[span] = (span + BESIDE * equals +
								   (uint32_t) ((uint64_t) rank * key_distribution / SAMPLES)) |
				(all_equal ? SPAN_EQUAL : 0);
			spans->claimed[span] = 0;
		};
		uint32_t	span = before & 0xffff;
		uint32_t	equals = before >> 16;

		/* below the sample, its quantiles, and above it */
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

/* Fills the map in from the boundaries. */
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
		/* a span of equal keys asks where the next one begins */
		map->table.span[i].bucket = i == count && BESIDE > 0 ? args.buckets
			: args.buckets - 1;
		map->table.span[i].scale = 0;
	}

	/* node i of the tree, levels one after the other */
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

/* The values of spans of one code: one sample of each. */
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

/* Begins round one; everything that is counted in is zeroed.  One block. */
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
	skewed = !sample_is_skewed<K, ITEMS>(sample, lo, hi, args.even_buckets, codes, room) ? 0 :
		args.may_be_flat && origin < most ? SKEWED_FLAT : SKEWED_MAPPED;
	if (threadIdx.x == 0)
	{
		args.segment->map = make_map<K>(lo, hi, args.even_buckets);
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
