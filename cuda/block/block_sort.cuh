/*
 * block_sort.cuh
 *	  Sorts each bucket that fits the shared memory of a block: a bin sort
 *	  with about one key per bin.
 *
 * Chen et al. (2009) sort buckets by bitonic networks.  Here each key gets a
 * 32-bit fraction: its linear position between the bucket's least and greatest
 * key, times 2^32.  The upper bits of the fraction are the number of a bin.
 * Keys are counted by bin and scattered into bins.  This takes one addition in
 * shared memory per key for every key width; a radix sort takes one ranking per
 * digit.  There are twice as many bins as keys.  The few bins with several keys
 * are then sorted (block_items.cuh).
 *
 * If a bin has very many keys, all keys are sorted by merging.  Buckets of
 * skewed keys, where this is frequent, merge pairs (pair_sort.cuh).  Other
 * buckets merge items (block_items.cuh), which needs fewer registers.
 *
 * A fraction is computed from 32 bits of the key.  If the bucket's keys differ
 * only in those bits, fractions are exact: they order the keys.  The scaled rid
 * then fills their low bits, so that equal keys fall into different bins.
 * Item order (fraction, rid) is then the order (key, rid).  Otherwise keys with
 * equal fractions are compared.
 *
 * Memory: shared memory for fraction, rid and position of each key, 10 bytes
 * for every key width, and the bins' counters.  If keys are output, they are
 * read again from their positions at the end, when they are still in the
 * caches.
 *
 * Stability: the order is by (key, rid), and rids ascend with the input.  If the
 * problem's rids do not ascend, positions are used instead of rids, and
 * rid_table has the rids.
 */
#ifndef GPUSORT_BLOCK_SORT_CUH
#define GPUSORT_BLOCK_SORT_CUH

#include "block/block_items.cuh"
#include "block/block_scan.cuh"
#include "block/pair_sort.cuh"
#include "block/quantile_map.cuh"

/* Block sizes: the usual one, and one for inputs that a single block sorts. */
#define BLOCK_SORT_THREADS	512
#define BLOCK_SORT_ITEMS	9	/* odd: no bank conflicts in blocked order */
#define BLOCK_SORT_BIN_BITS	13	/* log2 of the number of bins */
#define LARGE_SORT_THREADS	1024
#define LARGE_SORT_ITEMS	17
#define LARGE_SORT_BIN_BITS	14

/* Most keys of a bucket. */
#define BLOCK_SORT_CAPACITY	(BLOCK_SORT_THREADS * BLOCK_SORT_ITEMS)
#define LARGE_SORT_CAPACITY	(LARGE_SORT_THREADS * LARGE_SORT_ITEMS)

/* Order of the whole input, found while keys are counted. */
#define INPUT_UNORDERED		0
#define INPUT_SORTED		1
#define INPUT_REVERSED		2
#define INPUT_NEARLY_SORTED	3	/* perhaps: the pieces are sorted first */

/* ------------------------------------------------------------------------
 * Fractions
 * ------------------------------------------------------------------------
 */

/* With fewer values of x than this, other bits of the key are chosen. */
#define COARSE_RANGE			(1u << 12)

/*
 * With fewer values of x than this many keys are equal; rids then fill the
 * fractions.
 */
#define NARROW_RANGE			(1u << 16)

/* Upper bound of fractions: 2^32 less the rounding errors of floats. */
#define FRACTION_RANGE			4290000000.0f

/* A monotone map from x, 32 bits of a key, and a rid to a 32-bit fraction. */
struct FractionMap
{
	uint32_t	lo;				/* least x of the bucket */
	uint32_t	width;			/* fractions per value of x */
	uint32_t	rid_lo;			/* least rid of the bucket */
	uint32_t	rid_scale;		/* fractions per shifted rid, times 2^32; 0: no
								 * rids */
	int			rid_shift;		/* left shift of a rid less rid_lo */
	bool		coarse;			/* x has too few values: choose other bits */

	__device__ __forceinline__ uint32_t operator() (uint32_t x, uint32_t rid) const
	{
		return (x - lo) * width + __umulhi((rid - rid_lo) << rid_shift, rid_scale);
	}
};

/* The map from lo .. hi to all fractions, without rids. */
__device__ __forceinline__ FractionMap
make_fraction_map(uint32_t lo, uint32_t hi)
{
	FractionMap	map;
	float		width = FRACTION_RANGE / ((float) (hi - lo) + 1.0f);

	map.lo = lo;
	map.width = max(1u, __float2uint_rz(min(width, 2147483000.0f)));
	map.rid_lo = 0;
	map.rid_scale = 0;
	map.rid_shift = 0;
	map.coarse = hi - lo < COARSE_RANGE;
	return map;
}

/* Fills the fractions of each value of x with the rids from rid_lo to rid_hi. */
__device__ __forceinline__ void
fill_with_rids(FractionMap *map, uint32_t rid_lo, uint32_t rid_hi)
{
	uint32_t	top;

	map->rid_lo = rid_lo;
	map->rid_shift = __clz((rid_hi - rid_lo) | 1);
	top = (rid_hi - rid_lo) << map->rid_shift;
	map->rid_scale = top == 0 || map->width == 1 ? 0 :
		__float2uint_rz((float) map->width *
						(FRACTION_RANGE / ((float) top + 1.0f)) * 0.999f);
}

/* ------------------------------------------------------------------------
 * The kernel
 * ------------------------------------------------------------------------
 */

/* Arguments of the kernel.  Pointers are device memory. */
template <class K> struct BlockSortArgs
{
	const K    *keys;			/* keys by bucket; may be keys_out */
	const uint32_t *rids;		/* their rids, may be rids_out; NULL: a key's
								 * index is its rid */
	K		   *keys_out;		/* NULL: do not write keys */
	uint32_t   *rids_out;		/* NULL: do not write rids */
	const uint32_t *rid_table;	/* not NULL: write rid_table[r] for rid r */
	KeyBits<K>	bits;
	uint32_t	n;
	const BucketMap<K> *map;	/* map that made the buckets, or NULL */
	const QuantileMap<K> *quantiles;	/* SKEWED: map that made the buckets;
										 * NULL: made by a later round */
	const uint16_t *tags;		/* the buckets' tags, with quantiles */
	const K    *bounds;			/* not NULL: least and greatest value of each
								 * bucket; least > greatest: unknown */
	const uint32_t *bucket_start;	/* index of each bucket's first key; NULL:
									 * all n keys are one bucket */
	const uint32_t *bucket_end;
	const uint32_t *order;		/* INPUT_* of the input, or NULL: unordered.  An
								 * ordered input is only copied from the arrays
								 * below; a nearly sorted one is skipped */
	const K    *input_keys;
	const uint32_t *input_rids;
	K		   *edges;			/* not NULL: gets the least and the greatest
								 * value of each bucket */
};

/* Bytes of the bins' counters and of one more, aligned. */
template <int BIN_BITS> __host__ __device__ constexpr size_t
bins_bytes()
{
	return (sizeof(uint16_t) << BIN_BITS) + 16;
}

/* Bytes of dynamic shared memory of the kernel. */
template <int THREADS, int ITEMS, int BIN_BITS> static constexpr size_t
block_sort_shared()
{
	return THREADS * ITEMS * (sizeof(Item) + sizeof(uint16_t)) +
		bins_bytes<BIN_BITS>();
}

/* Copies an input that is in ascending or strictly descending order. */
template <class K, bool RIDS> __device__ static void
copy_ordered(const BlockSortArgs<K> &args, bool reversed)
{
	uint64_t	step = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
		 i < args.n; i += step)
	{
		uint32_t	from = reversed ? args.n - 1 - (uint32_t) i : (uint32_t) i;

		if (args.keys_out)
			args.keys_out[i] = args.input_keys[from];
		if (RIDS && args.rids_out)
			args.rids_out[i] = args.input_rids ? args.input_rids[from] : from;
	}
}

/*
 * Sorts a bucket as (value, rid) pairs.  Requires that a key is its value, or
 * that keys are not written.
 */
template <class K, bool RIDS, int THREADS, int ITEMS> __device__ __noinline__ static void
sort_as_pairs(const BlockSortArgs<K> args, uint32_t start, uint32_t count,
			  unsigned char *shared)
{
	const PairRoom<K> room(shared, THREADS * ITEMS);
	uint32_t	threads = pair_threads<THREADS, ITEMS>(count);
	Pair<K>		pairs[ITEMS];

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * threads + threadIdx.x;

		pairs[i] = last_pair<K>();
		if (threadIdx.x < threads && at < count)
			pairs[i] = make_pair<K>(args.bits(args.keys[start + at]),
									RIDS && args.rids ? args.rids[start + at] : start + at);
	}
	block_sort_pairs<K, ITEMS>(pairs, room, threads);
	for (uint32_t at = threadIdx.x; at < count; at += THREADS)
	{
		Pair<K>		pair = room.get(at);

		if (args.keys_out)
			args.keys_out[start + at] = pair.value;
		if (RIDS && args.rids_out)
			args.rids_out[start + at] = args.rid_table ? args.rid_table[pair.rid] : pair.rid;
	}
}

/*
 * Sorts buckets, a block per bucket.  Buckets larger than a block's capacity
 * are left to the next round.  SKEWED: the buckets were made for skewed keys.
 */
template <class K, bool RIDS, int THREADS, int ITEMS, int BIN_BITS, int BLOCKS,
		  bool SKEWED>
__global__ void __launch_bounds__(THREADS, BLOCKS)
block_sort_kernel(const BlockSortArgs<K> args)
{
	constexpr uint32_t CAPACITY = THREADS * ITEMS;
	constexpr uint32_t BINS = 1u << BIN_BITS;
	constexpr int BINS_PER_THREAD = BINS / THREADS;
	constexpr int WARPS = THREADS / 32;
	constexpr bool IN_PLACE = ITEMS == BLOCK_SORT_ITEMS;	/* sorts in place */

	static_assert(BINS_PER_THREAD == 16, "a thread scans two vectors of counters");

	/*
	 * counters are 16-byte aligned, as sizeof(Item) * CAPACITY is a multiple of
	 * 16
	 */
	extern __shared__ __align__(16) unsigned char shared[];
	Item	   *items = reinterpret_cast<Item *>(shared);
	uint32_t   *bins = reinterpret_cast<uint32_t *>(items + CAPACITY);
	uint16_t   *bin_start = reinterpret_cast<uint16_t *>(bins);
	uint16_t   *from = bin_start + bins_bytes<BIN_BITS>() / sizeof(uint16_t);

	__shared__ K key_room[2 * WARPS];
	__shared__ uint32_t room[4 * WARPS];
	__shared__ FractionMap shared_map;

	uint32_t	bucket = blockIdx.x;
	uint32_t	fraction[ITEMS];	/* first 32 bits of the key, then fractions */
	uint32_t	rids[ITEMS];
	uint32_t	rank[ITEMS];	/* index within the bin */
	uint32_t	start = 0,
				count = args.n;
	uint32_t	bin_mask = 0;
	K			base = 0;
	int			shift = 0;
	bool		exact,
				clustered,
				dense;

	if (args.order && *args.order != INPUT_UNORDERED)
	{
		if (*args.order != INPUT_NEARLY_SORTED)
			copy_ordered<K, RIDS>(args, *args.order == INPUT_REVERSED);
		return;
	}
	if (args.bucket_start)
	{
		start = args.bucket_start[bucket];
		count = args.bucket_end[bucket] - start;
	}
	if (count == 0 || count > CAPACITY)
		return;					/* empty, or left to the next round */

	const K    *keys = args.keys + start;
	/* 32 bits of the key: those below the bucket's map, or the highest */
	if (sizeof(K) > 4)
	{
		shift = highest_bit(args.bits.mask) - 31;
		if (SKEWED && args.quantiles)
		{
			uint32_t	tag = args.tags[bucket];
			uint32_t	span = BUCKET_SPAN(tag);

			base = tag & BUCKET_EQUAL ? args.quantiles->only[span]
				: args.quantiles->base[span];
			shift = tag & BUCKET_EQUAL ? 0 : args.quantiles->shift[span];
		}
		else if (!SKEWED && args.map && bucket > 0 && bucket < args.map->last)
		{
			base = args.map->lo;
			shift = args.map->shift;
		}
		if (args.bounds)
		{
			K			lo = args.bounds[2 * (uint64_t) bucket];
			K			hi = args.bounds[2 * (uint64_t) bucket + 1];

			if (lo <= hi)
			{
				base = lo;
				shift = highest_bit((K) ((hi - lo) | 1)) - 31;
			}
		}
		shift = max(shift, 0);
	}
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
			fraction[i] = (uint32_t) ((args.bits(keys[at]) - base) >> shift);
	}

	/*
	 * two loops, because a condition per key would keep the loads from
	 * overlapping
	 */
	if (RIDS && args.rids)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				rids[i] = args.rids[start + i * THREADS + threadIdx.x];
	}
	else
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			rids[i] = (RIDS ? start : 0) + i * THREADS + threadIdx.x;
	}
#pragma unroll
	for (int i = 0; i < 2; i++)
		reinterpret_cast<uint4 *>(bins)[i * THREADS + threadIdx.x] =
			make_uint4(0, 0, 0, 0);
	{
		uint32_t	lo = ~0u,
					hi = 0;

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
			{
				lo = min(lo, fraction[i]);
				hi = max(hi, fraction[i]);
			}
		lo = warp_min(lo);
		hi = ~warp_min(~hi);
		if (threadIdx.x % 32 == 0)
		{
			room[threadIdx.x / 32] = lo;
			room[WARPS + threadIdx.x / 32] = hi;
		}
		__syncthreads();
		if (threadIdx.x < 32)
		{
			lo = warp_min(room[threadIdx.x % WARPS]);
			hi = ~warp_min(~room[WARPS + threadIdx.x % WARPS]);
			if (threadIdx.x == 0)
				shared_map = make_fraction_map(lo, hi);
		}
		__syncthreads();
	}
	exact = shift == 0;
	if (shared_map.coarse && !exact)
	{
		K			lo = all_ones<K>(),
					hi = 0;

		/* choose the 32 bits again: those below the bits that all keys share */
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
			{
				K			v = args.bits(keys[i * THREADS + threadIdx.x]);

				lo = v < lo ? v : lo;
				hi = v > hi ? v : hi;
			}
		block_min_max<THREADS>(lo, hi, key_room);
		base = lo;
		shift = max(highest_bit((K) ((hi - lo) | 1)) - 31, 0);
		exact = shift == 0;
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				fraction[i] = (uint32_t)
					((args.bits(keys[i * THREADS + threadIdx.x]) - base) >> shift);
		__syncthreads();
		if (threadIdx.x == 0)
			shared_map = make_fraction_map(0, (uint32_t) ((hi - lo) >> shift));
		__syncthreads();
	}
	if (exact && shared_map.width > 0xffffffffu / NARROW_RANGE)
	{
		uint32_t	ranges[4] = {~0u, 0, ~0u, 0};

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
			{
				ranges[0] = min(ranges[0], rids[i]);
				ranges[1] = max(ranges[1], rids[i]);
			}
		block_ranges<THREADS>(ranges, room);
		if (threadIdx.x == 0)
			fill_with_rids(&shared_map, ranges[0], ranges[1]);
		__syncthreads();
	}
	{
		const FractionMap fractions = shared_map;

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
			{
				uint32_t	bin,
							half;

				fraction[i] = fractions(fraction[i], rids[i]);
				bin = fraction[i] >> (32 - BIN_BITS);
				half = (bin & 1) * 16;
				rank[i] = (atomicAdd(&bins[bin >> 1], 1u << half) >> half) & 0xffff;
			}
	}
	__syncthreads();

	/* the bins' starts, and the thread's bins that have several items */
	{
		uint4		vectors[2];
		uint32_t	words[BINS_PER_THREAD / 2];
		uint32_t	sum = 0,
					most = 0,
					total;

		vectors[0] = reinterpret_cast<uint4 *>(bins)[threadIdx.x * 2];
		vectors[1] = reinterpret_cast<uint4 *>(bins)[threadIdx.x * 2 + 1];
		words[0] = vectors[0].x;
		words[1] = vectors[0].y;
		words[2] = vectors[0].z;
		words[3] = vectors[0].w;
		words[4] = vectors[1].x;
		words[5] = vectors[1].y;
		words[6] = vectors[1].z;
		words[7] = vectors[1].w;
#pragma unroll
		for (int i = 0; i < BINS_PER_THREAD / 2; i++)
		{
			sum += words[i];	/* two 16-bit counters; neither overflows */
			most = __vmaxu2(most, words[i]);
		}
		sum = (sum & 0xffff) + (sum >> 16);
		sum = block_exclusive_sum<THREADS>(sum, room, &total);
#pragma unroll
		for (int i = 0; i < BINS_PER_THREAD / 2; i++)
		{
			uint32_t	low = words[i] & 0xffff;
			uint32_t	high = words[i] >> 16;

			bin_mask |= (uint32_t) (low > 1 && low <= BLOCK_SORT_FEW) << (2 * i) |
				(uint32_t) (high > 1 && high <= BLOCK_SORT_FEW) << (2 * i + 1);
			words[i] = sum | (sum + low) << 16;
			sum += low + high;
		}
		reinterpret_cast<uint4 *>(bins)[threadIdx.x * 2] =
			make_uint4(words[0], words[1], words[2], words[3]);
		reinterpret_cast<uint4 *>(bins)[threadIdx.x * 2 + 1] =
			make_uint4(words[4], words[5], words[6], words[7]);
		if (threadIdx.x == 0)
			bin_start[BINS] = (uint16_t) count;
		most = max(most & 0xffff, most >> 16);
		dense = __syncthreads_or(most > BLOCK_SORT_FEW);
		clustered = dense &&
			__syncthreads_or(most > (SKEWED ? SKEWED_SORT_CLUSTERED : BLOCK_SORT_CLUSTERED));
	}
	if constexpr (SKEWED)
	{
		if (clustered && (!args.keys_out || (args.bits.shift == 0 &&
										   args.bits.mask == all_ones<K>())))
		{
			sort_as_pairs<K, RIDS, THREADS, ITEMS>(args, start, count, shared);
			return;
		}
	}

	const bool	need_from = args.keys_out || args.edges || !exact || clustered;

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			uint32_t	to = bin_start[fraction[i] >> (32 - BIN_BITS)] + rank[i];

			items[to] = ITEM(fraction[i], rids[i]);
			if (need_from)
				from[to] = (uint16_t) at;
		}
	}
	__syncthreads();
	{
		ItemOrder<K> order = {keys, args.bits, exact};
		const uint16_t *starts = bin_start + threadIdx.x * BINS_PER_THREAD;

		if (dense && !clustered)
			sort_dense_bins<K, THREADS, ITEMS, BIN_BITS>(order, bin_start, items, from,
														 count, need_from);
		if (clustered)
			block_merge_sort<K, THREADS, ITEMS>(order, items, from, count);
		else if (need_from)
			sort_bins<K, true>(order, bin_mask, starts, items, from);
		else
			sort_bins<K, false>(order, bin_mask, starts, items, from);
	}
	__syncthreads();

	if (args.edges && threadIdx.x < 2)
		args.edges[2 * (uint64_t) bucket + threadIdx.x] =
			args.bits(keys[from[threadIdx.x == 0 ? 0 : count - 1]]);
	if (args.keys_out && IN_PLACE)
	{
		K			sorted[IN_PLACE ? ITEMS : 1];

		/* in place: all keys are read before the first is written */
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				sorted[IN_PLACE ? i : 0] = keys[from[i * THREADS + threadIdx.x]];
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				args.keys_out[start + i * THREADS + threadIdx.x] = sorted[IN_PLACE ? i : 0];
	}
	else if (args.keys_out)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				args.keys_out[start + i * THREADS + threadIdx.x] =
					keys[from[i * THREADS + threadIdx.x]];
	}
	if (RIDS && args.rids_out && args.rid_table)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				args.rids_out[start + i * THREADS + threadIdx.x] =
					args.rid_table[ITEM_RID(items[i * THREADS + threadIdx.x])];
	}
	else if (RIDS && args.rids_out)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
				args.rids_out[start + i * THREADS + threadIdx.x] =
					ITEM_RID(items[i * THREADS + threadIdx.x]);
	}
}

#endif							/* GPUSORT_BLOCK_SORT_CUH */
