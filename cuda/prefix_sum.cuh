/*
 * prefix_sum.cuh
 *	  Prefix sums over arrays in device memory, by CUB.
 */
#ifndef GPUSORT_PREFIX_SUM_CUH
#define GPUSORT_PREFIX_SUM_CUH

#include "sort_internal.cuh"

/* What CUB wants as scratch for any of the sums below over n numbers. */
extern uint64_t gpusort_sum_scratch(uint64_t n);

/* out[i] = sum of in[0 .. i - 1], i < n.  In place is allowed. */
extern GpusortStatus gpusort_exclusive_sum(SortRun *run, void *scratch, uint64_t bytes,
										   const uint32_t *in, uint32_t *out, uint64_t n);

/*
 * out[i] = sum over all j < i of 2^32 * (in[j] != 0) + in[j]: at once how many
 * numbers are not zero, and their sum, which must be below 2^32.
 */
extern GpusortStatus gpusort_sum_and_count(SortRun *run, void *scratch, uint64_t bytes,
										   const uint32_t *in, uint64_t *out, uint64_t n);

/* out[i] = sum over all j < i of the number of bits in in[j]. */
extern GpusortStatus gpusort_sum_bits(SortRun *run, void *scratch, uint64_t bytes,
									  const uint32_t *in, uint32_t *out, uint64_t n);

/* out[i] = first + sum of in[0 .. i], as key_bits wide numbers (32 or 64). */
extern GpusortStatus gpusort_running_key(SortRun *run, void *scratch, uint64_t bytes,
										 const uint32_t *in, uint64_t first,
										 void *out, int key_bits, uint64_t n);

#endif							/* GPUSORT_PREFIX_SUM_CUH */
