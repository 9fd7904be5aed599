/*
 * key.cuh
 *	  Keys in kernels: the three unsigned key types, their ordering bits,
 *	  monotone maps from keys to bucket numbers, and reductions over warps
 *	  and blocks.
 */
#ifndef GPUSORT_KEY_CUH
#define GPUSORT_KEY_CUH

#include "sort_internal.cuh"

/*
 * A 128-bit key; the same bytes as a GpusortKey128, as CUDA is little-endian.
 */
typedef unsigned __int128 Key128;

/* Calls f with a value of the key type of that many bits: 32, 64 or 128. */
template <class F> static auto
for_key_width(int bits, F f)
{
	return bits == 32 ? f(uint32_t()) : bits == 64 ? f(uint64_t()) : f(Key128());
}

/* Bits of the key type K. */
template <class K> __host__ __device__ constexpr int
key_width()
{
	return (int) sizeof(K) * 8;
}

/*
 * Number of keys of a tile that a thread holds in registers, with their row ids
 * and ranks, in kernels that scatter keys.
 */
template <class K> __host__ __device__ constexpr int
keys_per_thread()
{
	return sizeof(K) == 16 ? 8 : sizeof(K) == 8 ? 12 : 16;
}

/* The greatest value of the key type K. */
template <class K> __host__ __device__ constexpr K
all_ones()
{
	return ~K(0);
}

/* Extracts the ordering bits [begin_bit, end_bit) of a key, as a number. */
template <class K> struct KeyBits
{
	K			mask;
	int			shift;

	__device__ __forceinline__ K operator() (K key) const
	{
		return (key >> shift) & mask;
	}
};

/* The KeyBits of a problem. */
template <class K> static KeyBits<K>
key_bits(const GpusortProblem *problem)
{
	KeyBits<K> bits;
	int			width = problem->end_bit - problem->begin_bit;

	bits.shift = problem->begin_bit;
	bits.mask = all_ones<K>() >> (key_width<K>() - width);
	return bits;
}

/* A key bound of the ABI as a key of type K. */
template <class K> static K
narrow_key(const GpusortKey128 &key)
{
	return (K) (((Key128) key.hi << 64) | key.lo);
}

/* Index of the highest bit set in v, which is not 0. */
__device__ __forceinline__ int
highest_bit(uint32_t v)
{
	return 31 - __clz(v);
}

__device__ __forceinline__ int
highest_bit(uint64_t v)
{
	return 63 - __clzll(v);
}

__device__ __forceinline__ int
highest_bit(Key128 v)
{
	uint64_t	hi = (uint64_t) (v >> 64);

	return hi ? 127 - __clzll(hi) : 63 - __clzll((uint64_t) v);
}

/*
 * A monotone map from values to buckets 0 .. last.  Values below lo go to
 * bucket 0, values above hi to bucket last.  Buckets 1 .. last - 1 divide [lo,
 * hi] into slices of equal width (Chen 2009, section II).  With lo == hi that
 * value alone goes to bucket 1.  lo and hi may be estimates of the least and
 * greatest value: any lo and hi keep the map monotone, good ones give buckets
 * of similar sizes.
 */
template <class K> struct BucketMap
{
	K			lo;
	K			hi;
	int			shift;			/* right shift, left if negative, that moves
								 * the highest bit of hi - lo to bit 31 */
	uint32_t	scale;			/* buckets per shifted unit, times 2^32 */
	uint32_t	last;			/* number of buckets - 1, at least 2 */

	__device__ __forceinline__ uint32_t operator() (K v) const
	{
		uint32_t	u;

		if (v < lo)
			return 0;
		if (v > hi)
			return last;
		v -= lo;
		u = shift >= 0 ? (uint32_t) (v >> shift) : (uint32_t) v << -shift;
		return 1 + __umulhi(u, scale);
	}
};

/* The map from [lo, hi] to that many buckets, at least 3. */
template <class K> __device__ static BucketMap<K>
make_map(K lo, K hi, uint32_t buckets)
{
	BucketMap<K> map;
	K			width = hi - lo;

	map.lo = lo;
	map.hi = hi;
	map.last = buckets - 1;
	if (width == 0)
	{
		map.shift = 0;
		map.scale = 0;
	}
	else
	{
		uint32_t	top;

		map.shift = highest_bit(width) - 31;
		top = map.shift >= 0 ? (uint32_t) (width >> map.shift)
			: (uint32_t) width << -map.shift;
		map.scale = (uint32_t) (((uint64_t) (buckets - 2) << 32) / ((uint64_t) top + 1));
	}
	return map;
}

/* A hash of v: each bit of v changes about half of the bits. */
__device__ __forceinline__ uint32_t
hash_bits(uint32_t v)
{
	v = (v ^ (v >> 16)) * 0x7feb352du;
	v = (v ^ (v >> 15)) * 0x846ca68bu;
	return v ^ (v >> 16);
}

/*
 * Index of the i-th of samples sampled elements among count: one random element
 * of each of samples equal parts.  The same arguments give the same index.
 */
__device__ __forceinline__ uint32_t
sample_position(uint32_t i, uint32_t samples, uint32_t count)
{
	uint32_t	at = (uint32_t) ((uint64_t) i * count / samples);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * count / samples);

	return at + __umulhi(hash_bits(i), next - at);
}

/*
 * Widens the range [lo, hi] of a sample of 2^sample_bits values so that few
 * other values lie outside.  For uniform values the expected gap between the
 * sample's extreme and that of all values is about 1 / 2^sample_bits of the
 * range; the margin is eight times that.  most: the greatest possible value.
 */
template <class K> __device__ static void
widen_range(K &lo, K &hi, K most, int sample_bits)
{
	K			margin = (hi - lo) >> (sample_bits - 3);

	lo = lo > margin ? lo - margin : 0;
	hi = most - hi > margin ? hi + margin : most;
}

/*
 * The value of the lane whose number differs by the bits of lanes; any width.
 */
template <class T> __device__ __forceinline__ T
shuffle_xor(T v, int lanes)
{
	if constexpr (sizeof(T) == 16)
	{
		uint64_t	lo = __shfl_xor_sync(0xffffffffu, (uint64_t) v, lanes);
		uint64_t	hi = __shfl_xor_sync(0xffffffffu, (uint64_t) (v >> 64), lanes);

		return ((T) hi << 64) | lo;
	}
	else
		return __shfl_xor_sync(0xffffffffu, v, lanes);
}

/* The value of lane number lane modulo 32. */
template <class T> __device__ __forceinline__ T
shuffle_from(T v, int lane)
{
	if constexpr (sizeof(T) == 16)
	{
		uint64_t	lo = __shfl_sync(0xffffffffu, (uint64_t) v, lane);
		uint64_t	hi = __shfl_sync(0xffffffffu, (uint64_t) (v >> 64), lane);

		return ((T) hi << 64) | lo;
	}
	else
		return __shfl_sync(0xffffffffu, v, lane);
}

/* Minimum of lo and maximum of hi over a warp; every lane gets both. */
template <class T> __device__ __forceinline__ void
warp_min_max(T &lo, T &hi)
{
#pragma unroll
	for (int lanes = 16; lanes > 0; lanes >>= 1)
	{
		T			other_lo = shuffle_xor(lo, lanes);
		T			other_hi = shuffle_xor(hi, lanes);

		lo = other_lo < lo ? other_lo : lo;
		hi = other_hi > hi ? other_hi : hi;
	}
}

/*
 * Minimum of lo and maximum of hi over a block of THREADS; every thread gets
 * both.  room is shared memory for 2 * THREADS / 32 values.  The caller may
 * reuse it after its next barrier.
 */
template <int THREADS, class T> __device__ __forceinline__ void
block_min_max(T &lo, T &hi, T *room)
{
	constexpr int WARPS = THREADS / 32;
	int			lane = threadIdx.x % 32;

	warp_min_max(lo, hi);
	if (lane == 0)
	{
		room[threadIdx.x / 32] = lo;
		room[WARPS + threadIdx.x / 32] = hi;
	}
	__syncthreads();
	lo = room[lane % WARPS];
	hi = room[WARPS + lane % WARPS];
	warp_min_max(lo, hi);
}

/* Minimum of v over a warp; every lane gets it. */
__device__ __forceinline__ uint32_t
warp_min(uint32_t v)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_min_sync(0xffffffffu, v);
#else
	for (int lanes = 16; lanes > 0; lanes >>= 1)
		v = min(v, __shfl_xor_sync(0xffffffffu, v, lanes));
	return v;
#endif
}

/*
 * Reduces two ranges over a block: minimum of r[0], maximum of r[1], minimum of
 * r[2], maximum of r[3].  Every thread gets all four.  Takes one barrier.  room
 * is shared memory for 4 * THREADS / 32 words.
 */
template <int THREADS> __device__ __forceinline__ void
block_ranges(uint32_t r[4], uint32_t *room)
{
	constexpr int WARPS = THREADS / 32;
	int			lane = threadIdx.x % 32;

#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		uint32_t	v = i % 2 ? ~warp_min(~r[i]) : warp_min(r[i]);

		if (lane == 0)
			room[i * WARPS + threadIdx.x / 32] = v;
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		uint32_t	v = room[i * WARPS + lane % WARPS];

		r[i] = i % 2 ? ~warp_min(~v) : warp_min(v);
	}
}

#endif							/* GPUSORT_KEY_CUH */
