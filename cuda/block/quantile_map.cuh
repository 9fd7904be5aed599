/*
 * quantile_map.cuh
 *	  A monotone map from values to buckets that follows how the values are distributed.
 *
 * Slices of equal width (BucketMap in key.cuh) suit even values only.  Here the
 * range is cut at quantiles of a sorted sample into up to MAX_SPANS spans, and
 * each span into slices of equal width, as many as its share of the sample asks for.
 * Smooth distributions need one round of buckets then, whatever their shape; where
 * values cluster within a span too, the buckets that are too large go round again.
 *
 * A value that is a good part of the sample has a span to itself.  All its keys are
 * equal, so rids decide, and it is sliced by them.
 *
 * Spans are found by their codes: the distance from the least value of the sample as a
 * number of 32 bits, with a sign and an exponent in front.  That is monotone, exact for
 * 32-bit keys and for small distances, and fine enough elsewhere; a value with a span
 * to itself is compared in full, keys beside it with the same code have slices
 * of their own.  The search goes down a tree in breadth-first order, so that the lanes
 * of a warp hardly meet in a bank of shared memory; the usual order of a
 * sorted array has them meet in one bank on every second level.
 */
#ifndef GPUSORT_QUANTILE_MAP_CUH
#define GPUSORT_QUANTILE_MAP_CUH

#include "key.cuh"

#define SPAN_LEVELS		10
#define MAX_SPANS		(1 << SPAN_LEVELS)

/* What becomes of an input whose keys are skewed; 0: they are not. */
#define SKEWED_MAPPED	1		/* its buckets are by quantiles */
#define SKEWED_FLAT		2		/* it is scattered otherwise (bucket_flat.cuh) */

/* What is told of a bucket: its span, and whether its keys are all equal. */
#define BUCKET_SPAN(tag)	((tag) & 0x7fff)
#define BUCKET_EQUAL		0x8000

/* Bits below the leading one that a code keeps, so that all exponents fit. */
template <class K> __host__ __device__ constexpr int
code_bits()
{
	return sizeof(K) == 16 ? 24 : 25;
}

#define CODE_OF_ORIGIN	0x80000000u

template <class K> __device__ __forceinline__ uint32_t
value_code(K v, K origin)
{
	if constexpr (sizeof(K) == 4)
		return v;
	else
	{
		bool		below = v < origin;
		K			distance = below ? origin - 1 - v : v - origin;
		int			shift = max(highest_bit((K) (distance | 1)) - code_bits<K>(), 0);
		uint32_t	code = CODE_OF_ORIGIN +
			((uint32_t) shift << code_bits<K>()) + (uint32_t) (distance >> shift);

		return below ? ~code : code;
	}
}

/* The least value of a code that is the origin's or a greater one's. */
template <class K> __device__ __forceinline__ K
least_of_code(uint32_t code, K origin)
{
	if constexpr (sizeof(K) == 4)
		return code;
	else
	{
		uint32_t	above = code - CODE_OF_ORIGIN;
		int			shift = max((int) (above >> code_bits<K>()) - 1, 0);

		return origin + ((K) (above - ((uint32_t) shift << code_bits<K>())) << shift);
	}
}

/* The slices of a span. */
struct Span
{
	uint32_t	bucket;			/* the first; SPAN_EQUAL: of one value, sliced by rid */
	uint32_t	scale;			/* of the distance from the span's start, or of the rid */
};

#define SPAN_EQUAL		0x80000000u

/* What lookups need in shared memory. */
struct SpanTable
{
	uint32_t	tree[MAX_SPANS];	/* starts of spans but the first, from index 1 */
	Span		span[MAX_SPANS];	/* the one behind the last tells where that ends */
};

template <class K> struct QuantileMap
{
	K			origin;			/* of the codes */
	uint32_t	rid_lo;			/* the least rid */
	uint32_t	skewed;			/* SKEWED_*; nothing else here is set but if it is MAPPED */
	uint32_t	pad[2];
	SpanTable	table;
	K			only[MAX_SPANS];	/* value of a span of one value */
	K			base[MAX_SPANS];	/* least value of a span */
	int			shift[MAX_SPANS];	/* brings a span's values less base to 32 bits */
};

/* A thread's view of the map. */
template <class K> struct QuantileLookup
{
	const SpanTable &table;		/* in shared memory */
	const K    *only;
	K			origin;
	uint32_t	rid_lo;

	__device__ __forceinline__ QuantileLookup(const QuantileMap<K> *map,
											  const SpanTable &shared_table)
		: table(shared_table), only(map->only), origin(map->origin), rid_lo(map->rid_lo)
	{
	}

	/* rid() is asked for only where it matters. */
	template <class Rid>
	__device__ __forceinline__ uint32_t operator() (K v, Rid rid) const
	{
		uint32_t	code = value_code<K>(v, origin);
		uint32_t	start = 0,
					node = 1;
		Span		span;

#pragma unroll
		for (int level = 0; level < SPAN_LEVELS; level++)
		{
			uint32_t	at = table.tree[node];
			bool		right = at <= code;

			start = right ? at : start;
			node = 2 * node + right;
		}
		node -= MAX_SPANS;
		span = table.span[node];
		if ((span.bucket & SPAN_EQUAL) == 0)
			return span.bucket + __umulhi(code - start, span.scale);
		span.bucket &= ~SPAN_EQUAL;
		if constexpr (sizeof(K) > 4)
		{
			/* lesser values of the code, the value itself, greater ones */
			if (v < only[node])
				return span.bucket;
			if (v > only[node])
				return (table.span[node + 1].bucket & ~SPAN_EQUAL) - 1;
			span.bucket++;
		}
		return span.bucket + __umulhi(rid() - rid_lo, span.scale);
	}
};

#endif							/* GPUSORT_QUANTILE_MAP_CUH */
