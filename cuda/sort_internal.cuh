/*
 * sort_internal.cuh
 *	  The interface between api.cu and the algorithms, and the helpers that
 *	  every algorithm uses: launches, cancellation, readback of values by the
 *	  host.
 *
 * An algorithm is a SortAlgorithm in the list of api.cu.  Its functions get a
 * problem that check_problem() of api.cu has accepted, with n > 1; run() also
 * gets scratch of at least the size that scratch() returned.
 *
 * Readback: a sort whose next launch depends on a result of a kernel needs that
 * result on the host.  cudaMemcpy with cudaStreamSynchronize would drain the
 * stream.  Instead the kernel writes a few words and a sequence number to
 * pinned host memory, which the host polls while later kernels run.
 */
#ifndef GPUSORT_SORT_INTERNAL_CUH
#define GPUSORT_SORT_INTERNAL_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "gpusort_try.h"

/* ------------------------------------------------------------------------
 * Errors
 * ------------------------------------------------------------------------
 *
 * FAIL() and CUDA_TRY() need a variable GpusortError *err in scope, which may
 * be NULL.  TRY() (gpusort_try.h) propagates a status.
 */

/* Describes the error in *err (may be NULL); returns the status. */
extern GpusortStatus gpusort_fail(GpusortError *err, GpusortStatus status,
								  const char *file, int line,
								  const char *format,...)
	__attribute__((format(printf, 5, 6)));

/*
 * Describes a CUDA error of the call "what" in *err (may be NULL).  Returns
 * GPUSORT_NO_MEMORY or GPUSORT_NO_DEVICE for errors that mean "sort on the
 * CPU", else GPUSORT_CUDA_ERROR.  Clears CUDA's last error of this thread.
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

/* ------------------------------------------------------------------------
 * Scratch memory
 * ------------------------------------------------------------------------
 */
#define GPUSORT_ALIGN	256			/* alignment of every array, in bytes */

/*
 * Divides a problem's scratch memory into arrays.  The size query and the run
 * execute the same take() calls.  The query passes a NULL base, so that take()
 * only adds up sizes; the two therefore agree.
 */
struct ScratchCutter
{
	char	   *base;
	uint64_t	used;			/* bytes taken up to now, with padding */

	explicit ScratchCutter(void *memory)
		: base(static_cast<char *>(memory)), used(0)
	{
	}

	/* An array of n elements of T, undefined; NULL if base is NULL. */
	template <class T> T *take(uint64_t n)
	{
		T		   *p = base ? reinterpret_cast<T *>(base + used) : NULL;

		used += (n * sizeof(T) + GPUSORT_ALIGN - 1) / GPUSORT_ALIGN * GPUSORT_ALIGN;
		return p;
	}
};

/* ------------------------------------------------------------------------
 * Algorithms and their runs
 * ------------------------------------------------------------------------
 */

/* Properties of a device that kernels are tuned by; read once per context. */
struct DeviceTraits
{
	int			device;			/* CUDA's device number */
	int			arch;			/* compute capability: 90 is 9.0 */
	int			multiprocessors;
	int			max_shared;		/* bytes of shared memory that a block can
								 * have */
	uint64_t	l2_bytes;
};

/* A stream: a CUDA stream and its readback words. */
struct GpusortStream
{
	GpusortContext *ctx;
	cudaStream_t cuda;

	/*
	 * GPUSORT_READBACK_WORDS words of pinned host memory that kernels write and
	 * the host polls; see wait_for_readback().  Word 0 is the sequence number.
	 * A kernel writes it last.
	 */
	uint32_t   *readback;
	uint32_t	sequence_number;	/* the last number issued */
	GpusortStream *next;		/* link of the context's list of streams */
};

/* Size of a stream's readback array, in 32-bit words. */
#define GPUSORT_READBACK_WORDS	64

/* One call of sort_run. */
struct SortRun
{
	const GpusortProblem *problem;
	const DeviceTraits *device;
	GpusortStream *stream;
	GpusortResult *result;		/* not NULL; sort_run has cleared it */
	GpusortError *err;
};

/*
 * An algorithm.  The functions may be called for any problem that passed the
 * checks.
 */
struct SortAlgorithm
{
	GpusortAlgorithm info;

	/* Static reason why the algorithm cannot sort the problem; NULL: it can. */
	const char *(*why_not) (const DeviceTraits *device, const GpusortProblem *problem);

	/* Bytes of scratch for the problem, whose arrays may be unset. */
	uint64_t	(*scratch) (const DeviceTraits *device, const GpusortProblem *problem);

	/*
	 * Sorts the problem.  The outputs are written in the order of the stream.
	 */
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

/* NULL-terminated.  Indexes of the ABI are positions in this list. */
extern const SortAlgorithm *const gpusort_algorithms[];

/* Must the sort write keys? */
static inline bool
wants_keys(const GpusortProblem *problem)
{
	return (problem->output & GPUSORT_OUT_KEYS) != 0;
}

/* Must the sort write row ids? */
static inline bool
wants_rids(const GpusortProblem *problem)
{
	return (problem->output & GPUSORT_OUT_RIDS) != 0;
}

/*
 * Array for sorted keys, of n elements: the output array; without key output
 * the input array, if it may be overwritten; else an array of the scratch
 * memory.
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

/* a / b, rounded up. */
static inline uint64_t
div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* GPUSORT_STOPPED if the problem's cancel flag is set. */
static inline GpusortStatus
poll_cancel(SortRun *run)
{
	if (run->problem->cancel && *run->problem->cancel)
		return gpusort_fail(run->err, GPUSORT_STOPPED, __FILE__, __LINE__,
							"the sort was cancelled");
	return GPUSORT_OK;
}

/* Blocks until all work of the run is done; then polls the cancel flag. */
static inline GpusortStatus
wait_for_run(SortRun *run)
{
	GpusortError *err = run->err;

	CUDA_TRY(cudaStreamSynchronize(run->stream->cuda));
	return poll_cancel(run);
}

/* Issues the sequence number that a kernel writes with its readback words. */
static inline uint32_t
next_sequence_number(SortRun *run)
{
	return ++run->stream->sequence_number;
}

/*
 * How long wait_for_readback() polls without a pause.  READBACK_POLLS polls
 * take 0.1 to 0.2 ms; one more poll for each READBACK_BYTES bytes of keys
 * covers the sort's own time.  After that a pause of READBACK_PAUSE_NS
 * nanoseconds follows each poll, so that a long wait for earlier work does not
 * occupy a CPU.
 */
#define READBACK_POLLS		(1u << 17)
#define READBACK_BYTES		32
#define READBACK_PAUSE_NS	20000

/*
 * Blocks until a kernel of the run has written this sequence number or a later
 * one.  Work that was launched after that kernel continues meanwhile.  Copies
 * and sorts of earlier jobs on the device can make the wait long.
 *
 * GPUSORT_INTERNAL: the stream's work is done and the number is missing.
 */
static inline GpusortStatus
wait_for_readback(SortRun *run, uint32_t sequence_number)
{
	const volatile uint32_t *word = run->stream->readback;
	uint64_t	patience = READBACK_POLLS + run->problem->n * (run->problem->key_width / 8) / READBACK_BYTES;

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
		(void) cudaGetLastError();	/* clears "not ready" for later queries */
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return GPUSORT_OK;
}

/* Launches a kernel.  Returns the error of this launch, not of earlier work. */
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
 * Launches a kernel of a run: polls the cancel flag, raises the kernel's limit
 * of dynamic shared memory if necessary, counts the launch.  Called by
 * LAUNCH().
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
	if (shared_bytes > 16 * 1024)	/* static memory may bring it over 48 KiB */
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

/* Sets bytes of device memory to 0, in the order of the stream. */
static inline GpusortStatus
clear_device(SortRun *run, void *p, uint64_t bytes)
{
	GpusortError *err = run->err;

	TRY(poll_cancel(run));
	CUDA_TRY(cudaMemsetAsync(p, 0, bytes, run->stream->cuda));
	return GPUSORT_OK;
}

#endif							/* GPUSORT_SORT_INTERNAL_CUH */
