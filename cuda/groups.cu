/*
 * groups.cu
 *	  Drops equal keys behind a sort: stream compaction of the groups' first keys.
 *
 * A kernel marks the first key of each group, a prefix sum (CUB) numbers the
 * groups, and a second kernel writes each group's first key, its row id and its
 * end.  A sort that is stable thus keeps the first of equal rows.
 *
 * Memory: a word per key and the prefix sum's own, both in scratch.
 */
#include "context.cuh"
#include "key.cuh"
#include "prefix_sum.cuh"

#define GROUPS_THREADS	256		/* threads of a block */

/* Scratch memory of groups_run. */
struct GroupsMemory
{
	uint32_t   *place;			/* marks, then the number of groups that begin
								 * before each key */
	char	   *sum;
	uint64_t	sum_bytes;
	uint64_t	bytes;
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static void
cut_memory(const GpusortGroups *problem, void *scratch, GroupsMemory *memory)
{
	ScratchCutter cutter(scratch);

	memory->sum_bytes = gpusort_sum_scratch(problem->n + 1);
	memory->place = cutter.take<uint32_t>(problem->n + 1);
	memory->sum = cutter.take<char>(memory->sum_bytes);
	memory->bytes = cutter.used;
}

/* begins[i] is 1 if key i differs from the key before; begins[n] is 0. */
template <class K>
__global__ static void __launch_bounds__(GROUPS_THREADS)
mark_groups_kernel(const K *keys, uint64_t n, KeyBits<K> bits, uint32_t *begins)
{
	uint64_t	i = (uint64_t) blockIdx.x * GROUPS_THREADS + threadIdx.x;

	if (i <= n)
		begins[i] = i < n && (i == 0 || bits(keys[i]) != bits(keys[i - 1]));
}

/* place[i] is the number of groups that begin before key i. */
template <class K>
__global__ static void __launch_bounds__(GROUPS_THREADS)
write_groups_kernel(const K *keys, const uint32_t *rids, uint64_t n, const uint32_t *place,
					K *keys_out, uint32_t *rids_out, uint32_t *ends)
{
	uint64_t	i = (uint64_t) blockIdx.x * GROUPS_THREADS + threadIdx.x;
	uint32_t	before,			/* groups that begin before this key */
				with;			/* ... or with it */

	if (i >= n)
		return;
	before = place[i];
	with = place[i + 1];
	if (with != before)
	{
		keys_out[before] = keys[i];
		if (rids)
			rids_out[before] = rids[i];
		if (i > 0)
			ends[before - 1] = (uint32_t) i;
	}
	if (i == n - 1)
		ends[with - 1] = (uint32_t) n;
}

template <class K> static GpusortStatus
run_groups(SortRun *run, const GpusortGroups *problem, const GroupsMemory *memory)
{
	const K    *keys = static_cast<const K *>(problem->keys);
	uint64_t	n = problem->n;

	LAUNCH(run, mark_groups_kernel<K>, div_up(n + 1, GROUPS_THREADS), GROUPS_THREADS, 0,
		   keys, n, key_bits<K>(run->problem), memory->place);
	TRY(gpusort_exclusive_sum(run, memory->sum, memory->sum_bytes, memory->place, memory->place, n + 1));
	LAUNCH(run, write_groups_kernel<K>, div_up(n, GROUPS_THREADS), GROUPS_THREADS, 0,
		   keys, problem->rids, n, memory->place, static_cast<K *>(problem->keys_out),
		   problem->rids_out, problem->ends);
	return GPUSORT_OK;
}

/* Checks the numbers of a problem. */
static GpusortStatus
check_groups(const GpusortGroups *problem, GpusortError *err)
{
	if (problem->n > UINT32_MAX)
		FAIL(GPUSORT_UNSUPPORTED, "more than 2^32 - 1 keys");
	if (problem->key_width != 32 && problem->key_width != 64 && problem->key_width != 128)
		FAIL(GPUSORT_BAD_CALL, "keys of %d bits", (int) problem->key_width);
	if (problem->begin_bit < 0 || problem->begin_bit >= problem->end_bit ||
		problem->end_bit > problem->key_width)
		FAIL(GPUSORT_BAD_CALL, "key bits [%d, %d) of %d", (int) problem->begin_bit,
			 (int) problem->end_bit, (int) problem->key_width);
	return GPUSORT_OK;
}

/* gpusort_abi.h documents the functions whose names start with gpusort_. */
GpusortStatus
gpusort_groups_scratch(GpusortContext *ctx, const GpusortGroups *problem, uint64_t *bytes,
					   GpusortError *err)
{
	GroupsMemory memory;

	*bytes = 0;
	TRY(check_groups(problem, err));
	CUDA_TRY(cudaSetDevice(ctx->traits.device));
	cut_memory(problem, NULL, &memory);
	*bytes = memory.bytes;
	return GPUSORT_OK;
}

GpusortStatus
gpusort_groups_run(GpusortStream *stream, const GpusortGroups *problem, uint64_t *groups,
				   GpusortError *err)
{
	GpusortProblem as_sort = {};
	GpusortResult result = {};
	GroupsMemory memory;
	SortRun		run;
	uint32_t	last = 0;

	*groups = 0;
	TRY(check_groups(problem, err));
	CUDA_TRY(cudaSetDevice(stream->ctx->traits.device));
	cut_memory(problem, problem->scratch, &memory);
	if (problem->scratch_bytes < memory.bytes)
		FAIL(GPUSORT_BAD_CALL, "%llu bytes of scratch are too few",
			 (unsigned long long) problem->scratch_bytes);
	if (problem->n == 0)
		return GPUSORT_OK;
	as_sort.n = problem->n;
	as_sort.key_width = problem->key_width;
	as_sort.begin_bit = problem->begin_bit;
	as_sort.end_bit = problem->end_bit;
	as_sort.cancel = problem->cancel;
	run.problem = &as_sort;
	run.device = &stream->ctx->traits;
	run.stream = stream;
	run.result = &result;
	run.err = err;
	TRY(for_key_width(problem->key_width, [&] (auto key)
					  {
						  return run_groups<decltype(key)>(&run, problem, &memory);
					  }));
	CUDA_TRY(cudaMemcpyAsync(&last, memory.place + problem->n, sizeof(last), cudaMemcpyDeviceToHost,
							 stream->cuda));
	CUDA_TRY(cudaStreamSynchronize(stream->cuda));
	*groups = last;
	return GPUSORT_OK;
}
