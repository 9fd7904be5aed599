/*
 * sorter.c
 *	  One sort: rows in, rows out in order.
 *
 * Memory policy: rows, the stage's arrays and those that sorting will need are
 * counted row by row against work_mem; when it is full, what is there is sorted
 * and written as a run.  The stage's arrays grow with what came, not by the
 * planner's estimate.  One row is always taken, however large.  Regions are
 * rounded up to 2 MB, the rows' to 16 MB; their untouched rest is not counted.
 * Small sorts keep their few kilobytes for the next execution of the node, large
 * ones give their regions back (bulk.c).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "node/device_pause.h"
#include "settings.h"
#include "sort/device_sort.h"
#include "sort/keys_only.h"
#include "sort/limit.h"
#include "sort/sorter.h"
#include "utils/memutils.h"

/* Staged rows up to which memory is kept for the node's next execution. */
#define SORTER_SMALL_ROWS	4096

/* Memory of which less than one part in so many is left is full. */
#define MEMORY_PARTS		64

/*
 * Bytes per row that sorting takes beside the stage: records, and as much scratch,
 * of which one algorithm wants a bit more.  Whole keys of more than a word are
 * tried only after words were, and without the stage, unless somebody needs it
 * once more (sorter_sort_staged).  Inexact keys may all tie, and are then sorted by
 * their next words, beside the words.
 */
static Size
sorter_sort_cost(const Stage *stage, bool bounded)
{
	int			natural = (stage->row_bytes - (stage->has_rids ? (int) sizeof(uint32) : 0)) * 8;
	Size		words = 2 * sizeof(uint64) + 3;
	Size		rec = natural <= 64 ? sizeof(SortRec64) : sizeof(SortRec128);

	if (!stage->has_rids)
		return natural <= 64 ? words : 2 * rec;
	if (!stage->exact)
		words = sizeof(uint64) + 2 * sizeof(SortRec64);
	if (natural <= 32)
		return words;
	return Max(words, bounded ? 2 * rec : Max(rec, 2 * rec - Min(2 * rec, (Size) stage->row_bytes)));
}

/* How many rows may be staged at once: what kernels and the GPU can count. */
static size_t
sorter_max_rows(void)
{
	return gpusort_run_rows > 0 ? (size_t) gpusort_run_rows : PG_UINT32_MAX - 1;
}

Sorter *
sorter_create(const SortSpec *spec)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Sorter	   *sorter = palloc0(sizeof(Sorter));

	sorter->cxt = cxt;
	sorter->spec = *spec;
	sorter->bulk = bulk_owner_create(cxt);
	arena_init(&sorter->arena, sorter->bulk, cxt);
	stage_init(&sorter->stage, sorter->bulk, cxt, spec->keys, spec->nkeys, !spec->keys_only);
	sorter->tiebreak = tiebreak_create(cxt, sorter->bulk, spec->desc, spec->keys, spec->nkeys);
	sorter->writer = row_writer_create(spec->desc);
	MemoryContextSwitchTo(old);
	return sorter;
}

/* Gives up all memory of rows and keys. */
static void
sorter_free_all(Sorter *sorter)
{
	arena_free(&sorter->arena);
	stage_free(&sorter->stage);
	bulk_free(sorter->bulk, &sorter->recs);
	bulk_free(sorter->bulk, &sorter->scratch);
	bulk_free(sorter->bulk, &sorter->threshold_row);
}

void
sorter_begin(Sorter *sorter, size_t bound, double rows_expected)
{
	sorter->state = SORTER_INGEST;
	bulk_trim();
	/* what was kept for this execution had more work_mem */
	if ((Size) work_mem * 1024 < sorter->limit)
		sorter_free_all(sorter);
	sorter->limit = (Size) work_mem * 1024;
	sorter->sort_cost = sorter_sort_cost(&sorter->stage, bound > 0);
	sorter->key_cost = sorter->stage.row_bytes + sorter->sort_cost;
	sorter->max_rows = sorter_max_rows();
	/* rather a bit more room than another step for the last few rows */
	sorter->expected = bound > 0 || rows_expected <= SORTER_SMALL_ROWS ? 0 :
		(size_t) (Min(rows_expected, PG_UINT32_MAX) * (1 + 1.0 / 16));
	sorter->lost = false;
	sorter->rows_expected = rows_expected;
	sorter->device_rows_allowed = bound == 0 && !sorter->spec.random_access &&
		!sorter->spec.keys_only;
	sorter->put_limit = device_rows_after(sorter);
	sorter->bound = bound;
	sorter->have_threshold = false;
	sorter->rids = NULL;
	sorter->n = sorter->pos = sorter->mark_pos = 0;
	sorter->eof = sorter->mark_eof = false;
	memset(&sorter->report, 0, sizeof(SorterReport));
	sorter->report.bounded = (bound > 0);
	sorter->send_at = sorter->device_rows_allowed ? SIZE_MAX : device_keys_after(sorter);
	sorter->result_streams = false;
	for (int c = 0; c < sorter->stage.ncols; c++)
		key_range_init(&sorter->ranges[c]);
	stage_begin(&sorter->stage);
}

bool
sorter_stage_room(Sorter *sorter, size_t rows)
{
	Stage	   *stage = &sorter->stage;
	size_t		n = stage->n;
	Size		taken = sorter_taken(sorter);
	Size		row = sorter->key_cost + (n > 0 ? arena_used(&sorter->arena) / n : 0);
	size_t		most = n + (sorter->limit - Min(taken, sorter->limit)) / row;

	most = Min(most, sorter->max_rows);
	/* smaller steps would cost more than they gain */
	if (n + rows > sorter->max_rows || (n > 0 && most < n + rows + n / MEMORY_PARTS))
		return false;
	stage_grow(stage, n + rows, sorter->expected, most);
	return true;
}

/*
 * Makes room: a bounded sort throws away rows that cannot be wanted any more;
 * otherwise, or if that was too little, the rows become a run.
 */
static void
sorter_relieve(Sorter *sorter)
{
	if (sorter->bound > 0 && sorter->stage.n > sorter->bound)
	{
		Stage	   *stage = &sorter->stage;

		limit_cut(sorter);
		/* too little, and every few rows would cost a sort of all */
		if (sorter_taken(sorter) <= sorter->limit - sorter->limit / MEMORY_PARTS &&
			stage->capacity - stage->n > stage->n / MEMORY_PARTS)
			return;
	}
	sorter_write_run(sorter);
	/* rows of the front that do not fit the memory: all are as good as wanted */
	if (!sorter->have_threshold)
		sorter->bound = 0;
}

/* Memory is full: the rows go to the device (true), or are fewer now. */
static bool
sorter_full(Sorter *sorter)
{
	if (sorter->put_limit < sorter->limit || sorter->device_rows_allowed)
	{
		/* put_limit is limit if it will not be */
		if (device_rows_begin(sorter))
			return true;
	}
	sorter_relieve(sorter);
	return false;
}

/* The row that could not be put, once more. */
static void
sorter_put_again(Sorter *sorter, TupleTableSlot *slot)
{
	sorter->report.rows--;
	sorter_put(sorter, slot);
}

void
sorter_put(Sorter *sorter, TupleTableSlot *slot)
{
	Stage	   *stage = &sorter->stage;
	uint32		rid;

	slot_getsomeattrs(slot, stage->last_att);
	sorter->report.rows++;
	if (sorter->spec.keys_only)
	{
		keys_only_put(sorter, slot);
		return;
	}
	if (sorter->have_threshold && limit_rejects(sorter, slot))
		return;
	if (sorter->device_rows != NULL && device_rows_put(sorter, slot))
		return;

	if (unlikely(stage->n == stage->capacity) && !sorter_stage_room(sorter, 1))
	{
		(void) sorter_full(sorter);
		sorter_put_again(sorter, slot);
		return;
	}
	if (unlikely(!row_store(sorter->writer, &sorter->arena, slot, &rid)))
	{
		/* as many rows as rids can name */
		if (stage->n == 0)
			elog(ERROR, "a row does not fit an empty sort arena");
		sorter_relieve(sorter);
		sorter_put_again(sorter, slot);
		return;
	}
	stage_row(stage, slot->tts_values, slot->tts_isnull, rid);
	if (unlikely(stage->n >= sorter->send_at))
		device_keys_stream(sorter);

	if (unlikely(sorter_taken(sorter) > sorter->put_limit))
	{
		if (sorter->put_limit < sorter->limit && sorter_taken(sorter) <= sorter->limit)
			(void) device_rows_begin(sorter);
		else
			(void) sorter_full(sorter);
	}
	else if (unlikely(sorter->bound > 0 && stage->n >= limit_trigger(sorter->bound)))
		limit_cut(sorter);
}

void
sorter_note_memory(Sorter *sorter, Size more)
{
	Size		used = arena_used(&sorter->arena) + sorter->stage.bytes + sorter->recs.asked +
		sorter->scratch.asked + sorter->threshold_row.asked + more;

	sorter->report.memory_peak = Max(sorter->report.memory_peak, used);
}

void
sorter_free_stage(Sorter *sorter)
{
	if (sorter->stage.capacity > SORTER_SMALL_ROWS)
		stage_free(&sorter->stage);
	tiebreak_release(sorter->tiebreak);
}

void
sorter_perform(Sorter *sorter)
{
	instr_time	start;
	instr_time	end;

	sorter_clock(sorter, &start);
	if (sorter->device_rows != NULL)
		device_rows_perform(sorter);
	if (sorter->state == SORTER_STREAM || sorter->lost)
		;						/* nothing to do here */
	else if (sorter->nruns == 0)
	{
		sorter->result_streams = sorter->bound == 0 && !device_may_pause();
		sorter_sort_staged(sorter);
		if (sorter->bound > 0)
			sorter->n = Min(sorter->n, sorter->bound);
		sorter->state = sorter->spec.keys_only ? SORTER_KEYS : SORTER_MEMORY;
		/* a device that fails midway leaves the rest to us */
		if (sorter->device_keys == NULL)
			sorter_free_stage(sorter);
	}
	else
	{
		if (sorter->stage.n > 0)
			sorter_write_run(sorter);
		sorter_free_all(sorter);
		sorter_merge_runs(sorter);
	}
	sorter_clock(sorter, &end);
	INSTR_TIME_ACCUM_DIFF(sorter->report.sort_time, end, start);
}

/*
 * The number of the next row in memory, either way, with a Sort's manners at the
 * ends; false if there is none.
 */
static bool
sorter_step(Sorter *sorter, bool forward, size_t *i)
{
	if (forward)
	{
		if (sorter->pos >= sorter->n)
		{
			sorter->eof = true;
			return false;
		}
		*i = sorter->pos++;
		return true;
	}

	if (sorter->pos == 0)
		return false;
	if (sorter->eof)
		sorter->eof = false;	/* the last row comes again */
	else
	{
		sorter->pos--;
		if (sorter->pos == 0)
			return false;
	}
	*i = sorter->pos - 1;
	return true;
}

bool
sorter_next_slow(Sorter *sorter, bool forward, TupleTableSlot *slot)
{
	MemoryContext old;
	MinimalTuple row;
	size_t		i;

	if (sorter->device_keys != NULL && forward && sorter->pos >= sorter->n)
		(void) device_keys_more(sorter);
	if (sorter->state == SORTER_KEYS)
	{
		if (!sorter_step(sorter, forward, &i))
			return false;
		keys_only_to_slot(sorter, i, slot);
		return true;
	}
	if (sorter->state == SORTER_MEMORY)
	{
		if (!sorter_step(sorter, forward, &i))
			return false;
		row_to_slot(slot, (MinimalTuple) arena_at(&sorter->arena, sorter->rids[i]));
		return true;
	}
	if (sorter->state == SORTER_STREAM)
	{
		Assert(forward);
		row = sorter->device_rows == NULL ? NULL : device_rows_next(sorter);
		if (row == NULL)
		{
			/* what it had is others' again */
			if (!sorter->lost)
				device_rows_end(sorter);
			return false;
		}
		row_to_slot(slot, row);
		return true;
	}

	old = MemoryContextSwitchTo(sorter->merge_cxt);
	if (sorter->state == SORTER_MERGE)
	{
		Assert(forward);
		row = merge_next(sorter->merge);
	}
	else
		row = result_next(&sorter->result, forward);
	MemoryContextSwitchTo(old);

	if (row == NULL)
		return false;
	if (sorter->spec.keys_only)
		keys_only_copy_row(sorter, row, slot);
	else
		row_to_slot(slot, row);
	return true;
}

TupleTableSlot *
sorter_merge_slot(Sorter *sorter)
{
	if (sorter->merge_slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(sorter->cxt);

		sorter->merge_slot = MakeSingleTupleTableSlot(sorter->spec.desc, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	return sorter->merge_slot;
}

void
sorter_rewind(Sorter *sorter)
{
	Assert(sorter->spec.random_access);
	sorter->pos = sorter->mark_pos = 0;
	sorter->eof = sorter->mark_eof = false;
	if (sorter->state == SORTER_RUN)
		result_rewind(&sorter->result);
}

void
sorter_mark(Sorter *sorter)
{
	Assert(sorter->spec.random_access);
	sorter->mark_pos = sorter->pos;
	sorter->mark_eof = sorter->eof;
	if (sorter->state == SORTER_RUN)
		result_mark(&sorter->result);
}

void
sorter_restore(Sorter *sorter)
{
	Assert(sorter->spec.random_access);
	sorter->pos = sorter->mark_pos;
	sorter->eof = sorter->mark_eof;
	if (sorter->state == SORTER_RUN)
		result_restore(&sorter->result);
}

/* Keeps a small arena for the next execution, gives a large one back. */
static void
sorter_clear_arena(Arena *arena)
{
	if (arena->nowned > 1 || arena_used(arena) > SORTER_SMALL_ROWS * 64)
		arena_free(arena);
	else
		arena_reset(arena);
}

void
sorter_end(Sorter *sorter)
{
	device_rows_end(sorter);
	device_keys_end(sorter);
	if (sorter->merge_cxt != NULL)
	{
		if (sorter->file != NULL)
			spill_close(sorter->file);
		if (sorter->merge_slot != NULL)
			ExecClearTuple(sorter->merge_slot);
		MemoryContextReset(sorter->merge_cxt);
		sorter->file = NULL;
		sorter->runs = NULL;
		sorter->merge = NULL;
		sorter->nruns = sorter->runs_capacity = 0;
	}
	sorter_clear_arena(&sorter->arena);
	sorter_free_stage(sorter);
	if (sorter->recs.mapped)
		bulk_free(sorter->bulk, &sorter->recs);
	if (sorter->scratch.mapped)
		bulk_free(sorter->bulk, &sorter->scratch);
	if (sorter->threshold_row.mapped)
		bulk_free(sorter->bulk, &sorter->threshold_row);
	sorter->rids = NULL;
	sorter->keys = NULL;
	sorter->n = 0;
	sorter->batch_n = 0;
}

uint64
sorter_begin_again(Sorter *sorter, uint64 *sum)
{
	uint64		given = device_rows_given(sorter);

	*sum = sorter->stream_sum;
	Assert(sorter->lost);
	sorter_end(sorter);
	sorter_begin(sorter, 0, sorter->rows_expected);
	sorter->report.device_failed = true;
	sorter->device_rows_allowed = false;
	sorter->put_limit = sorter->limit;
	sorter->send_at = SIZE_MAX;
	return given;
}
