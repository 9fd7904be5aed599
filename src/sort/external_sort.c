/*
 * external_sort.c
 *	  External sort: runs are written to a temporary file and merged.
 *
 * Each time memory is full, the batch is sorted and written as a run.  If there are more
 * runs at the end than can be merged at once, neighbouring runs are merged until all
 * remaining runs fit one merge.  The last merge can take several times as many runs as
 * the merges before it, because it reads them in smaller pieces.  Only neighbours are
 * merged, because among equal rows the earlier run must come first.  The last merge is
 * streamed to the node (disk_result.c).  If it will be read more than once or backward, it
 * is written as one run.
 *
 * All keys of a merge have one layout, made from the key ranges of all rows: it is
 * narrow, and the same for every run.  Keys are made again when rows are read, because
 * storing them would cost more I/O.  Where rows consist of their keys, runs have the keys
 * and no rows (key_run.h).
 *
 * Rows of runs are coded (gpusort.compress_runs), but those of a result that is one run:
 * it is read in both directions.
 *
 * A run may lie on a device instead of in the file (RunSource).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "settings.h"
#include "sort/key_run.h"
#include "sort/sort_internal.h"
#include "utils/memutils.h"

/* Further runs are coded if that saves 1/CODED_SAVING of the first one. */
#define CODED_SAVING	8

/* Rows that are coded at a time, a divisor of ROWS_PER_INTERRUPT_CHECK. */
#define CODED_ROWS		64

/* The padding of a MinimalTuple, with the ignored bytes of a row (kernel/row_delta.h). */
#define PADDING_BYTES	(((UINT64CONST(1) << MINIMAL_TUPLE_PADDING) - 1) << offsetof(MinimalTupleData, mt_padding))

StaticAssertDecl(SizeofMinimalTupleHeader <= DELTA_ROW_MIN, "a row may be shorter than the decoder expects");

void
runs_begin(Runs *runs, SortEnv *env, KeyBuffer *keybuf)
{
	runs->env = env;
	runs->keybuf = keybuf;
	for (int c = 0; c < keybuf->ncols; c++)
		key_range_init(&runs->ranges[c]);
	runs->extendable = false;
	dlist_init(&runs->sources);
	runs->failed = false;
	runs->coded = gpusort_compress_runs == COMPRESS_ON ||
		(gpusort_compress_runs == COMPRESS_AUTO && delta_is_fast());
}

static void
add_run(Runs *runs, SpillRun *run)
{
	if (runs->n == runs->capacity)
	{
		int			capacity = Max(16, runs->capacity * 2);

		if (runs->runs == NULL)
			runs->runs = palloc(capacity * sizeof(SpillRun *));
		else
			runs->runs = repalloc(runs->runs, capacity * sizeof(SpillRun *));
		runs->capacity = capacity;
	}
	runs->runs[runs->n++] = run;
}

/* Switches to the memory context of the runs; returns the old one. */
static MemoryContext
enter(Runs *runs)
{
	MemoryContext old;

	if (runs->cxt == NULL)
		runs->cxt = AllocSetContextCreate(runs->env->cxt, "GpuSort runs", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(runs->cxt);
	if (runs->file == NULL)
	{
		runs->file = spill_open(runs->env->limit);
		/* the padding of a row has its TID, or nothing that is needed */
		runs->file->ignored = runs->env->spec.ties_by_tid || runs->env->spec.rids_are_tids ? 0 : PADDING_BYTES;
	}
	return old;
}

void
runs_add_source(Runs *runs, RunSource *source, uint64 bytes)
{
	MemoryContext old;
	SpillRun   *run;

	/*
	 * first, so that an ERROR below does not leave the source without an
	 * owner
	 */
	dlist_push_tail(&runs->sources, &source->node);
	old = enter(runs);
	run = palloc0(sizeof(SpillRun));
	run->source = source;
	run->bytes = bytes;
	add_run(runs, run);
	runs->extendable = false;
	MemoryContextSwitchTo(old);
}

MemoryContext
runs_open(Runs *runs, RunWriter *writer, bool last)
{
	MemoryContext old = enter(runs);

	if (last)
		run_writer_reopen(writer, runs->file, runs->runs[runs->n - 1]);
	else
		run_writer_open(writer, runs->file, runs->coded);
	runs->extendable = false;
	progress_phase(&runs->env->progress, PROGRESS_SPILL);
	sort_env_clock(runs->env, &runs->opened);
	return old;
}

static uint64
disk_bytes(const Runs *runs)
{
	return (uint64) runs->file->nextents * runs->file->extent;
}

void
runs_pause(Runs *runs, uint64 rows)
{
	ProgressCounters *now = runs->env->progress.now;

	CHECK_FOR_INTERRUPTS();
	now->rows_written = rows;
	now->disk = disk_bytes(runs);
}

void
runs_close(Runs *runs, RunWriter *writer, MemoryContext old)
{
	SortReport *report = &runs->env->report;
	SpillRun   *run = run_writer_close(writer);
	instr_time	closed;

	if (runs->n == 0 || run != runs->runs[runs->n - 1])
	{
		add_run(runs, run);
		report->runs++;
	}
	if (run->coded && gpusort_compress_runs == COMPRESS_AUTO &&
		run->bytes > run->row_bytes - run->row_bytes / CODED_SAVING)
		runs->coded = false;
	sort_env_clock(runs->env, &closed);
	INSTR_TIME_ACCUM_DIFF(report->spill_time, closed, runs->opened);
	runs->env->progress.now->runs = report->runs;
	runs->env->progress.now->disk = disk_bytes(runs);
	MemoryContextSwitchTo(old);
}

/* Writes rows to a coded run. */
static void
write_coded_rows(Runs *runs, RunWriter *writer, const Arena *arena, const Sorted *sorted)
{
	int			row_bytes = result_row_bytes(arena, sorted->n);
	const char *rows[CODED_ROWS];

	StaticAssertStmt(ROWS_PER_INTERRUPT_CHECK % CODED_ROWS == 0, "interrupts are not checked");
	for (size_t i = 0; i < sorted->n; i += CODED_ROWS)
	{
		const uint32 *rids = sorted->rids + i;
		size_t		n = Min(CODED_ROWS, sorted->n - i);
		size_t		ahead = Min(n + CODED_ROWS, sorted->n - i);

		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			runs_pause(runs, i);
		for (size_t k = i == 0 ? 0 : n; k < ahead; k++)
			row_prefetch(arena_at(arena, rids[k]), row_bytes);
		for (size_t k = 0; k < n; k++)
			rows[k] = arena_at(arena, rids[k]);
		run_writer_coded_rows(writer, rows, n);
	}
}

static void
write_rows(Runs *runs, RunWriter *writer, const Arena *arena, const Sorted *sorted)
{
	int			row_bytes = result_row_bytes(arena, sorted->n);

	if (writer->run->coded)
	{
		write_coded_rows(runs, writer, arena, sorted);
		return;
	}
	for (size_t i = 0; i < sorted->n; i++)
	{
		if (i + RESULT_PREFETCH < sorted->n)
			row_prefetch(arena_at(arena, sorted->rids[i + RESULT_PREFETCH]), row_bytes);
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			runs_pause(runs, i);
		run_writer_row(writer, (MinimalTuple) arena_at(arena, sorted->rids[i]));
	}
}

/* Are the runs those of keys without rows? */
static inline bool
have_keys(const Runs *runs)
{
	return runs->env->spec.keys_only && !runs->env->spec.rids_are_tids;
}

static void
write_keys(Runs *runs, RunWriter *writer, const Sorted *sorted)
{
	Size		rec_size = sort_rec_size(sorted->format);
	KeyRunWriter keys;

	key_run_writer_begin(&keys, writer, &sorted->layout, sorted->format);
	for (size_t i = 0; i < sorted->n; i += ROWS_PER_INTERRUPT_CHECK)
	{
		runs_pause(runs, i);
		key_run_writer_put(&keys, (const char *) sorted->keys + i * rec_size,
						   Min(ROWS_PER_INTERRUPT_CHECK, sorted->n - i));
	}
}

/* Writes keys with TIDs as rows, which the merge of an index build returns. */
static void
write_keys_as_rows(Runs *runs, RunWriter *writer, const KeyBuffer *keybuf, const Sorted *sorted)
{
	KeyReader	reader;
	TidRow		row;

	key_reader_begin(&reader, runs->env, keybuf, sorted);
	for (size_t i = 0; i < sorted->n; i++)
	{
		if (!key_reader_has(&reader, i))
		{
			runs_pause(runs, i);
			key_reader_decode(&reader, i, sorted->n);
		}
		key_reader_tid_row(&reader, runs->env->writer, i, &row);
		run_writer_row(writer, &row.row);
	}
}

/*
 * Is the batch presorted, and does its first row not sort before the last row of the
 * last run?  In a sort with distinct columns it must sort behind in these, so that a run
 * has no duplicates.
 */
static bool
batch_extends_last_run(const Runs *runs, const KeyBuffer *keybuf)
{
	int			ncols = runs->env->drop_duplicates ? Min(runs->env->distinct_cols, keybuf->ncols) : keybuf->ncols;

	if (!runs->extendable || (keybuf->input_order.possible & INPUT_ASCENDING) == 0)
		return false;
	for (int c = 0; c < ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = col->nulls != NULL && col->nulls[0];

		if (null != runs->last_null[c])
			return null != col->nulls_first;
		if (!null && keybuf_normkey_at(col, 0) != runs->last_normkey[c])
			return keybuf_normkey_at(col, 0) > runs->last_normkey[c];
	}
	return !runs->env->drop_duplicates;
}

/* Remembers the keys of the last row of a run that presorted input may extend. */
static void
note_last_row(Runs *runs, const KeyBuffer *keybuf)
{
	runs->extendable = keybuf->exact && (keybuf->input_order.possible & INPUT_ASCENDING) != 0;
	for (int c = 0; c < keybuf->ncols && runs->extendable; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		runs->last_null[c] = col->nulls != NULL && col->nulls[keybuf->n - 1];
		runs->last_normkey[c] = keybuf_normkey_at(col, keybuf->n - 1);
	}
}

void
runs_write(Runs *runs, const Batch *batch, const Sorted *sorted)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	/* without the key buffer, which order_batch() may free, no row's keys are known */
	bool		whole = keybuf->n > 0 && (sorted->n == keybuf->n || runs->env->drop_duplicates);
	RunWriter	writer;
	MemoryContext old;

	keybuf_unite_ranges(keybuf, runs->ranges);
	old = runs_open(runs, &writer, whole && batch_extends_last_run(runs, keybuf));
	if (have_keys(runs))
		write_keys(runs, &writer, sorted);
	else if (runs->env->spec.keys_only)
		write_keys_as_rows(runs, &writer, keybuf, sorted);
	else
		write_rows(runs, &writer, &batch->arena, sorted);
	runs_close(runs, &writer, old);
	if (whole)
		note_last_row(runs, keybuf);
}

/* Writes a row to a run that is read in both directions: its size stands behind it, too. */
static void
write_cursor_row(RunWriter *writer, MinimalTuple row)
{
	uint64		size = MAXALIGN(row->t_len);

	run_writer_row(writer, row);
	run_writer_bytes(writer, &size, sizeof(size));
}

/* Merges n neighbouring runs of rows into one. */
static SpillRun *
merge_into_run(Runs *runs, SpillRun **some, int n, bool coded,
			   void (*write_row) (RunWriter *writer, MinimalTuple row))
{
	Merge		merge;
	RunWriter	writer;
	MinimalTuple row;

	merge_begin(&merge, runs, some, n);
	run_writer_open(&writer, runs->file, coded);
	for (uint64 i = 0; (row = merge_next(&merge)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			runs_pause(runs, i);
		write_row(&writer, row);
	}
	runs->failed = runs->failed || merge.rows.array.base.failed;
	merge_end(&merge);
	return run_writer_close(&writer);
}

/* Merges n neighbouring runs of keys into one.  flat: into an array of records instead of coded keys. */
static SpillRun *
merge_keys_into_run(Runs *runs, SpillRun **some, int n, bool flat)
{
	SortRecFormat format = merged_key_format(&runs->layout);
	KeyMerge   *merge = key_merge_begin(runs, some, n);
	RunWriter	writer;
	KeyRunWriter keys;
	const void *recs;
	size_t		count;

	run_writer_open(&writer, runs->file, false);
	key_run_writer_begin(&keys, &writer, &runs->layout, format);
	for (uint64 i = 0; (count = key_merge_next(merge, &recs)) > 0; i += count)
	{
		runs_pause(runs, i);
		if (flat)
		{
			run_writer_bytes(&writer, recs, count * sort_rec_size(format));
			writer.run->rows += count;
		}
		else
			key_run_writer_put(&keys, recs, count);
	}
	key_merge_end(merge);
	return run_writer_close(&writer);
}

/*
 * Merges neighbouring runs, at most fan_in at a time, until no more than most runs remain.  All runs
 * are merged, in groups of equal size: the last merge has windows of as many rows for each run, and a
 * round ends with the first window that is empty.  The window of a longer run would span a smaller
 * range of keys, so each round would take few rows of the other runs.
 */
static void
reduce_runs(Runs *runs, int most, int fan_in)
{
	while (runs->n > most)
	{
		int			size = Min((runs->n + most - 1) / most, fan_in);
		int			groups = (runs->n + size - 1) / size;
		int			in = 0;

		for (int out = 0; out < groups; out++)
		{
			int			next = (int) ((int64) (out + 1) * runs->n / groups);

			if (next - in == 1)
				runs->runs[out] = runs->runs[in];
			else if (have_keys(runs))
				runs->runs[out] = merge_keys_into_run(runs, runs->runs + in, next - in, false);
			else
				runs->runs[out] = merge_into_run(runs, runs->runs + in, next - in, runs->coded, run_writer_row);
			in = next;
		}
		runs->n = groups;
	}
}

/* The result of runs of rows. */
static SortResult *
merge_rows(Runs *runs, ResultSpace *space)
{
	reduce_runs(runs, merge_fan_in(runs, true), merge_fan_in(runs, false));
	if (runs->env->spec.random_access)
		return result_run_begin(&space->run, runs,
								merge_into_run(runs, runs->runs, runs->n, false, write_cursor_row));
	merge_begin(&space->merge, runs, runs->runs, runs->n);
	return result_merge_begin(&space->merge);
}

/* The result of runs of keys. */
static SortResult *
merge_keys(Runs *runs, ResultSpace *space)
{
	runs->env->report.key_runs = true;
	reduce_runs(runs, key_merge_fan_in(runs, true), key_merge_fan_in(runs, false));
	if (runs->env->spec.random_access)
		return result_key_run_begin(&space->key_run, runs,
									merge_keys_into_run(runs, runs->runs, runs->n, true));
	return result_key_merge_begin(&space->key_merge, runs, key_merge_begin(runs, runs->runs, runs->n));
}

SortResult *
runs_result(Runs *runs, ResultSpace *space)
{
	SortEnv    *env = runs->env;
	MemoryContext old = MemoryContextSwitchTo(runs->cxt);
	SortResult *result;
	instr_time	start;
	instr_time	end;

	sort_env_clock(env, &start);
	key_layout(&runs->layout, runs->keybuf, runs->ranges);
	result = have_keys(runs) ? merge_keys(runs, space) : merge_rows(runs, space);
	result->failed = runs->failed;
	env->report.disk_bytes = env->progress.now->disk = disk_bytes(runs);
	sort_env_clock(env, &end);
	INSTR_TIME_ACCUM_DIFF(env->report.spill_time, end, start);
	MemoryContextSwitchTo(old);
	return result;
}

void
runs_end(Runs *runs)
{
	if (runs->cxt == NULL)
		return;
	while (!dlist_is_empty(&runs->sources))
	{
		RunSource  *source = dlist_head_element(RunSource, node, &runs->sources);

		source->end(source);
	}
	if (runs->file != NULL)
		spill_close(runs->file);
	if (runs->env->row_slot != NULL)
		ExecClearTuple(runs->env->row_slot);
	MemoryContextReset(runs->cxt);
	runs->file = NULL;
	runs->runs = NULL;
	runs->n = runs->capacity = 0;
}
