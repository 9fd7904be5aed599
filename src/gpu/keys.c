/*
 * keys.c
 *	  Key mode: keys are sorted on a GPU, rows stay in host memory.
 *
 * From some number of rows on, when the router says that the device will be worth
 * it, each chunk's worth of staged keys is sent as soon as it is there: it is still
 * in the cache then, and at the end of the scan only the last chunk is missing.  The
 * ranges are not known yet, so these keys have the bits of their types
 * (device_layout.h).  When the job does not do any more the sink is full, and says
 * that keys are dropped: nothing is lost, the batch has them all.
 *
 * Memory policy: as sink_host.c.
 */
#include "postgres.h"

#include "cost/sort_feedback.h"
#include "gpu/gpu.h"
#include "gpu/gpu_internal.h"
#include "miscadmin.h"
#include "service/service_internal.h"
#include "settings.h"
#include "sort/sort_internal.h"

typedef struct DeviceKeysSink
{
	HostSink	host;
	DeviceKeys *keys;			/* NULL: handed on */
	bool		dropped;		/* the job does not do any more */
} DeviceKeysSink;

static bool device_keys_send(DeviceKeys *dk, size_t n);
static DeviceKeys *device_keys_open_early(SortEnv *env, Batch *batch);
static bool device_keys_room(DeviceKeys *dk, size_t n, bool more);
static bool device_keys_receive(DeviceKeys *dk, bool may_stream, Sorted *sorted, bool *streams);

/* Sends whole chunks; false if that cannot go on. */
static pg_noinline bool
send_chunks(DeviceKeysSink *sink)
{
	DeviceKeys *dk = sink->keys;
	const KeyBuffer *keybuf = &dk->batch->keybuf;

	if (sink->dropped)
		return false;
	while (keybuf->n - dk->sent >= dk->per_chunk)
	{
		if (!device_layout_holds(&dk->layout, keybuf) ||
			!device_keys_room(dk, dk->sent + dk->per_chunk, true) ||
			!device_keys_send(dk, dk->per_chunk))
		{
			if (dk->job->failed)
				device_note_failure(dk->env, dk->decision.algorithm, dk->job->why);
			sink->dropped = true;
			return false;
		}
	}
	sink->host.ask_rows = dk->sent + dk->per_chunk;
	return true;
}

/* Is there place for another row?  ask_rows is when to send. */
static inline bool
has_room(DeviceKeysSink *sink)
{
	const Batch *batch = sink->host.base.batch;

	if (unlikely(batch->keybuf.n >= sink->host.ask_rows) && !send_chunks(sink))
		return false;
	return batch_taken(batch) <= batch->limit;
}

static SinkAnswer
device_keys_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	return likely(batch_put_row(sink->batch, &sink->env->keys, sink->env->writer, slot)) ? SINK_TAKEN : SINK_FULL;
}

static SinkAnswer
device_keys_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	if (sink_host_take_page((HostSink *) sink, page, done))
		return SINK_TAKEN;
	return sink_put_rows(sink, page, done);
}

static SinkAnswer
device_keys_only_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	return likely(batch_put_key(sink->batch, &sink->env->keys, slot)) ? SINK_TAKEN : SINK_FULL;
}

static SinkAnswer
device_keys_only_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	if (sink_keys_take_page((HostSink *) sink, page, done))
		return SINK_TAKEN;
	return sink_put_rows(sink, page, done);
}

/* The job goes on to whoever sorts the batch; NULL if it has none to go on with. */
static DeviceKeys *
hand_over(Sink *sink)
{
	DeviceKeysSink *keys = (DeviceKeysSink *) sink;
	DeviceKeys *dk = keys->keys;

	keys->keys = NULL;
	if (!keys->dropped)
		return dk;
	device_keys_end(dk);
	return NULL;
}

static SinkAnswer
device_keys_spill(Sink *sink, Runs *runs)
{
	sink_spill_batch(sink, hand_over(sink), runs);
	return SINK_TAKEN;
}

static SortResult *
device_keys_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	return order_result(sink->env, sink->batch, hand_over(sink), !may_pause, space);
}

static void
device_keys_sink_end(Sink *sink)
{
	DeviceKeys *dk = ((DeviceKeysSink *) sink)->keys;

	if (dk != NULL)
		device_keys_end(dk);
	pfree(sink);
}

static bool
device_keys_stopped(const Sink *sink)
{
	return ((const DeviceKeysSink *) sink)->dropped;
}

static const SinkMethods device_keys_methods = {
	.put_slot = device_keys_put_slot,
	.put_page = device_keys_put_page,
	.spill = device_keys_spill,
	.finish = device_keys_finish,
	.end = device_keys_sink_end,
	.stopped = device_keys_stopped
};

static const SinkMethods device_keys_only_methods = {
	.put_slot = device_keys_only_put_slot,
	.put_page = device_keys_only_put_page,
	.spill = device_keys_spill,
	.finish = device_keys_finish,
	.end = device_keys_sink_end,
	.stopped = device_keys_stopped
};

static Sink *
device_keys_begin(SortEnv *env, Batch *batch)
{
	DeviceKeys *dk = device_keys_open_early(env, batch);
	DeviceKeysSink *sink;

	if (dk == NULL)
		return NULL;
	sink = MemoryContextAllocZero(env->cxt, sizeof(DeviceKeysSink));
	sink->host.base.methods = env->spec.keys_only ?
		&device_keys_only_methods : &device_keys_methods;
	sink->host.base.env = env;
	sink->host.base.batch = batch;
	sink->keys = dk;
	return &sink->host.base;
}

/* ------------------------------------------------------------------------
 * Key mode: keys and rids go to the device, rids come back in order.
 *
 * The rows stay in the arena.  Keys are packed straight into chunks of the pinned
 * staging pool, at the narrowest of 32, 64 and 128 bits, so that while one chunk
 * crosses the bus the next is packed; the staged rids travel along, because
 * mapping positions back to rids here would be a cache miss per row.
 *
 * Keys of a large sort go up while its rows still come in (sink_device_keys.c).  Should
 * that turn out not to do (a NULL without a place, a string without the others' prefix, more
 * rows than there is room for, all of them in order) the job is dropped, and what is right for the whole input is done
 * at the end: the staged keys are all here.
 *
 * A sort whose rows are its keys (key_reader.c) sends no rids and gets the keys back.
 * result_device_keys.c has the way back.
 *
 * On error: rows and staged keys are kept until the result is here, so whatever happens
 * to the job the CPU can sort them, and does.  An ERROR (a cancel, a comparator)
 * closes the job with the sorter's memory context.
 * ------------------------------------------------------------------------
 */

/* Keys of so many rows are waited for before some are sent. */
#define STREAM_AFTER_ROWS	((size_t) 1 << 18)

/* Room beyond what is expected, so that an estimate may be a bit off. */
#define STREAM_MARGIN		1.25

static DeviceKeys *
create(SortEnv *env, Batch *batch)
{
	DeviceKeys *dk = MemoryContextAllocZero(env->cxt, sizeof(DeviceKeys));

	dk->env = env;
	dk->batch = batch;
	return dk;
}

/* Opens the job that dk describes, for so many rows; false and the reason if not. */
static bool
open_job(DeviceKeys *dk, uint64 max_rows, double patience_us)
{
	dk->spec.mode = DEVICE_KEYS;
	dk->spec.max_rows = max_rows;
	device_route_job(&dk->facts, &dk->decision, &dk->spec);
	dk->layout.key_width = dk->spec.key_width;
	dk->per_chunk = key_chunk_rows(&dk->spec);
	dk->facts.device = DEVICE_STATE_NONE;
	if (!job_secret_make(&dk->keys.secret))
		return false;
	dk->job = device_job_open(dk->env->cxt, &dk->spec, device_job_bytes(&dk->spec),
							  (int) (max_rows / dk->per_chunk) + 1,
							  patience_us, &dk->facts.device);
	if (dk->job == NULL)
		return false;
	device_show_job(dk->env, &dk->decision, &dk->spec);
	return true;
}

/* Gives the device back; what the check knows stays. */
static void
device_keys_close(DeviceKeys *dk)
{
	if (dk->job != NULL)
		device_job_close(dk->job);
	if (dk->parts != NULL)
		device_parts_end(dk);
	dk->job = NULL;
	dk->env->progress.now->device = 0;
}

void
device_keys_end(DeviceKeys *dk)
{
	device_keys_close(dk);
	bulk_free(dk->env->bulk, &dk->pending);
	pfree(dk);
}

/* Sends the next n staged rows' keys, no more than a chunk's worth. */
static bool
device_keys_send(DeviceKeys *dk, size_t n)
{
	const KeyBuffer *keybuf = &dk->batch->keybuf;
	int			width = dk->spec.key_width;
	KeyChunk	chunk;

	if (!key_chunk_next_up(dk->job, &dk->spec, n, &chunk))
		return false;
	CHECK_FOR_INTERRUPTS();
	pack_keys(keybuf, &dk->layout.layout, width, dk->sent, n, chunk.keys);
	if (chunk.rids != NULL)
		memcpy(chunk.rids, keybuf->rids + dk->sent, n * sizeof(uint32));
	if (dk->spec.want_keys)
		dk->keys.sum += device_check_sum(&dk->keys.secret, chunk.keys, width, n);
	key_chunk_post(dk->job, &dk->spec, &chunk);
	dk->sent += n;
	return true;
}

/* ------------------------------------------------------------------------
 * While rows come in
 * ------------------------------------------------------------------------
 */
static size_t
device_keys_after(const SortEnv *env, const KeyBuffer *keybuf)
{
	const Algorithm *forced = gpusort_forced_algorithm();

	if (env->bound > 0 || env->device_failed || key_needs_comparator(keybuf->cols[0].kind) ||
		device_state() != DEVICE_STATE_READY)
		return SIZE_MAX;
	if (forced == NULL)
		return STREAM_AFTER_ROWS;
	/* some want a range, which only the end tells */
	if (!algorithm_on_gpu(forced) || forced->by_value)
		return SIZE_MAX;
	/* a chunk's worth of the widest keys */
	return key_chunk_rows(&(DeviceJobSpec) {.key_width = 128, .keys_only = env->spec.keys_only});
}

/* Rows that the sort, or the run that is being made, may come to. */
static double
rows_to_expect(const SortEnv *env, const Batch *batch)
{
	double		n = batch->keybuf.n;
	double		bytes = (double) arena_used(&batch->arena) / n + batch_key_cost(batch);
	double		rows = device_rows_expected(env, &batch->keybuf) * STREAM_MARGIN;

	return Min(rows, Max(n, env->limit / bytes) + STREAM_AFTER_ROWS);
}

/* Opens a job for keys that go ahead of others to come; NULL if that is not to be. */
static DeviceKeys *
device_keys_open_early(SortEnv *env, Batch *batch)
{
	DeviceKeys *dk = create(env, batch);
	double		rows = Min(rows_to_expect(env, batch), PG_UINT32_MAX - 1);

	if (device_layout_guess(&dk->layout, &batch->keybuf) &&
		device_route_keys(env, &batch->keybuf, &dk->layout.layout, dk->layout.key_width, 0,
						  (size_t) (rows / STREAM_MARGIN), &dk->facts, &dk->decision) &&
		device_parts_quicker(dk) == 0 &&
		open_job(dk, (uint64) Min(rows, 2.0 * batch->keybuf.n), 0))
		return dk;
	pfree(dk);
	return NULL;
}

/* Room on the device for so many keys; some more, if they are still coming. */
static bool
device_keys_room(DeviceKeys *dk, size_t n, bool more)
{
	if (n <= dk->spec.max_rows)
		return true;
	if (!(more && 2 * n < PG_UINT32_MAX && device_job_grow(dk->job, &dk->spec, 2 * n, 0)) &&
		!(n < PG_UINT32_MAX && !dk->job->failed && device_job_grow(dk->job, &dk->spec, n, 0)))
		return false;
	device_show_job(dk->env, &dk->decision, &dk->spec);
	return true;
}

/* ------------------------------------------------------------------------
 * When they are all there
 * ------------------------------------------------------------------------
 */

/* Is the job that keys were sent to still the right one? */
static bool
early_fits(DeviceKeys *dk)
{
	const KeyBuffer *keybuf = &dk->batch->keybuf;

	return device_layout_holds(&dk->layout, keybuf) &&
		(dk->facts.forced != NULL || !device_keys_ordered(keybuf, &dk->layout.layout)) &&
		device_keys_room(dk, keybuf->n, false);
}

/* What waiting for room may cost. */
static double
patience_us(const DeviceKeys *dk)
{
	return fault_patience_us(dk->facts.forced != NULL ? DEVICE_FORCED_PATIENCE_US :
							 dk->decision.cpu_us - dk->decision.predicted_us);
}

/* One job, or several if that is quicker, or if one cannot hold the keys; false if none. */
static bool
open_jobs(DeviceKeys *dk)
{
	int			quicker = device_parts_quicker(dk);

	if (quicker > 0 && device_parts_begin(dk, quicker, 0))
		return true;
	return open_job(dk, dk->batch->keybuf.n, patience_us(dk)) ||
		(dk->facts.device == DEVICE_STATE_FULL && device_parts_begin(dk, 0, patience_us(dk)));
}

/* Opens a job for what is known now; NULL, and why, if not. */
static DeviceKeys *
open_whole(SortEnv *env, Batch *batch, const KeyLayout *layout, OffloadRefusal *refusal)
{
	DeviceKeys *dk = create(env, batch);
	const KeyBuffer *keybuf = &batch->keybuf;

	dk->layout.layout = *layout;
	if (device_route_keys(env, keybuf, layout, device_key_width(layout->total_bits),
						  key_layout_range(keybuf, layout), keybuf->n, &dk->facts,
						  &dk->decision) &&
		open_jobs(dk))
	{
		dk->at_once = dk->parts == NULL;
		return dk;
	}
	refusal->device = dk->facts.device;
	refusal->why_not = dk->facts.gpu.why_not;
	pfree(dk);
	return NULL;
}

static bool
send_rest(DeviceKeys *dk)
{
	size_t		n = dk->batch->keybuf.n;

	if (dk->parts != NULL)
	{
		device_parts_send(dk);
		return true;
	}
	while (dk->sent < n)
	{
		if (!device_keys_send(dk, Min(dk->per_chunk, n - dk->sent)))
			break;
	}
	device_job_sort(dk->job);
	if (dk->job->failed)
		device_keys_fail(dk, dk->job->why);
	return !dk->failed;
}

static bool
device_keys_sort(SortEnv *env, Batch *batch, DeviceKeys *early, const KeyLayout *layout,
				 bool may_stream, Sorted *sorted, DeviceKeys **streaming,
				 OffloadRefusal *refusal)
{
	DeviceKeys *dk = early;
	bool		room = device_check_fits(env, batch);
	bool		streams = false;
	bool		ok;
	instr_time	start;
	instr_time	end;

	*streaming = NULL;
	if (dk != NULL && !(room && early_fits(dk)))
	{
		if (dk->job->failed)
			device_note_failure(env, dk->decision.algorithm, dk->job->why);
		device_keys_end(dk);
		dk = NULL;
	}
	if (!room)
	{
		refusal->device = env->device_failed ? DEVICE_STATE_FAILED : device_state();
		refusal->why_not = "work_mem has no room to check what comes back";
		return false;
	}
	if (dk == NULL)
		dk = open_whole(env, batch, layout, refusal);
	if (dk == NULL)
		return false;

	env->report.early_rows += dk->sent;
	sort_env_clock(env, &start);
	ok = send_rest(dk) && device_keys_receive(dk, may_stream, sorted, &streams);
	sort_env_clock(env, &end);
	/* where nothing of it was done before or is still to be done */
	if (ok && dk != early && !streams && env->timed)
	{
		env->report.predicted_us += dk->decision.predicted_us;
		INSTR_TIME_ACCUM_DIFF(env->report.predicted_time, end, start);
	}
	if (!ok)
	{
		refusal->device = DEVICE_STATE_FAILED;
		device_note_failure(env, dk->decision.algorithm, dk->why);
	}
	if (ok && streams)
		*streaming = dk;
	else
		device_keys_end(dk);
	return ok;
}

/* ------------------------------------------------------------------------
 * Key mode's way back: sorted rids, or keys, chunk by chunk.
 *
 * The node returns rows of the first chunk of rids while the others are still on their
 * way: the result has the rows that have arrived, and the reader that comes to their end asks
 * for more.  A result that is read once and forward needs no more memory than a chunk's
 * rids: each chunk replaces the one before.  One that is read again is kept whole.
 *
 * Everything is waited for where the result is written to a run, where gpusort.verify looks
 * at it first, where keys are not exact (then sorted keys come along, and runs of equal ones
 * are settled by comparison), and where keys are all that there is: a key that comes back
 * is a row, and only the sum of all tells that none is of another sort (device_check.c).
 *
 * On error: a device that fails in the middle has given the right beginning.  The
 * CPU sorts the staged keys again and the rows go on where they stopped: both
 * orders are the stable one.
 * ------------------------------------------------------------------------
 */

static void
resolve_ties(DeviceKeys *dk, uint32 *rids, size_t n)
{
	CHECK_FOR_INTERRUPTS();
	dk->ties += n;
	tiebreak_sort(dk->env->tiebreak, &dk->batch->arena, rids, n);
}

/* Settles the runs of equal keys that end among rows [first, first + count). */
static void
resolve_chunk(DeviceKeys *dk, uint32 *rids, size_t first, size_t count, const char *keys)
{
	TieRun	   *run = &dk->run;

	for (size_t i = 0; i < count; i++)
	{
		Key128		key = device_key_at(keys, dk->spec.key_width, i);

		if (first + i > 0 && key == run->key)
			continue;
		if (first + i - run->start > 1)
			resolve_ties(dk, rids + run->start, first + i - run->start);
		run->start = first + i;
		run->key = key;
	}
}

/* Keys as the records of a sort that is nothing but keys. */
static void
take_keys(const KeyChunk *chunk, int width, void *recs, size_t at)
{
	if (width == 128)
	{
		SortRec128 *to = (SortRec128 *) recs + at;

		for (uint32 i = 0; i < chunk->rows; i++)
		{
			to[i].hi = (uint64) (((const Key128 *) chunk->keys)[i] >> 64);
			to[i].lo = (uint64) ((const Key128 *) chunk->keys)[i];
		}
	}
	else if (width == 64)
		memcpy((uint64 *) recs + at, chunk->keys, chunk->rows * sizeof(uint64));
	else
	{
		uint64	   *words = (uint64 *) recs + at;

		for (uint32 i = 0; i < chunk->rows; i++)
			words[i] = ((const uint32 *) chunk->keys)[i];
	}
}

void
device_keys_report(DeviceKeys *dk, const DeviceJob *job)
{
	SortEnv    *env = dk->env;
	SortReport *report = &env->report;
	const Algorithm *algorithm = algorithm_by_name(job->times.algorithm);

	report->facts = dk->facts;
	report->facts.n = dk->batch->keybuf.n;
	report->decision = dk->decision;
	report->decision.algorithm = algorithm;
	report->sorted = algorithm != NULL;
	report->key_bits = dk->facts.gpu.key_bits;
	report->bytes_up += job->bytes_up;
	report->device_sort_us += job->times.sort_us;
	device_learn_job(job, &dk->facts, algorithm, dk->at_once);
	sort_env_note_memory(env, batch_held(dk->batch) + dk->pending.size);
}

void
device_keys_fail(DeviceKeys *dk, const char *why)
{
	if (!dk->failed)
		strlcpy(dk->why, why, sizeof(dk->why));
	dk->failed = true;
	if (dk->job != NULL)
		device_job_fail(dk->job, why);
}

/* The next chunk, until release_chunk(); false at the end, and if what is to come is lost. */
static bool
next_chunk(DeviceKeys *dk, KeyChunk *chunk)
{
	bool		come;

	if (dk->parts != NULL)
		return device_parts_next(dk, chunk);
	come = key_chunk_next_down(dk->job, &dk->spec, dk->batch->keybuf.n - dk->received, chunk);
	if (dk->job->failed)
		device_keys_fail(dk, dk->job->why);
	else if (come && dk->received == 0)
		device_keys_report(dk, dk->job);
	return come;
}

static void
release_chunk(DeviceKeys *dk)
{
	if (dk->parts != NULL)
		device_parts_release(dk);
	else
		device_job_release(dk->job);
}

/* Room for the result, or for a chunk of it. */
static void
make_room(DeviceKeys *dk, Sorted *sorted)
{
	SortEnv    *env = dk->env;
	size_t		n = dk->batch->keybuf.n;

	dk->down_per_chunk = device_chunk_rows(&dk->spec);
	if (!dk->keep)
		n = Min(n, dk->down_per_chunk);
	if (dk->spec.keys_only)
	{
		sorted->format = dk->spec.key_width <= 64 ? SORT_REC_PACKED : SORT_REC_128;
		sorted->layout = dk->layout.layout;
		bulk_reserve(env->bulk, &env->recs, n * sort_rec_size(sorted->format), 0);
		sorted->keys = env->recs.ptr;
	}
	else
	{
		bulk_reserve(env->bulk, &env->recs, n * sizeof(uint32), 0);
		sorted->rids = env->recs.ptr;
	}
	sorted->n = 0;
}

/* Copies a chunk's rids, or keys, to the place at on; false if they are wrong. */
static bool
take_content(DeviceKeys *dk, const KeyChunk *chunk, size_t at)
{
	bool		last = dk->received + chunk->rows == dk->batch->keybuf.n;
	uint32	   *rids = (uint32 *) dk->env->recs.ptr + at;

	if (dk->spec.want_keys &&
		!device_check_keys(&dk->keys, chunk->keys, dk->spec.key_width, chunk->rows, last))
		return false;
	if (dk->spec.keys_only)
	{
		take_keys(chunk, dk->spec.key_width, dk->env->recs.ptr, at);
		return true;
	}
	/* what is checked is the copy: the chunk is in the device's reach */
	memcpy(rids, chunk->rids, chunk->rows * sizeof(uint32));
	if (!device_check_rids(dk, rids, chunk->rows))
		return false;
	if (dk->spec.want_keys)
		resolve_chunk(dk, dk->env->recs.ptr, at, chunk->rows, chunk->keys);
	return true;
}

/*
 * Takes the next chunk, whose rows come after the *n that there are, or replace them.
 * False at the end, and if the job is lost, also for a wrong chunk.
 */
static bool
take_chunk(DeviceKeys *dk, size_t *n)
{
	KeyChunk	chunk;

	if (!next_chunk(dk, &chunk))
		return false;
	if (!take_content(dk, &chunk, dk->keep ? *n : 0))
	{
		device_keys_fail(dk, dk->spec.keys_only ?
						 "the result's keys are out of order, or not the input's" :
						 "a row of the result " VERIFY_NOT_FROM_INPUT);
		return false;
	}
	if (!dk->keep)
	{
		dk->returned = dk->received;
		*n = 0;
	}
	dk->received += chunk.rows;
	*n += chunk.rows;
	dk->env->report.bytes_down += chunk.bytes;
	release_chunk(dk);
	return true;
}

/* gpusort.verify: the rids' order, too; keys alone have been checked. */
static bool
verify_whole(DeviceKeys *dk, const Sorted *sorted)
{
	char		why[sizeof(dk->why)];

	if (!gpusort_verify || dk->spec.keys_only ||
		verify_rids(dk->env, dk->batch, &dk->layout.layout, sorted->rids, sorted->n, why))
		return true;
	device_keys_fail(dk, why);
	return false;
}

/*
 * result_device_keys.c: takes the result: all of it, or if it may stream its first
 * chunk, and then *streams holds.  False if the job is lost, also for a wrong result.
 */
static bool
device_keys_receive(DeviceKeys *dk, bool may_stream, Sorted *sorted, bool *streams)
{
	*streams = may_stream && !gpusort_verify && !dk->spec.want_keys;
	dk->keep = !*streams || dk->env->spec.random_access;
	make_room(dk, sorted);
	device_check_begin(dk);
	if (*streams)
	{
		/* the first chunk is part of the sort's time, and so is its failure */
		return take_chunk(dk, &sorted->n);
	}
	while (take_chunk(dk, &sorted->n))
		CHECK_FOR_INTERRUPTS();
	if (dk->failed)
		return false;
	if (!dk->spec.keys_only && dk->spec.want_keys && sorted->n - dk->run.start > 1)
		resolve_ties(dk, (uint32 *) dk->env->recs.ptr + dk->run.start, sorted->n - dk->run.start);
	if (!verify_whole(dk, sorted))
		return false;
	dk->env->report.ties += dk->ties;
	return true;
}

/* ------------------------------------------------------------------------
 * The result that streams
 * ------------------------------------------------------------------------
 */

/*
 * The device failed: the rest comes from the CPU.  What the check knows of the rows given
 * out outlives the job.
 */
static void
recover(ArrayResult *array, DeviceKeys *dk)
{
	SortEnv    *env = dk->env;
	Batch	   *batch = dk->batch;
	Sorted		sorted;

	array->more = NULL;
	array->pos += dk->returned;
	device_note_failure(env, dk->decision.algorithm, dk->why);
	device_keys_close(dk);
	(void) order_batch(env, batch, NULL, false, &sorted);
	progress_phase(&env->progress, PROGRESS_EMIT);
	device_check_returned(dk, &sorted, array->pos);
	device_keys_end(dk);

	array->n = sorted.n;
	((MemoryResult *) array)->rids = sorted.rids;
}

/* All rows that have arrived were read: gets more. */
static void
get_more(ArrayResult *array)
{
	DeviceKeys *dk = array->more;
	Batch	   *batch = dk->batch;

	/* no ties where the result streams */
	if (take_chunk(dk, &array->n))
	{
		if (dk->keep)
			return;
		array->pos = 0;
		return;
	}
	if (dk->failed)
		recover(array, dk);
	else
	{
		device_keys_end(dk);
		array->more = NULL;
	}
	/* they were kept for recover() */
	batch_free_keys(batch, array->base.env->bulk);
	tiebreak_release(array->base.env->tiebreak);
}

static bool
streamed_rows_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	ArrayResult *array = (ArrayResult *) result;

	if (array->more != NULL && forward && array->pos >= array->n)
		get_more(array);
	return result_rows_next(result, forward, slot);
}

static void
streamed_end(SortResult *result)
{
	ArrayResult *array = (ArrayResult *) result;

	if (array->more != NULL)
		device_keys_end(array->more);
	array->more = NULL;
}

static const ResultMethods streamed_rows_methods = {
	.kind = RESULT_ROWS,
	.next = streamed_rows_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.end = streamed_end
};

void
result_device_keys_begin(SortResult *result, DeviceKeys *dk)
{
	Assert(!dk->env->spec.keys_only);
	result->methods = &streamed_rows_methods;
	((ArrayResult *) result)->more = dk;
}

/* ------------------------------------------------------------------------
 * The GPU as the engine's offload implementation
 * ------------------------------------------------------------------------
 */
static const SortOffload gpu_offload = {
	.state = device_state,
	.keys_after = device_keys_after,
	.rows_after = device_rows_after,
	.begin_keys = device_keys_begin,
	.begin_rows = device_rows_begin,
	.sort_keys = device_keys_sort,
	.stream_keys = result_device_keys_begin,
	.end_keys = device_keys_end
};

void
gpu_init(void)
{
	sort_offload_register(&gpu_offload);
}
