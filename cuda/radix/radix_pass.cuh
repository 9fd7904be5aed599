/*
 * radix_pass.cuh
 *	  The kernels of the stable radix sort: one count of all digits, and one pass
 *	  that moves keys and rids by one digit.
 *
 * A pass reads and writes every key once.  Tiles are taken in order; a tile
 * publishes how many keys of each digit it has, then adds up what the tiles before
 * it published until it meets one that knows its full sum (decoupled look-back,
 * Merrill and Garland 2016), so no second launch sums up the tiles.
 * Within a tile, keys are ranked warp by warp: lanes that share a digit find each
 * other and take consecutive ranks, which keeps their order.
 */
#ifndef GPUSORT_RADIX_PASS_CUH
#define GPUSORT_RADIX_PASS_CUH

#include "block/block_scan.cuh"
#include "key.cuh"
#include "block/warp_rank.cuh"

#define RADIX_BITS			8
#define RADIX_DIGITS		(1 << RADIX_BITS)
#define RADIX_THREADS		512
#define RADIX_WARPS			(RADIX_THREADS / 32)
#define RADIX_MAX_PASSES	(128 / RADIX_BITS)

#define RADIX_COUNT_THREADS 512

#define RADIX_READBACK_SEQUENCE	0
#define RADIX_READBACK_PASSES	1		/* bit p: digit p is not the same in all keys */
#define RADIX_READBACK_DOMINANT		2		/* bit p: a RADIX_DOMINANT_SHARE of the keys has one digit p */
#define RADIX_READBACK_CUT		5		/* digits below it are neither counted nor reported */
#define RADIX_READBACK_LONG		6		/* some keys out of order were not fixed up (radix_lead.cuh) */

/* Lanes with a digit of a quarter of the keys are found by a ballot: they would wait for one word. */
#define RADIX_DOMINANT_SHARE		4

#define RADIX_LOOK_BACK		4		/* tiles that are asked at once */

template <class K> __host__ __device__ constexpr uint32_t
radix_tile()
{
	return RADIX_THREADS * keys_per_thread<K>();
}

/*
 * What is kept of a key's rank in its warp.  Kept beside it, a digit need not be made again, and
 * narrow keys spill no registers; wide ones do, and lose 8 %.
 */
template <class K> struct RadixRank
{
	typedef uint16_t type;
	static constexpr bool below_digit = false;
};

template <> struct RadixRank<uint32_t>
{
	typedef uint32_t type;
	static constexpr bool below_digit = true;
};

/* What the passes share; zeroed before the count, or what tells it the lowest digit to sort by. */
struct RadixState
{
	uint32_t	start[RADIX_MAX_PASSES][RADIX_DIGITS];	/* counts, then sums */
	uint32_t	next_tile[RADIX_MAX_PASSES];
	uint32_t	hot[RADIX_MAX_PASSES];	/* the most frequent digit, below its count, if hot */
	uint32_t	blocks_done;
	uint32_t	cut;			/* the lowest digit to sort by */
	uint32_t	blocks_fixed_up;
	uint32_t	too_long;		/* some block found what it cannot fix up */
};

template <class K> __device__ __forceinline__ uint32_t
radix_digit(K v, int shift)
{
	return (uint32_t) (v >> shift) & (RADIX_DIGITS - 1);
}

/* Counts every digit of every key, from the lowest to sort by; the last block sums up. */
template <class K>
__global__ void __launch_bounds__(RADIX_COUNT_THREADS)
radix_count_kernel(const K *keys, uint32_t n, KeyBits<K> bits, int passes,
				   RadixState *state, uint32_t *readback, uint32_t sequence_number)
{
	constexpr int VECTOR = 16 / sizeof(K);
	struct alignas(16) Vector
	{
		K			key[VECTOR];
	};

	__shared__ uint32_t counts[sizeof(K)][RADIX_DIGITS];
	__shared__ uint32_t room[RADIX_COUNT_THREADS / 32];
	__shared__ uint32_t last;

	uint64_t	vectors = n / VECTOR;
	uint64_t	step = (uint64_t) gridDim.x * RADIX_COUNT_THREADS;
	int			cut = (int) state->cut;
	uint32_t	differ = 0;
	uint32_t	hot = 0;

	for (int i = threadIdx.x; i < (int) sizeof(K) * RADIX_DIGITS; i += RADIX_COUNT_THREADS)
		(&counts[0][0])[i] = 0;
	__syncthreads();
	for (uint64_t i = (uint64_t) blockIdx.x * RADIX_COUNT_THREADS + threadIdx.x;
		 i < vectors; i += step)
	{
		Vector		vector = reinterpret_cast<const Vector *>(keys)[i];

#pragma unroll
		for (int k = 0; k < VECTOR; k++)
		{
			K			v = bits(vector.key[k]);

#pragma unroll
			for (int pass = 0; pass < (int) sizeof(K); pass++)
				if (pass >= cut && pass < passes)
					atomicAdd(&counts[pass][radix_digit(v, pass * RADIX_BITS)], 1);
		}
	}
	if (blockIdx.x == 0 && vectors * VECTOR + threadIdx.x < n)
	{
		K			v = bits(keys[vectors * VECTOR + threadIdx.x]);

		for (int pass = cut; pass < passes; pass++)
			atomicAdd(&counts[pass][radix_digit(v, pass * RADIX_BITS)], 1);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < passes * RADIX_DIGITS; i += RADIX_COUNT_THREADS)
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
	for (int pass = cut; pass < passes; pass++)
	{
		uint32_t	count = threadIdx.x < RADIX_DIGITS
			? __ldcg(&state->start[pass][threadIdx.x]) : 0;
		uint32_t	total;
		uint32_t	sum = block_exclusive_sum<RADIX_COUNT_THREADS>(count, room, &total);

		if (threadIdx.x < RADIX_DIGITS)
			state->start[pass][threadIdx.x] = sum;
		if (!__syncthreads_or(count == n))
			differ |= 1u << pass;
		if (__syncthreads_or(count > n / RADIX_DOMINANT_SHARE))
			hot |= 1u << pass;
		if (count > n / RADIX_DOMINANT_SHARE)
			atomicMax(&state->hot[pass], count / RADIX_DIGITS * RADIX_DIGITS + threadIdx.x);
	}
	if (threadIdx.x == 0)
	{
		volatile uint32_t *words = readback;

		words[RADIX_READBACK_PASSES] = differ;
		words[RADIX_READBACK_DOMINANT] = hot;
		words[RADIX_READBACK_CUT] = (uint32_t) cut;
		__threadfence_system();
		words[RADIX_READBACK_SEQUENCE] = sequence_number;
	}
}

/*
 * What a tile tells of one digit.  The pass is part of the word, so that words of
 * earlier passes read as "nothing yet" and need not be cleared.
 */
#define TILE_WORD(pass, state, count) \
	((unsigned long long) (pass) << 56 | (unsigned long long) (state) << 48 | (count))
#define TILE_TELLS(word, pass)	((uint32_t) ((word) >> 56) == (uint32_t) (pass))
#define TILE_STATE(word)		((uint32_t) ((word) >> 48) & 0xff)
#define TILE_COUNT(word)		((uint32_t) (word))
#define TILE_OWN				1	/* the count of this tile */
#define TILE_SUM				2	/* of this tile and all before */

template <class K> struct RadixPassArgs
{
	const K    *keys;
	const uint32_t *rids;		/* NULL: the position */
	K		   *keys_out;		/* NULL: not wanted */
	uint32_t   *rids_out;
	KeyBits<K>	bits;
	uint32_t	n;
	int			digit;			/* which; 0 is the lowest */
	uint32_t	pass;			/* from 1 */
	RadixState *state;
	unsigned long long *tiles;	/* RADIX_DIGITS words per tile */
};

template <class K, bool RIDS> static constexpr size_t
radix_pass_shared()
{
	return radix_tile<K>() * (sizeof(K) + (RIDS ? sizeof(uint32_t) : 0));
}

/*
 * Sum of digit's counts in the tiles before this one.  Several tiles are asked at
 * once, since most of the time goes into waiting for answers.
 */
__device__ __forceinline__ uint32_t
look_back(const unsigned long long *tiles, uint32_t tile, uint32_t digit, uint32_t pass)
{
	uint32_t	sum = 0;
	uint32_t	before = tile;	/* tiles not yet added */

	while (before > 0)
	{
		unsigned long long told[RADIX_LOOK_BACK];

#pragma unroll
		for (int i = 0; i < RADIX_LOOK_BACK; i++)
			told[i] = (uint32_t) i < before
				? *(const volatile unsigned long long *)
				&tiles[(uint64_t) (before - 1 - i) * RADIX_DIGITS + digit] : 0;
#pragma unroll
		for (int i = 0; i < RADIX_LOOK_BACK; i++)
		{
			if (!TILE_TELLS(told[i], pass))
			{
				before -= i;	/* ask again from here */
				break;
			}
			sum += TILE_COUNT(told[i]);
			if (TILE_STATE(told[i]) == TILE_SUM)
				return sum;
			if (i == RADIX_LOOK_BACK - 1)
				before -= RADIX_LOOK_BACK;
		}
	}
	return sum;
}

static_assert(radix_tile<uint32_t>() * sizeof(uint32_t) >=
			  RADIX_WARPS * RADIX_DIGITS * sizeof(uint32_t), "lanes can meet in a tile");

template <class K, bool RIDS, bool HOT>
__global__ void __launch_bounds__(RADIX_THREADS, 2)
radix_pass_kernel(const RadixPassArgs<K> args)
{
	constexpr int ITEMS = keys_per_thread<K>();
	constexpr uint32_t TILE = radix_tile<K>();

	extern __shared__ __align__(16) unsigned char shared[];
	K		   *tile_keys = reinterpret_cast<K *>(shared);
	uint32_t   *tile_rids = reinterpret_cast<uint32_t *>(tile_keys + TILE);
	uint32_t   *meet = reinterpret_cast<uint32_t *>(shared);	/* until keys move in */

	/* Of each warp: counts of digits, then where its keys of a digit start. */
	__shared__ uint32_t warp_start[RADIX_WARPS][RADIX_DIGITS];
	__shared__ uint32_t target[RADIX_DIGITS];
	__shared__ uint32_t room[RADIX_WARPS];
	__shared__ uint32_t taken;

	K			keys[ITEMS];
	uint32_t	rids[RIDS ? ITEMS : 1];
	typename RadixRank<K>::type rank[ITEMS];	/* in the warp, below the digit if kept */
	int			shift = args.digit * RADIX_BITS;
	int			warp = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	uint32_t	first = warp * 32 * ITEMS + lane;	/* in the tile */
	uint32_t	hot = HOT ? args.state->hot[args.digit] % RADIX_DIGITS : 0;
	uint32_t	digit = threadIdx.x;	/* that this thread sums up */
	uint32_t	real = 0,		/* the tile's keys of it */
				begin;			/* in the tile */
	uint32_t	tile,
				start,
				count;

	if (threadIdx.x == 0)
		taken = atomicAdd(&args.state->next_tile[args.digit], 1);
	for (int i = threadIdx.x; i < RADIX_WARPS * RADIX_DIGITS; i += RADIX_THREADS)
	{
		(&warp_start[0][0])[i] = 0;
		meet[i] = 0;
	}
	__syncthreads();
	tile = taken;
	start = tile * TILE;
	count = min(args.n - start, TILE);

	/* Past the end: all ones, so that they rank after all others. */
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		keys[i] = first + i * 32 < count ? args.keys[start + first + i * 32]
			: all_ones<K>();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	key_digit = radix_digit(args.bits(keys[i]), shift);
		uint32_t	r = rank_in_warp<false, HOT>(meet + warp * RADIX_DIGITS, warp_start[warp],
												 key_digit, hot);

		rank[i] = (typename RadixRank<K>::type) (RadixRank<K>::below_digit ? key_digit << 16 | r : r);
	}
	if (RIDS)
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
			if (first + i * 32 < count)
				rids[i] = args.rids ? args.rids[start + first + i * 32]
					: start + first + i * 32;
	}
	__syncthreads();
	{
		uint32_t	own = 0,
					total;

		if (digit < RADIX_DIGITS)
		{
#pragma unroll
			for (int w = 0; w < RADIX_WARPS; w++)
			{
				uint32_t	warps = warp_start[w][digit];

				warp_start[w][digit] = own;
				own += warps;
			}

			/* the padding has the digit of all ones, and is not there */
			real = own;
			if (digit == radix_digit(args.bits(all_ones<K>()), shift))
				real -= TILE - count;
			*(volatile unsigned long long *)
				&args.tiles[(uint64_t) tile * RADIX_DIGITS + digit] =
				TILE_WORD(args.pass, tile == 0 ? TILE_SUM : TILE_OWN, real);
		}
		begin = block_exclusive_sum<RADIX_THREADS>(own, room, &total);
		if (digit < RADIX_DIGITS)
		{
#pragma unroll
			for (int w = 0; w < RADIX_WARPS; w++)
				warp_start[w][digit] += begin;
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	key_digit = RadixRank<K>::below_digit ? rank[i] >> 16
			: radix_digit(args.bits(keys[i]), shift);
		uint32_t	to = warp_start[warp][key_digit] + (rank[i] & 0xffff);

		tile_keys[to] = keys[i];
		if (RIDS)
			tile_rids[to] = rids[i];
	}

	/* Not before: by now all tiles before have told their counts, and registers are free. */
	if (digit < RADIX_DIGITS)
	{
		uint32_t	before = look_back(args.tiles, tile, digit, args.pass);

		if (tile > 0)
			*(volatile unsigned long long *)
				&args.tiles[(uint64_t) tile * RADIX_DIGITS + digit] =
				TILE_WORD(args.pass, TILE_SUM, before + real);
		target[digit] = args.state->start[args.digit][digit] + before - begin;
	}
	__syncthreads();

	/* padding has the greatest digit and ranks last: it is at count and after */
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * RADIX_THREADS + threadIdx.x;

		if (at < count)
		{
			K			key = tile_keys[at];
			uint32_t	to = target[radix_digit(args.bits(key), shift)] + at;

			if (args.keys_out)
				args.keys_out[to] = key;
			if (RIDS && args.rids_out)
				args.rids_out[to] = tile_rids[at];
		}
	}
}

#endif							/* GPUSORT_RADIX_PASS_CUH */
