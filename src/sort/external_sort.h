/*
 * external_sort.h
 *	  Runs on disk, for sorts larger than work_mem, and their merge.
 */
#ifndef GPUSORT_SORT_EXTERNAL_SORT_H
#define GPUSORT_SORT_EXTERNAL_SORT_H

#include "postgres.h"

#include "lib/ilist.h"
#include "sort/memory_sort.h"
#include "sort/result.h"
#include "sort/run.h"

typedef struct Runs
{
	MemoryContext cxt;			/* file and arrays; NULL: no run yet */
	SpillFile  *file;			/* NULL: nothing has been written */
	SpillRun  **runs;			/* in input order */
	int			n;
	int			capacity;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* of all runs' rows */
	bool		extendable;		/* presorted rows may extend the last run */
	uint64		last_normkey[KEY_MAX_COLUMNS];	/* of its last row */
	bool		last_null[KEY_MAX_COLUMNS]; /* NULLs of its last row */
	instr_time	opened;			/* when writing the current run began */
	dlist_head	sources;		/* RunSources (runs not in the file); owned */
	bool		failed;			/* rows of a source are lost */
	bool		coded;			/* the next run will be coded */

	SortEnv    *env;
	KeyBuffer  *keybuf;			/* key buffer of the batch */
	KeyLayout	layout;			/* layout of the keys during merges */
} Runs;

/* Begins a sort. */
extern void runs_begin(Runs *runs, SortEnv *env, KeyBuffer *keybuf);

/*
 * Writes a sorted batch as the next run.  Presorted input that continues the last run is
 * appended to it.
 */
extern void runs_write(Runs *runs, const Batch *batch, const Sorted *sorted);

/*
 * Opens a new run, or the last run again, for a caller that writes rows itself.  The
 * caller adds the rows' key ranges to runs->ranges, and passes the returned memory
 * context to runs_close().
 */
extern MemoryContext runs_open(Runs *runs, RunWriter *writer, bool last);
extern void runs_close(Runs *runs, RunWriter *writer, MemoryContext old);

/*
 * Adds a run whose rows come from a source.  bytes is their size.  Takes ownership of the
 * source.  The caller adds the key ranges to runs->ranges.
 */
extern void runs_add_source(Runs *runs, RunSource *source, uint64 bytes);

/* Checks for interrupts and shows progress; call every ROWS_PER_INTERRUPT_CHECK rows. */
extern void runs_pause(Runs *runs, uint64 rows);

/* Merges all runs into a result, whose failed may already be set. */
extern SortResult *runs_result(Runs *runs, ResultSpace *space);

/* Closes the file and frees all memory. */
extern void runs_end(Runs *runs);

/*
 * Begin results on disk (disk_result.c): of a merge of rows, which has begun, and of one
 * run of rows; the same of keys.
 */
extern SortResult *result_merge_begin(Merge *merge);
extern SortResult *result_run_begin(RunResult *result, Runs *runs, SpillRun *run);
extern SortResult *result_key_merge_begin(KeyMergeResult *result, Runs *runs, struct KeyMerge *merge);
extern SortResult *result_key_run_begin(KeyRunResult *result, Runs *runs, SpillRun *run);

/*
 * Merges n of the runs.  Among equal rows an earlier run comes first.  The space of runs is
 * freed as they are read.  runs->keybuf is working memory for making keys.  The merge uses
 * env->recs and env->scratch.
 */
extern void merge_begin(Merge *merge, Runs *runs, SpillRun **some, int n);

extern void merge_end(Merge *merge);

/*
 * How many of the runs can be merged at once in the sort's memory; at least 6.  The last
 * merge takes more runs, and reads them in smaller pieces, so that fewer rows are merged
 * before it.
 */
extern int	merge_fan_in(const Runs *runs, bool last);

#endif							/* GPUSORT_SORT_EXTERNAL_SORT_H */
