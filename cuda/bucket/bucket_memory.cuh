/*
 * bucket_memory.cuh
 *	  How many buckets gpu_bucket makes of n keys, and how a problem lies in memory.
 */
#ifndef GPUSORT_BUCKET_MEMORY_CUH
#define GPUSORT_BUCKET_MEMORY_CUH

#include "bucket/bucket_pieces.cuh"
#include "bucket/bucket_rounds.cuh"
#include "bucket/bucket_sample.cuh"

/* Room for the kernels' static shared memory beside the dynamic. */
#define RESERVED_SHARED		(23 * 1024)

/* Keys to a bucket by quantiles, which fill them less evenly than slices of even keys. */
#define TWO_THIRDS_FULL		(BLOCK_SORT_CAPACITY / 3 * 2)

/* How the sort of one problem is laid out in memory. */
template <class K> struct BucketMemory
{
	K		   *keys[2];		/* 0: the outputs or what stands for them; 1: scratch */
	uint32_t   *rids[2];
	int			round_one;		/* which of them round one fills its buckets in */
	BucketPlan *plan;
	uint32_t   *counts;
	uint32_t   *bucket_start;
	QuantileMap<K> *quantiles;
	uint16_t   *tags;			/* of round one's buckets by quantiles */
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

/* Round one's shape: a function of n and the device. */
struct BucketShape
{
	uint32_t	even_buckets;	/* if slices of equal width do, */
	uint32_t	buckets;		/* or by quantiles; never fewer */
	uint32_t	wanted;			/* of those, for an even share of the keys */
	uint32_t	quantiles;
	uint32_t	counts_size;
	bool		packed;			/* two counters to a word */
	int			fine_bits;		/* < 0: one pass */
	uint32_t	coarse;
};

static BucketShape
bucket_shape(const DeviceTraits *device, uint64_t n)
{
	BucketShape shape;
	uint64_t	counters = ((uint64_t) device->max_shared - RESERVED_SHARED) / sizeof(uint16_t);
	uint64_t	most = counters < MAX_BUCKETS ? counters : MAX_BUCKETS;
	uint64_t	quantized = n / MOSTLY_FULL + 4;
	uint64_t	wanted = n / TWO_THIRDS_FULL + 4;

	if (quantized > MAX_EVEN_BUCKETS)
		quantized = MAX_EVEN_BUCKETS;
	if (quantized <= PARTITION_MAX_BINS)
		most = PARTITION_MAX_BINS;	/* one pass then */
	shape.even_buckets = (uint32_t) (quantized < most ? quantized : most);
	shape.wanted = (uint32_t) (wanted < most ? wanted : most);

	/*
	 * Spans from at least 30 samples each: their shares are known to a fifth then.
	 * Rounding up may cost each a bucket.
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
	if (quantized > PARTITION_MAX_BINS)
	{
		/* both passes about equally many ways */
		shape.fine_bits = 5;
		while ((shape.buckets >> shape.fine_bits) > (3u << shape.fine_bits) / 2)
			shape.fine_bits++;
		shape.coarse = (uint32_t) div_up(shape.buckets, 1u << shape.fine_bits);
	}
	return shape;
}

/* Equal keys are told apart unless they are equal in every bit and rids unwanted. */
static bool
carries_rids(const GpusortProblem *problem)
{
	return wants_rids(problem) || problem->begin_bit > 0 || problem->end_bit < problem->key_width;
}

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

	/* a single pass cannot write where its tiles still read */
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

#endif							/* GPUSORT_BUCKET_MEMORY_CUH */
