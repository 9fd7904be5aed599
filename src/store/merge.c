/*
 * merge.c
 *	  k-way merge of sorted runs with a tree of losers.
 *
 * An inner node of the tree holds the run that lost the match there, with its
 * key; the root's parent holds the winner.  The next row of the winner's run plays
 * its way up again: log2(k) comparisons of 128-bit numbers whose outcome nobody
 * can predict, so winner and loser change places without a branch.  Only equal keys
 * branch, to the end of a run (whose key is the largest), to a comparator where keys
 * are cut, and between rows that are equal the run with the smaller number wins:
 * runs are numbered in input order, the merge is stable.
 *
 * A run's next row is some k rows away from its turn when the one before it is
 * taken, in a buffer that has left the cache since: its memory is asked for then.
 *
 * Memory policy: the caller gives the read buffers, and takes no more runs than
 * merge_fan_in() allows.  An ERROR leaves the file to its resource owner.
 */
#include "postgres.h"

#include "store/merge.h"

#define MERGE_MIN_FAN_IN		6
#define MERGE_MAX_FAN_IN		500

/* Longer rows gain nothing from having more of them asked for. */
#define MERGE_PREFETCH			64

/* A run in the tree. */
typedef struct MergeNode
{
	MergeKey	key;			/* of its current row; the largest if it has ended */
	uint64		run;
} MergeNode;

struct Merge
{
	MergeOrder	order;
	int			nruns;
	bool		started;
	MergeNode	winner;
	MergeNode  *losers;			/* inner nodes 1 .. nruns - 1 */
	MinimalTuple *rows;			/* NULL: the run has ended */
	RunReader  *readers;
};

int
merge_fan_in(const SpillFile *file, Size memory)
{
	Size		n = memory / run_reader_buffer_size(file);

	return (int) Max(MERGE_MIN_FAN_IN, Min(n, MERGE_MAX_FAN_IN));
}

/* Fetches run r's next row; returns its key. */
static inline MergeKey
merge_advance(Merge *merge, int r)
{
	MinimalTuple row = run_reader_next(&merge->readers[r]);

	merge->rows[r] = row;
	if (unlikely(row == NULL))
	{
		run_reader_close(&merge->readers[r]);
		return ~(MergeKey) 0;
	}
	__builtin_prefetch((char *) row + MAXALIGN(row->t_len));
	__builtin_prefetch((char *) row + MAXALIGN(row->t_len) + MERGE_PREFETCH);
	return merge->order.key(merge->order.arg, row);
}

/* Does run a's row go before run b's, whose key is the same? */
static pg_noinline bool
merge_equal_before(Merge *merge, int a, int b)
{
	int			cmp;

	if (merge->rows[a] == NULL || merge->rows[b] == NULL)
		return merge->rows[a] != NULL || (merge->rows[b] == NULL && a < b);
	if (!merge->order.exact)
	{
		cmp = merge->order.compare(merge->order.arg, merge->rows[a], merge->rows[b]);
		if (cmp != 0)
			return cmp < 0;
	}
	return a < b;
}

static inline bool
merge_before(Merge *merge, const MergeNode *a, const MergeNode *b)
{
	if (unlikely(a->key == b->key))
		return merge_equal_before(merge, (int) a->run, (int) b->run);
	return a->key < b->key;
}

/* Lets a and b change places if so, without a branch. */
static inline void
swap_if(bool so, MergeNode *a, MergeNode *b)
{
	uint64		mask = -(uint64) so;
	MergeKey	key = (a->key ^ b->key) & ((MergeKey) mask << 64 | mask);
	uint64		run = (a->run ^ b->run) & mask;

	a->key ^= key;
	b->key ^= key;
	a->run ^= run;
	b->run ^= run;
}

/* Plays the tree below node; leaf r is node nruns + r.  Returns the winner. */
static MergeNode
merge_play(Merge *merge, int node)
{
	MergeNode	a;
	MergeNode	b;

	if (node >= merge->nruns)
	{
		a.run = node - merge->nruns;
		a.key = merge_advance(merge, (int) a.run);
		return a;
	}
	a = merge_play(merge, 2 * node);
	b = merge_play(merge, 2 * node + 1);
	swap_if(merge_before(merge, &b, &a), &a, &b);
	merge->losers[node] = b;
	return a;
}

Merge *
merge_begin(SpillFile *file, SpillRun **runs, int nruns, char *buffers,
			const MergeOrder *order)
{
	Merge	   *merge = palloc0(sizeof(Merge));

	merge->order = *order;
	merge->nruns = nruns;
	merge->losers = palloc(nruns * sizeof(MergeNode));
	merge->rows = palloc0(nruns * sizeof(MinimalTuple));
	merge->readers = palloc0(nruns * sizeof(RunReader));
	for (int r = 0; r < nruns; r++)
		run_reader_open(&merge->readers[r], file, runs[r],
						buffers + r * run_reader_buffer_size(file));
	return merge;
}

MinimalTuple
merge_next(Merge *merge)
{
	MergeNode	w;

	if (unlikely(!merge->started))
	{
		w = merge_play(merge, 1);
		merge->started = true;
	}
	else
	{
		w = merge->winner;
		if (merge->rows[w.run] == NULL)
			return NULL;
		w.key = merge_advance(merge, (int) w.run);
		for (int node = (int) (merge->nruns + w.run) / 2; node > 0; node /= 2)
		{
			MergeNode  *l = &merge->losers[node];

			swap_if(merge_before(merge, l, &w), l, &w);
		}
	}
	merge->winner = w;
	return merge->rows[w.run];
}

void
merge_end(Merge *merge)
{
	for (int r = 0; r < merge->nruns; r++)
	{
		if (merge->readers[r].run != NULL)
			run_reader_close(&merge->readers[r]);
	}
	pfree(merge->losers);
	pfree(merge->rows);
	pfree(merge->readers);
	pfree(merge);
}
