/*
 * bucket_rounds.cuh
 *	  Later rounds of gpu_bucket: divide buckets that are too large for a block.
 *
 * Each such bucket is a segment.  Slices or quantiles have failed for its keys.
 * It is divided by splitters from a sorted sample of its keys, which suit any
 * distribution.  A value that is frequent in the sample gets a bucket of its
 * own.  If that bucket is too large, too, it is divided by rid, since its keys
 * are all equal.
 *
 * Memory: splitters, bounds and counters in the run's scratch memory.
 */
#ifndef GPUSORT_BUCKET_ROUNDS_CUH
#define GPUSORT_BUCKET_ROUNDS_CUH

#include "bucket/bucket_plan.cuh"

#define SEGMENT_SAMPLE		1024	/* sampled keys of a segment; a power of
									 * two */
#define FREQUENT_SAMPLES	8		/* samples that make a value frequent */

/* Bitonic sort of a sample in shared memory. */
template <class K> __device__ static void
sort_sample(K *sample)
{
	for (uint32_t size = 2; size <= SEGMENT_SAMPLE; size *= 2)
		for (uint32_t distance = size / 2; distance > 0; distance /= 2)
		{
			for (uint32_t i = threadIdx.x; i < SEGMENT_SAMPLE / 2; i += SEGMENT_THREADS)
			{
				uint32_t	a = i / distance * distance * 2 + i % distance;
				uint32_t	b = a + distance;
				K			x = sample[a],
							y = sample[b];

				if ((x > y) == ((a & size) == 0))
				{
					sample[a] = y;
					sample[b] = x;
				}
			}
			__syncthreads();
		}
}

/* Chooses the splitters of each segment; a block per segment. */
template <class K, bool RIDS>
__global__ void __launch_bounds__(SEGMENT_THREADS)
segment_sample_kernel(const K *keys, const uint32_t *rids, KeyBits<K> bits,
					  const Segment<K> *segments, Splitters<K> *all_splitters,
					  NextRound *after)
{
	__shared__ K sample[SEGMENT_SAMPLE];
	__shared__ uint32_t room[SEGMENT_THREADS / 32];

	const Segment<K> *segment = &segments[blockIdx.x];
	Splitters<K> *splitters = &all_splitters[blockIdx.x];
	uint32_t	start = segment->start;
	uint32_t	count = segment->end - start;
	uint32_t	for_values = bins_for_values(segment->buckets);
	/* number of splitters + 1 */
	uint32_t	wanted = segment->buckets - for_values;
	bool		by_rid = segment->by_rid != 0;
	uint32_t	i = threadIdx.x;
	K			mine = all_ones<K>();
	bool		chosen = false,
				frequent = false;
	uint32_t	splitter,
				frequent_before,
				total,
				frequent_total;

	if (blockIdx.x == 0 && threadIdx.x == 0)
	{
		after->segments_tiles = 0;
		after->buckets = 0;
	}
	for (uint32_t j = i; j < SEGMENT_SAMPLE; j += SEGMENT_THREADS)
	{
		uint32_t	at = start + sample_position(j, SEGMENT_SAMPLE, count);

		sample[j] = !by_rid ? bits(keys[at]) : (K) (RIDS ? rids[at] : at);
	}
	__syncthreads();
	sort_sample(sample);

	/* thread i takes the i-th quantile as a splitter if its value is new */
	if (i + 1 < wanted)
	{
		uint32_t	at = (i + 1) * SEGMENT_SAMPLE / wanted;
		uint32_t	last = at;

		mine = sample[at];
		chosen = i == 0 || sample[i * SEGMENT_SAMPLE / wanted] != mine;
		while (last + 1 < SEGMENT_SAMPLE && last + 1 < at + FREQUENT_SAMPLES &&
			   sample[last + 1] == mine)
			last++;
		while (at > 0 && at + FREQUENT_SAMPLES > last + 1 && sample[at - 1] == mine)
			at--;
		frequent = chosen && last - at + 1 >= FREQUENT_SAMPLES;
	}
	splitter = block_exclusive_sum<SEGMENT_THREADS>(chosen, room, &total);
	__syncthreads();
	frequent_before = min(block_exclusive_sum<SEGMENT_THREADS>(frequent, room, &frequent_total),
				  for_values);
	frequent_total = min(frequent_total, for_values);
	frequent = frequent && frequent_before < for_values;
	if (chosen)
	{
		splitters->value[splitter] = mine;
		splitters->base[splitter].bucket = (uint16_t) (splitter + frequent_before);
		splitters->base[splitter].frequent = frequent;
	}
	if (i == 0)
		splitters->count = total;
	if (i >= total && i <= MAX_SPLITTERS)
	{
		splitters->value[i] = all_ones<K>();
		splitters->base[i].bucket = (uint16_t) (total + frequent_total);
		splitters->base[i].frequent = 0;
	}
}

/* Counts keys by bucket; a block per tile. */
template <class K, bool RIDS>
__global__ void __launch_bounds__(PARTITION_THREADS)
segment_histogram_kernel(const K *keys, const uint32_t *rids, KeyBits<K> bits,
						 const Segment<K> *segments, const Splitters<K> *all_splitters,
						 const uint32_t *first_tile, uint32_t segment_count,
						 uint32_t *counts)
{
	constexpr uint32_t TILE = partition_tile<K>();
	__shared__ uint32_t bins[SEGMENT_THREADS + 1];
	__shared__ SplitterTree<K> splitters;

	uint32_t	s = find_segment(first_tile, segment_count, blockIdx.x);
	bool		by_rid = segments[s].by_rid != 0;
	uint32_t	start = segments[s].start + (blockIdx.x - first_tile[s]) * TILE;
	uint32_t	count = min(segments[s].end - start, TILE);

	splitters.load(&all_splitters[s], PARTITION_THREADS);
	if (threadIdx.x <= SEGMENT_THREADS)
		bins[threadIdx.x] = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < keys_per_thread<K>(); i++)
	{
		uint32_t	at = i * PARTITION_THREADS + threadIdx.x;
		uint32_t	bin = SEGMENT_THREADS;

		if (at < count)
			bin = splitters(!by_rid ? bits(keys[start + at])
							: (K) (RIDS ? rids[start + at] : start + at));
		(void) count_in_warp(bins, bin);
	}
	__syncthreads();
	if (threadIdx.x < SEGMENT_THREADS && bins[threadIdx.x])
		atomicAdd(&counts[segments[s].first_bucket + threadIdx.x], bins[threadIdx.x]);
}

/*
 * Turns counts into places; buckets that are too large become segments of the
 * next round.  A block per segment.
 */
template <class K>
__global__ void __launch_bounds__(SEGMENT_THREADS)
segment_plan_kernel(const Segment<K> *segments, const Splitters<K> *all_splitters,
					uint32_t *counts,
					uint32_t *bucket_start, K *bounds, NextRound *next,
					Segment<K> *next_segments, uint32_t *next_first_tile,
					uint32_t *blocks_done, uint32_t *readback, uint32_t sequence_number)
{
	__shared__ uint32_t room[SEGMENT_THREADS / 32];
	/* 1: bucket of one value */
	__shared__ uint8_t own_bucket[SEGMENT_THREADS + 1];

	const Segment<K> *segment = &segments[blockIdx.x];
	const Splitters<K> *splitters = &all_splitters[blockIdx.x];
	uint32_t	bin = threadIdx.x;
	uint32_t	bucket = segment->first_bucket + bin;
	bool		mine = bin < segment->buckets;
	uint32_t	count = mine ? counts[bucket] : 0;
	uint32_t	total;
	uint32_t	start = segment->start +
		block_exclusive_sum<SEGMENT_THREADS>(count, room, &total);

	if (mine)
	{
		counts[bucket] = start;
		bucket_start[bucket] = start;
	}

	/* bounds of the buckets, from the splitters; 1 and 0 mean unknown */
	if (mine)
	{
		bounds[2 * (uint64_t) bucket] = 1;
		bounds[2 * (uint64_t) bucket + 1] = 0;
	}
	own_bucket[bin] = 0;
	__syncthreads();
	if (bin < splitters->count)
	{
		uint64_t	below = segment->first_bucket + splitters->base[bin].bucket;
		K			value = splitters->value[bin];

		if (splitters->base[bin].frequent)
			own_bucket[splitters->base[bin].bucket + 1] = 1;
		if (!segment->by_rid)
		{
			if (bin > 0)
			{
				bounds[2 * below] = splitters->value[bin - 1];
				bounds[2 * below + 1] = value;
			}
			if (splitters->base[bin].frequent)
			{
				bounds[2 * (below + 1)] = value;
				bounds[2 * (below + 1) + 1] = value;
			}
		}
	}
	__syncthreads();
	if (mine && count > BLOCK_SORT_CAPACITY)
		add_segment(next, next_segments, next_first_tile, start, start + count,
					segment->by_rid || own_bucket[bin]);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(blocks_done, 1) == gridDim.x - 1)
	{
		*blocks_done = 0;
		__threadfence();
		publish(readback, sequence_number, INPUT_UNORDERED, next);
	}
}

#endif							/* GPUSORT_BUCKET_ROUNDS_CUH */
