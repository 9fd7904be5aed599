/*
 * sorter_spill.c
 *	  Sorts larger than work_mem: runs are written, then merged.
 *
 * Each time memory is full the staged rows are sorted and written to a tape.  At
 * the end, if there are more runs than can be merged at once, just so many
 * neighbouring ones are merged first that the rest fits; neighbours, because
 * among equal rows the earlier run must win.  The last merge is streamed to the
 * node, or, if it will be read more than once or backward, written to one tape.
 *
 * The merge compares 128-bit keys under one layout, made of the ranges of all
 * rows: narrow, so that 128 bits hold more, and the same for every run.  They are
 * encoded again as rows are read; storing them would cost more I/O than that.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "node/sorter.h"
#include "utils/memutils.h"

#define ROWS_PER_INTERRUPT_CHECK	4096

static void
sorter_add_tape(Sorter *sorter, LogicalTape *tape)
{
	if (sorter->ntapes == sorter->tapes_capacity)
	{
		int			capacity = Max(16, sorter->tapes_capacity * 2);

		if (sorter->tapes == NULL)
			sorter->tapes = palloc(capacity * sizeof(LogicalTape *));
		else
			sorter->tapes = repalloc(sorter->tapes, capacity * sizeof(LogicalTape *));
		sorter->tapes_capacity = capacity;
	}
	sorter->tapes[sorter->ntapes++] = tape;
}

void
sorter_write_run(Sorter *sorter)
{
	MemoryContext old;
	LogicalTape *tape;
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	sorter_sort_staged(sorter);
	for (int c = 0; c < sorter->stage.ncols; c++)
		key_range_union(&sorter->ranges[c], &sorter->stage.cols[c].range);

	if (sorter->merge_cxt == NULL)
		sorter->merge_cxt = AllocSetContextCreate(sorter->cxt, "GpuSort runs",
												  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(sorter->merge_cxt);
	if (sorter->tapeset == NULL)
		sorter->tapeset = LogicalTapeSetCreate(false, NULL, -1);
	tape = LogicalTapeCreate(sorter->tapeset);
	for (size_t i = 0; i < sorter->n; i++)
	{
		if (i + SORTER_PREFETCH < sorter->n)
			__builtin_prefetch(arena_at(&sorter->arena, sorter->rids[i + SORTER_PREFETCH]));
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		run_write_row(tape, (MinimalTuple) arena_at(&sorter->arena, sorter->rids[i]));
	}
	run_write_end(tape);
	sorter_add_tape(sorter, tape);
	sorter->report.runs++;
	MemoryContextSwitchTo(old);

	sorter->rids = NULL;
	sorter->n = 0;
	arena_reset(&sorter->arena);
	stage_reset(&sorter->stage);
	INSTR_TIME_SET_CURRENT(end);
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
sorter_merge_begin(Sorter *sorter, LogicalTape **tapes, int n, const MergeOrder *order)
{
	bulk_reserve(sorter->bulk, &sorter->scratch, merge_buffers_size(n, sorter->limit), 0);
	return merge_begin(tapes, n, sorter->limit, sorter->scratch.ptr, order);
}

/* Merges n neighbouring tapes into one. */
static LogicalTape *
sorter_merge_some(Sorter *sorter, LogicalTape **tapes, int n, const MergeOrder *order,
				  void (*write_row) (LogicalTape *tape, MinimalTuple row))
{
	LogicalTape *out = LogicalTapeCreate(sorter->tapeset);
	Merge	   *merge = sorter_merge_begin(sorter, tapes, n, order);
	MinimalTuple row;

	for (uint64 i = 0; (row = merge_next(merge)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		write_row(out, row);
	}
	merge_end(merge);
	return out;
}

/* Merges just enough neighbouring tapes for the rest to be merged at once. */
static void
sorter_reduce_tapes(Sorter *sorter, int fan_in, const MergeOrder *order)
{
	while (sorter->ntapes > fan_in)
	{
		int			excess = sorter->ntapes - fan_in;
		int			in = 0;
		int			out = 0;

		while (in < sorter->ntapes)
		{
			int			group = Min(Min(fan_in, excess + 1), sorter->ntapes - in);

			if (group > 1)
			{
				LogicalTape *tape = sorter_merge_some(sorter, sorter->tapes + in, group,
													  order, run_write_row);

				run_write_end(tape);
				sorter->tapes[out++] = tape;
				excess -= group - 1;
			}
			else
			{
				group = 1;
				sorter->tapes[out++] = sorter->tapes[in];
			}
			in += group;
		}
		sorter->ntapes = out;
	}
}

void
sorter_merge_runs(Sorter *sorter)
{
	MemoryContext old = MemoryContextSwitchTo(sorter->cxt);
	MergeOrder	order;

	if (sorter->merge_slot == NULL)
		sorter->merge_slot = MakeSingleTupleTableSlot(sorter->spec.desc, &TTSOpsMinimalTuple);
	MemoryContextSwitchTo(sorter->merge_cxt);

	key_layout(&sorter->merge_layout, &sorter->stage, sorter->ranges);
	order.key = spill_key;
	order.compare = spill_compare;
	order.arg = sorter;
	order.exact = sorter->merge_layout.exact;

	sorter_reduce_tapes(sorter, merge_fan_in(sorter->limit), &order);
	if (sorter->spec.random_access)
	{
		LogicalTape *tape = sorter_merge_some(sorter, sorter->tapes, sorter->ntapes,
											  &order, result_tape_write);

		result_tape_open(&sorter->result, tape);
		sorter->state = SORTER_TAPE;
	}
	else
	{
		sorter->merge = sorter_merge_begin(sorter, sorter->tapes, sorter->ntapes, &order);
		sorter->state = SORTER_MERGE;
	}
	sorter->report.disk_blocks = LogicalTapeSetBlocks(sorter->tapeset);
	MemoryContextSwitchTo(old);
}
