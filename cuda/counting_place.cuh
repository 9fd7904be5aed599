/*
 * counting_place.cuh
 *	  Stable counting sort of positions by their keys' values.
 *
 * Up to 8 bits of the values are placed per pass, lowest first, each pass one
 * reading and one writing (radix_pass.cuh says how tiles learn their targets).
 * What makes it cheaper than a radix sort of keys and rids is that a pass
 * writes of a value only what later passes need: of a 16-bit value the first
 * pass reads the whole key and writes one byte and the position, the second reads
 * those and writes the position.  For a 32-bit key that is 22 bytes against 28,
 * for a 64-bit key 30 against 52.
 */
#ifndef GPUSORT_COUNTING_PLACE_CUH
#define GPUSORT_COUNTING_PLACE_CUH

#include "radix_pass.cuh"
#include "value_count.cuh"

#define PLACE_THREADS		512
#define PLACE_WARPS			(PLACE_THREADS / 32)
#define PLACE_ITEMS			16
#define PLACE_TILE			(PLACE_THREADS * PLACE_ITEMS)
#define PLACE_MAX_PASSES	4
#define PLACE_MAX_DIGITS	(1 << 8)

/* What the passes share; zeroed before the count. */
struct PlaceState
{
	uint32_t	start[PLACE_MAX_PASSES][PLACE_MAX_DIGITS];	/* counts, then sums */
	uint32_t	next_tile[PLACE_MAX_PASSES];
	uint32_t	blocks_done;
};

/* Where a pass reads values: the keys, or what the pass before left of them. */
template <class K> struct KeySource
{
	typedef uint32_t Word;

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

/* Counts every digit of every value; the last block sums up. */
template <class K>
__global__ void __launch_bounds__(PLACE_THREADS)
count_digits_kernel(const K *keys, uint32_t n, const ValueMap<K> map, int passes,
					int digit_bits, PlaceState *state)
{
	__shared__ uint32_t counts[PLACE_MAX_PASSES][PLACE_MAX_DIGITS];
	__shared__ uint32_t room[PLACE_WARPS];
	__shared__ uint32_t last;

	const KeyVector<K> *vectors = reinterpret_cast<const KeyVector<K> *>(keys);
	uint32_t	whole = n / KeyVector<K>::SIZE;
	uint32_t	mask = (1u << digit_bits) - 1;

	for (int i = threadIdx.x; i < PLACE_MAX_PASSES * PLACE_MAX_DIGITS; i += PLACE_THREADS)
		(&counts[0][0])[i] = 0;
	__syncthreads();
#pragma unroll 4
	for (uint64_t i = (uint64_t) blockIdx.x * PLACE_THREADS + threadIdx.x; i < whole;
		 i += (uint64_t) gridDim.x * PLACE_THREADS)
	{
		KeyVector<K> vector = vectors[i];

#pragma unroll
		for (int k = 0; k < KeyVector<K>::SIZE; k++)
		{
			uint32_t	v = map(vector.key[k]);

#pragma unroll
			for (int pass = 0; pass < PLACE_MAX_PASSES; pass++)
				if (pass < passes)
					atomicAdd(&counts[pass][v >> (pass * digit_bits) & mask], 1);
		}
	}
	if (blockIdx.x == 0 && whole * KeyVector<K>::SIZE + threadIdx.x < n)
	{
		uint32_t	v = map(keys[whole * KeyVector<K>::SIZE + threadIdx.x]);

		for (int pass = 0; pass < passes; pass++)
			atomicAdd(&counts[pass][v >> (pass * digit_bits) & mask], 1);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < passes * PLACE_MAX_DIGITS; i += PLACE_THREADS)
		if ((&counts[0][0])[i])
			atomicAdd(&state->start[0][0] + i, (&counts[0][0])[i]);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(&state->blocks_done, 1) == gridDim.x - 1;
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	for (int pass = 0; pass < passes; pass++)
	{
		uint32_t	count = threadIdx.x < PLACE_MAX_DIGITS
			? __ldcg(&state->start[pass][threadIdx.x]) : 0;
		uint32_t	total;
		uint32_t	sum = block_exclusive_sum<PLACE_THREADS>(count, room, &total);

		if (threadIdx.x < PLACE_MAX_DIGITS)
			state->start[pass][threadIdx.x] = sum;
		__syncthreads();
	}
}

template <class Source, class Rest> struct PlaceArgs
{
	Source		source;
	const uint32_t *positions;	/* NULL: element i is position i */
	Rest	   *rest_out;		/* NULL: this is the last pass */
	uint32_t   *positions_out;
	uint32_t	n;
	uint32_t	pass;			/* from 0 */
	int			digit_bits;
	PlaceState *state;
	unsigned long long *tiles;	/* RADIX_DIGITS words per tile */
};

template <class Source> static constexpr size_t
place_shared()
{
	return PLACE_TILE * (sizeof(typename Source::Word) + sizeof(uint32_t));
}

template <class Source, class Rest>
__global__ void __launch_bounds__(PLACE_THREADS, 2)
place_kernel(const PlaceArgs<Source, Rest> args)
{
	typedef typename Source::Word Word;

	extern __shared__ __align__(16) uint32_t tile_positions[];
	Word	   *tile_values = reinterpret_cast<Word *>(tile_positions + PLACE_TILE);

	/* Of each warp: counts of digits, then where its keys of a digit start. */
	__shared__ uint32_t warp_start[PLACE_WARPS][PLACE_MAX_DIGITS];
	__shared__ uint32_t target[PLACE_MAX_DIGITS];
	__shared__ uint32_t room[PLACE_WARPS];
	__shared__ uint32_t taken;

	uint32_t	values[PLACE_ITEMS];
	uint32_t	positions[PLACE_ITEMS];
	uint16_t	rank[PLACE_ITEMS];
	int			warp = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	uint32_t	first = warp * 32 * PLACE_ITEMS + lane;
	uint32_t	mask = (1u << args.digit_bits) - 1;
	uint32_t	tile,
				start,
				count;

	if (threadIdx.x == 0)
		taken = atomicAdd(&args.state->next_tile[args.pass], 1);
	for (int i = threadIdx.x; i < PLACE_WARPS * PLACE_MAX_DIGITS; i += PLACE_THREADS)
		(&warp_start[0][0])[i] = 0;
	__syncthreads();
	tile = taken;
	start = tile * PLACE_TILE;
	count = min(args.n - start, (uint32_t) PLACE_TILE);

	/* Past the end: all ones, so that they rank after all others. */
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
		values[i] = first + i * 32 < count ? args.source(start + first + i * 32) : ~0u;
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
	{
		uint32_t	digit = values[i] & mask;
		uint32_t	peers = __match_any_sync(0xffffffffu, digit);
		int			leader = 31 - __clz(peers);
		uint32_t	before = 0;

		if (lane == leader)
		{
			before = warp_start[warp][digit];
			warp_start[warp][digit] = before + __popc(peers);
		}
		before = __shfl_sync(0xffffffffu, before, leader);
		rank[i] = (uint16_t) (before + __popc(peers & ((1u << lane) - 1)));
		__syncwarp();
	}
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
		if (first + i * 32 < count)
			positions[i] = args.positions ? args.positions[start + first + i * 32]
				: start + first + i * 32;
	__syncthreads();
	{
		uint32_t	digit = threadIdx.x;
		uint32_t	own = 0,
					real = 0,
					begin,
					total;

		if (digit < PLACE_MAX_DIGITS)
		{
#pragma unroll
			for (int w = 0; w < PLACE_WARPS; w++)
			{
				uint32_t	warps = warp_start[w][digit];

				warp_start[w][digit] = own;
				own += warps;
			}

			/* the padding has the digit of all ones, and is not there */
			real = own - (digit == mask ? PLACE_TILE - count : 0);
			*(volatile unsigned long long *)
				&args.tiles[(uint64_t) tile * RADIX_DIGITS + digit] =
				TILE_WORD(args.pass + 1, tile == 0 ? TILE_SUM : TILE_OWN, real);
		}
		begin = block_exclusive_sum<PLACE_THREADS>(own, room, &total);
		if (digit < PLACE_MAX_DIGITS)
		{
			uint32_t	before = look_back(args.tiles, tile, digit, args.pass + 1);

			if (tile > 0)
				*(volatile unsigned long long *)
					&args.tiles[(uint64_t) tile * RADIX_DIGITS + digit] =
					TILE_WORD(args.pass + 1, TILE_SUM, before + real);
			target[digit] = args.state->start[args.pass][digit] + before - begin;
#pragma unroll
			for (int w = 0; w < PLACE_WARPS; w++)
				warp_start[w][digit] += begin;
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < PLACE_ITEMS; i++)
	{
		uint32_t	to = warp_start[warp][values[i] & mask] + rank[i];

		tile_values[to] = (Word) values[i];
		tile_positions[to] = positions[i];
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
