/*
 * gpu_algorithms.cu
 *	  GPU algorithms of bench/kernels: those of the GPU library, CUB's, Thrust's.
 *
 * An algorithm without a suffix is timed by events, with keys and rids in device
 * memory.  With the suffix "_transfer" it is timed by the host's clock, from keys
 * in pinned host memory to rids in pinned host memory.  All get the same bit
 * range: the case's bits without the leading bits that do not vary.  Rids are
 * positions.  The GPU library's algorithms imply rids; CUB's read an array of
 * rids.
 *
 * Buffers are allocated for one (width, n) and kept until the next differs.
 */
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include "bench/cpu/bench_algorithm.h"
#include "bench/gpu/gpu_bench.cuh"

/* Buffers of one (width, n). */
struct Device
{
	int			key_bits;
	size_t		n;
	GpusortContext *ctx;
	GpusortStream *stream;
	GpusortEvent *begin;
	GpusortEvent *end;
	void	   *host_keys;		/* pinned */
	uint32_t   *host_rids;		/* pinned */
	char	   *host_out;		/* sorted records */
	void	   *keys;
	uint32_t   *positions;
	void	   *keys_out;
	uint32_t   *rids_out;
	void	   *scratch;
	uint64_t	scratch_bytes;
};

static Device device;

static const GpusortCudaApi *
api(void)
{
	return gpusort_cuda_api(GPUSORT_ABI_VERSION);
}

static void *
device_memory(uint64_t bytes)
{
	void	   *p;

	MUST(api()->device_alloc(device.ctx, bytes, &p, &must_err));
	return p;
}

static void
want_scratch(uint64_t bytes)
{
	if (device.scratch && device.scratch_bytes >= bytes)
		return;
	if (device.scratch)
		api()->device_free(device.ctx, device.scratch);
	device.scratch = device_memory(bytes);
	device.scratch_bytes = bytes;
}

static cudaStream_t
stream_for_peers(void)
{
	return cudaStreamPerThread;
}

/* Allocates buffers for the case and copies its keys to pinned and device memory. */
static void
load_case(const BenchCase *c)
{
	size_t		n = c->shape.n;
	size_t		width = c->key_bits / 8;
	char	   *keys;

	if (device.key_bits != c->key_bits || device.n != n)
	{
		if (device.ctx)
			api()->context_destroy(device.ctx);
		free(device.host_out);
		memset(&device, 0, sizeof(device));
		MUST(api()->context_create(0, 0, &device.ctx, &must_err));
		MUST(api()->stream_create(device.ctx, &device.stream, &must_err));
		MUST(api()->event_create(device.ctx, &device.begin, &must_err));
		MUST(api()->event_create(device.ctx, &device.end, &must_err));
		MUST(api()->host_alloc(device.ctx, n * width, &device.host_keys, &must_err));
		MUST(api()->host_alloc(device.ctx, n * 4, (void **) &device.host_rids, &must_err));
		device.host_out = (char *) malloc(n * sort_rec_size(c->shape.format));
		device.keys = device_memory(n * width);
		device.keys_out = device_memory(n * width);
		device.positions = (uint32_t *) device_memory(n * 4);
		device.rids_out = (uint32_t *) device_memory(n * 4);
		device.key_bits = c->key_bits;
		device.n = n;
		for (size_t i = 0; i < n; i++)
			device.host_rids[i] = (uint32_t) i;
		MUST(api()->copy_in(device.stream, device.positions, device.host_rids, n * 4,
							&must_err));
		MUST(api()->stream_wait(device.stream, &must_err));
	}
	keys = (char *) device.host_keys;
	for (size_t i = 0; i < n; i++)
		if (c->key_bits == 32)
			((uint32_t *) keys)[i] = (uint32_t) (((const uint64_t *) c->input)[i] >> 32);
		else if (c->key_bits == 64)
			((uint64_t *) keys)[i] = ((const SortRec64 *) c->input)[i].key;
		else
		{
			((GpusortKey128 *) keys)[i].lo = ((const SortRec128 *) c->input)[i].lo;
			((GpusortKey128 *) keys)[i].hi = ((const SortRec128 *) c->input)[i].hi;
		}
	MUST(api()->copy_in(device.stream, device.keys, keys, n * width, &must_err));
	MUST(api()->stream_wait(device.stream, &must_err));
}

/* Builds the sorted records from rids, or from keys if there are no rids. */
static const void *
unload_case(const BenchCase *c, bool rids)
{
	size_t		n = c->shape.n;
	size_t		size = sort_rec_size(c->shape.format);

	if (rids)
	{
		MUST(api()->copy_out(device.stream, device.host_rids, device.rids_out, n * 4,
							 &must_err));
		MUST(api()->stream_wait(device.stream, &must_err));
		for (size_t i = 0; i < n; i++)
		{
			uint32_t	rid = device.host_rids[i];

			memcpy(device.host_out + i * size,
				   (const char *) c->input + (rid < n ? rid : 0) * size, size);
		}
		return device.host_out;
	}
	MUST(api()->copy_out(device.stream, device.host_keys, device.keys_out,
						 n * c->key_bits / 8, &must_err));
	MUST(api()->stream_wait(device.stream, &must_err));
	for (size_t i = 0; i < n; i++)
		if (c->key_bits == 32)
			((uint64_t *) device.host_out)[i] =
				(uint64_t) ((uint32_t *) device.host_keys)[i] << 32;
		else if (c->key_bits == 64)
			((SortRec64 *) device.host_out)[i].key = ((uint64_t *) device.host_keys)[i];
		else
		{
			((SortRec128 *) device.host_out)[i].lo =
				((GpusortKey128 *) device.host_keys)[i].lo;
			((SortRec128 *) device.host_out)[i].hi =
				((GpusortKey128 *) device.host_keys)[i].hi;
		}
	return device.host_out;
}

/* The bit range of the key, within the keys of the device array. */
static void
bit_range(const BenchCase *c, int *begin, int *end)
{
	int			below = c->key_bits == 32 ? 32 : 0;	/* packed: the rid's */

	*begin = c->shape.begin_bit - below;
	*end = c->facts.end_bit > c->shape.begin_bit ? c->facts.end_bit - below : *begin + 1;
}

static const char *
no_device(const BenchCase *c)
{
	GpusortDeviceInfo info;
	int32_t		count;
	GpusortError err;

	if (api()->devices(&info, 1, &count, &err) != GPUSORT_OK || !info.usable)
		return "no CUDA device";
	if (c->key_bits == 32 && c->shape.begin_bit != 32)
		return "takes whole 32-bit keys";
	if (c->threads > 1)
		return "takes no threads";
	return NULL;
}

static size_t
no_host_memory(const BenchCase *)
{
	return 0;
}

/* ------------------------------------------------------------------------
 * The library
 * ------------------------------------------------------------------------
 */
static int
library_algorithm(const char *name)
{
	for (int i = 0; api()->algorithm(i); i++)
		if (strcmp(api()->algorithm(i)->name, name) == 0)
			return i;
	return -1;
}

static GpusortProblem
library_problem(const BenchCase *c, bool rids)
{
	GpusortProblem problem = {};
	int			begin,
				end;

	bit_range(c, &begin, &end);
	problem.n = c->shape.n;
	problem.key_width = c->key_bits;
	problem.begin_bit = begin;
	problem.end_bit = end;
	problem.output = rids ? GPUSORT_OUT_RIDS : GPUSORT_OUT_KEYS;

	/* as a server does, pass the number of leading zero bits */
	problem.facts = GPUSORT_FACT_KEY_RANGE;
	if (end - begin <= 64)
		problem.key_max.lo = ~UINT64_C(0) >> (64 - (end - begin));
	else
	{
		problem.key_max.lo = ~UINT64_C(0);
		problem.key_max.hi = ~UINT64_C(0) >> (128 - (end - begin));
	}
	return problem;
}

static const char *
library_refuses(const BenchCase *c, const char *name, bool rids)
{
	const char *why = no_device(c);
	GpusortProblem problem = library_problem(c, rids);
	GpusortError err;
	GpusortContext *ctx;
	uint64_t	bytes;

	if (why)
		return why;
	if (library_algorithm(name) < 0)
		return "is not in the library";
	if (device.ctx)
		ctx = device.ctx;
	else if (api()->context_create(0, 0, &ctx, &err) != GPUSORT_OK)
		return "no CUDA device";
	if (api()->sort_scratch(ctx, library_algorithm(name), &problem, &bytes, &why, &err)
		== GPUSORT_OK)
		why = NULL;
	else if (!why)
		why = "cannot run this case";
	if (ctx != device.ctx)
		api()->context_destroy(ctx);
	return why;
}

static double
library_run(BenchCase *c, const void **output, const char *name, bool rids,
			bool transfer)
{
	int			algorithm = library_algorithm(name);
	GpusortProblem problem = library_problem(c, rids);
	size_t		key_bytes = c->shape.n * c->key_bits / 8;
	uint64_t	bytes;
	double		us;

	load_case(c);
	MUST(api()->sort_scratch(device.ctx, algorithm, &problem, &bytes, NULL, &must_err));
	want_scratch(bytes);
	problem.keys = device.keys;
	problem.keys_out = device.keys_out;
	problem.rids_out = device.rids_out;
	problem.scratch = device.scratch;
	problem.scratch_bytes = device.scratch_bytes;
	if (transfer)
	{
		double		start = bench_now();

		MUST(api()->copy_in(device.stream, device.keys, device.host_keys, key_bytes,
							&must_err));
		MUST(api()->sort_run(device.stream, algorithm, &problem, NULL, &must_err));
		if (rids)
			MUST(api()->copy_out(device.stream, device.host_rids, device.rids_out,
								 c->shape.n * 4, &must_err));
		else
			MUST(api()->copy_out(device.stream, device.host_keys, device.keys_out,
								 key_bytes, &must_err));
		MUST(api()->stream_wait(device.stream, &must_err));
		us = (bench_now() - start) * 1e6;
	}
	else
	{
		MUST(api()->event_record(device.begin, device.stream, &must_err));
		MUST(api()->sort_run(device.stream, algorithm, &problem, NULL, &must_err));
		MUST(api()->event_record(device.end, device.stream, &must_err));
		MUST(api()->stream_wait(device.stream, &must_err));
		MUST(api()->event_elapsed(device.begin, device.end, &us, &must_err));
	}
	*output = unload_case(c, rids);
	return us * 1e-6;
}

/* ------------------------------------------------------------------------
 * Peers
 * ------------------------------------------------------------------------
 */
enum Peer
{
	CUB_RADIX, CUB_MERGE, THRUST_SORT
};

/* One call of CUB.  With temp NULL it only sets *bytes. */
template <class K> static void
call_cub(Peer peer, const BenchCase *c, void *temp, size_t *bytes, cudaStream_t stream)
{
	int			begin,
				end;

	bit_range(c, &begin, &end);
	if (peer == CUB_RADIX)
		CUDA_MUST(cub::DeviceRadixSort::SortPairs(temp, *bytes,
												  static_cast<const K *>(device.keys),
												  static_cast<K *>(device.keys_out),
												  device.positions, device.rids_out,
												  c->shape.n, begin, end, stream));
	else
		CUDA_MUST(cub::DeviceMergeSort::StableSortPairs(temp, *bytes,
														static_cast<K *>(device.keys_out),
														device.rids_out, c->shape.n,
														Less(), stream));
}

/* In-place algorithms sort a copy.  Copying is timed for "_transfer" only. */
template <class K> static void
copy_input(size_t n, cudaStream_t stream)
{
	CUDA_MUST(cudaMemcpyAsync(device.keys_out, device.keys, n * sizeof(K),
							  cudaMemcpyDeviceToDevice, stream));
	CUDA_MUST(cudaMemcpyAsync(device.rids_out, device.positions, n * 4,
							  cudaMemcpyDeviceToDevice, stream));
}

template <class K> static void
call_peer(Peer peer, const BenchCase *c, size_t bytes, cudaStream_t stream)
{
	K		   *keys = static_cast<K *>(device.keys_out);

	if (peer == THRUST_SORT)
		thrust::stable_sort_by_key(thrust::cuda::par_nosync.on(stream), keys,
								   keys + c->shape.n, device.rids_out);
	else
		call_cub<K>(peer, c, device.scratch, &bytes, stream);
}

template <class K> static double
peer_run_for(BenchCase *c, const void **output, Peer peer, bool transfer)
{
	cudaStream_t stream = stream_for_peers();
	cudaEvent_t begin,
				end;
	size_t		bytes = 0;
	size_t		n = c->shape.n;
	double		seconds;

	load_case(c);
	if (peer != THRUST_SORT)
	{
		call_cub<K>(peer, c, NULL, &bytes, stream);
		want_scratch(bytes);
	}
	CUDA_MUST(cudaEventCreate(&begin));
	CUDA_MUST(cudaEventCreate(&end));
	if (transfer)
	{
		double		start = bench_now();

		CUDA_MUST(cudaMemcpyAsync(device.keys, device.host_keys, n * sizeof(K),
								  cudaMemcpyHostToDevice, stream));
		if (peer != CUB_RADIX)
			copy_input<K>(n, stream);
		call_peer<K>(peer, c, bytes, stream);
		CUDA_MUST(cudaMemcpyAsync(device.host_rids, device.rids_out, n * 4,
								  cudaMemcpyDeviceToHost, stream));
		CUDA_MUST(cudaStreamSynchronize(stream));
		seconds = bench_now() - start;
	}
	else
	{
		float		ms;

		if (peer != CUB_RADIX)
			copy_input<K>(n, stream);
		CUDA_MUST(cudaEventRecord(begin, stream));
		call_peer<K>(peer, c, bytes, stream);
		CUDA_MUST(cudaEventRecord(end, stream));
		CUDA_MUST(cudaStreamSynchronize(stream));
		CUDA_MUST(cudaEventElapsedTime(&ms, begin, end));
		seconds = ms * 1e-3;
	}
	CUDA_MUST(cudaEventDestroy(begin));
	CUDA_MUST(cudaEventDestroy(end));
	*output = unload_case(c, true);
	return seconds;
}

static double
peer_run(BenchCase *c, const void **output, Peer peer, bool transfer)
{
	return c->key_bits == 32 ? peer_run_for<uint32_t>(c, output, peer, transfer)
		: c->key_bits == 64 ? peer_run_for<uint64_t>(c, output, peer, transfer)
		: peer_run_for<Key128>(c, output, peer, transfer);
}

/* Comparison sorts compare whole keys. */
static const char *
comparing_refuses(const BenchCase *c)
{
	if (c->shape.begin_bit != (c->key_bits == 32 ? 32 : 0))
		return "compares whole keys";
	return no_device(c);
}

/* ------------------------------------------------------------------------
 * The list
 * ------------------------------------------------------------------------
 */
#define LIBRARY_ENTRY(NAME, RIDS, CHECK) \
	static const char *NAME##_refuses(const BenchCase *c) \
	{ \
		return library_refuses(c, #NAME, RIDS); \
	} \
	static double NAME##_run(BenchCase *c, const void **output) \
	{ \
		return library_run(c, output, #NAME, RIDS, false); \
	} \
	static double NAME##_run_transfer(BenchCase *c, const void **output) \
	{ \
		return library_run(c, output, #NAME, RIDS, true); \
	} \
	static const BenchAlgorithm NAME##_entry = { \
		#NAME, (RIDS) ? 32 : 0, CHECK, NAME##_refuses, no_host_memory, NAME##_run \
	}; \
	static const BenchAlgorithm NAME##_transfer_entry = { \
		#NAME "_transfer", (RIDS) ? 32 : 0, CHECK, NAME##_refuses, no_host_memory, \
		NAME##_run_transfer \
	}

#define PEER_ENTRY(NAME, PEER, REFUSES) \
	static double NAME##_run(BenchCase *c, const void **output) \
	{ \
		return peer_run(c, output, PEER, false); \
	} \
	static double NAME##_run_transfer(BenchCase *c, const void **output) \
	{ \
		return peer_run(c, output, PEER, true); \
	} \
	static const BenchAlgorithm NAME##_entry = { \
		#NAME, 32, CASE_STABLE, REFUSES, no_host_memory, NAME##_run \
	}; \
	static const BenchAlgorithm NAME##_transfer_entry = { \
		#NAME "_transfer", 32, CASE_STABLE, REFUSES, no_host_memory, NAME##_run_transfer \
	}

LIBRARY_ENTRY(gpu_radix, true, CASE_STABLE);
LIBRARY_ENTRY(gpu_merge, true, CASE_STABLE);
LIBRARY_ENTRY(gpu_bucket, true, CASE_STABLE);
LIBRARY_ENTRY(gpu_counting, true, CASE_STABLE);
LIBRARY_ENTRY(gpu_onehot, true, CASE_STABLE);
LIBRARY_ENTRY(gpu_hp, false, CASE_KEYS);
LIBRARY_ENTRY(gpu_hp1, false, CASE_KEYS);
LIBRARY_ENTRY(gpu_hp0, false, CASE_KEYS);
PEER_ENTRY(cub_radix, CUB_RADIX, no_device);
PEER_ENTRY(cub_merge, CUB_MERGE, comparing_refuses);
PEER_ENTRY(thrust_sort, THRUST_SORT, comparing_refuses);

#define BOTH(NAME)	&NAME##_entry, &NAME##_transfer_entry

extern "C" const BenchAlgorithm *const bench_gpu_algorithms[] = {
	BOTH(gpu_radix),
	BOTH(gpu_merge),
	BOTH(gpu_bucket),
	BOTH(gpu_counting),
	BOTH(gpu_onehot),
	BOTH(gpu_hp),
	BOTH(gpu_hp1),
	BOTH(gpu_hp0),
	BOTH(cub_radix),
	BOTH(cub_merge),
	BOTH(thrust_sort),
	NULL
};
