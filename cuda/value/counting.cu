/*
 * counting.cu
 *	  gpu_counting: counting sort.  Counts the values, computes prefix sums,
 *	  places.
 *
 * Abdel-hafeez, Gordon-Ross, Abubaker, "A comparison-free sorting algorithm on
 * CPUs and GPUs" (2018), section 5.2: count, parallel prefix sum, and each
 * thread emits the values of its range.  Differences:
 *
 *	- Most counters are in shared memory (value_count.cuh), because keys with
 *	  one value contend for its counter.
 *	- A thread emits a range of the output, not of the values, so that a value
 *	  with most of the keys does not fall to one thread (value_emit.cuh).
 *	- With row ids it is a stable counting sort of positions
 *	  (counting_place.cuh), which the paper does not have.
 *
 * Keys without row ids are read once, or twice with pages, and written once.
 * With row ids a pass sorts by up to 8 bits of the value.
 *
 * Memory: without row ids 8 bytes per value, and 2 bytes per key with pages;
 * with row ids 4 to 8 bytes per key and pass.
 *
 * Errors: the status of a failed launch or of cancellation.
 */
#include "value/counting_place.cuh"
#include "prefix_sum.cuh"
#include "value/value_emit.cuh"

#define FINISH_THREADS	256

/* ------------------------------------------------------------------------
 * Keys without row ids
 * ------------------------------------------------------------------------
 */
/* Scratch memory of sort_keys(). */
struct KeysMemory
{
	CountMemory count;
	uint32_t   *counts;			/* histogram, then its prefix sums */
	void	   *sum_scratch;	/* for gpusort_exclusive_sum() */
	uint64_t	sum_bytes;
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static KeysMemory
cut_keys_memory(const CountPlan &plan, void *scratch)
{
	KeysMemory	memory;
	ScratchCutter cutter(scratch);

	memory.counts = cutter.take<uint32_t>(counts_size(plan));
	memory.count = cut_count_memory(&cutter, plan);
	memory.sum_bytes = gpusort_sum_scratch(plan.range);
	memory.sum_scratch = cutter.take<char>(memory.sum_bytes);
	memory.bytes = cutter.used;
	return memory;
}

/* Sorts keys that all bits order: counts them and writes them anew. */
template <class K> static GpusortStatus
sort_keys(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	CountPlan	plan = count_plan(run->device, problem->n, value_range(problem));
	KeysMemory	memory = cut_keys_memory(plan, problem->scratch);
	int			vectors = emit_vectors<K>(run->device, problem->n, plan.range);
	bool		sums;

	TRY(count_values<K>(run, plan, memory.count, memory.counts, &sums));
	if (!sums)
		TRY(gpusort_exclusive_sum(run, memory.sum_scratch, memory.sum_bytes,
								  memory.counts, memory.counts, plan.range));
	LAUNCH(run, emit_kernel<K>, div_up(problem->n, emit_tile<K>(vectors)), EMIT_THREADS, 0,
		   memory.counts, plan.range, (uint32_t) problem->n, value_map<K>(problem).least,
		   static_cast<K *>(problem->keys_out), vectors);
	run->result->passes = plan.method == COUNT_PAGES ? 2 : 1;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Keys with row ids
 * ------------------------------------------------------------------------
 */
/* Number of bits of the greatest value, at least 1. */
static int
value_bits(const GpusortProblem *problem)
{
	uint64_t	last = value_range(problem) - 1;
	int			bits = 1;

	while (last >> bits)
		bits++;
	return bits;
}

/*
 * Scratch memory of sort_rids().  A key's position is its index in the input.
 * Its rest is the part of its value that later passes sort by.
 */
struct RidsMemory
{
	uint32_t   *positions[2];	/* passes alternate; the last one writes [0] */
	void	   *rest[2];		/* written by even and by odd passes */
	uint32_t   *counts;			/* counts[digit * tiles + tile] */
	void	   *sum_scratch;	/* for gpusort_exclusive_sum() */
	uint64_t	sum_bytes;
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static RidsMemory
cut_rids_memory(const GpusortProblem *problem, int passes, void *scratch)
{
	RidsMemory	memory = {};
	ScratchCutter cutter(scratch);

	memory.positions[0] = wants_rids(problem) ? problem->rids_out : cutter.take<uint32_t>(problem->n);
	if (passes > 1)
		memory.positions[1] = cutter.take<uint32_t>(problem->n);
	for (int i = 0; i < passes - 1 && i < 2; i++)
	{
		/*
		 * bits of the value for the passes after i: at most 24, then 16, then 8
		 */
		int			left = passes - 1 - i;

		memory.rest[i] = cutter.take<char>(problem->n * (left == 3 ? 4 : left));
	}
	memory.counts = cutter.take<uint32_t>(div_up(problem->n, PLACE_TILE) * PLACE_MAX_DIGITS);
	memory.sum_bytes = gpusort_sum_scratch(div_up(problem->n, PLACE_TILE) * PLACE_MAX_DIGITS);
	memory.sum_scratch = cutter.take<char>(memory.sum_bytes);
	memory.bytes = cutter.used;
	return memory;
}

/* Writes keys and row ids in sorted order, from the sorted positions. */
template <class K>
__global__ void __launch_bounds__(FINISH_THREADS)
finish_kernel(const uint32_t *positions, uint32_t n, const K *keys, const uint32_t *rids,
			  K *keys_out, uint32_t *rids_out)
{
	uint64_t	i = (uint64_t) blockIdx.x * FINISH_THREADS + threadIdx.x;

	if (i < n)
	{
		uint32_t	from = positions[i];

		if (keys_out)
			keys_out[i] = keys[from];
		if (rids_out && rids)
			rids_out[i] = rids[from];
	}
}

/*
 * Runs one pass: Source reads the values, Rest stores what later passes need.
 */
template <class Source, class Rest, bool FIRST> static GpusortStatus
place(SortRun *run, const RidsMemory &memory, const Source &source, int passes,
	  uint32_t pass, int digit_bits)
{
	uint32_t	left = passes - 1 - pass;
	uint64_t	tiles = div_up(run->problem->n, PLACE_TILE);
	PlaceArgs<Source, Rest> args = {};

	args.source = source;
	args.positions = FIRST ? NULL : memory.positions[(left + 1) % 2];
	args.rest_out = left > 0 ? static_cast<Rest *>(memory.rest[pass % 2]) : NULL;
	args.positions_out = memory.positions[left % 2];
	args.n = (uint32_t) run->problem->n;
	args.digit_bits = digit_bits;
	args.starts = memory.counts;
	LAUNCH(run, count_tile_kernel<Source>, tiles, PLACE_THREADS, 0, source, args.n,
		   (1u << digit_bits) - 1, memory.counts);
	TRY(gpusort_exclusive_sum(run, memory.sum_scratch, memory.sum_bytes, memory.counts,
							  memory.counts, tiles << digit_bits));
	LAUNCH(run, (place_kernel<Source, Rest, FIRST>), tiles, PLACE_THREADS,
		   place_shared<Source>(), args);
	run->result->passes++;
	return GPUSORT_OK;
}

/*
 * Runs a pass after the first; the previous one has stored words of type From.
 */
template <class From, class Rest> static GpusortStatus
place_rest(SortRun *run, const RidsMemory &memory, int passes, uint32_t pass,
		   int digit_bits)
{
	RestSource<From> source = {static_cast<const From *>(memory.rest[(pass - 1) % 2])};

	return place<RestSource<From>, Rest, false>(run, memory, source, passes, pass,
												digit_bits);
}

/* Runs the first pass; Word holds a value, Rest what the second pass needs. */
template <class K, class Word, class Rest> static GpusortStatus
place_keys(SortRun *run, const RidsMemory &memory, int passes, int digit_bits)
{
	KeySource<K, Word> source = {static_cast<const K *>(run->problem->keys),
	value_map<K>(run->problem)};

	return place<KeySource<K, Word>, Rest, true>(run, memory, source, passes, 0,
												 digit_bits);
}

/* Sorts positions by their keys' values, then writes keys and row ids. */
template <class K> static GpusortStatus
sort_rids(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	int			bits = value_bits(problem);
	int			passes = (bits + 7) / 8;
	int			digit_bits = (bits + passes - 1) / passes;
	RidsMemory	memory = cut_rids_memory(problem, passes, problem->scratch);

	switch (passes)
	{
		case 4:
			TRY((place_keys<K, uint32_t, uint32_t>(run, memory, passes, digit_bits)));
			TRY((place_rest<uint32_t, uint16_t>(run, memory, passes, 1, digit_bits)));
			break;
		case 3:
			TRY((place_keys<K, uint32_t, uint16_t>(run, memory, passes, digit_bits)));
			break;
		default:
			TRY((place_keys<K, uint16_t, uint8_t>(run, memory, passes, digit_bits)));
			break;
	}
	if (passes >= 3)
		TRY((place_rest<uint16_t, uint8_t>(run, memory, passes, passes - 2, digit_bits)));
	if (passes >= 2)
		TRY((place_rest<uint8_t, uint8_t>(run, memory, passes, passes - 1, digit_bits)));
	if (wants_keys(problem) || problem->rids)
		LAUNCH(run, finish_kernel<K>, div_up(problem->n, FINISH_THREADS), FINISH_THREADS, 0,
			   memory.positions[0], (uint32_t) problem->n, static_cast<const K *>(problem->keys),
			   problem->rids,
			   wants_keys(problem) ? static_cast<K *>(problem->keys_out) : NULL,
			   wants_rids(problem) ? problem->rids_out : NULL);
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * The algorithm
 * ------------------------------------------------------------------------
 */

/* Can keys be written from counts, without moving them? */
static bool
by_counts(const GpusortProblem *problem)
{
	return !wants_rids(problem) && keys_are_values(problem);
}

static const char *
why_not(const DeviceTraits *device, const GpusortProblem *problem)
{
	const char *why = why_not_by_value(problem);

	if (why)
		return why;
	if ((size_t) device->max_shared < place_shared<KeySource<uint32_t, uint32_t>>() + 20 * 1024)
		return "the device's shared memory is too small";
	return NULL;
}

static uint64_t
scratch(const DeviceTraits *device, const GpusortProblem *problem)
{
	if (by_counts(problem))
		return cut_keys_memory(count_plan(device, problem->n, value_range(problem)), NULL).bytes;
	return cut_rids_memory(problem, (value_bits(problem) + 7) / 8, NULL).bytes;
}

template <class K> static GpusortStatus
run_for(SortRun *run)
{
	return by_counts(run->problem) ? sort_keys<K>(run) : sort_rids<K>(run);
}

static GpusortStatus
run(SortRun *run)
{
	return for_key_width(run->problem->key_width, [&] (auto key)
						 {
							 return run_for<decltype(key)>(run);
						 });
}

const SortAlgorithm gpu_counting_algorithm = {
	{
		"gpu_counting",
		GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128,
		1,
		1
	},
	why_not,
	scratch,
	run
};
