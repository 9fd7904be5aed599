/*
 * launch_bounds.cuh
 *	  Maximal number of resident threads of a multiprocessor, by architecture.
 *
 * A kernel's __launch_bounds__ may ask for several resident blocks, which makes
 * the compiler limit the kernel's registers.  ptxas warns if those blocks have
 * more threads than a multiprocessor, and the build treats warnings as errors.
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

/*
 * Number of resident blocks to ask for: at most wanted, and at most what fits.
 */
#define RESIDENT_BLOCKS(threads, wanted) \
	((wanted) * (threads) <= RESIDENT_THREADS ? (wanted) : RESIDENT_THREADS / (threads))

#endif
