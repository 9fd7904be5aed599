/*
 * radix.cu
 *	  gpu_radix: least significant digit first, eight bits a pass, stable.
 *
 * Satish et al., "Fast sort on CPUs and GPUs" (2010), section 4.4, and Pirjan and
 * Petrosanu, "CUDA based radix sort" (2012), sort tiles by four one-bit splits and
 * need four launches per pass: sort, count, sum, copy.  Here a pass is one launch
 * (radix_pass.cuh), a digit has eight bits, and all digits are counted
 * beforehand in one reading of the keys.  Digits that are the same in all keys
 * cost nothing: their passes are left out.
 *
 * The time does not depend on the distribution: there is no bucket to overflow and
 * no comparison.  It grows with the width of the key, since every pass moves
 * whole keys; gpu_bucket is for wide ones.
 *
 * The first pass reads no rids where positions are meant, the last writes no keys
 * unless they are wanted.
 *
 * Memory: one more copy of keys and rids in scratch, another of the keys if they
 * are not wanted as output, and 2 KiB per tile of at most 8192 keys.
 *
 * Errors: nothing but a status; outputs are undefined then.
 */
#include "radix/radix_pass.cuh"

/* Room for the kernels' static shared memory beside the dynamic. */
#define RESERVED_SHARED		(18 * 1024)

template <class K> struct RadixMemory
{
	K		   *keys[2];		/* 1 is scratch; 0 may be the input */
	uint32_t   *rids[2];		/* 0 is written by the last pass */
	RadixState *state;
	unsigned long long *tiles;
	uint64_t	bytes;
};

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

template <class K, bool RIDS> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	RadixMemory<K> memory = cut_memory<K>(problem, problem->scratch);
	RadixPassArgs<K> args = {};
	uint32_t	n = (uint32_t) problem->n;
	int			digits = (problem->end_bit - problem->begin_bit + RADIX_BITS - 1) / RADIX_BITS;
	uint64_t	tiles = div_up(n, radix_tile<K>());
	uint64_t	blocks = div_up(n, RADIX_COUNT_THREADS * 16 / sizeof(K) * 4);
	uint32_t	ticket = next_ticket(run);
	uint32_t	differ,
				hot;
	int			left;

	if (blocks > (uint64_t) run->device->multiprocessors * 4)
		blocks = (uint64_t) run->device->multiprocessors * 4;
	TRY(clear_device(run, memory.state, sizeof(RadixState)));
	TRY(clear_device(run, memory.tiles,
					 tiles * RADIX_DIGITS * sizeof(unsigned long long)));
	LAUNCH(run, radix_count_kernel<K>, blocks, RADIX_COUNT_THREADS, 0,
		   static_cast<const K *>(problem->keys), n, key_bits<K>(problem), digits,
		   memory.state, run->stream->mailbox, ticket);
	TRY(wait_for_mail(run, ticket));
	differ = run->stream->mailbox[RADIX_MAIL_PASSES];
	hot = run->stream->mailbox[RADIX_MAIL_HOT];
	if (differ == 0)
	{
		differ = 1;				/* all equal: one pass that copies */
		run->result->shortcut = GPUSORT_SHORTCUT_FLAT;
	}

	args.keys = static_cast<const K *>(problem->keys);
	args.rids = problem->rids;
	args.bits = key_bits<K>(problem);
	args.n = n;
	args.state = memory.state;
	args.tiles = memory.tiles;
	left = __builtin_popcount(differ);
	for (int digit = 0; digit < digits; digit++)
	{
		if ((differ & 1u << digit) == 0)
			continue;
		left--;
		args.digit = digit;
		args.pass++;

		/* no pass writes where it reads: the first leaves the input alone */
		if (wants_keys(problem))
			args.keys_out = memory.keys[left % 2];
		else
			args.keys_out = left > 0 ? memory.keys[args.pass % 2] : NULL;
		args.rids_out = memory.rids[left % 2];
		if (hot & 1u << digit)
			LAUNCH(run, (radix_pass_kernel<K, RIDS, true>), tiles, RADIX_THREADS,
				   (radix_pass_shared<K, RIDS>()), args);
		else
			LAUNCH(run, (radix_pass_kernel<K, RIDS, false>), tiles, RADIX_THREADS,
				   (radix_pass_shared<K, RIDS>()), args);
		args.keys = args.keys_out;
		args.rids = args.rids_out;
		run->result->passes++;
	}
	return GPUSORT_OK;
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
