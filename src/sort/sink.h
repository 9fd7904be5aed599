/*
 * sink.h
 *	  Sinks: where the rows of a sort go.
 *
 * A sink takes rows until it is full.  It does not know what follows: the sorter decides,
 * and chooses the next sink.  There is a sink for each mode of a sort, so that no row
 * costs a test of the mode.
 */
#ifndef GPUSORT_SORT_SINK_H
#define GPUSORT_SORT_SINK_H

#include "postgres.h"

#include "port/atomics.h"
#include "sort/external_sort.h"
#include "sort/memory_sort.h"

typedef enum SinkAnswer
{
	SINK_TAKEN,
	SINK_FULL,					/* the row was not taken */
	SINK_FAILED					/* rows that the sink had are lost */
} SinkAnswer;

typedef struct Sink Sink;

typedef struct SinkMethods
{
	/* Takes a row.  Its key columns are deformed. */
	SinkAnswer	(*put_slot) (Sink *sink, TupleTableSlot *slot);

	/*
	 * Takes the page's rows from *done on; advances *done by the rows taken.
	 * The sorter puts the rows that a sink has left one by one.
	 */
	SinkAnswer	(*put_page) (Sink *sink, RowPage *page, int *done);

	/*
	 * Writes all rows as a run.  A sink with rows on a device may instead
	 * move them into the batch, before the batch's rows, if there is no run
	 * yet and memory has room. Never SINK_FULL.
	 */
	SinkAnswer	(*spill) (Sink *sink, Runs *runs);

	/* All rows are in, and there is no run: makes the result. */
	SortResult *(*finish) (Sink *sink, ResultSpace *space);

	/*
	 * Optional: frees what the sink owns outside the batch; the sorter owns
	 * the batch.
	 */
	void		(*end) (Sink *sink);

	/*
	 * Optional: only for sinks that keep rows outside the batch.  The sink is
	 * full; makes room in another part of the sort.  SINK_FULL: the sorter
	 * must drain the sink to the host.
	 */
	SinkAnswer	(*next_part) (Sink *sink, Runs *runs);

	/*
	 * Required with next_part.  All rows are in: parts become sources of the
	 * last merge where they lie.  A single part without runs before it is
	 * left to finish().
	 */
	void		(*merge_parts) (Sink *sink, Runs *runs);
} SinkMethods;

struct Sink
{
	const SinkMethods *methods;
	SortEnv    *env;
	Batch	   *batch;
};

/* Sinks that use the batch: it was written as a run and is reset; SinkMethods.finish. */
extern void sink_batch_spilled(Sink *sink);
extern SortResult *sink_batch_finish(Sink *sink, ResultSpace *space);

/* A sink that keeps rows, or keys without rows, in the batch. */
extern void sink_host_init(Sink *sink, SortEnv *env, Batch *batch);

/*
 * The sink of a bounded sort.  The cutoff is the last wanted row so far: a row that
 * does not sort before it is dropped.
 */
typedef struct BoundedSink
{
	Sink		base;

	/*
	 * Rows wanted: env->bound, until runs must be written without a cutoff.
	 * Then 0: the sink takes all rows.
	 */
	size_t		wanted;
	bool		have_cutoff;
	bool		early_cutoff;	/* the cutoff's row comes again: rows equal to
								 * it are taken */
	uint64		cutoff[KEY_MAX_COLUMNS];	/* its normalized keys */
	bool		cutoff_null[KEY_MAX_COLUMNS];
	bool		cutoff_inexact[KEY_MAX_COLUMNS];	/* equal keys may differ */

	/* needs the comparator */
	bool		cutoff_compared[KEY_MAX_COLUMNS];
	BulkBuf		cutoff_row;		/* the row, unless its keys suffice */
	Datum		cutoff_value;	/* its value in the first column */
	pg_atomic_uint64 *shared_cutoff;	/* least of all participants */
} BoundedSink;

/* Begins a sort with env->bound.  shared_cutoff is NULL if one process sorts. */
extern void sink_bounded_begin(BoundedSink *sink, SortEnv *env, Batch *batch, pg_atomic_uint64 *shared_cutoff);

/*
 * The rows so far will come again: forgets them.  The last wanted row becomes the
 * cutoff.  False if there were fewer rows than wanted.
 */
extern bool sink_bounded_early_cutoff(BoundedSink *sink);

/* Does the sink keep rows outside the batch? */
static inline bool
sink_is_offloaded(const Sink *sink)
{
	return sink->methods->next_part != NULL;
}

#endif							/* GPUSORT_SORT_SINK_H */
