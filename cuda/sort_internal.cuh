/*
 * sort_internal.cuh
 *	  What every algorithm of the GPU library shares: how it presents itself, what
 *	  a run is given, how it starts kernels.
 *
 * An algorithm is one SortAlgorithm, listed in algorithms.cu.  Its functions are
 * called with a problem that has been checked (check_problem in api.cu), n > 1, and
 * scratch of the size it asked for.
 */
#ifndef GPUSORT_SORT_INTERNAL_CUH
#define GPUSORT_SORT_INTERNAL_CUH

#include <time.h>

#include "buffer.cuh"
#include "check.cuh"
#include "gpusort_abi.h"

/* What kernels are tuned by.  Read once per context. */
struct DeviceTraits
{
	int			device;
	int			arch;			/* 90 is compute capability 9.0 */
	int			multiprocessors;
	int			max_shared;		/* bytes of shared memory one block can have */
	uint64_t	l2_bytes;
};

struct GpusortStream
{
	GpusortContext *ctx;
	cudaStream_t cuda;

	/*
	 * A few words that kernels write while later kernels run and that the host
	 * watches: pinned host memory that the device can address.  Word 0 is a
	 * sequence number, written last; see wait_for_readback.
	 */
	uint32_t   *readback;
	uint32_t	sequence_number;			/* the last one issued */
	GpusortStream *next;		/* of the context */
};

#define GPUSORT_READBACK_WORDS	64

/* One run of one algorithm. */
struct SortRun
{
	const GpusortProblem *problem;
	const DeviceTraits *device;
	GpusortStream *stream;
	GpusortResult *result;		/* never NULL; zeroed before the run */
	GpusortError *err;
};

struct SortAlgorithm
{
	GpusortAlgorithm info;

	/* NULL if it can sort the problem, else a few words that say why not. */
	const char *(*why_not) (const DeviceTraits *device, const GpusortProblem *problem);

	/* Bytes of scratch for the problem, which may not have its arrays yet. */
	uint64_t	(*scratch) (const DeviceTraits *device, const GpusortProblem *problem);

	GpusortStatus (*run) (SortRun *run);
};

extern const SortAlgorithm gpu_radix_algorithm;
extern const SortAlgorithm gpu_merge_algorithm;
extern const SortAlgorithm gpu_bucket_algorithm;
extern const SortAlgorithm gpu_counting_algorithm;
extern const SortAlgorithm gpu_onehot_algorithm;
extern const SortAlgorithm gpu_hp_algorithm;
extern const SortAlgorithm gpu_hp1_algorithm;
extern const SortAlgorithm gpu_hp0_algorithm;

/* NULL-terminated, in the order that indexes of the ABI mean. */
extern const SortAlgorithm *const gpusort_algorithms[];

static inline bool
wants_keys(const GpusortProblem *problem)
{
	return (problem->output & GPUSORT_OUT_KEYS) != 0;
}

static inline bool
wants_rids(const GpusortProblem *problem)
{
	return (problem->output & GPUSORT_OUT_RIDS) != 0;
}

/*
 * Where sorted keys go that are on their way: the output, or where that is not wanted the
 * input if it may be overwritten, or else scratch.
 */
template <class K> static K *
take_sorted_keys(const GpusortProblem *problem, ScratchCutter *cutter)
{
	if (wants_keys(problem))
		return static_cast<K *>(problem->keys_out);
	if (problem->facts & GPUSORT_MAY_CLOBBER_INPUT)
		return static_cast<K *>(const_cast<void *>(problem->keys));
	return cutter->take<K>(problem->n);
}

static inline uint64_t
div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* GPUSORT_STOPPED if somebody wants the sort to end. */
static inline GpusortStatus
poll_cancel(SortRun *run)
{
	if (run->problem->cancel && *run->problem->cancel)
		return gpusort_fail(run->err, GPUSORT_STOPPED, __FILE__, __LINE__,
							"the sort was cancelled");
	return GPUSORT_OK;
}

/* Waits for everything the run has started, for its own intermediate results. */
static inline GpusortStatus
wait_for_run(SortRun *run)
{
	GpusortError *err = run->err;

	CUDA_TRY(cudaStreamSynchronize(run->stream->cuda));
	return poll_cancel(run);
}

/* A sequence number for a kernel to write into word 0 of the readback words. */
static inline uint32_t
next_sequence_number(SortRun *run)
{
	return ++run->stream->sequence_number;
}

/*
 * Polls the readback words until its reader no longer takes a processor all the time: after what a sort of the
 * problem's bytes may take alone, and a pause is not noticed among.
 */
#define READBACK_PATIENCE		(1u << 17)	/* a tenth of a millisecond, or two, */
#define READBACK_BYTES			32			/* ... and one more look for this many bytes */
#define READBACK_PAUSE_NS		20000

/*
 * Waits until a kernel has written the sequence number, or a later one, while what was started
 * after it goes on.  A stream that ends without it has failed.  What is before it may take
 * long, copies or others' sorts: then it pauses between looks.
 */
static inline GpusortStatus
wait_for_readback(SortRun *run, uint32_t sequence_number)
{
	const volatile uint32_t *word = run->stream->readback;
	uint64_t	patience = READBACK_PATIENCE + run->problem->n * (run->problem->key_width / 8) / READBACK_BYTES;

	for (uint64_t spins = 1; (int32_t) (*word - sequence_number) < 0; spins++)
	{
		cudaError_t error;

		if (spins > patience)
		{
			struct timespec pause = {0, READBACK_PAUSE_NS};

			nanosleep(&pause, NULL);
		}
		else if (spins % 4096 != 0)
			continue;
		error = cudaStreamQuery(run->stream->cuda);
		if (error == cudaSuccess && (int32_t) (*word - sequence_number) < 0)
			return gpusort_fail(run->err, GPUSORT_INTERNAL, __FILE__, __LINE__,
								"kernels ended without a word");
		if (error != cudaSuccess && error != cudaErrorNotReady)
			return gpusort_fail_cuda(run->err, error, "waiting for a plan",
									 __FILE__, __LINE__);
		(void) cudaGetLastError();	/* not ready is no error to those who look next */
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return GPUSORT_OK;
}

/* Starts a kernel.  The error is that of this call, not of one before it. */
template <class... Params, class... Args>
static cudaError_t
start_kernel(void (*kernel) (Params...), uint64_t blocks, int threads,
			 size_t shared_bytes, cudaStream_t stream, Args... args)
{
	auto		start = [&] (Params... params)
	{
		void	   *list[] = {&params...};

		return cudaLaunchKernel(kernel, dim3((unsigned) blocks), dim3(threads), list,
								shared_bytes, stream);
	};

	return start(static_cast<Params>(args)...);
}

/*
 * Starts a kernel of a sort: polls the cancel flag, raises the shared memory limit where
 * the launch needs it, counts.  Use LAUNCH.
 */
template <class... Params, class... Args>
static GpusortStatus
launch_kernel(SortRun *run, const char *file, int line, const char *name,
			  void (*kernel) (Params...), uint64_t blocks, int threads,
			  size_t shared_bytes, Args... args)
{
	GpusortStatus status = poll_cancel(run);
	cudaError_t error = cudaSuccess;

	if (status != GPUSORT_OK)
		return status;
	if (shared_bytes > 16 * 1024)	/* with static memory, maybe over 48 KiB */
		error = cudaFuncSetAttribute((const void *) kernel,
									 cudaFuncAttributeMaxDynamicSharedMemorySize,
									 (int) shared_bytes);
	if (error == cudaSuccess)
		error = start_kernel(kernel, blocks, threads, shared_bytes, run->stream->cuda,
							 args...);
	if (error != cudaSuccess)
		return gpusort_fail_cuda(run->err, error, name, file, line);
	run->result->launches++;
	return GPUSORT_OK;
}

/* LAUNCH(run, kernel, blocks, threads, shared bytes, arguments...) */
#define LAUNCH(run, kernel, ...) \
	TRY(launch_kernel((run), __FILE__, __LINE__, #kernel, kernel, __VA_ARGS__))

/* Sets bytes of device memory to zero, in stream order. */
static inline GpusortStatus
clear_device(SortRun *run, void *p, uint64_t bytes)
{
	GpusortError *err = run->err;

	TRY(poll_cancel(run));
	CUDA_TRY(cudaMemsetAsync(p, 0, bytes, run->stream->cuda));
	return GPUSORT_OK;
}

#endif							/* GPUSORT_SORT_INTERNAL_CUH */
