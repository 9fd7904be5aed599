/*
 * check.cuh
 *	  Statuses instead of exceptions: how an error is noticed and described.
 *
 * TRY() (gpusort_try.h) leaves the function with any status other than GPUSORT_OK;
 * CUDA_TRY() turns a CUDA error into a status first.  It needs a GpusortError *err in
 * scope (NULL is allowed).
 */
#ifndef GPUSORT_CHECK_CUH
#define GPUSORT_CHECK_CUH

#include <cuda_runtime.h>

#include "gpusort_try.h"

/* Fills *err (which may be NULL) and returns the status. */
extern GpusortStatus gpusort_fail(GpusortError *err, GpusortStatus status,
								  const char *file, int line,
								  const char *format,...)
	__attribute__((format(printf, 5, 6)));

/*
 * The status of a CUDA error: out of memory and "no such device" are work for
 * the CPU, everything else is broken.  Clears CUDA's own last error.
 */
extern GpusortStatus gpusort_fail_cuda(GpusortError *err, cudaError_t error,
									   const char *what, const char *file, int line);

#define FAIL(status, ...) \
	return gpusort_fail(err, (status), __FILE__, __LINE__, __VA_ARGS__)

#define CUDA_TRY(call) \
	do { \
		cudaError_t try_error_ = (call); \
		if (try_error_ != cudaSuccess) \
			return gpusort_fail_cuda(err, try_error_, #call, __FILE__, __LINE__); \
	} while (0)

#endif							/* GPUSORT_CHECK_CUH */
