/*
 * sorter.c
 *	  One sort: takes rows and returns them in order.
 *
 * Rows go to a sink.  When the sink is full or has failed, the sorter decides what
 * follows.  Its state says what it does then, and the table next_state[] which state
 * follows; docs/design/overview.md has it as a picture.
 *
 * When all rows are in, the sink makes the result, or the runs are merged.
 *
 * Memory policy: see the sinks.  A small sort keeps its memory for the next execution
 * of the node.  A large sort returns its regions.
 */
#include "postgres.h"

#include "compat.h"
#include "key/key.h"
#include "miscadmin.h"
#include "settings.h"
#include "sort/sort_internal.h"
#include "utils/memutils.h"

/*
 * Each state that takes rows has a sink, and says when the sink is full (arrive()).  What
 * the sorter does then is an event.
 */
typedef enum SorterState
{
	SORTER_NONE,				/* in the table: the event cannot happen */
	SORTER_ENDED,				/* there is no sort */
	SORTER_BOUNDED,				/* keeps the first rows only */
	SORTER_DISTINCT,			/* a batch in the cache drops its duplicates */
	SORTER_OFFER_ROWS,			/* memory, until a device is offered the rows */
	SORTER_MEMORY,				/* memory, until it is full */
	SORTER_DEVICE,				/* rows go to a device */
	SORTER_PRODUCER,			/* rows go to the job of all participants */
	SORTER_RESULT,				/* rows are returned */
	SORTER_FAILED				/* rows are lost: the child must run again */
} SorterState;

#define SORTER_STATES	(SORTER_FAILED + 1)

typedef enum SorterEvent
{
	EVENT_BEGIN,				/* all rows are wanted, */
	EVENT_BEGIN_DISTINCT,		/* ... without duplicates, */
	EVENT_BEGIN_BOUNDED,		/* ... or the first ones, */
	EVENT_BEGIN_DEVICE,			/* or the caller has made a sink on a device, */
	EVENT_BEGIN_PRODUCER,		/* ... or one of a participant */
	EVENT_MANY_DUPLICATES,		/* a batch has dropped half of its rows, */
	EVENT_FEW_DUPLICATES,		/* ... or fewer */
	EVENT_REFUSED,				/* no device takes the rows */
	EVENT_ROWS_MOVED,			/* a device has the rows so far */
	EVENT_SPILLED,				/* memory was full: the batch is a run */
	EVENT_DRAINED,				/* the devices were full: no row is there */
	EVENT_FAILED,
	EVENT_PERFORMED,			/* all rows are in, and the result is made */
	EVENT_ENDED
} SorterEvent;

#define SORTER_EVENTS	(EVENT_ENDED + 1)

/* Events of each state that takes rows, and of each state that buffers all rows in memory. */
#define TAKES_ROWS \
	[EVENT_FAILED] = SORTER_FAILED, [EVENT_PERFORMED] = SORTER_RESULT, [EVENT_ENDED] = SORTER_ENDED
#define IN_MEMORY \
	TAKES_ROWS, [EVENT_ROWS_MOVED] = SORTER_DEVICE, [EVENT_SPILLED] = SORTER_MEMORY

static const SorterState next_state[SORTER_STATES][SORTER_EVENTS] = {
	[SORTER_ENDED] = {
		[EVENT_BEGIN] = SORTER_OFFER_ROWS,
		[EVENT_BEGIN_DISTINCT] = SORTER_DISTINCT,
		[EVENT_BEGIN_BOUNDED] = SORTER_BOUNDED,
		[EVENT_BEGIN_DEVICE] = SORTER_DEVICE,
		[EVENT_BEGIN_PRODUCER] = SORTER_PRODUCER,
		[EVENT_ENDED] = SORTER_ENDED
	},
	[SORTER_BOUNDED] = {TAKES_ROWS, [EVENT_SPILLED] = SORTER_BOUNDED},
	[SORTER_DISTINCT] = {
		TAKES_ROWS, [EVENT_MANY_DUPLICATES] = SORTER_DISTINCT, [EVENT_FEW_DUPLICATES] = SORTER_OFFER_ROWS
	},
	[SORTER_OFFER_ROWS] = {IN_MEMORY, [EVENT_REFUSED] = SORTER_MEMORY},
	[SORTER_MEMORY] = {IN_MEMORY},
	[SORTER_DEVICE] = {TAKES_ROWS, [EVENT_DRAINED] = SORTER_OFFER_ROWS},
	[SORTER_PRODUCER] = {TAKES_ROWS},
	[SORTER_RESULT] = {[EVENT_ENDED] = SORTER_ENDED},
	[SORTER_FAILED] = {[EVENT_ENDED] = SORTER_ENDED}
};

const SortOffload *sort_offload;

typedef struct SorterData
{
	Sorter		base;
	SortEnv		env;
	SorterState state;
	Batch		batch;			/* the rows in memory */
	Sink	   *sink;			/* takes rows: &host, &bounded or offloading */
	Sink		host;
	BoundedSink bounded;
	bool		rows_may_move;	/* to a device, when a batch is full */
	ReturnedRows returned;		/* rows returned before the failure */
	Runs		runs;
	SortResult *result;			/* points into space; NULL while rows come in */
	ResultSpace space;
	instr_time	began;			/* when the first row could come */
} SorterData;

/* ------------------------------------------------------------------------
 * Changing the state
 * ------------------------------------------------------------------------
 */

/* The limit of the batch in host memory, at which a device is considered. */
static Size
host_limit(const SorterData *sorter)
{
	bool		offer = sorter->rows_may_move && sort_offload->state() == DEVICE_STATE_READY;

	return offer ? Min(sorter->env.limit, sort_offload->rows_after) : sorter->env.limit;
}

/* Sets the state's sink, and when the sink is full.  False if the state has nothing to offer to a device. */
static bool
arrive(SorterData *sorter)
{
	Batch	   *batch = &sorter->batch;

	batch->limit = sorter->env.limit;
	switch (sorter->state)
	{
		case SORTER_BOUNDED:
			sorter->sink = &sorter->bounded.base;
			return true;
		case SORTER_DISTINCT:
			/* geometric growth keeps the number of sorts logarithmic */
			batch->limit = Min(host_limit(sorter), Max(DISTINCT_EARLY_BYTES, DISTINCT_GROWTH * batch_taken(batch)));
			break;
		case SORTER_OFFER_ROWS:
			if (!sorter->rows_may_move)
				return false;
			batch->limit = host_limit(sorter);
			break;
		case SORTER_MEMORY:
			break;
		default:
			return true;
	}
	sorter->sink = &sorter->host;
	return true;
}

/* Changes to the state that follows the event.  A state that has nothing to offer is left at once. */
static void
change_state(SorterData *sorter, SorterEvent event)
{
	do
	{
		SorterState next = next_state[sorter->state][event];

		if (next == SORTER_NONE)
			elog(ERROR, "a sort in state %d has no event %d", sorter->state, event);
		sorter->state = next;
		event = EVENT_REFUSED;
	} while (!arrive(sorter));
}

/* ------------------------------------------------------------------------
 * Creating, beginning and restarting a sort
 * ------------------------------------------------------------------------
 */
Sorter *
sorter_create(const SortSpec *spec)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	SorterData *sorter = palloc0(sizeof(SorterData));
	SortEnv    *env = &sorter->env;

	memcpy(unconstify(SortSpec *, &env->spec), spec, sizeof(SortSpec));
	env->cxt = sorter->returned.cxt = cxt;
	sorter->base.report = &env->report;
	sorter->base.keybuf = &sorter->batch.keybuf;
	progress_create(&env->progress, cxt);
	env->bulk = bulk_owner_create(cxt, spec->within != NULL ? spec->within : &env->progress);
	env->writer = row_writer_create(spec->desc);
	env->tiebreak = tiebreak_create(cxt, env->bulk, spec->desc, spec->keys, spec->nkeys);
	keybuf_init(&sorter->batch.keybuf, spec->keys, spec->nkeys, spec->keys_only && !spec->rids_are_tids);
	keybuf_writer_init(&env->keys, cxt, env->bulk, &sorter->batch.keybuf, spec->keys);
	if (spec->distinct > 0)
		env->distinct_cols = distinct_columns(spec->keys, spec->distinct);
	sink_host_init(&sorter->host, env, &sorter->batch);
	sorter->state = SORTER_ENDED;
	MemoryContextSwitchTo(old);
	return &sorter->base;
}

void
sorter_destroy(Sorter *base)
{
	SorterData *sorter = (SorterData *) base;

	sorter_end(base);
	MemoryContextDelete(sorter->env.cxt);
}

bool
sorter_failed(const Sorter *base)
{
	const SorterData *sorter = (const SorterData *) base;

	return sorter->state == SORTER_FAILED || (sorter->result != NULL && sorter->result->failed);
}

/* Frees all memory of rows and keys. */
static void
free_all(SorterData *sorter)
{
	SortEnv    *env = &sorter->env;

	batch_free(&sorter->batch, env->bulk);
	bulk_free(env->bulk, &env->recs);
	bulk_free(env->bulk, &env->scratch);
}

static void
end_sink(SorterData *sorter)
{
	if (sorter->sink != NULL && sorter->sink->methods->end != NULL)
		sorter->sink->methods->end(sorter->sink);
	sorter->sink = NULL;
}

/* Chooses the sink of the sort's first row. */
static SorterEvent
begin_event(SorterData *sorter, const SortBegin *begin)
{
	SortEnv    *env = &sorter->env;
	Sink	   *made = begin->make_sink == NULL ? NULL : begin->make_sink(env, &sorter->batch, begin->make_sink_arg);

	if (made != NULL)
	{
		sorter->rows_may_move = false;
		sorter->sink = made;
		return sink_is_offloaded(made) ? EVENT_BEGIN_DEVICE : EVENT_BEGIN_PRODUCER;
	}
	if (env->bound > 0)
	{
		sink_bounded_begin(&sorter->bounded, env, &sorter->batch, begin->shared_cutoff);
		return EVENT_BEGIN_BOUNDED;
	}
	return env->drop_duplicates ? EVENT_BEGIN_DISTINCT : EVENT_BEGIN;
}

/* again: after a device failed. */
static void
sorter_start(SorterData *sorter, const SortBegin *begin, bool again)
{
	SortEnv    *env = &sorter->env;
	Size		limit = env->spec.memory != 0 ? env->spec.memory : (Size) work_mem * 1024;
	size_t		bound = begin->bound;
	double		rows_expected = begin->rows_expected;

	Assert(bound == 0 || !env->spec.keys_only);
	Assert(bound == 0 || env->spec.distinct == 0);
	bulk_begin(env->spec.ties_by_tid);
	/* memory kept from the last execution may exceed the new limit */
	if (limit < env->limit)
		free_all(sorter);
	env->limit = limit;
	env->bound = bound;
	env->drop_duplicates = env->spec.distinct > 0 && !begin->keep_duplicates;
	env->rows_expected = rows_expected;
	progress_begin(&env->progress, sort_is_nested(&env->spec) ? PROGRESS_UNSEEN : env->spec.node,
				   rows_expected);
	env->sink_bytes = 0;
	env->device_failed = again || (env->spec.memory != 0 && !env->spec.gpu_verified);
	memset(&env->report, 0, sizeof(SortReport));
	env->report.device.failed = again;
	env->report.bounded = (bound > 0);
	env->report.distinct = env->drop_duplicates;
	env->timed = env->report.timed = env->spec.timing || rows_expected > SORT_TIMED_ROWS;
	sorter->result = NULL;
	batch_begin(&sorter->batch, limit, bound > 0, bound > 0 || env->drop_duplicates, rows_expected);
	runs_begin(&sorter->runs, env, &sorter->batch.keybuf);

	sorter->rows_may_move = bound == 0 && !env->spec.random_access && !env->spec.keys_only &&
		env->spec.memory == 0 && !again && sorter->batch.keybuf.cols[0].kind != KEY_COMPARED;
	change_state(sorter, begin_event(sorter, begin));
	sorter->base.early_bound = bound;
	sort_env_clock(env, &sorter->began);
}

void
sorter_begin(Sorter *base, const SortBegin *begin)
{
	sorter_start((SorterData *) base, begin, false);
}

bool
sorter_put_early(Sorter *base, RowPage *page)
{
	SorterData *sorter = (SorterData *) base;
	int			done = 0;

	Assert(sorter->state == SORTER_BOUNDED);
	return sorter->sink->methods->put_page(sorter->sink, page, &done) == SINK_TAKEN;
}

void
sorter_early_cutoff(Sorter *base, int pages)
{
	SorterData *sorter = (SorterData *) base;
	SortEnv    *env = &sorter->env;
	SortReport	report = env->report;

	/* the rows are counted when they come again */
	if (sink_bounded_early_cutoff(&sorter->bounded))
		report.cutoff_pages = pages;
	report.memory_peak = Max(report.memory_peak, env->report.memory_peak);
	env->report = report;
}

void
sorter_begin_again(Sorter *base)
{
	SorterData *sorter = (SorterData *) base;
	SortResult *result = sorter->result;
	uint64		returned = result == NULL ? 0 : result->returned;
	uint64		sum = result == NULL ? 0 : result->returned_sum;

	/* duplicates that a stream from a device has returned must come again */
	SortBegin	begin = {
		.rows_expected = sorter->env.rows_expected,
		.keep_duplicates = result != NULL && result->methods->kind == RESULT_STREAM &&
			returned > 0 && result->duplicates
	};

	Assert(sorter_failed(base));
	sorter_end(base);
	sorter_start(sorter, &begin, true);
	returned_rows_reset(&sorter->returned);
	sorter->returned.before = returned;
	sorter->returned.before_sum = sum;
}

void
sorter_skip_returned(Sorter *base, TupleTableSlot *slot)
{
	SorterData *sorter = (SorterData *) base;

	while (returned_rows_pending(&sorter->returned))
	{
		CHECK_FOR_INTERRUPTS();
		if (!result_next(sorter->result, RESULT_PLAIN, true, slot))
			sort_wrong_beginning();

		/*
		 * equal rows come in the same order again, so this is a row that was
		 * returned
		 */
		(void) returned_rows_skip(&sorter->returned, slot_minimal_tuple(slot));
	}
}

/* ------------------------------------------------------------------------
 * When a sink is full
 * ------------------------------------------------------------------------
 */

/*
 * Would the batch's run exceed temp_file_limit?  Rows may be coded in fewer bytes.  An eighth
 * is added for extents that do not get full, and for what merges write.
 */
static bool
run_exceeds_limit(const SorterData *sorter)
{
	const SortEnv *env = &sorter->env;
	uint64		bytes = arena_used(&sorter->batch.arena);

	if (temp_file_limit < 0)
		return false;
	/* keys are written as rows */
	if (env->spec.rids_are_tids)
	{
		Size		width = SizeofMinimalTupleHeader;

		for (int att = 0; att < env->spec.desc->natts; att++)
			width += TupleDescAttr(env->spec.desc, att)->attlen;
		bytes = sorter->batch.keybuf.n * MAXALIGN(width);
	}
	bytes += env->progress.now->disk;
	return bytes + bytes / 8 > (uint64) temp_file_limit * 1024;
}

/* Writes the sink's rows as a run.  False if the sort has failed. */
static bool
spill(SorterData *sorter)
{
	sorter->env.report.over_limit = sorter->env.spec.within_limit && run_exceeds_limit(sorter);
	if (!sorter->env.report.over_limit && sorter->sink->methods->spill(sorter->sink, &sorter->runs) != SINK_FAILED)
		return true;
	change_state(sorter, EVENT_FAILED);
	return false;
}

/* The rows of the devices become runs, or move back to memory. */
static void
drain_to_host(SorterData *sorter)
{
	if (!spill(sorter))
		return;
	/* rows that moved back once would move back again */
	if (sorter->batch.keybuf.n > 0)
		sorter->rows_may_move = false;
	end_sink(sorter);
	change_state(sorter, EVENT_DRAINED);
}

/* Writes the batch as a run. */
static void
spill_batch(SorterData *sorter)
{
	if (sorter->batch.keybuf.n == 0)
		elog(ERROR, "a row does not fit an empty sort arena");
	if (spill(sorter))
		change_state(sorter, EVENT_SPILLED);
}

/*
 * The batch is full: offers its rows to a device, or else raises the limit to the whole
 * memory of the sort.  False if neither is possible.
 */
static bool
offer_rows(SorterData *sorter)
{
	SortEnv    *env = &sorter->env;
	Batch	   *batch = &sorter->batch;
	Sink	   *sink;

	if (!sorter->rows_may_move)
		return false;
	sink = sort_offload->begin_rows(env, batch, &sorter->rows_may_move);
	if (sink != NULL)
	{
		batch_free(batch, env->bulk);
		sorter->sink = sink;
		change_state(sorter, EVENT_ROWS_MOVED);
		return true;
	}
	if (batch->limit == env->limit)
		return false;
	change_state(sorter, EVENT_REFUSED);
	return batch_taken(batch) <= batch->limit;
}

/*
 * With distinct columns: drops the duplicates of the batch, if they are many.  False if
 * the batch has no more room than before.
 */
static bool
drop_duplicates(SorterData *sorter)
{
	SortEnv    *env = &sorter->env;
	Batch	   *batch = &sorter->batch;
	Size		limit = host_limit(sorter);
	size_t		n = batch->keybuf.n;
	bool		more = batch->limit < limit;

	if (distinct_sample(env, &batch->keybuf) && distinct_batch(env, batch) >= (n + 1) / 2 &&
		batch_taken(batch) <= limit - limit / MEMORY_PARTS)
	{
		change_state(sorter, EVENT_MANY_DUPLICATES);
		return true;
	}
	change_state(sorter, EVENT_FEW_DUPLICATES);
	return more && batch_taken(batch) <= limit;
}

/* Index builds economize before they spill, unless a GPU may need the key buffer. */
static bool
economize(SorterData *sorter)
{
	const SortEnv *env = &sorter->env;
	DeviceState device = env->device_failed ? DEVICE_STATE_FAILED : sort_offload->state();

	return env->spec.ties_by_tid && !env->spec.keys_only &&
		device != DEVICE_STATE_READY && device != DEVICE_STATE_IDLE && batch_economize(&sorter->batch);
}

/* The sink did not take a row: makes room, or the sort has failed. */
static void
make_sink_room(SorterData *sorter, SinkAnswer answer)
{
	SortEnv    *env = &sorter->env;
	instr_time	start;
	instr_time	end;

	if (answer == SINK_FAILED)
	{
		change_state(sorter, EVENT_FAILED);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	if ((sorter->state == SORTER_OFFER_ROWS || sorter->state == SORTER_MEMORY) &&
		(offer_rows(sorter) || economize(sorter)))
		return;

	/* this time counts as sorting, not as ingest */
	sort_env_clock(env, &start);
	switch (sorter->state)
	{
		case SORTER_DISTINCT:
			if (!drop_duplicates(sorter) && !offer_rows(sorter))
				spill_batch(sorter);
			break;
		case SORTER_DEVICE:
			/* the next rows go to another part of the sort on a device, or to the host */
			answer = sorter->sink->methods->next_part(sorter->sink, &sorter->runs);
			if (answer == SINK_FULL)
				drain_to_host(sorter);
			else if (answer == SINK_FAILED)
				change_state(sorter, EVENT_FAILED);
			break;
		default:
			spill_batch(sorter);
	}
	progress_phase(&env->progress, PROGRESS_INGEST);
	sort_env_clock(env, &end);
	INSTR_TIME_ACCUM_DIFF(env->report.sort_time, end, start);
	INSTR_TIME_ACCUM_DIFF(env->report.ingest_time, start, end);
}

bool
sorter_put(Sorter *base, TupleTableSlot *slot)
{
	SorterData *sorter = (SorterData *) base;
	SinkAnswer	answer;

	if (unlikely(sorter->state == SORTER_FAILED))
		return false;
	slot_getsomeattrs(slot, sorter->batch.keybuf.last_att);
	sorter->env.progress.now->rows_in++;
	while (unlikely((answer = sorter->sink->methods->put_slot(sorter->sink, slot)) != SINK_TAKEN))
	{
		make_sink_room(sorter, answer);
		if (sorter->state == SORTER_FAILED)
			return false;
	}
	return true;
}

bool
sorter_put_page_row(Sorter *base, TupleTableSlot *slot)
{
	SorterData *sorter = (SorterData *) base;

	sorter->env.report.page_rows++;
	return sorter_put(base, slot);
}

/* Puts the page's rows from *done on one by one. */
static SinkAnswer
put_page_rows(Sink *sink, RowPage *page, int *done)
{
	int			last_att = sink->batch->keybuf.last_att;

	for (; *done < page->n; (*done)++)
	{
		TupleTableSlot *slot = page->row(page, *done);
		SinkAnswer	answer;

		slot_getsomeattrs(slot, last_att);
		answer = sink->methods->put_slot(sink, slot);
		if (unlikely(answer != SINK_TAKEN))
			return answer;
	}
	return SINK_TAKEN;
}

bool
sorter_put_page(Sorter *base, RowPage *page)
{
	SorterData *sorter = (SorterData *) base;
	int			done = 0;

	sorter->env.report.page_rows += page->n;
	while (sorter->state != SORTER_FAILED)
	{
		int			before = done;
		SinkAnswer	answer = sorter->sink->methods->put_page(sorter->sink, page, &done);

		if (answer == SINK_TAKEN && done < page->n)
			answer = put_page_rows(sorter->sink, page, &done);
		sorter->env.progress.now->rows_in += done - before;
		if (likely(answer == SINK_TAKEN))
			return true;
		make_sink_room(sorter, answer);
	}
	return false;
}

/* ------------------------------------------------------------------------
 * When all rows are in
 * ------------------------------------------------------------------------
 */
static void
merge_all_runs(SorterData *sorter)
{
	SortEnv    *env = &sorter->env;

	if (sorter->batch.keybuf.n > 0 && !spill(sorter))
		return;
	end_sink(sorter);
	free_all(sorter);
	env->sink_bytes = 0;
	progress_phase(&env->progress, PROGRESS_MERGE);
	sorter->result = runs_result(&sorter->runs, &sorter->space);
}

void
sorter_common_range(Sorter *base, CommonKeyRange *common_range)
{
	SorterData *sorter = (SorterData *) base;
	const KeyBuffer *keybuf = &sorter->batch.keybuf;

	Assert(sorter->state != SORTER_DEVICE);
	memcpy(common_range->ranges, sorter->runs.ranges, sizeof(common_range->ranges));
	keybuf_unite_ranges(keybuf, common_range->ranges);
	for (int c = 0; c < keybuf->ncols; c++)
		common_range->ranges[c].part_type = key_maker_part_type(keybuf->cols[c].kind, sorter->env.keys.makers[c]);
	common_range_of_keys(common_range, keybuf);
}

SortResult *
sorter_perform(Sorter *base, bool may_pause)
{
	SorterData *sorter = (SorterData *) base;
	SortEnv    *env = &sorter->env;
	instr_time	start;
	instr_time	end;

	if (sorter->state == SORTER_FAILED)
		return NULL;
	env->report.rows = env->progress.now->rows_in;
	sort_env_clock(env, &start);
	INSTR_TIME_ACCUM_DIFF(env->report.ingest_time, start, sorter->began);
	if (!env->timed && env->progress.now->rows_in > SORT_TIMED_ROWS)
	{
		/* more rows than expected: the following phases are timed */
		env->timed = env->report.timed = true;
		sort_env_clock(env, &start);
	}

	/*
	 * rows on a device are returned or merged from there, unless the reader
	 * may pause
	 */
	if (sorter->state == SORTER_DEVICE)
	{
		if (gpusort_verify || may_pause)
			drain_to_host(sorter);
		else
			sorter->sink->methods->merge_parts(sorter->sink, &sorter->runs);
	}
	if (sorter->state == SORTER_FAILED)
		return NULL;
	if (sorter->runs.n == 0)
		sorter->result = sorter->sink->methods->finish(sorter->sink, &sorter->space);
	else
		merge_all_runs(sorter);
	if (sorter->state == SORTER_FAILED)
		return NULL;
	change_state(sorter, EVENT_PERFORMED);
	sorter->result->duplicates |= env->spec.distinct > 0 && !env->drop_duplicates;
	progress_phase(&env->progress, PROGRESS_EMIT);

	sort_env_clock(env, &end);
	INSTR_TIME_ACCUM_DIFF(env->report.sort_time, end, start);
	return sorter->result->failed ? NULL : sorter->result;
}

void
sorter_end(Sorter *base)
{
	SorterData *sorter = (SorterData *) base;
	SortEnv    *env = &sorter->env;

	if (sorter->result != NULL && sorter->result->methods->end != NULL)
		sorter->result->methods->end(sorter->result);
	sorter->result = NULL;
	end_sink(sorter);
	runs_end(&sorter->runs);
	batch_trim(&sorter->batch, env->bulk);
	tiebreak_release(env->tiebreak);
	if (env->recs.mapped)
		bulk_free(env->bulk, &env->recs);
	if (env->scratch.mapped)
		bulk_free(env->bulk, &env->scratch);
	progress_end(&env->progress);
	change_state(sorter, EVENT_ENDED);
}
