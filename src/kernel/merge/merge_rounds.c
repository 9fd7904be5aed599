/*
 * merge_rounds.c
 *	  Sorts an array of 64-bit words by a team: runs that fit the L2 cache,
 *	  then rounds of k-way merges.
 *
 * First, free members take chunks and sort each in the L2 cache.  Then a round
 * merges up to MERGE_MAX_LEAVES runs at once through a tree of small queues, so
 * that up to 2^26 words are read and written twice in all (Satish 2010, section
 * 5.2).  Members share a merge by quantiles: each finds where its share of the
 * output starts in every run, and merges from there.
 *
 * Memory and errors: see merge_rounds.h.
 */
#include <string.h>

#include "kernel/merge/merge_rounds.h"
#include "kernel/rec.h"

/* Words of a chunk.  A chunk and its copy take half of the L2 cache. */
#define MERGE_CHUNK_WORDS		((size_t) 1 << 15)

/* Words of a chunk if this saves a round. */
#define MERGE_BIG_CHUNK_WORDS	((size_t) 1 << 16)
#define MERGE_MAX_LEAVES		1024	/* most runs that a tree merges */

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

void
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

bool
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
