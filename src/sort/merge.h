/*
 * merge.h
 *	  Merge: k-way merge of sorted runs.
 */
#ifndef GPUSORT_SORT_MERGE_H
#define GPUSORT_SORT_MERGE_H

#include "postgres.h"

#include "store/store.h"

/* Rows are prefetched this many rows ahead. */
#define MERGE_PREFETCH	8

typedef struct MergeState MergeState;

typedef struct Merge
{
	const uint32 *rids;			/* row ids of this round, in order */
	Arena		windows;		/* buffers of the runs, addressed by rids */
	size_t		next;			/* next row to return */
	size_t		n;				/* rows of this round */
	bool		sources;		/* some runs are not in the file (RunSource) */
	bool		failed;			/* rows of such a run are lost */
	MergeState *state;
} Merge;

/* Puts the rows of the next round in order.  False at the end or if rows are lost. */
extern bool merge_round(Merge *merge);

#endif							/* GPUSORT_SORT_MERGE_H */
