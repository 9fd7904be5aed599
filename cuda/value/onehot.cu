/*
 * onehot.cu
 *	  gpu_onehot: counting sort by a bit matrix, for very small inputs; stable.
 *
 * Abdel-hafeez, Gordon-Ross, Abubaker, "A comparison-free sorting algorithm on
 * CPUs and GPUs" (2018), sections 3 and 5.1: TM[v][i] = 1 if key i has value v;
 * the list of keys multiplied by TM's nonempty rows is the sorted list.  Here
 * the product is a count: the place of key i is the number of bits in the rows
 * above its row plus the number of bits before i in its own row.
 *
 * Memory: n * range bits for the matrix, in the shared memory of the one block.
 * The algorithm takes only problems whose matrix fits.
 *
 * Errors: the status of a failed launch or of cancellation.
 */
#include "value/value_plan.cuh"

#define ONEHOT_THREADS	1024

/* 32-bit words of the matrix and of the rows' starts. */
static uint64_t
onehot_words(const GpusortProblem *problem)
{
	return value_range(problem) * (div_up(problem->n, 32) + 1);
}

/* Sorts n keys; one block. */
template <class K>
__global__ void __launch_bounds__(ONEHOT_THREADS)
onehot_kernel(const K *keys, const uint32_t *rids, uint32_t n, const ValueMap<K> map,
			  K *keys_out, uint32_t *rids_out)
{
	extern __shared__ __align__(16) uint32_t matrix[];
	__shared__ uint32_t room[ONEHOT_THREADS / 32];

	uint32_t	range = map.last + 1;
	uint32_t	width = (n + 31) / 32;
	uint32_t   *row_start = matrix + range * width;
	uint32_t	rows = (range + ONEHOT_THREADS - 1) / ONEHOT_THREADS;
	uint32_t	first = threadIdx.x * rows;
	uint32_t	sum = 0,
				total;

	for (uint32_t i = threadIdx.x; i < range * width; i += ONEHOT_THREADS)
		matrix[i] = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < n; i += ONEHOT_THREADS)
		atomicOr(&matrix[map(keys[i]) * width + i / 32], 1u << i % 32);
	__syncthreads();
	for (uint32_t v = first; v < first + rows && v < range; v++)
	{
		row_start[v] = sum;
		for (uint32_t w = 0; w < width; w++)
			sum += __popc(matrix[v * width + w]);
	}
	sum = block_exclusive_sum<ONEHOT_THREADS>(sum, room, &total);
	for (uint32_t v = first; v < first + rows && v < range; v++)
		row_start[v] += sum;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < n; i += ONEHOT_THREADS)
	{
		K			key = keys[i];
		uint32_t	v = map(key);
		const uint32_t *row = matrix + v * width;
		uint32_t	to = row_start[v] + __popc(row[i / 32] & ((1u << i % 32) - 1));

		for (uint32_t w = 0; w < i / 32; w++)
			to += __popc(row[w]);
		if (keys_out)
			keys_out[to] = key;
		if (rids_out)
			rids_out[to] = rids ? rids[i] : i;
	}
}

static const char *
why_not(const DeviceTraits *device, const GpusortProblem *problem)
{
	const char *why = why_not_by_value(problem);

	if (why)
		return why;
	if (problem->n > GPUSORT_ONEHOT_KEYS || onehot_words(problem) > GPUSORT_ONEHOT_WORDS)
		return "rows times values are too many for one block's shared memory";
	if ((size_t) device->max_shared < GPUSORT_ONEHOT_WORDS * sizeof(uint32_t) + 1024)
		return "the device's shared memory is too small";
	return NULL;
}

static uint64_t
scratch(const DeviceTraits *, const GpusortProblem *)
{
	return 0;
}

template <class K> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortProblem *problem = run->problem;

	LAUNCH(run, onehot_kernel<K>, 1, ONEHOT_THREADS, onehot_words(problem) * sizeof(uint32_t),
		   static_cast<const K *>(problem->keys), problem->rids, (uint32_t) problem->n,
		   value_map<K>(problem), wants_keys(problem) ? static_cast<K *>(problem->keys_out) : NULL,
		   wants_rids(problem) ? problem->rids_out : NULL);
	run->result->passes = 1;
	return GPUSORT_OK;
}

static GpusortStatus
run(SortRun *run)
{
	return run->problem->key_width == 32 ? run_for<uint32_t>(run) :
		run->problem->key_width == 64 ? run_for<uint64_t>(run) : run_for<Key128>(run);
}

const SortAlgorithm gpu_onehot_algorithm = {
	{
		"gpu_onehot",
		GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128,
		1,
		1
	},
	why_not,
	scratch,
	run
};
