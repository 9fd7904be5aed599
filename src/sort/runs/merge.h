/*
 * merge.h
 *	  Sorted runs read as one.
 */
#ifndef GPUSORT_MERGE_H
#define GPUSORT_MERGE_H

#include "postgres.h"

#include "key/pack.h"
#include "store/run.h"

/* Rows of a round whose memory is asked for this far ahead of their turn. */
#define MERGE_PREFETCH	8

struct SortEnv;
typedef struct MergeState MergeState;

typedef struct Merge
{
	const uint64 *rows;			/* addresses of this round's rows, in order */
	size_t		next;
	size_t		n;
	bool		sources;		/* of runs that are not in the file; */
	bool		lost;			/* rows of such a run are lost */
	MergeState *state;
} Merge;

/*
 * Merges runs[0..nruns) of a file, earlier runs' rows first among equals; they are
 * freed as they end.  stage has the key columns and no rows, and is used for the rows
 * that are read, whose keys are in the layout.  The sort's own arrays are used.
 */
extern void merge_begin(Merge *merge, struct SortEnv *env, Stage *stage, const KeyLayout *layout,
						SpillFile *file, SpillRun **runs, int nruns);

extern void merge_end(Merge *merge);

/* How many runs of a file can be merged at once in the sort's memory, at least 6. */
extern int	merge_fan_in(const struct SortEnv *env, const KeyLayout *layout, const SpillFile *file,
						 SpillRun *const *runs, int nruns);

/* Puts the next rows in order; false at the end, and if some are lost. */
extern bool merge_round(Merge *merge);

/* The next row, valid until the next call; NULL at the end, or if rows are lost. */
static inline MinimalTuple
merge_next(Merge *merge)
{
	if (unlikely(merge->next == merge->n) && !merge_round(merge))
		return NULL;
	if (likely(merge->next + MERGE_PREFETCH < merge->n))
		__builtin_prefetch((void *) merge->rows[merge->next + MERGE_PREFETCH]);
	return (MinimalTuple) merge->rows[merge->next++];
}

#endif							/* GPUSORT_MERGE_H */
