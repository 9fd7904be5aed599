/*
 * device_keys.c
 *	  Key mode: keys and rids go to the device, rids come back in order.
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
 */
#include "postgres.h"

#include "device/fault.h"
#include "miscadmin.h"
#include "settings.h"
#include "sort/device/keys/device_check.h"
#include "sort/device/keys/device_parts.h"

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

void
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

bool
device_keys_send(DeviceKeys *dk, size_t n)
{
	const Stage *stage = &dk->batch->stage;
	int			width = dk->spec.key_width;
	KeyChunk	chunk;

	if (!key_chunk_next_up(dk->job, &dk->spec, n, &chunk))
		return false;
	CHECK_FOR_INTERRUPTS();
	pack_keys(stage, &dk->layout.layout, width, dk->sent, n, chunk.keys);
	if (chunk.rids != NULL)
		memcpy(chunk.rids, stage->rids + dk->sent, n * sizeof(uint32));
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
size_t
device_keys_after(const SortEnv *env, const Stage *stage)
{
	const Algorithm *forced = gpusort_forced_algorithm();

	if (env->bound > 0 || env->device_failed || key_dear(stage->cols[0].kind) ||
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
	double		n = batch->stage.n;
	double		bytes = (double) arena_used(&batch->arena) / n + batch_key_cost(batch);
	double		rows = device_rows_expected(env, &batch->stage) * STREAM_MARGIN;

	return Min(rows, Max(n, env->limit / bytes) + STREAM_AFTER_ROWS);
}

DeviceKeys *
device_keys_open_early(SortEnv *env, Batch *batch)
{
	DeviceKeys *dk = create(env, batch);
	double		rows = Min(rows_to_expect(env, batch), PG_UINT32_MAX - 1);

	if (device_layout_guess(&dk->layout, &batch->stage) &&
		device_route_keys(env, &batch->stage, &dk->layout.layout, dk->layout.key_width, 0,
						  (size_t) (rows / STREAM_MARGIN), &dk->facts, &dk->decision) &&
		device_parts_quicker(dk) == 0 &&
		open_job(dk, (uint64) Min(rows, 2.0 * batch->stage.n), 0))
		return dk;
	pfree(dk);
	return NULL;
}

bool
device_keys_room(DeviceKeys *dk, size_t n, bool more)
{
	if (n <= dk->spec.max_rows)
		return true;
	if (!(more && 2 * n < PG_UINT32_MAX && device_job_grow(dk->job, &dk->spec, 2 * n, 0)) &&
		!(n < PG_UINT32_MAX && !dk->job->lost && device_job_grow(dk->job, &dk->spec, n, 0)))
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
	const Stage *stage = &dk->batch->stage;

	return device_layout_holds(&dk->layout, stage) &&
		(dk->facts.forced != NULL || !device_keys_ordered(stage, &dk->layout.layout)) &&
		device_keys_room(dk, stage->n, false);
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
	return open_job(dk, dk->batch->stage.n, patience_us(dk)) ||
		(dk->facts.device == DEVICE_STATE_FULL && device_parts_begin(dk, 0, patience_us(dk)));
}

/* Opens a job for what is known now; NULL, and why, if not. */
static DeviceKeys *
open_whole(SortEnv *env, Batch *batch, const KeyLayout *layout, DeviceRefusal *refusal)
{
	DeviceKeys *dk = create(env, batch);
	const Stage *stage = &batch->stage;

	dk->layout.layout = *layout;
	if (device_route_keys(env, stage, layout, device_key_width(layout->total_bits),
						  key_layout_range(stage, layout), stage->n, &dk->facts,
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
	size_t		n = dk->batch->stage.n;

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
	if (dk->job->lost)
		device_keys_lose(dk, dk->job->why);
	return !dk->lost;
}

bool
device_keys_sort(SortEnv *env, Batch *batch, DeviceKeys *early, const KeyLayout *layout,
				 bool may_stream, Sorted *sorted, DeviceKeys **streaming,
				 DeviceRefusal *refusal)
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
		if (dk->job->lost)
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
