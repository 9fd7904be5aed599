/*
 * bucket_pieces.cuh
 *	  Sorts nearly sorted input in pieces, without moving keys between blocks.
 *
 * If few keys are less than their predecessor, the input is cut about every
 * PIECE keys.  A cut is searched among CUT_KEYS consecutive keys: it is a point
 * such that all of these keys before it are at most as great as all of them
 * behind it.  Each piece is sorted in shared memory and written to its own
 * range of the output.  Then the greatest value of every piece is compared with
 * the least value of the next piece.  If it is greater, a key lay farther from
 * its sorted position than CUT_KEYS shows.  The input, which has not been
 * changed, is then sorted by buckets.
 */
#ifndef GPUSORT_BUCKET_PIECES_CUH
#define GPUSORT_BUCKET_PIECES_CUH

#include "bucket/bucket_plan.cuh"

#define CUT_THREADS			128					/* threads of a block; a warp
												 * finds a cut */
#define CUT_PER_LANE		16					/* keys per lane */
#define CUT_KEYS			(32 * CUT_PER_LANE)	/* keys searched for a cut */
#define PIECE				MOSTLY_FULL			/* distance of two searches */

static_assert(PIECE + CUT_KEYS <= BLOCK_SORT_CAPACITY, "a piece fits a block");

/* The last block of a kernel reports whether pieces still seem possible. */
__device__ __forceinline__ void
publish_pieces(BucketPlan *plan, uint32_t *readback, uint32_t sequence_number)
{
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(&plan->blocks_done, 1) == gridDim.x - 1)
	{
		volatile uint32_t *words = readback;

		plan->blocks_done = 0;
		words[READBACK_ORDER] = *(volatile uint32_t *) &plan->not_in_pieces
			? INPUT_UNORDERED : INPUT_NEARLY_SORTED;
		__threadfence_system();
		words[READBACK_SEQUENCE] = sequence_number;
	}
}

/* Finds the start of each piece: pieces + 1 entries of piece_start. */
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
		uint32_t	cut_from = piece * PIECE - CUT_KEYS / 2;
		uint32_t	first = cut_from + lane * CUT_PER_LANE;
		uint32_t	last = min((uint64_t) cut_from + CUT_KEYS, (uint64_t) n);
		K			least[CUT_PER_LANE];	/* least from key i on, in the
											 * lane */
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

		/* below: greatest of the lanes before; above: least of those behind */
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

		/*
		 * Take the cut nearest to the middle of the CUT_KEYS keys.  The key
		 * there must not belong before the previous piece.
		 */
		lanes = __ballot_sync(0xffffffffu, found >= 0);
		if (lanes & 0xffff0000u)
			lanes &= 0xffff0000u;
		if (lanes == 0)
		{
			if (lane == 0)
				atomicOr(&plan->not_in_pieces, 1);
		}
		else if (lane == __ffs(lanes) - 1)
		{
			piece_start[piece] = first + found;
			if (bits(keys[first + found]) <
				bits(keys[(piece - 1) * PIECE]))
				atomicOr(&plan->not_in_pieces, 1);
		}
	}
	publish_pieces(plan, readback, sequence_number);
}

/* Checks that no key of a piece is greater than a key of the next piece. */
template <class K>
__global__ void __launch_bounds__(CUT_THREADS)
check_edges_kernel(const K *edges, uint32_t pieces, BucketPlan *plan,
				   uint32_t *readback, uint32_t sequence_number)
{
	uint32_t	piece = blockIdx.x * CUT_THREADS + threadIdx.x;

	if (piece + 1 < pieces &&
		edges[2 * (uint64_t) piece + 1] > edges[2 * (uint64_t) piece + 2])
		atomicOr(&plan->not_in_pieces, 1);
	publish_pieces(plan, readback, sequence_number);
}

#endif							/* GPUSORT_BUCKET_PIECES_CUH */
