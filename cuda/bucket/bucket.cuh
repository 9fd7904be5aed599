/*
 * bucket.cuh
 *	  gpu_bucket for each width of key, compiled one by one (bucket_32.cu ...).
 */
#ifndef GPUSORT_BUCKET_CUH
#define GPUSORT_BUCKET_CUH

#include "sort_internal.cuh"

template <class K> extern uint64_t bucket_scratch(const DeviceTraits *device,
												  const GpusortProblem *problem);
template <class K> extern bool bucket_fits(const DeviceTraits *device);
template <class K> extern GpusortStatus bucket_run(SortRun *run);

#endif							/* GPUSORT_BUCKET_CUH */
