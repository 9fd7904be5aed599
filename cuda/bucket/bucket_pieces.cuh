/*
 * bucket_pieces.cuh
 *	  Sorts input that is nearly in order piece by piece, without moving it first.
 *
 * Where few keys are smaller than their predecessor, the input is cut about every
 * PIECE keys, each time at a point that no key of the window around it needs
 * to cross.  Pieces are sorted in shared memory and written where they are; then the
 * greatest value of every piece is compared with the least of the next.  If one
 * is greater, a key was further from home than the window told, and the
 * input is sorted the ordinary way: it has not been touched.
 */
#ifndef GPUSORT_BUCKET_PIECES_CUH
#define GPUSORT_BUCKET_PIECES_CUH

#include "bucket/bucket_plan.cuh"

#define CUT_THREADS		128		/* a warp finds a cut */
#define CUT_PER_LANE	16
#define CUT_WINDOW		(32 * CUT_PER_LANE)
#define PIECE			MOSTLY_FULL

static_assert(PIECE + CUT_WINDOW <= BLOCK_SORT_CAPACITY, "a piece fits a block");

/* The last block of a kernel tells the host whether pieces still seem to do. */
__device__ __forceinline__ void
tell_if_nearly(BucketPlan *plan, uint32_t *readback, uint32_t sequence_number)
{
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(&plan->blocks_done, 1) == gridDim.x - 1)
	{
		volatile uint32_t *words = readback;

		plan->blocks_done = 0;
		words[READBACK_ORDER] = *(volatile uint32_t *) &plan->not_nearly
			? INPUT_UNORDERED : INPUT_NEARLY_SORTED;
		__threadfence_system();
		words[READBACK_SEQUENCE] = sequence_number;
	}
}

/* Where each piece starts; pieces + 1 entries. */
template <class K>
__global__ void __launch_bounds__(CUT_THREADS)
cut_kernel(const K *keys, uint32_t n, KeyBits<K> bits, uint32_t pieces,
		   uint32_t *piece_start, BucketPlan *plan, uint32_t *readback, uint32_t sequence_number)
{
	uint32_t	piece = blockIdx.x * (CUT_THREADS / 32) + threadIdx.x / 32;
	int			lane = threadIdx.x % 32;

	if (piece == 0 && lane == 0)
	{
		piece_start[0] = 0;
		piece_start[pieces] = n;
	}
	if (piece > 0 && piece < pieces)
	{
		uint32_t	window = piece * PIECE - CUT_WINDOW / 2;
		uint32_t	first = window + lane * CUT_PER_LANE;
		uint32_t	last = min((uint64_t) window + CUT_WINDOW, (uint64_t) n);
		K			least[CUT_PER_LANE];	/* from here to the window's end */
		K			greatest,
					below,
					above;
		K			v[CUT_PER_LANE];
		int			found = -1;
		uint32_t	lanes;

		greatest = 0;
		above = all_ones<K>();
#pragma unroll
		for (int i = CUT_PER_LANE - 1; i >= 0; i--)
		{
			bool		there = first + i < last;

			v[i] = there ? bits(keys[first + i]) : all_ones<K>();
			greatest = there && v[i] > greatest ? v[i] : greatest;
			above = v[i] < above ? v[i] : above;
			least[i] = above;
		}

		/* greatest of the lanes before, least of the lanes behind */
		below = greatest;
#pragma unroll
		for (int distance = 1; distance < 32; distance <<= 1)
		{
			K			other = shuffle_from(below, lane - distance);

			if (lane >= distance && other > below)
				below = other;
			other = shuffle_from(above, lane + distance);
			if (lane + distance < 32 && other < above)
				above = other;
		}
		below = shuffle_from(below, lane - 1);
		above = shuffle_from(above, lane + 1);
		if (lane == 0)
			below = 0;
		if (lane == 31)
			above = all_ones<K>();
#pragma unroll
		for (int i = 0; i < CUT_PER_LANE; i++)
		{
			K			right = least[i] < above ? least[i] : above;

			if (below <= right && first + i < last && (lane > 0 || i > 0))
				found = i;
			below = v[i] > below ? v[i] : below;
		}

		/* near the middle, and not below where the piece before began */
		lanes = __ballot_sync(0xffffffffu, found >= 0);
		if (lanes & 0xffff0000u)
			lanes &= 0xffff0000u;
		if (lanes == 0)
		{
			if (lane == 0)
				atomicOr(&plan->not_nearly, 1);
		}
		else if (lane == __ffs(lanes) - 1)
		{
			piece_start[piece] = first + found;
			if (bits(keys[first + found]) <
				bits(keys[(piece - 1) * PIECE]))
				atomicOr(&plan->not_nearly, 1);
		}
	}
	tell_if_nearly(plan, readback, sequence_number);
}

/* Are all keys of a piece at most as great as those of the next? */
template <class K>
__global__ void __launch_bounds__(CUT_THREADS)
check_edges_kernel(const K *edges, uint32_t pieces, BucketPlan *plan,
				   uint32_t *readback, uint32_t sequence_number)
{
	uint32_t	piece = blockIdx.x * CUT_THREADS + threadIdx.x;

	if (piece + 1 < pieces &&
		edges[2 * (uint64_t) piece + 1] > edges[2 * (uint64_t) piece + 2])
		atomicOr(&plan->not_nearly, 1);
	tell_if_nearly(plan, readback, sequence_number);
}

#endif							/* GPUSORT_BUCKET_PIECES_CUH */
