/*
 * block_scan.cuh
 *	  Prefix sums over the threads of a warp and of a block, and ranks of
 *	  digits in a warp.
 */
#ifndef GPUSORT_BLOCK_SCAN_CUH
#define GPUSORT_BLOCK_SCAN_CUH

#include <stdint.h>

/* Sum of v over the lanes up to this one. */
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

/* Sum of v over a warp; every lane gets it. */
__device__ __forceinline__ uint32_t
warp_sum(uint32_t v)
{
	for (int lanes = 16; lanes > 0; lanes >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, lanes);
	return v;
}

/*
 * Sum of v over the threads before this one; *total: the sum over the block.
 * room is shared memory for THREADS / 32 words.  The caller may reuse it after
 * its next barrier.
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

/*
 * Rank of the lane's digit in its warp, for counting and radix sorts: the
 * number of keys with this digit in the warp's previous calls, plus the lanes
 * below with the same digit.  Ranks are therefore stable.
 *
 * lane_masks[] and counts[] are shared memory of the warp, indexed by digit,
 * and zero before the first call.  Lanes set their bit in the word of their
 * digit, and so find each other; the call clears the word again.  counts[]
 * becomes the number of keys of each digit.  __match_any_sync() would need no
 * memory, but takes longer, and so does a ballot per bit of the digit.
 *
 * Atomics of many lanes on one word wait for each other.  ALL_EQUAL: a warp
 * whose lanes all have the same digit skips them, which pays where whole keys
 * repeat.  DOMINANT: lanes with the digit dominant find each other by a ballot.
 */
template <bool ALL_EQUAL, bool DOMINANT, class Count> __device__ __forceinline__ uint32_t
rank_in_warp(uint32_t *lane_masks, Count *counts, uint32_t digit, uint32_t dominant = 0)
{
	uint32_t	lane = threadIdx.x % 32;
	bool		is_dominant = DOMINANT && digit == dominant;
	uint32_t	dominant_lanes = DOMINANT ? __ballot_sync(0xffffffffu, is_dominant) : 0;
	uint32_t	peers,
				before = 0;
	uint32_t	leader;

	if (ALL_EQUAL && __all_sync(0xffffffffu, digit == __shfl_sync(0xffffffffu, digit, 0)))
	{
		before = counts[digit];
		__syncwarp();
		if (lane == 0)
			counts[digit] = (Count) (before + 32);
		__syncwarp();
		return before + lane;
	}
	if (!is_dominant)
		atomicOr(&lane_masks[digit], 1u << lane);
	__syncwarp();
	peers = is_dominant ? dominant_lanes : lane_masks[digit];
	leader = 31 - __clz(peers);
	__syncwarp();
	if (lane == leader)
	{
		before = counts[digit];
		counts[digit] = (Count) (before + __popc(peers));
		lane_masks[digit] = 0;
	}
	before = __shfl_sync(0xffffffffu, before, leader);
	__syncwarp();
	return before + __popc(peers & ((1u << lane) - 1));
}

#endif							/* GPUSORT_BLOCK_SCAN_CUH */
