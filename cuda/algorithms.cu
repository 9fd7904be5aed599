/*
 * algorithms.cu
 *	  The list of the GPU library's algorithms.
 */
#include "sort_internal.cuh"

const SortAlgorithm *const gpusort_algorithms[] = {
	&gpu_radix_algorithm,
	&gpu_bucket_algorithm,
	NULL
};
