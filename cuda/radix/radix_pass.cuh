/*
 * radix_pass.cuh
 *	  Kernels of the stable radix sort: one counts all digits, one sorts by a
 *	  digit.
 *
 * A pass reads and writes every key once.  Blocks take tiles in order.  A block
 * publishes the counts of its tile's digits.  Then it adds up the counts of the
 * tiles before it, back to a tile that has published its sum over all tiles up
 * to itself (decoupled look-back; Merrill and Garland, "Single-pass parallel
 * prefix scan with decoupled look-back", 2016).  So no second launch sums up
 * the tiles' counts.
 *
 * Within a tile, a key's rank is the number of keys with the same digit before
 * it: those in the warps before, and those in its own warp (rank_in_warp()).
 * That keeps equal keys in order.
 *
 * Memory: a tile's keys and rids in shared memory; in device memory RadixState
 * and RADIX_DIGITS words per tile.
 */
#ifndef GPUSORT_RADIX_PASS_CUH
#define GPUSORT_RADIX_PASS_CUH

#include "block/block_scan.cuh"
#include "key.cuh"

/* Digits, threads of a pass, threads of the count. */
#define RADIX_BITS			8
#define RADIX_DIGITS		(1 << RADIX_BITS)
#define RADIX_THREADS		512
#define RADIX_WARPS			(RADIX_THREADS / 32)
#define RADIX_MAX_PASSES	(128 / RADIX_BITS)

#define RADIX_COUNT_THREADS 512

/* Indexes of the readback words. */
#define RADIX_READBACK_SEQUENCE	0
#define RADIX_READBACK_PASSES	1	/* bit d: keys differ in digit d */
#define RADIX_READBACK_DOMINANT	2	/* bit d: digit d has a dominant value */
#define RADIX_READBACK_CUT		5	/* lowest digit to sort by */
#define RADIX_READBACK_LONG		6	/* 1: the fix-up pass left runs out of
									 * order */

/*
 * A value of a digit is dominant if more than 1 / RADIX_DOMINANT_SHARE of the
 * keys have it.  Their lanes find each other by a ballot, because atomics on
 * one word would wait for each other.
 */
#define RADIX_DOMINANT_SHARE	4

/* Number of tiles whose counts look_back() reads at once. */
#define RADIX_LOOK_BACK		4

/* Number of keys of a tile. */
template <class K> __host__ __device__ constexpr uint32_t
radix_tile()
{
	return RADIX_THREADS * keys_per_thread<K>();
}

/*
 * Type of a key's rank within its warp.  below_digit: the digit is kept in the
 * upper half, so that it need not be extracted again.  For wider keys those
 * registers would be spilled.
 */
template <class K> struct RadixRank
{
	typedef uint16_t type;
	static constexpr bool below_digit = false;
};

/* The same for 32-bit keys. */
template <> struct RadixRank<uint32_t>
{
	typedef uint32_t type;
	static constexpr bool below_digit = true;
};

/* State shared by the kernels of a run; cleared before the first one. */
struct RadixState
{
	/* count of each digit, then place of its first key */
	uint32_t	start[RADIX_MAX_PASSES][RADIX_DIGITS];
	uint32_t	next_tile[RADIX_MAX_PASSES];	/* tiles taken by blocks */
	uint32_t	dominant[RADIX_MAX_PASSES];	/* dominant value in the low
											 * RADIX_BITS bits, below its count;
											 * 0: none */
	uint32_t	blocks_done;	/* blocks of the count that are done */
	uint32_t	cut;			/* lowest digit to sort by */
	uint32_t	blocks_fixed_up;	/* blocks of the fix-up pass that are
									 * done */
	uint32_t	too_long;		/* 1: the fix-up pass left runs out of order */
};

/* The digit of an ordering value whose lowest bit is shift. */
template <class K> __device__ __forceinline__ uint32_t
radix_digit(K v, int shift)
{
	return (uint32_t) (v >> shift) & (RADIX_DIGITS - 1);
}

/*
 * Counts the digits from state->cut on of all keys.  The last block turns the
 * counts into places and reports to the host.
 */
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
	uint32_t	dominant = 0;

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
			dominant |= 1u << pass;
		if (count > n / RADIX_DOMINANT_SHARE)
			atomicMax(&state->dominant[pass], count / RADIX_DIGITS * RADIX_DIGITS + threadIdx.x);
	}
	if (threadIdx.x == 0)
	{
		volatile uint32_t *words = readback;

		words[RADIX_READBACK_PASSES] = differ;
		words[RADIX_READBACK_DOMINANT] = dominant;
		words[RADIX_READBACK_CUT] = (uint32_t) cut;
		__threadfence_system();
		words[RADIX_READBACK_SEQUENCE] = sequence_number;
	}
}

/*
 * A tile's published count of one digit: pass, state and count in a 64-bit
 * word.  A word of an earlier pass differs in the pass and is thus invalid, so
 * that the words need not be cleared between passes.
 */
#define TILE_WORD(pass, state, count) \
	((unsigned long long) (pass) << 56 | (unsigned long long) (state) << 48 | (count))
#define TILE_VALID(word, pass)	((uint32_t) ((word) >> 56) == (uint32_t) (pass))
#define TILE_STATE(word)		((uint32_t) ((word) >> 48) & 0xff)
#define TILE_COUNT(word)		((uint32_t) (word))
#define TILE_OWN			1	/* count of the tile */
#define TILE_SUM			2	/* count of the tile and all tiles before it */

/* Arguments of a pass. */
template <class K> struct RadixPassArgs
{
	const K    *keys;
	const uint32_t *rids;		/* NULL: a key's index is its rid */
	K		   *keys_out;		/* NULL: do not write keys */
	uint32_t   *rids_out;		/* NULL: do not write rids */
	KeyBits<K>	bits;			/* the problem's ordering bits */
	uint32_t	n;
	int			digit;			/* digit to sort by; 0 is the lowest */
	uint32_t	pass;			/* number of the pass in the run, from 1 on */
	RadixState *state;
	unsigned long long *tiles;	/* RADIX_DIGITS words per tile */
};

/* Bytes of dynamic shared memory of a pass: a tile's keys and rids. */
template <class K, bool RIDS> static constexpr size_t
radix_pass_shared()
{
	return radix_tile<K>() * (sizeof(K) + (RIDS ? sizeof(uint32_t) : 0));
}

/*
 * Sum of a digit's counts over the tiles before this one.  Reads several tiles'
 * words at once, since the latency of the reads dominates.
 */
__device__ __forceinline__ uint32_t
look_back(const unsigned long long *tiles, uint32_t tile, uint32_t digit, uint32_t pass)
{
	uint32_t	sum = 0;
	uint32_t	before = tile;	/* number of tiles that are not yet added */

	while (before > 0)
	{
		unsigned long long words[RADIX_LOOK_BACK];

#pragma unroll
		for (int i = 0; i < RADIX_LOOK_BACK; i++)
			words[i] = (uint32_t) i < before
				? *(const volatile unsigned long long *)
				&tiles[(uint64_t) (before - 1 - i) * RADIX_DIGITS + digit] : 0;
#pragma unroll
		for (int i = 0; i < RADIX_LOOK_BACK; i++)
		{
			if (!TILE_VALID(words[i], pass))
			{
				before -= i;	/* read again from this tile on */
				break;
			}
			sum += TILE_COUNT(words[i]);
			if (TILE_STATE(words[i]) == TILE_SUM)
				return sum;
			if (i == RADIX_LOOK_BACK - 1)
				before -= RADIX_LOOK_BACK;
		}
	}
	return sum;
}

static_assert(radix_tile<uint32_t>() * sizeof(uint32_t) >=
			  RADIX_WARPS * RADIX_DIGITS * sizeof(uint32_t), "the lane masks fit a tile");

/*
 * One pass: sorts by args.digit, stable.  DOMINANT: the digit has a dominant
 * value.
 */
template <class K, bool RIDS, bool DOMINANT>
__global__ void __launch_bounds__(RADIX_THREADS, 2)
radix_pass_kernel(const RadixPassArgs<K> args)
{
	constexpr int ITEMS = keys_per_thread<K>();
	constexpr uint32_t TILE = radix_tile<K>();

	extern __shared__ __align__(16) unsigned char shared[];
	K		   *tile_keys = reinterpret_cast<K *>(shared);
	uint32_t   *tile_rids = reinterpret_cast<uint32_t *>(tile_keys + TILE);
	/* before the keys */
	uint32_t   *lane_masks = reinterpret_cast<uint32_t *>(shared);

	/* per warp and digit: count, then the place in the tile of the first key */
	__shared__ uint32_t warp_start[RADIX_WARPS][RADIX_DIGITS];
	__shared__ uint32_t target[RADIX_DIGITS];
	__shared__ uint32_t room[RADIX_WARPS];
	__shared__ uint32_t taken;

	K			keys[ITEMS];
	uint32_t	rids[RIDS ? ITEMS : 1];
	typename RadixRank<K>::type rank[ITEMS];	/* rank in the warp; see
												 * RadixRank */
	int			shift = args.digit * RADIX_BITS;
	int			warp = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	uint32_t	first = warp * 32 * ITEMS + lane;	/* the thread's first key */
	uint32_t	dominant = DOMINANT ? args.state->dominant[args.digit] % RADIX_DIGITS : 0;
	uint32_t	digit = threadIdx.x;	/* the digit whose counts this thread
										 * sums */
	uint32_t	real = 0,		/* the tile's keys with that digit */
				begin;			/* place in the tile of the first of them */
	uint32_t	tile,
				start,
				count;

	if (threadIdx.x == 0)
		taken = atomicAdd(&args.state->next_tile[args.digit], 1);
	for (int i = threadIdx.x; i < RADIX_WARPS * RADIX_DIGITS; i += RADIX_THREADS)
	{
		(&warp_start[0][0])[i] = 0;
		lane_masks[i] = 0;
	}
	__syncthreads();
	tile = taken;
	start = tile * TILE;
	count = min(args.n - start, TILE);

	/* padding behind the last key is all ones, which ranks behind all keys */
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		keys[i] = first + i * 32 < count ? args.keys[start + first + i * 32]
			: all_ones<K>();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	key_digit = radix_digit(args.bits(keys[i]), shift);
		uint32_t	r = rank_in_warp<false, DOMINANT>(lane_masks + warp * RADIX_DIGITS, warp_start[warp],
												 key_digit, dominant);

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

			/* do not publish the padding, whose digit is that of all ones */
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

	/* as late as possible: the tiles before have published by now */
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

	/* the padding is at count and behind, and is not written */
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
