/*
 * partition.cuh
 *	  One pass that moves keys and rids into the buckets of their segments.
 *
 * A segment is a contiguous range that is partitioned by itself: the whole input
 * in the first pass, each bucket of the pass before in the next.  A block takes
 * one tile of one segment, orders it by bucket in shared memory, takes room in
 * every bucket with one atomic addition per (tile, bucket) and writes runs.
 *
 * The pass does not keep the order of equal keys, which spares it the ranking
 * by ballots and the chain of tiles that a stable pass needs: the last step of
 * the bucket sort orders by (key, rid) and so restores it.
 *
 * Lanes of a warp whose keys all fall into one bucket (sorted input does that)
 * count with a single addition; 32 additions to one word would be served one
 * after the other.
 */
#ifndef GPUSORT_PARTITION_CUH
#define GPUSORT_PARTITION_CUH

#include "block/block_scan.cuh"
#include "key.cuh"
#include "block/quantile_map.cuh"

/* What names the bucket of a key. */
enum PartitionMap
{
	BY_SLICES,					/* of equal width */
	BY_QUANTILES,
	BY_SPLITTERS				/* of each segment, or its rids */
};

#define PARTITION_THREADS		512
#define PARTITION_MAX_BINS		1024

template <class K> __host__ __device__ constexpr uint32_t
partition_tile()
{
	return PARTITION_THREADS * keys_per_thread<K>();
}

/*
 * Buckets between splitters: keys of a sample at even distances in its order.
 * A value's bucket is found by binary search; a splitter that is a good part of the
 * sample has a bucket for its own value, after the one of the values below it.
 */
#define SPLITTER_LEVELS	8
#define MAX_SPLITTERS	((1 << SPLITTER_LEVELS) - 1)

struct SplitterBase
{
	uint16_t	bucket;			/* of values above the splitter before */
	uint16_t	heavy;			/* 1: the splitter's own value has the next */
};

template <class K> struct Splitters
{
	K			value[MAX_SPLITTERS + 1];	/* padded with all ones */
	SplitterBase base[MAX_SPLITTERS + 1];
	uint32_t	count;
	uint32_t	pad[3];
};

/* Splitters in shared memory, breadth first (quantile_map.cuh says why). */
template <class K> struct SplitterTree
{
	K			tree[MAX_SPLITTERS + 1];	/* from index 1 */
	SplitterBase base[MAX_SPLITTERS + 1];

	__device__ __forceinline__ void load(const Splitters<K> *from, uint32_t threads)
	{
		for (uint32_t i = threadIdx.x; i <= MAX_SPLITTERS; i += threads)
		{
			base[i] = from->base[i];
			if (i > 0)
			{
				int			level = highest_bit(i);

				tree[i] = from->value[((2 * (i - (1u << level)) + 1) <<
									   (SPLITTER_LEVELS - 1 - level)) - 1];
			}
		}
	}

	__device__ __forceinline__ uint32_t operator() (K v) const
	{
		uint32_t	node = 1;
		uint32_t	next = 0;	/* the first splitter that is not less */
		SplitterBase found;

#pragma unroll
		for (int level = 0; level < SPLITTER_LEVELS; level++)
		{
			bool		right = tree[node] < v;

			next = right ? next : node;
			node = 2 * node + right;
		}
		found = base[node - (MAX_SPLITTERS + 1)];
		return found.bucket + (next && tree[next] == v ? found.heavy : 0);
	}
};

template <class K> struct Segment
{
	BucketMap<K> map;			/* of round one's segments */
	uint32_t	start;
	uint32_t	end;
	uint32_t	first_bucket;	/* index of its bucket 0 among all buckets */
	uint32_t	buckets;
	uint32_t	by_rid;			/* all keys are equal: the rid is the key */
};

template <class K> struct PartitionArgs
{
	const K    *keys;
	const uint32_t *rids;		/* NULL: the position */
	K		   *keys_out;
	uint32_t   *rids_out;
	KeyBits<K>	bits;
	const Segment<K> *segments;
	const uint32_t *first_tile; /* of each segment */
	uint32_t	segment_count;
	uint32_t	tiles;			/* may be fewer than blocks */
	const uint32_t *tile_count; /* if not NULL, overrides tiles */
	uint32_t   *cursor;			/* by bucket: where its next key goes */
	uint32_t	bins;			/* per segment, at most PARTITION_MAX_BINS */
	int			digit_shift;	/* bin = (bucket >> shift) & mask */
	uint32_t	digit_mask;
	const uint32_t *skip;		/* nonzero there: the pass is not needed */
	const Splitters<K> *splitters;	/* of each segment */
	const QuantileMap<K> *quantiles;
};

/* Copies a struct with all threads of a block. */
template <class T> __device__ __forceinline__ void
copy_words(T *to, const T *from, uint32_t threads)
{
	for (uint32_t i = threadIdx.x; i < sizeof(T) / 4; i += threads)
		reinterpret_cast<uint32_t *>(to)[i] = reinterpret_cast<const uint32_t *>(from)[i];
}

/* The segment that a tile belongs to: the last one that starts at or before. */
__device__ __forceinline__ uint32_t
find_segment(const uint32_t *first_tile, uint32_t count, uint32_t tile)
{
	uint32_t	lo = 0,
				hi = count;

	if (count == 1)
		return 0;
	if (count <= PARTITION_THREADS)
		return __syncthreads_count(threadIdx.x < count &&
								   first_tile[threadIdx.x] <= tile) - 1;
	while (hi - lo > 1)
	{
		uint32_t	middle = (lo + hi) / 2;

		if (first_tile[middle] <= tile)
			lo = middle;
		else
			hi = middle;
	}
	return lo;
}

/* Adds one to a shared counter per lane; what it was before, lane by lane. */
__device__ __forceinline__ uint32_t
count_in_warp(uint32_t *counters, uint32_t bin)
{
	if (__all_sync(0xffffffffu, bin == __shfl_sync(0xffffffffu, bin, 0)))
	{
		uint32_t	before = 0;

		if (threadIdx.x % 32 == 0)
			before = atomicAdd(&counters[bin], 32);
		return __shfl_sync(0xffffffffu, before, 0) + threadIdx.x % 32;
	}
	return atomicAdd(&counters[bin], 1);
}

template <class K, bool RIDS> static size_t
partition_shared()
{
	return partition_tile<K>() *
		(sizeof(K) + sizeof(uint16_t) + (RIDS ? sizeof(uint32_t) : 0));
}

template <class K, bool RIDS, PartitionMap MAP>
__global__ void __launch_bounds__(PARTITION_THREADS, 2)
partition_kernel(const PartitionArgs<K> args)
{
	constexpr int ITEMS = keys_per_thread<K>();
	constexpr uint32_t TILE = partition_tile<K>();
	constexpr int BINS_PER_THREAD = PARTITION_MAX_BINS / PARTITION_THREADS;

	extern __shared__ __align__(16) unsigned char shared[];
	K		   *tile_keys = reinterpret_cast<K *>(shared);
	uint16_t   *tile_bins = reinterpret_cast<uint16_t *>(tile_keys + TILE);
	uint32_t   *tile_rids = reinterpret_cast<uint32_t *>(tile_bins + TILE);

	/* Counts, then starts in the tile; the last is for lanes without a key. */
	__shared__ uint32_t bin_start[PARTITION_MAX_BINS + 1];
	__shared__ uint32_t bin_target[PARTITION_MAX_BINS];
	__shared__ uint32_t room[PARTITION_THREADS / 32];
	__shared__ Segment<K> segment;
	__shared__ SplitterTree<K> splitters[1];
	__shared__ SpanTable table[1];

	K			keys[ITEMS];
	uint32_t	rids[RIDS ? ITEMS : 1];
	uint32_t	place[ITEMS];	/* bin << 16 | rank in it */
	uint32_t	tile = blockIdx.x;
	uint32_t	s,
				start,
				count;

	if ((args.skip && *args.skip) ||
		tile >= (args.tile_count ? *args.tile_count : args.tiles))
		return;
	s = find_segment(args.first_tile, args.segment_count, tile);
	copy_words(&segment, &args.segments[s], PARTITION_THREADS);
	if (MAP == BY_SPLITTERS)
		splitters[0].load(&args.splitters[s], PARTITION_THREADS);
	if (MAP == BY_QUANTILES)
		copy_words(table, &args.quantiles->table, PARTITION_THREADS);
	for (uint32_t i = threadIdx.x; i <= args.bins; i += PARTITION_THREADS)
		bin_start[i] = 0;
	__syncthreads();
	start = segment.start + (tile - args.first_tile[s]) * TILE;
	count = min(segment.end - start, TILE);

	auto		rid_at = [&] (uint32_t at)
	{
		return RIDS && args.rids ? args.rids[start + at] : start + at;
	};

	/* Counts a key; where it goes is known when all are counted. */
	auto		count_in = [&] (int i, uint32_t bin)
	{
		place[i] = bin << 16 | count_in_warp(bin_start, bin);
	};

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * PARTITION_THREADS + threadIdx.x;

		if (at < count)
			keys[i] = args.keys[start + at];
	}
	if (MAP == BY_SPLITTERS)
	{
		const bool	by_rid = segment.by_rid != 0;

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	at = i * PARTITION_THREADS + threadIdx.x;

			count_in(i, at < count
					 ? splitters[0](by_rid ? (K) rid_at(at) : args.bits(keys[i]))
					 : args.bins);
		}
	}
	else if (MAP == BY_QUANTILES)
	{
		const QuantileLookup<K> lookup(args.quantiles, table[0]);

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	at = i * PARTITION_THREADS + threadIdx.x;

			count_in(i, at < count
					 ? (lookup(args.bits(keys[i]), [&]
							   {
								   /* not to be kept for when all are loaded */
								   return RIDS && args.rids ? __ldcg(args.rids + start + at)
									   : start + at;
							   }) >> args.digit_shift) & args.digit_mask
					 : args.bins);
		}
	}
	else
	{
		const BucketMap<K> map = segment.map;

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			count_in(i, i * PARTITION_THREADS + threadIdx.x < count
					 ? (map(args.bits(keys[i])) >> args.digit_shift) & args.digit_mask
					 : args.bins);
	}

	/* on their way while the counts are summed up */
	if (RIDS && args.rids)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * PARTITION_THREADS + threadIdx.x < count)
				rids[i] = args.rids[start + i * PARTITION_THREADS + threadIdx.x];
	}
	else if (RIDS)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			rids[i] = start + i * PARTITION_THREADS + threadIdx.x;
	}
	__syncthreads();

	/* Room in the buckets, and where each bin starts in the tile. */
	{
		uint32_t	counts[BINS_PER_THREAD];
		uint32_t	targets[BINS_PER_THREAD];
		uint32_t	sum = 0,
					total;

#pragma unroll
		for (int i = 0; i < BINS_PER_THREAD; i++)
		{
			uint32_t	bin = threadIdx.x * BINS_PER_THREAD + i;

			counts[i] = bin < args.bins ? bin_start[bin] : 0;
			targets[i] = counts[i] == 0 ? 0 :
				atomicAdd(&args.cursor[segment.first_bucket + bin], counts[i]);
			sum += counts[i];
		}
		sum = block_exclusive_sum<PARTITION_THREADS>(sum, room, &total);
#pragma unroll
		for (int i = 0; i < BINS_PER_THREAD; i++)
		{
			uint32_t	bin = threadIdx.x * BINS_PER_THREAD + i;

			if (bin < args.bins)
			{
				bin_start[bin] = sum;
				bin_target[bin] = targets[i] - sum;
			}
			sum += counts[i];
		}
	}
	__syncthreads();

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * PARTITION_THREADS + threadIdx.x < count)
		{
			uint32_t	bin = place[i] >> 16;
			uint32_t	to = bin_start[bin] + (place[i] & 0xffff);

			tile_keys[to] = keys[i];
			tile_bins[to] = (uint16_t) bin;
			if (RIDS)
				tile_rids[to] = rids[i];
		}
	__syncthreads();

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * PARTITION_THREADS + threadIdx.x;

		if (at < count)
		{
			uint32_t	to = bin_target[tile_bins[at]] + at;

			args.keys_out[to] = tile_keys[at];
			if (RIDS)
				args.rids_out[to] = tile_rids[at];
		}
	}
}

#endif							/* GPUSORT_PARTITION_CUH */
