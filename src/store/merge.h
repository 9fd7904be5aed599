/*
 * merge.h
 *	  k-way merge of sorted runs.
 */
#ifndef GPUSORT_MERGE_H
#define GPUSORT_MERGE_H

#include "postgres.h"

#include "store/loser_tree.h"
#include "store/run.h"

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
 * Merges runs[0..nruns) of a file, earlier runs' rows first among equals.
 * buffers has nruns * run_reader_buffer_size(file) bytes and lives as long as the
 * merge; the runs are freed as they end.
 */
extern Merge *merge_begin(SpillFile *file, SpillRun **runs, int nruns, char *buffers,
						  const MergeOrder *order);

/* The next row, valid until the next call; NULL at the end. */
extern MinimalTuple merge_next(Merge *merge);

extern void merge_end(Merge *merge);

/* How many runs of a file can be merged at once in this memory, at least 6. */
extern int	merge_fan_in(const SpillFile *file, Size memory);

#endif							/* GPUSORT_MERGE_H */
