/*
 * merge_rank.cuh
 *	  Kernels of the merge sort for inputs that do not fill a device: merges
 *	  by ranks.
 *
 * In such inputs the latency of a launch matters, not the number of
 * instructions.  A key's place in the merge of several sorted runs is its index
 * in its own run plus, for each other run, the number of keys before it.  A
 * thread finds those numbers by binary searches that do not depend on each
 * other, so that merging several runs takes the time of one search, without
 * barriers.  Merging along the path (merge_block.cuh) compares far less often,
 * but each comparison depends on the one before; it is faster for more than
 * RANK_MAX keys.
 *
 * Lanes search for neighbouring keys of a run.  Except in the last steps they
 * read the same words.
 *
 * Of equal keys those of earlier runs come first: stable.
 *
 * Memory: static shared memory for a tile.
 */
#ifndef GPUSORT_MERGE_RANK_CUH
#define GPUSORT_MERGE_RANK_CUH

#include "merge/merge_block.cuh"

/*
 * Threads of a tile, and keys per thread.  Small tiles occupy more
 * multiprocessors.
 */
#define RANK_SMALL_THREADS	512
#define RANK_SMALL_ITEMS	1
#define RANK_TILE_THREADS	256
#define RANK_TILE_ITEMS		4
#define RANK_SMALL_TILE		((uint32_t) (RANK_SMALL_THREADS * RANK_SMALL_ITEMS))
#define RANK_TILE			((uint32_t) (RANK_TILE_THREADS * RANK_TILE_ITEMS))

#define RANK_THREADS		128
#define RANK_WAYS_BITS		2	/* log2 of the number of runs that a launch
								 * merges */

#define RANK_MAX_SMALL		(1u << 15)	/* most keys of inputs with small
										 * tiles */
#define RANK_MAX			(1u << 16)	/* most keys that are merged by ranks */

/*
 * Number of keys whose pairs are all compared, the first runs of a tile.  A
 * tile has 4^k times that number.
 */
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

/* Arguments of a merge by ranks. */
template <class K> struct RankArgs : PassArgs<K>
{
	int			width_bits;		/* log2 of the keys of a run; the last may be
								 * shorter */
};

/*
 * Number of keys before mine in the WAYS - 1 other runs of its group.  mine is
 * in run number own.  The group starts at index base; value(i) returns the key
 * at index i; there are none from index end on.
 */
template <class K, int WAYS, class Value> __device__ __forceinline__ uint32_t
rank_in_others(K mine, uint32_t own, uint32_t base, int width_bits, uint32_t end, Value value)
{
	uint32_t	from[WAYS];
	uint32_t	at[WAYS];		/* keys of the run up to here are before mine */
	uint32_t	to[WAYS];		/* keys of the run from here on are not */
	K			other[WAYS];
	bool		open = false;
	uint32_t	rank = 0;

	/*
	 * compare with each run's nearest key, which suffices if the runs are in
	 * order
	 */
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
		/* branch-free: loads overlap, and lanes do not diverge */
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
 * Sorts a tile.  tile_unsorted[tile] = 1 if a key is less than its predecessor
 * in the tile, or the next tile's first key less than the tile's last.
 */
template <class K, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS)
rank_tile_kernel(const PassArgs<K> args, uint32_t *tile_unsorted)
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
	bool		unsorted = false;

	/* padding behind the last key is all ones, which stays behind all keys */
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
		unsorted |= from[i] + 1 < TILE && values[from[i] + 1] < mine[i];

	/*
	 * The next tile's first key may be overwritten already, if the sort is in
	 * place and that tile was out of order.  Then that tile reports it,
	 * whatever is read here.
	 */
	if (threadIdx.x == 0 && count == TILE && start + count < args.n)
		unsorted |= args.bits(args.keys[start + count]) < values[TILE - 1];
	unsorted = __syncthreads_or(unsorted);
	if (threadIdx.x == 0)
		tile_unsorted[blockIdx.x] = unsorted;
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
			to[i] = unsorted ? to[i] : from[i];
			values[to[i]] = mine[i];
			tile_from[to[i]] = (uint16_t) from[i];
		}
		__syncthreads();
		if (!unsorted || 1u << width_bits >= TILE)
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

	/* in place: a tile's keys are read before the first is written */
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

/* Merges groups of WAYS neighbouring runs; a thread per key. */
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
