/*
 * progress.h
 *	  Sorts that are under way: the view gpusort_progress.
 *
 * A sort's counters lie where other sessions can read them, and the sort counts there
 * and nowhere else: what a row costs is the same whether anybody looks or not.
 */
#ifndef GPUSORT_MONITOR_PROGRESS_H
#define GPUSORT_MONITOR_PROGRESS_H

#include "postgres.h"

typedef enum ProgressPhase
{
	PROGRESS_INGEST,			/* rows come in */
	PROGRESS_SORT,
	PROGRESS_SPILL,				/* a run is written */
	PROGRESS_MERGE,				/* runs are, as fewer */
	PROGRESS_EMIT				/* rows are given out */
} ProgressPhase;

/* Written by the sort alone, each by itself. */
typedef struct ProgressCounters
{
	uint64		rows_in;		/* so far */
	uint64		rows_written;	/* of the phases spill and merge */
	uint64		memory;			/* bytes of regions that rows, keys and kernels have */
	uint64		disk;			/* ... of temporary files */
	uint64		device;			/* ... of a device's memory */
	int32		runs;
	int32		phase;
	int32		algorithm;		/* an AlgorithmId; -1: not known yet */
} ProgressCounters;

struct ProgressSlot;

/* Of one sorter. */
typedef struct Progress
{
	ProgressCounters *now;		/* the slot's or own */
	ProgressCounters own;		/* of a sort that is not shown */
	struct ProgressSlot *slot;	/* NULL: not shown */
	MemoryContextCallback callback;
} Progress;

/* Hooks for shared memory; to be called while libraries are preloaded. */
extern void gpusort_progress_init(void);

/* For a sorter in this memory context: what is shown ends with it, at the latest. */
extern void progress_create(Progress *progress, MemoryContext cxt);

/* The node of a sort that is part of another, and not shown. */
#define PROGRESS_UNSEEN		(-1)

/* A sort of the query's plan node begins; and it is over. */
extern void progress_begin(Progress *progress, int node, double rows_estimated);
extern void progress_end(Progress *progress);

static inline void
progress_phase(Progress *progress, ProgressPhase phase)
{
	progress->now->phase = phase;
	progress->now->rows_written = 0;
}

#endif							/* GPUSORT_MONITOR_PROGRESS_H */
