/*
 * cpu_merge.c
 *	  cpu_merge: merge sort with SIMD merge networks (Satish 2010, section 5.2);
 *	  stable.
 *
 * First, free members take chunks and sort each in the L2 cache.  Then a round
 * merges up to MERGE_MAX_LEAVES runs at once through a tree of small queues, so
 * that up to 2^26 words are read and written twice in all.  Members share a
 * merge by quantiles: each finds where its share of the output starts in every
 * run, and merges from there.
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
#include <string.h>

#include "kernel/member.h"
#include "kernel/merge/merge_words.h"
#include "kernel/radix/radix_finish.h"
#include "kernel/rec.h"

#define GATHER_AHEAD		24	/* records by which gather() prefetches */

/* Words of a chunk.  A chunk and its copy take half of the L2 cache. */
#define MERGE_CHUNK_WORDS		((size_t) 1 << 15)

/* Words of a chunk if this saves a round. */
#define MERGE_BIG_CHUNK_WORDS	((size_t) 1 << 16)
#define MERGE_MAX_LEAVES		1024	/* most runs that a tree merges */

/* ------------------------------------------------------------------------
 * Words: runs that fit the L2 cache, then rounds of k-way merges
 * ------------------------------------------------------------------------
 */

/* How n words are sorted; depends on n only. */
typedef struct MergePlan
{
	size_t		n;				/* number of words */
	size_t		chunk;			/* words of a run before the first round */
	size_t		nchunks;		/* number of those runs */

	/* Most runs that a tree merges, a power of two; 0: there is one run. */
	size_t		leaves;
	int			rounds;			/* number of rounds of merges */
	size_t		member_bytes;	/* memory of each member, a multiple of 64 */
} MergePlan;

/* Stores the words [from, to) of the input at out. */
typedef void (*MergeSource) (void *arg, size_t from, size_t to, uint64_t *out);

/* Neighbouring runs that are merged into one. */
typedef struct RunGroup
{
	const uint64_t *words;
	size_t		n;				/* number of words of all runs */
	size_t		run;			/* words of each run; the last may have fewer */
	size_t		nruns;			/* number of runs */
} RunGroup;

/* n, rounded up to a multiple of MERGE_PAD_WORDS. */
static size_t
pad(size_t n)
{
	return (n + MERGE_PAD_WORDS - 1) / MERGE_PAD_WORDS * MERGE_PAD_WORDS;
}

/* Fills the plan for n words. */
static void
merge_plan(MergePlan *plan, size_t n)
{
	size_t		runs;

	plan->n = n;
	plan->chunk = n > MERGE_CHUNK_WORDS * MERGE_MAX_LEAVES ?
		MERGE_BIG_CHUNK_WORDS : MERGE_CHUNK_WORDS;
	if (plan->chunk > n)
		plan->chunk = n > 0 ? n : 1;
	plan->nchunks = (n + plan->chunk - 1) / plan->chunk;
	plan->rounds = 0;
	for (runs = plan->nchunks; runs > 1;
		 runs = (runs + MERGE_MAX_LEAVES - 1) / MERGE_MAX_LEAVES)
		plan->rounds++;
	plan->leaves = 0;
	if (plan->rounds > 0)
		plan->leaves = (size_t) 1 << ceil_log2(plan->nchunks < MERGE_MAX_LEAVES ?
											   plan->nchunks : MERGE_MAX_LEAVES);
	/* two copies of a chunk, the tree, and the arrays of cut_runs() */
	plan->member_bytes = 2 * pad(plan->chunk) * sizeof(uint64_t) +
		align64(plan->leaves * (2 * sizeof(MergeStream) + sizeof(MergeNode) +
								sizeof(MergeTail) + 3 * sizeof(size_t)));
}

/* Index of the first word in [from, to) that is not below value; else to. */
static size_t
lower_bound(const uint64_t *words, size_t from, size_t to, uint64_t value)
{
	while (from < to)
	{
		size_t		mid = from + (to - from) / 2;

		if (words[mid] < value)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/*
 * Finds the cut of each run, cut[nruns], such that the words before the cuts
 * are the target least ones of the group.  The cutting value is determined bit
 * by bit from the highest one; the interval of each run narrows meanwhile.
 * Words equal to it are taken from the first runs on, so that all members find
 * the same cuts.  high and probe are working memory of nruns numbers each.
 */
static void
cut_runs(const RunGroup *g, size_t target, size_t *cut, size_t *high, size_t *probe)
{
	uint64_t	value = 0;
	size_t		missing = target;

	for (size_t r = 0; r < g->nruns; r++)
	{
		cut[r] = r * g->run;
		high[r] = r + 1 < g->nruns ? (r + 1) * g->run : g->n;
		if (target >= g->n)
			cut[r] = high[r];
	}
	if (target == 0 || target >= g->n)
		return;
	for (int bit = 63; bit >= 0; bit--)
	{
		uint64_t	candidate = value | UINT64_C(1) << bit;
		size_t		below = 0;

		for (size_t r = 0; r < g->nruns; r++)
		{
			probe[r] = lower_bound(g->words, cut[r], high[r], candidate);
			below += probe[r] - r * g->run;
		}
		if (below <= target)
		{
			value = candidate;
			memcpy(cut, probe, g->nruns * sizeof(size_t));
		}
		else
			memcpy(high, probe, g->nruns * sizeof(size_t));
	}

	/* words from cut to high are equal to the cutting value */
	for (size_t r = 0; r < g->nruns; r++)
		missing -= cut[r] - r * g->run;
	for (size_t r = 0; r < g->nruns && missing > 0; r++)
	{
		size_t		take = high[r] - cut[r] < missing ? high[r] - cut[r] : missing;

		cut[r] += take;
		missing -= take;
	}
}

/* Merges the member's share of one group.  False if stopped. */
static bool
merge_group(Member *m, const MergeOps *ops, const RunGroup *g, uint64_t *out,
			size_t leaves, char *room)
{
	size_t		from = member_slice(m, g->n, m->rank);
	size_t		to = member_slice(m, g->n, m->rank + 1);
	MergeTree	tree;
	size_t	   *cut;

	while (leaves / 2 >= g->nruns && leaves > 2)
		leaves /= 2;
	tree.nleaves = leaves;
	tree.nodes = (MergeNode *) room;
	tree.tails = (MergeTail *) (tree.nodes + leaves);
	tree.streams = (MergeStream *) (tree.tails + leaves);
	cut = (size_t *) (tree.streams + 2 * leaves);

	cut_runs(g, to, cut, cut + leaves, cut + 2 * leaves);
	for (size_t r = 0; r < leaves; r++)
	{
		tree.streams[leaves + r].end = r < g->nruns ? g->words + cut[r] : NULL;
		tree.streams[leaves + r].ptr = NULL;
	}
	cut_runs(g, from, cut, cut + leaves, cut + 2 * leaves);
	for (size_t r = 0; r < g->nruns; r++)
		tree.streams[leaves + r].ptr = g->words + cut[r];

	ops->tree_start(&tree);
	for (size_t i = from; i < to; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			return false;
		ops->tree_next(&tree, out + i, to - i < MEMBER_POLL ? to - i : MEMBER_POLL);
	}
	return true;
}

/*
 * Sorts n words that source returns; every member calls it.  a and b are arrays
 * of n words.  The result is in a if plan->rounds is even, else in b.  room is
 * memory of this member, plan->member_bytes long, 64-byte aligned.  False if
 * the team was stopped.
 */
static bool
merge_rounds(Member *m, const MergePlan *plan, const MergeOps *ops,
			 MergeSource source, void *arg, uint64_t *a, uint64_t *b, void *room)
{
	uint64_t   *tmp = room;
	uint64_t   *tmp2 = tmp + pad(plan->chunk);
	char	   *tree_room = (char *) (tmp2 + pad(plan->chunk));
	size_t		run = plan->chunk;

	for (;;)
	{
		size_t		task = m->size == 1 ? m->shared->next_task++ :
			__atomic_fetch_add(&m->shared->next_task, 1, __ATOMIC_RELAXED);
		size_t		from = task * plan->chunk;
		size_t		len;
		uint64_t   *sorted;

		if (task >= plan->nchunks || member_stopped(m))
			break;
		len = plan->n - from < plan->chunk ? plan->n - from : plan->chunk;
		source(arg, from, from + len, tmp);
		for (size_t i = len; i < pad(len); i++)
			tmp[i] = UINT64_MAX;
		sorted = ops->sort_chunk(tmp, pad(len), tmp, tmp2);
		memcpy(a + from, sorted, len * sizeof(uint64_t));
	}
	if (!member_barrier(m))
		return false;

	for (int round = 0; round < plan->rounds; round++)
	{
		uint64_t   *t = a;
		size_t		merged = run * MERGE_MAX_LEAVES;

		for (size_t first = 0; first < plan->n; first += merged)
		{
			RunGroup	g;

			g.words = a + first;
			g.n = plan->n - first < merged ? plan->n - first : merged;
			g.run = run;
			g.nruns = (g.n + run - 1) / run;
			if (!merge_group(m, ops, &g, b + first, plan->leaves, tree_room))
				break;
		}
		if (!member_barrier(m))
			return false;
		a = b;
		b = t;
		run = merged;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Records
 * ------------------------------------------------------------------------
 */

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
	SortTeam   *team;
	WordLayout	layout;
	MergePlan	plan;
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
	Member		m = member_make(problem, (MemberShared *) p, rank, run->team);
	const MergePlan *plan = &run->plan;
	char	   *room;
	bool		ok;

	p += sizeof(MemberShared);
	room = p + rank * plan->member_bytes;
	p += m.size * plan->member_bytes;
	if (run->layout.direct)
		ok = merge_rounds(&m, plan, run->ops, make_words, run,
						  problem->recs, (uint64_t *) p, room);
	else
	{
		uint64_t   *words = (uint64_t *) p;
		uint64_t   *output = (uint64_t *) (p + align64(problem->n * sizeof(uint64_t)));

		/* the sorted words must be in words, as output gets the records */
		ok = merge_rounds(&m, plan, run->ops, make_words, run,
						  plan->rounds % 2 == 0 ? words : output,
						  plan->rounds % 2 == 0 ? output : words, room) &&
			gather_and_finish(&m, &run->layout, words, output);
	}
	/* all members store the same value */
	__atomic_store_n(&run->status, ok ? SORT_OK : SORT_STOPPED, __ATOMIC_RELAXED);
}

static size_t
merge_scratch_bytes(const SortProblem *problem)
{
	WordLayout	layout = word_layout(problem);
	size_t		members = sort_team_size(sort_team_for(problem->team, problem->n));
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
	MergeRun	run = {.problem = problem,.team = sort_team_for(problem->team, problem->n)};
	char	   *output;
	const char *why;

	if (!rids_suffice(problem, &why))
		return SORT_NOT_APPLICABLE;
	problem->result = problem->recs;
	if (problem->n <= 1)
		return SORT_OK;
	run.layout = word_layout(problem);
	merge_plan(&run.plan, problem->n);
	run.ops = merge_ops();
	sort_team_run(run.team, merge_member, &run);

	output = (char *) problem->scratch + sizeof(MemberShared) + sort_team_size(run.team) * run.plan.member_bytes;
	if (!run.layout.direct)
		problem->result = output + align64(problem->n * sizeof(uint64_t));
	else if (run.plan.rounds % 2 == 1)
		problem->result = output;
	return run.status;
}

const SortKernel cpu_merge_kernel = {
	.applies = rids_suffice,
	.scratch_bytes = merge_scratch_bytes,
	.run = merge_run
};
