/*
 * api.cu
 *	  The library's export, gpusort_cuda_api(): the list of algorithms, the
 *	  checks that every problem passes before an algorithm sees it, and the
 *	  table of functions.
 *
 * The size query and the run make the same checks, so that a problem that
 * passes the query also passes the run.
 *
 * Errors: contradictory arguments are GPUSORT_BAD_CALL, problems that the
 * algorithm cannot sort GPUSORT_UNSUPPORTED.  Neither starts work.
 */
#include <string.h>

#include "context.cuh"
#include "costs_h200.h"
#include "key.cuh"

const SortAlgorithm *const gpusort_algorithms[] = {
	&gpu_radix_algorithm,
	&gpu_merge_algorithm,
	&gpu_bucket_algorithm,
	&gpu_counting_algorithm,
	&gpu_onehot_algorithm,
	&gpu_hp_algorithm,
	&gpu_hp1_algorithm,
	&gpu_hp0_algorithm,
	NULL
};

/* The algorithm of that index, or NULL. */
static const GpusortAlgorithm *
algorithm_info(int32_t index)
{
	for (int32_t i = 0; gpusort_algorithms[i]; i++)
		if (i == index)
			return &gpusort_algorithms[i]->info;
	return NULL;
}

/*
 * Costs for any device: those of an H200, the only device with measured curves.
 */
static void
costs(const GpusortContext *, GpusortCosts *out)
{
	*out = gpusort_costs_h200;
}

/* GPUSORT_KEYS_* of a key width in bits; 0: there is no such width. */
static uint32_t
key_width_bit(int32_t key_bits)
{
	return key_bits == 32 ? GPUSORT_KEYS_32 :
		key_bits == 64 ? GPUSORT_KEYS_64 :
		key_bits == 128 ? GPUSORT_KEYS_128 : 0;
}

/*
 * Is the key range valid: key_min <= key_max, and both within the ordering
 * bits?
 */
static bool
is_range(const GpusortProblem *problem)
{
	int			bits = problem->end_bit - problem->begin_bit;
	Key128		least = narrow_key<Key128>(problem->key_min);
	Key128		most = narrow_key<Key128>(problem->key_max);

	return least <= most && (bits == 128 || most >> bits == 0);
}

/*
 * Checks a problem for the algorithm of that index.  GPUSORT_UNSUPPORTED: *why
 * is set to the reason, else to NULL.
 */
static GpusortStatus
check_problem(GpusortContext *ctx, int32_t index, const GpusortProblem *problem,
			  const char **why, GpusortError *err)
{
	const SortAlgorithm *algorithm;

	*why = NULL;
	if (!algorithm_info(index))
		FAIL(GPUSORT_BAD_CALL, "there is no algorithm %d", (int) index);
	algorithm = gpusort_algorithms[index];
	if (key_width_bit(problem->key_width) == 0)
		FAIL(GPUSORT_BAD_CALL, "keys of %d bits", (int) problem->key_width);
	if (problem->begin_bit < 0 || problem->begin_bit >= problem->end_bit ||
		problem->end_bit > problem->key_width)
		FAIL(GPUSORT_BAD_CALL, "key bits [%d, %d) of %d", (int) problem->begin_bit,
			 (int) problem->end_bit, (int) problem->key_width);
	if ((problem->facts & GPUSORT_FACT_KEY_RANGE) && !is_range(problem))
		FAIL(GPUSORT_BAD_CALL, "the key range is none of %d bits",
			 (int) (problem->end_bit - problem->begin_bit));
	if ((problem->output & (GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS)) == 0)
		FAIL(GPUSORT_BAD_CALL, "nothing is to be written");
	if (wants_rids(problem) && problem->n > UINT64_C(1) << 32)
		*why = "more rows than 32-bit rids";
	else if (wants_rids(problem) && !algorithm->info.rids)
		*why = "it sorts keys only";
	else if ((algorithm->info.key_widths & key_width_bit(problem->key_width)) == 0)
		*why = "it does not take keys of this width";
	else
		*why = algorithm->why_not(&ctx->traits, problem);
	if (*why)
		FAIL(GPUSORT_UNSUPPORTED, "%s: %s", algorithm->info.name, *why);
	return GPUSORT_OK;
}

/* gpusort_abi.h documents these two functions, as members of GpusortCudaApi. */
static GpusortStatus
sort_scratch(GpusortContext *ctx, int32_t algorithm, const GpusortProblem *problem,
			 uint64_t *bytes, const char **why, GpusortError *err)
{
	const char *reason;
	GpusortStatus status = check_problem(ctx, algorithm, problem, &reason, err);

	*bytes = 0;
	if (why)
		*why = reason;
	TRY(status);
	TRY(gpusort_enter(ctx, err));	/* CUB asks the current device */
	if (problem->n > 1)			/* sort_run copies a single key itself */
		*bytes = gpusort_algorithms[algorithm]->scratch(&ctx->traits, problem);
	return GPUSORT_OK;
}

/* Sorts a problem of at most one key: copies it. */
static GpusortStatus
copy_single(GpusortStream *stream, const GpusortProblem *problem, GpusortError *err)
{
	if (problem->n == 0)
		return GPUSORT_OK;
	if (wants_keys(problem))
		CUDA_TRY(cudaMemcpyAsync(problem->keys_out, problem->keys, problem->key_width / 8,
								 cudaMemcpyDeviceToDevice, stream->cuda));
	if (wants_rids(problem) && problem->rids)
		CUDA_TRY(cudaMemcpyAsync(problem->rids_out, problem->rids, sizeof(uint32_t),
								 cudaMemcpyDeviceToDevice, stream->cuda));
	if (wants_rids(problem) && !problem->rids)
		CUDA_TRY(cudaMemsetAsync(problem->rids_out, 0, sizeof(uint32_t), stream->cuda));
	return GPUSORT_OK;
}

static GpusortStatus
sort_run(GpusortStream *stream, int32_t algorithm, const GpusortProblem *problem,
		 GpusortResult *result, GpusortError *err)
{
	GpusortResult unwanted;
	SortRun		run;
	const char *why;

	if (!result)
		result = &unwanted;
	memset(result, 0, sizeof(*result));
	TRY(check_problem(stream->ctx, algorithm, problem, &why, err));
	result->stable = gpusort_algorithms[algorithm]->info.stable;
	CUDA_TRY(cudaSetDevice(stream->ctx->traits.device));
	if (problem->n <= 1)
		return copy_single(stream, problem, err);
	if (!problem->keys || (wants_keys(problem) && !problem->keys_out) ||
		(wants_rids(problem) && !problem->rids_out))
		FAIL(GPUSORT_BAD_CALL, "an array of the problem is missing");
	if (problem->scratch_bytes < gpusort_algorithms[algorithm]->scratch(&stream->ctx->traits, problem))
		FAIL(GPUSORT_BAD_CALL, "%llu bytes of scratch are too few",
			 (unsigned long long) problem->scratch_bytes);
	run.problem = problem;
	run.device = &stream->ctx->traits;
	run.stream = stream;
	run.result = result;
	run.err = err;
	return gpusort_algorithms[algorithm]->run(&run);
}

static const GpusortCudaApi api = {
	GPUSORT_ABI_VERSION,
	sizeof(GpusortCudaApi),
	gpusort_devices,
	gpusort_context_create,
	gpusort_context_destroy,
	gpusort_device_alloc,
	gpusort_device_free,
	gpusort_device_trim,
	gpusort_device_memory,
	gpusort_host_alloc,
	gpusort_host_free,
	gpusort_host_register,
	gpusort_host_unregister,
	gpusort_stream_create,
	gpusort_stream_destroy,
	gpusort_stream_poll,
	gpusort_stream_wait,
	gpusort_event_create,
	gpusort_event_destroy,
	gpusort_event_record,
	gpusort_event_poll,
	gpusort_event_wait,
	gpusort_stream_after,
	gpusort_event_elapsed,
	gpusort_copy_in,
	gpusort_copy_out,
	gpusort_copy_within,
	algorithm_info,
	costs,
	sort_scratch,
	sort_run,
	gpusort_groups_scratch,
	gpusort_groups_run,
	gpusort_gather_scratch,
	gpusort_gather_plan,
	gpusort_gather_rows
};

__attribute__((visibility("default"))) const GpusortCudaApi *
gpusort_cuda_api(uint32_t abi_version)
{
	return abi_version == GPUSORT_ABI_VERSION ? &api : NULL;
}
