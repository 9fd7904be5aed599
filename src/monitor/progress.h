/*
 * progress.h
 *	  Progress of running sorts: the view gpusort_progress.
 *
 * A sort counts directly in shared memory, where other sessions read the counters, so
 * the view costs a sort nothing.
 */
#ifndef GPUSORT_MONITOR_PROGRESS_H
#define GPUSORT_MONITOR_PROGRESS_H

#include "postgres.h"

typedef enum ProgressPhase
{
	PROGRESS_INGEST,			/* rows are read */
	PROGRESS_SORT,
	PROGRESS_SPILL,				/* a run is written */
	PROGRESS_MERGE,				/* runs are merged into fewer runs */
	PROGRESS_EMIT				/* rows are returned */
} ProgressPhase;

/* Counters of a sort.  Only the sort writes them, without a lock. */
typedef struct ProgressCounters
{
	uint64		rows_in;		/* rows read so far */
	uint64		rows_written;	/* rows written by the current phase */
	uint64		memory;			/* bytes of memory for rows, keys and kernels */
	uint64		disk;			/* bytes of temporary files */
	uint64		device;			/* bytes of device memory */
	int32		runs;			/* runs on disk */
	int32		phase;			/* a ProgressPhase */
	int32		algorithm;		/* an AlgorithmId; -1: not chosen yet */
} ProgressCounters;

struct ProgressSlot;

/* Progress of one sorter */
typedef struct Progress
{
	ProgressCounters *now;		/* counters in use: the slot's or own */
	ProgressCounters own;		/* counters of a sort that is not shown */
	struct ProgressSlot *slot;	/* NULL: not shown */
	MemoryContextCallback callback;
} Progress;

/* Requests shared memory, while libraries are preloaded. */
extern void gpusort_progress_init(void);

/* Initialises a sorter's progress.  Its slot is freed with this memory context at the latest. */
extern void progress_create(Progress *progress, MemoryContext cxt);

/* Node number of a nested sort, which is not shown. */
#define PROGRESS_UNSEEN		(-1)

/* Node number of an index build and of CLUSTER, which have no plan. */
#define PROGRESS_NO_NODE	(-2)

/* Begin and end of a sort of this plan node. */
extern void progress_begin(Progress *progress, int node, double rows_estimated);
extern void progress_end(Progress *progress);

static inline void
progress_phase(Progress *progress, ProgressPhase phase)
{
	progress->now->phase = phase;
	progress->now->rows_written = 0;
}

#endif							/* GPUSORT_MONITOR_PROGRESS_H */
