/*
 * prefix_sum.cuh
 *	  Prefix sums over arrays in device memory.
 *
 * All arrays are device memory.  scratch has at least gpusort_sum_scratch(n)
 * bytes.  The sums run in the order of the run's stream, which blocks nothing
 * on the host.
 */
#ifndef GPUSORT_PREFIX_SUM_CUH
#define GPUSORT_PREFIX_SUM_CUH

#include "sort_internal.cuh"

/* Bytes of scratch that suffice for each of these functions with n numbers. */
extern uint64_t gpusort_sum_scratch(uint64_t n);

/* out[i] = in[0] + ... + in[i - 1], for i < n.  in may be equal to out. */
extern GpusortStatus gpusort_exclusive_sum(SortRun *run, void *scratch, uint64_t bytes,
										   const uint32_t *in, uint32_t *out, uint64_t n);

/*
 * The upper 32 bits of out[i] are the count of nonzero numbers among
 * in[0 .. i - 1], the lower 32 bits their sum, which must be below 2^32.
 */
extern GpusortStatus gpusort_sum_and_count(SortRun *run, void *scratch, uint64_t bytes,
										   const uint32_t *in, uint64_t *out, uint64_t n);

/* out[i] = number of bits set in in[0 .. i - 1]. */
extern GpusortStatus gpusort_sum_bits(SortRun *run, void *scratch, uint64_t bytes,
									  const uint32_t *in, uint32_t *out, uint64_t n);

/*
 * out[i] = first + in[0] + ... + in[i]; out's type is uint32_t or uint64_t by
 * key_bits.
 */
extern GpusortStatus gpusort_running_key(SortRun *run, void *scratch, uint64_t bytes,
										 const uint32_t *in, uint64_t first,
										 void *out, int key_bits, uint64_t n);

#endif							/* GPUSORT_PREFIX_SUM_CUH */
