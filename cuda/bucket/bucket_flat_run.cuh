/*
 * bucket_flat_run.cuh
 *	  The host's part of bucket_flat.cuh: what lies where, and the launches.
 *
 * Memory: FLAT_SLOT positions a key, two more where keys are scattered twice, and 8 KiB.
 *
 * Errors: nothing but a status; a slot that was too small is none.
 */
#ifndef GPUSORT_BUCKET_FLAT_RUN_CUH
#define GPUSORT_BUCKET_FLAT_RUN_CUH

#include "bucket/bucket_flat.cuh"

/*
 * Than two scatters, gpu_radix is quicker for narrow keys.  Of wide ones, those near a bell curve
 * and those of few values lose by them, to where CUB is; clustered ones, which took up to twice CUB's
 * time, win more.
 */
template <class K> __host__ __device__ constexpr bool
flat_twice()
{
	return sizeof(K) >= 8;
}

/* The most keys that may be scattered.  Keys alone have not as much memory reserved for them. */
template <class K> static uint64_t
flat_most(const GpusortProblem *problem)
{
	return flat_twice<K>() && wants_rids(problem) ? FLAT_MOST : FLAT_ONCE_MOST;
}

struct FlatMemory
{
	uint32_t	first_capacity; /* of slots; 0: keys are scattered once */
	uint32_t	buckets;		/* of the last scatter, for each slot of the first */
	uint32_t	capacity;
	uint32_t   *first_slots;
	uint32_t   *slots;
	FlatState  *state;
	uint64_t	bytes;
};

static FlatMemory
cut_flat_memory(uint64_t n, void *scratch)
{
	FlatMemory	memory = {};
	ScratchCutter cutter(scratch);
	uint64_t	segments = 1;

	if (n > FLAT_ONCE_MOST)
	{
		segments = FLAT_FIRST_BUCKETS;
		memory.first_capacity = (uint32_t) div_up(n * FLAT_FIRST_SLOT, FLAT_FIRST_BUCKETS);
		memory.first_slots = cutter.take<uint32_t>(segments * memory.first_capacity);
	}
	memory.buckets = n > FLAT_ONCE_MOST ? FLAT_SECOND_BUCKETS :
		n > FLAT_ONCE_MOST / 2 ? FLAT_MOST_BUCKETS : FLAT_MOST_BUCKETS / 2;
	memory.capacity = (uint32_t) div_up(n * FLAT_SLOT, segments * memory.buckets);
	memory.slots = cutter.take<uint32_t>(segments * memory.buckets * memory.capacity);
	memory.state = cutter.take<FlatState>(1);
	memory.bytes = cutter.used;
	return memory;
}

template <class K, int SAMPLE_ITEMS> static GpusortStatus
start_scatter(SortRun *run, FlatArgs<K> &args, uint32_t segments)
{
	args.per_bucket = FLAT_THREADS * SAMPLE_ITEMS / args.buckets;

	/* few enough that hardly any bucket outgrows its slot */
	args.most_even = args.per_bucket == FLAT_SAMPLES ? FLAT_SAMPLES * 5 / 2
		: args.per_bucket * 11 / 8;
	LAUNCH(run, (flat_deal_kernel<K, SAMPLE_ITEMS>), (uint64_t) segments * args.parts,
		   FLAT_THREADS, flat_deal_shared<K>(), args);
	return GPUSORT_OK;
}

template <class K, int THREADS> static GpusortStatus
start_sorting(SortRun *run, const FlatArgs<K> &args, uint32_t segments)
{
	LAUNCH(run, (flat_sort_kernel<K, THREADS>), segments * args.buckets, THREADS,
		   pair_room_bytes<K>(THREADS * FLAT_SORT_ITEMS), args);
	return GPUSORT_OK;
}

/* Keys of a block: as few as keep the multiprocessors busy, as many as it can hold. */
template <class K> static uint32_t
flat_share(uint64_t n, uint64_t blocks)
{
	uint64_t	tile = FLAT_THREADS * flat_items<K>();
	uint64_t	share = div_up(n, div_up(n, tile * blocks) * blocks);

	return (uint32_t) (share < FLAT_THREADS / 4 ? FLAT_THREADS / 4 : share);
}

/* Sorts the problem, or says with *done that a slot was too small; n is at most flat_most(). */
template <class K> static GpusortStatus
sort_flat(SortRun *run, bool *done)
{
	const GpusortProblem *problem = run->problem;
	FlatMemory	memory = cut_flat_memory(problem->n, problem->scratch);
	FlatArgs<K> args = {};
	uint32_t	segments = 1;

	args.keys = static_cast<const K *>(problem->keys);
	args.n = (uint32_t) problem->n;
	args.bits = key_bits<K>(problem);
	args.share = flat_share<K>(problem->n, run->device->multiprocessors);
	args.parts = (uint32_t) div_up(problem->n, args.share);
	args.state = memory.state;
	TRY(clear_device(run, args.state, sizeof(FlatState)));
	if constexpr (flat_twice<K>())
	{
		if (memory.first_capacity > 0)
		{
			args.buckets = FLAT_FIRST_BUCKETS;
			args.capacity = memory.first_capacity;
			args.slots = memory.first_slots;
			args.counts = args.state->first_counts;
			TRY((start_scatter<K, 2>(run, args, 1)));
			args.from = args.slots;
			args.from_counts = args.counts;
			args.from_capacity = args.capacity;
			segments = FLAT_FIRST_BUCKETS;
			args.parts = (uint32_t) div_up(args.from_capacity, args.share);
			run->result->passes++;
		}
	}
	args.buckets = memory.buckets;
	args.capacity = memory.capacity;
	args.slots = memory.slots;
	args.counts = args.state->counts;
	args.rids = problem->rids;
	args.keys_out = wants_keys(problem) ? static_cast<K *>(problem->keys_out) : NULL;
	args.rids_out = wants_rids(problem) ? problem->rids_out : NULL;
	args.whole = args.bits.shift == 0 && args.bits.mask == all_ones<K>();
	args.readback = run->stream->readback;
	args.sequence_number = next_sequence_number(run);
	if constexpr (flat_twice<K>())
	{
		if (segments > 1)
		{
			TRY((start_scatter<K, FLAT_SECOND_BUCKETS * FLAT_SAMPLES / FLAT_THREADS>
				 (run, args, segments)));
			TRY((start_sorting<K, FLAT_SORT_FEW>(run, args, segments)));
		}
	}
	if (segments == 1)
	{
		if (args.buckets == FLAT_MOST_BUCKETS)
			TRY((start_scatter<K, FLAT_MOST_SAMPLES / FLAT_THREADS>(run, args, 1)));
		else
			TRY((start_scatter<K, FLAT_MOST_SAMPLES / FLAT_THREADS / 2>(run, args, 1)));
		TRY((start_sorting<K, FLAT_SORT_MANY>(run, args, 1)));
	}
	run->result->passes += 2;
	TRY(wait_for_readback(run, args.sequence_number));
	*done = run->stream->readback[FLAT_READBACK_OVERFLOW] == 0;
	return GPUSORT_OK;
}

#endif							/* GPUSORT_BUCKET_FLAT_RUN_CUH */
