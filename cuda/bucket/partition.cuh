/*
 * partition.cuh
 *	  A pass of gpu_bucket that moves keys and rids to the buckets of their
 *	  segments.
 *
 * A segment is a contiguous range of keys that is partitioned by itself: the
 * whole input in the first pass, a bucket of the previous pass in the next.  A
 * block takes a tile of a segment, orders it by bucket in shared memory,
 * reserves places in every bucket by one atomic addition, and writes runs.
 *
 * The pass is not stable, which saves the ranking by ballots and the chain of
 * tiles of a stable pass.  The last step of the bucket sort orders by (key,
 * rid).
 *
 * If all keys of a warp have the same bucket, as in sorted input, the warp
 * counts them by one addition, because the hardware executes 32 additions to one
 * word one after another.
 *
 * Memory: a tile's keys, bins and rids in shared memory.
 */
#ifndef GPUSORT_PARTITION_CUH
#define GPUSORT_PARTITION_CUH

#include "block/block_scan.cuh"
#include "key.cuh"
#include "block/quantile_map.cuh"

/* How a key's bucket is found. */
enum PartitionMap
{
	BY_SLICES,					/* BucketMap of the segment */
	BY_QUANTILES,				/* QuantileMap of the input */
	BY_SPLITTERS				/* Splitters of the segment, for values or
								 * rids */
};

#define PARTITION_THREADS	512
#define PARTITION_MAX_BINS	1024	/* most buckets of a segment in a pass */

/* Number of keys of a tile. */
template <class K> __host__ __device__ constexpr uint32_t
partition_tile()
{
	return PARTITION_THREADS * keys_per_thread<K>();
}

/*
 * Splitters: quantiles of a segment's sorted sample.  A value's bucket is found
 * by binary search.  If a splitter is frequent in the sample, keys equal to it
 * have their own bucket, behind the bucket of the values below it.
 */
#define SPLITTER_LEVELS		8
#define MAX_SPLITTERS		((1 << SPLITTER_LEVELS) - 1)

/* The buckets of a splitter. */
struct SplitterBase
{
	uint16_t	bucket;			/* bucket of the values below this splitter and
								 * above the previous one */
	uint16_t	frequent;		/* 1: bucket + 1 has the splitter's own value */
};

/* The splitters of a segment. */
template <class K> struct Splitters
{
	K			value[MAX_SPLITTERS + 1];	/* ascending, padded with all
											 * ones */
	SplitterBase base[MAX_SPLITTERS + 1];
	uint32_t	count;			/* number of splitters */
	uint32_t	pad[3];
};

/* Splitters in shared memory, as a search tree (quantile_map.cuh says why). */
template <class K> struct SplitterTree
{
	K			tree[MAX_SPLITTERS + 1];	/* values, breadth first, from index
											 * 1 */
	SplitterBase base[MAX_SPLITTERS + 1];

	/* Loads the splitters by all threads of the block. */
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

	/* The bucket of v. */
	__device__ __forceinline__ uint32_t operator() (K v) const
	{
		uint32_t	node = 1;
		uint32_t	next = 0;	/* node of the least splitter that is >= v; 0:
								 * none */
		SplitterBase found;

#pragma unroll
		for (int level = 0; level < SPLITTER_LEVELS; level++)
		{
			bool		right = tree[node] < v;

			next = right ? next : node;
			node = 2 * node + right;
		}
		found = base[node - (MAX_SPLITTERS + 1)];
		return found.bucket + (next && tree[next] == v ? found.frequent : 0);
	}
};

/* A range of keys that is partitioned by itself. */
template <class K> struct Segment
{
	BucketMap<K> map;			/* map by slices, set in round one only */
	uint32_t	start;			/* index of its first key */
	uint32_t	end;			/* index behind its last key */
	uint32_t	first_bucket;	/* number of its first bucket among all
								 * buckets */
	uint32_t	buckets;		/* number of its buckets */
	uint32_t	by_rid;			/* 1: all keys are equal; divide by rid */
};

/* Arguments of a pass.  Pointers are device memory. */
template <class K> struct PartitionArgs
{
	const K    *keys;
	const uint32_t *rids;		/* NULL: a key's index is its rid */
	K		   *keys_out;
	uint32_t   *rids_out;
	KeyBits<K>	bits;
	const Segment<K> *segments;
	const uint32_t *first_tile; /* number of each segment's first tile */
	uint32_t	segment_count;
	uint32_t	tiles;			/* number of tiles, at most the number of
								 * blocks */
	const uint32_t *tile_count; /* not NULL: the number of tiles, instead */
	uint32_t   *cursor;			/* by bucket: place of its next key */
	uint32_t	bins;			/* bins of a segment, at most
								 * PARTITION_MAX_BINS */
	int			digit_shift;	/* bin = (bucket >> digit_shift) & digit_mask */
	uint32_t	digit_mask;
	const uint32_t *skip;		/* not NULL and *skip nonzero: do nothing */
	const Splitters<K> *splitters;	/* splitters of each segment, with
									 * BY_SPLITTERS */
	const QuantileMap<K> *quantiles;	/* map of the input, with
										 * BY_QUANTILES */
};

/* Copies a struct of 32-bit words by all threads of a block. */
template <class T> __device__ __forceinline__ void
copy_words(T *to, const T *from, uint32_t threads)
{
	for (uint32_t i = threadIdx.x; i < sizeof(T) / 4; i += threads)
		reinterpret_cast<uint32_t *>(to)[i] = reinterpret_cast<const uint32_t *>(from)[i];
}

/*
 * Number of the segment that a tile belongs to: the last one whose first tile
 * is at or before it.
 */
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

/*
 * Adds 1 per lane to a counter in shared memory.  Returns the counter's value
 * before the lane's addition; all lanes of the warp call it.
 */
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

/* Bytes of dynamic shared memory of a pass. */
template <class K, bool RIDS> static size_t
partition_shared()
{
	return partition_tile<K>() *
		(sizeof(K) + sizeof(uint16_t) + (RIDS ? sizeof(uint32_t) : 0));
}

/*
 * One pass: moves keys, and with RIDS rids, to their buckets; a block per tile.
 */
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

	/*
	 * counts, then starts in the tile; the last entry is for lanes without a
	 * key
	 */
	__shared__ uint32_t bin_start[PARTITION_MAX_BINS + 1];
	__shared__ uint32_t bin_target[PARTITION_MAX_BINS];
	__shared__ uint32_t room[PARTITION_THREADS / 32];
	__shared__ Segment<K> segment;
	__shared__ SplitterTree<K> splitters[1];
	__shared__ SpanTable table[1];

	K			keys[ITEMS];
	uint32_t	rids[RIDS ? ITEMS : 1];
	uint32_t	bin_rank[ITEMS];	/* bin << 16 | rank in the bin */
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

	/* counts a key of the bin; the count before it is its rank in the bin */
	auto		count_in = [&] (int i, uint32_t bin)
	{
		bin_rank[i] = bin << 16 | count_in_warp(bin_start, bin);
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
								   /* bypass L1: loaded again later */
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

	/* start the loads of rids before the counts are summed up */
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

	/* reserve places in the buckets; compute each bin's start in the tile */
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
			uint32_t	bin = bin_rank[i] >> 16;
			uint32_t	to = bin_start[bin] + (bin_rank[i] & 0xffff);

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
