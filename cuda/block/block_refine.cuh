/*
 * block_refine.cuh
 *	  Sorts the bins of a bucket of which one is crowded.
 *
 * Places spread a bucket's keys over bins as if they were even.  Where they are not, or
 * where keys are equal, bins are dense.  Each one is then spread again, over as
 * many places as it has items: between its own least and greatest place, or, where
 * all its places are the same, by the next lower bits of the keys, or, where all its
 * keys are equal, by rid.  All dense bins of a block go through a level together; what
 * is dense after a level goes through the next.  One or two levels do for even keys and
 * for equal ones; a bucket that needs more than MOST_LEVELS is merged.
 */
#ifndef GPUSORT_BLOCK_REFINE_CUH
#define GPUSORT_BLOCK_REFINE_CUH

#include "block/block_items.cuh"
#include "block/block_scan.cuh"

#define MOST_LEVELS			12

/* Which bits of an item a bin is spread by: those of its place, lower ones, its rid. */
#define BY_PLACE			0
#define BY_RID				15

/* What the keys of a bucket have below the bits that places are made of. */
template <class K> struct LowerBits
{
	K			base;
	int			shift;

	__device__ __forceinline__ uint32_t operator() (K v, int depth) const
	{
		return (uint32_t) ((v - base) >> max(shift - 32 * depth, 0));
	}
};

/* In shared memory, where the counters of bins were. */
template <int CAPACITY> struct RefineRoom
{
	static constexpr int MOST_DENSE = CAPACITY / (BLOCK_SORT_FEW + 1) + 1;

	uint32_t	counters[(CAPACITY + 2) / 2];	/* of 16 bits; then where each starts */
	uint32_t	least[MOST_DENSE];	/* by a bin's start / (BLOCK_SORT_FEW + 1) */
	uint32_t	most[MOST_DENSE];
};

/* Least and greatest value of each thread's bin; one addition for a warp in one bin. */
template <class Room> __device__ __forceinline__ void
add_to_range(Room *room, uint32_t start, uint32_t v, bool active)
{
	uint32_t	bin = active ? start / (BLOCK_SORT_FEW + 1) : ~0u;

	if (__all_sync(0xffffffffu, bin == __shfl_sync(0xffffffffu, bin, 0)))
	{
		uint32_t	least = warp_min(v);
		uint32_t	most = ~warp_min(~v);

		if (active && threadIdx.x % 32 == 0)
		{
			atomicMin(&room->least[bin], least);
			atomicMax(&room->most[bin], most);
		}
	}
	else if (active)
	{
		atomicMin(&room->least[bin], v);
		atomicMax(&room->most[bin], v);
	}
}

/*
 * Orders all items of dense bins.  bin_start[] lies where room does; from[] is kept if
 * it says where items' keys are.  False if it gave up: items are all there then,
 * in no order.
 */
template <class K, int THREADS, int ITEMS, int BIN_BITS>
__device__ __noinline__ static bool
refine_dense_bins(const ItemOrder<K> order, const LowerBits<K> lower,
				  const uint16_t *bin_start, RefineRoom<THREADS * ITEMS> *room,
				  Item *items, uint16_t *from, uint32_t count, uint32_t *scan_room)
{
	constexpr uint32_t CAPACITY = THREADS * ITEMS;
	uint16_t   *starts = reinterpret_cast<uint16_t *>(room->counters);

	Item		mine[ITEMS];
	uint32_t	bin[ITEMS];		/* size << 16 | start; its own place if not dense */
	uint32_t	tag[ITEMS];		/* depth << 16 | where its key is */
	uint32_t	spot[ITEMS];	/* rank << 16 | place to be counted at */

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		bin[i] = 1u << 16 | at;
		tag[i] = BY_PLACE << 16;
		if (at < count)
		{
			uint32_t	number,
						size;

			mine[i] = items[at];
			number = ITEM_PLACE(mine[i]) >> (32 - BIN_BITS);
			size = bin_start[number + 1] - bin_start[number];
			tag[i] |= from[at];
			if (size > BLOCK_SORT_FEW)
				bin[i] = size << 16 | bin_start[number];
		}
	}
	__syncthreads();

	for (int level = 0; level < MOST_LEVELS; level++)
	{
		auto		is_dense = [&] (int i)
		{
			return bin[i] >> 16 > 1;
		};
		auto		value = [&] (int i)
		{
			int			depth = tag[i] >> 16;

			return depth == BY_PLACE ? ITEM_PLACE(mine[i]) :
				depth == BY_RID ? ITEM_RID(mine[i]) :
				lower(order.bits(order.keys[tag[i] & 0xffff]), depth);
		};
		auto		range_of = [&] (int i)
		{
			return (bin[i] & 0xffff) / (BLOCK_SORT_FEW + 1);
		};
		uint32_t	flat = 0;	/* a bit for each of this thread's items */
		uint32_t	few = 0;	/* a bit for each bin it is to sort */
		uint32_t	sizes[ITEMS];
		uint32_t	sum = 0,
					total;
		bool		left = false;

		for (int i = threadIdx.x; i < (int) (CAPACITY + 2) / 2; i += THREADS)
			room->counters[i] = 0;
		for (int i = threadIdx.x; i < RefineRoom<CAPACITY>::MOST_DENSE; i += THREADS)
		{
			room->least[i] = ~0u;
			room->most[i] = 0;
		}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			add_to_range(room, bin[i] & 0xffff, is_dense(i) ? value(i) : 0, is_dense(i));
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			flat |= (uint32_t) (is_dense(i) &&
								room->least[range_of(i)] == room->most[range_of(i)]) << i;

		/* flat bins: lower bits, or rids if no key differs from the first */
		if (__syncthreads_or(flat != 0))
		{
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				if ((flat >> i & 1) && !order.exact)
				{
					uint32_t	start = bin[i] & 0xffff;

					if (order.bits(order.keys[tag[i] & 0xffff]) !=
						order.bits(order.keys[from[start]]))
						starts[start] = 1;
				}
			__syncthreads();
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				if (flat >> i & 1)
					tag[i] = (tag[i] & 0xffff) |
						(starts[bin[i] & 0xffff] ? (tag[i] >> 16) + 1 : BY_RID) << 16;
			__syncthreads();
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				if (flat >> i & 1)
				{
					starts[bin[i] & 0xffff] = 0;
					room->least[range_of(i)] = ~0u;
					room->most[range_of(i)] = 0;
				}
			__syncthreads();
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				add_to_range(room, bin[i] & 0xffff, flat >> i & 1 ? value(i) : 0,
							 flat >> i & 1);
			__syncthreads();
		}

		/* every item is counted, so that sums are places; ones that stay, at theirs */
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
			{
				uint32_t	at = bin[i] & 0xffff;
				uint32_t	half;

				if (is_dense(i))
				{
					uint32_t	size = bin[i] >> 16;
					uint32_t	least = room->least[range_of(i)];
					float		width = (float) (room->most[range_of(i)] - least) + 1.0f;

					at += min((uint32_t) ((float) (value(i) - least) *
										  ((float) size / width)), size - 1);
				}
				half = (at & 1) * 16;
				spot[i] = at |
					(atomicAdd(&room->counters[at >> 1], 1u << half) >> half) << 16;
			}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			sizes[i] = starts[threadIdx.x * ITEMS + i];
			few |= (uint32_t) (sizes[i] > 1 && sizes[i] <= BLOCK_SORT_FEW) << i;
			left |= sizes[i] > BLOCK_SORT_FEW;
			sum += sizes[i];
		}
		sum = block_exclusive_sum<THREADS>(sum, scan_room, &total);
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			starts[threadIdx.x * ITEMS + i] = (uint16_t) sum;
			sum += sizes[i];
		}
		if (threadIdx.x == 0)
			starts[CAPACITY] = (uint16_t) count;
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (is_dense(i))
			{
				uint32_t	at = spot[i] & 0xffff;
				uint32_t	start = starts[at];
				uint32_t	size = starts[at + 1] - start;
				uint32_t	to = start + (spot[i] >> 16);

				items[to] = mine[i];
				from[to] = (uint16_t) tag[i];
				bin[i] = size > BLOCK_SORT_FEW ? size << 16 | start : 1u << 16 | to;
			}
		left = __syncthreads_or(left);
		sort_bins<K, true>(order, few, starts + threadIdx.x * ITEMS, items, from);
		if (!left)
			return true;
		__syncthreads();
	}
	return false;
}

#endif							/* GPUSORT_BLOCK_REFINE_CUH */
