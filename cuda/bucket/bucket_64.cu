/*
 * bucket_64.cu
 *	  gpu_bucket for keys of 64 bits.
 */
#include "bucket/bucket_sort.cuh"

template uint64_t bucket_scratch<uint64_t>(const DeviceTraits *, const GpusortProblem *);
template bool bucket_fits<uint64_t>(const DeviceTraits *);
template GpusortStatus bucket_run<uint64_t>(SortRun *);
