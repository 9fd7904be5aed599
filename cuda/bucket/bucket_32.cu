/*
 * bucket_32.cu
 *	  gpu_bucket for keys of 32 bits.
 */
#include "bucket/bucket_sort.cuh"

template uint64_t bucket_scratch<uint32_t>(const DeviceTraits *, const GpusortProblem *);
template bool bucket_fits<uint32_t>(const DeviceTraits *);
template GpusortStatus bucket_run<uint32_t>(SortRun *);
