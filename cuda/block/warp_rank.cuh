/*
 * warp_rank.cuh
 *	  Stable ranks of a warp's digits, for passes of counting and radix sorts.
 *
 * Lanes with the same digit meet in a word of shared memory.  MATCH.ANY would tell the
 * same in one instruction, but takes some 30 cycles of the multiprocessor each
 * time; a ballot for each bit of the digit takes twice as many instructions.  Many
 * lanes in one word wait for each other; with FLAT a warp of one digit does without,
 * which pays where whole keys repeat, as in a small range, and costs 8 % elsewhere.
 * With HOT the lanes of one digit, known to be frequent, are found by a ballot instead.
 */
#ifndef GPUSORT_WARP_RANK_CUH
#define GPUSORT_WARP_RANK_CUH

#include <stdint.h>

/*
 * The rank of the lane's digit: how often the warp had it before, by counts[], plus the
 * lanes below with the same.  Both arrays are the warp's own, by digit, and
 * zero at first; meet[] is zero again afterwards.
 */
template <bool FLAT, bool HOT, class Count> __device__ __forceinline__ uint32_t
rank_in_warp(uint32_t *meet, Count *counts, uint32_t digit, uint32_t hot = 0)
{
	uint32_t	lane = threadIdx.x % 32;
	bool		is_hot = HOT && digit == hot;
	uint32_t	hot_lanes = HOT ? __ballot_sync(0xffffffffu, is_hot) : 0;
	uint32_t	peers,
				before = 0;
	uint32_t	leader;

	if (FLAT && __all_sync(0xffffffffu, digit == __shfl_sync(0xffffffffu, digit, 0)))
	{
		before = counts[digit];
		__syncwarp();
		if (lane == 0)
			counts[digit] = (Count) (before + 32);
		__syncwarp();
		return before + lane;
	}
	if (!is_hot)
		atomicOr(&meet[digit], 1u << lane);
	__syncwarp();
	peers = is_hot ? hot_lanes : meet[digit];
	leader = 31 - __clz(peers);
	__syncwarp();
	if (lane == leader)
	{
		before = counts[digit];
		counts[digit] = (Count) (before + __popc(peers));
		meet[digit] = 0;
	}
	before = __shfl_sync(0xffffffffu, before, leader);
	__syncwarp();
	return before + __popc(peers & ((1u << lane) - 1));
}

#endif							/* GPUSORT_WARP_RANK_CUH */
