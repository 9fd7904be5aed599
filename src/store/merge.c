/*
 * merge.c
 *	  k-way merge of sorted runs with a tree of losers (loser_tree.h).
 *
 * Rows with equal keys go to a comparator where keys are cut, and between rows that
 * are equal the run with the smaller number wins: runs are numbered in input order,
 * the merge is stable.
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

struct Merge
{
	MergeOrder	order;
	int			nruns;
	bool		started;
	LoserTree	tree;
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
merge_advance(void *arg, int r)
{
	Merge	   *merge = arg;
	MinimalTuple row = run_reader_next(&merge->readers[r]);

	merge->rows[r] = row;
	if (unlikely(row == NULL))
	{
		run_reader_close(&merge->readers[r]);
		return MERGE_KEY_END;
	}
	__builtin_prefetch((char *) row + MAXALIGN(row->t_len));
	__builtin_prefetch((char *) row + MAXALIGN(row->t_len) + MERGE_PREFETCH);
	return merge->order.key(merge->order.arg, row);
}

/* Does run a's row go before run b's, whose key is the same? */
static pg_noinline bool
merge_equal_before(void *arg, int a, int b)
{
	Merge	   *merge = arg;
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

Merge *
merge_begin(SpillFile *file, SpillRun **runs, int nruns, char *buffers,
			const MergeOrder *order)
{
	Merge	   *merge = palloc0(sizeof(Merge));

	merge->order = *order;
	merge->nruns = nruns;
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
	if (unlikely(!merge->started))
	{
		loser_tree_begin(&merge->tree, merge->nruns, merge_advance, merge_equal_before, merge);
		merge->started = true;
	}
	else
	{
		if (merge->rows[merge->tree.winner.source] == NULL)
			return NULL;
		loser_tree_next(&merge->tree, merge_advance, merge_equal_before, merge);
	}
	return merge->rows[merge->tree.winner.source];
}

void
merge_end(Merge *merge)
{
	for (int r = 0; r < merge->nruns; r++)
	{
		if (merge->readers[r].run != NULL)
			run_reader_close(&merge->readers[r]);
	}
	if (merge->started)
		pfree(merge->tree.losers);
	pfree(merge->rows);
	pfree(merge->readers);
	pfree(merge);
}
