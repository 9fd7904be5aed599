/*
 * merge_rank.cuh
 *	  The kernels of the merge sort for inputs that do not fill a device: what counts is how
 *	  long one key takes, not how many instructions all of them do.
 *
 * A key's place among several sorted runs is its place in its own, plus how many keys of
 * each other run come before it.  Each thread finds these by binary searches that do not wait
 * for each other, so several runs are merged in the time of one search, without shares to be
 * cut and without a barrier.  Merging along the path (merge_block.cuh) has far fewer
 * comparisons, but each of them waits for the one before: beyond RANK_MOST keys it is ahead.
 *
 * Neighbours in a run look for about the same place: but for the last steps their lanes read
 * the same words.
 *
 * Keys of earlier runs come first where keys are equal: stable.
 */
#ifndef GPUSORT_MERGE_RANK_CUH
#define GPUSORT_MERGE_RANK_CUH

#include "merge/merge_block.cuh"

/* Threads of a tile and keys of each: small tiles busy more multiprocessors. */
#define RANK_SMALL_THREADS	512
#define RANK_SMALL_ITEMS	1
#define RANK_TILE_THREADS	256
#define RANK_TILE_ITEMS		4
#define RANK_SMALL_TILE		((uint32_t) (RANK_SMALL_THREADS * RANK_SMALL_ITEMS))
#define RANK_TILE			((uint32_t) (RANK_TILE_THREADS * RANK_TILE_ITEMS))

#define RANK_THREADS		128
#define RANK_WAYS_BITS		2			/* four runs are merged at once */

#define RANK_SMALL_MOST		(1u << 15)	/* keys of which small tiles are made */
#define RANK_MOST			(1u << 16)	/* that are merged by ranks */

/* Number of keys of which all pairs are compared; a tile has 4^k times as many keys. */
template <uint32_t TILE> __host__ __device__ constexpr uint32_t
rank_run()
{
	uint32_t	run = TILE;

	while (run > 32)
		run /= 4;
	return run;
}

static_assert(rank_run<RANK_SMALL_TILE>() == 32 && rank_run<RANK_TILE>() == 16,
			  "a warp has all keys of a run");

template <class K> struct RankArgs : PassArgs<K>
{
	int			width_bits;		/* binary logarithm of the keys of a run; the last run may have fewer */
};

/*
 * How many values come before the one that stands in run own, in the WAYS - 1 other runs
 * from base on: value(i) is the i-th.  Nothing is past end.
 */
template <class K, int WAYS, class Value> __device__ __forceinline__ uint32_t
rank_in_others(K mine, uint32_t own, uint32_t base, int width_bits, uint32_t end, Value value)
{
	uint32_t	from[WAYS];
	uint32_t	at[WAYS];		/* all before it come before */
	uint32_t	to[WAYS];		/* none from there on does */
	K			other[WAYS];
	bool		open = false;
	uint32_t	rank = 0;

	/* The nearest key of each: where all runs are in order, that is all. */
#pragma unroll
	for (int i = 1; i < WAYS; i++)
	{
		from[i] = min(base + ((own + i) % WAYS << width_bits), end);
		to[i] = min(from[i] + (1u << width_bits), end);
		at[i] = from[i];
		other[i] = value(own + i >= WAYS ? to[i] - 1 : min(from[i], end - 1));
	}
#pragma unroll
	for (int i = 1; i < WAYS; i++)
	{
		if (own + i >= WAYS)
			at[i] = mine < other[i] ? from[i] : to[i];
		else
			to[i] = other[i] < mine ? to[i] : from[i];
		open |= at[i] < to[i];
	}
	for (uint32_t step = open ? 1u << width_bits : 0; step > 0; step /= 2)
	{
		/* no branches: loads would not overlap, lanes would go separate ways */
#pragma unroll
		for (int i = 1; i < WAYS; i++)
			other[i] = value(min(at[i] + step, to[i]) - 1);
#pragma unroll
		for (int i = 1; i < WAYS; i++)
		{
			bool		earlier = own + i >= WAYS;
			bool		before = (other[i] < mine) | ((other[i] == mine) & earlier);

			at[i] += before & (at[i] + step <= to[i]) ? step : 0;
		}
	}
#pragma unroll
	for (int i = 1; i < WAYS; i++)
		rank += at[i] - from[i];
	return rank;
}

/*
 * Sorts one tile; tile_falls[] says whether some key was less than the one before it, here or
 * at the seam behind.
 */
template <class K, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS)
rank_tile_kernel(const PassArgs<K> args, uint32_t *tile_falls)
{
	constexpr uint32_t TILE = THREADS * ITEMS;
	constexpr uint32_t RUN = rank_run<TILE>();

	__shared__ __align__(16) K values[TILE];
	__shared__ uint16_t tile_from[TILE];

	K			mine[ITEMS];
	uint32_t	from[ITEMS];
	uint32_t	to[ITEMS];
	uint32_t	start = blockIdx.x * TILE;
	uint32_t	count = min(args.n - start, TILE);
	int			width_bits = 31 - __clz(RUN);
	bool		falls = false;

	/* Past the end: all ones, which stay behind all others. */
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		mine[i] = at < count ? args.bits(args.keys[start + at]) : all_ones<K>();
		values[at] = mine[i];
		from[i] = at;
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		falls |= from[i] + 1 < TILE && values[from[i] + 1] < mine[i];

	/* of a tile that its block has sorted already, where it lies, something else: but it fell */
	if (threadIdx.x == 0 && count == TILE && start + count < args.n)
		falls |= args.bits(args.keys[start + count]) < values[TILE - 1];
	falls = __syncthreads_or(falls);
	if (threadIdx.x == 0)
		tile_falls[blockIdx.x] = falls;
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	run = from[i] / RUN * RUN;

		to[i] = run;
#pragma unroll
		for (uint32_t j = 0; j < RUN; j++)
			to[i] += (values[run + j] < mine[i]) |
				((values[run + j] == mine[i]) & (run + j < from[i]));
	}
	for (;; width_bits += 2)
	{
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			to[i] = falls ? to[i] : from[i];
			values[to[i]] = mine[i];
			tile_from[to[i]] = (uint16_t) from[i];
		}
		__syncthreads();
		if (!falls || 1u << width_bits >= TILE)
			break;
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	at = i * THREADS + threadIdx.x;
			uint32_t	run = at >> width_bits;
			uint32_t	base = run / 4 * 4 << width_bits;

			mine[i] = values[at];
			from[i] = tile_from[at];
			to[i] = base + (at & ((1u << width_bits) - 1)) +
				rank_in_others<K, 4>(mine[i], run % 4, base, width_bits, TILE,
									 [&] (uint32_t other) { return values[other]; });
		}
	}

	/* the input may be where keys go: a tile's are read before one is written */
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			from[i] = start + tile_from[at];
			if (args.keys_out)
				mine[i] = args.keys[from[i]];
			if (args.rids)
				from[i] = args.rids[from[i]];
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			if (args.keys_out)
				args.keys_out[start + at] = mine[i];
			if (args.rids_out)
				args.rids_out[start + at] = from[i];
		}
	}
}

/* Merges WAYS neighbouring runs each, a thread per key. */
template <class K, int WAYS>
__global__ void __launch_bounds__(RANK_THREADS)
rank_merge_kernel(const RankArgs<K> args)
{
	uint32_t	at = blockIdx.x * RANK_THREADS + threadIdx.x;

	if (at < args.n)
	{
		K			key = args.keys[at];
		uint32_t	rid = args.rids_out ? args.rids[at] : 0;
		uint32_t	run = at >> args.width_bits;
		uint32_t	base = run / WAYS * WAYS << args.width_bits;
		uint32_t	to = base + (at & ((1u << args.width_bits) - 1)) +
			rank_in_others<K, WAYS>(args.bits(key), run % WAYS, base, args.width_bits, args.n,
									[&] (uint32_t other)
									{
										return args.bits(args.keys[other]);
									});

		if (args.keys_out)
			args.keys_out[to] = key;
		if (args.rids_out)
			args.rids_out[to] = rid;
	}
}

#endif							/* GPUSORT_MERGE_RANK_CUH */
