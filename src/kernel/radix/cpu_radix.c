/*
 * cpu_radix.c
 *	  Stable radix sort (Satish 2010, 4.2.1 and 4.3).
 *
 * The paper sorts least significant digit first, 8 bits a pass, over all key
 * bits.  Here:
 *
 *	1. Above RADIX_BIG_BYTES, one pass by the most significant digit, of up to 10
 *	   bits, makes parts that fit the L2 cache.  Parts are sorted one by one in
 *	   cache; a part that came out large is parted again.  Memory is read three
 *	   times and written twice, whatever the key's width.
 *	2. Within a part (or a small input), only log2(n) + 3 leading bits are
 *	   sorted, least significant digit first: evenly spread keys are told apart
 *	   by them.  One pass over neighbours puts the few others in order by
 *	   insertion; a run of equal leading bits in which a record would move 16
 *	   places is sorted on its lower bits instead.  So wide keys cost no more
 *	   passes than narrow ones, and no input costs more than its bits.
 *	3. All digits of a part are counted in one read; constant ones are skipped.
 *
 *	4. Where leading bits tell little, as a sample or a part's skewed leading digit
 *	   says, records are parted by sampled keys instead (radix_split.h), with a class
 *	   to itself for each frequent one; up to RADIX_SMALL such records are sorted by
 *	   cpu_merge's networks.  Where a few bits more tell them apart, those are sorted.
 *
 * Members of a team count and scatter slices of the input together, with a
 * counter table each, and then take parts as they come free.
 *
 * What was tried, on one core of a Zen 5 EPYC (48 KiB L1d, 1 MiB L2), ns per
 * 8-byte record and pass, 50M records, counting excluded:
 *	  digit bits				  7		 8		 9		10		11
 *	  plain scatter				0.94	0.99	1.16	1.46	3.29
 *	  write buffers, ordinary	2.24	2.28	2.26	2.36	2.86
 *	  write buffers, streaming	2.03	2.01	2.00	2.16	2.20
 *	- So the paper's software write buffers are not used: the branch that empties a
 *	  buffer mispredicts once per line, which costs more than the misses it
 *	  avoids as long as the open lines, one per digit value, nearly fit L1.  They
 *	  would pay from 11 bits.  4 kB pages instead of huge ones changed nothing.
 *	- In L2, 11-bit digits cost 1.1 ns, 8-bit ones 0.9: hence wide digits in
 *	  parts, 9 bits beyond.
 *	- Digits of few bits suffer when n is a power of two: 64 open lines 128 kB
 *	  apart fall into one set of every cache (2.7 ns at 2^20 and 6 bits, 0.9 at
 *	  8).  Parts of 64 kB rather than 384 kB avoid it at 2^20: 7.4 to 5.4 ns in
 *	  all for (64-bit key, rid).
 *	- Parts from 1 MB upwards instead of 8 MB: at 2^20, (32, rid) 4.9 to 3.7 ns in
 *	  all, (64, rid) 8.6 to 5.6.
 *	- A member's own room for a part's passes instead of the part's old place:
 *	  (64, rid) at 50M 11.2 to 5.9 ns, when the part fits it.
 *	- Skewed keys were sorted on all bits at first, then by a digit around the most
 *	  frequent key: in which bit a key first differs from it, and the next three.  By
 *	  sampled keys, on one core of a Zen 4 EPYC with AVX-512 at 2^20, (64, rid)
 *	  entropy3 20.3 to 15.0 ns, entropy4 18.0 to 11.2, entropy5 15.6 to 7.6; (32, rid)
 *	  11.1 to 7.7, 11.2 to 5.9, 11.3 to 5.5.  Keys that are even beside one key lose,
 *	  as that digit was made for them: clustered 10.0 to 11.5.
 *	- That pays by three things together.  The tree in registers: entropy5 15.3 to 10.8,
 *	  for the portable walk takes 4 ns a key.  A class kept as a byte from the count to
 *	  the scatter, and frequent keys chosen first: entropy4 16.4 to 12.0, entropy5 12.3
 *	  to 7.8.  Networks for small classes instead of digits.
 *	- Words whose sample says three passes, 16-byte records whose sample says two: the
 *	  networks and splitters would take 1.4 times as long (entropy1 and 2 at 2^14).
 *	- Plain LSD over all bits, the start of all this: 6.7 and 6.9 ns for (32, rid)
 *	  at 2^20 and 50M, 27 and 18 for (64, rid), 65 and 103 for (128, rid).
 *
 * Memory: a copy of the records and a byte each; above RADIX_BIG_BYTES also 4 kB of counters and
 * 128 kB to 2 MB of room per member.  Nothing is allocated.  On an interrupt the
 * records are lost and SORT_STOPPED is returned.
 */
#include <string.h>

#include "kernel/member.h"
#include "kernel/merge/merge_words.h"
#include "kernel/radix/radix_finish.h"
#include "kernel/radix/radix_split.h"
#include "kernel/rec.h"

#define RADIX_TINY			24	/* records: insertion sort */
#define RADIX_MAX_BITS		11	/* of a digit, in a part of RADIX_WIDE_BYTES */
#define RADIX_FAR_BITS		9	/* of a digit beyond that */
#define RADIX_WIDE_BYTES	((size_t) 512 << 10)
#define RADIX_MAX_SIZE		(1 << RADIX_MAX_BITS)
#define RADIX_MAX_DIGITS	4	/* sorted in one go */
#define RADIX_SLACK_BITS	3	/* sorted beyond log2(n) */
#define RADIX_FINISH_MOVES	16	/* a record moves this far by insertion */
#define RADIX_SKEWED_MIN	1024	/* least records for which skewed digits are looked for */
#define RADIX_SKEWED		4		/* times what even digits have in common */
#define RADIX_SMALL			1024	/* records whose leading bits tell little: networks; a sample */
#define RADIX_ALIKE			400 /* of a sample's 2016 pairs have equal leading bits: sampled keys */
#define RADIX_SPLIT_BATCH	128 /* records classified at a time */
#define RADIX_SAMPLE		64
#define RADIX_SAMPLE_EQUAL	8	/* of it, before keys count as often equal */
#define RADIX_SAMPLE_BITS	6.5		/* that tell a sample of even keys apart */
#define RADIX_PART_BITS		10	/* of the leading digit */
#define RADIX_MAX_PARTS		(1 << RADIX_PART_BITS)
#define RADIX_WASTED_BITS	2	/* constant bits put up with in the leading digit */
#define RADIX_PART_BYTES	((size_t) 64 << 10)	/* a part, as far as its bits allow */
#define RADIX_BIG_BYTES		((size_t) 1 << 20)	/* parts are made above this */
#define RADIX_MIN_TMP_BYTES	((size_t) 128 << 10)	/* a member's room to sort a part */
#define RADIX_MAX_TMP_BYTES	((size_t) 2 << 20)
#define RADIX_TEAM_MIN		((size_t) 1 << 16)	/* records worth waking a team for */

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
	bool		direct;			/* the records may be compared as words */
	const MergeOps *merge;
	SplitClasses split_classes;
	uint8_t    *classes;		/* room for those of as many records as one member splits */
	uint64_t	words[2][RADIX_SMALL];
	uint32_t	hist[RADIX_MAX_DIGITS][RADIX_MAX_SIZE];
} RadixWork;

/* One more than the highest bit of a mask that is not empty. */
static inline int
top_bit(const KeyMask *m)
{
	return m->hi ? 128 - __builtin_clzll(m->hi) : 64 - __builtin_clzll(m->lo);
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
radix_in_parts(const SortProblem *problem)
{
	return problem->n * sort_rec_size(problem->format) > RADIX_BIG_BYTES ||
		(problem->team != NULL && problem->team->size > 1 && problem->n >= RADIX_TEAM_MIN);
}

/* Width of the leading digit: parts of RADIX_PART_BYTES, and enough for all. */
static int
radix_part_bits(const SortTeam *team, size_t n, size_t rec_size)
{
	int			bits = ceil_log2(n * rec_size / RADIX_PART_BYTES + 1);
	int			least = sort_team_size(team) > 1 ? 4 + ceil_log2(team->size) : 1;

	return bits < least ? least : bits > RADIX_PART_BITS ? RADIX_PART_BITS : bits;
}

/* Widest digit for n records: an empty counter costs about what a record does. */
static int
digit_bits(size_t n, size_t rec_size)
{
	int			widest = n * rec_size <= RADIX_WIDE_BYTES ? RADIX_MAX_BITS : RADIX_FAR_BITS;
	int			log = ceil_log2(n);

	return widest < log - 1 ? widest : log - 1;
}

/* The key bits [low_bit, high_bit), or as many of them as digits can be had. */
static void
plan_digits(DigitPlan *plan, int low_bit, int high_bit, int widest)
{
	int			nbits = high_bit - low_bit;

	if (nbits > RADIX_MAX_DIGITS * widest)
		nbits = RADIX_MAX_DIGITS * widest;
	plan->low_bit = low_bit;
	plan->nbits = nbits;
	plan->ndigits = (nbits + widest - 1) / widest;
	for (int p = 0, shift = 0; p < plan->ndigits; p++)
	{
		int			bits = (nbits - shift + plan->ndigits - p - 1) / (plan->ndigits - p);

		plan->shift[p] = shift;
		plan->mask[p] = (1u << bits) - 1;
		shift += bits;
	}
}

/*
 * The leading bits that tell n evenly spread keys apart, or all of them if that
 * takes no more digits.
 */
static void
plan_leading(DigitPlan *plan, size_t n, size_t rec_size, int begin_bit, int high_bit)
{
	int			widest = digit_bits(n, rec_size);
	int			all = high_bit - begin_bit;
	int			nbits = ceil_log2(n) + RADIX_SLACK_BITS;

	if (nbits > all || (all + widest - 1) / widest <= (nbits + widest - 1) / widest)
		nbits = all;
	plan_digits(plan, high_bit - nbits, high_bit, widest);
}

/*
 * Bits up to which digits are faster than parting by sampled keys: two
 * passes, or three of words.  Equal keys slow a pass, for they follow each other to
 * the same place, and parting has done with them.
 */
static int
radix_few_bits(size_t rec_size, int equal)
{
	return (rec_size > sizeof(uint64_t) || equal > RADIX_SAMPLE_EQUAL ? 2 : 3) * RADIX_MAX_BITS;
}

#define RADIX(name)	packed_##name
#define REC			uint64_t
#define REC_WINDOW	PACKED_WINDOW
#define REC_LESS	PACKED_LESS
#define REC_DIFFER	PACKED_DIFFER
#include "kernel/radix/radix_template.h"
#include "kernel/radix/radix_skew_template.h"
#include "kernel/radix/radix_parts_template.h"

#define RADIX(name)	rec64_##name
#define REC			SortRec64
#define REC_WINDOW	REC64_WINDOW
#define REC_LESS	REC64_LESS
#define REC_DIFFER	REC64_DIFFER
#include "kernel/radix/radix_template.h"
#include "kernel/radix/radix_skew_template.h"
#include "kernel/radix/radix_parts_template.h"

#define RADIX(name)	rec128_##name
#define REC			SortRec128
#define REC_WINDOW	REC128_WINDOW
#define REC_LESS	REC128_LESS
#define REC_DIFFER	REC128_DIFFER
#include "kernel/radix/radix_template.h"
#include "kernel/radix/radix_skew_template.h"
#include "kernel/radix/radix_parts_template.h"

/* Twice the average part, so that ordinary variation fits. */
static size_t
radix_tmp_bytes(const SortProblem *problem)
{
	size_t		bytes = problem->n * sort_rec_size(problem->format);

	bytes = align64((bytes >> radix_part_bits(problem->team, problem->n, sort_rec_size(problem->format))) * 2);
	return bytes < RADIX_MIN_TMP_BYTES ? RADIX_MIN_TMP_BYTES :
		bytes > RADIX_MAX_TMP_BYTES ? RADIX_MAX_TMP_BYTES : bytes;
}

/* The most records that one member splits. */
static size_t
radix_class_bytes(const SortProblem *problem)
{
	size_t		members = sort_team_size(problem->team);
	size_t		big = radix_big_part(sort_rec_size(problem->format));
	size_t		slice = problem->n / members + 64 * members;

	if (members == 1)
		return align64(problem->n);
	if (big > problem->n)
		big = problem->n;
	return align64(slice > big ? slice : big);
}

/*
 * Scratch: the records' copy, the members' classes; if parts are made, then MemberShared, the members'
 * histograms, their differ masks, and their tmp.
 */
static size_t
radix_scratch_bytes(const SortProblem *problem)
{
	size_t		bytes;
	size_t		members = sort_team_size(problem->team);

	if (problem->n <= RADIX_TINY)
		return 0;
	bytes = align64(problem->n * sort_rec_size(problem->format)) + members * radix_class_bytes(problem);
	if (radix_in_parts(problem))
		bytes += sizeof(MemberShared) +
			members * (RADIX_MAX_PARTS * sizeof(uint32_t) + radix_tmp_bytes(problem)) +
			align64(members * sizeof(KeyMask));
	return bytes;
}

static bool
radix_applies(const SortProblem *problem, const char **why)
{
	if (problem->n > UINT32_MAX)
	{
		*why = "more than 2^32 - 1 records";
		return false;
	}
	return true;
}

static bool
radix_sort(Member *m, RadixWork *work)
{
	switch (m->problem->format)
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

/* What work is without room shared with others. */
static void
radix_work_init(RadixWork *work, const SortProblem *problem)
{
	work->begin_bit = problem->begin_bit;
	work->mask = problem_mask(problem);
	work->tmp_bytes = 0;
	work->direct = problem->format == SORT_REC_PACKED && (problem->rids_ascending || problem->begin_bit == 0);
	work->merge = merge_ops();
	work->split_classes = split_classes();
	work->classes = NULL;
}

bool
radix_finish(Member *m, void *recs, void *tmp, size_t n, int low_bit)
{
	RadixWork	work;

	radix_work_init(&work, m->problem);
	if (n == 0 || low_bit <= work.begin_bit)
		return true;
	switch (m->problem->format)
	{
		case SORT_REC_PACKED:
			return packed_finish(m, &work, recs, recs, tmp, n, low_bit, m->problem->end_bit);
		case SORT_REC_64:
			return rec64_finish(m, &work, recs, recs, tmp, n, low_bit, m->problem->end_bit);
		case SORT_REC_128:
			return rec128_finish(m, &work, recs, recs, tmp, n, low_bit, m->problem->end_bit);
	}
	return false;
}

typedef struct RadixRun
{
	SortProblem *problem;
	MemberShared shared;		/* of a problem that is not made into parts */
	SortStatus	status;
	void	   *result;
} RadixRun;

static void
radix_member(void *arg, int rank)
{
	RadixRun   *run = arg;
	SortProblem *problem = run->problem;
	bool		in_parts = radix_in_parts(problem);
	char	   *p = (char *) problem->scratch + align64(problem->n * sort_rec_size(problem->format));
	char	   *shared = p + sort_team_size(problem->team) * radix_class_bytes(problem);
	Member		m = member_make(problem, in_parts ? (MemberShared *) shared : &run->shared,
								rank, in_parts);
	RadixWork	work;
	bool		ok;

	radix_work_init(&work, problem);
	work.classes = (uint8_t *) p + rank * radix_class_bytes(problem);
	if (in_parts)
	{
		p = shared + sizeof(MemberShared);
		work.shared_hist = (uint32_t *) p;
		p += m.size * RADIX_MAX_PARTS * sizeof(uint32_t);
		work.shared_differ = (KeyMask *) p;
		p += align64(m.size * sizeof(KeyMask));
		work.tmp_bytes = radix_tmp_bytes(problem);
		work.tmp = p + rank * work.tmp_bytes;
	}
	ok = radix_sort(&m, &work);
	/* all members agree */
	__atomic_store_n(&run->status, ok ? SORT_OK : SORT_STOPPED, __ATOMIC_RELAXED);
	__atomic_store_n(&run->result, work.result, __ATOMIC_RELAXED);
}

static SortStatus
radix_run(SortProblem *problem)
{
	RadixRun	run;
	const char *why;

	if (!radix_applies(problem, &why))
		return SORT_NOT_APPLICABLE;
	run.problem = problem;
	if (radix_in_parts(problem))
		sort_team_run(problem->team, radix_member, &run);
	else
		radix_member(&run, 0);
	problem->result = run.result;
	return run.status;
}

/*
 * Counting reads a record, the scatter reads it and its place and writes it, the
 * part's sort reads and writes it.  Keys so skewed that parts are parted again
 * pay again.
 */
static double
radix_bytes_per_record(const SortProblem *problem)
{
	return 6.0 * sort_rec_size(problem->format);
}

const SortKernel cpu_radix_kernel = {
	.applies = radix_applies,
	.scratch_bytes = radix_scratch_bytes,
	.run = radix_run,
	.bytes_per_record = radix_bytes_per_record
};
