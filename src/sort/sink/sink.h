/*
 * sink.h
 *	  Where a sort's rows go.
 *
 * A sink takes rows until it cannot, and says so; it does not know what comes
 * after it.  What a sort does then, and with which sink it goes on, is decided in one
 * place (sorter.c).  A sink is chosen for a mode, so that a row costs no test for others.
 */
#ifndef GPUSORT_SINK_H
#define GPUSORT_SINK_H

#include "postgres.h"

#include "sort/batch.h"
#include "sort/result/result.h"
#include "sort/runs/runs.h"
#include "sort/sink/top_rows.h"
#include "sort/sort_env.h"

typedef enum SinkAnswer
{
	SINK_TAKEN,
	SINK_FULL,					/* it has no room for this row, which it has not taken */
	SINK_LOST					/* what it had is gone */
} SinkAnswer;

typedef struct Sink Sink;

typedef struct SinkMethods
{
	/* A row, whose key columns are deformed. */
	SinkAnswer	(*put_slot) (Sink *sink, TupleTableSlot *slot);

	/* The page's rows from *done on; *done counts those taken. */
	SinkAnswer	(*put_page) (Sink *sink, RowPage *page, int *done);

	/*
	 * Makes a run of what is there; or of a device's rows, if there is no run yet and
	 * memory has room for them, the batch's first.  Not FULL.
	 */
	SinkAnswer	(*spill) (Sink *sink, Runs *runs);

	/* All rows are in, none in runs: the result. */
	SortResult *(*finish) (Sink *sink, bool may_pause, ResultSpace *space);

	/* Lets go of what is a device's; the batch is the sorter's. */
	void		(*end) (Sink *sink);
} SinkMethods;

struct Sink
{
	const SinkMethods *methods;
	SortEnv    *env;
	Batch	   *batch;
};

/* sink_host.c, sink_keys.c: rows, or keys that are all there is, in memory. */
typedef struct HostSink
{
	Sink		base;
	size_t		ask_rows;		/* FULL at so many, that a device may be asked */
} HostSink;

extern void sink_host_init(HostSink *sink, SortEnv *env, Batch *batch);
extern void sink_keys_init(HostSink *sink, SortEnv *env, Batch *batch);

/* Is there no place for another row? */
static inline bool
sink_host_full(const HostSink *sink)
{
	const Batch *batch = sink->base.batch;

	return batch->stage.n >= sink->ask_rows || batch_taken(batch) > batch->limit;
}

/*
 * Takes all rows of the page with one check of memory; false if they may not fit, or
 * are not ordinary: such a page goes in row by row.
 */
extern bool sink_host_take_page(HostSink *sink, RowPage *page, int *done);
extern bool sink_keys_take_page(HostSink *sink, RowPage *page, int *done);

/* Writes the batch as a run; early as in order_batch(). */
extern void sink_spill_batch(Sink *sink, struct DeviceKeys *early, Runs *runs);

/* The batch is a run now: forgets it. */
extern void sink_batch_spilled(Sink *sink);

/* Methods of theirs that serve others. */
extern SinkAnswer sink_host_spill(Sink *sink, Runs *runs);
extern SortResult *sink_host_finish(Sink *sink, bool may_pause, ResultSpace *space);
extern void sink_holds_nothing(Sink *sink);

/* put_page by put_slot. */
extern SinkAnswer sink_put_rows(Sink *sink, RowPage *page, int *done);

/* sink_bounded.c: no more rows than are wanted, about. */
typedef struct BoundedSink
{
	Sink		base;
	bool		have_threshold; /* no row is wanted that goes behind this one: */
	uint64		threshold[STAGE_MAX_COLUMNS];
	bool		threshold_null[STAGE_MAX_COLUMNS];
	bool		threshold_inexact[STAGE_MAX_COLUMNS];	/* it may be */
	bool		threshold_dear[STAGE_MAX_COLUMNS];	/* the column takes a comparator */
	BulkBuf		threshold_row;	/* if images do not tell all */
	BulkBuf		kept;			/* cut(): a bit for each rid that stays */
	pg_atomic_uint64 *others;	/* the least threshold[0] of any participant; NULL */
	TopRows		top;			/* if it is on, the rows are there */
} BoundedSink;

extern void sink_bounded_init(BoundedSink *sink, SortEnv *env, Batch *batch);

/* Begins a sort that has env->bound; others is what participants share, or NULL. */
extern void sink_bounded_begin(BoundedSink *sink, pg_atomic_uint64 *others);

/* All rows are in: stages the keys of those that are kept. */
extern void sink_bounded_stage(BoundedSink *sink);

/* sink_device_keys.c: as the host's sinks, while keys go to a device's job; NULL: it cannot be. */
extern Sink *sink_device_keys_begin(SortEnv *env, Batch *batch);

/* Has it stopped taking rows because keys cannot go on to the device? */
extern bool sink_device_keys_dropped(const Sink *sink);

/*
 * sink_device_rows.c: moves the batch's rows to a device, where those to come go
 * too.  NULL if that is not to be; *allowed becomes false if it was tried in vain.
 */
extern Sink *sink_device_rows_begin(SortEnv *env, Batch *batch, bool *allowed);
extern bool sink_is_device_rows(const Sink *sink);

/*
 * It is FULL: can rows go on to another of its parts?  FULL: it has to be spilled.  When all
 * rows are in: its parts, if there are more than one or runs before it, become runs where
 * they are; a single one is left to finish.
 */
extern SinkAnswer sink_device_rows_next_part(Sink *sink, Runs *runs);
extern void sink_device_rows_merge(Sink *sink, Runs *runs);

/* Bytes of rows from which on that is worth asking. */
extern Size sink_device_rows_after(const SortEnv *env);

#endif							/* GPUSORT_SINK_H */
