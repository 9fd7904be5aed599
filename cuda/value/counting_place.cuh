/*
 * counting_place.cuh
 *	  Stable counting sort of positions by their keys' values.
 *
 * Up to 8 bits of the values are placed per pass, lowest first.  A pass counts the
 * digits of every tile, sums up, and moves: two readings, of which the
 * first takes no positions, and one writing.  A radix pass that learns its targets
 * from the tiles before it (radix_pass.cuh) reads once, but its tiles wait for
 * each other.
 *
 * What makes it cheaper than a radix sort of keys and rids is that a pass
 * writes of a value only what later passes need: of a 16-bit value the first
 * pass reads the whole key and writes one byte and the position, the second reads
 * those and writes the position.  For a 32-bit key that is 23 bytes against 28,
 * for a 64-bit key 31 against 52.
 */
#ifndef GPUSORT_COUNTING_PLACE_CUH
#define GPUSORT_COUNTING_PLACE_CUH

#include "value/value_count.cuh"

#define PLACE_THREADS		512
#define PLACE_WARPS			(PLACE_THREADS / 32)
#define PLACE_ITEMS			16
#define PLACE_TILE			(PLACE_THREADS * PLACE_ITEMS)
#define PLACE_MAX_DIGITS	(1 << 8)

/* Where a pass reads values: the keys, or what the pass before left of them. */
template <class K, class W> struct KeySource
{
	typedef W Word;				/* holds all values */

	const K    *keys;
	ValueMap<K> map;

	__device__ __forceinline__ uint32_t operator() (uint32_t i) const
	{
		return map(keys[i]);
	}
};

template <class T> struct RestSource
{
	typedef T Word;

	const T    *words;

	__device__ __forceinline__ uint32_t operator() (uint32_t i) const
	{
		return words[i];
	}
};

/* counts[digit * tiles + tile]: how often the tile has the digit. */
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

template <class Source, class Rest> struct PlaceArgs
{
	Source		source;
	const uint32_t *positions;	/* not of the first pass */
	Rest	   *rest_out;		/* NULL: this is the last pass */
	uint32_t   *positions_out;
	uint32_t	n;
	int			digit_bits;
	const uint32_t *starts;		/* by digit, then tile: where its first key goes */
};

static_assert(PLACE_TILE >= PLACE_WARPS * PLACE_MAX_DIGITS, "lanes can meet in a tile");

template <class Source> static constexpr size_t
place_shared()
{
	return PLACE_TILE * (sizeof(typename Source::Word) + sizeof(uint32_t));
}

/*
 * FIRST: element i is position i, which costs no registers.  Nor do values of 16
 * bits, which share one with their rank.
 */
template <class Source, class Rest, bool FIRST>
__global__ void __launch_bounds__(PLACE_THREADS, 2)
place_kernel(const PlaceArgs<Source, Rest> args)
{
	typedef typename Source::Word Word;
	constexpr bool PACKED = sizeof(Word) <= 2;

	extern __shared__ __align__(16) uint32_t tile_positions[];
	Word	   *tile_values = reinterpret_cast<Word *>(tile_positions + PLACE_TILE);
	uint32_t   *meet = tile_positions;	/* until positions move in */

	/* Of each warp: counts of digits, then where its keys of a digit start. */
	__shared__ uint16_t warp_start[PLACE_WARPS][PLACE_MAX_DIGITS];
	__shared__ uint32_t target[PLACE_MAX_DIGITS];
	__shared__ uint32_t room[PLACE_WARPS];

	uint32_t	values[PLACE_ITEMS];
	uint32_t	ranks[PACKED ? 1 : PLACE_ITEMS];	/* else above the value */
	uint32_t	positions[FIRST ? 1 : PLACE_ITEMS];
	int			warp = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	uint32_t	first = warp * 32 * PLACE_ITEMS + lane;
	uint32_t	mask = (1u << args.digit_bits) - 1;
	uint32_t	start = blockIdx.x * PLACE_TILE;
	uint32_t	count = min(args.n - start, (uint32_t) PLACE_TILE);
	uint32_t	go_to = threadIdx.x <= mask
		? args.starts[(uint64_t) threadIdx.x * gridDim.x + blockIdx.x] : 0;

	for (int i = threadIdx.x; i < PLACE_WARPS * PLACE_MAX_DIGITS / 2; i += PLACE_THREADS)
		reinterpret_cast<uint32_t *>(&warp_start[0][0])[i] = 0;
	for (int i = threadIdx.x; i < PLACE_WARPS * PLACE_MAX_DIGITS; i += PLACE_THREADS)
		meet[i] = 0;
	__syncthreads();

	/* Past the end: all ones, so that they rank after all others. */
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
		values[i] = first + i * 32 < count ? args.source(start + first + i * 32)
			: PACKED ? 0xffff : ~0u;
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
	{
		uint32_t	rank = rank_in_warp<true, false>(meet + warp * PLACE_MAX_DIGITS,
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
			target[digit] = go_to - begin;
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

	/* padding has the greatest digit and ranks last: it is at count and after */
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
