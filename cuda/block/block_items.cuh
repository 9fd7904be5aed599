/*
 * block_items.cuh
 *	  Items of a bucket in the shared memory of a block, and three ways to
 *	  sort them; used by block_sort.cuh.
 *
 * An item is a key's fraction and rid (see block_sort.cuh); from[] holds the
 * position of the item's key in the bucket.  Items are in bins.
 *
 *	sort_bins()			Insertion sort of bins of up to BLOCK_SORT_FEW items, by
 *						the thread that owns the bin.
 *	sort_dense_bins()	Rank sort of larger bins: a thread for each item counts
 *						the items before it.
 *	block_merge_sort()	Merge sort of all items, if a bin is so large that the
 *						rank sort would take quadratic time.  Each thread sorts
 *						a few items in registers; then runs are merged
 *						pairwise.  A thread finds its share of a merge by
 *						binary search along the merge path (Green, McColl and
 *						Bader, "GPU merge path", 2012).
 *
 * Memory: the caller's shared memory; a block barrier separates the phases.
 */
#ifndef GPUSORT_BLOCK_ITEMS_CUH
#define GPUSORT_BLOCK_ITEMS_CUH

#include "key.cuh"

/* Most items of a bin that one thread sorts by insertion. */
#define BLOCK_SORT_FEW			8

/*
 * Most items of a bin that are sorted by a thread per item; a larger bin is
 * clustered.  The limit is lower where clustered buckets are sorted as pairs.
 */
#define BLOCK_SORT_CLUSTERED	128
#define SKEWED_SORT_CLUSTERED	40

/* A fraction (upper half) and a rid (lower half), compared as one number. */
typedef unsigned long long Item;

#define ITEM(fraction, rid)	((Item) (fraction) << 32 | (rid))
#define ITEM_FRACTION(item)	((uint32_t) ((item) >> 32))
#define ITEM_RID(item)		((uint32_t) (item))
#define ITEM_PADDING		(~0ull) /* behind all items: no rid is all ones */

/*
 * The order of items.  Items with equal fractions are compared by their keys,
 * unless fractions are exact.
 */
template <class K> struct ItemOrder
{
	const K    *keys;			/* the bucket's keys, by position */
	KeyBits<K>	bits;
	bool		exact;			/* equal fractions mean equal keys */

	/* Is item a, whose key is keys[a_from], before item b? */
	__device__ __forceinline__ bool before(Item a, uint32_t a_from,
										   Item b, uint32_t b_from) const
	{
		if (exact || ITEM_FRACTION(a) != ITEM_FRACTION(b) || a == ITEM_PADDING)
			return a < b;

		K			v = bits(keys[a_from]);
		K			w = bits(keys[b_from]);

		return v < w || (v == w && a < b);
	}
};

/*
 * Merge sort of count items and their from[] entries, in place.  All threads
 * call it.
 */
template <class K, int THREADS, int ITEMS> __device__ __noinline__ static void
block_merge_sort(const ItemOrder<K> order, Item *items, uint16_t *from, uint32_t count)
{
	constexpr uint32_t CAPACITY = THREADS * ITEMS;

	Item		mine[ITEMS];
	uint32_t	mine_from[ITEMS];
	uint32_t	first = threadIdx.x * ITEMS;

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		mine[i] = first + i < count ? items[first + i] : ITEM_PADDING;
		mine_from[i] = first + i < count ? from[first + i] : 0;
	}

	auto		order_pair = [&] (int i)
	{
		if (order.before(mine[i + 1], mine_from[i + 1], mine[i], mine_from[i]))
		{
			Item		item = mine[i];
			uint32_t	where = mine_from[i];

			mine[i] = mine[i + 1];
			mine_from[i] = mine_from[i + 1];
			mine[i + 1] = item;
			mine_from[i + 1] = where;
		}
	};

	/*
	 * Odd-even transposition sort swaps only neighbours, so that items stay in
	 * registers.  The loop body has two rounds and is not unrolled further: the
	 * code that compares keys is long.
	 */
#pragma unroll 1
	for (int round = 0; round < ITEMS; round += 2)
	{
#pragma unroll
		for (int i = 0; i + 1 < ITEMS; i += 2)
			order_pair(i);
#pragma unroll
		for (int i = 1; i + 1 < ITEMS; i += 2)
			order_pair(i);
	}

	for (uint32_t width = ITEMS;; width *= 2)
	{
		uint32_t	a = first / (2 * width) * (2 * width);
		uint32_t	b = a + width;
		uint32_t	a_end = b;
		uint32_t	b_end = b + width;
		uint32_t	diagonal = first - a;
		uint32_t	lo,
					hi;

		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			items[first + i] = mine[i];
			from[first + i] = (uint16_t) mine_from[i];
		}
		__syncthreads();
		if (width >= count)
			return;

		/*
		 * number of items that run a has among the first diagonal ones of the
		 * merge
		 */
		lo = diagonal > width ? diagonal - width : 0;
		hi = diagonal < width ? diagonal : width;
		while (lo < hi)
		{
			uint32_t	middle = (lo + hi) / 2;
			uint32_t	other = b + diagonal - 1 - middle;

			if (order.before(items[other], from[other],
							 items[a + middle], from[a + middle]))
				hi = middle;
			else
				lo = middle + 1;
		}
		b += diagonal - lo;
		a += lo;
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	a_at = min(a, CAPACITY - 1);
			uint32_t	b_at = min(b, CAPACITY - 1);
			bool		take_b = b < b_end &&
				(a >= a_end || order.before(items[b_at], from[b_at],
											items[a_at], from[a_at]));

			mine[i] = take_b ? items[b_at] : items[a_at];
			mine_from[i] = take_b ? from[b_at] : from[a_at];
			a += !take_b;
			b += take_b;
		}
	}
}

/*
 * Sorts bins with more than BLOCK_SORT_FEW items.  An item's index in its bin
 * is the number of items there that are before it.  need_from: move from[]
 * entries, too.
 */
template <class K, int THREADS, int ITEMS, int BIN_BITS>
__device__ __noinline__ static void
sort_dense_bins(const ItemOrder<K> order, const uint16_t *bin_start, Item *items,
				uint16_t *from, uint32_t count, bool need_from)
{
	Item		mine[ITEMS];
	uint32_t	to[ITEMS];		/* new index << 16 | from[] entry */

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		to[i] = at << 16;
		if (at < count)
		{
			uint32_t	bin,
						start,
						end;

			mine[i] = items[at];
			bin = ITEM_FRACTION(mine[i]) >> (32 - BIN_BITS);
			start = bin_start[bin];
			end = bin_start[bin + 1];
			if (end - start > BLOCK_SORT_FEW)
			{
				uint32_t	mine_from = need_from ? from[at] : 0;
				uint32_t	before = start;

				for (uint32_t other = start; other < end; other++)
					before += other != at &&
						order.before(items[other], need_from ? from[other] : 0,
									 mine[i], mine_from);
				to[i] = before << 16 | mine_from;
			}
			else if (need_from)
				to[i] |= from[at];
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * THREADS + threadIdx.x < count)
		{
			items[to[i] >> 16] = mine[i];
			if (need_from)
				from[to[i] >> 16] = (uint16_t) to[i];
		}
	__syncthreads();
}

/*
 * Insertion sort of the bins in mask, a bit per bin of the thread.  starts[]:
 * first items of the thread's bins.  FROM: move from[] entries, too.
 */
template <class K, bool FROM> __device__ __forceinline__ void
sort_bins(const ItemOrder<K> &order, uint32_t mask, const uint16_t *starts, Item *items,
		  uint16_t *from)
{
	while (mask)
	{
		uint32_t	bin = __ffs(mask) - 1;
		uint32_t	start = starts[bin];
		uint32_t	end = starts[bin + 1];

		mask &= mask - 1;
		for (uint32_t i = start + 1; i < end; i++)
		{
			Item		item = items[i];
			uint32_t	item_from = FROM ? from[i] : 0;
			uint32_t	at = i;

			for (; at > start; at--)
			{
				Item		other = items[at - 1];
				uint32_t	other_from = FROM ? from[at - 1] : 0;

				if (!order.before(item, item_from, other, other_from))
					break;
				items[at] = other;
				if (FROM)
					from[at] = (uint16_t) other_from;
			}
			items[at] = item;
			if (FROM)
				from[at] = (uint16_t) item_from;
		}
	}
}

#endif							/* GPUSORT_BLOCK_ITEMS_CUH */
