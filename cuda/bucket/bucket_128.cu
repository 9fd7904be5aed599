/*
 * bucket_128.cu
 *	  gpu_bucket for keys of 128 bits.
 */
#include "bucket/bucket_sort.cuh"

template uint64_t bucket_scratch<Key128>(const DeviceTraits *, const GpusortProblem *);
template bool bucket_fits<Key128>(const DeviceTraits *);
template GpusortStatus bucket_run<Key128>(SortRun *);
