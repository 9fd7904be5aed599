/*
 * disk_result.c
 *	  Results on disk: the last merge, or one run, of rows or of keys.
 *
 * A device may fail during the last merge if it has some of the runs, so the returned
 * rows are counted and summed.
 *
 * Memory policy: a block of decoded keys, and the run cursor's buffer, in the current
 * memory context.
 */
#include "postgres.h"

#include "sort/key_run.h"
#include "sort/sort_internal.h"
#include "utils/memutils.h"

static inline bool
return_row(MinimalTuple row, TupleTableSlot *slot)
{
	if (row == NULL)
		return false;
	row_to_slot(slot, row);
	return true;
}

/* All rows of the round were returned; a device may fail with the following rows. */
static void
count_returned(const MemoryResult *rows, SortResult *result)
{
	for (size_t i = 0; i < rows->array.n; i++)
	{
		const char *row = arena_at(&rows->arena, rows->rids[i]);

		result->returned_sum += row_sum(row, ((const MinimalTupleData *) row)->t_len);
	}
	result->returned += rows->array.n;
}

static bool
merge_result_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	Merge	   *merge = (Merge *) result;

	Assert(forward);
	if (merge->sources && merge->rows.array.pos == merge->rows.array.n)
		count_returned(&merge->rows, result);
	return return_row(merge_next(merge), slot);
}

/* The rows or keys of the current round; a device may fail with the following rounds. */
static uint64
round_ahead(SortResult *result, bool *all)
{
	const ArrayResult *array = (const ArrayResult *) result;

	*all = false;
	return array->n - array->pos;
}

static int
merge_result_take(SortResult *result, MinimalTuple *rows, EqualColumns *equal)
{
	MemoryResult *memory = (MemoryResult *) result;
	int			n = (int) Min(RESULT_TAKE, memory->array.n - memory->array.pos);

	for (int i = 0; i < n; i++)
	{
		rows[i] = (MinimalTuple) arena_at(&memory->arena, memory->rids[memory->array.pos++]);
		__builtin_prefetch(rows[i]);
	}
	memset(equal, EQUAL_COLUMNS_LEAST, n * sizeof(EqualColumns));
	return n;
}

/* The windows keep the rows of the round that are skipped, so count_returned() can still read them. */
static const ResultMethods merge_methods = {
	.kind = RESULT_MERGE,
	.next = merge_result_next,
	.rewind = result_once,
	.mark = result_once,
	.restore = result_once,
	.skip = result_array_skip,
	.ahead = round_ahead,
	.peek = result_rows_peek,
	.take = merge_result_take
};

/* Moves back by one row; false at the first row. */
static bool
run_step_back(RunResult *run)
{
	uint64		size;

	if (run->array.pos == 0)
		return false;
	run_cursor_read(&run->cursor, run->array.pos - sizeof(size), &size, sizeof(size));
	run->array.pos -= size + sizeof(size);
	return true;
}

/*
 * As tuplesort_gettupleslot(): backward from beyond the last row it is the last row,
 * otherwise the row before the one returned last.
 */
static bool
run_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	RunResult  *run = (RunResult *) result;
	ArrayResult *array = &run->array;
	uint32		len;
	Size		size;
	char	   *row;

	if (!forward)
	{
		if (!array->eof && !run_step_back(run))
			return false;
		array->eof = false;
		if (!run_step_back(run))
			return false;
	}
	array->eof = (array->pos == array->n);
	if (array->eof)
		return false;
	run_cursor_read(&run->cursor, array->pos, &len, sizeof(len));
	size = MAXALIGN(len);
	row = kept_row_room(&run->row, run->cxt, size);
	run_cursor_read(&run->cursor, array->pos, row, size);
	array->pos += size + sizeof(uint64);
	return return_row((MinimalTuple) row, slot);
}

static const ResultMethods run_methods = {
	.kind = RESULT_PLAIN,
	.next = run_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore
};

SortResult *
result_merge_begin(Merge *merge)
{
	merge->rows.array.base.methods = &merge_methods;
	return &merge->rows.array.base;
}

SortResult *
result_run_begin(RunResult *result, Runs *runs, SpillRun *run)
{
	memset(result, 0, sizeof(*result));
	result->array.base.methods = &run_methods;
	result->array.base.env = runs->env;
	result->array.n = run->bytes;
	run_cursor_open(&result->cursor, runs->file, run);
	result->cxt = runs->cxt;
	return &result->array.base;
}

/* ------------------------------------------------------------------------
 * The same for keys without rows
 * ------------------------------------------------------------------------
 */

/* Begins a result of merged keys. */
static SortResult *
merged_keys_begin(KeysResult *keys, Runs *runs, const ResultMethods *methods)
{
	Sorted		sorted = {
		.format = merged_key_format(&runs->layout),
		.layout = runs->layout
	};
	SortResult *result = result_keys_begin(keys, runs->env, runs->keybuf, &sorted);

	result->methods = methods;
	return result;
}

static bool
key_merge_result_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	ArrayResult *array = (ArrayResult *) result;
	KeyReader  *reader = &((KeysResult *) result)->reader;

	Assert(forward);
	if (array->pos >= array->n)
	{
		array->n = key_merge_next(((KeyMergeResult *) result)->merge, &reader->keys);
		array->pos = 0;
		reader->start = reader->count = 0;
	}
	return result_keys_next(result, forward, slot);
}

static size_t
key_merge_result_take(SortResult *result, const void **recs)
{
	Assert(((ArrayResult *) result)->pos == ((ArrayResult *) result)->n);
	return key_merge_next(((KeyMergeResult *) result)->merge, recs);
}

static const ResultMethods key_merge_methods = {
	.kind = RESULT_KEYS,
	.next = key_merge_result_next,
	.rewind = result_once,
	.mark = result_once,
	.restore = result_once,
	.skip = result_array_skip,
	.ahead = round_ahead,
	.peek = result_keys_peek,
	.take_keys = key_merge_result_take
};

SortResult *
result_key_merge_begin(KeyMergeResult *result, Runs *runs, KeyMerge *merge)
{
	result->merge = merge;
	return merged_keys_begin(&result->keys, runs, &key_merge_methods);
}

static const ResultMethods key_run_methods = {
	.kind = RESULT_KEYS,
	.next = result_keys_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.skip = result_array_skip
};

SortResult *
result_key_run_begin(KeyRunResult *result, Runs *runs, SpillRun *run)
{
	KeyReader  *reader = &result->keys.reader;
	SortResult *begun = merged_keys_begin(&result->keys, runs, &key_run_methods);

	result->keys.array.n = run->rows;
	run_cursor_open(&result->cursor, runs->file, run);
	reader->cursor = &result->cursor;
	reader->block = palloc(KEY_READER_ROWS * sort_rec_size(reader->format));
	return begun;
}
