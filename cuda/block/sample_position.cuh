/*
 * sample_position.cuh
 *	  Where samples are taken.
 */
#ifndef GPUSORT_SAMPLE_POSITION_CUH
#define GPUSORT_SAMPLE_POSITION_CUH

#include <stdint.h>

__device__ __forceinline__ uint32_t
scatter_bits(uint32_t v)
{
	v = (v ^ (v >> 16)) * 0x7feb352du;
	v = (v ^ (v >> 15)) * 0x846ca68bu;
	return v ^ (v >> 16);
}

/* The i-th of samples positions among count, spread evenly with jitter. */
__device__ __forceinline__ uint32_t
sample_position(uint32_t i, uint32_t samples, uint32_t count)
{
	uint32_t	at = (uint32_t) ((uint64_t) i * count / samples);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * count / samples);

	return at + __umulhi(scatter_bits(i), next - at);
}

#endif							/* GPUSORT_SAMPLE_POSITION_CUH */
