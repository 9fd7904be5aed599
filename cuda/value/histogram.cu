/*
 * histogram.cu
 *	  gpu_hp, gpu_hp1, gpu_hp0: sorts by histograms and prefix sums.
 *
 * Kozakai, Fujimoto, Wada, "Efficient GPU-implementation for integer sorting
 * based on histogram and prefix-sums" (2021):
 *
 *	gpu_hp	(Algorithm 2)	A is the histogram of the keys, Ap its prefix sums,
 *							B the histogram of Ap.  The prefix sums of B are
 *							the sorted keys.
 *	gpu_hp1	(Algorithm 3)	For distinct keys: value v goes to place Ap[v - 1]
 *							if Ap[v] differs from Ap[v - 1].
 *	gpu_hp0	(Algorithm 5)	Uses only the values that occur.  iC[j] is the j-th
 *							such value, Cp[j] the place of its first key;
 *							B[Cp[j]] = iC[j] - iC[j - 1], without a second
 *							histogram.
 *
 * Differences: value_count.cuh computes A instead of CUB, whose additions to
 * one counter wait for each other where keys repeat.  Ap is sorted, so that a
 * warp adds once to B for each run of equal sums.  A of distinct keys is a
 * bitmap, 32 times smaller, which fits the L2 cache for most ranges.  One
 * prefix sum both sums up A and counts its nonzero values.  CUB computes the
 * prefix sums.
 *
 * These sorts write keys from their values.  They take keys without row ids, of
 * which all bits order, and are not stable.
 *
 * Memory: 4 bytes per value and 4 per key; gpu_hp0 16 more per value that
 * occurs; gpu_hp1 only 2 bits per value.
 *
 * Errors: the status of a failed launch or of cancellation.
 */
#include "prefix_sum.cuh"
#include "value/value_count.cuh"

#define STEP_THREADS	256		/* threads of a block, in all kernels of this
								 * file */

/* ------------------------------------------------------------------------
 * gpu_hp and gpu_hp0
 * ------------------------------------------------------------------------
 */
/*
 * Scratch memory of gpu_hp and gpu_hp0.  A, B, iC and Cp are the paper's
 * arrays.
 */
struct HistogramMemory
{
	CountMemory count;
	uint32_t   *counts;			/* A */
	uint64_t   *sums;			/* gpu_hp0, by value: number of lesser values
								 * that occur << 32 | number of lesser keys */
	uint32_t   *values;			/* gpu_hp0: iC */
	uint32_t   *starts;			/* gpu_hp0: Cp */
	uint32_t   *steps;			/* B */
	void	   *sum_scratch;	/* for the prefix sums */
	uint64_t	sum_bytes;
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static HistogramMemory
cut_memory(const GpusortProblem *problem, const CountPlan &plan, bool compressed, void *scratch)
{
	HistogramMemory memory = {};
	ScratchCutter cutter(scratch);
	uint64_t	values = plan.range < problem->n ? plan.range : problem->n;

	memory.counts = cutter.take<uint32_t>(counts_size(plan));
	memory.count = cut_count_memory(&cutter, plan);
	if (compressed)
	{
		memory.sums = cutter.take<uint64_t>(plan.range);
		memory.values = cutter.take<uint32_t>(values);
		memory.starts = cutter.take<uint32_t>(values);
	}
	memory.steps = cutter.take<uint32_t>(problem->n);
	memory.sum_bytes = gpusort_sum_scratch(plan.range > problem->n ? plan.range : problem->n);
	memory.sum_scratch = cutter.take<char>(memory.sum_bytes);
	memory.bytes = cutter.used;
	return memory;
}

/*
 * Computes B for gpu_hp: adds 1 to B[before[v]] for each v > 0.  before[v] is
 * the number of keys below v, the paper's Ap[v - 1], and ascends.
 */
static __global__ void __launch_bounds__(STEP_THREADS)
sorted_histogram_kernel(const uint32_t *before, uint32_t range, uint32_t n,
						uint32_t *steps)
{
	uint64_t	v = (uint64_t) blockIdx.x * STEP_THREADS + threadIdx.x + 1;
	int			lane = threadIdx.x % 32;
	uint32_t	place = v < range ? before[v] : UINT32_MAX;
	uint32_t	other = __shfl_up_sync(0xffffffffu, place, 1);
	uint32_t	heads = __ballot_sync(0xffffffffu, lane == 0 || place != other);

	if ((heads >> lane & 1) && place < n)
	{
		uint32_t	behind = lane < 31 ? heads >> (lane + 1) : 0;

		atomicAdd(&steps[place], behind ? __ffs(behind) : 32 - lane);
	}
}

/* Computes iC and Cp for gpu_hp0. */
static __global__ void __launch_bounds__(STEP_THREADS)
compress_kernel(const uint32_t *counts, const uint64_t *sums, uint32_t range,
				uint32_t *values, uint32_t *starts)
{
	uint64_t	v = (uint64_t) blockIdx.x * STEP_THREADS + threadIdx.x;

	if (v < range && counts[v])
	{
		values[sums[v] >> 32] = (uint32_t) v;
		starts[sums[v] >> 32] = (uint32_t) sums[v];
	}
}

/* Computes B for gpu_hp0: B[Cp[j]] = iC[j] - iC[j - 1]. */
static __global__ void __launch_bounds__(STEP_THREADS)
steps_kernel(const uint32_t *counts, const uint64_t *sums, uint32_t range,
			 const uint32_t *values, const uint32_t *starts, uint32_t *steps)
{
	uint32_t	count = (uint32_t) (sums[range - 1] >> 32) + (counts[range - 1] != 0);
	uint64_t	j = (uint64_t) blockIdx.x * STEP_THREADS + threadIdx.x;

	if (j < count)
		steps[starts[j]] = values[j] - (j > 0 ? values[j - 1] : 0);
}

/* Runs gpu_hp, or gpu_hp0 if compressed. */
template <class K> static GpusortStatus
run_histogram(SortRun *run, bool compressed)
{
	const GpusortProblem *problem = run->problem;
	CountPlan	plan = count_plan(run->device, problem->n, value_range(problem));
	HistogramMemory memory = cut_memory(problem, plan, compressed, problem->scratch);
	uint32_t	n = (uint32_t) problem->n;

	bool		sums;

	TRY(count_values<K>(run, plan, memory.count, memory.counts, compressed ? NULL : &sums));
	TRY(clear_device(run, memory.steps, problem->n * sizeof(uint32_t)));
	if (compressed)
	{
		uint32_t	values = plan.range < n ? plan.range : n;

		TRY(gpusort_sum_and_count(run, memory.sum_scratch, memory.sum_bytes,
								  memory.counts, memory.sums, plan.range));
		LAUNCH(run, compress_kernel, div_up(plan.range, STEP_THREADS), STEP_THREADS, 0,
			   memory.counts, memory.sums, plan.range, memory.values, memory.starts);
		LAUNCH(run, steps_kernel, div_up(values, STEP_THREADS), STEP_THREADS, 0,
			   memory.counts, memory.sums, plan.range, memory.values, memory.starts,
			   memory.steps);
	}
	else
	{
		if (!sums)
			TRY(gpusort_exclusive_sum(run, memory.sum_scratch, memory.sum_bytes,
									  memory.counts, memory.counts, plan.range));
		LAUNCH(run, sorted_histogram_kernel, div_up(plan.range, STEP_THREADS),
			   STEP_THREADS, 0, memory.counts, plan.range, n, memory.steps);
	}
	TRY(gpusort_running_key(run, memory.sum_scratch, memory.sum_bytes, memory.steps,
							(uint64_t) value_map<K>(problem).least, problem->keys_out,
							problem->key_width, n));
	run->result->passes = plan.method == COUNT_PAGES ? 3 : 2;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * gpu_hp1
 * ------------------------------------------------------------------------
 */
/* Scratch memory of gpu_hp1. */
struct BitmapMemory
{
	uint32_t   *bitmap;			/* A, a bit per value */
	uint32_t   *starts;			/* Ap of the first value of each word of
								 * bitmap */
	void	   *sum_scratch;	/* for the prefix sums */
	uint64_t	sum_bytes;
	uint64_t	words;			/* words of bitmap */
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static BitmapMemory
cut_bitmap_memory(const GpusortProblem *problem, void *scratch)
{
	BitmapMemory memory;
	ScratchCutter cutter(scratch);

	memory.words = div_up(value_range(problem), 32);
	memory.bitmap = cutter.take<uint32_t>(memory.words);
	memory.starts = cutter.take<uint32_t>(memory.words);
	memory.sum_bytes = gpusort_sum_scratch(memory.words);
	memory.sum_scratch = cutter.take<char>(memory.sum_bytes);
	memory.bytes = cutter.used;
	return memory;
}

/*
 * Sets the bits of all keys' values.  In nearly sorted input the keys of a warp
 * belong to one or two words; lanes with the same word set their bits by one
 * atomic.
 */
template <class K>
__global__ void __launch_bounds__(STEP_THREADS)
set_bits_kernel(const K *keys, uint32_t n, const ValueMap<K> map, uint32_t *bitmap)
{
	uint64_t	i = (uint64_t) blockIdx.x * STEP_THREADS + threadIdx.x;
	uint32_t	v = i < n ? map(keys[i]) : 0;
	uint32_t	bit = i < n ? 1u << v % 32 : 0;
	uint32_t	left = __ballot_sync(0xffffffffu, i < n);

#pragma unroll
	for (int round = 0; round < 2; round++)
	{
		int			leader = __ffs(left | 0x80000000u) - 1;
		uint32_t	word = __shfl_sync(0xffffffffu, v / 32, leader);
		uint32_t	peers = __ballot_sync(0xffffffffu, v / 32 == word) & left;

		if (__popc(peers) >= 4)
		{
			uint32_t	all = peers >> (threadIdx.x % 32) & 1 ? bit : 0;

			for (int lanes = 16; lanes > 0; lanes >>= 1)
				all |= __shfl_xor_sync(0xffffffffu, all, lanes);
			if ((int) threadIdx.x % 32 == leader)
				atomicOr(&bitmap[word], all);
			left &= ~peers;
		}
	}
	if (left >> (threadIdx.x % 32) & 1)
		atomicOr(&bitmap[v / 32], bit);
}

/*
 * Writes the values of the set bits in order; a block takes STEP_THREADS words.
 */
template <class K>
__global__ void __launch_bounds__(STEP_THREADS)
emit_bits_kernel(const uint32_t *bitmap, const uint32_t *starts, uint64_t words, K least,
				 K *out)
{
	__shared__ uint16_t values[STEP_THREADS * 32];	/* value less the block's
													 * first */
	__shared__ uint32_t end;

	uint64_t	first = (uint64_t) blockIdx.x * STEP_THREADS;
	uint64_t	w = first + threadIdx.x;
	uint32_t	start = starts[first];
	uint32_t	bits = w < words ? bitmap[w] : 0;
	uint32_t	to = w < words ? starts[w] - start : 0;

	if (w + 1 == words || (w < words && threadIdx.x == STEP_THREADS - 1))
		end = to + __popc(bits);
	while (bits)
	{
		values[to++] = (uint16_t) (threadIdx.x * 32 + __ffs(bits) - 1);
		bits &= bits - 1;
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < end; i += STEP_THREADS)
		out[start + i] = least + (uint32_t) (first * 32) + values[i];
}

/* Runs gpu_hp1. */
template <class K> static GpusortStatus
run_bitmap(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	BitmapMemory memory = cut_bitmap_memory(problem, problem->scratch);
	ValueMap<K> map = value_map<K>(problem);

	TRY(clear_device(run, memory.bitmap, memory.words * sizeof(uint32_t)));
	LAUNCH(run, set_bits_kernel<K>, div_up(problem->n, STEP_THREADS), STEP_THREADS, 0,
		   static_cast<const K *>(problem->keys), (uint32_t) problem->n, map, memory.bitmap);
	TRY(gpusort_sum_bits(run, memory.sum_scratch, memory.sum_bytes, memory.bitmap,
						 memory.starts, memory.words));
	LAUNCH(run, emit_bits_kernel<K>, div_up(memory.words, STEP_THREADS), STEP_THREADS, 0,
		   memory.bitmap, memory.starts, memory.words, map.least,
		   static_cast<K *>(problem->keys_out));
	run->result->passes = 1;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * The algorithms
 * ------------------------------------------------------------------------
 */
static const char *
why_not_hp(const DeviceTraits *device, const GpusortProblem *problem)
{
	if (!keys_are_values(problem))
		return "it makes keys from their values: all their bits must order";
	if ((size_t) device->max_shared < sizeof(ScatterShared))
		return "the device's shared memory is too small";
	return why_not_by_value(problem);
}

static const char *
why_not_hp1(const DeviceTraits *device, const GpusortProblem *problem)
{
	if (!(problem->facts & GPUSORT_FACT_DISTINCT_KEYS))
		return "the keys are not known to be distinct";
	return why_not_hp(device, problem);
}

static uint64_t
scratch_hp(const DeviceTraits *device, const GpusortProblem *problem)
{
	return cut_memory(problem, count_plan(device, problem->n, value_range(problem)), false, NULL).bytes;
}

static uint64_t
scratch_hp0(const DeviceTraits *device, const GpusortProblem *problem)
{
	return cut_memory(problem, count_plan(device, problem->n, value_range(problem)), true, NULL).bytes;
}

static uint64_t
scratch_hp1(const DeviceTraits *, const GpusortProblem *problem)
{
	return cut_bitmap_memory(problem, NULL).bytes;
}

static GpusortStatus
run_hp(SortRun *run)
{
	return run->problem->key_width == 32 ? run_histogram<uint32_t>(run, false)
		: run_histogram<uint64_t>(run, false);
}

static GpusortStatus
run_hp0(SortRun *run)
{
	return run->problem->key_width == 32 ? run_histogram<uint32_t>(run, true)
		: run_histogram<uint64_t>(run, true);
}

static GpusortStatus
run_hp1(SortRun *run)
{
	return run->problem->key_width == 32 ? run_bitmap<uint32_t>(run)
		: run_bitmap<uint64_t>(run);
}

#define HP_WIDTHS	(GPUSORT_KEYS_32 | GPUSORT_KEYS_64)

const SortAlgorithm gpu_hp_algorithm = {
	{"gpu_hp", HP_WIDTHS, 0, 0},
	why_not_hp,
	scratch_hp,
	run_hp
};

const SortAlgorithm gpu_hp1_algorithm = {
	{"gpu_hp1", HP_WIDTHS, 0, 0},
	why_not_hp1,
	scratch_hp1,
	run_hp1
};

const SortAlgorithm gpu_hp0_algorithm = {
	{"gpu_hp0", HP_WIDTHS, 0, 0},
	why_not_hp,
	scratch_hp0,
	run_hp0
};
