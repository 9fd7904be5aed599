/*
 * value_count.cuh
 *	  The histogram of all values of the keys: how often each of 0 .. range - 1
 *	  occurs.
 *
 * Abdel-hafeez et al. (2018) add to counters in global memory, which serves about
 * one addition per clock and cache slice, and one at a time where keys repeat.
 * Here most additions go to shared memory, in one of three ways:
 *
 *	windows		Each block counts the values of one window of the range that
 *				its shared memory holds.  Blocks of different windows read the
 *				same keys at about the same time, so memory is read once and the
 *				L2 cache the more often.  More windows than needed pay off for few
 *				keys: fewer blocks then hold counters of the same value, and
 *				fewer counts have to be added up.
 *	pages		The keys are first scattered to buckets of at most 2^15 values; of
 *				each key only the lower bits are kept, as 16-bit words.  Buckets grow
 *				by pages, so that nobody needs to count them first.  Then
 *				blocks count the pages of one bucket after the other.
 *	direct		Global memory, for ranges too sparse for either.
 *
 * Additions of one to a common shared counter, the result unused, cost the
 * hardware no more than additions to different ones.  Where the result is used or
 * memory is global, lanes that agree add once (add_in_warp).
 */
#ifndef GPUSORT_VALUE_COUNT_CUH
#define GPUSORT_VALUE_COUNT_CUH

#include "value/value_pages.cuh"

/* Counts to their sums before each, by one block; size is padded to SUM_STEP. */
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
 * Block b counts window b % windows of every gridDim.x / windows-th chunk.  With
 * blocks_done not NULL the last block turns counts into sums.
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
 * A value that a warp finds often among its first keys is counted in registers: all
 * warps adding to one counter would wait for each other.
 */
template <class K>
__global__ void __launch_bounds__(COUNT_THREADS)
count_direct_kernel(const K *keys, uint32_t n, const ValueMap<K> map, uint32_t *counts)
{
	uint64_t	step = (uint64_t) gridDim.x * COUNT_THREADS;
	uint64_t	first = (uint64_t) blockIdx.x * COUNT_THREADS + threadIdx.x;
	int			lanes;
	uint32_t	often = common_in_warp(first < n ? map(keys[first]) : 0, first < n, &lanes);
	uint32_t	times = 0;

	if (lanes < OFTEN_LANES)
		often = ~0u;

	/* whole warps stay in the loop: lanes without a key are not active */
	for (uint64_t at = first; at - threadIdx.x % 32 < n; at += step)
	{
		uint32_t	v = at < n ? map(keys[at]) : 0;
		bool		active = at < n && v != often;
		uint32_t	lane = __ffs(__ballot_sync(0xffffffffu, active) | 0x80000000u) - 1;

		times += at < n && v == often;
		(void) add_in_warp(counts, v, active, __shfl_sync(0xffffffffu, v, lane));
	}
	times = warp_sum(times);
	if (threadIdx.x % 32 == 0 && times > 0)
		atomicAdd(&counts[often], times);
}

/* Words that counts[] must have: the counter of blocks is behind the padded sums. */
static inline uint64_t
counts_size(const CountPlan &plan)
{
	return div_up(plan.range, SUM_STEP) * SUM_STEP + 1;
}

/*
 * counts[v] = how many keys have value v, for all range values.  If sums is not NULL
 * and *sums is true on return, counts[v] is how many have a lesser value.
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
	bool		sum = sums && plan.method == COUNT_WINDOWS && plan.range <= MOST_SUMMED;

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

		if (groups == 0)		/* few multiprocessors */
			groups = 1;
		LAUNCH(run, count_windows_kernel<K>,
			   (groups < chunks ? groups : chunks) * plan.windows, COUNT_THREADS, shared,
			   keys, n, map, plan.windows, plan.window_values, counts,
			   sum ? counts + counts_size(plan) - 1 : NULL);
	}
	else if (plan.method == COUNT_PAGES)
	{
		TRY(clear_device(run, memory.state, sizeof(DealState)));
		TRY(clear_device(run, memory.page_table,
						 (uint64_t) plan.buckets * plan.bucket_pages * sizeof(uint32_t)));
		LAUNCH(run, deal_kernel<K>, div_up(n, DEAL_TILE), DEAL_THREADS, 0, keys, n, map,
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
