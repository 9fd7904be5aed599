/*
 * presorted.c
 *	  presorted: sorts input that is in order, in reverse order, of few runs,
 *	  or nearly in order; stable.
 *
 * The caller counts, while it makes the records, how many keys are smaller
 * (descents) and larger (ascents) than their predecessor.  These two additions
 * per record distinguish four cases:
 *
 *	no descent		Sorted, or all keys equal: nothing to do.
 *	no ascent		Descending: reversed in place; equal keys keep their order.
 *	a few descents	Ascending runs, one more than descents: merged.  Each
 *					level reads and writes all records once.
 *	up to n / 16	Possibly sorted with some records out of place: drop-merge
 *					sort picks those out, sorts them by cpu_radix, and merges.
 *
 * Drop-merge sort is E. Ernerfeldt's; this variant is stable.  Chen 2009
 * measures disorder by the sum of differences between neighbours.  That needs
 * the minimum and the maximum first, and does not distinguish a few distant
 * outliers from many near ones better.  Neither measure distinguishes records
 * out of place from short ascending batches.  Drop-merge therefore stops when
 * an eighth of the records is out of place, and cpu_radix sorts the input.
 *
 * Memory: none to reverse; a copy of the records to merge runs.  Drop-merge: a
 * copy of the records, a bitmap, the records out of place and cpu_radix's
 * scratch for them; or cpu_radix's scratch for all records, if that is more.
 * After an interrupt the records are lost.
 *
 * Errors: SORT_STOPPED, SORT_NOT_APPLICABLE.
 */
#include <string.h>

#include "member.h"
#include "rec.h"

/* consecutive drops after which the backbone is checked first */
#define PRESORTED_IN_A_ROW		8

/* Most records out of place, among n, for drop-merge to continue. */
static inline size_t
presorted_max_drops(size_t n)
{
	return n / 8 + 1;
}

/* Bytes of a bitmap of n bits. */
static inline size_t
presorted_bitmap_bytes(size_t n)
{
	return align64((n + 7) / 8);
}

static inline void
bit_set(uint64_t *bits, size_t i)
{
	bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void
bit_clear(uint64_t *bits, size_t i)
{
	bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static inline bool
bit_is_set(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

#define PRESORTED		FORMAT
#define FORMAT_TEMPLATE "kernel/presorted_template.h"
#include "kernel/formats_template.h"

static bool
presorted_applies(const SortProblem *problem, const char **why)
{
	if (!problem->order_known)
		*why = "the input's order was not counted";
	else if (problem->descents == 0 || problem->ascents == 0 ||
			 problem->descents < PRESORTED_MAX_RUNS)
		return true;
	else if (!rids_suffice(problem, why))
		return false;
	else if (problem->descents > problem->n / PRESORTED_PER_DESCENT)
		*why = "the input is not nearly in order";
	else if (!problem->rids_ascending)
		*why = "rids do not ascend";
	else
		return true;
	return false;
}

static size_t
presorted_scratch_bytes(const SortProblem *problem)
{
	size_t		size = sort_rec_size(problem->format);
	SortProblem dropped = *problem;
	size_t		drop_merge;
	size_t		radix;

	if (problem->descents == 0 || problem->ascents == 0)
		return 0;
	if (problem->descents < PRESORTED_MAX_RUNS)
		return align64(problem->n * size);
	radix = cpu_radix_kernel.scratch_bytes(problem);
	dropped.n = presorted_max_drops(problem->n);
	dropped.team = NULL;
	drop_merge = align64(problem->n * size) + presorted_bitmap_bytes(problem->n) +
		align64(dropped.n * size) + cpu_radix_kernel.scratch_bytes(&dropped);
	return drop_merge > radix ? drop_merge : radix;
}

static SortStatus
presorted_run(SortProblem *problem)
{
	MemberShared shared;
	Member		m = member_make(problem, &shared, 0, NULL);
	KeyMask		mask = problem_mask(problem);
	SortStatus	status;
	const char *why;

	if (!presorted_applies(problem, &why))
		return SORT_NOT_APPLICABLE;
	status = CALL_FORMAT(problem->format, sort, &m, &mask);
	/* too many records out of place; the records are unchanged */
	if (status == SORT_NOT_APPLICABLE)
		status = cpu_radix_kernel.run(problem);
	return status;
}

const SortKernel presorted_kernel = {
	.applies = presorted_applies,
	.scratch_bytes = presorted_scratch_bytes,
	.run = presorted_run
};
