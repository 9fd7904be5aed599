/*
 * value_pages.cuh
 *	  Counting by pages: keys scattered to buckets of values, buckets counted.
 *
 * A bucket's keys lie on pages, which are made when their first place is taken.  A
 * tile takes room in a bucket with one addition; the thread that gets a page's first place
 * makes the page and enters it in the table, and all others that got places on it
 * wait for the entry.  Nobody waits before having entered its own pages.
 */
#ifndef GPUSORT_VALUE_PAGES_CUH
#define GPUSORT_VALUE_PAGES_CUH

#include "value/value_plan.cuh"

/* Of a tile's run in one bucket: up to split on one page, from there on another. */
struct DealRun
{
	uint32_t	split;			/* place in the tile */
	uint32_t	base[2];		/* of place 0 in pages[] */
};

/* The shared memory of a tile, whether it is full or not. */
struct DealShared
{
	uint32_t	tile_values[DEAL_TILE];
	uint32_t	bucket_start[BUCKETS];
	DealRun		runs[BUCKETS];
	uint32_t	room[DEAL_THREADS / 32];
};

/* One tile: its keys to the pages of their buckets. */
template <class K, bool FULL> __device__ __forceinline__ void
deal_tile(const K *keys, uint32_t count, const ValueMap<K> &map, int bucket_bits,
		  int page_bits, uint32_t bucket_pages, DealState *state, uint32_t *page_table,
		  uint16_t *pages, DealShared *shared)
{
	constexpr int PER_THREAD = BUCKETS / DEAL_THREADS;

	uint32_t   *tile_values = shared->tile_values;
	uint32_t   *bucket_start = shared->bucket_start;
	DealRun    *runs = shared->runs;
	uint32_t   *room = shared->room;
	uint32_t	values[DEAL_ITEMS];
	uint32_t	rank[DEAL_ITEMS];
	uint32_t	low_bits = (1u << bucket_bits) - 1;
	uint32_t	common;
	int			lanes;

#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
	{
		uint32_t	at = i * DEAL_THREADS + threadIdx.x;

		values[i] = FULL || at < count ? map(keys[at]) : 0;
	}
	for (uint32_t i = threadIdx.x; i < BUCKETS; i += DEAL_THREADS)
		bucket_start[i] = 0;
	common = common_in_warp(values[0] >> bucket_bits, FULL || threadIdx.x < count, &lanes);
	if (lanes < 2 * OFTEN_LANES)
		common = ~0u;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
		rank[i] = add_in_warp(bucket_start, values[i] >> bucket_bits,
							  FULL || i * DEAL_THREADS + threadIdx.x < count, common);
	__syncthreads();
	{
		uint32_t	counts[PER_THREAD];
		uint32_t	from[PER_THREAD];
		uint32_t	sum = 0,
					total;

#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			counts[i] = bucket_start[threadIdx.x * PER_THREAD + i];
			sum += counts[i];
		}

		/* the thread that takes a page's first place makes the page, before anyone waits */
#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			uint32_t	bucket = threadIdx.x * PER_THREAD + i;
			uint32_t	last_page;

			from[i] = 0;
			if (counts[i] == 0)
				continue;
			from[i] = atomicAdd(&state->size[bucket], counts[i]);
			last_page = (from[i] + counts[i] - 1) >> page_bits;
			if (from[i] == 0 || (from[i] - 1) >> page_bits != last_page)
				*(volatile uint32_t *)
					&page_table[(uint64_t) bucket * bucket_pages + last_page] =
					atomicAdd(&state->pages_used, 1) + 1;
		}
		sum = block_exclusive_sum<DEAL_THREADS>(sum, room, &total);
#pragma unroll
		for (int i = 0; i < PER_THREAD; i++)
		{
			uint32_t	bucket = threadIdx.x * PER_THREAD + i;
			uint32_t	in_page = from[i] & ((1u << page_bits) - 1);

			if (counts[i] > 0)
			{
				const volatile uint32_t *entry = page_table +
					(uint64_t) bucket * bucket_pages + (from[i] >> page_bits);
				DealRun    *run = &runs[bucket];
				uint32_t	page;

				while ((page = entry[0]) == 0)
					;
				run->split = sum + (1u << page_bits) - in_page;
				run->base[0] = ((page - 1) << page_bits) + in_page - sum;
				if (run->split < sum + counts[i])
				{
					while ((page = entry[1]) == 0)
						;
					run->base[1] = ((page - 1) << page_bits) - run->split;
				}
			}
			bucket_start[bucket] = sum;
			sum += counts[i];
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
		if (FULL || i * DEAL_THREADS + threadIdx.x < count)
			tile_values[bucket_start[values[i] >> bucket_bits] + rank[i]] = values[i];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < DEAL_ITEMS; i++)
	{
		uint32_t	at = i * DEAL_THREADS + threadIdx.x;

		if (FULL || at < count)
		{
			uint32_t	v = tile_values[at];
			const DealRun *run = &runs[v >> bucket_bits];

			pages[run->base[at >= run->split] + at] = (uint16_t) (v & low_bits);
		}
	}
}

template <class K>
__global__ void __launch_bounds__(DEAL_THREADS, RESIDENT_BLOCKS(DEAL_THREADS, 3))
deal_kernel(const K *keys, uint32_t n, const ValueMap<K> map, int bucket_bits,
			int page_bits, uint32_t bucket_pages, DealState *state, uint32_t *page_table,
			uint16_t *pages)
{
	__shared__ DealShared shared;

	uint32_t	start = blockIdx.x * DEAL_TILE;

	if (n - start >= DEAL_TILE)
		deal_tile<K, true>(keys + start, DEAL_TILE, map, bucket_bits, page_bits,
						   bucket_pages, state, page_table, pages, &shared);
	else
		deal_tile<K, false>(keys + start, n - start, map, bucket_bits, page_bits,
							bucket_pages, state, page_table, pages, &shared);
}

/* Each block counts an equal share of all pages, one bucket after the other. */
static __global__ void __launch_bounds__(COUNT_THREADS, 1)
count_pages_kernel(const uint16_t *pages, const uint32_t *page_table,
				   const DealState *state, uint32_t buckets, int bucket_bits,
				   int page_bits, uint32_t bucket_pages, uint32_t range, uint32_t *counts)
{
	extern __shared__ __align__(16) uint32_t shared_counts[];
	__shared__ uint32_t first_page[BUCKETS + 1];	/* if buckets lay side by side */
	__shared__ uint32_t room[COUNT_THREADS / 32];

	uint32_t	size = threadIdx.x < buckets ? state->size[threadIdx.x] : 0;
	uint32_t	page_size = 1u << page_bits;
	uint32_t	values = 1u << bucket_bits;
	uint32_t	total,
				page,
				end,
				bucket = 0;

	first_page[threadIdx.x] =
		block_exclusive_sum<COUNT_THREADS>((uint32_t) (((uint64_t) size + page_size - 1)
													   >> page_bits), room, &total);
	if (threadIdx.x == 0)
		first_page[BUCKETS] = total;
	__syncthreads();
	page = (uint32_t) ((uint64_t) total * blockIdx.x / gridDim.x);
	end = (uint32_t) ((uint64_t) total * (blockIdx.x + 1) / gridDim.x);

	while (page < end)
	{
		uint32_t	bucket_end,
					first;
		bool		whole;

		while (first_page[bucket + 1] <= page)
			bucket++;
		bucket_end = min(end, first_page[bucket + 1]);
		first = bucket << bucket_bits;
		whole = page == first_page[bucket] && bucket_end == first_page[bucket + 1];
		size = state->size[bucket];
		for (uint32_t i = threadIdx.x; i < values / 4; i += COUNT_THREADS)
			reinterpret_cast<uint4 *>(shared_counts)[i] = make_uint4(0, 0, 0, 0);
		__syncthreads();
		for (; page < bucket_end; page++)
		{
			uint32_t	nth = page - first_page[bucket];
			uint32_t	id = page_table[(uint64_t) bucket * bucket_pages + nth] - 1;
			const uint16_t *from = pages + ((uint64_t) id << page_bits);
			uint32_t	count = min(size - (nth << page_bits), page_size);
			uint32_t	vectors = count / 8;

#pragma unroll 4
			for (uint32_t i = threadIdx.x; i < vectors; i += COUNT_THREADS)
			{
				uint4		vector = reinterpret_cast<const uint4 *>(from)[i];

				atomicAdd(&shared_counts[vector.x & 0xffff], 1);
				atomicAdd(&shared_counts[vector.x >> 16], 1);
				atomicAdd(&shared_counts[vector.y & 0xffff], 1);
				atomicAdd(&shared_counts[vector.y >> 16], 1);
				atomicAdd(&shared_counts[vector.z & 0xffff], 1);
				atomicAdd(&shared_counts[vector.z >> 16], 1);
				atomicAdd(&shared_counts[vector.w & 0xffff], 1);
				atomicAdd(&shared_counts[vector.w >> 16], 1);
			}
			if (vectors * 8 + threadIdx.x < count)
				atomicAdd(&shared_counts[from[vectors * 8 + threadIdx.x]], 1);
		}
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < values && first + i < range;
			 i += COUNT_THREADS)
			if (whole)
				counts[first + i] = shared_counts[i];
			else if (shared_counts[i])
				atomicAdd(&counts[first + i], shared_counts[i]);
		__syncthreads();
	}
}

#endif							/* GPUSORT_VALUE_PAGES_CUH */
