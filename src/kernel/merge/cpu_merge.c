/*
 * cpu_merge.c
 *	  cpu_merge: merge sort with SIMD merge networks (Satish 2010, section 5.2);
 *	  stable.
 *
 * The networks merge 64-bit words, whatever the key's width:
 *
 *	- of packed records whose rids ascend, the record: (key, rid) as one number;
 *	- of other records, the leading key bits and the record's index.
 *
 * In the second case the records are gathered by index afterwards, and
 * radix_finish() orders those with equal leading bits, in linear time even if
 * all are equal.  Equal words are the same record, so that the order is stable.
 * The paper merges keys of every width whole.  A network for (128-bit key,
 * rid) would take six instructions per comparison instead of one, and move
 * three times the bytes.
 *
 * Measurements are in docs/design/kernels.md.
 *
 * Memory: of packed words a copy; of other records a copy and a word per
 * record; and for each member of the team up to 2.5 MB of run buffers and merge
 * tree.  After an interrupt packed words are lost; other records are unchanged
 * until the gathering.
 *
 * Errors: SORT_STOPPED, SORT_NOT_APPLICABLE.
 */
#include "kernel/member.h"
#include "kernel/merge/merge_rounds.h"
#include "kernel/radix/radix_finish.h"
#include "kernel/rec.h"

#define GATHER_AHEAD		24	/* records by which gather() prefetches */

/* How records become words. */
typedef struct WordLayout
{
	bool		direct;			/* a record is its word */
	int			index_bits;		/* low bits of a word: the record's index */
	int			low_bit;		/* lowest key bit that a word has */
} WordLayout;

/* The layout for a problem. */
static WordLayout
word_layout(const SortProblem *problem)
{
	WordLayout	l;

	l.direct = problem->format == SORT_REC_PACKED && problem->rids_ascending;
	l.index_bits = ceil_log2(problem->n);
	l.low_bit = problem->end_bit - (64 - l.index_bits);
	if (l.low_bit < problem->begin_bit)
		l.low_bit = problem->begin_bit;
	return l;
}

/* One call of merge_run(), shared by the members. */
typedef struct MergeRun
{
	SortProblem *problem;
	WordLayout	layout;
	const MergeOps *ops;
	SortStatus	status;
} MergeRun;

/*
 * Stores the words of records [from, to) at out.  Bits above end_bit are
 * masked, as a window may have them.
 */
static void
make_words(void *arg, size_t from, size_t to, uint64_t *out)
{
	const MergeRun *run = arg;
	const SortProblem *problem = run->problem;
	int			shift = run->layout.low_bit;
	int			index_bits = run->layout.index_bits;
	uint64_t	mask = mask_below(problem->end_bit - shift);

	if (run->layout.direct)
		memcpy(out, (const uint64_t *) problem->recs + from, (to - from) * sizeof(uint64_t));
	else if (problem->format == SORT_REC_PACKED)
		for (size_t i = from; i < to; i++)
			*out++ = (PACKED_WINDOW(((const uint64_t *) problem->recs)[i], shift) & mask) << index_bits | i;
	else if (problem->format == SORT_REC_64)
		for (size_t i = from; i < to; i++)
			*out++ = (REC64_WINDOW(((const SortRec64 *) problem->recs)[i], shift) & mask) << index_bits | i;
	else
		for (size_t i = from; i < to; i++)
			*out++ = (REC128_WINDOW(((const SortRec128 *) problem->recs)[i], shift) & mask) << index_bits | i;
}

/* Body of gather() for one record type. */
#define GATHER(REC) \
	do { \
		const REC  *src = problem->recs; \
		REC		   *dst = out; \
		for (size_t i = from; i < to; i++) \
		{ \
			__builtin_prefetch(&src[words[i + GATHER_AHEAD < to ? i + GATHER_AHEAD : i] & mask]); \
			dst[i] = src[words[i] & mask]; \
		} \
	} while (0)

/*
 * Copies the records of words[from .. to - 1] to out[from], by their indexes.
 */
static void
gather(const SortProblem *problem, const uint64_t *words, int index_bits, void *out,
	   size_t from, size_t to)
{
	uint64_t	mask = mask_below(index_bits);

	if (problem->format == SORT_REC_PACKED)
		GATHER(uint64_t);
	else if (problem->format == SORT_REC_64)
		GATHER(SortRec64);
	else
		GATHER(SortRec128);
}

/*
 * Index of the first word at or after i whose key bits differ from the previous
 * word's.
 */
static size_t
run_start(const uint64_t *words, size_t i, size_t n, int index_bits)
{
	while (i > 0 && i < n && words[i] >> index_bits == words[i - 1] >> index_bits)
		i++;
	return i;
}

/*
 * Gathers the member's slice of the records, and orders those with equal
 * leading bits.  False if stopped.
 */
static bool
gather_and_finish(Member *m, const WordLayout *layout, const uint64_t *words, void *out)
{
	SortProblem *problem = m->problem;
	size_t		from = member_slice(m, problem->n, m->rank);
	size_t		to = member_slice(m, problem->n, m->rank + 1);
	size_t		size = sort_rec_size(problem->format);

	for (size_t i = from; i < to; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			break;
		gather(problem, words, layout->index_bits, out, i, to - i < MEMBER_POLL ? to : i + MEMBER_POLL);
	}
	if (!member_barrier(m))
		return false;
	if (layout->low_bit > problem->begin_bit)
	{
		from = run_start(words, from, problem->n, layout->index_bits);
		to = run_start(words, to, problem->n, layout->index_bits);
		if (to > from)
			radix_finish(m, (char *) out + from * size, (char *) problem->recs + from * size,
						 to - from, layout->low_bit);
	}
	return member_barrier(m);
}

/*
 * Body of a member.  Scratch: MemberShared, the members' memory, then for
 * direct words their copy, for other records an array of words and the output,
 * which also serves as the second array of words.
 */
static void
merge_member(void *arg, int rank)
{
	MergeRun   *run = arg;
	SortProblem *problem = run->problem;
	char	   *p = problem->scratch;
	Member		m = member_make(problem, (MemberShared *) p, rank, sort_team_helps(problem->team, problem->n));
	MergePlan	plan;
	char	   *room;
	bool		ok;

	merge_plan(&plan, problem->n);
	p += sizeof(MemberShared);
	room = p + rank * plan.member_bytes;
	p += m.size * plan.member_bytes;
	if (run->layout.direct)
		ok = merge_rounds(&m, &plan, run->ops, make_words, run,
						  problem->recs, (uint64_t *) p, room);
	else
	{
		uint64_t   *words = (uint64_t *) p;
		uint64_t   *output = (uint64_t *) (p + align64(problem->n * sizeof(uint64_t)));

		/* the sorted words must be in words, as output gets the records */
		ok = merge_rounds(&m, &plan, run->ops, make_words, run,
						  plan.rounds % 2 == 0 ? words : output,
						  plan.rounds % 2 == 0 ? output : words, room) &&
			gather_and_finish(&m, &run->layout, words, output);
	}
	/* all members store the same value */
	__atomic_store_n(&run->status, ok ? SORT_OK : SORT_STOPPED, __ATOMIC_RELAXED);
}

static bool
merge_applies(const SortProblem *problem, const char **why)
{
	if (problem->n > UINT32_MAX)
	{
		*why = "more than 2^32 - 1 records";
		return false;
	}
	return true;
}

static size_t
merge_scratch_bytes(const SortProblem *problem)
{
	WordLayout	layout = word_layout(problem);
	size_t		members = sort_team_helps(problem->team, problem->n) ? problem->team->size : 1;
	MergePlan	plan;

	if (problem->n <= 1)
		return 0;
	merge_plan(&plan, problem->n);
	return sizeof(MemberShared) + members * plan.member_bytes +
		(layout.direct && plan.rounds == 0 ? 0 : align64(problem->n * sizeof(uint64_t))) +
		(layout.direct ? 0 : align64(problem->n * sort_rec_size(problem->format)));
}

static SortStatus
merge_run(SortProblem *problem)
{
	MergeRun	run;
	MergePlan	plan;
	char	   *output;
	const char *why;

	if (!merge_applies(problem, &why))
		return SORT_NOT_APPLICABLE;
	problem->result = problem->recs;
	if (problem->n <= 1)
		return SORT_OK;
	run.problem = problem;
	run.layout = word_layout(problem);
	run.ops = merge_ops();
	if (sort_team_helps(problem->team, problem->n))
		sort_team_run(problem->team, merge_member, &run);
	else
		merge_member(&run, 0);

	merge_plan(&plan, problem->n);
	output = (char *) problem->scratch + sizeof(MemberShared) +
		(sort_team_helps(problem->team, problem->n) ? problem->team->size : 1) * plan.member_bytes;
	if (!run.layout.direct)
		problem->result = output + align64(problem->n * sizeof(uint64_t));
	else if (plan.rounds % 2 == 1)
		problem->result = output;
	return run.status;
}

const SortKernel cpu_merge_kernel = {
	.applies = merge_applies,
	.scratch_bytes = merge_scratch_bytes,
	.run = merge_run
};
