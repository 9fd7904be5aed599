/*
 * bucket_plan.cuh
 *	  Where the buckets of the bucket sort lie.
 *
 * Round one treats the input as one segment.  A sample (bucket_sample.cuh) decides
 * between slices of equal width and a map by quantiles, a histogram over up to 98304
 * buckets gives every bucket's place at once, so that two moves of the keys (by
 * coarse and by fine bucket) need a single pass of counting.  The same pass
 * notices inputs that are in order already.
 *
 * Buckets too large for one block become the segments of the next round
 * (bucket_rounds.cuh).
 *
 * The last block of a counting kernel makes the plan, so no launch is spent on
 * it; the host learns of it through the readback words of the stream while the moves run.
 */
#ifndef GPUSORT_BUCKET_PLAN_CUH
#define GPUSORT_BUCKET_PLAN_CUH

#include "block/block_sort.cuh"
#include "bucket/partition.cuh"

#define HISTOGRAM_THREADS	1024
#define HISTOGRAM_UNROLL	4
#define SEGMENT_THREADS		256		/* also the most buckets of a later segment */
#define MAX_BUCKETS			98304	/* of round one; two counters share a word then */
#define MAX_EVEN_BUCKETS	65536	/* if of equal width */
#define MAX_WORD_BUCKETS	32768	/* with a word of shared memory for each */
#define MAX_COARSE			1024

#define MOSTLY_FULL			(BLOCK_SORT_CAPACITY / 6 * 5)	/* a bucket's fill */

/* With at most n / this many keys below their predecessor, pieces are tried. */
#define NEARLY_SORTED_PART	16
#define NEARLY_SORTED_LEAST (1u << 16)	/* smaller inputs are sorted faster than tried */

/* The segments of the round to come. */
struct NextRound
{
	unsigned long long segments_tiles;	/* segments << 40 | tiles */
	uint32_t	buckets;
	uint32_t	pad;
};

#define NEXT_SEGMENTS(word)		((uint32_t) ((word) >> 40))
#define NEXT_TILES(word)		((uint32_t) ((word) & ((1ull << 40) - 1)))

struct BucketPlan
{
	NextRound	next[2];		/* of even and odd rounds */
	uint32_t	blocks_done;
	uint32_t	falls;			/* keys smaller than their predecessor */
	uint32_t	order;			/* INPUT_* */
	uint32_t	fine_tiles;		/* tiles of the pass by fine bucket */
	uint32_t	not_nearly;		/* pieces cannot be sorted one by one */
	uint32_t	pad[3];
};

/* What the host reads, sequence number last. */
#define READBACK_SEQUENCE			0
#define READBACK_ORDER			1
#define READBACK_SEGMENTS		2
#define READBACK_TILES			3
#define READBACK_BUCKETS		4
#define READBACK_SKEWED			5		/* SKEWED_* */

__device__ static void
publish(volatile uint32_t *readback, uint32_t sequence_number, uint32_t order,
		const volatile NextRound *next)
{
	unsigned long long word = next->segments_tiles;

	readback[READBACK_ORDER] = order;
	readback[READBACK_SEGMENTS] = NEXT_SEGMENTS(word);
	readback[READBACK_TILES] = NEXT_TILES(word);
	readback[READBACK_BUCKETS] = next->buckets;
	__threadfence_system();
	readback[READBACK_SEQUENCE] = sequence_number;
}

/* Buckets of a segment of a later round; heavy ones are for frequent values. */
__host__ __device__ __forceinline__ uint32_t
segment_bins(uint32_t size)
{
	uint32_t	parts = size / (BLOCK_SORT_CAPACITY / 3 * 2) + 1;

	return parts + parts / 4 + 3;
}

__device__ __forceinline__ uint32_t
bins_for_values(uint32_t bins)
{
	return bins / 5 + 2;
}

/* A bucket goes round again. */
template <class K> __device__ static void
add_segment(NextRound *next, Segment<K> *segments, uint32_t *first_tile,
			uint32_t start, uint32_t end, bool by_rid)
{
	uint32_t	size = end - start;
	uint32_t	tiles = (size - 1) / partition_tile<K>() + 1;
	uint32_t	bins = min(segment_bins(size), (uint32_t) SEGMENT_THREADS);
	unsigned long long word;
	uint32_t	s;

	word = atomicAdd(&next->segments_tiles, (1ull << 40) | tiles);
	s = NEXT_SEGMENTS(word);
	first_tile[s] = NEXT_TILES(word);
	segments[s].start = start;
	segments[s].end = end;
	segments[s].first_bucket = atomicAdd(&next->buckets, bins);
	segments[s].buckets = bins;
	segments[s].by_rid = by_rid;
}

template <class K> struct HistogramArgs
{
	const K    *keys;
	uint32_t	n;
	KeyBits<K>	bits;
	const uint32_t *rids;		/* ascending; NULL: the position */
	const Segment<K> *segment;	/* the whole input, with its map of equal slices */
	const QuantileMap<K> *quantiles;	/* if those are skewed */
	const uint16_t *tags;		/* of the buckets then */
	bool		split_equal;	/* buckets of equal keys are to be sorted by rid */
	uint32_t	buckets;
	uint32_t	counts_size;	/* buckets, rounded up to 4 * HISTOGRAM_THREADS */
	uint32_t   *counts;			/* by bucket; the plan turns it into cursors */
	uint32_t   *bucket_start;	/* buckets + 1 */
	BucketPlan *plan;
	int			fine_bits;		/* < 0: one pass reaches every bucket */
	uint32_t	coarse;			/* coarse buckets */
	uint32_t   *coarse_cursor;
	Segment<K> *coarse_segments;
	uint32_t   *coarse_first_tile;
	Segment<K> *next_segments;	/* buckets too large */
	uint32_t   *next_first_tile;
	uint32_t   *readback;
	uint32_t	sequence_number;
};

/*
 * Counts in shared memory, one 32-bit counter per bucket or, PACKED, two of 16
 * bits per word.  Half-words never overflow: the thread whose addition takes
 * one past 2^15 moves that much to the global counter, and a barrier per chunk
 * (at most 2^14 keys) sees to it that it does so in time.  Additions of one
 * whose result is not used are cheap even where lanes share a counter, packed ones
 * are not, so those look whether the whole warp shares it.
 */
__device__ __forceinline__ void
count_packed(uint32_t *shared_counts, uint32_t *counts, uint32_t bucket, uint32_t by)
{
	uint32_t	half = (bucket & 1) * 16;
	uint32_t	old = atomicAdd(&shared_counts[bucket >> 1], by << half);

	old = (old >> half) & 0xffff;
	if (old < 0x8000 && old + by >= 0x8000)
	{
		atomicSub(&shared_counts[bucket >> 1], 0x8000u << half);
		atomicAdd(&counts[bucket], 0x8000);
	}
}

/* Sums up the counts of all blocks: bucket places, cursors, large buckets. */
template <class K> __device__ static void
plan_buckets(const HistogramArgs<K> &args)
{
	__shared__ uint32_t room[HISTOGRAM_THREADS / 32];
	uint32_t	carry = 0;
	uint32_t	total;
	bool		skewed = args.quantiles->skewed != 0;

	for (uint32_t base = 0; base < args.counts_size; base += 4 * HISTOGRAM_THREADS)
	{
		uint32_t	bucket = base + 4 * threadIdx.x;
		uint4		word = __ldcg(reinterpret_cast<const uint4 *>(args.counts + bucket));
		uint32_t	count[4] = {word.x, word.y, word.z, word.w};
		uint32_t	start = carry +
			block_exclusive_sum<HISTOGRAM_THREADS>(word.x + word.y + word.z + word.w,
												   room, &total);

#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			if (bucket + i < args.buckets)
			{
				args.bucket_start[bucket + i] = start;
				args.counts[bucket + i] = start;
				if (count[i] > BLOCK_SORT_CAPACITY)
				{
					bool		equal = skewed && (args.tags[bucket + i] & BUCKET_EQUAL);

					if (!equal || args.split_equal)
						add_segment(&args.plan->next[0], args.next_segments,
									args.next_first_tile, start, start + count[i], equal);
				}
			}
			start += count[i];
		}
		carry += total;
		__syncthreads();
	}
	if (args.fine_bits < 0)
		return;
	if (threadIdx.x == 0)
		args.bucket_start[args.buckets] = args.n;
	__syncthreads();

	uint32_t	c = threadIdx.x;
	uint32_t	start = 0,
				end = 0,
				tiles;

	if (c < args.coarse)
	{
		start = args.bucket_start[c << args.fine_bits];
		end = args.bucket_start[min((c + 1) << args.fine_bits, args.buckets)];
	}
	tiles = (end - start + partition_tile<K>() - 1) / partition_tile<K>();
	tiles = block_exclusive_sum<HISTOGRAM_THREADS>(tiles, room, &total);
	if (c < args.coarse)
	{
		args.coarse_cursor[c] = start;
		args.coarse_first_tile[c] = tiles;
		args.coarse_segments[c].map = args.segment->map;
		args.coarse_segments[c].start = start;
		args.coarse_segments[c].end = end;
		args.coarse_segments[c].first_bucket = c << args.fine_bits;
		args.coarse_segments[c].by_rid = 0;
	}
	if (threadIdx.x == 0)
		args.plan->fine_tiles = total;
}

/*
 * The block's share of the keys into shared_counts; returns how many keys are
 * smaller than their predecessor.  bucket_of(value, position) names the bucket.
 */
template <class K, bool PACKED, class BucketOf> __device__ __forceinline__ uint32_t
count_keys(const HistogramArgs<K> &args, uint32_t *shared_counts, BucketOf bucket_of)
{
	constexpr int VECTOR = 16 / sizeof(K);
	constexpr uint32_t CHUNK = HISTOGRAM_THREADS * HISTOGRAM_UNROLL * VECTOR;
	struct alignas(16) Vector
	{
		K			key[VECTOR];
	};

	uint32_t	falls = 0;

	for (uint64_t base = (uint64_t) blockIdx.x * CHUNK; base < args.n;
		 base += (uint64_t) gridDim.x * CHUNK)
	{
		if (base + CHUNK <= args.n)
		{
			Vector		vectors[HISTOGRAM_UNROLL];

#pragma unroll
			for (int u = 0; u < HISTOGRAM_UNROLL; u++)
				vectors[u] = reinterpret_cast<const Vector *>(args.keys + base)
					[u * HISTOGRAM_THREADS + threadIdx.x];
#pragma unroll
			for (int u = 0; u < HISTOGRAM_UNROLL; u++)
			{
				uint64_t	next_at = base +
					(uint64_t) (u * HISTOGRAM_THREADS + threadIdx.x + 1) * VECTOR;
				K			next = shuffle_from(vectors[u].key[0], threadIdx.x + 1);
				bool		has_next = next_at < args.n;

				if (threadIdx.x % 32 == 31 && has_next)
					next = args.keys[next_at];
				next = args.bits(next);
#pragma unroll
				for (int i = 0; i < VECTOR; i++)
				{
					K			v = args.bits(vectors[u].key[i]);
					K			after = i + 1 < VECTOR
						? args.bits(vectors[u].key[(i + 1) % VECTOR]) : next;
					uint32_t	bucket = bucket_of(v, (uint32_t) next_at - VECTOR + i);

					falls += after < v && (i + 1 < VECTOR || has_next);
					if (!PACKED)
						atomicAdd(&shared_counts[bucket], 1);
					else if (!__all_sync(0xffffffffu, bucket ==
										 __shfl_sync(0xffffffffu, bucket, 0)))
						count_packed(shared_counts, args.counts, bucket, 1);
					else if (threadIdx.x % 32 == 0)
						count_packed(shared_counts, args.counts, bucket, 32);
				}
			}
		}
		else
			for (uint64_t at = base + threadIdx.x; at < args.n; at += HISTOGRAM_THREADS)
			{
				K			v = args.bits(args.keys[at]);
				uint32_t	bucket = bucket_of(v, (uint32_t) at);

				falls += at + 1 < args.n && args.bits(args.keys[at + 1]) < v;
				if (PACKED)
					count_packed(shared_counts, args.counts, bucket, 1);
				else
					atomicAdd(&shared_counts[bucket], 1);
			}
		if (PACKED)
			__syncthreads();
	}
	return falls;
}

template <class K, bool PACKED>
__global__ void __launch_bounds__(HISTOGRAM_THREADS, 1)
histogram_kernel(const HistogramArgs<K> args)
{
	extern __shared__ __align__(16) uint32_t shared_counts[];
	__shared__ SpanTable table;
	__shared__ uint32_t last;

	uint32_t	words = PACKED ? (args.buckets + 1) / 2 : args.buckets;
	uint32_t	falls;

	if (args.quantiles->skewed == SKEWED_FLAT)
		return;
	for (uint32_t i = threadIdx.x; i < words; i += HISTOGRAM_THREADS)
		shared_counts[i] = 0;
	if (args.quantiles->skewed)
	{
		copy_words(&table, &args.quantiles->table, HISTOGRAM_THREADS);
		__syncthreads();

		const QuantileLookup<K> lookup(args.quantiles, table);

		falls = count_keys<K, PACKED>(args, shared_counts, [&] (K v, uint32_t at)
									  {
										  return lookup(v, [&]
														{
															return args.rids
																? args.rids[at] : at;
														});
									  });
	}
	else
	{
		const BucketMap<K> map = args.segment->map;

		__syncthreads();
		falls = count_keys<K, PACKED>(args, shared_counts, [&] (K v, uint32_t)
									  {
										  return map(v);
									  });
	}
	falls = warp_sum(falls);
	if (threadIdx.x % 32 == 0 && falls)
		atomicAdd(&args.plan->falls, falls);
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < words; i += HISTOGRAM_THREADS)
	{
		uint32_t	word = shared_counts[i];

		if (!PACKED)
		{
			if (word)
				atomicAdd(&args.counts[i], word);
		}
		else
		{
			if (word & 0xffff)
				atomicAdd(&args.counts[2 * i], word & 0xffff);
			if (word >> 16)
				atomicAdd(&args.counts[2 * i + 1], word >> 16);
		}
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
	{
		last = atomicAdd(&args.plan->blocks_done, 1) == gridDim.x - 1;
	}
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	plan_buckets(args);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
	{
		uint32_t	all = *(volatile uint32_t *) &args.plan->falls;
		uint32_t	order = all == 0 ? INPUT_SORTED :
			all == args.n - 1 ? INPUT_REVERSED :
			args.n >= NEARLY_SORTED_LEAST && all <= args.n / NEARLY_SORTED_PART
			? INPUT_NEARLY_SORTED : INPUT_UNORDERED;

		args.plan->order = order;
		args.plan->blocks_done = 0;
		publish(args.readback, args.sequence_number, order, &args.plan->next[0]);
	}
}

#endif							/* GPUSORT_BUCKET_PLAN_CUH */
