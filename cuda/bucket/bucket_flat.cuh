/*
 * bucket_flat.cuh
 *	  Inputs of a few thousand to a million keys: scattered into buckets that each fit a
 *	  block, in a time that hardly depends on how the keys are distributed.
 *
 * Pairs of value and position are all different, so a sorted sample of them cuts any
 * input into even buckets, equal values too.  Every block draws the same sample and
 * sorts it for itself, which is quicker than to be told by another.  Where the sample falls
 * evenly into slices of equal width, it need not be sorted.  Beyond FLAT_ONCE_MOST keys
 * the buckets are scattered once more.
 *
 * What is scattered are positions; who needs a key fetches it, from the L2 cache.  Each bucket
 * has a slot of scratch, several times what an even share is, so that positions can be
 * scattered before it is known how many the others get.  A slot that overflows is a matter of
 * chance: then nothing has been written but scratch, and the input is sorted the ordinary
 * way.  Counted on a CPU that draws and scatters likewise, 3000 inputs of each of ten shapes:
 * with 2^18 keys, scattered once, 4 of the 30000; with 300000, scattered twice, 96, because the
 * variations of both scatters multiply.  75 of those are of the shape that has every
 * scale alike often, one in 40 of its inputs; of any other it is 7 at most, one in 400.
 */
#ifndef GPUSORT_BUCKET_FLAT_CUH
#define GPUSORT_BUCKET_FLAT_CUH

#include "block/block_scan.cuh"
#include "block/pair_sort.cuh"
#include "bucket/bucket_plan.cuh"

#define FLAT_MOST				(1u << 20)	/* keys */
#define FLAT_ONCE_MOST			(1u << 18)	/* scattered once; beyond, even keys have a quicker way */

#define FLAT_THREADS			512			/* that deal */
#define FLAT_SAMPLES			8			/* to a bucket */
#define FLAT_MOST_SAMPLES		(4 * FLAT_THREADS)
#define FLAT_MOST_BUCKETS		(FLAT_MOST_SAMPLES / FLAT_SAMPLES)
#define FLAT_SLOT				4			/* even shares */
#define FLAT_FIRST_BUCKETS		32			/* of the first of two scatters: 32 samples */
#define FLAT_FIRST_SLOT			2
#define FLAT_SECOND_BUCKETS		64			/* of each of those */

/* Threads that sort one bucket: many if there are few buckets. */
#define FLAT_SORT_FEW			256
#define FLAT_SORT_MANY			512
#define FLAT_SORT_ITEMS			9
#define FLAT_RANK_MOST			256			/* keys of which all pairs are compared */
#define FLAT_LIGHT_ITEMS		3			/* of each of many threads, where those are enough */

#define FLAT_READBACK_SEQUENCE		0
#define FLAT_READBACK_OVERFLOW		1

static_assert(FLAT_ONCE_MOST / FLAT_MOST_BUCKETS * FLAT_SLOT <=
			  FLAT_SORT_MANY * FLAT_SORT_ITEMS, "a full slot fits a block");
static_assert(FLAT_MOST / FLAT_FIRST_BUCKETS / FLAT_SECOND_BUCKETS * FLAT_SLOT <=
			  FLAT_SORT_FEW * FLAT_SORT_ITEMS, "and so does one of two scatters");

template <class K> __host__ __device__ constexpr int
flat_items()
{
	return sizeof(K) == 16 ? 4 : 8;
}

/* Zero before keys are scattered. */
struct FlatState
{
	uint32_t	first_counts[FLAT_FIRST_BUCKETS];
	uint32_t	counts[FLAT_FIRST_BUCKETS * FLAT_SECOND_BUCKETS];
	uint32_t	blocks_done;
	uint32_t	overflow;		/* a slot was too small */
};

/* One scatter; then how its buckets are sorted. */
template <class K> struct FlatArgs
{
	const K    *keys;
	uint32_t	n;
	KeyBits<K>	bits;
	const uint32_t *from;		/* slots that are scattered again; NULL: the whole input */
	const uint32_t *from_counts;
	uint32_t	from_capacity;
	uint32_t	parts;			/* blocks to a slot, or to the input */
	uint32_t	share;			/* keys of a block */
	uint32_t	buckets;		/* of each slot: a power of two */
	uint32_t	capacity;		/* of their slots */
	uint32_t	per_bucket;		/* samples */
	uint32_t	most_even;		/* samples of a bucket, if slices are even */
	uint32_t   *slots;			/* positions */
	uint32_t   *counts;
	FlatState  *state;
	const uint32_t *rids;		/* by position; NULL: the position */
	K		   *keys_out;		/* NULL: not wanted */
	uint32_t   *rids_out;		/* NULL: not wanted */
	bool		whole;			/* a value is its key */
	uint32_t   *readback;		/* NULL: another scatter follows */
	uint32_t	sequence_number;
};

template <class K> __host__ __device__ constexpr size_t
flat_deal_shared()
{
	size_t		sample = pair_room_bytes<K>(FLAT_MOST_SAMPLES);
	size_t		tile = FLAT_THREADS * flat_items<K>() * (sizeof(uint32_t) + sizeof(uint16_t));

	return pair_room_bytes<K>(FLAT_MOST_BUCKETS) + (sample > tile ? sample : tile);
}

/*
 * The least pairs of buckets 1, 2 ... as a tree, breadth first: in the order of a sorted
 * array, lanes would meet in one bank on every second level (quantile_map.cuh).
 */
__device__ __forceinline__ uint32_t
flat_tree_node(uint32_t bucket, uint32_t buckets)
{
	uint32_t	zeros = __ffs(bucket) - 1;

	return (buckets >> (zeros + 1)) + (bucket >> (zeros + 1));
}

/* Scatters the positions [start, start + count) of the block's slot or input of size. */
template <class K, int SAMPLE_ITEMS> __device__ __forceinline__ void
deal_flat(const FlatArgs<K> &args, uint32_t segment, uint32_t start, uint32_t count,
		  uint32_t size, unsigned char *shared)
{
	constexpr int ITEMS = flat_items<K>();
	constexpr uint32_t TILE = FLAT_THREADS * ITEMS;

	unsigned char *rest = shared + pair_room_bytes<K>(FLAT_MOST_BUCKETS);
	uint32_t   *tile_at = reinterpret_cast<uint32_t *>(rest);
	uint16_t   *tile_bins = reinterpret_cast<uint16_t *>(tile_at + TILE);

	/* Counts, then starts in the tile; the last is for lanes without a key. */
	__shared__ uint32_t bin_start[FLAT_MOST_BUCKETS + 1];
	__shared__ uint32_t bin_target[FLAT_MOST_BUCKETS];
	__shared__ uint32_t room[FLAT_THREADS / 32];
	__shared__ K range_room[2 * FLAT_THREADS / 32];

	const PairRoom<K> tree(shared, FLAT_MOST_BUCKETS);
	const uint32_t *from = args.from ? args.from + segment * args.from_capacity : NULL;
	uint32_t	bucket = threadIdx.x;
	Pair<K>		sample[SAMPLE_ITEMS];
	uint32_t	at[ITEMS];		/* positions */
	K			values[ITEMS];
	uint32_t	place[ITEMS];	/* bin << 16 | rank in it */
	BucketMap<K> slices;
	bool		quantized;

#pragma unroll
	for (int i = 0; i < SAMPLE_ITEMS; i++)
	{
		uint32_t	position = sample_position(i * FLAT_THREADS + threadIdx.x,
											   FLAT_THREADS * SAMPLE_ITEMS, size);

		position = from ? from[position] : position;
		sample[i] = make_pair<K>(args.bits(args.keys[position]), position);
	}
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	in_share = i * FLAT_THREADS + threadIdx.x;

		if (in_share < count)
			at[i] = from ? from[start + in_share] : start + in_share;
	}
	if (bucket <= args.buckets)
		bin_start[bucket] = 0;
	{
		K			lo = sample[0].value,
					hi = sample[0].value;

#pragma unroll
		for (int i = 1; i < SAMPLE_ITEMS; i++)
		{
			lo = sample[i].value < lo ? sample[i].value : lo;
			hi = sample[i].value > hi ? sample[i].value : hi;
		}
		block_min_max<FLAT_THREADS>(lo, hi, range_room);
		slices = make_map<K>(lo, hi, args.buckets);
	}
#pragma unroll
	for (int i = 0; i < SAMPLE_ITEMS; i++)
		(void) count_in_warp(bin_start, slices(sample[i].value));
	__syncthreads();
	quantized = !__syncthreads_or(bucket < args.buckets && bin_start[bucket] > args.most_even);
	if (bucket < args.buckets)
		bin_start[bucket] = 0;
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * FLAT_THREADS + threadIdx.x < count)
			values[i] = args.bits(args.keys[at[i]]);
	if (!quantized)
	{
		uint32_t	e = threadIdx.x * SAMPLE_ITEMS;

		block_sort_sample<K, FLAT_THREADS, SAMPLE_ITEMS>
			(sample, PairRoom<K>(rest, FLAT_THREADS * SAMPLE_ITEMS));
		if (e > 0 && e % args.per_bucket == 0)
			tree.put(flat_tree_node(e / args.per_bucket, args.buckets), sample[0]);
	}
	__syncthreads();

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	bin = args.buckets;

		if (i * FLAT_THREADS + threadIdx.x < count)
		{
			if (quantized)
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
		place[i] = bin << 16 | count_in_warp(bin_start, bin);
	}
	__syncthreads();
	{
		uint32_t	in_bin = bucket < args.buckets ? bin_start[bucket] : 0;
		uint32_t	before = in_bin == 0 ? 0 :
			atomicAdd(&args.counts[segment * args.buckets + bucket], in_bin);
		uint32_t	total;
		uint32_t	sum = block_exclusive_sum<FLAT_THREADS>(in_bin, room, &total);

		if (before + in_bin > args.capacity)
			atomicOr(&args.state->overflow, 1);
		if (bucket < args.buckets)
		{
			bin_start[bucket] = sum;
			bin_target[bucket] = before - sum;	/* in the slot */
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (i * FLAT_THREADS + threadIdx.x < count)
		{
			uint32_t	bin = place[i] >> 16;
			uint32_t	to = bin_start[bin] + (place[i] & 0xffff);

			tile_at[to] = at[i];
			tile_bins[to] = (uint16_t) bin;
		}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	in_tile = i * FLAT_THREADS + threadIdx.x;

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

template <class K, int SAMPLE_ITEMS>
__global__ void __launch_bounds__(FLAT_THREADS, 2)
flat_deal_kernel(const FlatArgs<K> args)
{
	extern __shared__ __align__(16) unsigned char shared[];

	uint32_t	segment = blockIdx.x / args.parts;
	uint32_t	start = blockIdx.x % args.parts * args.share;
	uint32_t	size = args.from ? min(args.from_counts[segment], args.from_capacity) : args.n;

	if (start < size)
		deal_flat<K, SAMPLE_ITEMS>(args, segment, start, min(size - start, args.share), size,
								   shared);
	if (args.readback == NULL)
		return;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(&args.state->blocks_done, 1) == gridDim.x - 1)
	{
		volatile uint32_t *words = args.readback;

		words[FLAT_READBACK_OVERFLOW] = *(volatile uint32_t *) &args.state->overflow;
		__threadfence_system();
		words[FLAT_READBACK_SEQUENCE] = args.sequence_number;
	}
}

/* Sorts up to a thread's pair each by comparing all of them: quickest for few. */
template <class K> __device__ __forceinline__ void
rank_pairs(const uint32_t *slot, uint32_t count, const FlatArgs<K> &args,
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

/* Sorts count pairs into the room by merging. */
template <class K, int THREADS, int ITEMS> __device__ __forceinline__ void
merge_pairs(const uint32_t *slot, uint32_t count, const FlatArgs<K> &args,
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

/* One block per bucket. */
template <class K, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
flat_sort_kernel(const FlatArgs<K> args)
{
	extern __shared__ __align__(16) unsigned char shared[];
	__shared__ uint32_t sums[THREADS / 32];

	const PairRoom<K> room(shared, THREADS * FLAT_SORT_ITEMS);
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
	if (count <= FLAT_RANK_MOST)
		rank_pairs(slot, count, args, room);
	else if (THREADS == FLAT_SORT_MANY && count <= THREADS * FLAT_LIGHT_ITEMS)
		merge_pairs<K, THREADS, FLAT_LIGHT_ITEMS>(slot, count, args, room);
	else
		merge_pairs<K, THREADS, FLAT_SORT_ITEMS>(slot, count, args, room);
	for (uint32_t at = threadIdx.x; at < count; at += THREADS)
	{
		Pair<K>		pair = room.get(at);

		if (args.keys_out)
			args.keys_out[start + at] = args.whole ? pair.value : args.keys[pair.rid];
		if (args.rids_out)
			args.rids_out[start + at] = args.rids ? args.rids[pair.rid] : pair.rid;
	}
}

#endif							/* GPUSORT_BUCKET_FLAT_CUH */
