/*
 * cpu_radix.c
 *	  Stable radix sort, least significant digit first (Satish 2010, 4.2.1).
 *
 * Memory: as many scratch bytes as record bytes; nothing is allocated.  On an
 * interrupt the records are lost and SORT_STOPPED is returned.
 */
#include "sort_kernel.h"

#include <string.h>

#define RADIX_BITS	8
#define RADIX_SIZE	(1 << RADIX_BITS)
#define RADIX_TINY	32
#define RADIX_POLL	((size_t) 1 << 17)

/* The key bits that order, as masks of the high and the low word. */
typedef struct RadixMask
{
	uint64_t	hi;
	uint64_t	lo;
} RadixMask;

static inline bool
radix_interrupted(const SortJob *job)
{
	return job->interrupted != NULL && job->interrupted(job->interrupted_arg);
}

static inline uint64_t
mask_below(int bit)
{
	return bit <= 0 ? 0 : bit >= 64 ? UINT64_MAX : (UINT64_C(1) << bit) - 1;
}

static inline unsigned
digit128(uint64_t hi, uint64_t lo, int shift)
{
	if (shift >= 64)
		return (unsigned) (hi >> (shift - 64)) & (RADIX_SIZE - 1);
	if (shift <= 64 - RADIX_BITS)
		return (unsigned) (lo >> shift) & (RADIX_SIZE - 1);
	return (unsigned) (lo >> shift | hi << (64 - shift)) & (RADIX_SIZE - 1);
}

#define RADIX(name)				packed_##name
#define REC						uint64_t
#define REC_BITS				64
#define REC_LESS(a, b, m)		(((a) & (m)->lo) < ((b) & (m)->lo))
#define REC_DIGIT(r, shift, m)	((unsigned) (((r) & (m)->lo) >> (shift)) & (RADIX_SIZE - 1))
#include "radix_template.h"

#define RADIX(name)				rec64_##name
#define REC						SortRec64
#define REC_BITS				64
#define REC_LESS(a, b, m)		(((a).key & (m)->lo) < ((b).key & (m)->lo))
#define REC_DIGIT(r, shift, m)	((unsigned) (((r).key & (m)->lo) >> (shift)) & (RADIX_SIZE - 1))
#include "radix_template.h"

#define RADIX(name)				rec128_##name
#define REC						SortRec128
#define REC_BITS				128
#define REC_LESS(a, b, m)		(((a).hi & (m)->hi) < ((b).hi & (m)->hi) || \
								 (((a).hi & (m)->hi) == ((b).hi & (m)->hi) && \
								  ((a).lo & (m)->lo) < ((b).lo & (m)->lo)))
#define REC_DIGIT(r, shift, m)	digit128((r).hi & (m)->hi, (r).lo & (m)->lo, (shift))
#include "radix_template.h"

static bool
radix_applies(const SortJob *job, const char **why)
{
	if (job->n > UINT32_MAX)
	{
		*why = "more than 2^32 - 1 records";
		return false;
	}
	return true;
}

static size_t
radix_scratch_bytes(const SortJob *job)
{
	if (job->n <= RADIX_TINY)
		return 0;
	return (job->n * sort_rec_size(job->format) + 63) & ~(size_t) 63;
}

static SortStatus
radix_run(SortJob *job)
{
	RadixMask	mask;
	const char *why;

	if (!radix_applies(job, &why))
		return SORT_NOT_APPLICABLE;
	mask.lo = mask_below(job->end_bit) & ~mask_below(job->begin_bit);
	mask.hi = mask_below(job->end_bit - 64) & ~mask_below(job->begin_bit - 64);
	switch (job->format)
	{
		case SORT_REC_PACKED:
			return packed_sort(job, &mask);
		case SORT_REC_64:
			return rec64_sort(job, &mask);
		case SORT_REC_128:
			return rec128_sort(job, &mask);
	}
	return SORT_NOT_APPLICABLE;
}

const SortKernel cpu_radix_kernel = {
	.name = "cpu_radix",
	.formats = 1 << SORT_REC_PACKED | 1 << SORT_REC_64 | 1 << SORT_REC_128,
	.stable = true,
	.needs = "",
	.paper = "Satish 2010, 4.2.1",
	.applies = radix_applies,
	.scratch_bytes = radix_scratch_bytes,
	.run = radix_run
};
