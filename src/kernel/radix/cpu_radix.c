/*
 * cpu_radix.c
 *	  cpu_radix: radix sort (Satish 2010, sections 4.2.1 and 4.3); stable.
 *
 * The paper sorts least significant digit first, 8 bits per pass, over all key
 * bits.  Here:
 *
 *	1. Above RADIX_BIG_BYTES, one pass by the most significant digit, of up
 *	   to 10 bits, makes parts that fit the L2 cache.  Each part is then sorted
 *	   in cache; a large part is divided again.  Memory is read three times and
 *	   written twice, whatever the key's width.
 *	2. A part, or a small input, is sorted by its log2(n) + 3 leading bits,
 *	   least significant digit first.  They distinguish nearly all of n uniform
 *	   keys.  A pass over neighbours orders the other ones by insertion.  A run
 *	   of equal leading bits in which a record would move 16 places is sorted by
 *	   its lower bits.  Wide keys thus take no more passes than narrow ones.
 *	3. One reading counts all digits of a part; digits that are constant are
 *	   skipped.
 *	4. If a sample, or a part's leading digit, shows that leading bits are
 *	   skewed, records are divided by splitters from a sample (radix_split.h),
 *	   with a class of its own for each frequent key.  Up to RADIX_SMALL such
 *	   records are sorted by cpu_merge's networks.  If a few more bits
 *	   distinguish the keys, those are sorted.
 *
 * The members of a team count and scatter slices of the input, each with a
 * table of counters, and then take parts as they become free.
 *
 * The paper's software write buffers are not used: the branch that empties a
 * buffer mispredicts once per line, which costs more than the cache misses that
 * it avoids.  Measurements are in docs/design/kernels.md.
 *
 * Memory: a copy of the records and a byte for each; above RADIX_BIG_BYTES also
 * 4 kB of counters and 128 kB to 2 MB of working memory per member.  After an
 * interrupt the records are lost.
 *
 * Errors: SORT_STOPPED, SORT_NOT_APPLICABLE.
 */
#include <string.h>

#include "kernel/member.h"
#include "kernel/merge/merge_words.h"
#include "kernel/radix/radix_finish.h"
#include "kernel/radix/radix_split.h"
#include "kernel/rec.h"

#define RADIX_TINY			24	/* most records for insertion sort */

/* Width of a digit: in a part of up to RADIX_WIDE_BYTES, and in larger ones. */
#define RADIX_MAX_BITS		11
#define RADIX_FAR_BITS		9
#define RADIX_WIDE_BYTES	((size_t) 512 << 10)
#define RADIX_MAX_SIZE		(1 << RADIX_MAX_BITS)

#define RADIX_MAX_DIGITS	4	/* digits counted in one reading */
#define RADIX_SLACK_BITS	3	/* leading bits sorted beyond log2(n) */
#define RADIX_FINISH_MOVES	16	/* most places that insertion moves a record */

/*
 * Skew.  A leading digit is skewed if the sum of the squares of its counts is
 * RADIX_SKEWED times that of uniform keys, for at least RADIX_SKEWED_MIN
 * records.  A sample is skewed if more than RADIX_SKEWED_PAIRS of its 2016
 * pairs have equal leading bits.
 */
#define RADIX_SKEWED_MIN	1024
#define RADIX_SKEWED		4
#define RADIX_SKEWED_PAIRS	400
#define RADIX_SMALL			1024	/* most skewed records for networks */
#define RADIX_SPLIT_BATCH	128 /* records classified at a time */

/* The sample of RADIX(sample)(). */
#define RADIX_SAMPLE		64
#define RADIX_SAMPLE_EQUAL	8	/* equal neighbours that mean many equal keys */

/* bits that distinguish a sample of uniform keys */
#define RADIX_SAMPLE_BITS	6.5

/* Parts by the leading digit. */
#define RADIX_PART_BITS		10	/* most bits of the leading digit */
#define RADIX_MAX_PARTS		(1 << RADIX_PART_BITS)
#define RADIX_WASTED_BITS	2	/* most constant bits of the leading digit */
#define RADIX_PART_BYTES	((size_t) 64 << 10) /* expected size of a part */
#define RADIX_BIG_BYTES		((size_t) 1 << 20)	/* least input that is divided */

/* least memory to sort a part */
#define RADIX_MIN_TMP_BYTES	((size_t) 128 << 10)
#define RADIX_MAX_TMP_BYTES	((size_t) 2 << 20)	/* most memory to sort a part */

/* The digits that a part is sorted by: nbits key bits from low_bit upwards. */
typedef struct DigitPlan
{
	int			low_bit;
	int			nbits;
	int			ndigits;
	int			shift[RADIX_MAX_DIGITS];	/* lowest bit, above low_bit */
	uint32_t	mask[RADIX_MAX_DIGITS];
} DigitPlan;

/* State of a member. */
typedef struct RadixWork
{
	KeyMask		mask;			/* the key bits that order */
	int			begin_bit;
	void	   *tmp;			/* memory of this member to sort a part */
	size_t		tmp_bytes;
	uint32_t   *shared_hist;	/* [member][part]: counts of the leading digit */
	KeyMask    *shared_differ;	/* [member]: key bits in which records differ */
	void	   *result;			/* where the sorted records are */
	bool		direct;			/* packed records compare as words */
	const MergeOps *merge;
	SplitClasses split_classes;
	uint8_t    *classes;		/* a byte per record of this member */
	uint64_t	words[2][RADIX_SMALL];
	uint32_t	hist[RADIX_MAX_DIGITS][RADIX_MAX_SIZE];
} RadixWork;

/* One more than the highest bit set in m, which is not empty. */
static inline int
top_bit(const KeyMask *m)
{
	return m->hi ? 128 - __builtin_clzll(m->hi) : 64 - __builtin_clzll(m->lo);
}

/* Replaces each count by the sum of those before it. */
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

/* Most records of a part that one member sorts. */
static inline size_t
radix_big_part(size_t rec_size)
{
	return RADIX_BIG_BYTES / rec_size;
}

/* Is the input divided into parts? */
static inline bool
radix_in_parts(const SortProblem *problem)
{
	return problem->n * sort_rec_size(problem->format) > RADIX_BIG_BYTES ||
		sort_team_for(problem->team, problem->n) != NULL;
}

/*
 * Width of the leading digit: gives parts of RADIX_PART_BYTES, and several to
 * each member.
 */
static int
radix_part_bits(const SortTeam *team, size_t n, size_t rec_size)
{
	int			bits = ceil_log2(n * rec_size / RADIX_PART_BYTES + 1);
	int			least = sort_team_size(team) > 1 ? 4 + ceil_log2(team->size) : 1;

	return bits < least ? least : bits > RADIX_PART_BITS ? RADIX_PART_BITS : bits;
}

/*
 * Width of a digit for n records; an empty counter takes about the time of a
 * record.
 */
static int
digit_bits(size_t n, size_t rec_size)
{
	int			widest = n * rec_size <= RADIX_WIDE_BYTES ? RADIX_MAX_BITS : RADIX_FAR_BITS;
	int			log = ceil_log2(n);

	return widest < log - 1 ? widest : log - 1;
}

/*
 * Plans digits for the key bits [low_bit, high_bit), or for the lowest of those
 * that RADIX_MAX_DIGITS digits cover.
 */
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
 * Plans digits for the leading bits that distinguish n uniform keys, or for all
 * bits if that takes no more digits.
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
 * Number of bits up to which digits are faster than splitters: two passes, or
 * three for words.  Equal keys slow down a pass, because successive records go
 * to the same place; splitters put them in classes that need no more sorting.
 */
static int
radix_digit_bits_max(size_t rec_size, int equal)
{
	return (rec_size > sizeof(uint64_t) || equal > RADIX_SAMPLE_EQUAL ? 2 : 3) * RADIX_MAX_BITS;
}

#define RADIX			FORMAT
#define FORMAT_TEMPLATE "kernel/radix/radix_template.h"
#include "kernel/formats_template.h"

/* Bytes of RadixWork.tmp: twice the average part, as parts vary. */
static size_t
radix_tmp_bytes(const SortProblem *problem)
{
	size_t		bytes = problem->n * sort_rec_size(problem->format);

	bytes = align64((bytes >> radix_part_bits(problem->team, problem->n, sort_rec_size(problem->format))) * 2);
	return bytes < RADIX_MIN_TMP_BYTES ? RADIX_MIN_TMP_BYTES :
		bytes > RADIX_MAX_TMP_BYTES ? RADIX_MAX_TMP_BYTES : bytes;
}

/* Bytes of RadixWork.classes: most records that one member classifies. */
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
 * Scratch: copy of the records, classes of the members; if parts are made, also
 * MemberShared, the members' counts, differ masks and tmp.
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

/* Initialises the fields that do not depend on scratch. */
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
	return CALL_FORMAT(m->problem->format, finish, m, &work, recs, recs, tmp, n, low_bit, m->problem->end_bit);
}

/* One call of radix_run(), shared by the members. */
typedef struct RadixRun
{
	SortProblem *problem;
	MemberShared shared;		/* used if the input is not divided */
	SortStatus	status;
	void	   *result;
} RadixRun;

/* Body of a member. */
static void
radix_member(void *arg, int rank)
{
	RadixRun   *run = arg;
	SortProblem *problem = run->problem;
	bool		in_parts = radix_in_parts(problem);
	char	   *p = (char *) problem->scratch + align64(problem->n * sort_rec_size(problem->format));
	char	   *shared = p + sort_team_size(problem->team) * radix_class_bytes(problem);
	Member		m = member_make(problem, in_parts ? (MemberShared *) shared : &run->shared,
								rank, in_parts ? problem->team : NULL);
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
	ok = CALL_FORMAT(problem->format, sort, &m, &work);
	/* all members store the same value */
	__atomic_store_n(&run->status, ok ? SORT_OK : SORT_STOPPED, __ATOMIC_RELAXED);
	__atomic_store_n(&run->result, work.result, __ATOMIC_RELAXED);
}

static SortStatus
radix_run(SortProblem *problem)
{
	RadixRun	run;
	const char *why;

	if (!rids_suffice(problem, &why))
		return SORT_NOT_APPLICABLE;
	run.problem = problem;
	sort_team_run(radix_in_parts(problem) ? problem->team : NULL, radix_member, &run);
	problem->result = run.result;
	return run.status;
}

const SortKernel cpu_radix_kernel = {
	.applies = rids_suffice,
	.scratch_bytes = radix_scratch_bytes,
	.run = radix_run
};
