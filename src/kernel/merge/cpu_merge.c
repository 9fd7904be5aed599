/*
 * cpu_merge.c
 *	  Stable merge sort with SIMD merge networks (Satish 2010, 5.2).
 *
 * What is merged is always a 64-bit word, whatever the key's width, as that is
 * what the networks do best:
 *
 *	packed records whose rids ascend	the record itself: (key, rid) as one number
 *	all others							the leading key bits and the record's index
 *
 * In the second case the records are gathered by index afterwards, and those whose
 * leading bits are equal are put in order by radix_finish(), whose cost is linear
 * even if all are.  Words that are equal are the same record, so any order of them
 * is the stable one.  The paper merges keys of every width as such; with a network for (128-bit
 * key, rid) each comparison takes six instructions instead of one, and two thirds
 * of the moved bytes are not needed to decide anything.
 *
 * What the networks do, ns per word on one core of a Zen 5 EPYC with AVX-512:
 * 64 words in registers 1.0, each doubling of a run in L2 0.5, each level of the
 * tree 0.6; so (32-bit key, rid) takes 5 ns at 2^14 and 8.4 at 2^20, where
 * cpu_radix takes 2.6 and 3.6.  What was tried:
 *	- -O2 leaves the loops over vectors rolled, and vectors in memory: unrolled by
 *	  pragma, 11.4 to 5.0 ns at 2^14.
 *	- A node's streams in local variables instead of the tree: a level 2.0 to 0.6.
 *	- Queues of 32, 64, 128 and 256 words: 14.7, 9.0, 9.4, 9.1 ns at 2^20; at 8M
 *	  64 takes 12.8, 128 and 256 take 11.3.
 *	- Chunks of 2^14 words instead of 2^15: 10.8 instead of 9.0 ns at 2^20.
 *
 * Memory: packed words, a copy; others, a copy of the records and a word per
 * record; and for each member up to 2.5 MB of run buffers and merge tree.  On an
 * interrupt packed words are lost; other records are untouched until the finish.
 */
#include "kernel/member.h"
#include "kernel/merge/merge_rounds.h"
#include "kernel/radix/radix_finish.h"
#include "kernel/rec.h"

#define MERGE_TEAM_MIN	((size_t) 1 << 16)	/* records worth waking a team for */
#define GATHER_AHEAD	24		/* records prefetched */

/* How a problem is turned into words. */
typedef struct WordLayout
{
	bool		direct;			/* the records are the words */
	int			index_bits;
	int			low_bit;		/* of the key, as far as it is in the word */
} WordLayout;

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

static bool
merge_by_team(const SortProblem *problem)
{
	return problem->team != NULL && problem->team->size > 1 && problem->n >= MERGE_TEAM_MIN;
}

typedef struct MergeRun
{
	SortProblem *problem;
	WordLayout	layout;
	const MergeOps *ops;
	SortStatus	status;
} MergeRun;

/*
 * Words of the records [from, to), at out.  The window is shifted left past the
 * bits above end_bit, so that those drop out.
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

/* The records [from, to) of the output, by their indexes. */
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

/* The first record at or after i whose leading bits differ from its predecessor's. */
static size_t
run_start(const uint64_t *words, size_t i, size_t n, int index_bits)
{
	while (i > 0 && i < n && words[i] >> index_bits == words[i - 1] >> index_bits)
		i++;
	return i;
}

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
 * Scratch: MemberShared, the members' room, then for direct words their copy;
 * for others the words' last place, and the output, which is also their first or
 * last but one.
 */
static void
merge_member(void *arg, int rank)
{
	MergeRun   *run = arg;
	SortProblem *problem = run->problem;
	char	   *p = problem->scratch;
	Member		m = member_make(problem, (MemberShared *) p, rank, merge_by_team(problem));
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

		/* They must end in words. */
		ok = merge_rounds(&m, &plan, run->ops, make_words, run,
						  plan.rounds % 2 == 0 ? words : output,
						  plan.rounds % 2 == 0 ? output : words, room) &&
			gather_and_finish(&m, &run->layout, words, output);
	}
	/* all members agree */
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
	size_t		members = merge_by_team(problem) ? problem->team->size : 1;
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
	if (merge_by_team(problem))
		sort_team_run(problem->team, merge_member, &run);
	else
		merge_member(&run, 0);

	merge_plan(&plan, problem->n);
	output = (char *) problem->scratch + sizeof(MemberShared) +
		(merge_by_team(problem) ? problem->team->size : 1) * plan.member_bytes;
	if (!run.layout.direct)
		problem->result = output + align64(problem->n * sizeof(uint64_t));
	else if (plan.rounds % 2 == 1)
		problem->result = output;
	return run.status;
}

/*
 * Runs: a record is read and a word written; each round reads a word, its place,
 * and writes it.  Gathering reads a word and a record, at random, and writes one.
 */
static double
merge_bytes_per_record(const SortProblem *problem)
{
	double		size = sort_rec_size(problem->format);
	MergePlan	plan;

	merge_plan(&plan, problem->n);
	return size + 8 + 24 * plan.rounds +
		(word_layout(problem).direct ? 0 : 8 + 64 + 2 * size);
}

const SortKernel cpu_merge_kernel = {
	.applies = merge_applies,
	.scratch_bytes = merge_scratch_bytes,
	.run = merge_run,
	.bytes_per_record = merge_bytes_per_record
};
