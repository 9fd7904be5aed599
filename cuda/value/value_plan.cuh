/*
 * value_plan.cuh
 *	  Values of keys for the algorithms that count them, and the choice of a
 *	  counting method (described in value_count.cuh).
 *
 * A key's value is its ordering bits less the least key of the caller's range.
 * The range is that of the problem's facts, or that of the ordering bits.  A
 * key outside the caller's range counts as the last value: the result is then
 * wrong, but no access is out of bounds.
 */
#ifndef GPUSORT_VALUE_PLAN_CUH
#define GPUSORT_VALUE_PLAN_CUH

#include <math.h>

#include "block/block_scan.cuh"
#include "key.cuh"
#include "launch_bounds.cuh"
#include "value/value_limits.h"

/* ------------------------------------------------------------------------
 * Values of keys
 * ------------------------------------------------------------------------
 */
/* Number of possible values; 0: unknown, or more than 2^32 - 1. */
static inline uint64_t
value_range(const GpusortProblem *problem)
{
	int			width = problem->end_bit - problem->begin_bit;

	if (problem->facts & GPUSORT_FACT_KEY_RANGE)
	{
		Key128		least = narrow_key<Key128>(problem->key_min);
		Key128		most = narrow_key<Key128>(problem->key_max);

		return most >= least && most - least < UINT32_MAX
			? (uint64_t) (most - least) + 1 : 0;
	}
	return width < 32 ? UINT64_C(1) << width : 0;
}

/* Reason why counting values cannot sort the problem, or NULL. */
static inline const char *
why_not_by_value(const GpusortProblem *problem)
{
	uint64_t	range = value_range(problem);

	if (problem->n > UINT32_MAX)
		return "more than 2^32 - 1 rows";
	if (range == 0)
		return "the keys' range is unknown or too large";
	if (range > GPUSORT_VALUES_ALWAYS && range / GPUSORT_VALUES_PER_KEY > problem->n)
		return "the keys' range is too large for so few rows";
	return NULL;
}

/*
 * Do all bits of a key order, so that the key can be computed from its value?
 */
static inline bool
keys_are_values(const GpusortProblem *problem)
{
	return problem->begin_bit == 0 && problem->end_bit == problem->key_width;
}

/* The map from keys to values. */
template <class K> struct ValueMap
{
	KeyBits<K>	bits;
	K			least;			/* key of value 0 */
	uint32_t	last;			/* range - 1 */

	__device__ __forceinline__ uint32_t operator() (K key) const
	{
		K			v = bits(key) - least;

		return v > last ? last : (uint32_t) v;
	}
};

/* The ValueMap of a problem. */
template <class K> static ValueMap<K>
value_map(const GpusortProblem *problem)
{
	ValueMap<K> map;

	map.bits = key_bits<K>(problem);
	map.least = problem->facts & GPUSORT_FACT_KEY_RANGE ? narrow_key<K>(problem->key_min) : K(0);
	map.last = (uint32_t) (value_range(problem) - 1);
	return map;
}

/* ------------------------------------------------------------------------
 * Plan of a histogram
 * ------------------------------------------------------------------------
 */
#define COUNT_THREADS		1024
#define COUNT_UNROLL		4	/* vectors of 16 bytes that a thread loads at
								 * once */

/*
 * Most windows, for fewer than MANY_KEYS keys and for more.  Each window reads
 * the keys once more from L2; for many keys pages are faster.
 */
#define MAX_WINDOWS			8
#define MAX_WINDOWS_MANY	4
#define MANY_KEYS			(1u << 23)

#define SUM_STEP			(4 * COUNT_THREADS) /* counts summed in a step */
#define MAX_BLOCK_SUM		(8 * SUM_STEP)	/* most counts that one block
											 * sums */
#define FREQUENT_LANES		4	/* lanes with one value that make it frequent */
#define RESERVED_COUNTERS	512 /* words of shared memory for other arrays */

/* Pages: the kernel that scatters keys, buckets of values, pages of keys. */
#define SCATTER_THREADS		512
#define SCATTER_ITEMS		12			/* keys per thread */
#define SCATTER_TILE		(SCATTER_THREADS * SCATTER_ITEMS)
#define MIN_BUCKET_BITS		10			/* log2 of the values of a bucket */
#define MAX_BUCKET_BITS		15			/* 32-bit counters of a bucket fit
										 * shared memory */
#define PREFERRED_BUCKETS	128			/* more only if a bucket's counters
										 * would not fit */
#define MAX_BUCKETS			1024		/* most buckets */
#define MIN_PAGE_BITS		13			/* log2 of the keys of a page */
#define MAX_PAGE_BITS		16
#define MIN_PAGED_KEYS		(1u << 21)	/* least keys for which pages pay */

/* a tile's keys of one bucket then lie on at most two pages */
static_assert((1 << MIN_PAGE_BITS) >= SCATTER_TILE, "a page holds a tile");

/* A method to count values; value_count.cuh describes them. */
enum CountMethod
{
	COUNT_WINDOWS, COUNT_PAGES, COUNT_DIRECT
};

/* How to count; depends on the number of keys, their range, and the device. */
struct CountPlan
{
	CountMethod method;
	uint32_t	range;			/* number of possible values */
	uint32_t	windows;		/* COUNT_WINDOWS: number of windows */
	uint32_t	window_values;	/* COUNT_WINDOWS: values of a window */
	uint32_t	buckets;		/* COUNT_PAGES: number of buckets */
	int			bucket_bits;	/* COUNT_PAGES: log2 of the values of a
								 * bucket */
	int			page_bits;		/* COUNT_PAGES: log2 of the keys of a page */
	uint32_t	bucket_pages;	/* COUNT_PAGES: most pages of one bucket */
	uint32_t	pages;			/* COUNT_PAGES: most pages of all buckets */
};

/* Chooses the method for n keys of range values. */
static inline CountPlan
count_plan(const DeviceTraits *device, uint64_t n, uint64_t range)
{
	CountPlan	plan = {};
	uint64_t	most = (uint64_t) device->max_shared / 4 - RESERVED_COUNTERS;

	/*
	 * With w windows the L2 traffic is w * n * 4 bytes, and blocks add range *
	 * blocks / w times to global memory.  At 5.5 TB/s and 10^11 additions a
	 * second this w minimises the sum of both times.
	 */
	double		best = sqrt(13.75 * device->multiprocessors * range / n);
	uint64_t	windows = div_up(range, most);

	if (windows < best)
		windows = (uint64_t) best;
	plan.range = (uint32_t) range;
	if (windows <= (n < MANY_KEYS ? MAX_WINDOWS : MAX_WINDOWS_MANY))
	{
		plan.method = COUNT_WINDOWS;
		plan.windows = (uint32_t) windows;
		plan.window_values = (uint32_t) div_up(range, windows);
	}
	else if (range <= (uint64_t) MAX_BUCKETS << MAX_BUCKET_BITS && 2 * n >= range &&
			 n >= MIN_PAGED_KEYS && most >= 1u << MAX_BUCKET_BITS &&
			 n <= UINT32_MAX - ((uint64_t) MAX_BUCKETS << MAX_PAGE_BITS))
	{
		plan.method = COUNT_PAGES;
		plan.bucket_bits = MIN_BUCKET_BITS;
		while (plan.bucket_bits < MAX_BUCKET_BITS &&
			   range > (uint64_t) PREFERRED_BUCKETS << plan.bucket_bits)
			plan.bucket_bits++;
		plan.buckets = (uint32_t) div_up(range, 1u << plan.bucket_bits);
		plan.page_bits = MIN_PAGE_BITS;
		while (plan.page_bits < MAX_PAGE_BITS &&
			   (n / plan.buckets) >> (plan.page_bits + 2))
			plan.page_bits++;
		plan.bucket_pages = (uint32_t) (n >> plan.page_bits) + 1;
		plan.pages = plan.bucket_pages + plan.buckets;
	}
	else
		plan.method = COUNT_DIRECT;
	return plan;
}

/* State of the kernel that scatters keys to pages; cleared before it. */
struct ScatterState
{
	uint32_t	size[MAX_BUCKETS];	/* number of keys of each bucket */
	uint32_t	pages_used;		/* number of pages taken */
};

/* Scratch memory of COUNT_PAGES; NULL pointers for the other methods. */
struct CountMemory
{
	uint16_t   *pages;			/* low bits of the keys; page p starts at
								 * p << page_bits */
	uint32_t   *page_table;		/* bucket_pages entries per bucket: number of
								 * the page + 1, or 0 */
	ScatterState  *state;
};

/* Takes the arrays of COUNT_PAGES from scratch. */
static inline CountMemory
cut_count_memory(ScratchCutter *cutter, const CountPlan &plan)
{
	CountMemory memory = {};

	if (plan.method == COUNT_PAGES)
	{
		memory.pages = cutter->take<uint16_t>((uint64_t) plan.pages << plan.page_bits);
		memory.page_table =
			cutter->take<uint32_t>((uint64_t) plan.buckets * plan.bucket_pages);
		memory.state = cutter->take<ScatterState>(1);
	}
	return memory;
}

/* The value that most active lanes have; *lanes: the number of those lanes. */
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
 * Adds 1 to counters[bin] for each active lane.  Returns the counter's value
 * before the lane's addition; lanes with one bin get successive values.  Lanes
 * whose bin is common add once together.
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

/* 16 bytes of keys, loaded by one instruction. */
template <class K> struct alignas(16) KeyVector
{
	static constexpr int SIZE = 16 / sizeof(K);

	K			key[16 / sizeof(K)];
};

#endif							/* GPUSORT_VALUE_PLAN_CUH */
