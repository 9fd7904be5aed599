/*
 * sample_sort.cuh
 *	  Sample sort, gpu_bucket's method for up to a million keys: scatters
 *	  keys by the splitters of a sample into buckets that each fit a block,
 *	  and sorts the buckets.
 *
 * The time hardly depends on the distribution.  Pairs (value, position) are all
 * different, so a sorted sample of pairs divides any input into buckets of
 * similar sizes, even equal values.  Every block draws the same sample and sorts
 * it, which takes less time than another launch.  If the sample is uniform over
 * slices of equal width, the block uses slices and does not sort.
 *
 * Positions are scattered.  The bucket's sort reads the keys, from the L2
 * cache.  Each bucket has a slot of scratch, several times its expected size,
 * so that blocks can scatter without counting first.  The random sample makes
 * overflows of a slot rare.  If a slot overflows, only scratch memory has been
 * written, and the input is sorted by slices or by quantiles.
 *
 * More than SAMPLE_SORT_MAX_ONCE keys are scattered twice.  For 32-bit keys
 * gpu_radix is faster than that.
 *
 * Memory: SLOT_FACTOR positions per key, two more if keys are scattered twice,
 * and 8 KiB.
 *
 * Errors: the status of a failed launch or of cancellation; an overflow is
 * reported by *done.
 */
#ifndef GPUSORT_SAMPLE_SORT_CUH
#define GPUSORT_SAMPLE_SORT_CUH

#include "block/block_scan.cuh"
#include "block/pair_sort.cuh"
#include "bucket/bucket_plan.cuh"

#define SAMPLE_SORT_MAX			(1u << 20)	/* most keys */
#define SAMPLE_SORT_MAX_ONCE	(1u << 18)	/* most keys that are scattered
											 * once */

/* A single scatter, or the second one of two. */
#define SCATTER_THREADS			512
#define BUCKET_SAMPLES			8	/* samples per bucket */
#define SAMPLE_SORT_MAX_SAMPLES	(4 * SCATTER_THREADS)
#define SAMPLE_SORT_MAX_BUCKETS	(SAMPLE_SORT_MAX_SAMPLES / BUCKET_SAMPLES)
#define SLOT_FACTOR				4	/* slot size / expected bucket size */

/*
 * The first of two scatters, and the buckets into which the second divides
 * each.
 */
#define FIRST_BUCKETS		32
#define FIRST_SLOT_FACTOR	2	/* slot size / expected bucket size */
#define SECOND_BUCKETS		64

/* Threads of a block that sorts a bucket: more if there are few buckets. */
#define SAMPLE_SORT_FEW_THREADS		256
#define SAMPLE_SORT_MANY_THREADS	512
#define SAMPLE_SORT_ITEMS			9	/* most keys per thread */
#define SAMPLE_SORT_MAX_RANKED		256	/* most keys sorted by comparing all
										 * pairs */
#define SAMPLE_SORT_LIGHT_ITEMS		3	/* keys per thread in smaller buckets */

/* Indexes of the readback words. */
#define SAMPLE_SORT_READBACK_SEQUENCE	0
#define SAMPLE_SORT_READBACK_OVERFLOW	1

static_assert(SAMPLE_SORT_MAX_ONCE / SAMPLE_SORT_MAX_BUCKETS * SLOT_FACTOR <=
			  SAMPLE_SORT_MANY_THREADS * SAMPLE_SORT_ITEMS, "a full slot fits a block");
static_assert(SAMPLE_SORT_MAX / FIRST_BUCKETS / SECOND_BUCKETS * SLOT_FACTOR <=
			  SAMPLE_SORT_FEW_THREADS * SAMPLE_SORT_ITEMS, "and so does one of two scatters");

/* Keys that a thread scatters. */
template <class K> __host__ __device__ constexpr int
scatter_items()
{
	return sizeof(K) == 16 ? 4 : 8;
}

/* State that the kernels of a run share; cleared before them. */
struct SampleSortState
{
	uint32_t	first_counts[FIRST_BUCKETS];	/* keys by bucket, first
												 * scatter */
	/* keys by bucket, last scatter */
	uint32_t	counts[FIRST_BUCKETS * SECOND_BUCKETS];
	uint32_t	blocks_done;	/* blocks of the last scatter that are done */
	uint32_t	overflow;		/* 1: a slot was too small */
};

/* Arguments of a scatter and of the sort of its buckets. */
template <class K> struct SampleSortArgs
{
	const K    *keys;
	uint32_t	n;
	KeyBits<K>	bits;
	const uint32_t *from;		/* slots of the first scatter; NULL: the
								 * input */
	const uint32_t *from_counts;	/* number of positions in each slot of
									 * from */
	uint32_t	from_capacity;	/* size of a slot of from */
	uint32_t	parts;			/* blocks for each slot of from, or for the
								 * input */
	uint32_t	share;			/* keys of a block */
	uint32_t	buckets;		/* buckets for each slot of from; a power of
								 * two */
	uint32_t	capacity;		/* size of a bucket's slot, in positions */
	uint32_t	per_bucket;		/* samples per bucket */
	uint32_t	max_per_slice;		/* most samples of a slice for slices to be
									 * used */
	uint32_t   *slots;			/* positions by bucket, capacity each */
	uint32_t   *counts;			/* number of positions of each bucket */
	SampleSortState  *state;
	const uint32_t *rids;		/* by position; NULL: a key's index is its
								 * rid */
	K		   *keys_out;		/* NULL: do not write keys */
	uint32_t   *rids_out;		/* NULL: do not write rids */
	bool		whole;			/* all bits of a key order */
	uint32_t   *readback;		/* NULL: this is the first of two scatters */
	uint32_t	sequence_number;
};

/* Bytes of dynamic shared memory of a scatter. */
template <class K> __host__ __device__ constexpr size_t
sample_scatter_shared()
{
	size_t		sample = pair_room_bytes<K>(SAMPLE_SORT_MAX_SAMPLES);
	size_t		tile = SCATTER_THREADS * scatter_items<K>() * (sizeof(uint32_t) + sizeof(uint16_t));

	return pair_room_bytes<K>(SAMPLE_SORT_MAX_BUCKETS) + (sample > tile ? sample : tile);
}

/*
 * Index of the first pair of a bucket, 1 .. buckets - 1, in a search tree in
 * breadth-first order, which avoids bank conflicts (quantile_map.cuh).
 */
__device__ __forceinline__ uint32_t
splitter_node(uint32_t bucket, uint32_t buckets)
{
	uint32_t	zeros = __ffs(bucket) - 1;

	return (buckets >> (zeros + 1)) + (bucket >> (zeros + 1));
}

/*
 * Scatters positions [start, start + count) of a slot of from, or of the input,
 * which has size of them.  segment: number of the slot.
 */
template <class K, int THREAD_SAMPLES> __device__ __forceinline__ void
scatter_by_sample(const SampleSortArgs<K> &args, uint32_t segment, uint32_t start, uint32_t count,
		  uint32_t size, unsigned char *shared)
{
	constexpr int ITEMS = scatter_items<K>();
	constexpr uint32_t TILE = SCATTER_THREADS * ITEMS;

	unsigned char *tile_memory = shared + pair_room_bytes<K>(SAMPLE_SORT_MAX_BUCKETS);
	uint32_t   *tile_at = reinterpret_cast<uint32_t *>(tile_memory);
	uint16_t   *tile_bins = reinterpret_cast<uint16_t *>(tile_at + TILE);

	/*
	 * counts, then starts in the tile; the last entry is for lanes without a
	 * key
	 */
	__shared__ uint32_t bin_start[SAMPLE_SORT_MAX_BUCKETS + 1];
	__shared__ uint32_t bin_target[SAMPLE_SORT_MAX_BUCKETS];
	__shared__ uint32_t room[SCATTER_THREADS / 32];
	__shared__ K range_room[2 * SCATTER_THREADS / 32];

	const PairRoom<K> tree(shared, SAMPLE_SORT_MAX_BUCKETS);
	const uint32_t *from = args.from ? args.from + segment * args.from_capacity : NULL;
	uint32_t	bucket = threadIdx.x;
	Pair<K>		sample[THREAD_SAMPLES];
	uint32_t	at[ITEMS];		/* positions of the thread's keys */
	K			values[ITEMS];
	uint32_t	bin_rank[ITEMS];	/* bin << 16 | rank in the bin */
	BucketMap<K> slices;
	bool		use_slices;

#pragma unroll
	for (int i = 0; i < THREAD_SAMPLES; i++)
	{
		uint32_t	position = sample_position(i * SCATTER_THREADS + threadIdx.x,
											   SCATTER_THREADS * THREAD_SAMPLES, size);

		position = from ? from[position] : position;
		sample[i] = make_pair<K>(args.bits(args.keys[position]), position);
	}
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	in_share = i * SCATTER_THREADS + threadIdx.x;

		if (in_share < count)
			at[i] = from ? from[start + in_share] : start + in_share;
	}
	if (bucket <= args.buckets)
		bin_start[bucket] = 0;
	{
		K			lo = sample[0].value,
					hi = sample[0].value;

#pragma unroll
		for (int i = 1; i < THREAD_SAMPLES; i++)
		{
			lo = sample[i].value < lo ? sample[i].value : lo;
			hi = sample[i].value > hi ? sample[i].value : hi;
		}
		block_min_max<SCATTER_THREADS>(lo, hi, range_room);
		slices = make_map<K>(lo, hi, args.buckets);
	}
#pragma unroll
	for (int i = 0; i < THREAD_SAMPLES; i++)
		(void) count_in_warp(bin_start, slices(sample[i].value));
	__syncthreads();
	use_slices = !__syncthreads_or(bucket < args.buckets && bin_start[bucket] > args.max_per_slice);
	if (bucket < args.buckets)
		bin_start[bucket] = 0;
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * SCATTER_THREADS + threadIdx.x < count)
			values[i] = args.bits(args.keys[at[i]]);
	if (!use_slices)
	{
		uint32_t	e = threadIdx.x * THREAD_SAMPLES;

		block_sort_sample<K, SCATTER_THREADS, THREAD_SAMPLES>
			(sample, PairRoom<K>(tile_memory, SCATTER_THREADS * THREAD_SAMPLES));
		if (e > 0 && e % args.per_bucket == 0)
			tree.put(splitter_node(e / args.per_bucket, args.buckets), sample[0]);
	}
	__syncthreads();

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	bin = args.buckets;

		if (i * SCATTER_THREADS + threadIdx.x < count)
		{
			if (use_slices)
				bin = slices(values[i]);
			else
			{
				Pair<K>		mine = make_pair<K>(values[i], at[i]);
				uint32_t	node = 1;

				while (node < args.buckets)
					node = 2 * node + !(mine < tree.get(node));
				bin = node - args.buckets;
			}
		}
		bin_rank[i] = bin << 16 | count_in_warp(bin_start, bin);
	}
	__syncthreads();
	{
		uint32_t	in_bin = bucket < args.buckets ? bin_start[bucket] : 0;
		uint32_t	before = in_bin == 0 ? 0 :
			atomicAdd(&args.counts[segment * args.buckets + bucket], in_bin);
		uint32_t	total;
		uint32_t	sum = block_exclusive_sum<SCATTER_THREADS>(in_bin, room, &total);

		if (before + in_bin > args.capacity)
			atomicOr(&args.state->overflow, 1);
		if (bucket < args.buckets)
		{
			bin_start[bucket] = sum;
			bin_target[bucket] = before - sum;	/* index in the slot - in the tile */
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * SCATTER_THREADS + threadIdx.x < count)
		{
			uint32_t	bin = bin_rank[i] >> 16;
			uint32_t	to = bin_start[bin] + (bin_rank[i] & 0xffff);

			tile_at[to] = at[i];
			tile_bins[to] = (uint16_t) bin;
		}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	in_tile = i * SCATTER_THREADS + threadIdx.x;

		if (in_tile < count)
		{
			uint32_t	bin = tile_bins[in_tile];
			uint32_t	in_slot = bin_target[bin] + in_tile;

			if (in_slot < args.capacity)
				args.slots[(segment * args.buckets + bin) * args.capacity + in_slot] =
					tile_at[in_tile];
		}
	}
}

/* Scatters once; the last block of the last scatter reports an overflow. */
template <class K, int THREAD_SAMPLES>
__global__ void __launch_bounds__(SCATTER_THREADS, 2)
sample_scatter_kernel(const SampleSortArgs<K> args)
{
	extern __shared__ __align__(16) unsigned char shared[];

	uint32_t	segment = blockIdx.x / args.parts;
	uint32_t	start = blockIdx.x % args.parts * args.share;
	uint32_t	size = args.from ? min(args.from_counts[segment], args.from_capacity) : args.n;

	if (start < size)
		scatter_by_sample<K, THREAD_SAMPLES>(args, segment, start, min(size - start, args.share), size,
								   shared);
	if (args.readback == NULL)
		return;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(&args.state->blocks_done, 1) == gridDim.x - 1)
	{
		volatile uint32_t *words = args.readback;

		words[SAMPLE_SORT_READBACK_OVERFLOW] = *(volatile uint32_t *) &args.state->overflow;
		__threadfence_system();
		words[SAMPLE_SORT_READBACK_SEQUENCE] = args.sequence_number;
	}
}

/*
 * Sorts at most one pair per thread: each thread counts the pairs that are less
 * than its own.  For few pairs this is faster than merging.
 */
template <class K> __device__ __forceinline__ void
rank_pairs(const uint32_t *slot, uint32_t count, const SampleSortArgs<K> &args,
		   const PairRoom<K> &room)
{
	Pair<K>		mine = last_pair<K>();
	uint32_t	rank = 0;

	if (threadIdx.x < count)
	{
		mine = make_pair<K>(args.bits(args.keys[slot[threadIdx.x]]), slot[threadIdx.x]);
		room.put(threadIdx.x, mine);
	}
	__syncthreads();
	if (threadIdx.x / 32 * 32 < count)
	{
#pragma unroll 8
		for (uint32_t other = 0; other < count; other++)
			rank += room.get(other) < mine;
	}
	__syncthreads();
	if (threadIdx.x < count)
		room.put(rank, mine);
	__syncthreads();
}

/* Sorts count pairs into room by merging. */
template <class K, int THREADS, int ITEMS> __device__ __forceinline__ void
merge_pairs(const uint32_t *slot, uint32_t count, const SampleSortArgs<K> &args,
			const PairRoom<K> &room)
{
	uint32_t	threads = pair_threads<THREADS, ITEMS>(count);
	uint32_t	from[ITEMS];
	Pair<K>		pairs[ITEMS];

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * threads + threadIdx.x;

		from[i] = threadIdx.x < threads && at < count ? slot[at] : ~0u;
	}
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		pairs[i] = from[i] == ~0u ? last_pair<K>()
			: make_pair<K>(args.bits(args.keys[from[i]]), from[i]);
	block_sort_pairs<K, ITEMS>(pairs, room, threads);
}

/* Sorts the buckets and writes the output; a block per bucket. */
template <class K, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
sample_sort_kernel(const SampleSortArgs<K> args)
{
	extern __shared__ __align__(16) unsigned char shared[];
	__shared__ uint32_t sums[THREADS / 32];

	const PairRoom<K> room(shared, THREADS * SAMPLE_SORT_ITEMS);
	uint32_t	segment = blockIdx.x / args.buckets;
	uint32_t	count = args.counts[blockIdx.x];
	const uint32_t *slot = args.slots + blockIdx.x * args.capacity;
	uint32_t	before = 0;
	uint32_t	start;

	if (args.state->overflow)
		return;
	for (uint32_t i = threadIdx.x; i < blockIdx.x % args.buckets; i += THREADS)
		before += args.counts[segment * args.buckets + i];
	for (uint32_t i = threadIdx.x; i < segment; i += THREADS)
		before += args.from_counts[i];
	(void) block_exclusive_sum<THREADS>(before, sums, &start);
	if (count <= SAMPLE_SORT_MAX_RANKED)
		rank_pairs(slot, count, args, room);
	else if (THREADS == SAMPLE_SORT_MANY_THREADS && count <= THREADS * SAMPLE_SORT_LIGHT_ITEMS)
		merge_pairs<K, THREADS, SAMPLE_SORT_LIGHT_ITEMS>(slot, count, args, room);
	else
		merge_pairs<K, THREADS, SAMPLE_SORT_ITEMS>(slot, count, args, room);
	for (uint32_t at = threadIdx.x; at < count; at += THREADS)
	{
		Pair<K>		pair = room.get(at);

		if (args.keys_out)
			args.keys_out[start + at] = args.whole ? pair.value : args.keys[pair.rid];
		if (args.rids_out)
			args.rids_out[start + at] = args.rids ? args.rids[pair.rid] : pair.rid;
	}
}

/* ------------------------------------------------------------------------
 * Host
 * ------------------------------------------------------------------------
 */
/*
 * May keys be scattered twice?  For 32-bit keys gpu_radix is faster than that.
 */
template <class K> __host__ __device__ constexpr bool
may_scatter_twice()
{
	return sizeof(K) >= 8;
}

/*
 * Most keys for sample sort.  Problems without rids have less scratch, which
 * does not suffice for two scatters.
 */
template <class K> static uint64_t
sample_sort_max(const GpusortProblem *problem)
{
	return may_scatter_twice<K>() && wants_rids(problem) ? SAMPLE_SORT_MAX : SAMPLE_SORT_MAX_ONCE;
}

/* Scratch memory of a run. */
struct SampleSortMemory
{
	uint32_t	first_capacity; /* slot size of the first scatter; 0: only one
								 * scatter */
	uint32_t	buckets;		/* buckets of the last scatter, per slot of the
								 * first */
	uint32_t	capacity;		/* slot size of the last scatter */
	uint32_t   *first_slots;	/* positions after the first scatter */
	uint32_t   *slots;			/* positions after the last scatter */
	SampleSortState  *state;
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
static SampleSortMemory
cut_sample_sort_memory(uint64_t n, void *scratch)
{
	SampleSortMemory	memory = {};
	ScratchCutter cutter(scratch);
	uint64_t	segments = 1;

	if (n > SAMPLE_SORT_MAX_ONCE)
	{
		segments = FIRST_BUCKETS;
		memory.first_capacity = (uint32_t) div_up(n * FIRST_SLOT_FACTOR, FIRST_BUCKETS);
		memory.first_slots = cutter.take<uint32_t>(segments * memory.first_capacity);
	}
	memory.buckets = n > SAMPLE_SORT_MAX_ONCE ? SECOND_BUCKETS :
		n > SAMPLE_SORT_MAX_ONCE / 2 ? SAMPLE_SORT_MAX_BUCKETS : SAMPLE_SORT_MAX_BUCKETS / 2;
	memory.capacity = (uint32_t) div_up(n * SLOT_FACTOR, segments * memory.buckets);
	memory.slots = cutter.take<uint32_t>(segments * memory.buckets * memory.capacity);
	memory.state = cutter.take<SampleSortState>(1);
	memory.bytes = cutter.used;
	return memory;
}

/* Launches a scatter. */
template <class K, int THREAD_SAMPLES> static GpusortStatus
start_scatter(SortRun *run, SampleSortArgs<K> &args, uint32_t segments)
{
	args.per_bucket = SCATTER_THREADS * THREAD_SAMPLES / args.buckets;

	/*
	 * a limit for the samples of a slice that makes overflows of slots
	 * improbable
	 */
	args.max_per_slice = args.per_bucket == BUCKET_SAMPLES ? BUCKET_SAMPLES * 5 / 2
		: args.per_bucket * 11 / 8;
	LAUNCH(run, (sample_scatter_kernel<K, THREAD_SAMPLES>), (uint64_t) segments * args.parts,
		   SCATTER_THREADS, sample_scatter_shared<K>(), args);
	return GPUSORT_OK;
}

/* Launches the sort of the buckets. */
template <class K, int THREADS> static GpusortStatus
start_sorting(SortRun *run, const SampleSortArgs<K> &args, uint32_t segments)
{
	LAUNCH(run, (sample_sort_kernel<K, THREADS>), segments * args.buckets, THREADS,
		   pair_room_bytes<K>(THREADS * SAMPLE_SORT_ITEMS), args);
	return GPUSORT_OK;
}

/*
 * Keys of a block: at most a tile, and few enough to occupy all
 * multiprocessors.
 */
template <class K> static uint32_t
scatter_share(uint64_t n, uint64_t blocks)
{
	uint64_t	tile = SCATTER_THREADS * scatter_items<K>();
	uint64_t	share = div_up(n, div_up(n, tile * blocks) * blocks);

	return (uint32_t) (share < SCATTER_THREADS / 4 ? SCATTER_THREADS / 4 : share);
}

/*
 * Sorts a problem of at most sample_sort_max() keys.  *done false: a slot
 * overflowed.
 */
template <class K> static GpusortStatus
run_sample_sort(SortRun *run, bool *done)
{
	const GpusortProblem *problem = run->problem;
	SampleSortMemory	memory = cut_sample_sort_memory(problem->n, problem->scratch);
	SampleSortArgs<K> args = {};
	uint32_t	segments = 1;

	args.keys = static_cast<const K *>(problem->keys);
	args.n = (uint32_t) problem->n;
	args.bits = key_bits<K>(problem);
	args.share = scatter_share<K>(problem->n, run->device->multiprocessors);
	args.parts = (uint32_t) div_up(problem->n, args.share);
	args.state = memory.state;
	TRY(clear_device(run, args.state, sizeof(SampleSortState)));
	if constexpr (may_scatter_twice<K>())
	{
		if (memory.first_capacity > 0)
		{
			args.buckets = FIRST_BUCKETS;
			args.capacity = memory.first_capacity;
			args.slots = memory.first_slots;
			args.counts = args.state->first_counts;
			TRY((start_scatter<K, 2>(run, args, 1)));
			args.from = args.slots;
			args.from_counts = args.counts;
			args.from_capacity = args.capacity;
			segments = FIRST_BUCKETS;
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
	if constexpr (may_scatter_twice<K>())
	{
		if (segments > 1)
		{
			TRY((start_scatter<K, SECOND_BUCKETS * BUCKET_SAMPLES / SCATTER_THREADS>
				 (run, args, segments)));
			TRY((start_sorting<K, SAMPLE_SORT_FEW_THREADS>(run, args, segments)));
		}
	}
	if (segments == 1)
	{
		if (args.buckets == SAMPLE_SORT_MAX_BUCKETS)
			TRY((start_scatter<K, SAMPLE_SORT_MAX_SAMPLES / SCATTER_THREADS>(run, args, 1)));
		else
			TRY((start_scatter<K, SAMPLE_SORT_MAX_SAMPLES / SCATTER_THREADS / 2>(run, args, 1)));
		TRY((start_sorting<K, SAMPLE_SORT_MANY_THREADS>(run, args, 1)));
	}
	run->result->passes += 2;
	TRY(wait_for_readback(run, args.sequence_number));
	*done = run->stream->readback[SAMPLE_SORT_READBACK_OVERFLOW] == 0;
	return GPUSORT_OK;
}

#endif							/* GPUSORT_SAMPLE_SORT_CUH */
