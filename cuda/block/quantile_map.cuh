/*
 * quantile_map.cuh
 *	  A monotone map from values to buckets by the quantiles of a sample, for
 *	  skewed keys.
 *
 * Slices of equal width (BucketMap in key.cuh) give buckets of similar sizes
 * only for uniform keys.  Here quantiles of a sorted sample divide the range
 * into up to MAX_SPANS spans.  Each span is divided into slices of equal width;
 * their number is proportional to the span's share of the sample.  For smooth
 * distributions all buckets then fit a block.  If keys are clustered within a
 * span, buckets that are too large are divided again.
 *
 * A value that is frequent in the sample gets its own span.  All keys of this
 * span are equal, so it is divided by rid.
 *
 * A lookup finds the span by the value's code: the distance from the sample's
 * least value as a 32-bit floating-point number with sign, exponent and
 * mantissa.  Codes are monotone, and exact for 32-bit keys and small distances.
 * In a span of one value keys are compared in full, because other values may
 * have the same code; these get a slice below and a slice above.  The search
 * descends a tree in breadth-first order, in which the lanes of a warp seldom
 * access the same bank of shared memory.  In a sorted array they would access
 * the same bank on every second level.
 *
 * Memory: a QuantileMap in device memory; its SpanTable copied to shared
 * memory.
 */
#ifndef GPUSORT_QUANTILE_MAP_CUH
#define GPUSORT_QUANTILE_MAP_CUH

#include "key.cuh"

#define SPAN_LEVELS			10	/* levels of the search tree */
#define MAX_SPANS			(1 << SPAN_LEVELS)

/* How an input with skewed keys is divided; 0: the keys are not skewed. */
#define SKEWED_MAPPED		1	/* into buckets by a QuantileMap */
#define SKEWED_SAMPLE_SORT	2	/* into buckets by sample sort
								 * (sample_sort.cuh) */

/*
 * A bucket's tag: the number of its span, and whether all its keys are equal.
 */
#define BUCKET_SPAN(tag)	((tag) & 0x7fff)
#define BUCKET_EQUAL		0x8000

/* Number of mantissa bits of a code.  The others are a sign and the exponent. */
template <class K> __host__ __device__ constexpr int
code_bits()
{
	return sizeof(K) == 16 ? 24 : 25;
}

/* Code of the distance 0. */
#define CODE_OF_ORIGIN	0x80000000u

/* The code of v: its distance from origin as a 32-bit floating-point number. */
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

/* The least value with that code, which is CODE_OF_ORIGIN or greater. */
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

/* A span's slices in the lookup table. */
struct Span
{
	uint32_t	bucket;			/* first bucket; SPAN_EQUAL: of one value */
	uint32_t	scale;			/* buckets per unit of code or rid * 2^32 */
};

#define SPAN_EQUAL		0x80000000u

/* The lookup table, in shared memory. */
struct SpanTable
{
	/* first codes of spans 1, 2, ...: a breadth-first tree from index 1 */
	uint32_t	tree[MAX_SPANS];
	Span		span[MAX_SPANS];	/* the spans, then an end entry */
};

/*
 * The map.  With skewed other than SKEWED_MAPPED the other fields are
 * undefined.
 */
template <class K> struct QuantileMap
{
	K			origin;			/* least value of the sample: code 0 */
	uint32_t	rid_lo;			/* the least rid */
	uint32_t	skewed;			/* SKEWED_*, or 0 */
	uint32_t	pad[2];
	SpanTable	table;
	K			only[MAX_SPANS];	/* the value of a span of one value */
	K			base[MAX_SPANS];	/* the least value of a span */
	int			shift[MAX_SPANS];	/* (value - base) >> shift has 32 bits */
};

/* The map as a thread uses it. */
template <class K> struct QuantileLookup
{
	const SpanTable &table;		/* copy in shared memory */
	const K    *only;			/* QuantileMap.only, in device memory */
	K			origin;
	uint32_t	rid_lo;

	__device__ __forceinline__ QuantileLookup(const QuantileMap<K> *map,
											  const SpanTable &shared_table)
		: table(shared_table), only(map->only), origin(map->origin), rid_lo(map->rid_lo)
	{
	}

	/*
	 * The bucket of v.  rid() returns the key's rid.  It is called only for
	 * spans of one value.
	 */
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
			/* one bucket below the value, its buckets by rid, one above */
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
