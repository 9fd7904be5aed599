/*
 * sort_env.h
 *	  What all parts of one sort go by: what is wanted, the means, and the report.
 *
 * Set when the sort begins; what changes after that is noted beside it.
 */
#ifndef GPUSORT_SORT_ENV_H
#define GPUSORT_SORT_ENV_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "key/pack.h"
#include "key/tie/tiebreak.h"
#include "progress.h"
#include "sort/report.h"
#include "sort/result/key_reader.h"
#include "sort/sorter.h"
#include "store/bulk.h"
#include "store/row_writer.h"

/* Rows between two looks at interrupts where rows are written or read in bulk. */
#define ROWS_PER_INTERRUPT_CHECK	4096

/* Up to so many rows a sort reads no clock, which it could not afford, but for EXPLAIN. */
#define SORT_TIMED_ROWS	1000

/* Staged rows up to which memory is kept for the node's next execution. */
#define SORT_SMALL_ROWS	4096

typedef struct SortEnv
{
	SortSpec	spec;
	MemoryContext cxt;			/* of all that lives as long as the sorter */
	BulkOwner  *bulk;
	StageWriter keys;			/* of the batch */
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Progress	progress;		/* for others to see; counts the rows that came in */

	/* of the sort that is under way */
	Size		limit;			/* bytes that rows and keys may take */
	size_t		bound;			/* rows wanted; 0: all, also where the wanted ones are
								 * too many to be kept in memory */
	double		rows_expected;
	Size		beside;			/* bytes that a sink has beside the batch */
	bool		device_failed;	/* the GPU is not tried again */
	bool		timed;			/* the clock is read */

	/* records and kernels' scratch; a result may lie in either */
	BulkBuf		recs;
	BulkBuf		scratch;
	KeyAlphabets alphabets;		/* key_layout_narrow() */

	TupleTableSlot *row_slot;	/* sort_env_slot() */
	DecodedKeys *decoded;		/* key_reader.c's */
	SortReport	report;
} SortEnv;

/* A slot for stored rows that pass through the sort. */
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

/* So many bytes are in use, the sort's own arrays, and what a sink has beside the batch. */
static inline void
sort_env_note_memory(SortEnv *env, Size bytes)
{
	Size		used = bytes + env->recs.asked + env->scratch.asked + env->beside;

	env->report.memory_peak = Max(env->report.memory_peak, used);
}

/* The time if phases are timed, otherwise nothing. */
static inline void
sort_env_clock(const SortEnv *env, instr_time *t)
{
	if (env->timed)
		INSTR_TIME_SET_CURRENT(*t);
	else
		INSTR_TIME_SET_ZERO(*t);
}

#endif							/* GPUSORT_SORT_ENV_H */
