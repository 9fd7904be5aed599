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
 *	pages		The keys are first dealt out to buckets of at most 2^15 values; of
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

#include <math.h>

#include "block_scan.cuh"
#include "buffer.cuh"
#include "value_range.cuh"

#define COUNT_THREADS		1024
#define COUNT_UNROLL		4	/* vectors of 16 bytes per thread at once */
#define MOST_WINDOWS		8	/* reading L2 more often costs more than direct */
#define FEW_WINDOWS			4	/* or, where there are enough keys, than pages */
#define SUM_STEP			(4 * COUNT_THREADS)
#define MOST_SUMMED			(8 * SUM_STEP)	/* values whose counts one block sums up */
#define OFTEN_LANES			4	/* of a warp with one value: it is a frequent one */
#define RESERVED_COUNTERS	512 /* words of shared memory for other things */

#define DEAL_THREADS		512
#define DEAL_ITEMS			12
#define DEAL_TILE			(DEAL_THREADS * DEAL_ITEMS)
#define LEAST_BUCKET_BITS	10
#define MOST_BUCKET_BITS	15	/* so many 32-bit counters fit shared memory */
#define USUAL_BUCKETS		128 /* more only if their counters would not fit */
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
	int			bucket_bits;	/* of the values in one */
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
	if (windows <= (n < LEAST_DEALT ? MOST_WINDOWS : FEW_WINDOWS))
	{
		plan.method = COUNT_WINDOWS;
		plan.windows = (uint32_t) windows;
		plan.window_values = (uint32_t) div_up(range, windows);
	}
	else if (range <= (uint64_t) BUCKETS << MOST_BUCKET_BITS && 2 * n >= range &&
			 n >= LEAST_DEALT && most >= 1u << MOST_BUCKET_BITS &&
			 n <= UINT32_MAX - ((uint64_t) BUCKETS << MOST_PAGE_BITS))
	{
		plan.method = COUNT_PAGES;
		plan.bucket_bits = LEAST_BUCKET_BITS;
		while (plan.bucket_bits < MOST_BUCKET_BITS &&
			   range > (uint64_t) USUAL_BUCKETS << plan.bucket_bits)
			plan.bucket_bits++;
		plan.buckets = (uint32_t) div_up(range, 1u << plan.bucket_bits);
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

/* The value that most active lanes have. */
__device__ __forceinline__ uint32_t
common_in_warp(uint32_t v, bool active, int *lanes)
{
	uint32_t	peers = __match_any_sync(0xffffffffu, v) &
		__ballot_sync(0xffffffffu, active);
	uint32_t	most = ~warp_min(~((uint32_t) __popc(peers) << 5 | threadIdx.x % 32));

	*lanes = (int) (most >> 5);
	return __shfl_sync(0xffffffffu, v, most & 31);
}

/*
 * Adds one per active lane to counters[bin]; what it was before, in an order of
 * lanes.  Lanes whose bin is the one said to be common add once for all.
 */
__device__ __forceinline__ uint32_t
add_in_warp(uint32_t *counters, uint32_t bin, bool active, uint32_t common)
{
	uint32_t	peers = __ballot_sync(0xffffffffu, active && bin == common);
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	before = 0;

	if (peers)
	{
		int			leader = __ffs(peers) - 1;

		if ((int) lane == leader)
			before = atomicAdd(&counters[common], (uint32_t) __popc(peers));
		before = __shfl_sync(0xffffffffu, before, leader) +
			__popc(peers & ((1u << lane) - 1));
	}
	if (active && bin != common)
		before = atomicAdd(&counters[bin], 1);
	return before;
}

template <class K> struct alignas(16) KeyVector
{
	static constexpr int SIZE = 16 / sizeof(K);

	K			key[16 / sizeof(K)];
};

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
__global__ void __launch_bounds__(COUNT_THREADS, 2)
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

/* Of a tile's run in one bucket: up to split on one page, from there on another. */
struct DealRun
{
	uint32_t	split;			/* place in the tile */
	uint32_t	base[2];		/* of place 0 in pages[] */
};

/* The shared memory of a tile, whether it is full or not. */
struct DealShared
{
	uint32_t	tile_values[DEAL_TILE];
	uint32_t	bucket_start[BUCKETS];
	DealRun		runs[BUCKETS];
	uint32_t	room[DEAL_THREADS / 32];
};

/* One tile: its keys to the pages of their buckets. */
template <class K, bool FULL> __device__ __forceinline__ void
deal_tile(const K *keys, uint32_t count, const ValueMap<K> &map, int bucket_bits,
		  int page_bits, uint32_t bucket_pages, DealState *state, uint32_t *page_table,
		  uint16_t *pages, DealShared *shared)
{
	constexpr int PER_THREAD = BUCKETS / DEAL_THREADS;

	uint32_t   *tile_values = shared->tile_values;
	uint32_t   *bucket_start = shared->bucket_start;
	DealRun    *runs = shared->runs;
	uint32_t   *room = shared->room;
	uint32_t	values[DEAL_ITEMS];
	uint32_t	rank[DEAL_ITEMS];
	uint32_t	low_bits = (1u << bucket_bits) - 1;
	uint32_t	common;
	int			lanes;

#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
	{
		uint32_t	at = i * DEAL_THREADS + threadIdx.x;

		values[i] = FULL || at < count ? map(keys[at]) : 0;
	}
	for (uint32_t i = threadIdx.x; i < BUCKETS; i += DEAL_THREADS)
		bucket_start[i] = 0;
	common = common_in_warp(values[0] >> bucket_bits, FULL || threadIdx.x < count, &lanes);
	if (lanes < 2 * OFTEN_LANES)
		common = ~0u;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
		rank[i] = add_in_warp(bucket_start, values[i] >> bucket_bits,
							  FULL || i * DEAL_THREADS + threadIdx.x < count, common);
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
				DealRun    *run = &runs[bucket];
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
		if (FULL || i * DEAL_THREADS + threadIdx.x < count)
			tile_values[bucket_start[values[i] >> bucket_bits] + rank[i]] = values[i];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
	{
		uint32_t	at = i * DEAL_THREADS + threadIdx.x;

		if (FULL || at < count)
		{
			uint32_t	v = tile_values[at];
			const DealRun *run = &runs[v >> bucket_bits];

			pages[run->base[at >= run->split] + at] = (uint16_t) (v & low_bits);
		}
	}
}

template <class K>
__global__ void __launch_bounds__(DEAL_THREADS, 3)
deal_kernel(const K *keys, uint32_t n, const ValueMap<K> map, int bucket_bits,
			int page_bits, uint32_t bucket_pages, DealState *state, uint32_t *page_table,
			uint16_t *pages)
{
	__shared__ DealShared shared;

	uint32_t	start = blockIdx.x * DEAL_TILE;

	if (n - start >= DEAL_TILE)
		deal_tile<K, true>(keys + start, DEAL_TILE, map, bucket_bits, page_bits,
						   bucket_pages, state, page_table, pages, &shared);
	else
		deal_tile<K, false>(keys + start, n - start, map, bucket_bits, page_bits,
							bucket_pages, state, page_table, pages, &shared);
}

/* Each block counts an equal share of all pages, one bucket after the other. */
static __global__ void __launch_bounds__(COUNT_THREADS, 1)
count_pages_kernel(const uint16_t *pages, const uint32_t *page_table,
				   const DealState *state, uint32_t buckets, int bucket_bits,
				   int page_bits, uint32_t bucket_pages, uint32_t range, uint32_t *counts)
{
	extern __shared__ __align__(16) uint32_t shared_counts[];
	__shared__ uint32_t first_page[BUCKETS + 1];	/* if buckets lay side by side */
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
	const GpusortJob *job = run->job;
	const K    *keys = static_cast<const K *>(job->keys);
	uint32_t	n = (uint32_t) job->n;
	ValueMap<K> map = value_map<K>(job);
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
