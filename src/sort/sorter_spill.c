/*
 * sorter_spill.c
 *	  Sorts larger than work_mem: runs are written, then merged.
 *
 * Each time memory is full the staged rows are sorted and written as a run.  At
 * the end, if there are more runs than can be merged at once, just so many
 * neighbouring ones are merged first that the rest fits; neighbours, because
 * among equal rows the earlier run must win.  The last merge is streamed to the
 * node, or, if it will be read more than once or backward, written as one run.
 *
 * The merge compares 128-bit keys under one layout, made of the ranges of all
 * rows: narrow, so that 128 bits hold more, and the same for every run.  They are
 * encoded again as rows are read; storing them would cost more I/O than that.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/keys_only.h"
#include "sort/limit.h"
#include "sort/sorter.h"
#include "utils/memutils.h"

#define ROWS_PER_INTERRUPT_CHECK	4096

static void
sorter_add_run(Sorter *sorter, SpillRun *run)
{
	if (sorter->nruns == sorter->runs_capacity)
	{
		int			capacity = Max(16, sorter->runs_capacity * 2);

		if (sorter->runs == NULL)
			sorter->runs = palloc(capacity * sizeof(SpillRun *));
		else
			sorter->runs = repalloc(sorter->runs, capacity * sizeof(SpillRun *));
		sorter->runs_capacity = capacity;
	}
	sorter->runs[sorter->nruns++] = run;
}

MemoryContext
sorter_begin_run(Sorter *sorter, RunWriter *writer)
{
	MemoryContext old;

	if (sorter->merge_cxt == NULL)
		sorter->merge_cxt = AllocSetContextCreate(sorter->cxt, "GpuSort runs",
												  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(sorter->merge_cxt);
	if (sorter->file == NULL)
		sorter->file = spill_open(sorter->limit);
	run_writer_open(writer, sorter->file);
	return old;
}

void
sorter_finish_run(Sorter *sorter, RunWriter *writer, MemoryContext old)
{
	sorter_add_run(sorter, run_writer_close(writer));
	sorter->report.runs++;
	MemoryContextSwitchTo(old);
}

static void
write_arena_rows(Sorter *sorter, RunWriter *writer)
{
	for (size_t i = 0; i < sorter->n; i++)
	{
		if (i + SORTER_PREFETCH < sorter->n)
		{
			char	   *ahead = arena_at(&sorter->arena, sorter->rids[i + SORTER_PREFETCH]);

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 64);
		}
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		run_writer_row(writer, (MinimalTuple) arena_at(&sorter->arena, sorter->rids[i]));
	}
}

void
sorter_write_run(Sorter *sorter)
{
	MemoryContext old;
	RunWriter	writer;
	instr_time	start;
	instr_time	end;

	sorter_clock(sorter, &start);
	sorter_sort_staged(sorter);
	if (sorter->bound > 0 && sorter->n >= sorter->bound)
	{
		limit_set_threshold(sorter);
		sorter->n = sorter->bound;
	}
	stage_unite_ranges(&sorter->stage, sorter->ranges);

	old = sorter_begin_run(sorter, &writer);
	if (sorter->spec.keys_only)
		keys_only_write_run(sorter, &writer);
	else
		write_arena_rows(sorter, &writer);
	sorter_finish_run(sorter, &writer, old);

	sorter->rids = NULL;
	sorter->n = 0;
	sorter->keys = NULL;
	arena_reset(&sorter->arena);
	stage_reset(&sorter->stage);
	/* while rows come in there is nothing else */
	bulk_free(sorter->bulk, &sorter->recs);
	bulk_free(sorter->bulk, &sorter->scratch);
	sorter_clock(sorter, &end);
	INSTR_TIME_ACCUM_DIFF(sorter->report.sort_time, end, start);
	/* it passed while rows were being taken in */
	INSTR_TIME_ACCUM_DIFF(sorter->report.ingest_time, start, end);
}

static MergeKey
spill_key(void *arg, MinimalTuple row)
{
	Sorter	   *sorter = arg;
	TupleTableSlot *slot = sorter->merge_slot;

	row_to_slot(slot, row);
	slot_getsomeattrs(slot, sorter->stage.last_att);
	return pack_row(&sorter->stage, &sorter->merge_layout, slot->tts_values, slot->tts_isnull);
}

static int
spill_compare(void *arg, MinimalTuple a, MinimalTuple b)
{
	return tiebreak_compare(((Sorter *) arg)->tiebreak, a, b);
}

/* Read buffers come from what the sort's own arrays have given back. */
static Merge *
sorter_merge_begin(Sorter *sorter, SpillRun **runs, int n, const MergeOrder *order)
{
	bulk_reserve(sorter->bulk, &sorter->scratch,
				 n * run_reader_buffer_size(sorter->file), 0);
	sorter_note_memory(sorter, sorter->file->extent);
	return merge_begin(sorter->file, runs, n, sorter->scratch.ptr, order);
}

/* Merges n neighbouring runs into one. */
static SpillRun *
sorter_merge_some(Sorter *sorter, SpillRun **runs, int n, const MergeOrder *order,
				  void (*write_row) (RunWriter *writer, MinimalTuple row))
{
	Merge	   *merge = sorter_merge_begin(sorter, runs, n, order);
	RunWriter	writer;
	MinimalTuple row;

	run_writer_open(&writer, sorter->file);
	for (uint64 i = 0; (row = merge_next(merge)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		write_row(&writer, row);
	}
	merge_end(merge);
	return run_writer_close(&writer);
}

/* Merges just enough neighbouring runs for the rest to be merged at once. */
static void
sorter_reduce_runs(Sorter *sorter, int fan_in, const MergeOrder *order)
{
	while (sorter->nruns > fan_in)
	{
		int			excess = sorter->nruns - fan_in;
		int			in = 0;
		int			out = 0;

		while (in < sorter->nruns)
		{
			int			group = Max(1, Min(Min(fan_in, excess + 1), sorter->nruns - in));

			if (group > 1)
				sorter->runs[out++] = sorter_merge_some(sorter, sorter->runs + in, group,
														order, run_writer_row);
			else
				sorter->runs[out++] = sorter->runs[in];
			excess -= group - 1;
			in += group;
		}
		sorter->nruns = out;
	}
}

void
sorter_merge_runs(Sorter *sorter)
{
	MemoryContext old = MemoryContextSwitchTo(sorter->merge_cxt);
	MergeOrder	order;

	(void) sorter_merge_slot(sorter);

	key_layout(&sorter->merge_layout, &sorter->stage, sorter->ranges);
	order.key = spill_key;
	order.compare = spill_compare;
	order.arg = sorter;
	order.exact = sorter->merge_layout.exact;

	sorter_reduce_runs(sorter, merge_fan_in(sorter->file, sorter->limit), &order);
	if (sorter->spec.random_access)
	{
		SpillRun   *run = sorter_merge_some(sorter, sorter->runs, sorter->nruns,
											&order, result_write_row);

		result_open(&sorter->result, sorter->file, run);
		sorter->state = SORTER_RUN;
	}
	else
	{
		sorter->merge = sorter_merge_begin(sorter, sorter->runs, sorter->nruns, &order);
		sorter->state = SORTER_MERGE;
	}
	sorter->report.disk_bytes = (uint64) sorter->file->nextents * sorter->file->extent;
	MemoryContextSwitchTo(old);
}
