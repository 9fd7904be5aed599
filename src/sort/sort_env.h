/*
 * sort_env.h
 *	  What all modules of one sorter share.
 */
#ifndef GPUSORT_SORT_SORT_ENV_H
#define GPUSORT_SORT_SORT_ENV_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "kernel/sort_kernel.h"
#include "key/key.h"
#include "monitor/progress.h"
#include "sort/key_reader.h"
#include "sort/sort_report.h"
#include "sort/sort_spec.h"
#include "store/store.h"
#include "tiebreak/tiebreak.h"

/* Rows between two checks for interrupts where rows are written or read in bulk. */
#define ROWS_PER_INTERRUPT_CHECK	4096

/*
 * Sorts of up to this many rows read no clock, except for EXPLAIN: the clock would cost
 * a good deal of their time.
 */
#define SORT_TIMED_ROWS	1000

/* Batches of up to this many rows keep their memory for the next execution of the node. */
#define SORT_SMALL_ROWS	4096

/* Memory counts as exhausted when less than 1/MEMORY_PARTS of it is free. */
#define MEMORY_PARTS	64

/* State that all modules of one sorter share. */
typedef struct SortEnv
{
	/* set when the sorter is created */
	const SortSpec spec;
	MemoryContext cxt;			/* lives as long as the sorter */
	BulkOwner  *bulk;
	KeyWriter	keys;			/* writes the batch's key buffer */
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Progress	progress;		/* for other backends; counts input rows */
	int			distinct_cols;	/* columns of the key buffer for spec.distinct */

	/* set when a sort begins */
	Size		limit;			/* bytes that rows and keys may take */
	size_t		bound;			/* rows wanted; 0: all */
	double		rows_expected;

	/*
	 * The sort has distinct columns and drops duplicates.  It does not if
	 * duplicates were returned before a failure, and must come again.
	 */
	bool		drop_duplicates;

	/* changes while the sort runs */
	Size		sink_bytes;		/* bytes that a sink holds outside the batch */
	bool		device_failed;	/* do not use a GPU; set when a GPU fails */
	bool		timed;			/* read the clock */

	/* records, and scratch of kernels; a result may lie in either buffer */
	BulkBuf		recs;
	BulkBuf		scratch;
	ByteDictionaries byte_dictionary;	/* for key_layout_narrow() */

	TupleTableSlot *row_slot;	/* see sort_env_slot() */
	DecodedKeys *decoded;		/* working memory of KeyReader */
	SortReport	report;
} SortEnv;

/* A slot to deform stored rows; created at the first call. */
static inline TupleTableSlot *
sort_env_slot(SortEnv *env)
{
	if (env->row_slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(env->cxt);

		env->row_slot = MakeSingleTupleTableSlot(env->spec.desc, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	return env->row_slot;
}

/* Updates the memory peak: bytes, plus recs, scratch, and what a sink holds outside the batch. */
static inline void
sort_env_note_memory(SortEnv *env, Size bytes)
{
	Size		used = bytes + env->recs.requested + env->scratch.requested + env->sink_bytes;

	env->report.memory_peak = Max(env->report.memory_peak, used);
}

/* The current time if the clock is read, otherwise zero. */
static inline void
sort_env_clock(const SortEnv *env, instr_time *t)
{
	if (env->timed)
		INSTR_TIME_SET_CURRENT(*t);
	else
		INSTR_TIME_SET_ZERO(*t);
}

#endif							/* GPUSORT_SORT_SORT_ENV_H */
