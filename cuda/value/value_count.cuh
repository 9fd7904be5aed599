/*
 * value_count.cuh
 *	  Histogram of the keys: the number of occurrences of each value 0 ..
 *	  range - 1.
 *
 * Abdel-hafeez et al. (2018) add to counters in global memory.  The L2 cache
 * then processes about one addition per clock and cache slice, and additions to
 * one counter one after another.  Here most additions go to shared memory.
 * There are three methods; count_plan() chooses one:
 *
 *	windows		The range is divided into windows whose counters fit the shared
 *				memory of a block.  A block counts the values of one window.
 *				Blocks of different windows read the same keys at about the
 *				same time, so that the keys come from memory once and then
 *				from the L2 cache.  More windows than necessary pay for few
 *				keys: then fewer blocks count the same values, and fewer
 *				counters are added up.
 *	pages		A first kernel scatters the keys to buckets of at most 2^15
 *				values, and keeps only their low bits as 16-bit words.  A
 *				second kernel counts one bucket after another.
 *	direct		Counters in global memory, for ranges too sparse for the others.
 *
 * Additions of 1 to one shared counter, whose result is not used, take no
 * longer than additions to different counters.  For other additions the lanes
 * of a warp with the same value add once together (add_in_warp()).
 *
 * Memory: the counters belong to the caller.  Pages take 2 bytes per key plus
 * what partly filled pages waste.
 */
#ifndef GPUSORT_VALUE_COUNT_CUH
#define GPUSORT_VALUE_COUNT_CUH

#include "value/value_plan.cuh"

/* ------------------------------------------------------------------------
 * Windows and direct
 * ------------------------------------------------------------------------
 */
/*
 * Replaces each count by the sum of the counts before it.  size is the number
 * of counts, padded to a multiple of SUM_STEP.  One block.
 */
__device__ __forceinline__ void
sum_up(uint32_t *counts, uint32_t size)
{
	__shared__ uint32_t room[COUNT_THREADS / 32];
	uint32_t	carry = 0;

	for (uint32_t base = 0; base < size; base += SUM_STEP)
	{
		uint4	   *at = reinterpret_cast<uint4 *>(counts + base) + threadIdx.x;
		uint4		count = __ldcg(at);
		uint32_t	total;
		uint32_t	sum = carry +
			block_exclusive_sum<COUNT_THREADS>(count.x + count.y + count.z + count.w,
											   room, &total);

		*at = make_uint4(sum, sum + count.x, sum + count.x + count.y,
						 sum + count.x + count.y + count.z);
		carry += total;
		__syncthreads();
	}
}

/*
 * Counts values by windows: block b counts window b % windows in every
 * (gridDim.x / windows)-th chunk of the keys.  blocks_done not NULL: the last
 * block replaces counts by prefix sums.
 */
template <class K>
__global__ void __launch_bounds__(COUNT_THREADS, RESIDENT_THREADS / COUNT_THREADS)
count_windows_kernel(const K *keys, uint32_t n, const ValueMap<K> map, uint32_t windows,
					 uint32_t window_values, uint32_t *counts, uint32_t *blocks_done)
{
	constexpr uint32_t CHUNK = COUNT_THREADS * COUNT_UNROLL * KeyVector<K>::SIZE;

	extern __shared__ __align__(16) uint32_t shared_counts[];
	__shared__ uint32_t last;

	uint32_t	first = blockIdx.x % windows * window_values;
	uint32_t	count = min(window_values, map.last + 1 - first);

	for (uint32_t i = threadIdx.x; i < window_values; i += COUNT_THREADS)
		shared_counts[i] = 0;
	__syncthreads();
	for (uint64_t base = (uint64_t) (blockIdx.x / windows) * CHUNK; base < n;
		 base += (uint64_t) (gridDim.x / windows) * CHUNK)
	{
		if (base + CHUNK <= n)
		{
			const KeyVector<K> *from = reinterpret_cast<const KeyVector<K> *>(keys + base);
			KeyVector<K> vectors[COUNT_UNROLL];

#pragma unroll
			for (int u = 0; u < COUNT_UNROLL; u++)
				vectors[u] = from[u * COUNT_THREADS + threadIdx.x];
#pragma unroll
			for (int u = 0; u < COUNT_UNROLL; u++)
#pragma unroll
				for (int i = 0; i < KeyVector<K>::SIZE; i++)
				{
					uint32_t	v = map(vectors[u].key[i]) - first;

					if (v < count)
						atomicAdd(&shared_counts[v], 1);
				}
		}
		else
			for (uint64_t at = base + threadIdx.x; at < n; at += COUNT_THREADS)
			{
				uint32_t	v = map(keys[at]) - first;

				if (v < count)
					atomicAdd(&shared_counts[v], 1);
			}
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < count; i += COUNT_THREADS)
		if (shared_counts[i])
			atomicAdd(&counts[first + i], shared_counts[i]);
	if (!blocks_done)
		return;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(blocks_done, 1) == gridDim.x - 1;
	__syncthreads();
	if (last)
	{
		__threadfence();
		sum_up(counts, map.last + 1);
	}
}

/*
 * Counts values in global memory.  Additions of all warps to one counter would
 * wait for each other.  A warp therefore counts in registers the value that is
 * the most frequent among its first keys, and adds the result once.
 */
template <class K>
__global__ void __launch_bounds__(COUNT_THREADS)
count_direct_kernel(const K *keys, uint32_t n, const ValueMap<K> map, uint32_t *counts)
{
	uint64_t	step = (uint64_t) gridDim.x * COUNT_THREADS;
	uint64_t	first = (uint64_t) blockIdx.x * COUNT_THREADS + threadIdx.x;
	int			lanes;
	uint32_t	frequent = common_in_warp(first < n ? map(keys[first]) : 0, first < n, &lanes);
	uint32_t	times = 0;

	if (lanes < FREQUENT_LANES)
		frequent = ~0u;

	/* the loop ends for whole warps: lanes behind the last key are inactive */
	for (uint64_t at = first; at - threadIdx.x % 32 < n; at += step)
	{
		uint32_t	v = at < n ? map(keys[at]) : 0;
		bool		active = at < n && v != frequent;
		uint32_t	lane = __ffs(__ballot_sync(0xffffffffu, active) | 0x80000000u) - 1;

		times += at < n && v == frequent;
		(void) add_in_warp(counts, v, active, __shfl_sync(0xffffffffu, v, lane));
	}
	times = warp_sum(times);
	if (threadIdx.x % 32 == 0 && times > 0)
		atomicAdd(&counts[frequent], times);
}

/* ------------------------------------------------------------------------
 * Pages
 * ------------------------------------------------------------------------
 *
 * The keys of a bucket lie on pages.  A tile reserves places in a bucket by one
 * addition to the bucket's size.  The thread whose places include the first one
 * of a page takes the page and enters it in the page table; threads of other
 * tiles with places on that page wait for the entry.  No deadlock: a thread
 * enters its own pages before it waits.
 */

/*
 * Where a tile's keys of one bucket go: up to split to one page, then to the
 * next.
 */
struct ScatterRun
{
	uint32_t	split;			/* index in the tile of the second page's first
								 * key */
	uint32_t	base[2];		/* index in pages[] less index in the tile, by
								 * page */
};

/* Shared memory of scatter_kernel's block. */
struct ScatterShared
{
	uint32_t	tile_values[SCATTER_TILE]; /* values ordered by bucket */
	uint32_t	bucket_start[MAX_BUCKETS];	/* count, then index of the first
											 * value */
	ScatterRun	runs[MAX_BUCKETS];
	uint32_t	room[SCATTER_THREADS / 32];	/* for block_exclusive_sum() */
};

/*
 * Scatters a tile of count keys to the pages of their buckets.  FULL:
 * SCATTER_TILE keys.
 */
template <class K, bool FULL> __device__ __forceinline__ void
scatter_tile(const K *keys, uint32_t count, const ValueMap<K> &map, int bucket_bits,
		  int page_bits, uint32_t bucket_pages, ScatterState *state, uint32_t *page_table,
		  uint16_t *pages, ScatterShared *shared)
{
	constexpr int PER_THREAD = MAX_BUCKETS / SCATTER_THREADS;

	uint32_t   *tile_values = shared->tile_values;
	uint32_t   *bucket_start = shared->bucket_start;
	ScatterRun    *runs = shared->runs;
	uint32_t   *room = shared->room;
	uint32_t	values[SCATTER_ITEMS];
	uint32_t	rank[SCATTER_ITEMS];
	uint32_t	low_bits = (1u << bucket_bits) - 1;
	uint32_t	common;
	int			lanes;

#pragma unroll
	for (int i = 0; i < SCATTER_ITEMS; i++)
	{
		uint32_t	at = i * SCATTER_THREADS + threadIdx.x;

		values[i] = FULL || at < count ? map(keys[at]) : 0;
	}
	for (uint32_t i = threadIdx.x; i < MAX_BUCKETS; i += SCATTER_THREADS)
		bucket_start[i] = 0;
	common = common_in_warp(values[0] >> bucket_bits, FULL || threadIdx.x < count, &lanes);
	if (lanes < 2 * FREQUENT_LANES)
		common = ~0u;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < SCATTER_ITEMS; i++)
		rank[i] = add_in_warp(bucket_start, values[i] >> bucket_bits,
							  FULL || i * SCATTER_THREADS + threadIdx.x < count, common);
	__syncthreads();
	{
		uint32_t	counts[PER_THREAD];
		uint32_t	from[PER_THREAD];
		uint32_t	sum = 0,
					total;

#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			counts[i] = bucket_start[threadIdx.x * PER_THREAD + i];
			sum += counts[i];
		}

		/* enter the pages whose first place is in this tile, before any wait */
#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			uint32_t	bucket = threadIdx.x * PER_THREAD + i;
			uint32_t	last_page;

			from[i] = 0;
			if (counts[i] == 0)
				continue;
			from[i] = atomicAdd(&state->size[bucket], counts[i]);
			last_page = (from[i] + counts[i] - 1) >> page_bits;
			if (from[i] == 0 || (from[i] - 1) >> page_bits != last_page)
				*(volatile uint32_t *)
					&page_table[(uint64_t) bucket * bucket_pages + last_page] =
					atomicAdd(&state->pages_used, 1) + 1;
		}
		sum = block_exclusive_sum<SCATTER_THREADS>(sum, room, &total);
#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			uint32_t	bucket = threadIdx.x * PER_THREAD + i;
			uint32_t	in_page = from[i] & ((1u << page_bits) - 1);

			if (counts[i] > 0)
			{
				const volatile uint32_t *entry = page_table +
					(uint64_t) bucket * bucket_pages + (from[i] >> page_bits);
				ScatterRun    *run = &runs[bucket];
				uint32_t	page;

				while ((page = entry[0]) == 0)
					;
				run->split = sum + (1u << page_bits) - in_page;
				run->base[0] = ((page - 1) << page_bits) + in_page - sum;
				if (run->split < sum + counts[i])
				{
					while ((page = entry[1]) == 0)
						;
					run->base[1] = ((page - 1) << page_bits) - run->split;
				}
			}
			bucket_start[bucket] = sum;
			sum += counts[i];
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < SCATTER_ITEMS; i++)
		if (FULL || i * SCATTER_THREADS + threadIdx.x < count)
			tile_values[bucket_start[values[i] >> bucket_bits] + rank[i]] = values[i];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < SCATTER_ITEMS; i++)
	{
		uint32_t	at = i * SCATTER_THREADS + threadIdx.x;

		if (FULL || at < count)
		{
			uint32_t	v = tile_values[at];
			const ScatterRun *run = &runs[v >> bucket_bits];

			pages[run->base[at >= run->split] + at] = (uint16_t) (v & low_bits);
		}
	}
}

/* Scatters all keys to pages; a block per tile. */
template <class K>
__global__ void __launch_bounds__(SCATTER_THREADS, RESIDENT_BLOCKS(SCATTER_THREADS, 3))
scatter_kernel(const K *keys, uint32_t n, const ValueMap<K> map, int bucket_bits,
			int page_bits, uint32_t bucket_pages, ScatterState *state, uint32_t *page_table,
			uint16_t *pages)
{
	__shared__ ScatterShared shared;

	uint32_t	start = blockIdx.x * SCATTER_TILE;

	if (n - start >= SCATTER_TILE)
		scatter_tile<K, true>(keys + start, SCATTER_TILE, map, bucket_bits, page_bits,
						   bucket_pages, state, page_table, pages, &shared);
	else
		scatter_tile<K, false>(keys + start, n - start, map, bucket_bits, page_bits,
							bucket_pages, state, page_table, pages, &shared);
}

/*
 * Counts the keys on the pages.  Each block counts an equal share of all pages,
 * bucket by bucket.
 */
static __global__ void __launch_bounds__(COUNT_THREADS, 1)
count_pages_kernel(const uint16_t *pages, const uint32_t *page_table,
				   const ScatterState *state, uint32_t buckets, int bucket_bits,
				   int page_bits, uint32_t bucket_pages, uint32_t range, uint32_t *counts)
{
	extern __shared__ __align__(16) uint32_t shared_counts[];
	/* number of each bucket's first page, counted over all buckets */
	__shared__ uint32_t first_page[MAX_BUCKETS + 1];
	__shared__ uint32_t room[COUNT_THREADS / 32];

	uint32_t	size = threadIdx.x < buckets ? state->size[threadIdx.x] : 0;
	uint32_t	page_size = 1u << page_bits;
	uint32_t	values = 1u << bucket_bits;
	uint32_t	total,
				page,
				end,
				bucket = 0;

	first_page[threadIdx.x] =
		block_exclusive_sum<COUNT_THREADS>((uint32_t) (((uint64_t) size + page_size - 1)
													   >> page_bits), room, &total);
	if (threadIdx.x == 0)
		first_page[MAX_BUCKETS] = total;
	__syncthreads();
	page = (uint32_t) ((uint64_t) total * blockIdx.x / gridDim.x);
	end = (uint32_t) ((uint64_t) total * (blockIdx.x + 1) / gridDim.x);

	while (page < end)
	{
		uint32_t	bucket_end,
					first;
		bool		whole;

		while (first_page[bucket + 1] <= page)
			bucket++;
		bucket_end = min(end, first_page[bucket + 1]);
		first = bucket << bucket_bits;
		whole = page == first_page[bucket] && bucket_end == first_page[bucket + 1];
		size = state->size[bucket];
		for (uint32_t i = threadIdx.x; i < values / 4; i += COUNT_THREADS)
			reinterpret_cast<uint4 *>(shared_counts)[i] = make_uint4(0, 0, 0, 0);
		__syncthreads();
		for (; page < bucket_end; page++)
		{
			uint32_t	nth = page - first_page[bucket];
			uint32_t	id = page_table[(uint64_t) bucket * bucket_pages + nth] - 1;
			const uint16_t *from = pages + ((uint64_t) id << page_bits);
			uint32_t	count = min(size - (nth << page_bits), page_size);
			uint32_t	vectors = count / 8;

#pragma unroll 4
			for (uint32_t i = threadIdx.x; i < vectors; i += COUNT_THREADS)
			{
				uint4		vector = reinterpret_cast<const uint4 *>(from)[i];

				atomicAdd(&shared_counts[vector.x & 0xffff], 1);
				atomicAdd(&shared_counts[vector.x >> 16], 1);
				atomicAdd(&shared_counts[vector.y & 0xffff], 1);
				atomicAdd(&shared_counts[vector.y >> 16], 1);
				atomicAdd(&shared_counts[vector.z & 0xffff], 1);
				atomicAdd(&shared_counts[vector.z >> 16], 1);
				atomicAdd(&shared_counts[vector.w & 0xffff], 1);
				atomicAdd(&shared_counts[vector.w >> 16], 1);
			}
			if (vectors * 8 + threadIdx.x < count)
				atomicAdd(&shared_counts[from[vectors * 8 + threadIdx.x]], 1);
		}
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < values && first + i < range;
			 i += COUNT_THREADS)
			if (whole)
				counts[first + i] = shared_counts[i];
			else if (shared_counts[i])
				atomicAdd(&counts[first + i], shared_counts[i]);
		__syncthreads();
	}
}

/* ------------------------------------------------------------------------
 * All methods
 * ------------------------------------------------------------------------
 */
/*
 * Words of counts[]: the counters, padded, and behind them the blocks_done
 * word.
 */
static inline uint64_t
counts_size(const CountPlan &plan)
{
	return div_up(plan.range, SUM_STEP) * SUM_STEP + 1;
}

/*
 * Counts the problem's keys: counts[v] = number of keys with value v.  sums not
 * NULL allows prefix sums instead: if *sums is true on return, counts[v] is the
 * number of keys with values below v.
 */
template <class K> static GpusortStatus
count_values(SortRun *run, const CountPlan &plan, const CountMemory &memory,
			 uint32_t *counts, bool *sums)
{
	const GpusortProblem *problem = run->problem;
	const K    *keys = static_cast<const K *>(problem->keys);
	uint32_t	n = (uint32_t) problem->n;
	ValueMap<K> map = value_map<K>(problem);
	uint64_t	processors = run->device->multiprocessors;
	bool		sum = sums && plan.method == COUNT_WINDOWS && plan.range <= MAX_BLOCK_SUM;

	if (sums)
		*sums = sum;
	TRY(clear_device(run, counts, (sum ? counts_size(plan) : plan.range) *
					 sizeof(uint32_t)));
	if (plan.method == COUNT_WINDOWS)
	{
		size_t		shared = plan.window_values * sizeof(uint32_t);
		bool		two = 2 * shared + 4096 <= (size_t) run->device->max_shared;
		uint64_t	groups = processors * (two ? 2 : 1) / plan.windows;
		uint64_t	chunks = div_up(n, COUNT_THREADS * COUNT_UNROLL * KeyVector<K>::SIZE);

		if (groups == 0)		/* fewer multiprocessors than windows */
			groups = 1;
		LAUNCH(run, count_windows_kernel<K>,
			   (groups < chunks ? groups : chunks) * plan.windows, COUNT_THREADS, shared,
			   keys, n, map, plan.windows, plan.window_values, counts,
			   sum ? counts + counts_size(plan) - 1 : NULL);
	}
	else if (plan.method == COUNT_PAGES)
	{
		TRY(clear_device(run, memory.state, sizeof(ScatterState)));
		TRY(clear_device(run, memory.page_table,
						 (uint64_t) plan.buckets * plan.bucket_pages * sizeof(uint32_t)));
		LAUNCH(run, scatter_kernel<K>, div_up(n, SCATTER_TILE), SCATTER_THREADS, 0, keys, n, map,
			   plan.bucket_bits, plan.page_bits, plan.bucket_pages, memory.state,
			   memory.page_table, memory.pages);
		LAUNCH(run, count_pages_kernel, processors, COUNT_THREADS,
			   sizeof(uint32_t) << plan.bucket_bits, memory.pages, memory.page_table,
			   memory.state, plan.buckets, plan.bucket_bits, plan.page_bits,
			   plan.bucket_pages, plan.range, counts);
	}
	else
	{
		uint64_t	blocks = div_up(n, COUNT_THREADS);

		LAUNCH(run, count_direct_kernel<K>, blocks < processors * 16 ? blocks
			   : processors * 16, COUNT_THREADS, 0, keys, n, map, counts);
	}
	return GPUSORT_OK;
}

#endif							/* GPUSORT_VALUE_COUNT_CUH */
