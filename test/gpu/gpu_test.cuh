/*
 * gpu_test.cuh
 *	  Shared by the GPU tests: opens the library on device 0 and counts
 *	  failures.
 *
 * Without a device a test prints that and succeeds.
 */
#ifndef GPUSORT_GPU_TEST_CUH
#define GPUSORT_GPU_TEST_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/gpusort_abi.h"

static const GpusortCudaApi *api;
static GpusortContext *ctx;
static GpusortStream *stream;
static uint64_t checks;
static uint64_t failures;

#define MUST(call) \
	do { \
		GpusortError must_err = {}; \
		if ((call) != GPUSORT_OK) \
		{ \
			printf("not ok: %s: %s (%s:%d)\n", #call, must_err.message, \
				   must_err.file, must_err.line); \
			exit(1); \
		} \
	} while (0)

static void
fail(const char *what, const char *detail)
{
	if (++failures <= 20)
		printf("not ok: %s: %s\n", what, detail);
}

static void
open_library(void)
{
	GpusortError err = {};

	setvbuf(stdout, NULL, _IOLBF, 0);
	api = gpusort_cuda_api(GPUSORT_ABI_VERSION);
	if (!api || api->api_size != sizeof(GpusortCudaApi))
	{
		printf("not ok: the library speaks another version\n");
		exit(1);
	}
	switch (api->context_create(0, 0, &ctx, &err))
	{
		case GPUSORT_OK:
			break;
		case GPUSORT_NO_DEVICE:
			printf("gpu: skipped, no CUDA device\n");
			exit(0);
		default:
			printf("not ok: %s (%s:%d)\n", err.message, err.file, err.line);
			exit(1);
	}
	MUST(api->stream_create(ctx, &stream, &must_err));
}

/* The test's exit status. */
static int
close_library(const char *what)
{
	api->stream_destroy(stream);
	api->context_destroy(ctx);
	if (failures)
		printf("not ok: %s, %llu failures in %llu checks\n", what,
			   (unsigned long long) failures, (unsigned long long) checks);
	else
		printf("ok: %s, %llu checks\n", what, (unsigned long long) checks);
	return failures ? 1 : 0;
}

#endif							/* GPUSORT_GPU_TEST_CUH */
