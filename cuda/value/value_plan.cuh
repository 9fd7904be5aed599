/*
 * value_plan.cuh
 *	  Which way of counting values suits a problem (value_count.cuh says which there
 *	  are), what memory it takes, and what its kernels share.
 */
#ifndef GPUSORT_VALUE_PLAN_CUH
#define GPUSORT_VALUE_PLAN_CUH

#include <math.h>

#include "block/block_scan.cuh"
#include "launch_bounds.cuh"
#include "value/value_range.cuh"

#define COUNT_THREADS		1024
#define COUNT_UNROLL		4	/* vectors of 16 bytes per thread at once */
#define MOST_WINDOWS		8	/* reading L2 more often costs more than direct */
#define FEW_WINDOWS			4	/* or, where there are many keys, than pages */
#define MANY_KEYS			(1u << 23)
#define SUM_STEP			(4 * COUNT_THREADS)
#define MOST_SUMMED			(8 * SUM_STEP)	/* values whose counts one block sums up */
#define OFTEN_LANES			4	/* of a warp with one value: it is a frequent one */
#define RESERVED_COUNTERS	512 /* words of shared memory for other things */

#define DEAL_THREADS		512
#define DEAL_ITEMS			12
#define DEAL_TILE			(DEAL_THREADS * DEAL_ITEMS)
#define LEAST_BUCKET_BITS	10
#define MOST_BUCKET_BITS	15	/* the 32-bit counters of a bucket fit shared memory */
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
	if (windows <= (n < MANY_KEYS ? MOST_WINDOWS : FEW_WINDOWS))
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

/* Zeroed before keys are scattered. */
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

#endif							/* GPUSORT_VALUE_PLAN_CUH */
