/*
 * block_scan.cuh
 *	  Prefix sums over the threads of a block.
 */
#ifndef GPUSORT_BLOCK_SCAN_CUH
#define GPUSORT_BLOCK_SCAN_CUH

#include <stdint.h>

__device__ __forceinline__ uint32_t
warp_inclusive_sum(uint32_t v)
{
	int			lane = threadIdx.x % 32;

#pragma unroll
	for (int distance = 1; distance < 32; distance <<= 1)
	{
		uint32_t	below = __shfl_up_sync(0xffffffffu, v, distance);

		if (lane >= distance)
			v += below;
	}
	return v;
}

__device__ __forceinline__ uint32_t
warp_sum(uint32_t v)
{
	for (int lanes = 16; lanes > 0; lanes >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, lanes);
	return v;
}

/*
 * Sum of v over the threads before this one; *total is the sum over all.  room
 * holds THREADS / 32 words and may be used again after the next barrier.
 */
template <int THREADS> __device__ __forceinline__ uint32_t
block_exclusive_sum(uint32_t v, uint32_t *room, uint32_t *total)
{
	constexpr int WARPS = THREADS / 32;
	int			lane = threadIdx.x % 32;
	int			warp = threadIdx.x / 32;
	uint32_t	inclusive = warp_inclusive_sum(v);
	uint32_t	sums;

	if (lane == 31)
		room[warp] = inclusive;
	__syncthreads();
	sums = warp_inclusive_sum(lane < WARPS ? room[lane] : 0);
	*total = __shfl_sync(0xffffffffu, sums, WARPS - 1);
	sums = __shfl_sync(0xffffffffu, sums, warp > 0 ? warp - 1 : 0);
	return inclusive - v + (warp > 0 ? sums : 0);
}

#endif							/* GPUSORT_BLOCK_SCAN_CUH */
