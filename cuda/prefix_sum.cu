/*
 * prefix_sum.cu
 *	  Prefix sums over arrays in device memory, by CUB's DeviceScan.
 *
 * Only this file instantiates DeviceScan for sorts, because each instance takes
 * long to compile.  prefix_sum.cuh documents the functions.
 */
#include <cub/device/device_scan.cuh>
#include <cuda/std/functional>
#include <thrust/iterator/transform_iterator.h>

#include "prefix_sum.cuh"

/* A count in the upper 32 bits (1 if v is not 0), v in the lower 32 bits. */
struct CountAndValue
{
	__host__ __device__ uint64_t operator() (uint32_t v) const
	{
		return (uint64_t) (v != 0) << 32 | v;
	}
};

/* Number of bits set in v. */
struct BitsOf
{
	__device__ uint32_t operator() (uint32_t v) const
	{
		return (uint32_t) __popc(v);
	}
};

typedef thrust::transform_iterator<BitsOf, const uint32_t *, uint32_t> BitCounts;
typedef thrust::transform_iterator<CountAndValue, const uint32_t *, uint64_t> CountsAndValues;

/* out[i] = first + in[0] + ... + in[i], added in the type of out. */
template <class K> static cudaError_t
running_key(void *scratch, size_t &bytes, const uint32_t *in, K *out, K first, uint64_t n,
			cudaStream_t stream)
{
	return cub::DeviceScan::InclusiveScanInit(scratch, bytes, in, out, ::cuda::std::plus<K>(),
											  first, n, stream);
}

/* prefix_sum.cuh documents the functions whose names start with gpusort_. */
uint64_t
gpusort_sum_scratch(uint64_t n)
{
	const uint32_t *in = NULL;
	size_t		most = 0,
				bytes = 0;

	cub::DeviceScan::ExclusiveSum(NULL, bytes, in, (uint32_t *) NULL, n);
	most = bytes > most ? bytes : most;
	cub::DeviceScan::ExclusiveSum(NULL, bytes, CountsAndValues(in, CountAndValue()),
								  (uint64_t *) NULL, n);
	most = bytes > most ? bytes : most;
	cub::DeviceScan::ExclusiveSum(NULL, bytes, BitCounts(in, BitsOf()), (uint32_t *) NULL, n);
	most = bytes > most ? bytes : most;
	running_key<uint64_t>(NULL, bytes, in, NULL, 0, n, 0);
	most = bytes > most ? bytes : most;
	running_key<uint32_t>(NULL, bytes, in, NULL, 0, n, 0);
	return bytes > most ? bytes : most;
}

/* Turns the result of a CUB sum into a status.  CUB launches two kernels. */
static GpusortStatus
done(SortRun *run, cudaError_t error, int line)
{
	if (error != cudaSuccess)
		return gpusort_fail_cuda(run->err, error, "prefix sum", __FILE__, line);
	run->result->launches += 2;
	return GPUSORT_OK;
}

GpusortStatus
gpusort_exclusive_sum(SortRun *run, void *scratch, uint64_t bytes,
					  const uint32_t *in, uint32_t *out, uint64_t n)
{
	size_t		room = bytes;

	TRY(poll_cancel(run));
	return done(run, cub::DeviceScan::ExclusiveSum(scratch, room, in, out, n,
												   run->stream->cuda), __LINE__);
}

GpusortStatus
gpusort_sum_and_count(SortRun *run, void *scratch, uint64_t bytes,
					  const uint32_t *in, uint64_t *out, uint64_t n)
{
	size_t		room = bytes;

	TRY(poll_cancel(run));
	return done(run, cub::DeviceScan::ExclusiveSum(scratch, room,
												   CountsAndValues(in, CountAndValue()), out, n,
												   run->stream->cuda), __LINE__);
}

GpusortStatus
gpusort_sum_bits(SortRun *run, void *scratch, uint64_t bytes,
				 const uint32_t *in, uint32_t *out, uint64_t n)
{
	size_t		room = bytes;

	TRY(poll_cancel(run));
	return done(run, cub::DeviceScan::ExclusiveSum(scratch, room, BitCounts(in, BitsOf()), out,
												   n, run->stream->cuda), __LINE__);
}

GpusortStatus
gpusort_running_key(SortRun *run, void *scratch, uint64_t bytes,
					const uint32_t *in, uint64_t first, void *out, int key_bits,
					uint64_t n)
{
	size_t		room = bytes;

	TRY(poll_cancel(run));
	if (key_bits == 32)
		return done(run, running_key<uint32_t>(scratch, room, in, static_cast<uint32_t *>(out),
											   (uint32_t) first, n, run->stream->cuda),
					__LINE__);
	return done(run, running_key<uint64_t>(scratch, room, in, static_cast<uint64_t *>(out),
										   first, n, run->stream->cuda), __LINE__);
}
