/*
 * gather.cu
 *	  Gathers rows: copies rows within device memory into sorted order.
 *
 * gather_plan adds up the lengths of the rows in sorted order (a prefix sum).
 * One warp then cuts the output into chunks by 32-way searches in those sums;
 * one warp suffices, because each chunk starts where the previous one ends.
 * gather_rows copies a row with as many lanes as an average row has units, so
 * that neighbouring lanes write neighbouring words and a row is read at once.
 *
 * Memory: 8 bytes per row for out_offset, which the caller owns; scratch for
 * the prefix sum and the chunk table.
 *
 * Errors: GPUSORT_UNSUPPORTED if a row is longer than a chunk or the chunks are
 * more than max_chunks; the caller must then sort on the CPU.
 */
#include <cub/device/device_scan.cuh>
#include <cuda/std/functional>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "context.cuh"

#define GATHER_THREADS	256	/* threads of a block that copies rows */

/* Result of cut_chunks_kernel() for the host. */
struct GatherPlan
{
	uint32_t	chunks;			/* number of chunks */
	uint32_t	too_many;		/* 1: more than max_chunks are needed */
	uint32_t	too_long;		/* 1: a row is longer than a chunk */
};

/* Units of the i-th row in sorted order; 0 for i = n, the end of the sum. */
struct SortedUnits
{
	const uint32_t *order;
	const uint32_t *row_offset;
	const uint32_t *row_units;
	uint64_t	n;

	__device__ uint64_t operator() (uint64_t i) const
	{
		uint32_t	row;

		if (i >= n)
			return 0;
		row = order[i];
		return row_units ? row_units[row] : row_offset[row + 1] - row_offset[row];
	}
};

typedef thrust::transform_iterator<SortedUnits, thrust::counting_iterator<uint64_t>>
	SortedUnitsIterator;

/* Iterator over the lengths of the rows in sorted order. */
static SortedUnitsIterator
sorted_units(const GpusortGather *gather)
{
	SortedUnits units = {gather->order, gather->row_offset, gather->row_units, gather->n};

	return SortedUnitsIterator(thrust::counting_iterator<uint64_t>(0), units);
}

/* Scratch memory of gather_plan; chunk_row is a copy of the host's array. */
struct GatherMemory
{
	GatherPlan *plan;
	uint32_t   *chunk_row;
	void	   *scan;
	size_t		scan_bytes;
	uint64_t	bytes;
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static GpusortStatus
cut_memory(const GpusortGather *gather, void *scratch, GatherMemory *memory,
		   GpusortError *err)
{
	ScratchCutter cutter(scratch);

	memory->scan_bytes = 0;
	CUDA_TRY(cub::DeviceScan::ExclusiveSum(NULL, memory->scan_bytes, sorted_units(gather),
										   gather->out_offset, gather->n + 1));
	memory->plan = cutter.take<GatherPlan>(1);
	memory->chunk_row = cutter.take<uint32_t>((uint64_t) gather->max_chunks + 1);
	memory->scan = cutter.take<char>(memory->scan_bytes);
	memory->bytes = cutter.used;
	return GPUSORT_OK;
}

/*
 * Cuts the sorted rows into chunks; one warp.  Each chunk ends before the last
 * row whose offset, with the overhead of the rows before it, is at most
 * chunk_units behind the chunk's first one.  The 32
 * lanes test 32 points of the interval of candidates at a time, which takes
 * five or six steps for a chunk.
 */
__global__ static void
cut_chunks_kernel(const uint64_t *out_offset, uint32_t n, uint64_t chunk_units,
				  uint32_t overhead_units, uint32_t max_chunks, uint32_t *chunk_row, GatherPlan *plan)
{
	uint32_t	lane = threadIdx.x;
	uint32_t	row = 0;
	uint32_t	chunks = 0;
	bool		too_long = false;

	while (row < n && chunks < max_chunks)
	{
		uint64_t	limit = out_offset[row] + chunk_units;
		uint64_t	lo = row,	/* the chunk may end before row lo, ... */
					hi = (uint64_t) n + 1;	/* ... and not before row hi */

		if (lane == 0)
			chunk_row[chunks] = row;
		while (hi - lo > 1)
		{
			uint64_t	step = (hi - lo + 31) / 32;
			uint64_t	at = lo + lane * step;
			uint32_t	fits = __ballot_sync(0xffffffffu,
											 at < hi && out_offset[at] + (at - row) * overhead_units <= limit);
			int			last = 31 - __clz(fits);	/* lane 0's point fits */

			lo += last * step;
			hi = lo + step < hi ? lo + step : hi;
		}
		if (lo == row)
		{
			too_long = true;
			break;
		}
		row = (uint32_t) lo;
		chunks++;
	}
	if (lane == 0)
	{
		chunk_row[chunks] = row;
		plan->chunks = chunks;
		plan->too_long = too_long;
		plan->too_many = !too_long && row < n;
	}
}

/* Copies the sorted rows [first, last) to dst; LANES lanes copy a row. */
template <int LANES>
__global__ static void __launch_bounds__(GATHER_THREADS)
gather_kernel(const uint64_t *rows, const uint32_t *row_offset, const uint32_t *order,
			  const uint64_t *out_offset, uint64_t first, uint64_t last, uint64_t *dst)
{
	uint64_t	i = first + ((uint64_t) blockIdx.x * GATHER_THREADS + threadIdx.x) / LANES;
	uint32_t	lane = threadIdx.x % LANES;
	uint64_t	from,
				to,
				end;

	if (i >= last)
		return;
	from = row_offset[order[i]];
	to = out_offset[i];
	end = out_offset[i + 1];
	dst -= out_offset[first];
	for (uint64_t unit = to + lane; unit < end; unit += LANES)
		dst[unit] = rows[from + (unit - to)];
}

/* Checks the numbers of a gather. */
static GpusortStatus
check_gather(const GpusortGather *gather, GpusortError *err)
{
	if (gather->n >= UINT32_MAX)
		FAIL(GPUSORT_UNSUPPORTED, "more than 2^32 - 2 rows");
	if (gather->chunk_units == 0 || gather->max_chunks == 0)
		FAIL(GPUSORT_BAD_CALL, "no room for a chunk");
	return GPUSORT_OK;
}

/* gpusort_abi.h documents the functions whose names start with gpusort_. */
GpusortStatus
gpusort_gather_scratch(GpusortContext *ctx, const GpusortGather *gather, uint64_t *bytes,
					   GpusortError *err)
{
	GatherMemory memory;

	*bytes = 0;
	TRY(check_gather(gather, err));
	CUDA_TRY(cudaSetDevice(ctx->traits.device));
	TRY(cut_memory(gather, NULL, &memory, err));
	*bytes = memory.bytes;
	return GPUSORT_OK;
}

/* GPUSORT_STOPPED if the gather's cancel flag is set. */
static GpusortStatus
poll_gather(const GpusortGather *gather, GpusortError *err)
{
	if (gather->cancel && *gather->cancel)
		FAIL(GPUSORT_STOPPED, "the gathering was cancelled");
	return GPUSORT_OK;
}

GpusortStatus
gpusort_gather_plan(GpusortStream *stream, const GpusortGather *gather, uint32_t *chunks,
					GpusortError *err)
{
	GatherMemory memory;
	GatherPlan	plan;

	*chunks = 0;
	TRY(check_gather(gather, err));
	CUDA_TRY(cudaSetDevice(stream->ctx->traits.device));
	TRY(cut_memory(gather, gather->scratch, &memory, err));
	if (gather->scratch_bytes < memory.bytes)
		FAIL(GPUSORT_BAD_CALL, "%llu bytes of scratch are too few",
			 (unsigned long long) gather->scratch_bytes);
	TRY(poll_gather(gather, err));
	CUDA_TRY(cub::DeviceScan::ExclusiveSum(memory.scan, memory.scan_bytes,
										   sorted_units(gather), gather->out_offset,
										   gather->n + 1, stream->cuda));
	CUDA_TRY(start_kernel(cut_chunks_kernel, 1, 32, 0, stream->cuda,
						  gather->out_offset, (uint32_t) gather->n,
						  gather->chunk_units, gather->overhead_units, gather->max_chunks,
						  memory.chunk_row, memory.plan));
	CUDA_TRY(cudaMemcpyAsync(&plan, memory.plan, sizeof(plan), cudaMemcpyDeviceToHost,
							 stream->cuda));
	CUDA_TRY(cudaMemcpyAsync(gather->chunk_row, memory.chunk_row,
							 ((size_t) gather->max_chunks + 1) * sizeof(uint32_t),
							 cudaMemcpyDeviceToHost, stream->cuda));
	CUDA_TRY(cudaStreamSynchronize(stream->cuda));
	if (plan.too_long)
		FAIL(GPUSORT_UNSUPPORTED, "a row is longer than a chunk");
	if (plan.too_many)
		FAIL(GPUSORT_UNSUPPORTED, "the rows need more than %u chunks",
			 (unsigned) gather->max_chunks);
	*chunks = plan.chunks;
	return GPUSORT_OK;
}

GpusortStatus
gpusort_gather_rows(GpusortStream *stream, const GpusortGather *gather, uint64_t first,
					uint64_t last, void *dst, GpusortError *err)
{
	static void (*const kernels[]) (const uint64_t *, const uint32_t *, const uint32_t *,
									const uint64_t *, uint64_t, uint64_t, uint64_t *) = {
		gather_kernel<1>, gather_kernel<2>, gather_kernel<4>,
		gather_kernel<8>, gather_kernel<16>, gather_kernel<32>
	};
	int			k = 0;			/* log2 of the lanes for a row */

	if (first > last || last > gather->n)
		FAIL(GPUSORT_BAD_CALL, "rows %llu to %llu of %llu", (unsigned long long) first,
			 (unsigned long long) last, (unsigned long long) gather->n);
	if (first == last)
		return GPUSORT_OK;
	TRY(poll_gather(gather, err));
	CUDA_TRY(cudaSetDevice(stream->ctx->traits.device));
	while (k < 5 && UINT64_C(1) << k < gather->rows_units / gather->n)
		k++;
	CUDA_TRY(start_kernel(kernels[k], div_up((last - first) << k, GATHER_THREADS),
						  GATHER_THREADS, 0, stream->cuda,
						  static_cast<const uint64_t *>(gather->rows), gather->row_offset,
						  gather->order, gather->out_offset, first, last,
						  static_cast<uint64_t *>(dst)));
	return GPUSORT_OK;
}
