/*
 * gpu_ranges.cu
 *	  Benchmark of the GPU's counting sorts and merge sort against CUB.
 *
 * usage: gpu_ranges [keys] [rids] [kozakai] [linear] [merge] [profile]
 *
 * Inputs are made and outputs checked on the device; bench/kernels does both on
 * the host, which takes minutes for 2^28 keys.  As there, keys and rids are in
 * device memory, rids are positions, every algorithm gets the key bits that vary,
 * and times are medians in the same CSV format.  The distribution's name is
 * followed by the number of values that keys can have.
 */
#include <algorithm>
#include <vector>

#include "bench/gpu/gpu_inputs.cuh"

#define REPETITIONS		9
#define WARM_UP			2
#define THREADS			256

static GpusortEvent *events[2];
static cudaEvent_t cuda_events[2];
static bool failed;

enum Distribution
{
	UNIFORM, EQUAL, REPEATED70, ZIPF, SORTED, REVERSED, NEARLY_SORTED, INTERVAL, DISTINCT,
	GAUSSIAN
};

static const char *const names[] = {
	"uniform", "repeated100", "repeated70", "zipf", "sorted", "reversed", "nearly_sorted",
	"interval", "distinct", "gaussian"
};

/* A hash of v, below range; of 64 bits if range is 0. */
__device__ static uint64_t
scale(uint64_t v, uint64_t range)
{
	return range ? __umul64hi(v, range) : v;
}

template <class K> __device__ static K
key_of(uint64_t i, uint64_t n, Distribution distribution, uint64_t range)
{
	uint64_t	v = mix(i);
	uint64_t	step = range ? range : ~UINT64_C(0);
	uint64_t	place = i;

	switch (distribution)
	{
		case EQUAL:
			v = mix(42);
			break;
		case REPEATED70:
			if (mix(v) % 10 < 7)
				v = mix(42);
			break;
		case ZIPF:
			v = mix((uint64_t) exp((double) (v >> 11) * 0x1p-53 *
								   log((double) (range ? range : n) + 1)));
			break;
		case GAUSSIAN:
			v = (v >> 2) + (mix(v) >> 2) / 2 + (mix(~v) >> 2) / 2 + (mix(v ^ 99) >> 2);
			break;
		case INTERVAL:
			return (K) (range - 1 - scale(v, range / 100 + 1));
		case DISTINCT:			/* n is a power of two or range prime to the factor */
			return (K) (unsigned __int128) ((unsigned __int128) i * 1000003 % range);
		case NEARLY_SORTED:
			place = i % 64 == v / 64 % 32 ? i + 17 : i;	/* every displaced key is 17 positions too far up */
			/* fall through */
		case SORTED:
			v = (uint64_t) ((unsigned __int128) place * step / (n + 17));
			return sizeof(K) == 16 ? (K) v << 64 % (8 * sizeof(K)) : sizeof(K) == 4 &&
				!range ? (K) (v >> 32) : (K) v;
		case REVERSED:
			v = (uint64_t) ((unsigned __int128) (n - 1 - i) * step / n);
			return sizeof(K) == 16 ? (K) v << 64 % (8 * sizeof(K)) : sizeof(K) == 4 &&
				!range ? (K) (v >> 32) : (K) v;
		default:
			break;
	}
	if (range)
		return (K) scale(v, range);
	return sizeof(K) == 16 ? (K) v << 64 % (8 * sizeof(K)) | mix(v) : (K) (v >> (64 - 8 * (sizeof(K) == 4 ? 4 : 8)));
}

template <class K> __global__ void
fill_kernel(K *keys, uint32_t *positions, uint64_t n, Distribution distribution,
			uint64_t range)
{
	for (uint64_t i = (uint64_t) blockIdx.x * THREADS + threadIdx.x; i < n;
		 i += (uint64_t) gridDim.x * THREADS)
	{
		keys[i] = key_of<K>(i, n, distribution, range);
		positions[i] = (uint32_t) i;
	}
}

/* found[0]: faults; found[1], found[2]: checksums of inputs and outputs. */
template <class K> __global__ void
check_kernel(const K *keys, const K *keys_out, const uint32_t *rids_out, uint64_t n,
			 unsigned long long *found)
{
	unsigned long long faults = 0,
				in = 0,
				out = 0;

	for (uint64_t i = (uint64_t) blockIdx.x * THREADS + threadIdx.x; i < n;
		 i += (uint64_t) gridDim.x * THREADS)
	{
		if (rids_out)
		{
			uint32_t	rid = rids_out[i];
			uint32_t	next = i + 1 < n ? rids_out[i + 1] : rid;

			in += mix(i);
			out += mix(rid);
			if (rid >= n || next >= n)
				faults++;
			else if (i + 1 < n && (keys[next] < keys[rid] ||
								   (keys[next] == keys[rid] && next <= rid)))
				faults++;
		}
		else
		{
			in += mix((uint64_t) keys[i]);
			out += mix((uint64_t) keys_out[i]);
			if (i + 1 < n && keys_out[i + 1] < keys_out[i])
				faults++;
		}
	}
	atomicAdd(&found[0], faults);
	atomicAdd(&found[1], in);
	atomicAdd(&found[2], out);
}

template <class K> struct Case
{
	uint64_t	n;
	Distribution distribution;
	uint64_t	range;			/* 0: the whole key */
	bool		rids;
	K		   *keys;
	K		   *keys_out;
	uint32_t   *positions;
	uint32_t   *rids_out;
};

template <class K> static int
varying_bits(const Case<K> &c)
{
	int			bits = 1;

	if (c.range == 0)
		return (int) sizeof(K) * 8;
	while ((c.range - 1) >> bits)
		bits++;
	return bits;
}

/* Device microseconds of one run; negative if the algorithm refuses the case. */
template <class K> static double
run_cub(const Case<K> &c, bool merge)
{
	size_t		bytes = 0;
	void	   *scratch = NULL;
	float		ms = 0;

	for (int round = 0; round < 2; round++)
	{
		if (merge && round == 1)
		{
			CUDA_MUST(cudaMemcpyAsync(c.keys_out, c.keys, c.n * sizeof(K),
									  cudaMemcpyDeviceToDevice, 0));
			CUDA_MUST(cudaMemcpyAsync(c.rids_out, c.positions, c.n * 4,
									  cudaMemcpyDeviceToDevice, 0));
		}
		CUDA_MUST(cudaEventRecord(cuda_events[0], 0));
		if (merge)
			CUDA_MUST(cub::DeviceMergeSort::StableSortPairs(scratch, bytes, c.keys_out,
															c.rids_out, c.n, Less()));
		else if (c.rids)
			CUDA_MUST(cub::DeviceRadixSort::SortPairs(scratch, bytes, c.keys, c.keys_out,
													  c.positions, c.rids_out, c.n, 0,
													  varying_bits(c)));
		else
			CUDA_MUST(cub::DeviceRadixSort::SortKeys(scratch, bytes, c.keys, c.keys_out,
													 c.n, 0, varying_bits(c)));
		CUDA_MUST(cudaEventRecord(cuda_events[1], 0));
		if (round == 0)
			scratch = device_memory(bytes);
	}
	CUDA_MUST(cudaDeviceSynchronize());
	CUDA_MUST(cudaEventElapsedTime(&ms, cuda_events[0], cuda_events[1]));
	api->device_free(ctx, scratch);
	return ms * 1e3;
}

template <class K> static double
run_library(const Case<K> &c, const char *name)
{
	GpusortProblem problem = {};
	GpusortError err = {};
	int			a = 0;
	uint64_t	bytes;
	double		us;

	while (api->algorithm(a) && strcmp(api->algorithm(a)->name, name) != 0)
		a++;
	problem.n = c.n;
	problem.key_width = (int) sizeof(K) * 8;
	problem.output = c.rids ? GPUSORT_OUT_RIDS : GPUSORT_OUT_KEYS;

	/* keys can be rebuilt from values only if all their bits are sorted on */
	problem.end_bit = c.rids ? varying_bits(c) : problem.key_width;
	if (c.range)
	{
		problem.facts = GPUSORT_FACT_KEY_RANGE;
		problem.key_max.lo = c.range - 1;
	}
	if (c.distribution == DISTINCT)
		problem.facts |= GPUSORT_FACT_DISTINCT_KEYS;
	if (api->sort_scratch(ctx, a, &problem, &bytes, NULL, &err) != GPUSORT_OK)
		return -1;
	problem.keys = c.keys;
	problem.keys_out = c.keys_out;
	problem.rids_out = c.rids_out;
	problem.scratch = device_memory(bytes);
	problem.scratch_bytes = bytes;
	MUST(api->event_record(events[0], stream, &must_err));
	MUST(api->sort_run(stream, a, &problem, NULL, &must_err));
	MUST(api->event_record(events[1], stream, &must_err));
	MUST(api->stream_wait(stream, &must_err));
	MUST(api->event_elapsed(events[0], events[1], &us, &must_err));
	api->device_free(ctx, problem.scratch);
	return us;
}

template <class K> static void
measure(const Case<K> &c, const char *name)
{
	static unsigned long long *found;
	unsigned long long host[3] = {};
	std::vector<double> times;
	bool		merge = strcmp(name, "cub_merge") == 0;
	bool		cub = merge || strcmp(name, "cub_radix") == 0;
	double		us = 0;

	if (!found)
		found = (unsigned long long *) device_memory(sizeof(host));
	for (int i = 0; i < WARM_UP + REPETITIONS && us >= 0; i++)
	{
		CUDA_MUST(cudaMemset(c.keys_out, 0xa5, c.n * sizeof(K)));
		CUDA_MUST(cudaMemset(c.rids_out, 0xa5, c.n * 4));
		CUDA_MUST(cudaDeviceSynchronize());
		us = cub ? run_cub(c, merge) : run_library(c, name);
		if (i >= WARM_UP)
			times.push_back(us);
	}
	if (us >= 0)
	{
		CUDA_MUST(cudaMemset(found, 0, sizeof(host)));
		check_kernel<K><<<1024, THREADS>>>(c.keys, c.keys_out, c.rids ? c.rids_out : NULL,
										   c.n, found);
		CUDA_MUST(cudaMemcpy(host, found, sizeof(host), cudaMemcpyDeviceToHost));
	}
	printf("%s,%d,%d,%llu,%s_%llu,1,", name, (int) sizeof(K) * 8, c.rids ? 32 : 0,
		   (unsigned long long) c.n, names[c.distribution], (unsigned long long) c.range);
	if (us < 0)
		printf(",does not take it\n");
	else
	{
		bool		right = host[0] == 0 && host[1] == host[2];

		std::sort(times.begin(), times.end());
		us = times[times.size() / 2];
		printf("%.5f,%s,%.1f G/s,%.1f us\n", us * 1e3 / c.n, right ? "yes" : "no",
			   c.n / us * 1e-3, us);
		failed = failed || !right;
	}
}

template <class K> static void
compare(uint64_t n, Distribution distribution, uint64_t range, bool rids,
		std::vector<const char *> algorithms)
{
	Case<K>		c;

	c.n = n;
	c.distribution = distribution;
	c.range = range;
	c.rids = rids;
	c.keys = (K *) device_memory(n * sizeof(K));
	c.keys_out = (K *) device_memory(n * sizeof(K));
	c.positions = (uint32_t *) device_memory(n * 4);
	c.rids_out = (uint32_t *) device_memory(n * 4);
	fill_kernel<K><<<4096, THREADS>>>(c.keys, c.positions, n, distribution, range);
	CUDA_MUST(cudaDeviceSynchronize());
	for (const char *name : algorithms)
		measure(c, name);
	api->device_free(ctx, c.keys);
	api->device_free(ctx, c.keys_out);
	api->device_free(ctx, c.positions);
	api->device_free(ctx, c.rids_out);
}

/* Keys without rids, in a range that is much smaller than n. */
static void
group_keys(void)
{
	for (int bits = 20; bits <= 28; bits += 2)
		compare<uint32_t>(1u << bits, UNIFORM, (1u << bits) / 50, false,
						  {"gpu_counting", "gpu_hp", "gpu_hp0", "cub_radix"});
	for (int bits = 20; bits <= 28; bits += 4)
	{
		for (int d = EQUAL; d <= SORTED; d++)
			compare<uint32_t>(1u << bits, (Distribution) d, (1u << bits) / 50, false,
							  {"gpu_counting", "cub_radix"});
		compare<uint32_t>(1u << bits, UNIFORM, 256, false, {"gpu_counting", "cub_radix"});
		compare<uint32_t>(1u << bits, UNIFORM, 65536, false, {"gpu_counting", "cub_radix"});
		compare<uint32_t>(1u << bits, UNIFORM, (1u << bits), false,
						  {"gpu_counting", "cub_radix"});
	}
}

static void
group_rids(void)
{
	for (int bits = 16; bits <= 28; bits += 4)
		for (uint64_t range = 256; range <= 65536; range *= 16)
			compare<uint32_t>(1u << bits, UNIFORM, range, true,
							  {"gpu_counting", "gpu_radix", "cub_radix"});
	for (int d = EQUAL; d <= SORTED; d++)
		compare<uint32_t>(1u << 26, (Distribution) d, 65536, true,
						  {"gpu_counting", "cub_radix"});
	compare<uint32_t>(1u << 26, UNIFORM, 1u << 24, true, {"gpu_counting", "cub_radix"});
	compare<uint64_t>(1u << 26, UNIFORM, 65536, true, {"gpu_counting", "cub_radix"});
}

/* Kozakai's figures 8, 12, 13, 19, 22. */
static void
group_kozakai(void)
{
	static const uint64_t few[] = {100000, 300000, 1000000};
	static const uint64_t many[] = {1000000, 3000000, 10000000};

	for (uint64_t n : few)
	{
		compare<uint32_t>(n, DISTINCT, n, false,
						  {"gpu_hp1", "gpu_hp", "gpu_hp0", "gpu_counting", "cub_radix"});
		compare<uint32_t>(n, DISTINCT, 4 * n + 1, false, {"gpu_hp1", "gpu_counting", "cub_radix"});
	}
	for (uint64_t n : many)
	{
		compare<uint32_t>(n, UNIFORM, n / 50, false,
						  {"gpu_hp", "gpu_hp0", "gpu_counting", "cub_radix"});
		compare<uint32_t>(n, UNIFORM, n, false,
						  {"gpu_hp", "gpu_hp0", "gpu_counting", "cub_radix"});
		compare<uint32_t>(n, INTERVAL, n / 50, false,
						  {"gpu_hp", "gpu_hp0", "gpu_counting", "cub_radix"});
		compare<uint32_t>(n, INTERVAL, n, false,
						  {"gpu_hp", "gpu_hp0", "gpu_counting", "cub_radix"});
	}
	compare<uint32_t>(1u << 26, DISTINCT, 1u << 26, false,
					  {"gpu_hp1", "gpu_counting", "cub_radix"});
}

/* Abdel-hafeez claims linear time for every distribution; range n. */
static void
group_linear(void)
{
	static const Distribution distributions[] = {
		GAUSSIAN, REVERSED, NEARLY_SORTED, DISTINCT, REPEATED70, EQUAL
	};

	for (int bits = 7; bits <= 28; bits += 3)
		for (Distribution d : distributions)
			compare<uint32_t>(1u << bits, d, 1u << bits, false,
							  {"gpu_counting", "cub_radix"});
	for (int bits = 7; bits <= 12; bits++)
		compare<uint32_t>(1u << bits, UNIFORM, 128, true,
						  {"gpu_onehot", "gpu_counting", "gpu_radix", "cub_radix"});
}

template <class K> static void
merge_sizes(void)
{
	for (int bits = 14; bits <= (sizeof(K) == 16 ? 26 : 28); bits += 2)
		compare<K>(1u << bits, UNIFORM, 0, true, {"gpu_merge", "cub_merge", "cub_radix"});
	for (int d = EQUAL; d <= NEARLY_SORTED; d++)
		if (d != ZIPF)
			compare<K>(1u << 24, (Distribution) d, 0, true,
					   {"gpu_merge", "gpu_bucket", "cub_merge", "cub_radix"});
}

static void
group_merge(void)
{
	merge_sizes<uint32_t>();
	merge_sizes<uint64_t>();
	merge_sizes<Key128>();
}

/* For a profiler: one run of each kernel is enough. */
static void
group_profile(void)
{
	compare<uint32_t>(1u << 26, UNIFORM, (1u << 26) / 50, false, {"gpu_counting"});
	compare<uint32_t>(1u << 26, UNIFORM, 65536, false, {"gpu_counting"});
	compare<uint32_t>(1u << 26, UNIFORM, 65536, true, {"gpu_counting"});
	compare<uint64_t>(1u << 24, UNIFORM, 0, true, {"gpu_merge"});
}

int
main(int argc, char **argv)
{
	static const struct
	{
		const char *name;
		void		(*run) (void);
	}			groups[] = {
		{"keys", group_keys}, {"rids", group_rids}, {"kozakai", group_kozakai},
		{"linear", group_linear}, {"merge", group_merge}, {"profile", group_profile}
	};

	if (!open_library())
		return 0;
	for (int i = 0; i < 2; i++)
	{
		MUST(api->event_create(ctx, &events[i], &must_err));
		CUDA_MUST(cudaEventCreate(&cuda_events[i]));
	}
	printf("algorithm,key_bits,rid_bits,n,distribution,threads,ns_per_element,verified\n");
	for (const auto &group : groups)
	{
		bool		wanted = argc == 1 && group.run != group_profile;

		for (int i = 1; i < argc; i++)
			wanted = wanted || strcmp(argv[i], group.name) == 0;
		if (wanted)
			group.run();
	}
	return failed ? 1 : 0;
}
