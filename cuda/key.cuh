/*
 * key.cuh
 *	  Keys as the kernels see them: three unsigned widths, the bits of them that
 *	  order, and monotone maps from keys to bucket numbers.
 */
#ifndef GPUSORT_KEY_CUH
#define GPUSORT_KEY_CUH

#include "sort_internal.cuh"

/* Little-endian, so that it is a GpusortKey128 in memory. */
typedef unsigned __int128 Key128;

/* f(K()) for the K of that many bits. */
template <class F> static auto
for_key_width(int bits, F f)
{
	return bits == 32 ? f(uint32_t()) : bits == 64 ? f(uint64_t()) : f(Key128());
}

template <class K> __host__ __device__ constexpr int
key_width()
{
	return (int) sizeof(K) * 8;
}

/* That a thread holds in registers, with their rids and ranks, where keys are put in bins. */
template <class K> __host__ __device__ constexpr int
keys_per_thread()
{
	return sizeof(K) == 16 ? 8 : sizeof(K) == 8 ? 12 : 16;
}

template <class K> __host__ __device__ constexpr K
all_ones()
{
	return ~K(0);
}

/* Takes the ordering bits out of a key. */
template <class K> struct KeyBits
{
	K			mask;
	int			shift;

	__device__ __forceinline__ K operator() (K key) const
	{
		return (key >> shift) & mask;
	}
};

template <class K> static KeyBits<K>
key_bits(const GpusortProblem *problem)
{
	KeyBits<K> bits;
	int			width = problem->end_bit - problem->begin_bit;

	bits.shift = problem->begin_bit;
	bits.mask = all_ones<K>() >> (key_width<K>() - width);
	return bits;
}

template <class K> static K
narrow_key(const GpusortKey128 &key)
{
	return (K) (((Key128) key.hi << 64) | key.lo);
}

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
 * A monotone map from values to buckets 0 .. buckets - 1: values below lo go to
 * bucket 0, values above hi to the last, and those between evenly to the rest
 * (Chen's slices of equal width).  With lo == hi all equal values are alone in
 * bucket 1.  lo and hi may be estimates: the order of buckets is right
 * whatever they are, only the balance depends on them.
 */
template <class K> struct BucketMap
{
	K			lo;
	K			hi;
	int			shift;			/* right if >= 0, else left: brings hi - lo's
								 * highest bit to bit 31 */
	uint32_t	scale;
	uint32_t	last;			/* buckets - 1, at least 2 */

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

/*
 * Widens a sample's range so that hardly any value lies outside: for even
 * values the gap beyond the extreme of s samples is about width / s.
 */
template <class K> __device__ static void
widen_range(K &lo, K &hi, K most, int sample_bits)
{
	K			margin = (hi - lo) >> (sample_bits - 3);

	lo = lo > margin ? lo - margin : 0;
	hi = most - hi > margin ? hi + margin : most;
}

/* Minimum and maximum over a warp, for any width. */
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

/* The value of another lane, modulo 32. */
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
 * Minimum and maximum over a block of THREADS; every thread gets them.  room
 * holds 2 * THREADS / 32 values and may be used again after the next barrier.
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
 * Two ranges at once over a block: least and greatest in r[0], r[1], and again in
 * r[2], r[3].  One barrier; room holds 4 * THREADS / 32 words.
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
