/*
 * share.h
 *	  Shared sort: the processes of a parallel query sort the rows of a partial plan together.  Each of them gets all
 *	  rows in order, or the rows of some ranges of keys.
 */
#ifndef GPUSORT_SHARE_SHARE_H
#define GPUSORT_SHARE_SHARE_H

#include "postgres.h"

#include "access/parallel.h"
#include "block/block.h"
#include "parallel/parallel.h"
#include "storage/barrier.h"
#include "storage/dsm.h"
#include "storage/sharedfileset.h"

/* ------------------------------------------------------------------------
 * Shared memory of the processes
 * ------------------------------------------------------------------------
 */

typedef struct SharedSortSlot
{
	bool		has_rows;		/* range is set */
	CommonKeyRange range;		/* of the process's keys */
	Size		blocks;			/* entries of its index */
	ParticipantReport report;	/* set by the plan node, for EXPLAIN */
} SharedSortSlot;

typedef struct SharedSort
{
	Barrier		barrier;
	SharedFileSet files;
	dsm_handle	segment;
	pg_atomic_uint32 next_range;	/* the next range to be merged */
	Size		word_bytes;		/* size of the words, which follow the slots */
	pg_atomic_uint32 words_incomplete;	/* a process could not add its part to the words */
	int			nslots;
	SharedSortSlot slots[FLEXIBLE_ARRAY_MEMBER];	/* of the leader, then of the workers */
} SharedSort;

/* Number of this process's slot. */
static inline int
shared_sort_me(void)
{
	return ParallelWorkerNumber + 1;
}

/* Words for the plan node, all zero at first. */
static inline uint64 *
shared_sort_words(SharedSort *shared)
{
	return (uint64 *) MAXALIGN(&shared->slots[shared->nslots]);
}

/* Bytes of a shared sort for this number of workers and the leader, with words. */
extern Size shared_sort_size(int workers, Size word_bytes);

/* Leader, before workers are launched: initializes a shared sort in this memory of the segment. */
extern void shared_sort_init(SharedSort *shared, int workers, Size word_bytes, dsm_segment *segment);

/* Leader, before another execution: no process uses the shared sort.  Deletes its files. */
extern void shared_sort_reset(SharedSort *shared);

/* Worker, before any other call. */
extern void shared_sort_attach(SharedSort *shared);

/* ------------------------------------------------------------------------
 * The sort
 * ------------------------------------------------------------------------
 */

/* This process begins.  True: it takes rows of its partial plan.  False: the others have taken all. */
extern bool shared_sort_begin(SharedSort *shared);

/*
 * Sorts with the other processes.  own: the sorted rows of this process, with the range of their keys; NULL: it has
 * none.  Waits only for processes that have begun.  Afterwards all processes' changes of the words are visible that
 * they made before this call.  divided: the rows will be divided.
 */
extern void shared_sort_run(SharedSort *shared, const SortSpec *spec, SortResult *own, const CommonKeyRange *range,
							bool divided);

/*
 * After shared_sort_run(): opens a stream of all rows, in the current memory context, and a reader of it.  divided: of
 * the rows that no other process returns, once in an execution; rows with equal keys are in one process.  The caller
 * closes the stream.
 */
extern BlockSource *shared_sort_open(SharedSort *shared, const SortSpec *spec, bool divided, BlockReader **reader);
extern void shared_sort_close(BlockSource *source);

#endif							/* GPUSORT_SHARE_SHARE_H */
