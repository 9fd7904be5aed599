/*
 * counting_place.cuh
 *	  Stable counting sort of positions by their keys' values, 8 bits per pass.
 *
 * Passes go from the lowest bits up.  A pass counts the digits of every tile,
 * sums up the counts, and moves positions.  It reads the values twice and the
 * positions once, and writes once.  A radix pass with look-back
 * (radix_pass.cuh) reads only once, but its tiles wait for each other.
 *
 * A pass writes only those bits of a value that later passes need.  For 16-bit
 * values the first pass reads whole keys and writes one byte and the position
 * of each; the second reads those and writes positions.  That moves fewer bytes
 * than a radix sort of keys and row ids: 23 against 28 per 32-bit key, 31
 * against 52 per 64-bit key.
 *
 * Memory: a tile's values and positions in shared memory.
 */
#ifndef GPUSORT_COUNTING_PLACE_CUH
#define GPUSORT_COUNTING_PLACE_CUH

#include "value/value_count.cuh"

/* A tile: threads, values per thread, values. */
#define PLACE_THREADS		512
#define PLACE_WARPS			(PLACE_THREADS / 32)
#define PLACE_ITEMS			16
#define PLACE_TILE			(PLACE_THREADS * PLACE_ITEMS)
#define PLACE_MAX_DIGITS	(1 << 8)

/* Source of the first pass: the values of the keys.  W holds a value. */
template <class K, class W> struct KeySource
{
	typedef W Word;

	const K    *keys;
	ValueMap<K> map;

	__device__ __forceinline__ uint32_t operator() (uint32_t i) const
	{
		return map(keys[i]);
	}
};

/* Source of the other passes: the remaining bits of the values. */
template <class T> struct RestSource
{
	typedef T Word;

	const T    *words;

	__device__ __forceinline__ uint32_t operator() (uint32_t i) const
	{
		return words[i];
	}
};

/*
 * counts[digit * tiles + tile] = number of the tile's values with that digit.
 */
template <class Source>
__global__ void __launch_bounds__(PLACE_THREADS)
count_tile_kernel(const Source source, uint32_t n, uint32_t mask, uint32_t *counts)
{
	__shared__ uint32_t tile_counts[PLACE_MAX_DIGITS];

	uint32_t	start = blockIdx.x * PLACE_TILE;
	uint32_t	count = min(n - start, (uint32_t) PLACE_TILE);
	uint32_t	values[PLACE_ITEMS];

	if (threadIdx.x < PLACE_MAX_DIGITS)
		tile_counts[threadIdx.x] = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
		if (i * PLACE_THREADS + threadIdx.x < count)
			values[i] = source(start + i * PLACE_THREADS + threadIdx.x);
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
		if (i * PLACE_THREADS + threadIdx.x < count)
			atomicAdd(&tile_counts[values[i] & mask], 1);
	__syncthreads();
	if (threadIdx.x <= mask)
		counts[(uint64_t) threadIdx.x * gridDim.x + blockIdx.x] = tile_counts[threadIdx.x];
}

/* Arguments of a pass. */
template <class Source, class Rest> struct PlaceArgs
{
	Source		source;
	const uint32_t *positions;	/* in the order of source; not in the first
								 * pass */
	Rest	   *rest_out;		/* bits for later passes; NULL in the last
								 * pass */
	uint32_t   *positions_out;
	uint32_t	n;
	int			digit_bits;		/* low bits of a value that the pass sorts by */
	const uint32_t *starts;		/* [digit * tiles + tile]: place of the tile's
								 * first element with that digit */
};

static_assert(PLACE_TILE >= PLACE_WARPS * PLACE_MAX_DIGITS, "the lane masks fit a tile");

/* Bytes of dynamic shared memory of a pass. */
template <class Source> static constexpr size_t
place_shared()
{
	return PLACE_TILE * (sizeof(typename Source::Word) + sizeof(uint32_t));
}

/*
 * One pass; a block per tile.  FIRST: the position of element i is i and takes
 * no register.  Values of at most 16 bits share a register with their rank.
 */
template <class Source, class Rest, bool FIRST>
__global__ void __launch_bounds__(PLACE_THREADS, 2)
place_kernel(const PlaceArgs<Source, Rest> args)
{
	typedef typename Source::Word Word;
	constexpr bool PACKED = sizeof(Word) <= 2;

	extern __shared__ __align__(16) uint32_t tile_positions[];
	Word	   *tile_values = reinterpret_cast<Word *>(tile_positions + PLACE_TILE);
	uint32_t   *lane_masks = tile_positions;	/* before the positions */

	/*
	 * per warp and digit: count, then the place in the tile of the first
	 * element
	 */
	__shared__ uint16_t warp_start[PLACE_WARPS][PLACE_MAX_DIGITS];
	__shared__ uint32_t target[PLACE_MAX_DIGITS];
	__shared__ uint32_t room[PLACE_WARPS];

	uint32_t	values[PLACE_ITEMS];
	uint32_t	ranks[PACKED ? 1 : PLACE_ITEMS];	/* PACKED: in values[], bit
													 * 16 up */
	uint32_t	positions[FIRST ? 1 : PLACE_ITEMS];
	int			warp = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	uint32_t	first = warp * 32 * PLACE_ITEMS + lane;
	uint32_t	mask = (1u << args.digit_bits) - 1;
	uint32_t	start = blockIdx.x * PLACE_TILE;
	uint32_t	count = min(args.n - start, (uint32_t) PLACE_TILE);
	uint32_t	digit_target = threadIdx.x <= mask
		? args.starts[(uint64_t) threadIdx.x * gridDim.x + blockIdx.x] : 0;

	for (int i = threadIdx.x; i < PLACE_WARPS * PLACE_MAX_DIGITS / 2; i += PLACE_THREADS)
		reinterpret_cast<uint32_t *>(&warp_start[0][0])[i] = 0;
	for (int i = threadIdx.x; i < PLACE_WARPS * PLACE_MAX_DIGITS; i += PLACE_THREADS)
		lane_masks[i] = 0;
	__syncthreads();

	/*
	 * padding behind the last element is all ones, which ranks behind all
	 * others
	 */
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
		values[i] = first + i * 32 < count ? args.source(start + first + i * 32)
			: PACKED ? 0xffff : ~0u;
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
	{
		uint32_t	rank = rank_in_warp<true, false>(lane_masks + warp * PLACE_MAX_DIGITS,
													 warp_start[warp], values[i] & mask);

		if (PACKED)
			values[i] |= rank << 16;
		else
			ranks[PACKED ? 0 : i] = rank;
	}
	if (!FIRST)
	{
#pragma unroll
		for (int i = 0; i < PLACE_ITEMS; i++)
			if (first + i * 32 < count)
				positions[FIRST ? 0 : i] = args.positions[start + first + i * 32];
	}
	__syncthreads();
	{
		uint32_t	digit = threadIdx.x;
		uint32_t	own = 0,
					begin,
					total;

		if (digit < PLACE_MAX_DIGITS)
		{
#pragma unroll
			for (int w = 0; w < PLACE_WARPS; w++)
			{
				uint32_t	warps = warp_start[w][digit];

				warp_start[w][digit] = (uint16_t) own;
				own += warps;
			}
		}
		begin = block_exclusive_sum<PLACE_THREADS>(own, room, &total);
		if (digit < PLACE_MAX_DIGITS)
		{
			target[digit] = digit_target - begin;
#pragma unroll
			for (int w = 0; w < PLACE_WARPS; w++)
				warp_start[w][digit] = (uint16_t) (warp_start[w][digit] + begin);
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
	{
		uint32_t	rank = PACKED ? values[i] >> 16 : ranks[PACKED ? 0 : i];
		uint32_t	to = warp_start[warp][values[i] & mask] + rank;

		tile_values[to] = (Word) values[i];
		tile_positions[to] = FIRST ? start + first + i * 32 : positions[FIRST ? 0 : i];
	}
	__syncthreads();

	/* the padding is at count and behind, and is not written */
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
	{
		uint32_t	at = i * PLACE_THREADS + threadIdx.x;

		if (at < count)
		{
			uint32_t	v = tile_values[at];
			uint32_t	to = target[v & mask] + at;

			if (args.rest_out)
				args.rest_out[to] = (Rest) (v >> args.digit_bits);
			args.positions_out[to] = tile_positions[at];
		}
	}
}

#endif							/* GPUSORT_COUNTING_PLACE_CUH */
