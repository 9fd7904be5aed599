/*
 * pair_sort.cuh
 *	  Sorts of (value, rid) pairs in the shared memory of a block: a merge
 *	  sort, and a bitonic sort for samples.
 *
 * The merge sort's time does not depend on the values.  Each thread sorts a few
 * pairs in registers; then runs are merged pairwise.  A thread finds its share
 * of a merge by binary search along the merge path (Green, McColl and Bader,
 * "GPU merge path", 2012).  The rid decides between equal values, so that no
 * two pairs are equal.
 *
 * A pair of a 32-bit value is one 64-bit number.  Wider values and their rids
 * are in separate arrays; a comparison reads rids only for equal values.
 */
#ifndef GPUSORT_PAIR_SORT_CUH
#define GPUSORT_PAIR_SORT_CUH

#include "key.cuh"

/* A value and a rid, ordered by both. */
template <class K> struct Pair
{
	K			value;
	uint32_t	rid;

	/* branch-free, because lanes of a warp would diverge */
	__device__ __forceinline__ bool operator< (const Pair &other) const
	{
		return (value < other.value) | ((value == other.value) & (rid < other.rid));
	}
};

/* The same for 32-bit values, as one 64-bit number. */
template <> struct Pair<uint32_t>
{
	uint32_t	rid;			/* first: the low half of the 64-bit number */
	uint32_t	value;

	__device__ __forceinline__ bool operator< (const Pair &other) const
	{
		return ((uint64_t) value << 32 | rid) < ((uint64_t) other.value << 32 | other.rid);
	}
};

/* The pair of a value and a rid. */
template <class K> __device__ __forceinline__ Pair<K>
make_pair(K value, uint32_t rid)
{
	Pair<K>		pair;

	pair.value = value;
	pair.rid = rid;
	return pair;
}

/* A pair behind all others, as no rid is all ones. */
template <class K> __device__ __forceinline__ Pair<K>
last_pair()
{
	return make_pair<K>(all_ones<K>(), ~0u);
}

/* An array of pairs in shared memory; memory is aligned for K. */
template <class K> struct PairRoom
{
	K		   *values;
	uint32_t   *rids;

	__device__ __forceinline__ PairRoom(void *memory, uint32_t capacity)
		: values(static_cast<K *>(memory)),
		  rids(reinterpret_cast<uint32_t *>(values + capacity))
	{
	}

	__device__ __forceinline__ Pair<K> get(uint32_t i) const
	{
		return make_pair<K>(values[i], rids[i]);
	}

	__device__ __forceinline__ void put(uint32_t i, const Pair<K> &pair) const
	{
		values[i] = pair.value;
		rids[i] = pair.rid;
	}

	__device__ __forceinline__ bool less(uint32_t i, uint32_t j) const
	{
		K			v = values[i],
					w = values[j];

		return v == w ? rids[i] < rids[j] : v < w;
	}
};

/* The same for 32-bit values. */
template <> struct PairRoom<uint32_t>
{
	uint64_t   *pairs;

	__device__ __forceinline__ PairRoom(void *memory, uint32_t)
		: pairs(static_cast<uint64_t *>(memory))
	{
	}

	__device__ __forceinline__ Pair<uint32_t> get(uint32_t i) const
	{
		return make_pair<uint32_t>((uint32_t) (pairs[i] >> 32), (uint32_t) pairs[i]);
	}

	__device__ __forceinline__ void put(uint32_t i, const Pair<uint32_t> &pair) const
	{
		pairs[i] = (uint64_t) pair.value << 32 | pair.rid;
	}

	__device__ __forceinline__ bool less(uint32_t i, uint32_t j) const
	{
		return pairs[i] < pairs[j];
	}
};

/* Bytes of a PairRoom of that capacity. */
template <class K> __host__ __device__ constexpr size_t
pair_room_bytes(uint32_t capacity)
{
	return capacity * (sizeof(K) + sizeof(uint32_t));
}

/* Number of threads that hold the count pairs, ITEMS each: a power of two. */
template <int THREADS, int ITEMS> __device__ __forceinline__ uint32_t
pair_threads(uint32_t count)
{
	uint32_t	threads = 32;

	while (threads < THREADS && threads * ITEMS < count)
		threads *= 2;
	return threads;
}

/*
 * Merge sort.  The first threads threads hold ITEMS pairs each, padded with
 * last_pair(); the result is in room.  All threads of the block call it.  ITEMS
 * is odd, so that lanes access different banks of shared memory.
 */
template <class K, int ITEMS> __device__ __forceinline__ void
block_sort_pairs(Pair<K> mine[ITEMS], const PairRoom<K> &room, uint32_t threads)
{
	uint32_t	first = threadIdx.x * ITEMS;
	bool		active = threadIdx.x < threads;

	static_assert(ITEMS % 2 == 1, "no bank conflicts");
#pragma unroll
	for (int round = 0; round < ITEMS; round++)
#pragma unroll
		for (int i = round & 1; i + 1 < ITEMS; i += 2)
			if (mine[i + 1] < mine[i])
			{
				Pair<K>		pair = mine[i];

				mine[i] = mine[i + 1];
				mine[i + 1] = pair;
			}
	for (uint32_t run = 1;; run *= 2)	/* length of a run, in threads */
	{
		uint32_t	width = run * ITEMS;
		uint32_t	a = (threadIdx.x & ~(2 * run - 1)) * ITEMS;
		uint32_t	b = a + width;
		uint32_t	a_end = b,
					b_end = b + width;
		uint32_t	diagonal = first - a;
		uint32_t	lo = diagonal > width ? diagonal - width : 0;
		uint32_t	hi = min(diagonal, width);

		__syncthreads();
		if (active)
		{
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				room.put(first + i, mine[i]);
		}
		__syncthreads();
		if (run >= threads)
			return;
		if (!active)
			continue;
		while (lo < hi)
		{
			uint32_t	middle = (lo + hi) / 2;

			if (room.less(b + diagonal - 1 - middle, a + middle))
				hi = middle;
			else
				lo = middle + 1;
		}
		b += diagonal - lo;
		a += lo;

		Pair<K>		a_pair = room.get(min(a, a_end - 1));
		Pair<K>		b_pair = room.get(min(b, b_end - 1));

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			/* branch-free, because lanes of a warp would diverge */
			bool		take_b = (b < b_end) & ((a >= a_end) | (b_pair < a_pair));
			Pair<K>		next;

			mine[i] = take_b ? b_pair : a_pair;
			a += !take_b;
			b += take_b;
			next = room.get(take_b ? min(b, b_end - 1) : min(a, a_end - 1));
			a_pair = take_b ? a_pair : next;
			b_pair = take_b ? next : b_pair;
		}
	}
}

/* The pair of the lane whose number differs by the bits of lanes. */
template <class K> __device__ __forceinline__ Pair<K>
shuffle_pair_xor(const Pair<K> &pair, int lanes)
{
	return make_pair<K>(shuffle_xor(pair.value, lanes), shuffle_xor(pair.rid, lanes));
}

/*
 * Bitonic sort of ITEMS pairs per thread; thread t gets the sorted pairs from t
 * * ITEMS on.  It compares more often than the merge sort, but mostly pairs in
 * the same warp, without barriers, which is faster for few pairs.  room is
 * shared memory for all pairs.
 */
template <class K, int THREADS, int ITEMS> __device__ __forceinline__ void
block_sort_sample(Pair<K> mine[ITEMS], const PairRoom<K> &room)
{
	uint32_t	first = threadIdx.x * ITEMS;

	for (uint32_t size = 2; size <= THREADS * ITEMS; size *= 2)
	{
		/* partners in other warps, then in other lanes, then in the thread */
		for (uint32_t distance = size / 2; distance >= 32 * ITEMS; distance /= 2)
		{
			bool		least = ((first & distance) == 0) == ((first & size) == 0);

			__syncthreads();
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				room.put(i * THREADS + threadIdx.x, mine[i]);
			__syncthreads();
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
			{
				Pair<K>		other = room.get(i * THREADS + (threadIdx.x ^ distance / ITEMS));

				mine[i] = (other < mine[i]) == least ? other : mine[i];
			}
		}
		for (uint32_t distance = min(size / 2, 16u * ITEMS); distance >= ITEMS; distance /= 2)
		{
			bool		least = ((first & distance) == 0) == ((first & size) == 0);

#pragma unroll
			for (int i = 0; i < ITEMS; i++)
			{
				Pair<K>		other = shuffle_pair_xor(mine[i], distance / ITEMS);

				mine[i] = (other < mine[i]) == least ? other : mine[i];
			}
		}
#pragma unroll
		for (int distance = ITEMS / 2; distance > 0; distance /= 2)
			if (distance < (int) size)
			{
#pragma unroll
				for (int i = 0; i < ITEMS; i++)
					if ((i & distance) == 0)
					{
						bool		up = ((first + i) & size) == 0;

						if ((mine[i + distance] < mine[i]) == up)
						{
							Pair<K>		pair = mine[i];

							mine[i] = mine[i + distance];
							mine[i + distance] = pair;
						}
					}
			}
	}
}

#endif							/* GPUSORT_PAIR_SORT_CUH */
