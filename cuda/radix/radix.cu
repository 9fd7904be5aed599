/*
 * radix.cu
 *	  gpu_radix: least significant digit radix sort, eight bits per pass,
 *	  stable.
 *
 * Satish et al. (2010, section 4.4) and Pirjan and Petrosanu (2012) sort tiles
 * by four one-bit splits and launch four kernels per pass: sort, count, sum,
 * copy.  Here a pass is one launch (radix_pass.cuh), and one reading of the
 * keys counts all digits beforehand.  A pass moves every key, whatever its
 * digit decides.  Two kinds of passes are therefore left out:
 *
 *	* passes of digits that are equal in all keys;
 *	* passes of the lowest digits, if a sample shows that the leading digits
 *	  distinguish nearly all keys.  A fix-up pass then orders the few keys
 *	  with equal leading digits (radix_lead.cuh).  If it cannot order all of
 *	  them, the keys are sorted once more by all digits.
 *
 * The time depends on the digits in which keys differ, and not on their
 * distribution otherwise.
 *
 * The first pass reads no rids if the problem has none.  The last pass writes
 * no keys if neither the caller nor the fix-up pass needs them.
 *
 * Memory: scratch for one more copy of the keys and rids, for another copy of
 * the keys if they are not an output, and 2 KiB per tile of at most 8192 keys.
 *
 * Errors: the status of a failed launch or of cancellation.
 */
#include "radix/radix_lead.cuh"

/* Bytes of the kernels' static shared memory, beside the dynamic. */
#define RESERVED_SHARED		(18 * 1024)

/*
 * The scratch memory of a run, and the arrays that the passes alternate
 * between.
 */
template <class K> struct RadixMemory
{
	K		   *keys[2];		/* 0: sorted keys, may be the input; 1:
								 * scratch */
	uint32_t   *rids[2];		/* 0: rids_out; 1: scratch; NULL without rids */
	RadixState *state;
	unsigned long long *tiles;	/* words of the look-back, RADIX_DIGITS per
								 * tile */
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
template <class K> static RadixMemory<K>
cut_memory(const GpusortProblem *problem, void *scratch)
{
	RadixMemory<K> memory;
	ScratchCutter cutter(scratch);
	uint64_t	tiles = div_up(problem->n, radix_tile<K>());

	memory.keys[1] = cutter.take<K>(problem->n);
	memory.rids[1] = wants_rids(problem) ? cutter.take<uint32_t>(problem->n) : NULL;
	memory.keys[0] = take_sorted_keys<K>(problem, &cutter);
	memory.rids[0] = wants_rids(problem) ? problem->rids_out : NULL;
	memory.state = cutter.take<RadixState>(1);
	memory.tiles = cutter.take<unsigned long long>(tiles * RADIX_DIGITS);
	memory.bytes = cutter.used;
	return memory;
}

static const char *
why_not(const DeviceTraits *device, const GpusortProblem *problem)
{
	size_t		most = for_key_width(problem->key_width, [] (auto key)
									 {
										 return radix_pass_shared<decltype(key), true>();
									 });

	if (problem->n > UINT32_MAX)
		return "more than 2^32 - 1 rows";
	if ((size_t) device->max_shared < most + RESERVED_SHARED)
		return "the device's shared memory is too small";
	return NULL;
}

static uint64_t
scratch(const DeviceTraits *, const GpusortProblem *problem)
{
	return for_key_width(problem->key_width, [&] (auto key)
						 {
							 return cut_memory<decltype(key)>(problem, NULL).bytes;
						 });
}

/* The passes to run, from the counts of the digits.  Digit 0 is the lowest. */
struct RadixPlan
{
	uint32_t	differ;			/* bit d: keys differ in digit d; a pass is
								 * due */
	uint32_t	dominant;			/* bit d: digit d has a dominant value */
	int			cut;			/* passes start with this digit */
};

/*
 * Counts the digits of args.keys and plans the passes.  lead: let a sample
 * choose cut; otherwise cut is 0.  Blocks until the plan has reached the host.
 */
template <class K> static GpusortStatus
plan_passes(SortRun *run, const RadixPassArgs<K> &args, bool lead, RadixPlan *plan)
{
	const GpusortProblem *problem = run->problem;
	int			width = problem->end_bit - problem->begin_bit;
	int			digits = (width + RADIX_BITS - 1) / RADIX_BITS;
	uint64_t	blocks = div_up(args.n, RADIX_COUNT_THREADS * 16 / sizeof(K) * 4);
	uint32_t	sequence_number = next_sequence_number(run);

	if (blocks > (uint64_t) run->device->multiprocessors * 4)
		blocks = (uint64_t) run->device->multiprocessors * 4;
	TRY(clear_device(run, args.state, sizeof(RadixState)));
	if (lead && may_sort_by_lead<K>(args.n, digits))
		LAUNCH(run, radix_lead_kernel<K>, 1, LEAD_THREADS, 0,
			   args.keys, args.n, args.bits, width, args.state);
	LAUNCH(run, radix_count_kernel<K>, blocks, RADIX_COUNT_THREADS, 0,
		   args.keys, args.n, args.bits, digits, args.state, run->stream->readback, sequence_number);
	TRY(wait_for_readback(run, sequence_number));
	plan->differ = run->stream->readback[RADIX_READBACK_PASSES];
	plan->dominant = run->stream->readback[RADIX_READBACK_DOMINANT];
	plan->cut = (int) run->stream->readback[RADIX_READBACK_CUT];
	if (plan->differ == 0)
	{
		plan->differ = 1u << plan->cut;	/* all keys are equal: one pass copies
										 * them */
		if (plan->cut == 0)
			run->result->shortcut = GPUSORT_SHORTCUT_FLAT;
	}
	return GPUSORT_OK;
}

/*
 * Runs the planned passes.  On return args->keys and args->rids are the arrays
 * that the last pass wrote; args->keys is NULL if neither the caller nor the
 * fix-up pass needs keys.
 */
template <class K, bool RIDS> static GpusortStatus
run_passes(SortRun *run, const RadixMemory<K> &memory, const RadixPlan &plan,
		   RadixPassArgs<K> *args)
{
	bool		keep = plan.cut > 0;
	int			left = __builtin_popcount(plan.differ);
	uint64_t	tiles = div_up(args->n, radix_tile<K>());

	for (int digit = 0; left > 0; digit++)
	{
		if ((plan.differ & 1u << digit) == 0)
			continue;
		left--;
		args->digit = digit;
		args->pass++;

		/*
		 * Passes alternate between the two arrays so that the last one writes
		 * array 0.  The first one reads the input, which it does not write.
		 */
		if (wants_keys(run->problem))
			args->keys_out = memory.keys[left % 2];
		else
			args->keys_out = left > 0 || keep ? memory.keys[args->pass % 2] : NULL;
		args->rids_out = memory.rids[left % 2];
		if (plan.dominant & 1u << digit)
			LAUNCH(run, (radix_pass_kernel<K, RIDS, true>), tiles, RADIX_THREADS,
				   (radix_pass_shared<K, RIDS>()), *args);
		else
			LAUNCH(run, (radix_pass_kernel<K, RIDS, false>), tiles, RADIX_THREADS,
				   (radix_pass_shared<K, RIDS>()), *args);
		args->keys = args->keys_out;
		args->rids = args->rids_out;
		run->result->passes++;
	}
	return GPUSORT_OK;
}

/*
 * Fix-up pass: orders keys with equal leading digits.  *left: some runs were
 * too long for it.  Blocks until the host knows.
 */
template <class K> static GpusortStatus
fix_up_runs(SortRun *run, const RadixPassArgs<K> &sorted, int cut, bool *left)
{
	FixUpArgs<K> args = {};
	uint32_t	sequence_number = next_sequence_number(run);

	/* the arrays that the last pass wrote */
	args.keys = sorted.keys_out;
	args.rids = sorted.rids_out;
	args.all = sorted.bits.mask << sorted.bits.shift;
	args.lead = sorted.bits.mask >> cut * RADIX_BITS << cut * RADIX_BITS << sorted.bits.shift;
	args.n = sorted.n;
	args.state = sorted.state;
	args.readback = run->stream->readback;
	args.sequence_number = sequence_number;
	LAUNCH(run, radix_fix_up_kernel<K>, div_up(args.n, fix_up_part<K>()), FIX_UP_THREADS, 0, args);
	TRY(wait_for_readback(run, sequence_number));
	*left = run->stream->readback[RADIX_READBACK_LONG] != 0;
	return GPUSORT_OK;
}

/*
 * Copies sorted keys and rids to scratch, because an odd number of passes that
 * starts with array 0 would write where it reads.
 */
template <class K, bool RIDS> static GpusortStatus
move_to_scratch(SortRun *run, const RadixMemory<K> &memory, RadixPassArgs<K> *args)
{
	GpusortError *err = run->err;

	if (wants_keys(run->problem))
	{
		CUDA_TRY(cudaMemcpyAsync(memory.keys[1], args->keys, args->n * sizeof(K),
								 cudaMemcpyDeviceToDevice, run->stream->cuda));
		args->keys = memory.keys[1];
	}
	if (RIDS)
	{
		CUDA_TRY(cudaMemcpyAsync(memory.rids[1], args->rids, args->n * sizeof(uint32_t),
								 cudaMemcpyDeviceToDevice, run->stream->cuda));
		args->rids = memory.rids[1];
	}
	return GPUSORT_OK;
}

/* Sorts keys of type K, with or without rids. */
template <class K, bool RIDS> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	RadixMemory<K> memory = cut_memory<K>(problem, problem->scratch);
	RadixPassArgs<K> args = {};
	RadixPlan	plan;
	bool		left = false;

	args.keys = static_cast<const K *>(problem->keys);
	args.rids = problem->rids;
	args.bits = key_bits<K>(problem);
	args.n = (uint32_t) problem->n;
	args.state = memory.state;
	args.tiles = memory.tiles;
	TRY(clear_device(run, memory.tiles, div_up(args.n, radix_tile<K>()) *
					 RADIX_DIGITS * sizeof(unsigned long long)));
	TRY(plan_passes(run, args, true, &plan));
	TRY((run_passes<K, RIDS>(run, memory, plan, &args)));
	if (plan.cut > 0)
		TRY(fix_up_runs(run, args, plan.cut, &left));
	if (!left)
		return GPUSORT_OK;

	/* leading digits did not suffice: sort the result by all digits */
	TRY(plan_passes(run, args, false, &plan));
	if (__builtin_popcount(plan.differ) % 2 != 0)
		TRY((move_to_scratch<K, RIDS>(run, memory, &args)));
	return run_passes<K, RIDS>(run, memory, plan, &args);
}

static GpusortStatus
run(SortRun *run)
{
	return for_key_width(run->problem->key_width, [&] (auto key)
						 {
							 typedef decltype(key) K;

							 return wants_rids(run->problem) ? run_for<K, true>(run)
								 : run_for<K, false>(run);
						 });
}

const SortAlgorithm gpu_radix_algorithm = {
	{
		"gpu_radix",
		GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128,
		1,
		1
	},
	why_not,
	scratch,
	run
};
