/*
 * bucket_plan.cuh
 *	  The histogram of gpu_bucket's first round, and the plan made from it.
 *
 * The first round treats the input as one segment.  A sample
 * (bucket_sample.cuh) chooses between slices of equal width and a map by
 * quantiles.  A histogram over up to 98304 buckets then gives the place of
 * every bucket, so that both moves of the keys (by coarse and by fine bucket)
 * need only one pass of counting.  The same pass counts descents, which detects
 * sorted input.
 *
 * Buckets that are too large for a block become the segments of the next round
 * (bucket_rounds.cuh).
 *
 * The last block of the histogram kernel makes the plan, which saves a launch.
 * The host reads it from the readback words while the moves run.
 *
 * Memory: counters in shared memory, 32 or, packed, 16 bits each; in device
 * memory counters, bucket starts and segments.
 */
#ifndef GPUSORT_BUCKET_PLAN_CUH
#define GPUSORT_BUCKET_PLAN_CUH

#include "block/block_sort.cuh"
#include "bucket/partition.cuh"

#define HISTOGRAM_THREADS	1024
#define HISTOGRAM_UNROLL	4		/* vectors of 16 bytes that a thread loads
									 * at once */
#define SEGMENT_THREADS		256	/* threads, and most buckets of a later
								 * segment */
#define MAX_BUCKETS			98304	/* most buckets of round one, with packed
									 * counters */
#define MAX_SLICE_BUCKETS	65536	/* most slices of equal width in round
									 * one */
#define MAX_WORD_BUCKETS	32768	/* most buckets of round one with 32-bit
									 * counters */
#define MAX_COARSE			1024	/* most coarse buckets */

/* Keys per bucket to aim at with slices of equal width. */
#define MOSTLY_FULL			(BLOCK_SORT_CAPACITY / 6 * 5)

/*
 * Input counts as nearly sorted if at most n / NEARLY_SORTED_PART keys are less
 * than their predecessor.  Inputs of less than MIN_NEARLY_SORTED keys do not:
 * to sort them takes less time than to try pieces.
 */
#define NEARLY_SORTED_PART	16
#define MIN_NEARLY_SORTED	(1u << 16)

/* The segments of the next round. */
struct NextRound
{
	unsigned long long segments_tiles;	/* number of segments << 40 | number of
										 * tiles */
	uint32_t	buckets;		/* number of buckets of all segments */
	uint32_t	pad;
};

#define NEXT_SEGMENTS(word)		((uint32_t) ((word) >> 40))
#define NEXT_TILES(word)		((uint32_t) ((word) & ((1ull << 40) - 1)))

/* State that the kernels of a run share; sample_kernel() clears it. */
struct BucketPlan
{
	NextRound	next[2];		/* written by even and by odd rounds */
	uint32_t	blocks_done;	/* blocks of the present kernel that are done */
	uint32_t	descents;		/* keys that are less than their predecessor */
	uint32_t	order;			/* INPUT_* */
	uint32_t	fine_tiles;		/* tiles of the move by fine bucket */
	uint32_t	not_in_pieces;	/* 1: the pieces cannot be sorted one by one */
	uint32_t	pad[3];
};

/* Indexes of the readback words. */
#define READBACK_SEQUENCE	0
#define READBACK_ORDER		1
#define READBACK_SEGMENTS	2
#define READBACK_TILES		3
#define READBACK_BUCKETS	4
#define READBACK_SKEWED		5	/* SKEWED_* */

/* Writes the readback words for the next round, then the sequence number. */
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

/*
 * Number of buckets for a later segment of size keys.  bins_for_values() of
 * them are reserved for frequent values.
 */
__host__ __device__ __forceinline__ uint32_t
segment_bins(uint32_t size)
{
	uint32_t	parts = size / (BLOCK_SORT_CAPACITY / 3 * 2) + 1;

	return parts + parts / 4 + 3;
}

/* Number of buckets among bins that are reserved for frequent values. */
__device__ __forceinline__ uint32_t
bins_for_values(uint32_t bins)
{
	return bins / 5 + 2;
}

/* Makes the bucket [start, end) a segment of the next round. */
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

/* Arguments of the histogram kernel.  Pointers are device memory. */
template <class K> struct HistogramArgs
{
	const K    *keys;
	uint32_t	n;
	KeyBits<K>	bits;
	const uint32_t *rids;		/* rids, which ascend; NULL: a key's index is
								 * its rid */
	const Segment<K> *segment;	/* the whole input, with its map by slices */
	const QuantileMap<K> *quantiles;	/* the map by quantiles, if skewed */
	const uint16_t *tags;		/* the buckets' tags, if skewed */
	bool		split_equal;	/* buckets of equal keys are divided by rid */
	uint32_t	buckets;		/* number of buckets */
	uint32_t	counts_size;	/* buckets, rounded up to 4 *
								 * HISTOGRAM_THREADS */
	uint32_t   *counts;			/* by bucket: count, then place of its next
								 * key */
	uint32_t   *bucket_start;	/* buckets + 1 places */
	BucketPlan *plan;
	int			fine_bits;		/* log2 of the fine buckets of a coarse one; <
								 * 0: one move without coarse buckets */
	uint32_t	coarse;			/* number of coarse buckets */
	uint32_t   *coarse_cursor;	/* place of each coarse bucket's next key */
	Segment<K> *coarse_segments;	/* the coarse buckets, for the second
									 * move */
	uint32_t   *coarse_first_tile;	/* first tile of each coarse bucket */
	Segment<K> *next_segments;	/* buckets that are too large for a block */
	uint32_t   *next_first_tile;	/* first tile of each such bucket */
	uint32_t   *readback;		/* the stream's readback words */
	uint32_t	sequence_number;
};

/*
 * Adds the number by to a bucket's packed 16-bit counter in shared memory.  The
 * thread whose addition exceeds 2^15 moves 2^15 to the global counter.  A
 * barrier after each chunk of at most 2^14 keys ensures that it does so before
 * the counter overflows.  Additions of 1 whose result is not used are fast even
 * if lanes share a counter.  Additions to packed counters use their result;
 * callers therefore test whether the whole warp adds to one counter.
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

/*
 * Turns counts into places of buckets, and makes the segments of the next round
 * and of the coarse buckets.  One block.
 */
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
 * Counts the block's share of the keys in shared_counts.  Returns the number of
 * descents, keys that are less than their predecessor, that the thread has
 * seen.  bucket_of(value, position) returns the bucket.
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

	uint32_t	descents = 0;

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

					descents += after < v && (i + 1 < VECTOR || has_next);
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

				descents += at + 1 < args.n && args.bits(args.keys[at + 1]) < v;
				if (PACKED)
					count_packed(shared_counts, args.counts, bucket, 1);
				else
					atomicAdd(&shared_counts[bucket], 1);
			}
		if (PACKED)
			__syncthreads();
	}
	return descents;
}

/* The histogram; the last block makes the plan. */
template <class K, bool PACKED>
__global__ void __launch_bounds__(HISTOGRAM_THREADS, 1)
histogram_kernel(const HistogramArgs<K> args)
{
	extern __shared__ __align__(16) uint32_t shared_counts[];
	__shared__ SpanTable table;
	__shared__ uint32_t last;

	uint32_t	words = PACKED ? (args.buckets + 1) / 2 : args.buckets;
	uint32_t	descents;

	if (args.quantiles->skewed == SKEWED_SAMPLE_SORT)
		return;
	for (uint32_t i = threadIdx.x; i < words; i += HISTOGRAM_THREADS)
		shared_counts[i] = 0;
	if (args.quantiles->skewed)
	{
		copy_words(&table, &args.quantiles->table, HISTOGRAM_THREADS);
		__syncthreads();

		const QuantileLookup<K> lookup(args.quantiles, table);

		descents = count_keys<K, PACKED>(args, shared_counts, [&] (K v, uint32_t at)
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
		descents = count_keys<K, PACKED>(args, shared_counts, [&] (K v, uint32_t)
									  {
										  return map(v);
									  });
	}
	descents = warp_sum(descents);
	if (threadIdx.x % 32 == 0 && descents)
		atomicAdd(&args.plan->descents, descents);
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
		uint32_t	all = *(volatile uint32_t *) &args.plan->descents;
		uint32_t	order = all == 0 ? INPUT_SORTED :
			all == args.n - 1 ? INPUT_REVERSED :
			args.n >= MIN_NEARLY_SORTED && all <= args.n / NEARLY_SORTED_PART
			? INPUT_NEARLY_SORTED : INPUT_UNORDERED;

		args.plan->order = order;
		args.plan->blocks_done = 0;
		publish(args.readback, args.sequence_number, order, &args.plan->next[0]);
	}
}

#endif							/* GPUSORT_BUCKET_PLAN_CUH */
