/*
 * cpu_radix.c
 *	  Stable radix sort (Satish 2010, 4.2.1 and 4.3).
 */
#include "sort_kernel.h"

#include <string.h>

#include "member.h"

#define likely(x)	__builtin_expect((x) != 0, 1)
#define unlikely(x) __builtin_expect((x) != 0, 0)

#define RADIX_TINY			24	/* records: insertion sort */
#define RADIX_MAX_BITS		11	/* of a digit */
#define RADIX_MAX_SIZE		(1 << RADIX_MAX_BITS)
#define RADIX_MAX_DIGITS	4	/* sorted in one go */
#define RADIX_SLACK_BITS	3	/* sorted beyond log2(n) */
#define RADIX_FINISH_MOVES	16	/* a record moves this far by insertion */
#define RADIX_PART_BITS		10	/* of the leading digit */
#define RADIX_MAX_PARTS		(1 << RADIX_PART_BITS)
#define RADIX_WASTED_BITS	2	/* constant bits put up with in the leading digit */
#define RADIX_PART_BYTES	((size_t) 384 << 10)	/* a part and its copy fit L2 */
#define RADIX_BIG_BYTES		((size_t) 8 << 20)	/* parts are made above this */
#define RADIX_TMP_BYTES		((size_t) 512 << 10)
#define RADIX_TEAM_MIN		((size_t) 1 << 16)	/* records worth waking a team for */

/* Bits of the key, in a high and a low word. */
typedef struct KeyMask
{
	uint64_t	hi;
	uint64_t	lo;
} KeyMask;

/* The digits that leaf() sorts: nbits key bits from low_bit upwards. */
typedef struct DigitPlan
{
	int			low_bit;
	int			nbits;
	int			ndigits;
	int			shift[RADIX_MAX_DIGITS];	/* from low_bit */
	uint32_t	mask[RADIX_MAX_DIGITS];
} DigitPlan;

/* One member's. */
typedef struct RadixWork
{
	KeyMask		mask;			/* the bits that order */
	int			begin_bit;
	void	   *tmp;			/* this member's own, tmp_bytes long */
	size_t		tmp_bytes;
	uint32_t   *shared_hist;	/* [member][part] */
	KeyMask    *shared_differ;	/* [member] */
	void	   *result;
	uint32_t	hist[RADIX_MAX_DIGITS][RADIX_MAX_SIZE];
} RadixWork;

static inline uint64_t
mask_below(int bit)
{
	return bit <= 0 ? 0 : bit >= 64 ? UINT64_MAX : (UINT64_C(1) << bit) - 1;
}

/* One more than the highest bit of a mask that is not empty. */
static inline int
top_bit(const KeyMask *m)
{
	return m->hi ? 128 - __builtin_clzll(m->hi) : 64 - __builtin_clzll(m->lo);
}

static inline int
ceil_log2(size_t n)
{
	return n <= 1 ? 0 : 64 - __builtin_clzll(n - 1);
}

static inline void
prefix_sum(uint32_t *counts, size_t n)
{
	uint32_t	sum = 0;

	for (size_t i = 0; i < n; i++)
	{
		uint32_t	count = counts[i];

		counts[i] = sum;
		sum += count;
	}
}

static inline size_t
radix_big_part(size_t rec_size)
{
	return RADIX_BIG_BYTES / rec_size;
}

static inline bool
radix_in_parts(const SortJob *job)
{
	return job->n * sort_rec_size(job->format) > RADIX_BIG_BYTES ||
		(job->team != NULL && job->team->size > 1 && job->n >= RADIX_TEAM_MIN);
}

/* Width of the leading digit: parts of RADIX_PART_BYTES, and enough for all. */
static int
radix_part_bits(const Member *m, size_t n, size_t rec_size)
{
	int			bits = ceil_log2(n * rec_size / RADIX_PART_BYTES + 1);
	int			least = m->size > 1 ? 4 + ceil_log2(m->size) : 1;

	return bits < least ? least : bits > RADIX_PART_BITS ? RADIX_PART_BITS : bits;
}

static void
radix_plan(DigitPlan *plan, size_t n, size_t rec_size, int begin_bit, int high_bit)
{
	int			log = ceil_log2(n);
	int			all = high_bit - begin_bit;
	int			nbits = log + RADIX_SLACK_BITS;
	int			widest = n * rec_size <= RADIX_TMP_BYTES ? RADIX_MAX_BITS : 9;
	int			passes;

	/* An empty counter costs about what a record does. */
	if (widest > log - 1)
		widest = log - 1;
	if (nbits > all)
		nbits = all;
	passes = (nbits + widest - 1) / widest;
	if ((all + widest - 1) / widest == passes)
		nbits = all;
	plan->nbits = nbits;
	plan->low_bit = high_bit - nbits;
	plan->ndigits = passes;
	for (int p = 0, shift = 0; p < passes; p++)
	{
		int			bits = (nbits - shift + passes - p - 1) / (passes - p);

		plan->shift[p] = shift;
		plan->mask[p] = (1u << bits) - 1;
		shift += bits;
	}
}

static inline uint64_t
window128(uint64_t hi, uint64_t lo, int shift)
{
	if (shift >= 64)
		return hi >> (shift - 64);
	return shift == 0 ? lo : lo >> shift | hi << (64 - shift);
}

#define RADIX(name)				packed_##name
#define REC						uint64_t
#define REC_WINDOW(r, shift)	((r) >> (shift))
#define REC_LESS(a, b, m)		(((a) & (m)->lo) < ((b) & (m)->lo))
#define REC_DIFFER(d, a, b)		((d).lo |= (a) ^ (b))
#include "radix_template.h"

#define RADIX(name)				rec64_##name
#define REC						SortRec64
#define REC_WINDOW(r, shift)	((r).key >> (shift))
#define REC_LESS(a, b, m)		(((a).key & (m)->lo) < ((b).key & (m)->lo))
#define REC_DIFFER(d, a, b)		((d).lo |= (a).key ^ (b).key)
#include "radix_template.h"

#define RADIX(name)				rec128_##name
#define REC						SortRec128
#define REC_WINDOW(r, shift)	window128((r).hi, (r).lo, (shift))
#define REC_LESS(a, b, m)		(((a).hi & (m)->hi) < ((b).hi & (m)->hi) || \
								 (((a).hi & (m)->hi) == ((b).hi & (m)->hi) && \
								  ((a).lo & (m)->lo) < ((b).lo & (m)->lo)))
#define REC_DIFFER(d, a, b)		((d).hi |= (a).hi ^ (b).hi, (d).lo |= (a).lo ^ (b).lo)
#include "radix_template.h"

/*
 * Scratch: the records' copy; if parts are made, then MemberShared, the members'
 * histograms, their differ masks, and their tmp.
 */
static size_t
align64(size_t bytes)
{
	return (bytes + 63) & ~(size_t) 63;
}

static size_t
radix_scratch_bytes(const SortJob *job)
{
	size_t		bytes;
	size_t		members = sort_team_size(job->team);

	if (job->n <= RADIX_TINY)
		return 0;
	bytes = align64(job->n * sort_rec_size(job->format));
	if (radix_in_parts(job))
		bytes += sizeof(MemberShared) +
			members * (RADIX_MAX_PARTS * sizeof(uint32_t) + RADIX_TMP_BYTES) +
			align64(members * sizeof(KeyMask));
	return bytes;
}

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

static bool
radix_sort(Member *m, RadixWork *work)
{
	switch (m->job->format)
	{
		case SORT_REC_PACKED:
			return packed_sort(m, work);
		case SORT_REC_64:
			return rec64_sort(m, work);
		case SORT_REC_128:
			return rec128_sort(m, work);
	}
	return false;
}

typedef struct RadixRun
{
	SortJob    *job;
	MemberShared shared;		/* of a job that is not made into parts */
	SortStatus	status;			/* of rank 0 */
} RadixRun;

static void
radix_member(void *arg, int rank)
{
	RadixRun   *run = arg;
	SortJob    *job = run->job;
	bool		in_parts = radix_in_parts(job);
	Member		m = {job, &run->shared, rank, sort_team_size(job->team), 0};
	RadixWork	work;
	bool		ok;

	work.begin_bit = job->begin_bit;
	work.mask.lo = mask_below(job->end_bit) & ~mask_below(job->begin_bit);
	work.mask.hi = mask_below(job->end_bit - 64) & ~mask_below(job->begin_bit - 64);
	work.tmp_bytes = 0;
	if (in_parts)
	{
		char	   *p = (char *) job->scratch +
			align64(job->n * sort_rec_size(job->format));

		m.shared = (MemberShared *) p;
		p += sizeof(MemberShared);
		work.shared_hist = (uint32_t *) p;
		p += m.size * RADIX_MAX_PARTS * sizeof(uint32_t);
		work.shared_differ = (KeyMask *) p;
		p += align64(m.size * sizeof(KeyMask));
		work.tmp = p + rank * RADIX_TMP_BYTES;
		work.tmp_bytes = RADIX_TMP_BYTES;
	}
	if (rank == 0)
		memset(m.shared, 0, sizeof(MemberShared));
	if (in_parts)
		sort_team_barrier(job->team);
	ok = radix_sort(&m, &work);
	if (rank == 0)
	{
		run->status = ok ? SORT_OK : SORT_STOPPED;
		job->result = work.result;
	}
}

static SortStatus
radix_run(SortJob *job)
{
	RadixRun	run;
	const char *why;

	if (!radix_applies(job, &why))
		return SORT_NOT_APPLICABLE;
	run.job = job;
	if (radix_in_parts(job))
		sort_team_run(job->team, radix_member, &run);
	else
		radix_member(&run, 0);
	return run.status;
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
