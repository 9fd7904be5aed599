/*
 * rec.h
 *	  Access to the key of a record, for templates that are compiled once for
 *	  each record format, and small helpers of the kernels.
 *
 * For each format F of PACKED, REC64, REC128:
 *		F##_WINDOW(r, s)		64 key bits from bit s upwards
 *		F##_LESS(a, b, m)		is key a below key b, by the bits of mask m?
 *		F##_BEFORE(a, b, m)		the same by (key, rid), for ascending rids
 *		F##_DIFFER(d, a, b)		adds to mask d the bits in which a and b differ
 */
#ifndef GPUSORT_REC_H
#define GPUSORT_REC_H

#include "sort_kernel.h"

/* A set of key bits. */
typedef struct KeyMask
{
	uint64_t	hi;				/* bits 64 to 127 */
	uint64_t	lo;				/* bits 0 to 63 */
} KeyMask;

/* The bits below bit; all 64 if bit >= 64, none if bit <= 0. */
static inline uint64_t
mask_below(int bit)
{
	return bit <= 0 ? 0 : bit >= 64 ? UINT64_MAX : (UINT64_C(1) << bit) - 1;
}

/* The bits that order a problem's records. */
static inline KeyMask
problem_mask(const SortProblem *problem)
{
	KeyMask		mask;

	mask.hi = mask_below(problem->end_bit - 64) & ~mask_below(problem->begin_bit - 64);
	mask.lo = mask_below(problem->end_bit) & ~mask_below(problem->begin_bit);
	return mask;
}

/* The least k with n <= 2^k. */
static inline int
ceil_log2(size_t n)
{
	return n <= 1 ? 0 : 64 - __builtin_clzll(n - 1);
}

/* SortKernel.applies of a kernel whose only limit is the width of rids. */
static inline bool
rids_suffice(const SortProblem *problem, const char **why)
{
	if (problem->n <= UINT32_MAX)
		return true;
	*why = "more than 2^32 - 1 records";
	return false;
}

/* bytes, rounded up to a multiple of 64. */
static inline size_t
align64(size_t bytes)
{
	return (bytes + 63) & ~(size_t) 63;
}

/* Bits from shift upwards of a 128-bit key, at most 64. */
static inline uint64_t
window128(uint64_t hi, uint64_t lo, int shift)
{
	if (shift >= 64)
		return hi >> (shift - 64);
	return shift == 0 ? lo : lo >> shift | hi << (64 - shift);
}

#define PACKED_WINDOW(r, shift)	((r) >> (shift))
#define PACKED_LESS(a, b, m)	(((a) & (m)->lo) < ((b) & (m)->lo))
#define PACKED_BEFORE(a, b, m)	((a) < (b))
#define PACKED_DIFFER(d, a, b)	((d).lo |= (a) ^ (b))

#define REC64_WINDOW(r, shift)	((r).key >> (shift))
#define REC64_LESS(a, b, m)		(((a).key & (m)->lo) < ((b).key & (m)->lo))
#define REC64_BEFORE(a, b, m) \
	(((a).key & (m)->lo) < ((b).key & (m)->lo) || \
	 (((a).key & (m)->lo) == ((b).key & (m)->lo) && (a).rid < (b).rid))
#define REC64_DIFFER(d, a, b)	((d).lo |= (a).key ^ (b).key)

#define REC128_WINDOW(r, shift)	window128((r).hi, (r).lo, (shift))
#define REC128_LESS(a, b, m) \
	(((a).hi & (m)->hi) < ((b).hi & (m)->hi) || \
	 (((a).hi & (m)->hi) == ((b).hi & (m)->hi) && \
	  ((a).lo & (m)->lo) < ((b).lo & (m)->lo)))
#define REC128_BEFORE(a, b, m) \
	(((a).hi & (m)->hi) < ((b).hi & (m)->hi) || \
	 (((a).hi & (m)->hi) == ((b).hi & (m)->hi) && \
	  (((a).lo & (m)->lo) < ((b).lo & (m)->lo) || \
	   (((a).lo & (m)->lo) == ((b).lo & (m)->lo) && (a).rid < (b).rid))))
#define REC128_DIFFER(d, a, b) \
	((d).hi |= (a).hi ^ (b).hi, (d).lo |= (a).lo ^ (b).lo)

#define likely(x)	__builtin_expect((x) != 0, 1)
#define unlikely(x) __builtin_expect((x) != 0, 0)

/* A for loop over vectors, unrolled so that the vectors stay in registers. */
#ifdef __clang__
#define EACH	_Pragma("unroll") for
#else
#define EACH	_Pragma("GCC unroll 16") for
#endif

/* Compares two uint64_t, for qsort(). */
static inline int
compare_uint64(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

#endif							/* GPUSORT_REC_H */
