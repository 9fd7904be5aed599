/*
 * launch_bounds.cuh
 *	  Resident threads of a multiprocessor, by architecture, for launch bounds.
 *
 * A kernel's launch bounds may ask for several resident blocks, so that the
 * compiler limits its registers.  ptxas warns where the blocks together exceed
 * the multiprocessor's threads, and the build treats warnings as errors.
 */
#ifndef GPUSORT_LAUNCH_BOUNDS_CUH
#define GPUSORT_LAUNCH_BOUNDS_CUH

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
#define RESIDENT_THREADS	1024
#elif defined(__CUDA_ARCH__) && \
	(__CUDA_ARCH__ / 10 == 86 || __CUDA_ARCH__ / 10 == 87 || \
	 __CUDA_ARCH__ / 10 == 89 || __CUDA_ARCH__ >= 1200)
#define RESIDENT_THREADS	1536
#else
#define RESIDENT_THREADS	2048
#endif

/* Resident blocks to ask for: wanted, or fewer where they exceed a multiprocessor. */
#define RESIDENT_BLOCKS(threads, wanted) \
	((wanted) * (threads) <= RESIDENT_THREADS ? (wanted) : RESIDENT_THREADS / (threads))

#endif
