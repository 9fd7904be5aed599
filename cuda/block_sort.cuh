/*
 * block_sort.cuh
 *	  Sorts each bucket that fits one block's shared memory.
 *
 * The bucket's values are mapped evenly onto as many bins as there are keys,
 * counted, and placed by bin: one shared-memory addition per key instead of one
 * ranking per digit, so the cost does not grow with the width of the key.  What
 * shares a bin (one other key on average) is put in order by counting, for
 * each key, the keys of its bin that (key, rid) puts before it.
 *
 * A crowded bin would make that quadratic.  A bucket that has one is sorted by
 * merging instead: each thread sorts its keys in registers, then runs are merged
 * pairwise in shared memory, every thread finding its share by binary search
 * along the merge path.  That costs about three times as much and does not
 * depend on the values at all.
 */
#ifndef GPUSORT_BLOCK_SORT_CUH
#define GPUSORT_BLOCK_SORT_CUH

#include "block_scan.cuh"
#include "key.cuh"

#define BLOCK_SORT_THREADS		512
#define BLOCK_SORT_ITEMS		9	/* odd: no bank conflicts in blocked order */
#define BLOCK_SORT_CAPACITY		(BLOCK_SORT_THREADS * BLOCK_SORT_ITEMS)
#define BLOCK_SORT_BINS			4096
#define BLOCK_SORT_CROWDED		24

/* What the plan found out about the input as a whole. */
#define INPUT_UNORDERED		0
#define INPUT_SORTED		1
#define INPUT_REVERSED		2

template <class K> struct BlockSortArgs
{
	const K    *keys;			/* may be keys_out */
	const uint32_t *rids;		/* may be rids_out; NULL: the position */
	K		   *keys_out;		/* NULL: not wanted */
	uint32_t   *rids_out;		/* NULL: not wanted */
	const uint32_t *rid_table;	/* if not NULL, rid r is written as rid_table[r] */
	KeyBits<K>	bits;
	uint32_t	n;
	const uint32_t *bucket_start;	/* NULL: one bucket of all n keys */
	const uint32_t *bucket_end;
	const uint32_t *order;		/* INPUT_*; NULL: unordered.  If it is ordered,
								 * the input below is copied and nothing else */
	const K    *input_keys;
	const uint32_t *input_rids;
};

template <class K, bool RIDS> static size_t
block_sort_shared()
{
	return BLOCK_SORT_CAPACITY * (sizeof(K) + (RIDS ? sizeof(uint32_t) : 0)) +
		(BLOCK_SORT_BINS + 4) * sizeof(uint32_t);
}

template <class K, bool RIDS> __device__ __forceinline__ bool
before(K a, uint32_t a_rid, K b, uint32_t b_rid)
{
	return a < b || (RIDS && a == b && a_rid < b_rid);
}

template <class K, bool RIDS> __device__ __forceinline__ void
write_sorted(const BlockSortArgs<K> &args, uint32_t to, K key, uint32_t rid)
{
	if (args.keys_out)
		args.keys_out[to] = key;
	if (RIDS && args.rids_out)
		args.rids_out[to] = args.rid_table ? args.rid_table[rid] : rid;
}

/* The whole input was in order, or in strictly falling order: copy it. */
template <class K, bool RIDS> __device__ static void
copy_ordered(const BlockSortArgs<K> &args, bool reversed)
{
	uint64_t	step = (uint64_t) gridDim.x * BLOCK_SORT_THREADS;

	for (uint64_t i = (uint64_t) blockIdx.x * BLOCK_SORT_THREADS + threadIdx.x;
		 i < args.n; i += step)
	{
		uint32_t	from = reversed ? args.n - 1 - (uint32_t) i : (uint32_t) i;

		if (args.keys_out)
			args.keys_out[i] = args.input_keys[from];
		if (RIDS && args.rids_out)
			args.rids_out[i] = args.input_rids ? args.input_rids[from] : from;
	}
}

/*
 * Merge sort of count keys that lie in tile_keys (and tile_rids), leaving them
 * there in order.  Padding sorts last: it is all ones, and the sort is stable.
 */
template <class K, bool RIDS> __device__ __noinline__ static void
block_merge_sort(const KeyBits<K> &bits, K *tile_keys, uint32_t *tile_rids,
				 uint32_t count)
{
	constexpr int ITEMS = BLOCK_SORT_ITEMS;

	K			keys[ITEMS];
	uint32_t	rids[ITEMS];
	uint32_t	first = threadIdx.x * ITEMS;

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		keys[i] = first + i < count ? tile_keys[first + i] : all_ones<K>();
		rids[i] = RIDS && first + i < count ? tile_rids[first + i] : ~0u;
	}

	/* Odd-even transposition: in registers, swaps of neighbours only, stable. */
#pragma unroll
	for (int round = 0; round < ITEMS; round++)
#pragma unroll
		for (int i = round & 1; i + 1 < ITEMS; i += 2)
			if (before<K, RIDS>(bits(keys[i + 1]), rids[i + 1],
								bits(keys[i]), rids[i]))
			{
				K			key = keys[i];
				uint32_t	rid = rids[i];

				keys[i] = keys[i + 1];
				rids[i] = rids[i + 1];
				keys[i + 1] = key;
				rids[i + 1] = rid;
			}

	for (uint32_t width = ITEMS;; width *= 2)
	{
		uint32_t	a = first / (2 * width) * (2 * width);
		uint32_t	b = a + width;
		uint32_t	b_end = b + width;
		uint32_t	diagonal = first - a;
		uint32_t	lo,
					hi;

		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			tile_keys[first + i] = keys[i];
			if (RIDS)
				tile_rids[first + i] = rids[i];
		}
		__syncthreads();
		if (width >= count)
			return;

		/* How many of the first diagonal keys of the merge come from a? */
		lo = diagonal > width ? diagonal - width : 0;
		hi = diagonal < width ? diagonal : width;
		while (lo < hi)
		{
			uint32_t	middle = (lo + hi) / 2;
			uint32_t	other = b + diagonal - 1 - middle;

			if (before<K, RIDS>(bits(tile_keys[other]), RIDS ? tile_rids[other] : 0,
								bits(tile_keys[a + middle]),
								RIDS ? tile_rids[a + middle] : 0))
				hi = middle;
			else
				lo = middle + 1;
		}
		b += diagonal - lo;
		a += lo;

		uint32_t	a_end = b_end - width;
		K			a_key = tile_keys[min(a, BLOCK_SORT_CAPACITY - 1u)];
		K			b_key = tile_keys[min(b, BLOCK_SORT_CAPACITY - 1u)];
		uint32_t	a_rid = RIDS ? tile_rids[min(a, BLOCK_SORT_CAPACITY - 1u)] : 0;
		uint32_t	b_rid = RIDS ? tile_rids[min(b, BLOCK_SORT_CAPACITY - 1u)] : 0;

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			bool		take_b = b < b_end &&
				(a >= a_end || before<K, RIDS>(bits(b_key), b_rid, bits(a_key), a_rid));

			keys[i] = take_b ? b_key : a_key;
			rids[i] = take_b ? b_rid : a_rid;
			if (take_b)
			{
				b++;
				b_key = tile_keys[min(b, BLOCK_SORT_CAPACITY - 1u)];
				b_rid = RIDS ? tile_rids[min(b, BLOCK_SORT_CAPACITY - 1u)] : 0;
			}
			else
			{
				a++;
				a_key = tile_keys[min(a, BLOCK_SORT_CAPACITY - 1u)];
				a_rid = RIDS ? tile_rids[min(a, BLOCK_SORT_CAPACITY - 1u)] : 0;
			}
		}
	}
}

template <class K, bool RIDS>
__global__ void __launch_bounds__(BLOCK_SORT_THREADS, sizeof(K) == 4 ? 3 : 2)
block_sort_kernel(const BlockSortArgs<K> args)
{
	constexpr int THREADS = BLOCK_SORT_THREADS;
	constexpr int ITEMS = BLOCK_SORT_ITEMS;
	constexpr int BINS_PER_THREAD = BLOCK_SORT_BINS / THREADS;

	extern __shared__ __align__(16) unsigned char shared[];
	K		   *tile_keys = reinterpret_cast<K *>(shared);
	uint32_t   *bins = reinterpret_cast<uint32_t *>(tile_keys + BLOCK_SORT_CAPACITY);
	uint32_t   *tile_rids = bins + BLOCK_SORT_BINS + 4;

	__shared__ K key_room[2 * THREADS / 32];
	__shared__ uint32_t room[2 * THREADS / 32];

	K			keys[ITEMS];
	uint32_t	rids[ITEMS];
	uint32_t	place[ITEMS];	/* bin << 16 | rank in it */
	uint32_t	start = 0,
				count = args.n;
	K			lo = all_ones<K>(),
				hi = 0;
	BucketMap<K> map;
	bool		by_rid;
	uint32_t	most = 0;

	if (args.order && *args.order != INPUT_UNORDERED)
	{
		copy_ordered<K, RIDS>(args, *args.order == INPUT_REVERSED);
		return;
	}
	if (args.bucket_start)
	{
		start = args.bucket_start[blockIdx.x];
		count = args.bucket_end[blockIdx.x] - start;
	}
	if (count == 0 || count > BLOCK_SORT_CAPACITY)
		return;					/* too large: goes round again */

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			keys[i] = args.keys[start + at];
			rids[i] = !RIDS ? 0 : args.rids ? args.rids[start + at] : start + at;
		}
	}
#pragma unroll
	for (int i = 0; i < BINS_PER_THREAD; i++)
		bins[i * THREADS + threadIdx.x] = 0;
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * THREADS + threadIdx.x < count)
		{
			K			v = args.bits(keys[i]);

			lo = v < lo ? v : lo;
			hi = v > hi ? v : hi;
		}
	block_min_max<THREADS>(lo, hi, key_room);
	by_rid = lo == hi;
	if (by_rid && RIDS)
	{
		uint32_t	rid_lo = ~0u,
					rid_hi = 0;

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * THREADS + threadIdx.x < count)
			{
				rid_lo = min(rid_lo, rids[i]);
				rid_hi = max(rid_hi, rids[i]);
			}
		block_min_max<THREADS>(rid_lo, rid_hi, room);
		lo = (K) rid_lo;
		hi = (K) rid_hi;
	}
	map = make_map<K>(lo, hi, BLOCK_SORT_BINS);
	__syncthreads();

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			uint32_t	bin;

			/* equal keys without rids may stand anywhere */
			if (by_rid && !RIDS)
				bin = at % BLOCK_SORT_BINS;
			else
				bin = map(by_rid ? (K) rids[i] : args.bits(keys[i]));
			place[i] = bin << 16 | atomicAdd(&bins[bin], 1);
		}
	}
	__syncthreads();
	{
		uint32_t	counts[BINS_PER_THREAD];
		uint32_t	sum = 0,
					total;

#pragma unroll
		for (int i = 0; i < BINS_PER_THREAD; i++)
		{
			counts[i] = bins[threadIdx.x * BINS_PER_THREAD + i];
			sum += counts[i];
			most = max(most, counts[i]);
		}
		sum = block_exclusive_sum<THREADS>(sum, room, &total);
#pragma unroll
		for (int i = 0; i < BINS_PER_THREAD; i++)
		{
			bins[threadIdx.x * BINS_PER_THREAD + i] = sum;
			sum += counts[i];
		}
		if (threadIdx.x == 0)
			bins[BLOCK_SORT_BINS] = count;
	}
	most = __syncthreads_or(most > BLOCK_SORT_CROWDED);

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * THREADS + threadIdx.x < count)
		{
			uint32_t	to = bins[place[i] >> 16] + (place[i] & 0xffff);

			tile_keys[to] = keys[i];
			if (RIDS)
				tile_rids[to] = rids[i];
		}
	__syncthreads();
	if (most)
		block_merge_sort<K, RIDS>(args.bits, tile_keys, tile_rids, count);

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			K			key = tile_keys[at];
			uint32_t	rid = RIDS ? tile_rids[at] : 0;
			uint32_t	to = at;

			if (!most && !(by_rid && !RIDS))
			{
				K			v = args.bits(key);
				uint32_t	bin = map(by_rid ? (K) rid : v);
				uint32_t	end = bins[bin + 1];

				to = bins[bin];
				if (end - to > 1)
					for (uint32_t other = to; other < end; other++)
						if (other != at)
						{
							K			w = args.bits(tile_keys[other]);

							if (RIDS)
								to += w < v || (w == v && tile_rids[other] < rid);
							else
								to += w < v || (w == v && other < at);
						}
			}
			write_sorted<K, RIDS>(args, start + to, key, rid);
		}
	}
}

#endif							/* GPUSORT_BLOCK_SORT_CUH */
