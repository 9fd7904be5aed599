/*
 * sorter.h
 *	  One sort: rows in, rows out in order.
 *
 * To the executor's node what tuplesort is to a Sort: rows are put in by slot or
 * by page, and sorter_perform() answers with a result (result.h) that gives them
 * out.
 */
#ifndef GPUSORT_SORTER_H
#define GPUSORT_SORTER_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "key/key_frame.h"
#include "key/stage.h"
#include "port/atomics.h"
#include "progress.h"
#include "sort/report.h"
#include "sort/result/result.h"
#include "sort/row_page.h"

/* What to sort; the arrays belong to the caller and live as long. */
typedef struct SortSpec
{
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	bool		random_access;	/* rewind, mark or backward reading to come */

	/* Would the same rows come again, in the same order? */
	bool		(*can_rerun) (void *arg);
	void	   *can_rerun_arg;
	int			node;			/* the plan node's number */
	int			participants;	/* processes that sort for it; 0 and 1: this one */
	bool		timing;			/* phases are timed, however few the rows */
	bool		keys_only;		/* rows are given out in a virtual slot */
	Size		memory;			/* a sort of another's rows, on the host and unseen: bytes that it
								 * may take; 0: work_mem */
	Progress   *within;			/* ... and the other's progress, which shows them */
} SortSpec;

typedef struct Sorter Sorter;

/* A sorter for many sorts of one spec, in the current memory context. */
extern Sorter *sorter_create(const SortSpec *spec);
extern void sorter_destroy(Sorter *sorter);

/* Begins a sort; bound > 0 if only so many rows of the front are wanted. */
extern void sorter_begin(Sorter *sorter, size_t bound, double rows_expected);

/*
 * The sort that has begun, and has a bound, is one of several: they share this, at first
 * PG_UINT64_MAX.
 */
extern void sorter_share_bound(Sorter *sorter, pg_atomic_uint64 *others);

/*
 * The sort that has begun takes its rows to the sink that make() makes, if it makes one, and to no
 * other: NULL if not.
 */
struct Batch;
struct SortEnv;
typedef struct Sink *(*SinkMaker) (struct SortEnv *env, struct Batch *batch, void *arg);
extern struct Sink *sorter_use_sink(Sorter *sorter, SinkMaker make, void *arg);

/* Begins it again after its rows were lost with a device, on the CPU. */
extern void sorter_begin_again(Sorter *sorter);

/*
 * The sort that was begun again has its result: goes past the rows that had been given
 * out before, by way of a slot.  They are now the same, or it is an ERROR: the result
 * that was begun cannot be completed.
 */
extern void sorter_skip_given(Sorter *sorter, TupleTableSlot *slot);

/* A row, or those of a page; or one of a page that has to come in a slot.  False: the rows are lost. */
extern bool sorter_put(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page_row(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page(Sorter *sorter, RowPage *page);

/* Are the rows gone with a device?  Then the child has to be run again. */
extern bool sorter_lost(const Sorter *sorter);

/*
 * All rows are in: sorts them.  NULL if they are lost.  may_pause: the reader may
 * stop with rows still to come.
 */
extern SortResult *sorter_perform(Sorter *sorter, bool may_pause);

/* Ends the sort, gives up files and memory; sorter_begin() may follow. */
extern void sorter_end(Sorter *sorter);

extern const SortReport *sorter_report(const Sorter *sorter);

/* All rows are in, none of them is on a device: where their keys lie. */
extern void sorter_key_frame(Sorter *sorter, KeyFrame *frame);

/* The key columns, for pages to find them. */
extern const Stage *sorter_stage(const Sorter *sorter);

#endif							/* GPUSORT_SORTER_H */
