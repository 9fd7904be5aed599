/*
 * merge.c
 *	  k-way merge of sorted runs with a tree of losers.
 *
 * An inner node of the tree holds the run that lost the match there, the root's
 * parent the winner.  The next row of the winner's run plays its way up again:
 * log2(k) comparisons of 128-bit numbers that lie side by side in an array, and
 * a comparator only where two cut keys are equal.  Between rows that are equal
 * the run with the smaller number wins, and runs are numbered in input order:
 * the merge is stable.
 *
 * Memory policy: the caller gives the read buffers, and takes no more runs than
 * merge_fan_in() allows.  An ERROR leaves the file to its resource owner.
 */
#include "postgres.h"

#include "store/merge.h"

#define MERGE_MIN_FAN_IN		6
#define MERGE_MAX_FAN_IN		500

struct Merge
{
	MergeOrder	order;
	int			nruns;
	bool		started;
	int			winner;
	int		   *losers;			/* inner nodes 1 .. nruns - 1 */
	MergeKey   *keys;			/* of each run's current row */
	MinimalTuple *rows;			/* NULL: the run has ended */
	RunReader  *readers;
};

int
merge_fan_in(const SpillFile *file, Size memory)
{
	Size		n = memory / run_reader_buffer_size(file);

	return (int) Max(MERGE_MIN_FAN_IN, Min(n, MERGE_MAX_FAN_IN));
}

/* Fetches run r's next row. */
static inline void
merge_advance(Merge *merge, int r)
{
	MinimalTuple row = run_reader_next(&merge->readers[r]);

	merge->rows[r] = row;
	if (row != NULL)
		merge->keys[r] = merge->order.key(merge->order.arg, row);
	else
		run_reader_close(&merge->readers[r]);
}

/* Does run a's row go before run b's? */
static inline bool
merge_before(Merge *merge, int a, int b)
{
	int			cmp;

	if (merge->rows[a] == NULL || merge->rows[b] == NULL)
		return merge->rows[a] != NULL || (merge->rows[b] == NULL && a < b);
	if (merge->keys[a] != merge->keys[b])
		return merge->keys[a] < merge->keys[b];
	if (!merge->order.exact)
	{
		cmp = merge->order.compare(merge->order.arg, merge->rows[a], merge->rows[b]);
		if (cmp != 0)
			return cmp < 0;
	}
	return a < b;
}

/* Plays the tree below node; leaf r is node nruns + r.  Returns the winner. */
static int
merge_play(Merge *merge, int node)
{
	int			a;
	int			b;

	if (node >= merge->nruns)
		return node - merge->nruns;
	a = merge_play(merge, 2 * node);
	b = merge_play(merge, 2 * node + 1);
	if (merge_before(merge, a, b))
	{
		merge->losers[node] = b;
		return a;
	}
	merge->losers[node] = a;
	return b;
}

Merge *
merge_begin(SpillFile *file, SpillRun **runs, int nruns, char *buffers,
			const MergeOrder *order)
{
	Merge	   *merge = palloc0(sizeof(Merge));

	merge->order = *order;
	merge->nruns = nruns;
	merge->losers = palloc0(nruns * sizeof(int));
	merge->keys = palloc0(nruns * sizeof(MergeKey));
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
	int			w;

	if (unlikely(!merge->started))
	{
		for (int r = 0; r < merge->nruns; r++)
			merge_advance(merge, r);
		w = merge_play(merge, 1);
		merge->started = true;
	}
	else
	{
		w = merge->winner;
		if (merge->rows[w] == NULL)
			return NULL;
		merge_advance(merge, w);
		for (int node = (merge->nruns + w) / 2; node > 0; node /= 2)
		{
			int			l = merge->losers[node];

			if (merge_before(merge, l, w))
			{
				merge->losers[node] = w;
				w = l;
			}
		}
	}
	merge->winner = w;
	return merge->rows[w];
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
	pfree(merge->keys);
	pfree(merge->rows);
	pfree(merge->readers);
	pfree(merge);
}
