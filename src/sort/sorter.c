/*
 * sorter.c
 *	  One sort: takes rows and returns them in order.
 *
 * Rows go to a sink.  When the sink is full or has failed, the sorter decides what
 * follows:
 *
 *		The buffered keys reach HostSink.ask_rows: a job may be begun to which keys are
 *		sent while more rows come in, or gets more keys.
 *		The buffered rows reach SortOffload.rows_after: begin_rows() may move all rows
 *		to a device.
 *		Memory is full: the batch is sorted and written as a run.
 *		A device is full: the next part goes to another device, or to the same device
 *		after one of its parts became a run.  Otherwise its rows are drained to runs or
 *		to memory.
 *		A device failed with its rows: the sort has failed.  The node begins it again.
 *
 * When all rows are in, the sink makes the result, or the runs are merged.
 *
 * Memory policy: see the sinks.  A small sort keeps its memory for the next execution
 * of the node.  A large sort returns its regions.
 */
#include "postgres.h"

#include "key/key.h"
#include "miscadmin.h"
#include "settings.h"
#include "sort/sort.h"
#include "sort/sort_internal.h"
#include "utils/memutils.h"

/* A sink that keeps rows, or keys without rows, in the batch. */
typedef struct HostSink
{
	Sink		base;
	size_t		ask_rows;		/* rows at which a device may get keys */
	OffloadJob *early;			/* job to which keys are sent ahead; or NULL */
} HostSink;

typedef struct SorterState
{
	Sorter		base;
	SortEnv		env;
	Batch		batch;			/* the rows in memory */
	Sink	   *sink;			/* takes rows: &host, &bounded or offloading */
	HostSink	host;
	BoundedSink bounded;
	bool		drop_early;		/* drop duplicates before memory is full */
	BulkBuf		kept;			/* working memory of distinct_batch() */
	bool		rows_allowed;	/* rows may move to a device */
	bool		failed;			/* a device failed: run the child again */
	ReturnedRows returned;		/* rows returned before the failure */
	Runs		runs;
	SortResult *result;			/* points into space; NULL while rows come in */
	ResultSpace space;
	instr_time	began;			/* when the first row could come */
} SorterState;

/* ------------------------------------------------------------------------
 * Default implementation of SortOffload: all sorts stay on the host
 * ------------------------------------------------------------------------
 */
static DeviceState
no_offload_state(void)
{
	return DEVICE_STATE_NONE;
}

static size_t
no_offload_keys_after(const SortEnv *env, const KeyBuffer *keybuf)
{
	return SIZE_MAX;
}

static OffloadJob *
no_offload_begin_keys(SortEnv *env, Batch *batch)
{
	return NULL;
}

static Sink *
no_offload_begin_rows(SortEnv *env, Batch *batch, bool *allowed)
{
	*allowed = false;
	return NULL;
}

static bool
no_offload_sort_keys(SortEnv *env, Batch *batch, OffloadJob *early, const KeyLayout *layout,
					 bool may_stream, Sorted *sorted, OffloadJob **streaming,
					 OffloadRefusal *refusal)
{
	refusal->device = DEVICE_STATE_NONE;
	return false;
}

static const SortOffload no_offload = {
	.state = no_offload_state,
	.keys_after = no_offload_keys_after,
	.begin_keys = no_offload_begin_keys,
	.begin_rows = no_offload_begin_rows,
	.sort_keys = no_offload_sort_keys
};

const SortOffload *sort_offload = &no_offload;

/* ------------------------------------------------------------------------
 * The host's sink: keeps rows, or keys without rows, in the batch
 *
 * The sink is full when rows, keys and the arrays that sorting will need exceed the limit
 * of the batch.  One row is always taken, whatever its size.  Two tables of methods differ
 * in put_slot() only, so that no row costs a test.
 * ------------------------------------------------------------------------
 */

/* Is the sink full? */
static inline bool
host_full(const Sink *sink)
{
	const Batch *batch = sink->batch;

	return batch->keybuf.n >= ((const HostSink *) sink)->ask_rows || batch_taken(batch) > batch->limit;
}

static SinkAnswer
host_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(host_full(sink)))
		return SINK_FULL;
	return likely(batch_put_row(sink->batch, &sink->env->keys, sink->env->writer, slot)) ? SINK_TAKEN : SINK_FULL;
}

static SinkAnswer
host_put_slot_key(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(host_full(sink)))
		return SINK_FULL;
	return likely(batch_put_key(sink->batch, &sink->env->keys, slot)) ? SINK_TAKEN : SINK_FULL;
}

/*
 * Takes the page's rows from *done on with one check of memory.  False if the page must be
 * taken row by row: its rows may not fit, or cannot be copied directly.
 */
static inline bool
host_take_page(Sink *sink, RowPage *page, int done)
{
	Batch	   *batch = sink->batch;
	const KeyWriter *keys = &sink->env->keys;

	if (sink->env->spec.keys_only)
		return batch_put_page_keys(batch, keys, page, done);
	return done == 0 && page->direct && batch_put_page(batch, keys, page);
}

static SinkAnswer
host_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(host_full(sink)))
		return SINK_FULL;
	if (likely(host_take_page(sink, page, *done)))
		*done = page->n;
	return SINK_TAKEN;
}

/* Takes the job from the sink; NULL if there is none. */
static OffloadJob *
take_early(Sink *sink)
{
	OffloadJob *early = ((HostSink *) sink)->early;

	((HostSink *) sink)->early = NULL;
	return early;
}

static SinkAnswer
host_spill(Sink *sink, Runs *runs)
{
	Sorted		sorted;

	(void) order_batch(sink->env, sink->batch, take_early(sink), false, &sorted);
	runs_write(runs, sink->batch, &sorted);
	sink_batch_spilled(sink);
	return SINK_TAKEN;
}

static SortResult *
host_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	return order_result(sink->env, sink->batch, take_early(sink), !may_pause, space);
}

static void
host_end(Sink *sink)
{
	OffloadJob *early = take_early(sink);

	if (early != NULL)
		sort_offload->end_keys(early);
}

static const SinkMethods host_methods = {
	.put_slot = host_put_slot,
	.put_page = host_put_page,
	.spill = host_spill,
	.finish = host_finish,
	.end = host_end
};

static const SinkMethods host_keys_methods = {
	.put_slot = host_put_slot_key,
	.put_page = host_put_page,
	.spill = host_spill,
	.finish = host_finish,
	.end = host_end
};

static void
host_init(HostSink *sink, SortEnv *env, Batch *batch)
{
	sink->base.methods = env->spec.keys_only ? &host_keys_methods : &host_methods;
	sink->base.env = env;
	sink->base.batch = batch;
	sink->early = NULL;
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
	SorterState *sorter = palloc0(sizeof(SorterState));
	SortEnv    *env = &sorter->env;

	env->spec = *spec;
	env->cxt = sorter->returned.cxt = cxt;
	sorter->base.report = &env->report;
	sorter->base.keybuf = &sorter->batch.keybuf;
	progress_create(&env->progress, cxt);
	env->bulk = bulk_owner_create(cxt, spec->within != NULL ? spec->within : &env->progress);
	env->writer = row_writer_create(spec->desc);
	env->tiebreak = tiebreak_create(cxt, env->bulk, spec->desc, spec->keys, spec->nkeys);
	batch_init(&sorter->batch, spec->keys, spec->nkeys, spec->keys_only && !spec->tids);
	keybuf_writer_init(&env->keys, cxt, env->bulk, &sorter->batch.keybuf, spec->keys);
	if (spec->distinct > 0)
		env->distinct_cols = distinct_columns(spec->keys, spec->distinct);
	host_init(&sorter->host, env, &sorter->batch);
	MemoryContextSwitchTo(old);
	return &sorter->base;
}

void
sorter_destroy(Sorter *base)
{
	SorterState *sorter = (SorterState *) base;

	sorter_end(base);
	MemoryContextDelete(sorter->env.cxt);
}

bool
sorter_failed(const Sorter *base)
{
	const SorterState *sorter = (const SorterState *) base;

	return sorter->failed || (sorter->result != NULL && sorter->result->failed);
}

/* The limit of the batch in host memory, at which a device is considered. */
static Size
host_limit(const SorterState *sorter)
{
	bool		offer = sorter->rows_allowed && sort_offload->state() == DEVICE_STATE_READY;

	return offer ? Min(sorter->env.limit, sort_offload->rows_after) : sorter->env.limit;
}

/* The host sink is full at host_limit(), or before, when keys may be sent ahead. */
static void
set_host_limits(SorterState *sorter)
{
	sorter->batch.limit = host_limit(sorter);
	sorter->host.ask_rows = sorter->rows_allowed ? SIZE_MAX :
		sort_offload->keys_after(&sorter->env, &sorter->batch.keybuf);
}

/* Rows go to host memory until a limit. */
static void
use_host(SorterState *sorter)
{
	set_host_limits(sorter);
	if (sorter->drop_early)
	{
		sorter->batch.limit = Min(sorter->batch.limit, DISTINCT_EARLY_BYTES);
		sorter->host.ask_rows = SIZE_MAX;
	}
	sorter->sink = &sorter->host.base;
}

/* Frees all memory of rows and keys. */
static void
free_all(SorterState *sorter)
{
	SortEnv    *env = &sorter->env;

	batch_free(&sorter->batch, env->bulk);
	bulk_free(env->bulk, &env->recs);
	bulk_free(env->bulk, &env->scratch);
}

static void
use_sink(SorterState *sorter, Sink *sink)
{
	if (sink == NULL)
		return;
	sorter->rows_allowed = false;
	sorter->sink = sink;
}

void
sorter_begin(Sorter *base, const SortBegin *begin)
{
	SorterState *sorter = (SorterState *) base;
	SortEnv    *env = &sorter->env;
	Size		limit = env->spec.memory != 0 ? env->spec.memory : (Size) work_mem * 1024;
	size_t		bound = begin->bound;
	double		rows_expected = begin->rows_expected;

	Assert(bound == 0 || !env->spec.keys_only);
	Assert(bound == 0 || env->spec.distinct == 0);
	bulk_begin(env->spec.by_tid);
	/* memory kept from the last execution may exceed the new limit */
	if (limit < env->limit)
		free_all(sorter);
	env->limit = limit;
	env->bound = bound;
	env->distinct = begin->keep_duplicates ? 0 : env->spec.distinct;
	sorter->drop_early = env->distinct > 0;
	env->rows_expected = rows_expected;
	progress_begin(&env->progress, sort_is_nested(&env->spec) ? PROGRESS_UNSEEN : env->spec.node,
				   rows_expected);
	env->beside = 0;
	env->device_failed = env->spec.memory != 0 && !env->spec.proven;
	memset(&env->report, 0, sizeof(SortReport));
	env->report.bounded = (bound > 0);
	env->report.distinct = env->distinct > 0;
	env->timed = env->report.timed = env->spec.timing || rows_expected > SORT_TIMED_ROWS;
	sorter->failed = false;
	sorter->result = NULL;
	batch_begin(&sorter->batch, limit, bound > 0, bound > 0 || env->distinct > 0, rows_expected);
	runs_begin(&sorter->runs, env, &sorter->batch.keybuf);

	sorter->rows_allowed = bound == 0 && !env->spec.random_access && !env->spec.keys_only &&
		env->spec.memory == 0 &&
		sorter->batch.keybuf.cols[0].kind != KEY_COMPARED;
	if (bound > 0)
	{
		sink_bounded_begin(&sorter->bounded, env, &sorter->batch, begin->shared_threshold);
		sorter->sink = &sorter->bounded.base;
	}
	else
		use_host(sorter);
	/* rows are inserted in order of a comparator: one comparison a row either way */
	sorter->base.early_bound = sorter->bounded.top.on && !sorter->batch.keybuf.cols[0].by_bytes ? 0 : bound;
	if (begin->make_sink != NULL)
		use_sink(sorter, begin->make_sink(env, &sorter->batch, begin->make_sink_arg));
	sort_env_clock(env, &sorter->began);
}

bool
sorter_put_early(Sorter *base, RowPage *page)
{
	SorterState *sorter = (SorterState *) base;
	int			done = 0;

	return sorter->sink->methods->put_page(sorter->sink, page, &done) == SINK_TAKEN;
}

void
sorter_early_threshold(Sorter *base, int pages)
{
	SorterState *sorter = (SorterState *) base;
	SortEnv    *env = &sorter->env;
	SortReport	report = env->report;

	/* the rows are counted when they come again */
	if (sink_bounded_early_threshold(&sorter->bounded))
		report.early_pages = pages;
	report.memory_peak = Max(report.memory_peak, env->report.memory_peak);
	env->report = report;
}

void
sorter_begin_again(Sorter *base)
{
	SorterState *sorter = (SorterState *) base;
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
	sorter_begin(base, &begin);
	sorter->env.device_failed = sorter->env.report.device_failed = true;
	sorter->rows_allowed = false;
	use_host(sorter);
	returned_rows_reset(&sorter->returned);
	sorter->returned.before = returned;
	sorter->returned.before_sum = sum;
}

void
sorter_skip_returned(Sorter *base, TupleTableSlot *slot)
{
	SorterState *sorter = (SorterState *) base;

	while (returned_rows_pending(&sorter->returned))
	{
		CHECK_FOR_INTERRUPTS();
		if (!result_next(sorter->result, RESULT_PLAIN, true, slot))
			sort_wrong_beginning();

		/*
		 * equal rows come in the same order again, so this is a row that was
		 * returned
		 */
		(void) returned_rows_skip(&sorter->returned, ((MinimalTupleTableSlot *) slot)->mintuple);
	}
}

/* ------------------------------------------------------------------------
 * When a sink is full
 * ------------------------------------------------------------------------
 */

/* Writes the sink's rows as a run. */
static void
spill(SorterState *sorter)
{
	if (sorter->sink->methods->spill(sorter->sink, &sorter->runs) == SINK_FAILED)
		sorter->failed = true;
}

/* The rows of the devices become runs, or move back to memory. */
static void
drain_to_host(SorterState *sorter)
{
	spill(sorter);
	if (sorter->failed)
		return;
	/* rows that moved back once would move back again */
	if (sorter->batch.keybuf.n > 0)
		sorter->rows_allowed = false;
	sorter->sink->methods->end(sorter->sink);
	use_host(sorter);
}

/* Writes the batch as a run; the next rows go to host memory. */
static void
spill_batch(SorterState *sorter)
{
	if (sorter->batch.keybuf.n == 0)
		elog(ERROR, "a row does not fit an empty sort arena");
	spill(sorter);
	if (sorter->sink == &sorter->host.base)
		sorter->host.ask_rows = sort_offload->keys_after(&sorter->env, &sorter->batch.keybuf);
}

/*
 * The buffered keys have reached host.ask_rows: offers them to a device, or sends more of
 * them, while more rows come in.
 */
static void
offer_keys(SorterState *sorter)
{
	HostSink   *host = &sorter->host;

	if (host->early == NULL)
		host->early = sort_offload->begin_keys(&sorter->env, &sorter->batch);
	if (host->early == NULL)
		/* offloading may pay with more rows */
		host->ask_rows = 2 * sorter->batch.keybuf.n;
	else if (!sort_offload->send_keys(host->early, &host->ask_rows))
	{
		/* the further rows of this run are buffered without sending keys */
		host->base.methods->end(&host->base);
		host->ask_rows = SIZE_MAX;
	}
}

/*
 * The batch has reached its limit: offers its rows to a device, or else raises the
 * limit to the whole memory of the sort.  False if neither is possible.
 */
static bool
offer_rows(SorterState *sorter)
{
	SortEnv    *env = &sorter->env;
	Batch	   *batch = &sorter->batch;
	bool		more = batch->limit < env->limit;
	Sink	   *sink;

	if (!sorter->rows_allowed)
		return false;
	sink = sort_offload->begin_rows(env, batch, &sorter->rows_allowed);
	batch->limit = env->limit;
	if (sink != NULL)
	{
		/* ends a job to which keys were sent ahead */
		sorter->sink->methods->end(sorter->sink);
		batch_free(batch, env->bulk);
		sorter->sink = sink;
		return true;
	}
	if (!more)
		return false;
	/* keys may still be sent ahead */
	sorter->host.ask_rows = sort_offload->keys_after(env, &batch->keybuf);
	return batch_taken(batch) <= env->limit;
}

/*
 * With distinct columns: drops the duplicates of the batch, if they are many.  False if
 * the batch has no more room than before.
 */
static bool
drop_duplicates(SorterState *sorter)
{
	SortEnv    *env = &sorter->env;
	Batch	   *batch = &sorter->batch;
	Size		limit = host_limit(sorter);
	size_t		n = batch->keybuf.n;
	bool		more = batch->limit < limit;

	if (distinct_sample(env, &batch->keybuf) && distinct_batch(env, batch, &sorter->kept) >= (n + 1) / 2 &&
		batch_taken(batch) <= limit - limit / MEMORY_PARTS)
	{
		/* a batch that grows to several times its size is sorted seldom */
		batch->limit = Min(limit, Max(DISTINCT_EARLY_BYTES, DISTINCT_GROWTH * batch_taken(batch)));
		return true;
	}
	sorter->drop_early = false;
	set_host_limits(sorter);
	return more && batch_taken(batch) <= limit;
}

/* Makes room after the sink did not take a row. */
static void
make_sink_room(SorterState *sorter)
{
	SortEnv    *env = &sorter->env;
	Sink	   *sink = sorter->sink;
	/* rows whose keys were sent ahead stay where they are */
	bool		early = sink == &sorter->host.base && sorter->host.early == NULL && sorter->drop_early;
	instr_time	start;
	instr_time	end;

	CHECK_FOR_INTERRUPTS();
	if (sink == &sorter->host.base && sorter->batch.keybuf.n >= sorter->host.ask_rows)
	{
		offer_keys(sorter);
		return;
	}
	if (!early && !sink_is_offloaded(sink) && offer_rows(sorter))
		return;

	/* this time counts as sorting, not as ingest */
	sort_env_clock(env, &start);
	if (early)
	{
		if (!drop_duplicates(sorter) && !offer_rows(sorter))
			spill_batch(sorter);
	}
	else if (!sink_is_offloaded(sink))
		spill_batch(sorter);
	else
	{
		SinkAnswer	answer = sink->methods->next_part(sink, &sorter->runs);

		if (answer == SINK_FULL)
			drain_to_host(sorter);
		sorter->failed = sorter->failed || answer == SINK_FAILED;
	}
	progress_phase(&env->progress, PROGRESS_INGEST);
	sort_env_clock(env, &end);
	INSTR_TIME_ACCUM_DIFF(env->report.sort_time, end, start);
	INSTR_TIME_ACCUM_DIFF(env->report.ingest_time, start, end);
}

bool
sorter_put(Sorter *base, TupleTableSlot *slot)
{
	SorterState *sorter = (SorterState *) base;
	SinkAnswer	answer;

	if (unlikely(sorter->failed))
		return false;
	slot_getsomeattrs(slot, sorter->batch.keybuf.last_att);
	sorter->env.progress.now->rows_in++;
	while (unlikely((answer = sorter->sink->methods->put_slot(sorter->sink, slot)) != SINK_TAKEN))
	{
		if (answer == SINK_FAILED)
			sorter->failed = true;
		else
			make_sink_room(sorter);
		if (sorter->failed)
			return false;
	}
	return true;
}

bool
sorter_put_page_row(Sorter *base, TupleTableSlot *slot)
{
	SorterState *sorter = (SorterState *) base;

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
	SorterState *sorter = (SorterState *) base;
	int			done = 0;

	sorter->env.report.page_rows += page->n;
	while (!sorter->failed)
	{
		int			before = done;
		SinkAnswer	answer = sorter->sink->methods->put_page(sorter->sink, page, &done);

		if (answer == SINK_TAKEN && done < page->n)
			answer = put_page_rows(sorter->sink, page, &done);
		sorter->env.progress.now->rows_in += done - before;
		if (likely(answer == SINK_TAKEN))
			return true;
		if (answer == SINK_FAILED)
			sorter->failed = true;
		else
			make_sink_room(sorter);
	}
	return false;
}

/* ------------------------------------------------------------------------
 * When all rows are in
 * ------------------------------------------------------------------------
 */
static void
merge_all_runs(SorterState *sorter)
{
	SortEnv    *env = &sorter->env;

	if (sorter->batch.keybuf.n > 0)
		spill(sorter);
	sorter->sink->methods->end(sorter->sink);
	sorter->sink = &sorter->host.base;
	free_all(sorter);
	env->beside = 0;
	progress_phase(&env->progress, PROGRESS_MERGE);
	sorter->result = runs_result(&sorter->runs, &sorter->space);
}

void
sorter_common_range(Sorter *base, CommonKeyRange *common_range)
{
	SorterState *sorter = (SorterState *) base;
	const KeyBuffer *keybuf = &sorter->batch.keybuf;

	if (sorter->sink == &sorter->bounded.base)
		sink_bounded_buffer_keys(&sorter->bounded);
	Assert(!sink_is_offloaded(sorter->sink));
	memcpy(common_range->ranges, sorter->runs.ranges, sizeof(common_range->ranges));
	keybuf_unite_ranges(keybuf, common_range->ranges);
	for (int c = 0; c < keybuf->ncols; c++)
		common_range->ranges[c].part_type = key_maker_part_type(keybuf->cols[c].kind, sorter->env.keys.makers[c]);
	common_range_of_keys(common_range, keybuf);
}

SortResult *
sorter_perform(Sorter *base, bool may_pause)
{
	SorterState *sorter = (SorterState *) base;
	SortEnv    *env = &sorter->env;
	instr_time	start;
	instr_time	end;

	if (sorter->failed)
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
	if (sink_is_offloaded(sorter->sink))
	{
		if (gpusort_verify || may_pause)
			drain_to_host(sorter);
		else
			sorter->sink->methods->merge_parts(sorter->sink, &sorter->runs);
	}
	if (sorter->failed)
		return NULL;
	if (sorter->runs.n == 0)
		sorter->result = sorter->sink->methods->finish(sorter->sink, may_pause, &sorter->space);
	else
		merge_all_runs(sorter);
	sorter->result->duplicates |= env->spec.distinct > 0 && env->distinct == 0;
	progress_phase(&env->progress, PROGRESS_EMIT);

	sort_env_clock(env, &end);
	INSTR_TIME_ACCUM_DIFF(env->report.sort_time, end, start);
	return sorter->result->failed ? NULL : sorter->result;
}

void
sorter_end(Sorter *base)
{
	SorterState *sorter = (SorterState *) base;
	SortEnv    *env = &sorter->env;

	if (sorter->result != NULL)
		sorter->result->methods->end(sorter->result);
	sorter->result = NULL;
	if (sorter->sink != NULL)
		sorter->sink->methods->end(sorter->sink);
	sorter->sink = NULL;
	runs_end(&sorter->runs);
	batch_trim(&sorter->batch, env->bulk);
	tiebreak_release(env->tiebreak);
	if (env->recs.mapped)
		bulk_free(env->bulk, &env->recs);
	if (env->scratch.mapped)
		bulk_free(env->bulk, &env->scratch);
	bulk_free(env->bulk, &sorter->kept);
	progress_end(&env->progress);
}
