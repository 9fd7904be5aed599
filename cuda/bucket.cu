/*
 * bucket.cu
 *	  gpu_bucket: buckets until they fit shared memory, then a sort of each there.
 *
 * Chen, Qin, Xie, Zhao, He, "A fast and flexible sorting algorithm with CUDA"
 * (2009): slices of equal width between the least and the greatest key are
 * counted, joined to buckets that fit one multiprocessor's shared memory, and
 * sorted there; a bucket that is too large goes round again.  Differences:
 *
 *	- The counts of up to 2^16 buckets come from one pass over the keys, so that
 *	  buckets need no joining; keys move to them in one pass, or in two
 *	  (coarse bucket, fine bucket) where one would write runs too short.
 *	- A bucket that is too large goes round again with splitters from a sample
 *	  instead of slices: a distribution that defeated slices once would do so again.
 *	- Inside a bucket the same idea is applied once more, with a bin for every
 *	  key, instead of a bitonic network (block_sort.cuh).
 *	- The rid decides between equal keys, so the result is stable although no
 *	  move is.  Where rids are given that do not ascend, positions take their
 *	  place and the rids are looked up at the end.
 *	- Input in order, or in strictly falling order, is noticed while counting, and
 *	  input nearly in order is sorted where it lies (bucket_pieces.cuh).  Chen's
 *	  remedy for the latter, another order of threads, is not needed: counters are
 *	  in shared memory and a warp adds to a common one once.
 *
 * Whatever the width of the key, it is read once to count, and read and
 * written two or three times; an LSD radix sort moves a 64-bit key eight times.
 *
 * Memory: one more copy of keys and rids in scratch, another of the keys if
 * they are not wanted as output, and 12 bytes for each of at most 2^16
 * buckets.  Later rounds may need about a twentieth of the input more.
 *
 * Errors: nothing but a status; outputs are undefined then.
 */
#include <string.h>

#include "bucket_pieces.cuh"
#include "bucket_plan.cuh"
#include "bucket_rounds.cuh"
#include "buffer.cuh"

/* No input needs so many: a round divides a bucket by two at the very least. */
#define MAX_ROUNDS			40

/* Room for the kernels' static shared memory beside the dynamic. */
#define RESERVED_SHARED		(16 * 1024)

/* How the sort of one job is laid out in memory. */
template <class K> struct BucketMemory
{
	K		   *keys[2];		/* 0: the outputs or what stands for them; 1: scratch */
	uint32_t   *rids[2];
	BucketPlan *plan;
	uint32_t   *counts;
	uint32_t   *bucket_start;
	uint32_t   *coarse_cursor;
	uint32_t   *first_tile[2];	/* of even and odd rounds */
	Segment<K> *segments[2];
	uint32_t   *coarse_first_tile;
	Segment<K> *coarse_segments;
	Splitters<K> *splitters;	/* of a later round's segments */
	K		   *bounds;			/* two for each of its buckets */
	uint32_t   *piece_start;
	K		   *edges;			/* two for each piece */
	uint64_t	bytes;
};

/* Round one's shape: a function of n alone. */
struct BucketShape
{
	uint32_t	buckets;
	uint32_t	counts_size;
	int			fine_bits;		/* < 0: one pass */
	uint32_t	coarse;
};

static BucketShape
bucket_shape(uint64_t n)
{
	BucketShape shape;
	uint64_t	buckets = n / MOSTLY_FULL + 4;

	shape.buckets = (uint32_t) (buckets < MAX_BUCKETS ? buckets : MAX_BUCKETS);
	shape.counts_size = (uint32_t) div_up(shape.buckets, 4 * HISTOGRAM_THREADS) *
		4 * HISTOGRAM_THREADS;
	shape.fine_bits = -1;
	shape.coarse = 0;
	if (shape.buckets > PARTITION_MAX_BINS)
	{
		/* both passes about equally many ways */
		shape.fine_bits = 5;
		while ((shape.buckets >> shape.fine_bits) > (1u << shape.fine_bits))
			shape.fine_bits++;
		shape.coarse = (uint32_t) div_up(shape.buckets, 1u << shape.fine_bits);
	}
	return shape;
}

/* Equal keys are told apart unless they are equal in every bit and rids unwanted. */
static bool
carries_rids(const GpusortJob *job)
{
	return wants_rids(job) || job->begin_bit > 0 || job->end_bit < job->key_bits;
}

template <class K> static BucketMemory<K>
cut_memory(const GpusortJob *job, const BucketShape &shape, void *scratch)
{
	BucketMemory<K> memory;
	ScratchCutter cutter(scratch);
	uint64_t	segments = job->n / BLOCK_SORT_CAPACITY + 1;
	uint64_t	later_buckets = job->n / (MOSTLY_FULL / 2) * 2 + 4 * segments;
	uint64_t	buckets = later_buckets;
	bool		rids = carries_rids(job);

	if (buckets < shape.counts_size)
		buckets = shape.counts_size;
	memory.keys[1] = cutter.take<K>(job->n);
	memory.rids[1] = rids ? cutter.take<uint32_t>(job->n) : NULL;
	if (wants_keys(job))
		memory.keys[0] = static_cast<K *>(job->keys_out);
	else if (job->facts & GPUSORT_JOB_CLOBBER_INPUT)
		memory.keys[0] = static_cast<K *>(const_cast<void *>(job->keys));
	else
		memory.keys[0] = cutter.take<K>(job->n);
	memory.rids[0] = wants_rids(job) ? job->rids_out :
		rids ? cutter.take<uint32_t>(job->n) : NULL;
	memory.plan = cutter.take<BucketPlan>(1);
	memory.counts = cutter.take<uint32_t>(buckets);
	memory.bucket_start = cutter.take<uint32_t>(buckets + 1);
	memory.coarse_cursor = cutter.take<uint32_t>(MAX_COARSE);
	memory.coarse_first_tile = cutter.take<uint32_t>(MAX_COARSE);
	memory.coarse_segments = cutter.take<Segment<K>>(MAX_COARSE);
	memory.piece_start = cutter.take<uint32_t>(job->n / PIECE + 2);
	memory.edges = cutter.take<K>(2 * (job->n / PIECE + 1));
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

static const char *
why_not(const DeviceTraits *device, const GpusortJob *job)
{
	size_t		shared = partition_shared<Key128, true>();

	if (job->n > UINT32_MAX)
		return "more than 2^32 - 1 rows";
	if ((size_t) device->max_shared < shared + RESERVED_SHARED)
		return "the device's shared memory is too small";
	return NULL;
}

template <class K> static uint64_t
scratch_for(const GpusortJob *job)
{
	return cut_memory<K>(job, bucket_shape(job->n), NULL).bytes;
}

static uint64_t
scratch(const DeviceTraits *, const GpusortJob *job)
{
	return job->key_bits == 32 ? scratch_for<uint32_t>(job) :
		job->key_bits == 64 ? scratch_for<uint64_t>(job) : scratch_for<Key128>(job);
}

/* What every block sort of the job has in common. */
template <class K> static BlockSortArgs<K>
block_sort_args(const GpusortJob *job)
{
	BlockSortArgs<K> args;
	bool		ascending = job->rids && (job->facts & GPUSORT_FACT_RIDS_ASCENDING);

	memset(&args, 0, sizeof(args));
	args.keys_out = wants_keys(job) ? static_cast<K *>(job->keys_out) : NULL;
	args.rids_out = wants_rids(job) ? job->rids_out : NULL;
	args.rid_table = ascending ? NULL : job->rids;
	args.bits = key_bits<K>(job);
	args.n = (uint32_t) job->n;
	args.input_keys = static_cast<const K *>(job->keys);
	args.input_rids = job->rids;
	return args;
}

/* Sorts each of count buckets in shared memory. */
template <class K, bool RIDS> static GpusortStatus
sort_buckets(SortRun *run, const BlockSortArgs<K> &sort, uint32_t count)
{
	LAUNCH(run, (block_sort_kernel<K, RIDS, BLOCK_SORT_THREADS, BLOCK_SORT_ITEMS,
				 BLOCK_SORT_BIN_BITS, 2>), count, BLOCK_SORT_THREADS,
		   (block_sort_shared<BLOCK_SORT_THREADS, BLOCK_SORT_ITEMS,
			BLOCK_SORT_BIN_BITS>()), sort);
	return GPUSORT_OK;
}

template <class K, bool RIDS> static GpusortStatus
run_later_rounds(SortRun *run, const BucketMemory<K> &memory, int from)
{
	const GpusortJob *job = run->job;
	const volatile uint32_t *mailbox = run->stream->mailbox;
	KeyBits<K>	bits = key_bits<K>(job);
	BlockSortArgs<K> sort = block_sort_args<K>(job);

	for (int round = 0; mailbox[MAIL_SEGMENTS] > 0; round++)
	{
		const K    *keys = memory.keys[from];
		const uint32_t *rids = memory.rids[from];
		const Segment<K> *segments = memory.segments[round % 2];
		const uint32_t *first_tile = memory.first_tile[round % 2];
		NextRound  *next = &memory.plan->next[(round + 1) % 2];
		uint32_t	count = mailbox[MAIL_SEGMENTS];
		uint32_t	tiles = mailbox[MAIL_TILES];
		uint32_t	buckets = mailbox[MAIL_BUCKETS];
		uint32_t	ticket = next_ticket(run);
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
			   &memory.plan->blocks_done, run->stream->mailbox, ticket);
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
		LAUNCH(run, (partition_kernel<K, RIDS, true>), tiles, PARTITION_THREADS,
			   (partition_shared<K, RIDS>()), move);
		from = 1 - from;
		sort.keys = memory.keys[from];
		sort.rids = memory.rids[from];
		sort.bounds = memory.bounds;
		sort.bucket_start = memory.bucket_start;
		sort.bucket_end = memory.counts;
		TRY((sort_buckets<K, RIDS>(run, sort, buckets)));
		run->result->passes += 2;
		TRY(wait_for_mail(run, ticket));
	}
	return GPUSORT_OK;
}

/*
 * Round one's moves and sorts.  The kernels do nothing but copy if *order says
 * that the input is in order; NULL says that it is not.
 */
template <class K, bool RIDS> static GpusortStatus
move_and_sort(SortRun *run, const BucketShape &shape, const BucketMemory<K> &memory,
			  const uint32_t *order)
{
	const GpusortJob *job = run->job;
	BlockSortArgs<K> sort = block_sort_args<K>(job);
	PartitionArgs<K> move = {};

	move.keys = static_cast<const K *>(job->keys);
	if (job->rids && (job->facts & GPUSORT_FACT_RIDS_ASCENDING))
		move.rids = job->rids;
	move.keys_out = memory.keys[0];
	move.rids_out = memory.rids[0];
	move.bits = key_bits<K>(job);
	move.segments = memory.segments[1];
	move.first_tile = memory.first_tile[1];
	move.segment_count = 1;
	move.tiles = (uint32_t) div_up(job->n, partition_tile<K>());
	move.cursor = memory.counts;
	move.bins = shape.buckets;
	move.digit_mask = ~0u;
	move.skip = order;
	if (shape.fine_bits >= 0)
	{
		move.keys_out = memory.keys[1];
		move.rids_out = memory.rids[1];
		move.cursor = memory.coarse_cursor;
		move.bins = shape.coarse;
		move.digit_shift = shape.fine_bits;
		LAUNCH(run, (partition_kernel<K, RIDS, false>), move.tiles, PARTITION_THREADS,
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
	LAUNCH(run, (partition_kernel<K, RIDS, false>), move.tiles, PARTITION_THREADS,
		   (partition_shared<K, RIDS>()), move);

	sort.keys = memory.keys[0];
	sort.rids = memory.rids[0];
	sort.bucket_start = memory.bucket_start;
	sort.bucket_end = memory.counts;
	sort.order = order;
	sort.map = &memory.segments[1]->map;
	TRY((sort_buckets<K, RIDS>(run, sort, shape.buckets)));
	run->result->passes += 2;
	return GPUSORT_OK;
}

/* Tries to sort the input piece by piece; *done says whether it came out right. */
template <class K, bool RIDS> static GpusortStatus
sort_pieces(SortRun *run, const BucketMemory<K> &memory, bool *done)
{
	const GpusortJob *job = run->job;
	const volatile uint32_t *mailbox = run->stream->mailbox;
	BlockSortArgs<K> sort = block_sort_args<K>(job);
	uint32_t	n = (uint32_t) job->n;
	uint32_t	pieces = (uint32_t) div_up(n, PIECE);
	uint32_t	ticket = next_ticket(run);

	*done = false;
	LAUNCH(run, cut_kernel<K>, div_up(pieces, CUT_THREADS / 32), CUT_THREADS, 0,
		   sort.input_keys, n, sort.bits, pieces, memory.piece_start, memory.plan,
		   run->stream->mailbox, ticket);
	TRY(wait_for_mail(run, ticket));
	if (mailbox[MAIL_ORDER] != INPUT_NEARLY_SORTED)
		return GPUSORT_OK;
	sort.keys = sort.input_keys;
	sort.rids = sort.rid_table ? NULL : job->rids;
	sort.bucket_start = memory.piece_start;
	sort.bucket_end = memory.piece_start + 1;
	sort.edges = memory.edges;
	TRY((sort_buckets<K, RIDS>(run, sort, pieces)));
	ticket = next_ticket(run);
	LAUNCH(run, check_edges_kernel<K>, div_up(pieces, CUT_THREADS), CUT_THREADS, 0,
		   memory.edges, pieces, memory.plan, run->stream->mailbox, ticket);
	TRY(wait_for_mail(run, ticket));
	*done = mailbox[MAIL_ORDER] == INPUT_NEARLY_SORTED;
	return GPUSORT_OK;
}

template <class K, bool RIDS> static GpusortStatus
run_buckets(SortRun *run)
{
	const GpusortJob *job = run->job;
	uint32_t	n = (uint32_t) job->n;
	BucketShape shape = bucket_shape(n);
	BucketMemory<K> memory = cut_memory<K>(job, shape, job->scratch);
	HistogramArgs<K> histogram = {};
	uint32_t	order;
	bool		packed = shape.buckets > MAX_BUCKETS / 2;
	bool		known = (job->facts & GPUSORT_FACT_KEY_RANGE) != 0;
	size_t		shared = packed ? (shape.buckets + 1) / 2 * sizeof(uint32_t)
		: shape.buckets * sizeof(uint32_t);
	uint32_t	blocks = (uint32_t) div_up(n, HISTOGRAM_THREADS * 16 / sizeof(K) *
											 HISTOGRAM_UNROLL);

	if (blocks > (uint32_t) run->device->multiprocessors)
		blocks = run->device->multiprocessors;
	histogram.keys = static_cast<const K *>(job->keys);
	histogram.n = n;
	histogram.bits = key_bits<K>(job);
	histogram.segment = memory.segments[1];
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
	histogram.mailbox = run->stream->mailbox;
	histogram.ticket = next_ticket(run);

	LAUNCH(run, sample_kernel<K>, 1, HISTOGRAM_THREADS, 0, histogram.keys, n,
		   histogram.bits, known, known ? narrow_key<K>(job->key_min) : K(0),
		   known ? narrow_key<K>(job->key_max) : K(0), shape.buckets,
		   memory.segments[1], memory.first_tile[1], memory.plan, memory.counts,
		   shape.counts_size);
	if (packed)
		LAUNCH(run, (histogram_kernel<K, true>), blocks, HISTOGRAM_THREADS, shared,
			   histogram);
	else
		LAUNCH(run, (histogram_kernel<K, false>), blocks, HISTOGRAM_THREADS, shared,
			   histogram);

	TRY((move_and_sort<K, RIDS>(run, shape, memory, &memory.plan->order)));
	TRY(wait_for_mail(run, histogram.ticket));
	order = run->stream->mailbox[MAIL_ORDER];
	if (order == INPUT_NEARLY_SORTED)
	{
		bool		done;

		TRY((sort_pieces<K, RIDS>(run, memory, &done)));
		run->result->passes = 1;
		if (done)
			return GPUSORT_OK;
		TRY((move_and_sort<K, RIDS>(run, shape, memory, NULL)));
	}
	else if (order != INPUT_UNORDERED)
	{
		run->result->passes = 0;
		run->result->shortcut = run->stream->mailbox[MAIL_ORDER] == INPUT_SORTED
			? GPUSORT_SHORTCUT_SORTED : GPUSORT_SHORTCUT_REVERSED;
		return GPUSORT_OK;
	}
	return run_later_rounds<K, RIDS>(run, memory, 0);
}

template <class K, bool RIDS> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortJob *job = run->job;

	if (job->n <= LARGE_SORT_CAPACITY)
	{
		BlockSortArgs<K> sort = block_sort_args<K>(job);

		sort.keys = sort.input_keys;
		sort.rids = sort.rid_table ? NULL : job->rids;
		run->result->passes = 1;
		if (job->n <= BLOCK_SORT_CAPACITY)
			return sort_buckets<K, RIDS>(run, sort, 1);
		if (block_sort_shared<LARGE_SORT_THREADS, LARGE_SORT_ITEMS,
			LARGE_SORT_BIN_BITS>() + RESERVED_SHARED <= (size_t) run->device->max_shared)
		{
			LAUNCH(run, (block_sort_kernel<K, RIDS, LARGE_SORT_THREADS, LARGE_SORT_ITEMS,
						 LARGE_SORT_BIN_BITS, 1>), 1, LARGE_SORT_THREADS,
				   (block_sort_shared<LARGE_SORT_THREADS, LARGE_SORT_ITEMS,
					LARGE_SORT_BIN_BITS>()), sort);
			return GPUSORT_OK;
		}
	}
	return run_buckets<K, RIDS>(run);
}

static GpusortStatus
run(SortRun *run)
{
	bool		rids = carries_rids(run->job);

	switch (run->job->key_bits)
	{
		case 32:
			return rids ? run_for<uint32_t, true>(run) : run_for<uint32_t, false>(run);
		case 64:
			return rids ? run_for<uint64_t, true>(run) : run_for<uint64_t, false>(run);
		default:
			return rids ? run_for<Key128, true>(run) : run_for<Key128, false>(run);
	}
}

const SortAlgorithm gpu_bucket_algorithm = {
	{
		"gpu_bucket",
		"",
		"Chen et al. 2009",
		GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128,
		1,
		1
	},
	why_not,
	scratch,
	run
};
