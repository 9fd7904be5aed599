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
 *	pages		The keys are first dealt out to buckets of 2^15 values; of each
 *				key only the lower 15 bits are kept, as 16-bit words.  Buckets grow
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

#include <math.h>

#include "block_scan.cuh"
#include "buffer.cuh"
#include "value_range.cuh"

#define COUNT_THREADS		1024
#define COUNT_UNROLL		4	/* vectors of 16 bytes per thread at once */
#define MOST_WINDOWS		6	/* reading L2 more often costs more than pages */
#define RESERVED_COUNTERS	512 /* words of shared memory for other things */

#define DEAL_THREADS		512
#define DEAL_ITEMS			16
#define DEAL_TILE			(DEAL_THREADS * DEAL_ITEMS)
#define BUCKET_BITS			15
#define BUCKET_VALUES		(1u << BUCKET_BITS)
#define BUCKETS				1024
#define LEAST_PAGE_BITS		13	/* a tile's keys of one bucket span two pages at most */
#define MOST_PAGE_BITS		16
#define LEAST_DEALT			(1u << 21)

static_assert((1 << LEAST_PAGE_BITS) >= DEAL_TILE, "a page holds a tile");

enum CountMethod
{
	COUNT_WINDOWS, COUNT_PAGES, COUNT_DIRECT
};

/* How n keys of a range are counted: a function of these and the device. */
struct CountPlan
{
	CountMethod method;
	uint32_t	range;
	uint32_t	windows;
	uint32_t	window_values;
	uint32_t	buckets;
	int			page_bits;
	uint32_t	bucket_pages;	/* the most that one bucket can have */
	uint32_t	pages;			/* the most that all can have */
};

static inline CountPlan
count_plan(const DeviceTraits *device, uint64_t n, uint64_t range)
{
	CountPlan	plan = {};
	uint64_t	most = (uint64_t) device->max_shared / 4 - RESERVED_COUNTERS;

	/*
	 * Windows cost w * n * 4 bytes of L2 traffic and range * blocks / w
	 * additions to global memory.  At 5.5 TB/s and 10^11 additions a second their
	 * sum is least here.
	 */
	double		best = sqrt(13.75 * device->multiprocessors * range / n);
	uint64_t	windows = div_up(range, most);

	if (windows < best)
		windows = (uint64_t) best;
	plan.range = (uint32_t) range;
	if (windows <= MOST_WINDOWS)
	{
		plan.method = COUNT_WINDOWS;
		plan.windows = (uint32_t) windows;
		plan.window_values = (uint32_t) div_up(range, windows);
	}
	else if (range <= (uint64_t) BUCKETS << BUCKET_BITS && n >= 2 * range &&
			 n >= LEAST_DEALT && most >= BUCKET_VALUES &&
			 n <= UINT32_MAX - ((uint64_t) BUCKETS << MOST_PAGE_BITS))
	{
		plan.method = COUNT_PAGES;
		plan.buckets = (uint32_t) div_up(range, BUCKET_VALUES);
		plan.page_bits = LEAST_PAGE_BITS;
		while (plan.page_bits < MOST_PAGE_BITS &&
			   (n / plan.buckets) >> (plan.page_bits + 2))
			plan.page_bits++;
		plan.bucket_pages = (uint32_t) (n >> plan.page_bits) + 1;
		plan.pages = plan.bucket_pages + plan.buckets;
	}
	else
		plan.method = COUNT_DIRECT;
	return plan;
}

/* Zeroed before keys are dealt out. */
struct DealState
{
	uint32_t	size[BUCKETS];	/* keys of each bucket */
	uint32_t	pages_used;
};

struct CountMemory
{
	uint16_t   *pages;
	uint32_t   *page_table;		/* by bucket, bucket_pages each: page + 1 */
	DealState  *state;
};

static inline CountMemory
cut_count_memory(ScratchCutter *cutter, const CountPlan &plan)
{
	CountMemory memory = {};

	if (plan.method == COUNT_PAGES)
	{
		memory.pages = cutter->take<uint16_t>((uint64_t) plan.pages << plan.page_bits);
		memory.page_table =
			cutter->take<uint32_t>((uint64_t) plan.buckets * plan.bucket_pages);
		memory.state = cutter->take<DealState>(1);
	}
	return memory;
}

/*
 * Adds one per lane to counters[bin]; what it was before, in an order of lanes.
 * Values that many lanes have are found by asking twice; those lanes add once.
 */
__device__ __forceinline__ uint32_t
add_in_warp(uint32_t *counters, uint32_t bin, bool active)
{
	uint32_t	left = __ballot_sync(0xffffffffu, active);
	uint32_t	unasked = left;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	before = 0;

#pragma unroll
	for (int round = 0; round < 2; round++)
	{
		int			leader = __ffs(unasked | 0x80000000u) - 1;
		uint32_t	common = __shfl_sync(0xffffffffu, bin, leader);
		uint32_t	peers = __ballot_sync(0xffffffffu, bin == common) & left;

		unasked &= ~peers;
		if (__popc(peers) >= 4)
		{
			uint32_t	base = 0;

			if ((int) lane == leader)
				base = atomicAdd(&counters[bin], (uint32_t) __popc(peers));
			base = __shfl_sync(0xffffffffu, base, leader);
			if (peers >> lane & 1)
				before = base + __popc(peers & ((1u << lane) - 1));
			left &= ~peers;
		}
	}
	if (left >> lane & 1)
		before = atomicAdd(&counters[bin], 1);
	return before;
}

template <class K> struct alignas(16) KeyVector
{
	static constexpr int SIZE = 16 / sizeof(K);

	K			key[16 / sizeof(K)];
};

/* Block b counts window b % windows of every gridDim.x / windows-th chunk. */
template <class K>
__global__ void __launch_bounds__(COUNT_THREADS, 2)
count_windows_kernel(const K *keys, uint32_t n, const ValueMap<K> map, uint32_t windows,
					 uint32_t window_values, uint32_t *counts)
{
	constexpr uint32_t CHUNK = COUNT_THREADS * COUNT_UNROLL * KeyVector<K>::SIZE;

	extern __shared__ __align__(16) uint32_t shared_counts[];

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
}

template <class K>
__global__ void __launch_bounds__(COUNT_THREADS)
count_direct_kernel(const K *keys, uint32_t n, const ValueMap<K> map, uint32_t *counts)
{
	uint64_t	step = (uint64_t) gridDim.x * COUNT_THREADS;

	/* whole warps stay in the loop: lanes without a key are not active */
	for (uint64_t at = (uint64_t) blockIdx.x * COUNT_THREADS + threadIdx.x;
		 at - threadIdx.x % 32 < n; at += step)
	{
		bool		there = at < n;

		(void) add_in_warp(counts, there ? map(keys[at]) : 0, there);
	}
}

/* One tile: its keys to the pages of their buckets. */
template <class K>
__global__ void __launch_bounds__(DEAL_THREADS, 2)
deal_kernel(const K *keys, uint32_t n, const ValueMap<K> map, int page_bits,
			uint32_t bucket_pages, DealState *state, uint32_t *page_table,
			uint16_t *pages)
{
	constexpr int PER_THREAD = BUCKETS / DEAL_THREADS;

	/* Of a tile's run in one bucket: up to split on one page, from there on another. */
	struct Run
	{
		uint32_t	split;		/* place in the tile */
		uint32_t	base[2];	/* of place 0 in pages[] */
	};

	extern __shared__ __align__(16) uint32_t shared_counts[];
	uint32_t   *tile_values = shared_counts;
	__shared__ uint32_t bucket_start[BUCKETS];
	__shared__ Run runs[BUCKETS];
	__shared__ uint32_t room[DEAL_THREADS / 32];

	uint32_t	values[DEAL_ITEMS];
	uint32_t	rank[DEAL_ITEMS];
	uint32_t	start = blockIdx.x * DEAL_TILE;
	uint32_t	count = min(n - start, (uint32_t) DEAL_TILE);

#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
	{
		uint32_t	at = i * DEAL_THREADS + threadIdx.x;

		values[i] = at < count ? map(keys[start + at]) : 0;
	}
	for (uint32_t i = threadIdx.x; i < BUCKETS; i += DEAL_THREADS)
		bucket_start[i] = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
		rank[i] = add_in_warp(bucket_start, values[i] >> BUCKET_BITS,
							  i * DEAL_THREADS + threadIdx.x < count);
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

		/* whoever takes a page's first place makes the page, before anyone waits */
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
		sum = block_exclusive_sum<DEAL_THREADS>(sum, room, &total);
#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			uint32_t	bucket = threadIdx.x * PER_THREAD + i;
			uint32_t	in_page = from[i] & ((1u << page_bits) - 1);

			if (counts[i] > 0)
			{
				const volatile uint32_t *entry = page_table +
					(uint64_t) bucket * bucket_pages + (from[i] >> page_bits);
				Run		   *run = &runs[bucket];
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
	for (int i = 0; i < DEAL_ITEMS; i++)
		if (i * DEAL_THREADS + threadIdx.x < count)
			tile_values[bucket_start[values[i] >> BUCKET_BITS] + rank[i]] = values[i];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
	{
		uint32_t	at = i * DEAL_THREADS + threadIdx.x;

		if (at < count)
		{
			uint32_t	v = tile_values[at];
			const Run  *run = &runs[v >> BUCKET_BITS];

			pages[run->base[at >= run->split] + at] = (uint16_t) (v & (BUCKET_VALUES - 1));
		}
	}
}

/* Each block counts an equal share of all pages, one bucket after the other. */
static __global__ void __launch_bounds__(COUNT_THREADS, 1)
count_pages_kernel(const uint16_t *pages, const uint32_t *page_table,
				   const DealState *state, uint32_t buckets, int page_bits,
				   uint32_t bucket_pages, uint32_t range, uint32_t *counts)
{
	extern __shared__ __align__(16) uint32_t shared_counts[];
	__shared__ uint32_t first_page[BUCKETS + 1];	/* if buckets lay side by side */
	__shared__ uint32_t room[COUNT_THREADS / 32];

	uint32_t	size = threadIdx.x < buckets ? state->size[threadIdx.x] : 0;
	uint32_t	page_size = 1u << page_bits;
	uint32_t	total,
				page,
				end,
				bucket = 0;

	first_page[threadIdx.x] =
		block_exclusive_sum<COUNT_THREADS>((uint32_t) (((uint64_t) size + page_size - 1)
													   >> page_bits), room, &total);
	if (threadIdx.x == 0)
		first_page[BUCKETS] = total;
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
		first = bucket << BUCKET_BITS;
		whole = page == first_page[bucket] && bucket_end == first_page[bucket + 1];
		size = state->size[bucket];
		for (uint32_t i = threadIdx.x; i < BUCKET_VALUES / 4; i += COUNT_THREADS)
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
		for (uint32_t i = threadIdx.x; i < BUCKET_VALUES && first + i < range;
			 i += COUNT_THREADS)
			if (whole)
				counts[first + i] = shared_counts[i];
			else if (shared_counts[i])
				atomicAdd(&counts[first + i], shared_counts[i]);
		__syncthreads();
	}
}

/* counts[v] = how many keys have value v, for all range values. */
template <class K> static GpusortStatus
count_values(SortRun *run, const CountPlan &plan, const CountMemory &memory,
			 uint32_t *counts)
{
	const GpusortJob *job = run->job;
	const K    *keys = static_cast<const K *>(job->keys);
	uint32_t	n = (uint32_t) job->n;
	ValueMap<K> map = value_map<K>(job);
	uint64_t	processors = run->device->multiprocessors;

	TRY(clear_device(run, counts, plan.range * sizeof(uint32_t)));
	if (plan.method == COUNT_WINDOWS)
	{
		size_t		shared = plan.window_values * sizeof(uint32_t);
		bool		two = 2 * shared + 4096 <= (size_t) run->device->max_shared;
		uint64_t	groups = processors * (two ? 2 : 1) / plan.windows;
		uint64_t	chunks = div_up(n, COUNT_THREADS * COUNT_UNROLL * KeyVector<K>::SIZE);

		LAUNCH(run, count_windows_kernel<K>,
			   (groups < chunks ? groups : chunks) * plan.windows, COUNT_THREADS, shared,
			   keys, n, map, plan.windows, plan.window_values, counts);
	}
	else if (plan.method == COUNT_PAGES)
	{
		TRY(clear_device(run, memory.state, sizeof(DealState)));
		TRY(clear_device(run, memory.page_table,
						 (uint64_t) plan.buckets * plan.bucket_pages * sizeof(uint32_t)));
		LAUNCH(run, deal_kernel<K>, div_up(n, DEAL_TILE), DEAL_THREADS,
			   DEAL_TILE * sizeof(uint32_t), keys, n, map, plan.page_bits,
			   plan.bucket_pages, memory.state, memory.page_table, memory.pages);
		LAUNCH(run, count_pages_kernel, processors, COUNT_THREADS,
			   BUCKET_VALUES * sizeof(uint32_t), memory.pages, memory.page_table,
			   memory.state, plan.buckets, plan.page_bits, plan.bucket_pages, plan.range,
			   counts);
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
