/*
 * bucket_sort.cuh
 *	  gpu_bucket for one key type: the layout of its buckets, its scratch
 *	  memory, and the sequence of launches.
 *
 * bucket.cu describes the algorithm.  Each key type is compiled in a file of
 * its own (bucket_32.cu, bucket_64.cu, bucket_128.cu).
 */
#ifndef GPUSORT_BUCKET_SORT_CUH
#define GPUSORT_BUCKET_SORT_CUH

#include <string.h>

#include "bucket/bucket.cuh"
#include "bucket/bucket_pieces.cuh"
#include "bucket/bucket_rounds.cuh"
#include "bucket/bucket_sample.cuh"
#include "bucket/sample_sort.cuh"

/* ------------------------------------------------------------------------
 * Layout of buckets and memory
 * ------------------------------------------------------------------------
 */
/* Bytes of the kernels' static shared memory, beside the dynamic. */
#define RESERVED_SHARED		(23 * 1024)

/* Keys per bucket to aim at with quantiles, which vary more than slices do. */
#define TWO_THIRDS_FULL		(BLOCK_SORT_CAPACITY / 3 * 2)

/* The arrays of a run.  Pairs of arrays alternate between passes or rounds. */
template <class K> struct BucketMemory
{
	K		   *keys[2];		/* 0: sorted keys, may be the input; 1:
								 * scratch */
	uint32_t   *rids[2];		/* 0: rids_out or scratch; 1: scratch; NULL:
								 * none */
	int			round_one;		/* index of the arrays with round one's
								 * buckets */
	BucketPlan *plan;
	uint32_t   *counts;			/* by bucket: count, then place of its next
								 * key */
	uint32_t   *bucket_start;	/* by bucket: place of its first key */
	QuantileMap<K> *quantiles;
	uint16_t   *tags;			/* tags of round one's buckets by quantiles */
	uint32_t   *coarse_cursor;	/* place of each coarse bucket's next key */
	uint32_t   *first_tile[2];	/* first tile of each segment, in even and odd
								 * rounds */
	Segment<K> *segments[2];	/* [1][0] is the whole input at first */
	uint32_t   *coarse_first_tile;	/* first tile of each coarse bucket */
	Segment<K> *coarse_segments;
	Splitters<K> *splitters;	/* splitters of each segment of a later round */
	K		   *bounds;			/* two values for each bucket of a later
								 * round */
	uint32_t   *piece_start;	/* places of pieces, and the end */
	K		   *edges;			/* two values for each piece */
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Layout of round one's buckets; depends on n and the device. */
struct BucketShape
{
	uint32_t	slice_buckets;	/* buckets if they are slices of equal width */
	uint32_t	buckets;		/* buckets by quantiles; at least
								 * slice_buckets */
	uint32_t	wanted;			/* part of buckets that is shared out by
								 * frequency */
	uint32_t	quantiles;		/* quantiles of the sample to use, at most */
	uint32_t	counts_size;	/* size of the array of counters */
	bool		packed;			/* counters of 16 bits in shared memory */
	int			fine_bits;		/* log2 of the fine buckets of a coarse one; <
								 * 0: keys move once */
	uint32_t	coarse;			/* number of coarse buckets */
};

/* The layout for n keys. */
static BucketShape
bucket_shape(const DeviceTraits *device, uint64_t n)
{
	BucketShape shape;
	uint64_t	counters = ((uint64_t) device->max_shared - RESERVED_SHARED) / sizeof(uint16_t);
	uint64_t	most = counters < MAX_BUCKETS ? counters : MAX_BUCKETS;
	uint64_t	slices = n / MOSTLY_FULL + 4;
	uint64_t	wanted = n / TWO_THIRDS_FULL + 4;

	if (slices > MAX_SLICE_BUCKETS)
		slices = MAX_SLICE_BUCKETS;
	if (slices <= PARTITION_MAX_BINS)
		most = PARTITION_MAX_BINS;	/* one move suffices */
	shape.slice_buckets = (uint32_t) (slices < most ? slices : most);
	shape.wanted = (uint32_t) (wanted < most ? wanted : most);

	/*
	 * A span has at least 30 samples, so that its share is known to about a
	 * fifth.  Rounding up may add a bucket to each span.
	 */
	shape.quantiles = shape.wanted / 4;
	if (shape.quantiles > MAX_SPANS / 2)
		shape.quantiles = MAX_SPANS / 2;
	if (shape.quantiles < 8)
		shape.quantiles = 8;
	wanted += shape.quantiles + shape.quantiles / 4 + 8;
	shape.buckets = (uint32_t) (wanted < most ? wanted : most);

	shape.packed = shape.buckets > MAX_WORD_BUCKETS || shape.buckets > counters / 2;
	shape.counts_size = (uint32_t) div_up(shape.buckets, 4 * HISTOGRAM_THREADS) *
		4 * HISTOGRAM_THREADS;
	shape.fine_bits = -1;
	shape.coarse = 0;
	if (slices > PARTITION_MAX_BINS)
	{
		/* fine buckets per coarse one about as many as coarse buckets */
		shape.fine_bits = 5;
		while ((shape.buckets >> shape.fine_bits) > (3u << shape.fine_bits) / 2)
			shape.fine_bits++;
		shape.coarse = (uint32_t) div_up(shape.buckets, 1u << shape.fine_bits);
	}
	return shape;
}

/*
 * Do moves carry rids?  They decide between equal keys, unless keys are equal
 * in all bits and rids are not an output.
 */
static bool
carries_rids(const GpusortProblem *problem)
{
	return wants_rids(problem) || problem->begin_bit > 0 || problem->end_bit < problem->key_width;
}

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
template <class K> static BucketMemory<K>
cut_memory(const GpusortProblem *problem, const BucketShape &shape, void *scratch)
{
	BucketMemory<K> memory;
	ScratchCutter cutter(scratch);
	uint64_t	segments = problem->n / BLOCK_SORT_CAPACITY + 1;
	uint64_t	later_buckets = segments * segment_bins(BLOCK_SORT_CAPACITY);
	uint64_t	buckets = later_buckets;
	bool		rids = carries_rids(problem);

	if (buckets < shape.counts_size)
		buckets = shape.counts_size;
	memory.keys[1] = cutter.take<K>(problem->n);
	memory.rids[1] = rids ? cutter.take<uint32_t>(problem->n) : NULL;
	memory.keys[0] = take_sorted_keys<K>(problem, &cutter);
	memory.rids[0] = wants_rids(problem) ? problem->rids_out :
		rids ? cutter.take<uint32_t>(problem->n) : NULL;

	/* a single move must not write the array that its tiles read */
	memory.round_one = shape.fine_bits < 0 && memory.keys[0] == problem->keys;
	memory.plan = cutter.take<BucketPlan>(1);
	memory.counts = cutter.take<uint32_t>(buckets);
	memory.bucket_start = cutter.take<uint32_t>(buckets + 1);
	memory.quantiles = cutter.take<QuantileMap<K>>(1);
	memory.tags = cutter.take<uint16_t>(shape.counts_size);
	memory.coarse_cursor = cutter.take<uint32_t>(MAX_COARSE);
	memory.coarse_first_tile = cutter.take<uint32_t>(MAX_COARSE);
	memory.coarse_segments = cutter.take<Segment<K>>(MAX_COARSE);
	memory.piece_start = cutter.take<uint32_t>(problem->n / PIECE + 2);
	memory.edges = cutter.take<K>(2 * (problem->n / PIECE + 1));
	memory.bounds = cutter.take<K>(2 * later_buckets);
	memory.splitters = cutter.take<Splitters<K>>(segments);
	for (int i = 0; i < 2; i++)
	{
		memory.first_tile[i] = cutter.take<uint32_t>(segments);
		memory.segments[i] = cutter.take<Segment<K>>(segments);
	}
	memory.bytes = cutter.used;
	return memory;
}

/* ------------------------------------------------------------------------
 * Launches
 * ------------------------------------------------------------------------
 */
/* Upper bound of rounds: each round at least halves a segment. */
#define MAX_ROUNDS			40

/* Most keys that one block sorts faster than several. */
#define MAX_ONE_BLOCK		(1u << 13)

static_assert(MAX_ONE_BLOCK <= LARGE_SORT_CAPACITY, "they fit");

/* Arguments that all block sorts of a problem have in common. */
template <class K> static BlockSortArgs<K>
block_sort_args(const GpusortProblem *problem)
{
	BlockSortArgs<K> args;
	bool		ascending = problem->rids && (problem->facts & GPUSORT_FACT_RIDS_ASCENDING);

	memset(&args, 0, sizeof(args));
	args.keys_out = wants_keys(problem) ? static_cast<K *>(problem->keys_out) : NULL;
	args.rids_out = wants_rids(problem) ? problem->rids_out : NULL;
	args.rid_table = ascending ? NULL : problem->rids;
	args.bits = key_bits<K>(problem);
	args.n = (uint32_t) problem->n;
	args.input_keys = static_cast<const K *>(problem->keys);
	args.input_rids = problem->rids;
	return args;
}

/* Launches the block sort of count buckets. */
template <class K, bool RIDS, bool SKEWED> static GpusortStatus
sort_buckets(SortRun *run, const BlockSortArgs<K> &sort, uint32_t count)
{
	size_t		shared = block_sort_shared<BLOCK_SORT_THREADS, BLOCK_SORT_ITEMS,
		BLOCK_SORT_BIN_BITS>();

	if (SKEWED && shared < pair_room_bytes<K>(BLOCK_SORT_CAPACITY))
		shared = pair_room_bytes<K>(BLOCK_SORT_CAPACITY);
	LAUNCH(run, (block_sort_kernel<K, RIDS, BLOCK_SORT_THREADS, BLOCK_SORT_ITEMS,
				 BLOCK_SORT_BIN_BITS, 2, SKEWED>), count, BLOCK_SORT_THREADS, shared, sort);
	return GPUSORT_OK;
}

/*
 * Divides and sorts segments until none is left.  from: index of the arrays
 * that hold the segments' keys.  Each round blocks until its plan has reached
 * the host.
 */
template <class K, bool RIDS> static GpusortStatus
run_later_rounds(SortRun *run, const BucketMemory<K> &memory, int from)
{
	const GpusortProblem *problem = run->problem;
	const volatile uint32_t *readback = run->stream->readback;
	KeyBits<K>	bits = key_bits<K>(problem);
	BlockSortArgs<K> sort = block_sort_args<K>(problem);

	for (int round = 0; readback[READBACK_SEGMENTS] > 0; round++)
	{
		const K    *keys = memory.keys[from];
		const uint32_t *rids = memory.rids[from];
		const Segment<K> *segments = memory.segments[round % 2];
		const uint32_t *first_tile = memory.first_tile[round % 2];
		NextRound  *next = &memory.plan->next[(round + 1) % 2];
		uint32_t	count = readback[READBACK_SEGMENTS];
		uint32_t	tiles = readback[READBACK_TILES];
		uint32_t	buckets = readback[READBACK_BUCKETS];
		uint32_t	sequence_number = next_sequence_number(run);
		PartitionArgs<K> move = {};

		if (round == MAX_ROUNDS)
			return gpusort_fail(run->err, GPUSORT_INTERNAL, __FILE__, __LINE__,
								"%u buckets left after %d rounds",
					 count, round);
		TRY(clear_device(run, memory.counts, buckets * sizeof(uint32_t)));
		LAUNCH(run, (segment_sample_kernel<K, RIDS>), count, SEGMENT_THREADS, 0, keys,
			   rids, bits, segments, memory.splitters, next);
		LAUNCH(run, (segment_histogram_kernel<K, RIDS>), tiles, PARTITION_THREADS, 0,
			   keys, rids, bits, segments, memory.splitters, first_tile, count,
			   memory.counts);
		LAUNCH(run, segment_plan_kernel<K>, count, SEGMENT_THREADS, 0, segments,
			   memory.splitters, memory.counts, memory.bucket_start, memory.bounds, next,
			   memory.segments[(round + 1) % 2], memory.first_tile[(round + 1) % 2],
			   &memory.plan->blocks_done, run->stream->readback, sequence_number);
		move.keys = keys;
		move.rids = rids;
		move.keys_out = memory.keys[1 - from];
		move.rids_out = memory.rids[1 - from];
		move.bits = bits;
		move.segments = segments;
		move.first_tile = first_tile;
		move.segment_count = count;
		move.tiles = tiles;
		move.cursor = memory.counts;
		move.bins = SEGMENT_THREADS;
		move.splitters = memory.splitters;
		LAUNCH(run, (partition_kernel<K, RIDS, BY_SPLITTERS>), tiles, PARTITION_THREADS,
			   (partition_shared<K, RIDS>()), move);
		from = 1 - from;
		sort.keys = memory.keys[from];
		sort.rids = memory.rids[from];
		sort.bounds = memory.bounds;
		sort.bucket_start = memory.bucket_start;
		sort.bucket_end = memory.counts;
		TRY((sort_buckets<K, RIDS, true>(run, sort, buckets)));
		run->result->passes += 2;
		TRY(wait_for_readback(run, sequence_number));
	}
	return GPUSORT_OK;
}

/*
 * Launches round one's moves and block sorts.  order not NULL: the kernels read
 * it, and only copy an ordered input.
 */
template <class K, bool RIDS, bool SKEWED> static GpusortStatus
move_and_sort(SortRun *run, const BucketShape &shape, const BucketMemory<K> &memory,
			  const uint32_t *order)
{
	constexpr PartitionMap MAP = SKEWED ? BY_QUANTILES : BY_SLICES;
	const GpusortProblem *problem = run->problem;
	BlockSortArgs<K> sort = block_sort_args<K>(problem);
	PartitionArgs<K> move = {};

	move.keys = static_cast<const K *>(problem->keys);
	if (problem->rids && (problem->facts & GPUSORT_FACT_RIDS_ASCENDING))
		move.rids = problem->rids;
	move.keys_out = memory.keys[memory.round_one];
	move.rids_out = memory.rids[memory.round_one];
	move.bits = key_bits<K>(problem);
	move.segments = memory.segments[1];
	move.first_tile = memory.first_tile[1];
	move.segment_count = 1;
	move.tiles = (uint32_t) div_up(problem->n, partition_tile<K>());
	move.cursor = memory.counts;
	move.bins = shape.buckets;
	move.digit_mask = ~0u;
	move.quantiles = memory.quantiles;
	move.skip = order;
	if (shape.fine_bits >= 0)
	{
		move.keys_out = memory.keys[1];
		move.rids_out = memory.rids[1];
		move.cursor = memory.coarse_cursor;
		move.bins = shape.coarse;
		move.digit_shift = shape.fine_bits;
		LAUNCH(run, (partition_kernel<K, RIDS, MAP>), move.tiles, PARTITION_THREADS,
			   (partition_shared<K, RIDS>()), move);
		run->result->passes++;
		move.keys = memory.keys[1];
		move.rids = memory.rids[1];
		move.keys_out = memory.keys[0];
		move.rids_out = memory.rids[0];
		move.segments = memory.coarse_segments;
		move.first_tile = memory.coarse_first_tile;
		move.segment_count = shape.coarse;
		move.tiles += shape.coarse;
		move.tile_count = &memory.plan->fine_tiles;
		move.cursor = memory.counts;
		move.bins = 1u << shape.fine_bits;
		move.digit_shift = 0;
		move.digit_mask = move.bins - 1;
	}
	LAUNCH(run, (partition_kernel<K, RIDS, MAP>), move.tiles, PARTITION_THREADS,
		   (partition_shared<K, RIDS>()), move);

	sort.keys = memory.keys[memory.round_one];
	sort.rids = memory.rids[memory.round_one];
	sort.bucket_start = memory.bucket_start;
	sort.bucket_end = memory.counts;
	sort.order = order;
	sort.map = &memory.segments[1]->map;
	sort.quantiles = memory.quantiles;
	sort.tags = memory.tags;
	TRY((sort_buckets<K, RIDS, SKEWED>(run, sort, SKEWED ? shape.buckets
									   : shape.slice_buckets)));
	run->result->passes += 2;
	return GPUSORT_OK;
}

/* Sorts a nearly sorted input in pieces.  *done: the result is in order. */
template <class K, bool RIDS> static GpusortStatus
sort_pieces(SortRun *run, const BucketMemory<K> &memory, bool *done)
{
	const GpusortProblem *problem = run->problem;
	const volatile uint32_t *readback = run->stream->readback;
	BlockSortArgs<K> sort = block_sort_args<K>(problem);
	uint32_t	n = (uint32_t) problem->n;
	uint32_t	pieces = (uint32_t) div_up(n, PIECE);
	uint32_t	sequence_number = next_sequence_number(run);

	*done = false;
	LAUNCH(run, cut_kernel<K>, div_up(pieces, CUT_THREADS / 32), CUT_THREADS, 0,
		   sort.input_keys, n, sort.bits, pieces, memory.piece_start, memory.plan,
		   run->stream->readback, sequence_number);
	TRY(wait_for_readback(run, sequence_number));
	if (readback[READBACK_ORDER] != INPUT_NEARLY_SORTED)
		return GPUSORT_OK;
	sort.keys = sort.input_keys;
	sort.rids = sort.rid_table ? NULL : problem->rids;
	sort.bucket_start = memory.piece_start;
	sort.bucket_end = memory.piece_start + 1;
	sort.edges = memory.edges;
	TRY((sort_buckets<K, RIDS, false>(run, sort, pieces)));
	sequence_number = next_sequence_number(run);
	LAUNCH(run, check_edges_kernel<K>, div_up(pieces, CUT_THREADS), CUT_THREADS, 0,
		   memory.edges, pieces, memory.plan, run->stream->readback, sequence_number);
	TRY(wait_for_readback(run, sequence_number));
	*done = readback[READBACK_ORDER] == INPUT_NEARLY_SORTED;
	return GPUSORT_OK;
}

/*
 * Runs all that follows the histogram, which reports with that sequence number.
 */
template <class K, bool RIDS, bool SKEWED> static GpusortStatus
finish_buckets(SortRun *run, const BucketShape &shape, const BucketMemory<K> &memory,
			   uint32_t sequence_number)
{
	uint32_t	order;

	TRY((move_and_sort<K, RIDS, SKEWED>(run, shape, memory, &memory.plan->order)));
	TRY(wait_for_readback(run, sequence_number));
	order = run->stream->readback[READBACK_ORDER];
	if (order == INPUT_NEARLY_SORTED)
	{
		bool		done;

		TRY((sort_pieces<K, RIDS>(run, memory, &done)));
		run->result->passes = 1;
		if (done)
			return GPUSORT_OK;
		TRY((move_and_sort<K, RIDS, SKEWED>(run, shape, memory, NULL)));
	}
	else if (order != INPUT_UNORDERED)
	{
		run->result->passes = 0;
		run->result->shortcut = order == INPUT_SORTED
			? GPUSORT_SHORTCUT_SORTED : GPUSORT_SHORTCUT_REVERSED;
		return GPUSORT_OK;
	}
	return run_later_rounds<K, RIDS>(run, memory, memory.round_one);
}

/*
 * Sorts by buckets.  may_sample_sort: skewed keys go to sample sort.  Blocks
 * until the sample and the plan have reached the host.
 */
template <class K, bool RIDS> static GpusortStatus
run_buckets(SortRun *run, bool may_sample_sort)
{
	const GpusortProblem *problem = run->problem;
	uint32_t	n = (uint32_t) problem->n;
	BucketShape shape = bucket_shape(run->device, n);
	BucketMemory<K> memory = cut_memory<K>(problem, shape, problem->scratch);
	SampleArgs<K> sample = {};
	HistogramArgs<K> histogram = {};
	size_t		shared = shape.packed ? (shape.buckets + 1) / 2 * sizeof(uint32_t)
		: shape.buckets * sizeof(uint32_t);
	uint32_t	blocks = (uint32_t) div_up(n, HISTOGRAM_THREADS * 16 / sizeof(K) *
											 HISTOGRAM_UNROLL);
	uint32_t	skewed;
	bool		done;

	if (blocks > (uint32_t) run->device->multiprocessors)
		blocks = run->device->multiprocessors;
	histogram.keys = static_cast<const K *>(problem->keys);
	histogram.n = n;
	histogram.bits = key_bits<K>(problem);
	if (problem->rids && (problem->facts & GPUSORT_FACT_RIDS_ASCENDING))
		histogram.rids = problem->rids;
	histogram.segment = memory.segments[1];
	histogram.quantiles = memory.quantiles;
	histogram.tags = memory.tags;
	histogram.split_equal = RIDS;
	histogram.buckets = shape.buckets;
	histogram.counts_size = shape.counts_size;
	histogram.counts = memory.counts;
	histogram.bucket_start = memory.bucket_start;
	histogram.plan = memory.plan;
	histogram.fine_bits = shape.fine_bits;
	histogram.coarse = shape.coarse;
	histogram.coarse_cursor = memory.coarse_cursor;
	histogram.coarse_segments = memory.coarse_segments;
	histogram.coarse_first_tile = memory.coarse_first_tile;
	histogram.next_segments = memory.segments[0];
	histogram.next_first_tile = memory.first_tile[0];
	histogram.readback = run->stream->readback;
	sample.sequence_number = next_sequence_number(run);
	histogram.sequence_number = next_sequence_number(run);

	sample.keys = histogram.keys;
	sample.rids = histogram.rids;
	sample.n = n;
	sample.bits = histogram.bits;
	sample.range_known = (problem->facts & GPUSORT_FACT_KEY_RANGE) != 0;
	if (sample.range_known)
	{
		sample.lo = narrow_key<K>(problem->key_min);
		sample.hi = narrow_key<K>(problem->key_max);
	}
	sample.slice_buckets = shape.slice_buckets;
	sample.buckets = shape.buckets;
	sample.wanted = shape.wanted;
	sample.quantiles = shape.quantiles;
	sample.equal_samples = (uint32_t)
		((uint64_t) MIN_EQUAL_KEYS * (n <= MAX_FEW_SAMPLES ? samples<FEW_SAMPLE_ITEMS>()
								  : samples<SAMPLE_ITEMS>()) / n);
	if (sample.equal_samples < MIN_EQUAL_SAMPLES)
		sample.equal_samples = MIN_EQUAL_SAMPLES;
	sample.split_equal = RIDS;
	sample.may_sample_sort = may_sample_sort;
	sample.segment = memory.segments[1];
	sample.first_tile = memory.first_tile[1];
	sample.map = memory.quantiles;
	sample.tags = memory.tags;
	sample.plan = memory.plan;
	sample.counts = memory.counts;
	sample.counts_size = shape.counts_size;
	sample.readback = run->stream->readback;

	if (n <= MAX_FEW_SAMPLES)
		LAUNCH(run, (sample_kernel<K, FEW_SAMPLE_ITEMS>), 1, SAMPLE_THREADS,
			   sample_shared<FEW_SAMPLE_ITEMS>(), sample);
	else
		LAUNCH(run, (sample_kernel<K, SAMPLE_ITEMS>), 1, SAMPLE_THREADS,
			   sample_shared<SAMPLE_ITEMS>(), sample);
	if (shape.packed)
		LAUNCH(run, (histogram_kernel<K, true>), blocks, HISTOGRAM_THREADS, shared,
			   histogram);
	else
		LAUNCH(run, (histogram_kernel<K, false>), blocks, HISTOGRAM_THREADS, shared,
			   histogram);

	/*
	 * the sample chooses the next kernels; the histogram runs while the host
	 * waits
	 */
	TRY(wait_for_readback(run, sample.sequence_number));
	skewed = run->stream->readback[READBACK_SKEWED];
	if (skewed == SKEWED_SAMPLE_SORT && may_sample_sort)
	{
		TRY(run_sample_sort<K>(run, &done));
		return done ? GPUSORT_OK : run_buckets<K, RIDS>(run, false);
	}
	return skewed ? finish_buckets<K, RIDS, true>(run, shape, memory, histogram.sequence_number)
		: finish_buckets<K, RIDS, false>(run, shape, memory, histogram.sequence_number);
}

/* Chooses the method by the number of keys. */
template <class K, bool RIDS> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortProblem *problem = run->problem;

	if (problem->n <= MAX_ONE_BLOCK)
	{
		BlockSortArgs<K> sort = block_sort_args<K>(problem);

		sort.keys = sort.input_keys;
		sort.rids = sort.rid_table ? NULL : problem->rids;
		run->result->passes = 1;
		if (problem->n <= BLOCK_SORT_CAPACITY)
			return sort_buckets<K, RIDS, false>(run, sort, 1);
		if (block_sort_shared<LARGE_SORT_THREADS, LARGE_SORT_ITEMS,
			LARGE_SORT_BIN_BITS>() + RESERVED_SHARED <= (size_t) run->device->max_shared)
		{
			LAUNCH(run, (block_sort_kernel<K, RIDS, LARGE_SORT_THREADS, LARGE_SORT_ITEMS,
						 LARGE_SORT_BIN_BITS, 1, false>), 1, LARGE_SORT_THREADS,
				   (block_sort_shared<LARGE_SORT_THREADS, LARGE_SORT_ITEMS,
					LARGE_SORT_BIN_BITS>()), sort);
			return GPUSORT_OK;
		}
	}
	if (problem->n <= SAMPLE_SORT_MAX_ONCE)
	{
		bool		done;

		TRY(run_sample_sort<K>(run, &done));
		return done ? GPUSORT_OK : run_buckets<K, RIDS>(run, false);
	}
	return run_buckets<K, RIDS>(run, problem->n <= sample_sort_max<K>(problem));
}

/* bucket.cuh declares these three functions. */
template <class K> uint64_t
bucket_scratch(const DeviceTraits *device, const GpusortProblem *problem)
{
	uint64_t	n = problem->n < sample_sort_max<K>(problem) ? problem->n : sample_sort_max<K>(problem);
	uint64_t	bytes = cut_memory<K>(problem, bucket_shape(device, problem->n), NULL).bytes;
	uint64_t	sample_sort_bytes = cut_sample_sort_memory(n, NULL).bytes;

	return bytes > sample_sort_bytes ? bytes : sample_sort_bytes;
}

template <class K> bool
bucket_fits(const DeviceTraits *device)
{
	return partition_shared<K, true>() + RESERVED_SHARED <= (size_t) device->max_shared &&
		sample_shared<SAMPLE_ITEMS>() + RESERVED_SHARED <= (size_t) device->max_shared;
}

template <class K> GpusortStatus
bucket_run(SortRun *run)
{
	return carries_rids(run->problem) ? run_for<K, true>(run) : run_for<K, false>(run);
}

#endif							/* GPUSORT_BUCKET_SORT_CUH */
