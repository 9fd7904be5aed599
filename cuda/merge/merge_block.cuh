/*
 * merge_block.cuh
 *	  Kernels of the merge sort: sort tiles in shared memory, merge pairs of
 *	  sorted runs, merge the seams of tiles that are nearly in order.
 *
 * Every thread gets an equal share of a merge's output.  It finds by binary
 * search along the merge path (Green, McColl and Bader, "GPU merge path", 2012)
 * how many of the first d outputs come from each run, and merges its keys from
 * there.  That is done twice: once per block in global memory, by a warp that
 * tests 32 points at a time, then once per thread in shared memory.
 *
 * Keys go through shared memory, rids do not.  The kernel keeps each merged
 * key's source index and loads its rid from there.  The keys of a block's
 * output come from two runs only, so that those loads are nearly sequential.
 *
 * Of equal keys those of the left run come first: stable.
 *
 * Memory: a share's keys and source indexes in shared memory.
 */
#ifndef GPUSORT_MERGE_BLOCK_CUH
#define GPUSORT_MERGE_BLOCK_CUH

#include "key.cuh"

/*
 * Keys per thread; odd, so that lanes access different banks of shared memory.
 */
template <class K> __host__ __device__ constexpr int
merge_items()
{
	return sizeof(K) == 16 ? 7 : 15;
}

/*
 * The same in small inputs, where larger shares would leave multiprocessors
 * idle.
 */
template <class K> __host__ __device__ constexpr int
few_merge_items()
{
	return sizeof(K) == 16 ? 3 : 5;
}

#define MERGE_THREADS		256
#define TILE_THREADS		512	/* threads of a full tile */
#define MIN_TILE_THREADS	128	/* threads of the smallest tile */

/* Number of keys that a block of MERGE_THREADS merges or sorts. */
template <class K> __host__ __device__ constexpr uint32_t
merge_share()
{
	return MERGE_THREADS * merge_items<K>();
}

/* Bytes of dynamic shared memory of a block. */
template <class K, int THREADS> static constexpr size_t
merge_shared()
{
	return THREADS * merge_items<K>() * (sizeof(K) + sizeof(uint16_t));
}

/* Result of find_overlaps_kernel(); cleared before it. */
struct SeamState
{
	uint32_t	blocks_done;	/* blocks that are done */
	uint32_t	overlaps;		/* seams across which keys must move */
	uint32_t	far;			/* 1: some keys must move farther than a seam's
								 * merge can move them */
};

/* Indexes of the readback words. */
#define MERGE_READBACK_SEQUENCE	0
#define MERGE_READBACK_FAR		1
#define MERGE_READBACK_OVERLAPS	2

/* Arguments that all kernels of the merge sort have in common. */
template <class K> struct PassArgs
{
	const K    *keys;
	const uint32_t *rids;		/* NULL, for tiles: a key's index is its rid */
	K		   *keys_out;		/* NULL: do not write keys */
	uint32_t   *rids_out;		/* NULL: do not write rids */
	KeyBits<K>	bits;
	uint32_t	n;
};

/* Arguments of a merge of pairs of runs. */
template <class K> struct MergeArgs : PassArgs<K>
{
	uint64_t	width;			/* keys of a run */
	uint32_t	blocks;			/* blocks that merge a pair of runs */

	/*
	 * In small inputs: 1 for each tile that was out of order.  If none was, the
	 * kernel copies in_order instead of merging; NULL: it does nothing.
	 */
	const uint32_t *unsorted;
	uint32_t	tiles;
	const K    *in_order;
	const uint32_t *rids_in_order;
};

/*
 * Number of keys from a[] among the first diagonal keys of the merge of a[] and
 * b[].
 */
template <class K> __device__ __forceinline__ uint32_t
merge_path(const K *a, uint32_t a_count, const K *b, uint32_t b_count,
		   uint32_t diagonal, const KeyBits<K> &bits)
{
	uint32_t	lo = diagonal > b_count ? diagonal - b_count : 0;
	uint32_t	hi = min(diagonal, a_count);

	while (lo < hi)
	{
		uint32_t	middle = lo + (hi - lo) / 2;

		if (bits(b[diagonal - 1 - middle]) < bits(a[middle]))
			hi = middle;
		else
			lo = middle + 1;
	}
	return lo;
}

/* The same as merge_path(), by a whole warp; every lane gets the result. */
template <class K> __device__ __forceinline__ uint32_t
merge_path_warp(const K *a, uint32_t a_count, const K *b, uint32_t b_count,
				uint32_t diagonal, const KeyBits<K> &bits)
{
	uint32_t	lo = diagonal > b_count ? diagonal - b_count : 0;
	uint32_t	hi = min(diagonal, a_count);

	while (lo < hi)
	{
		uint32_t	step = (hi - lo - 1) / 32 + 1;
		uint64_t	probe = lo + (uint64_t) (threadIdx.x % 32) * step;
		bool		from_a = probe < hi &&
			!(bits(b[diagonal - 1 - probe]) < bits(a[probe]));
		uint32_t	steps = __popc(__ballot_sync(0xffffffffu, from_a));

		/* the path is behind the last probe in a, before the next probe */
		if (steps == 0)
			break;
		hi = (uint32_t) min((uint64_t) hi, lo + (uint64_t) steps * step);
		lo += (steps - 1) * step + 1;
	}
	return lo;
}

/*
 * Merges ITEMS keys from two runs of shared_keys[], at indexes [a, a_end) and
 * [b, b_end).  from[] gets their indexes.
 */
template <class K, int ITEMS> __device__ __forceinline__ void
merge_serial(const K *shared_keys, uint32_t a, uint32_t a_end, uint32_t b, uint32_t b_end,
			 const KeyBits<K> &bits, K keys[ITEMS], uint32_t from[ITEMS])
{
	K			a_key = shared_keys[a < a_end ? a : 0];
	K			b_key = shared_keys[b < b_end ? b : 0];

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		bool		take_b = b < b_end && (a >= a_end || bits(b_key) < bits(a_key));

		keys[i] = take_b ? b_key : a_key;
		from[i] = take_b ? b : a;
		if (take_b)
			b_key = shared_keys[++b < b_end ? b : 0];
		else
			a_key = shared_keys[++a < a_end ? a : 0];
	}
}

/*
 * Sorts a tile, stable.  Threads sort their keys in registers by odd-even
 * transposition; then runs are merged pairwise.  A tile that is in order is
 * only copied.
 */
template <class K, int THREADS>
__global__ void __launch_bounds__(THREADS)
sort_tile_kernel(const PassArgs<K> args)
{
	constexpr int ITEMS = merge_items<K>();
	constexpr uint32_t TILE = THREADS * ITEMS;

	extern __shared__ __align__(16) unsigned char shared[];
	K		   *tile_keys = reinterpret_cast<K *>(shared);
	uint16_t   *tile_from = reinterpret_cast<uint16_t *>(tile_keys + TILE);

	K			keys[ITEMS];
	uint32_t	from[ITEMS];
	uint32_t	start = blockIdx.x * TILE;
	uint32_t	count = min(args.n - start, TILE);
	uint32_t	first = threadIdx.x * ITEMS;
	bool		unsorted = false;

	/* padding behind the last key is all ones, which stays behind all keys */
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		tile_keys[at] = at < count ? args.keys[start + at] : all_ones<K>();
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		keys[i] = tile_keys[first + i];
		from[i] = first + i;
		unsorted |= first + i + 1 < TILE &&
			args.bits(tile_keys[first + i + 1]) < args.bits(keys[i]);
	}
	if (!__syncthreads_or(unsorted))
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	at = i * THREADS + threadIdx.x;

			if (at >= count)
				break;
			args.keys_out[start + at] = tile_keys[at];
			if (args.rids_out)
				args.rids_out[start + at] = args.rids ? args.rids[start + at] : start + at;
		}
		return;
	}

#pragma unroll
	for (int round = 0; round < ITEMS; round++)
#pragma unroll
		for (int i = round & 1; i + 1 < ITEMS; i += 2)
			if (args.bits(keys[i + 1]) < args.bits(keys[i]))
			{
				K			key = keys[i];
				uint32_t	where = from[i];

				keys[i] = keys[i + 1];
				from[i] = from[i + 1];
				keys[i + 1] = key;
				from[i + 1] = where;
			}

	for (uint32_t width = ITEMS; width < TILE; width *= 2)
	{
		uint32_t	a = first / (2 * width) * (2 * width);
		uint32_t	b = a + width;
		uint32_t	diagonal = first - a;
		uint32_t	taken;
		uint32_t	place[ITEMS];

		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			tile_keys[first + i] = keys[i];
			tile_from[first + i] = (uint16_t) from[i];
		}
		__syncthreads();
		taken = merge_path(tile_keys + a, width, tile_keys + b, width, diagonal, args.bits);
		merge_serial<K, ITEMS>(tile_keys, a + taken, b, b + diagonal - taken, b + width,
							   args.bits, keys, place);
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			from[i] = tile_from[place[i]];
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		tile_keys[first + i] = keys[i];
		tile_from[first + i] = (uint16_t) from[i];
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * THREADS + threadIdx.x;

		if (at < count)
		{
			args.keys_out[start + at] = tile_keys[at];
			if (args.rids_out)
			{
				uint32_t	where = start + tile_from[at];

				args.rids_out[start + at] = args.rids ? args.rids[where] : where;
			}
		}
	}
}

/*
 * Merges args.keys at indexes a and b, at most ITEMS per thread of the block,
 * to index to of the outputs.  In place is allowed.
 */
template <class K, int ITEMS> __device__ __forceinline__ void
merge_in_block(const MergeArgs<K> &args, unsigned char *shared, uint32_t a,
			   uint32_t a_count, uint32_t b, uint32_t b_count, uint32_t to)
{
	K		   *share_keys = reinterpret_cast<K *>(shared);
	uint16_t   *share_from = reinterpret_cast<uint16_t *>(share_keys + MERGE_THREADS * ITEMS);
	uint32_t	count = a_count + b_count;
	uint32_t	first = min(threadIdx.x * ITEMS, count);
	uint32_t	taken;
	K			keys[ITEMS];
	uint32_t	from[ITEMS];

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * MERGE_THREADS + threadIdx.x;

		if (at < count)
			share_keys[at] = args.keys[at < a_count ? a + at : b + (at - a_count)];
	}
	__syncthreads();
	taken = merge_path(share_keys, a_count, share_keys + a_count, b_count, first, args.bits);
	merge_serial<K, ITEMS>(share_keys, taken, a_count, a_count + first - taken, count,
						   args.bits, keys, from);
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (first + i < count)
		{
			share_keys[first + i] = keys[i];
			share_from[first + i] = (uint16_t) from[i];
		}
	__syncthreads();
	if (args.keys_out)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * MERGE_THREADS + threadIdx.x < count)
				args.keys_out[to + i * MERGE_THREADS + threadIdx.x] =
					share_keys[i * MERGE_THREADS + threadIdx.x];
	}
	if (args.rids_out)
	{
		uint32_t	rids[ITEMS];

#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * MERGE_THREADS + threadIdx.x < count)
			{
				uint32_t	where = share_from[i * MERGE_THREADS + threadIdx.x];

				rids[i] = args.rids[where < a_count ? a + where : b + (where - a_count)];
			}
		if (args.rids == args.rids_out)
			__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (i * MERGE_THREADS + threadIdx.x < count)
				args.rids_out[to + i * MERGE_THREADS + threadIdx.x] = rids[i];
	}
}

/*
 * Merges pairs of runs of args.width keys; a block writes ITEMS keys per
 * thread.
 */
template <class K, int ITEMS>
__global__ void __launch_bounds__(MERGE_THREADS)
merge_runs_kernel(const MergeArgs<K> args)
{
	constexpr uint32_t SHARE = MERGE_THREADS * ITEMS;

	extern __shared__ __align__(16) unsigned char shared[];
	__shared__ uint32_t taken[2];

	uint32_t	a = (uint32_t) (blockIdx.x / args.blocks * (2 * args.width));
	uint32_t	b = (uint32_t) min((uint64_t) args.n, a + args.width);
	uint32_t	end = (uint32_t) min((uint64_t) args.n, a + 2 * args.width);
	uint32_t	diagonal = min(blockIdx.x % args.blocks * SHARE, end - a);
	uint32_t	next = min(diagonal + SHARE, end - a);
	uint32_t	to = a + diagonal;
	bool		unsorted = args.unsorted == NULL;

	if (threadIdx.x < 64)
	{
		int			warp = threadIdx.x / 32;
		uint32_t	path = merge_path_warp(args.keys + a, b - a, args.keys + b, end - b,
										   warp == 0 ? diagonal : next, args.bits);

		if (threadIdx.x % 32 == 0)
			taken[warp] = path;
	}
	else if (args.unsorted)
	{
		for (uint32_t i = threadIdx.x - 64; i < args.tiles; i += MERGE_THREADS - 64)
			unsorted |= args.unsorted[i] != 0;
	}
	if (!__syncthreads_or(unsorted))
	{
		for (uint32_t at = to + threadIdx.x; args.in_order && at < a + next;
			 at += MERGE_THREADS)
		{
			if (args.keys_out)
				args.keys_out[at] = args.in_order[at];
			if (args.rids_out)
				args.rids_out[at] = args.rids_in_order[at];
		}
		return;
	}
	merge_in_block<K, ITEMS>(args, shared, a + taken[0], taken[1] - taken[0],
							 b + (diagonal - taken[0]),
							 (next - taken[1]) - (diagonal - taken[0]), to);
}

/*
 * The overlap at a seam, between tiles seam - 1 and seam: *left keys of the
 * left tile are greater than the right tile's first, *right keys of the right
 * tile are less than the left tile's last.
 */
template <class K> __device__ __forceinline__ void
seam_overlap(const K *keys, uint32_t n, uint32_t tile, uint32_t seam,
			 const KeyBits<K> &bits, uint32_t *left, uint32_t *right)
{
	uint32_t	at = seam * tile;	/* first key of the right tile */
	uint32_t	right_count = min(n - at, tile);
	K			least = bits(keys[at]);
	K			most = bits(keys[at - 1]);
	uint32_t	lo,
				hi;

	*left = 0;
	*right = 0;
	if (!(least < most))
		return;
	for (lo = 0, hi = tile; lo < hi;)
	{
		uint32_t	middle = (lo + hi) / 2;

		if (least < bits(keys[at - tile + middle]))
			hi = middle;
		else
			lo = middle + 1;
	}
	*left = tile - lo;
	for (lo = 0, hi = right_count; lo < hi;)
	{
		uint32_t	middle = (lo + hi) / 2;

		if (bits(keys[at + middle]) < most)
			lo = middle + 1;
		else
			hi = middle;
	}
	*right = lo;
}

/*
 * Finds the overlaps at all seams; a thread per seam.  Merging each seam by
 * itself completes the sort if each tile keeps a key between the overlaps at
 * its two seams: that key is not less than any key before it and not greater
 * than any behind it.
 */
template <class K>
__global__ void __launch_bounds__(MERGE_THREADS)
find_overlaps_kernel(const K *keys, uint32_t n, uint32_t tile, uint32_t tiles,
					 KeyBits<K> bits, uint32_t *overlaps, SeamState *state,
					 uint32_t *readback, uint32_t sequence_number)
{
	uint32_t	seam = blockIdx.x * MERGE_THREADS + threadIdx.x + 1;

	if (seam < tiles)
	{
		uint32_t	left,
					right,
					next_left,
					next_right;
		bool		far;

		seam_overlap(keys, n, tile, seam, bits, &left, &right);
		far = left + right > merge_share<K>();
		if (seam + 1 < tiles)
		{
			seam_overlap(keys, n, tile, seam + 1, bits, &next_left, &next_right);
			far |= right + next_left >= tile;
		}
		if (far)
			atomicOr(&state->far, 1);
		if (left + right > 0)
			atomicAdd(&state->overlaps, 1);
		overlaps[seam] = left << 16 | right;
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(&state->blocks_done, 1) == gridDim.x - 1)
	{
		volatile uint32_t *words = readback;

		words[MERGE_READBACK_FAR] = *(volatile uint32_t *) &state->far;
		words[MERGE_READBACK_OVERLAPS] = *(volatile uint32_t *) &state->overlaps;
		__threadfence_system();
		words[MERGE_READBACK_SEQUENCE] = sequence_number;
	}
}

/* Merges the overlap of each seam in place; a block per seam. */
template <class K>
__global__ void __launch_bounds__(MERGE_THREADS)
fix_up_seam_kernel(const MergeArgs<K> args, uint32_t tile, const uint32_t *overlaps)
{
	extern __shared__ __align__(16) unsigned char shared[];

	uint32_t	seam = blockIdx.x + 1;
	uint32_t	left = overlaps[seam] >> 16;
	uint32_t	right = overlaps[seam] & 0xffff;
	uint32_t	at = seam * tile;

	if (left + right > 0)
		merge_in_block<K, merge_items<K>()>(args, shared, at - left, left, at, right, at - left);
}

#endif							/* GPUSORT_MERGE_BLOCK_CUH */
