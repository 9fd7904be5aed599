/*
 * merge.h
 *	  k-way merge of sorted runs.
 */
#ifndef GPUSORT_MERGE_H
#define GPUSORT_MERGE_H

#include "postgres.h"

#include "store/run.h"

typedef uint128 MergeKey;

/*
 * How rows compare: key() gives a row's key; rows with equal keys go to
 * compare(), unless exact.
 */
typedef struct MergeOrder
{
	MergeKey	(*key) (void *arg, MinimalTuple row);
	int			(*compare) (void *arg, MinimalTuple a, MinimalTuple b);
	void	   *arg;
	bool		exact;
} MergeOrder;

typedef struct Merge Merge;

/*
 * Merges the runs on tapes[0..ntapes), earlier runs' rows first among equals.
 * buffers has merge_buffers_size() bytes for ntapes runs and this memory, and
 * lives as long as the merge; the tapes are closed as they end.
 */
extern Merge *merge_begin(LogicalTape **tapes, int ntapes, Size memory, char *buffers,
						  const MergeOrder *order);

/* Bytes of read buffers for so many runs, if memory bounds them. */
extern Size merge_buffers_size(int ntapes, Size memory);

/* The next row, valid until the next call; NULL at the end. */
extern MinimalTuple merge_next(Merge *merge);

extern void merge_end(Merge *merge);

/* How many runs can be merged at once in this memory, at least 6. */
extern int	merge_fan_in(Size memory);

#endif							/* GPUSORT_MERGE_H */
