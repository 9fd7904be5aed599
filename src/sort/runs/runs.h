/*
 * runs.h
 *	  Sorts larger than work_mem: runs on disk.
 */
#ifndef GPUSORT_RUNS_H
#define GPUSORT_RUNS_H

#include "postgres.h"

#include "sort/order.h"
#include "sort/sort_env.h"
#include "store/run.h"

typedef struct Runs
{
	MemoryContext cxt;			/* of the file and all that belongs to it */
	SpillFile  *file;			/* NULL: nothing has been written */
	SpillRun  **runs;			/* in the order of their rows' input */
	int			n;
	int			capacity;
	KeyRange	ranges[STAGE_MAX_COLUMNS];	/* of all rows in them */
	bool		goes_on;		/* rows that come in order behind the last may be added to it: */
	uint64		last[STAGE_MAX_COLUMNS];	/* its last row's images, */
	bool		last_null[STAGE_MAX_COLUMNS];	/* or NULL */
	instr_time	opened;			/* the run that is being written */
	dlist_head	sources;		/* of runs that are not in the file */
	bool		lost;			/* one of them is */

	SortEnv    *env;
	Stage	   *stage;			/* the batch's */
	KeyLayout	layout;			/* of the merge's keys */
} Runs;

/* Before the first run of a sort. */
extern void runs_begin(Runs *runs, SortEnv *env, Stage *stage);

/*
 * Writes what order_batch() made of the batch as the next run, or, where the input is in
 * order, behind the rows of the last.
 */
extern void runs_write(Runs *runs, const Batch *batch, const Sorted *sorted);

/*
 * A run of rows from elsewhere, or the last one once more; the caller adds their keys'
 * ranges, and keeps the old memory context.
 */
extern MemoryContext runs_open(Runs *runs, RunWriter *writer, bool last);
extern void runs_close(Runs *runs, RunWriter *writer, MemoryContext old);

/* A source's rows, of so many bytes, are the next run, and the source is ours; the ranges as above. */
extern void runs_add_source(Runs *runs, RunSource *source, uint64 bytes);

/* After each ROWS_PER_INTERRUPT_CHECK of a run's rows: may be interrupted, says how many. */
extern void runs_pause(Runs *runs, uint64 rows);

/* The merge of them all; its result may be lost at once. */
extern SortResult *runs_result(Runs *runs, ResultSpace *space);

/* Gives up file and memory. */
extern void runs_end(Runs *runs);

#endif							/* GPUSORT_RUNS_H */
