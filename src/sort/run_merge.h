/*
 * run_merge.h
 *	  A merge of runs as merge.c and merge_words.c know it; private to them.
 */
#ifndef GPUSORT_SORT_RUN_MERGE_H
#define GPUSORT_SORT_RUN_MERGE_H

#include "sort/sort.h"
#include "sort/sort_internal.h"

/* A run, and its window: the rows at offsets[r << shift] and after it. */
typedef struct MergeRun
{
	RunReader	reader;
	uint32		n;				/* rows */
	uint32		taken;			/* of them, by this round */
	Size		end;			/* of the window's last row, in the reader's buffer */
	bool		more;			/* the run goes on there */
} MergeRun;

struct MergeState
{
	SortEnv    *env;
	KeyBuffer  *keybuf;
	const KeyLayout *layout;
	bool		wide;			/* keys of 128 bits, else of 64 */
	int			shift;
	int			id_bits;		/* of a window's number and a place in it */
	int			nruns;
	MergeRun   *runs;
	char	  **bufs;			/* their readers' */
	void	   *keys;			/* of the rows in the windows, right-aligned */
	uint32	   *offsets;		/* where they lie in their buffers, in units of 8 bytes */
	Size		words_size;		/* of env->recs, that words may take */
	uint32	   *pieces;			/* where rows of another run begin, among tied ones */
	int		   *losers;			/* tree of losers over the runs, if rows are long; else NULL */
	bool		begun;			/* the tree has been built */
	RowPage	   *page;			/* rows whose keys are being made */
	MemoryContext cxt;
};

static inline MinimalTuple
row_at(const MergeState *state, uint32 id)
{
	return (MinimalTuple) (state->bufs[id >> state->shift] + ((Size) state->offsets[id] << 3));
}

static inline Key128
key_at(const MergeState *state, uint32 id)
{
	return state->wide ? ((const Key128 *) state->keys)[id] : ((const uint64 *) state->keys)[id];
}

/* < 0, 0, > 0 as row a goes before, with or after row b, whichever came first. */
static inline int
compare_rows(const MergeState *state, uint32 a, uint32 b)
{
	Key128		x = key_at(state, a);
	Key128		y = key_at(state, b);

	if (x != y)
		return x < y ? -1 : 1;
	if (state->layout->exact)
		return 0;
	return tiebreak_compare(state->env->tiebreak, row_at(state, a), row_at(state, b));
}

#endif							/* GPUSORT_SORT_RUN_MERGE_H */
