/*
 * gpu_bench.cuh
 *	  Shared by the GPU benchmarks: opens the library on device 0; CUB's comparator.
 */
#ifndef GPUSORT_GPU_BENCH_CUH
#define GPUSORT_GPU_BENCH_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "cuda/gpusort_abi.h"

typedef unsigned __int128 Key128;

#define MUST(call) \
	do { \
		GpusortError must_err = {}; \
		if ((call) != GPUSORT_OK) \
		{ \
			fprintf(stderr, "%s: %s (%s:%d)\n", #call, must_err.message, \
					must_err.file, must_err.line); \
			exit(1); \
		} \
	} while (0)

#define CUDA_MUST(call) \
	do { \
		cudaError_t must_error = (call); \
		if (must_error != cudaSuccess) \
		{ \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(must_error)); \
			exit(1); \
		} \
	} while (0)

/* Comparator of CUB's merge sort. */
struct Less
{
	template <class K> __host__ __device__ bool operator() (const K &a, const K &b) const
	{
		return a < b;
	}
};

#endif							/* GPUSORT_GPU_BENCH_CUH */
