/*
 * sorter.h
 *	  Sorter: one sort.
 *
 * The counterpart of Tuplesortstate: rows are put by slot or by page, and
 * sorter_perform() returns a result that returns them in order.
 */
#ifndef GPUSORT_SORT_SORTER_H
#define GPUSORT_SORT_SORTER_H

#include "postgres.h"

#include "port/atomics.h"
#include "sort/result.h"
#include "sort/row_page.h"
#include "sort/sort_report.h"
#include "sort/sort_spec.h"

struct Batch;
struct Sink;
struct SortEnv;

typedef struct Sorter
{
	const SortReport *report;

	/* The key columns, which a scan by page needs to fill RowPage.keys. */
	const KeyBuffer *keybuf;
	size_t		early_bound;	/* see sorter_put_early() */
	/* followed by members of the engine's own */
} Sorter;

/* How a sort begins. */
typedef struct SortBegin
{
	size_t		bound;			/* number of first rows that are wanted; 0: all */
	double		rows_expected;
	bool		keep_duplicates;	/* the result has duplicates in spite of spec.distinct */

	/*
	 * Cutoff of a bounded sort that participants share; begins as
	 * PG_UINT64_MAX.  NULL: this process sorts alone.
	 */
	pg_atomic_uint64 *shared_cutoff;

	/*
	 * Makes the sink to which all rows of the sort go.  NULL, or returns
	 * NULL: they go to the usual ones.
	 */
	struct Sink *(*make_sink) (struct SortEnv *env, struct Batch *batch, void *arg);
	void	   *make_sink_arg;
} SortBegin;

/* Creates a sorter for any number of sorts of one spec, in the current memory context. */
extern Sorter *sorter_create(const SortSpec *spec);
extern void sorter_destroy(Sorter *sorter);

/* Begins a sort. */
extern void sorter_begin(Sorter *sorter, const SortBegin *begin);

/*
 * An early cutoff of a bounded sort: rows that will come again are put first, and the
 * last wanted row among them lets the sort drop the rows behind it from the beginning.
 *
 * sorter->early_bound is the number of wanted rows; 0: the sort, which has begun and has no
 * rows, takes no early cutoff.  sorter_put_early() is false if memory is full.
 * sorter_early_cutoff() forgets the rows, and takes the cutoff if they are as many
 * as wanted.  The rows came from that number of pages, which EXPLAIN shows.
 */
extern bool sorter_put_early(Sorter *sorter, RowPage *page);
extern void sorter_early_cutoff(Sorter *sorter, int pages);

/* Begins a failed sort again, on the CPU. */
extern void sorter_begin_again(Sorter *sorter);

/*
 * After sorter_begin_again() and sorter_perform(): skips the rows that were returned
 * before the failure, using a slot.  Raises an error if they are other rows, because the
 * returned rows cannot be taken back.
 */
extern void sorter_skip_returned(Sorter *sorter, TupleTableSlot *slot);

/*
 * Put a row, a row of a page that comes in a slot, or all rows of a page.  False if the
 * sort has failed.
 */
extern bool sorter_put(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page_row(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page(Sorter *sorter, RowPage *page);

/* Did a device fail with rows?  Then the child must be run again. */
extern bool sorter_failed(const Sorter *sorter);

/*
 * Sorts the rows; all are in.  NULL if the sort has failed.  may_pause: the reader may
 * pause before the end of the result.
 */
extern SortResult *sorter_perform(Sorter *sorter, bool may_pause);

/* Ends the sort, frees files and memory.  sorter_begin() may follow. */
extern void sorter_end(Sorter *sorter);

/* The range of the keys.  All rows are in, and none is on a device. */
extern void sorter_common_range(Sorter *sorter, CommonKeyRange *common_range);

#endif							/* GPUSORT_SORT_SORTER_H */
