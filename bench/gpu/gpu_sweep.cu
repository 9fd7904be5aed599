/*
 * gpu_sweep.cu
 *	  The GPU sorts and CUB's over sizes and distributions.
 *
 * Inputs are made and outputs checked on the device; bench/kernels does both on
 * the host, which takes minutes at 2^28.  The check: every rid occurs once (by a
 * sum over hashes of the rids), and neighbours are in order, equal keys by rid.
 * Times are medians by events, with keys and rids in device memory.  Input rids
 * are implied by position, and only rids are output; CUB reads an array of
 * positions and also writes keys.
 *
 * usage: gpu_sweep [N[,...] [DISTRIBUTION[,...] [ALGORITHM[,...] [KEY_BITS[,...]]]]]
 *
 * N up to 32 is a power of two: 20 means 2^20.  Each case is a line of CSV.  A list
 * may be "all".  CUB's algorithms are "cub_radix" and "cub_merge"; their arrays are
 * allocated only if one of them is listed.
 */
#include <algorithm>
#include <vector>

#include "bench/gpu/gpu_inputs.cuh"

#define REPETITIONS	7
#define BLOCKS		1024
#define THREADS		256

template <class K> __global__ static void
fill_kernel(int distribution, K *keys, uint32_t *positions, uint64_t n)
{
	for (uint64_t i = (uint64_t) blockIdx.x * THREADS + threadIdx.x; i < n;
		 i += BLOCKS * THREADS)
	{
		keys[i] = (K) sweep_key(distribution, 8 * sizeof(K), i, n);
		if (positions)
			positions[i] = (uint32_t) i;
	}
}

struct Verdict
{
	unsigned long long wrong;	/* neighbours out of order, and rids out of range */
	unsigned long long found;	/* sum of hashes of the output rids */
	unsigned long long wanted;	/* sum of hashes of the input rids */
};

template <class K> __global__ static void
check_kernel(const K *keys, const uint32_t *rids, uint64_t n, Verdict *verdict)
{
	Verdict		mine = {0, 0, 0};

	for (uint64_t i = (uint64_t) blockIdx.x * THREADS + threadIdx.x; i < n;
		 i += BLOCKS * THREADS)
	{
		uint32_t	rid = rids[i];
		uint32_t	next = i + 1 < n ? rids[i + 1] : rid;

		mine.found += mix(rid);
		mine.wanted += mix(i);
		if (rid >= n || next >= n)
			mine.wrong++;
		else if (i + 1 < n)
			mine.wrong += keys[next] < keys[rid] || (keys[next] == keys[rid] && next <= rid);
	}
	atomicAdd(&verdict->wrong, mine.wrong);
	atomicAdd(&verdict->found, mine.found);
	atomicAdd(&verdict->wanted, mine.wanted);
}

/* ------------------------------------------------------------------------
 * Runs
 * ------------------------------------------------------------------------
 */
template <class K> struct Arrays
{
	uint64_t	n;
	K		   *keys;
	uint32_t   *positions;
	K		   *keys_out;
	uint32_t   *rids_out;
	Verdict    *verdict;
};

template <class K> static void
report(const char *name, const char *distribution, const Arrays<K> &a,
	   std::vector<double> us)
{
	Verdict		verdict = {};

	CUDA_MUST(cudaMemset(a.verdict, 0, sizeof(Verdict)));
	check_kernel<K><<<BLOCKS, THREADS>>>(a.keys, a.rids_out, a.n, a.verdict);
	CUDA_MUST(cudaMemcpy(&verdict, a.verdict, sizeof(Verdict), cudaMemcpyDeviceToHost));
	std::sort(us.begin(), us.end());
	printf("%s,%d,32,%llu,%s,%.1f,%.2f,%s\n", name, (int) sizeof(K) * 8,
		   (unsigned long long) a.n, distribution, us[us.size() / 2],
		   a.n / us[us.size() / 2] / 1e3,
		   verdict.wrong == 0 && verdict.found == verdict.wanted ? "yes" : "NO");
	fflush(stdout);
}

template <class K> static void
run_library(int algorithm, const char *distribution, const Arrays<K> &a)
{
	GpusortProblem problem = {};
	GpusortError err = {};
	uint64_t	bytes;
	GpusortEvent *begin,
			   *end;
	std::vector<double> us;

	problem.n = a.n;
	problem.key_width = sizeof(K) * 8;
	problem.end_bit = problem.key_width;
	problem.output = GPUSORT_OUT_RIDS;
	if (api->sort_scratch(ctx, algorithm, &problem, &bytes, NULL, &err) != GPUSORT_OK)
		return;
	problem.keys = a.keys;
	problem.rids_out = a.rids_out;
	problem.scratch = device_memory(bytes);
	problem.scratch_bytes = bytes;
	MUST(api->event_create(ctx, &begin, &must_err));
	MUST(api->event_create(ctx, &end, &must_err));
	CUDA_MUST(cudaMemset(a.rids_out, 0xa5, a.n * 4));
	CUDA_MUST(cudaDeviceSynchronize());
	for (int i = 0; i <= REPETITIONS; i++)
	{
		double		t;

		MUST(api->event_record(begin, stream, &must_err));
		MUST(api->sort_run(stream, algorithm, &problem, NULL, &must_err));
		MUST(api->event_record(end, stream, &must_err));
		MUST(api->stream_wait(stream, &must_err));
		MUST(api->event_elapsed(begin, end, &t, &must_err));
		if (i > 0)
			us.push_back(t);
	}
	report(api->algorithm(algorithm)->name, distribution, a, us);
	api->event_destroy(begin);
	api->event_destroy(end);
	api->device_free(ctx, problem.scratch);
}

template <class K> static void
run_cub(bool merge, const char *distribution, const Arrays<K> &a)
{
	size_t		bytes = 0;
	void	   *temp = NULL;
	cudaEvent_t begin,
				end;
	std::vector<double> us;

	CUDA_MUST(cudaEventCreate(&begin));
	CUDA_MUST(cudaEventCreate(&end));
	for (int i = -1; i <= REPETITIONS; i++)
	{
		float		ms;

		if (merge && temp)
		{
			CUDA_MUST(cudaMemcpyAsync(a.keys_out, a.keys, a.n * sizeof(K),
									  cudaMemcpyDeviceToDevice));
			CUDA_MUST(cudaMemcpyAsync(a.rids_out, a.positions, a.n * 4,
									  cudaMemcpyDeviceToDevice));
		}
		CUDA_MUST(cudaEventRecord(begin));
		if (merge)
			CUDA_MUST(cub::DeviceMergeSort::StableSortPairs(temp, bytes, a.keys_out,
															a.rids_out, a.n, Less()));
		else
			CUDA_MUST(cub::DeviceRadixSort::SortPairs(temp, bytes, a.keys, a.keys_out,
													  a.positions, a.rids_out, a.n));
		CUDA_MUST(cudaEventRecord(end));
		CUDA_MUST(cudaEventSynchronize(end));
		CUDA_MUST(cudaEventElapsedTime(&ms, begin, end));
		if (!temp)
			temp = device_memory(bytes);
		else if (i > 0)
			us.push_back(ms * 1e3);
	}
	report(merge ? "cub_merge" : "cub_radix", distribution, a, us);
	CUDA_MUST(cudaEventDestroy(begin));
	CUDA_MUST(cudaEventDestroy(end));
	api->device_free(ctx, temp);
}

/* Is name in the comma-separated list? */
static bool
listed(const char *list, const char *name)
{
	size_t		length = strlen(name);

	if (strcmp(list, "all") == 0)
		return true;
	for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
		if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
			return true;
	return false;
}

template <class K> static void
sweep(uint64_t n, const char *distributions, const char *algorithms)
{
	bool		cub = listed(algorithms, "cub_radix") || listed(algorithms, "cub_merge");
	Arrays<K>	a = {};

	a.n = n;
	a.keys = (K *) device_memory(n * sizeof(K));
	if (cub)
	{
		a.keys_out = (K *) device_memory(n * sizeof(K));
		a.positions = (uint32_t *) device_memory(n * 4);
	}
	a.rids_out = (uint32_t *) device_memory(n * 4);
	a.verdict = (Verdict *) device_memory(sizeof(Verdict));
	for (int d = 0; d < SWEEP_DISTRIBUTIONS; d++)
	{
		if (!listed(distributions, distribution_name(d)))
			continue;
		fill_kernel<K><<<BLOCKS, THREADS>>>(d, a.keys, a.positions, n);
		CUDA_MUST(cudaDeviceSynchronize());
		for (int i = 0; api->algorithm(i); i++)
			if (api->algorithm(i)->stable && api->algorithm(i)->rids &&
				listed(algorithms, api->algorithm(i)->name))
				run_library<K>(i, distribution_name(d), a);
		if (listed(algorithms, "cub_radix"))
			run_cub<K>(false, distribution_name(d), a);
		if (listed(algorithms, "cub_merge"))
			run_cub<K>(true, distribution_name(d), a);
	}
	api->device_free(ctx, a.keys);
	api->device_free(ctx, a.keys_out);
	api->device_free(ctx, a.positions);
	api->device_free(ctx, a.rids_out);
	api->device_free(ctx, a.verdict);
	api->device_trim(ctx);
}

int
main(int argc, char **argv)
{
	const char *sizes = argc > 1 ? argv[1] : "16,20,24";
	const char *distributions = argc > 2 ? argv[2] : "uniform";
	const char *algorithms = argc > 3 ? argv[3] : "all";
	const char *widths = argc > 4 ? argv[4] : "all";

	if (!open_library())
		return 0;
	printf("algorithm,key_bits,rid_bits,n,distribution,us,g_per_s,verified\n");
	for (const char *at = sizes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
	{
		uint64_t	n = strtoull(at, NULL, 10);

		if (n <= 32)
			n = UINT64_C(1) << n;
		if (listed(widths, "32"))
			sweep<uint32_t>(n, distributions, algorithms);
		if (listed(widths, "64"))
			sweep<uint64_t>(n, distributions, algorithms);
		if (listed(widths, "128"))
			sweep<Key128>(n, distributions, algorithms);
	}
	api->context_destroy(ctx);
	return 0;
}
