/*
 * bucket.cuh
 *	  gpu_bucket for a key type K.  Each key type is compiled in a file of
 *	  its own (bucket_32.cu, bucket_64.cu, bucket_128.cu), because the
 *	  kernels take long to compile.
 */
#ifndef GPUSORT_BUCKET_CUH
#define GPUSORT_BUCKET_CUH

#include "sort_internal.cuh"

/* The functions of SortAlgorithm for keys of type K. */
template <class K> extern uint64_t bucket_scratch(const DeviceTraits *device,
												  const GpusortProblem *problem);
template <class K> extern bool bucket_fits(const DeviceTraits *device);
template <class K> extern GpusortStatus bucket_run(SortRun *run);

#endif							/* GPUSORT_BUCKET_CUH */
