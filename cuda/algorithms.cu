/*
 * algorithms.cu
 *	  The list of the GPU library's algorithms.
 */
#include "sort_internal.cuh"

const SortAlgorithm *const gpusort_algorithms[] = {
	&gpu_radix_algorithm,
	&gpu_merge_algorithm,
	&gpu_bucket_algorithm,
	&gpu_counting_algorithm,
	&gpu_onehot_algorithm,
	&gpu_hp_algorithm,
	&gpu_hp1_algorithm,
	&gpu_hp0_algorithm,
	NULL
};
