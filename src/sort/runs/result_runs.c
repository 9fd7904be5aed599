/*
 * result_runs.c
 *	  Results on disk: the last merge of runs as it goes on, or one run.
 *
 * A run that is not in the file may be lost in the midst.  What has been given out by then is
 * counted, as where rows come from a device alone (result_device_rows.c).
 */
#include "postgres.h"

#include "sort/result/result.h"
#include "sort/sort_env.h"

/* Rows that are their keys are given out in a virtual slot. */
static void
copy_values(SortEnv *env, MinimalTuple row, TupleTableSlot *slot)
{
	TupleTableSlot *from = sort_env_slot(env);
	int			natts = slot->tts_tupleDescriptor->natts;

	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	row_to_slot(from, row);
	slot_getallattrs(from);
	memcpy(slot->tts_values, from->tts_values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, from->tts_isnull, natts * sizeof(bool));
	slot->tts_nvalid = natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

static inline bool
give(SortResult *result, MinimalTuple row, TupleTableSlot *slot)
{
	if (row == NULL)
		return false;
	if (result->env->spec.keys_only)
		copy_values(result->env, row, slot);
	else
		row_to_slot(slot, row);
	return true;
}

/* All rows of the round have been given out, and those behind them may be lost. */
static void
count_given(SortResult *result, const Merge *merge)
{
	for (size_t i = 0; i < merge->n; i++)
	{
		const char *row = (const char *) merge->rows[i];

		result->given_sum += row_sum(row, ((const MinimalTupleData *) row)->t_len);
	}
	result->given += merge->n;
}

static bool
merge_result_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	Merge	   *merge = &((MergeResult *) result)->merge;
	MinimalTuple row;

	Assert(forward);
	if (merge->sources && merge->next == merge->n)
		count_given(result, merge);
	row = merge_next(merge);
	result->lost = merge->lost;
	return give(result, row, slot);
}

static const ResultMethods merge_methods = {
	.kind = RESULT_MERGE,
	.next = merge_result_next,
	.rewind = result_once,
	.mark = result_once,
	.restore = result_once,
	.end = result_holds_nothing
};

/* Of rows that are their keys. */
static const ResultMethods merge_keys_methods = {
	.kind = RESULT_PLAIN,
	.next = merge_result_next,
	.rewind = result_once,
	.mark = result_once,
	.restore = result_once,
	.end = result_holds_nothing
};

static bool
run_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	RunResult  *run = (RunResult *) result;
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	MinimalTuple row = run_cursor_next(&run->cursor, forward);

	MemoryContextSwitchTo(old);
	return give(result, row, slot);
}

static void
run_rewind(SortResult *result)
{
	run_cursor_rewind(&((RunResult *) result)->cursor);
}

static void
run_mark(SortResult *result)
{
	run_cursor_mark(&((RunResult *) result)->cursor);
}

static void
run_restore(SortResult *result)
{
	run_cursor_restore(&((RunResult *) result)->cursor);
}

static const ResultMethods run_methods = {
	.kind = RESULT_PLAIN,
	.next = run_next,
	.rewind = run_rewind,
	.mark = run_mark,
	.restore = run_restore,
	.end = result_holds_nothing
};

SortResult *
result_merge_begin(MergeResult *result, SortEnv *env)
{
	memset(result, 0, sizeof(*result));
	result->base.methods = env->spec.keys_only ? &merge_keys_methods : &merge_methods;
	result->base.env = env;
	return &result->base;
}

SortResult *
result_run_begin(RunResult *result, SortEnv *env, SpillFile *file, SpillRun *run,
				 MemoryContext cxt)
{
	memset(result, 0, sizeof(*result));
	result->base.methods = &run_methods;
	result->base.env = env;
	run_cursor_open(&result->cursor, file, run);
	result->cxt = cxt;
	return &result->base;
}
