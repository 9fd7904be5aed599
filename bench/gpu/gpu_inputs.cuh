/*
 * gpu_inputs.cuh
 *	  For benchmarks that make inputs on the device: opens the library, allocates.
 */
#ifndef GPUSORT_GPU_INPUTS_CUH
#define GPUSORT_GPU_INPUTS_CUH

#include "bench/gpu/gpu_bench.cuh"
#include "bench/gpu/gpu_keys.h"

static const GpusortCudaApi *api;
static GpusortContext *ctx;
static GpusortStream *stream;

/* Returns false if there is no device. */
static bool
open_library(void)
{
	GpusortError err = {};

	setvbuf(stdout, NULL, _IOLBF, 0);
	api = gpusort_cuda_api(GPUSORT_ABI_VERSION);
	if (!api || api->context_create(0, 0, &ctx, &err) != GPUSORT_OK)
	{
		printf("gpu: skipped, %s\n", err.message);
		return false;
	}
	MUST(api->stream_create(ctx, &stream, &must_err));
	return true;
}

static void *
device_memory(uint64_t bytes)
{
	void	   *p;

	MUST(api->device_alloc(ctx, bytes, &p, &must_err));
	return p;
}

#endif							/* GPUSORT_GPU_INPUTS_CUH */
