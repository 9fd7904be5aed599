/*
 * process_job.c
 *	  One job in the device process: copy chunks up, sort, copy chunks down.
 *
 * A job's work on the device is queued on one stream in this order: copies up, sort,
 * (dropping of duplicates, gather,) copies down.  Events tell when a chunk of the staging pool is free again on
 * the way up, and full on the way down.  Streams and events belong to the slot and are
 * kept for its next job.
 *
 * A producer's chunks are queued on the stream of the job that it fills, and go into
 * that job's memory.  The events that tell when a chunk is free are the producer's own.
 *
 * On error: fail_job() reports the error to the backend.  If the device makes no
 * progress for a long time (gpusort.device_timeout), the process reports that to the
 * supervisor, which kills it.
 */
#include "postgres.h"

#include "service/process_internal.h"

static ProcessJob jobs[DEVICE_SLOTS];

/* ------------------------------------------------------------------------
 * Input: copies of posted chunks, then the sort
 * ------------------------------------------------------------------------
 */

/*
 * A producer's row offsets count from its chunk, a job's from its first row: adds the
 * bytes of the rows that the job has already.
 */
static void
shift_offsets(uint32 *words, uint32 rows, uint64 row_bytes)
{
	uint32		units = (uint32) (row_bytes / 8);

	for (uint32 i = 0; i < rows; i++)
		words[i] += units;
}

/*
 * Starts the copies of the slot's next chunk up.  They go into the memory of job "into":
 * the slot's own job, or the job that a producer fills.
 */
static GpusortStatus
copy_chunk_up(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, DeviceSlot *into_slot,
			  ProcessJob *into, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	const DeviceJobSpec *spec = &into_slot->spec;
	DeviceChunkDesc desc = slot->up[job->started % slot->nchunks];
	char	   *chunk = device_chunk(slot, job->started);
	uint64		width = spec->key_width / 8;
	bool		first = into->n == 0;

	if (into->n + desc.rows > into->max_rows ||
		into->row_bytes + desc.row_bytes > into->max_row_bytes ||
		(Size) desc.rows_at + desc.row_bytes > device_shared->chunk_size)
	{
		strlcpy(err->message, "more rows than the job was opened for", sizeof(err->message));
		return GPUSORT_BAD_CALL;
	}
	if (slot->producer.is_one)
		shift_offsets((uint32 *) (chunk + desc.words_at), desc.rows, into->row_bytes);
	if (first)
		TRY(cuda->event_record(into->events.up_begin, into->stream, err));
	TRY(cuda->copy_in(into->stream, into->keys + into->n * width, chunk,
					  desc.rows * width, err));
	if (!spec->keys_only)
		TRY(cuda->copy_in(into->stream, into->words + into->n, chunk + desc.words_at,
						  desc.rows * sizeof(uint32), err));
	if (desc.row_bytes > 0)
		TRY(cuda->copy_in(into->stream, into->rows + into->row_bytes, chunk + desc.rows_at,
						  desc.row_bytes, err));
	TRY(cuda->event_record(job->events.chunk[job->started % slot->nchunks], into->stream, err));
	if (first)
	{
		TRY(cuda->event_record(into->events.up_end, into->stream, err));
		into_slot->times.up_bytes = desc.row_bytes +
			(double) desc.rows * (width + (spec->keys_only ? 0 : sizeof(uint32)));
	}
	into->n += desc.rows;
	into->row_bytes += desc.row_bytes;
	pg_atomic_fetch_add_u64(&device_counters(slot->device)->bytes_up, desc.row_bytes +
							(uint64) desc.rows * (width + (spec->keys_only ? 0 : sizeof(uint32))));
	job->started++;
	return GPUSORT_OK;
}

/*
 * Appends the end of the rows as the offset of one more row, which gather_rows() needs for
 * the length of the last row.  It is copied from the first chunk, which is free.
 */
static GpusortStatus
close_rows(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	uint32	   *end = (uint32 *) device_chunk(slot, 0);

	*end = (uint32) (job->row_bytes / 8);
	return api->cuda->copy_in(job->stream, job->words + job->n, end, sizeof(uint32), err);
}

/* Drops equal keys behind the sort, and waits for both. */
static GpusortStatus
drop_equal_keys(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortGroups groups;

	job_describe_groups(slot, job, job->n, &groups);
	return api->cuda->groups_run(job->stream, &groups, &job->rows_down, err);
}

/* JobCall: starts the sort, and plans the chunks of the result. */
static GpusortStatus
start_sort(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	const DeviceJobSpec *spec = &slot->spec;
	GpusortProblem problem;

	if (spec->mode == DEVICE_ROWS)
		TRY(close_rows(api, slot, job, err));
	job_describe_problem(slot, job, job->n, &problem);
	TRY(cuda->event_record(job->events.sort_begin, job->stream, err));
	TRY(cuda->sort_run(job->stream, job->algorithm, &problem, NULL, err));
	TRY(cuda->event_record(job->events.sort_end, job->stream, err));
	job->rows_down = job->n;
	if (spec->drop)
		TRY(drop_equal_keys(api, slot, job, err));

	job->started = job->finished = 0;
	if (spec->mode == DEVICE_ROWS)
	{
		job_describe_gather(slot, job, job->rows_down);
		TRY(cuda->gather_plan(job->stream, &job->gather, &job->total_down, err));
	}
	else
	{
		job->rows_per_chunk = device_chunk_rows(spec);
		job->total_down = (uint32) ((job->rows_down + job->rows_per_chunk - 1) / job->rows_per_chunk);
	}
	strlcpy(slot->times.algorithm, device_shared->algorithms[job->algorithm].name,
			sizeof(slot->times.algorithm));
	job->phase = JOB_DOWN;
	slot->rows_down = job->rows_down;
	pg_write_barrier();
	pg_atomic_write_u32(&slot->status, DEVICE_SENDING);
	return GPUSORT_OK;
}

/* JobCall: answers the backend's request for more space.  All posted chunks are on the device. */
static GpusortStatus
answer_growth(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	bool		ok;
	GpusortStatus status;

	job_call_lock(job, slot->device);
	status = job_grow(api, slot, job, &ok, err);
	process_memory_unlock(slot->device);
	TRY(status);
	slot->grow_ok = ok;
	pg_write_barrier();
	pg_atomic_write_u32(&slot->grown, pg_atomic_read_u32(&slot->grow.requests));
	SetLatch(slot->owner.latch);
	return GPUSORT_OK;
}

/* Counts the chunks whose copies, up or down, have ended.  *any: more than before. */
static GpusortStatus
poll_chunks(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, bool *any,
			GpusortError *err)
{
	*any = false;
	while (job->finished != job->started)
	{
		GpusortStatus status =
			api->cuda->event_poll(job->events.chunk[job->finished % slot->nchunks], err);

		if (status == GPUSORT_NOT_READY)
			break;
		TRY(status);
		job->finished++;
		*any = true;
	}
	return GPUSORT_OK;
}

/* Returns chunks whose copies up have ended to the backend. */
static GpusortStatus
take_chunks(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
{
	bool		any;

	TRY(poll_chunks(api, slot, job, &any, err));
	if (!any)
		return GPUSORT_OK;
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->taken, job->finished);
	SetLatch(slot->owner.latch);
	*step |= DEVICE_STEP_PROGRESS;
	return GPUSORT_OK;
}

static GpusortStatus
job_step_up(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
{
	/* read the command first: the backend sets it after the last post */
	uint32		command = pg_atomic_read_u32(&slot->command);
	int			slot_no = (int) (slot - device_shared->slots);
	uint32		posted;

	pg_read_barrier();
	posted = pg_atomic_read_u32(&slot->posted);
	pg_read_barrier();
	while (job->started != posted)
	{
		TRY(copy_chunk_up(api, slot, job, slot, job, err));
		*step |= DEVICE_STEP_PROGRESS;
	}
	TRY(take_chunks(api, slot, job, step, err));
	if (job->finished == job->started &&
		pg_atomic_read_u32(&slot->grow.requests) != pg_atomic_read_u32(&slot->grown))
	{
		pg_read_barrier();
		*step |= DEVICE_STEP_PROGRESS;
		job_call(slot_no, answer_growth);
		return GPUSORT_OK;
	}
	/* close_rows() uses the first chunk, which must be free */
	if (command == DEVICE_SORT &&
		(slot->spec.mode == DEVICE_KEYS || job->finished == job->started))
	{
		*step |= DEVICE_STEP_PROGRESS;
		job_call(slot_no, start_sort);
		return GPUSORT_OK;
	}
	if (job->finished != job->started)
		*step |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* Has the job space for a producer's chunk?  If not, asks its owner once to grow the job. */
static bool
producer_has_room(DeviceSlot *into_slot, const ProcessJob *into, const DeviceChunkDesc *desc)
{
	uint64		rows = into->n + desc->rows;
	uint64		row_bytes = into->row_bytes + desc->row_bytes;

	if (rows <= into->max_rows && row_bytes <= into->max_row_bytes)
		return true;
	if (rows > into_slot->want.rows || row_bytes > into_slot->want.row_bytes)
	{
		into_slot->want.rows = Max(rows, into_slot->want.rows);
		into_slot->want.row_bytes = Max(row_bytes, into_slot->want.row_bytes);
		pg_write_barrier();
		SetLatch(into_slot->owner.latch);
	}
	return false;
}

/* job_step_up() of a producer, whose rows go into the job of into_slot. */
static GpusortStatus
job_step_producer(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, DeviceSlot *into_slot,
				  ProcessJob *into, int *step, GpusortError *err)
{
	uint32		posted = pg_atomic_read_u32(&slot->posted);
	bool		is_open = device_job_is_open(&slot->producer.into);

	pg_read_barrier();

	/* the job's memory is not usable before the job has begun, and while it grows */
	if (is_open && (into->phase == JOB_NONE || into->call.what != NULL))
		return GPUSORT_OK;
	if (job->started != posted && (!is_open || into->phase != JOB_UP))
	{
		strlcpy(err->message, "the job that the rows are sent to has ended", sizeof(err->message));
		return GPUSORT_BAD_CALL;
	}
	while (job->started != posted &&
		   producer_has_room(into_slot, into, &slot->up[job->started % slot->nchunks]))
	{
		TRY(copy_chunk_up(api, slot, job, into_slot, into, err));
		*step |= DEVICE_STEP_PROGRESS;
	}
	TRY(take_chunks(api, slot, job, step, err));
	if (job->finished != job->started)
		*step |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Result: copies of chunks down, into chunks that the backend has released
 * ------------------------------------------------------------------------
 */

/* Copies the first keys and the ends of the groups [first, first + desc->rows) to the chunk. */
static GpusortStatus
copy_groups_down(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, uint64 first,
				 const DeviceChunkDesc *desc, char *chunk, GpusortError *err)
{
	uint64		width = slot->spec.key_width / 8;

	TRY(api->cuda->copy_out(job->stream, chunk, job->keys + first * width, desc->rows * width, err));
	return api->cuda->copy_out(job->stream, chunk + desc->ends_at, job->ends + first,
							   desc->rows * sizeof(uint32), err);
}

/* Starts the copies of the result's next chunk, and describes it for the backend. */
static GpusortStatus
copy_chunk_down(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	const DeviceJobSpec *spec = &slot->spec;
	DeviceChunkDesc *desc = &slot->down[job->started % slot->nchunks];
	char	   *chunk = device_chunk(slot, job->started);

	memset(desc, 0, sizeof(*desc));
	if (spec->mode == DEVICE_ROWS)
	{
		uint32		first = job->chunk_row[job->started];
		uint32		last = job->chunk_row[job->started + 1];
		char	   *gathered = job->gathered[job->started % GATHER_BUFFERS];

		TRY(cuda->gather_rows(job->stream, &job->gather, first, last, gathered, err));
		if (job->started == 0)
			TRY(cuda->event_record(job->events.down_begin, job->stream, err));
		desc->rows = last - first;
		if (spec->drop)
		{
			desc->ends_at = device_part(desc->rows * (spec->key_width / 8));
			desc->rows_at = device_part(desc->ends_at + desc->rows * sizeof(uint32));
			TRY(copy_groups_down(api, slot, job, first, desc, chunk, err));
		}
		/* only the device knows the exact length; the chunk is nearly full */
		desc->row_bytes = (uint32) device_shared->chunk_size - desc->rows_at;
		TRY(cuda->copy_out(job->stream, chunk + desc->rows_at, gathered, desc->row_bytes, err));
	}
	else
	{
		uint64		first = (uint64) job->started * job->rows_per_chunk;
		uint64		width = spec->want_keys ? spec->key_width / 8 : 0;

		desc->rows = (uint32) Min(job->rows_per_chunk, job->rows_down - first);
		desc->words_at = device_part(desc->rows * width);
		desc->rows_at = desc->words_at + (spec->keys_only ? 0 : desc->rows * sizeof(uint32));
		if (spec->drop)
		{
			desc->ends_at = device_part(desc->rows_at);
			desc->rows_at = desc->ends_at + desc->rows * sizeof(uint32);
		}
		if (job->started == 0)
			TRY(cuda->event_record(job->events.down_begin, job->stream, err));
		if (spec->drop)
			TRY(copy_groups_down(api, slot, job, first, desc, chunk, err));
		else if (width > 0)
			TRY(cuda->copy_out(job->stream, chunk, job->keys_out + first * width,
							   desc->rows * width, err));
		if (!spec->keys_only)
			TRY(cuda->copy_out(job->stream, chunk + desc->words_at,
							   (spec->drop ? job->words : job->order) + first,
							   desc->rows * sizeof(uint32), err));
	}
	TRY(cuda->event_record(job->events.chunk[job->started % slot->nchunks], job->stream, err));
	if (job->started == 0)
		slot->times.down_bytes = (double) desc->rows_at + desc->row_bytes;
	pg_atomic_fetch_add_u64(&device_counters(slot->device)->bytes_down,
							desc->row_bytes + (spec->mode == DEVICE_ROWS ? 0 : desc->rows_at));
	job->started++;
	return GPUSORT_OK;
}

/* Reads the job's times, when its first chunk is down. */
static GpusortStatus
read_times(const DeviceApi *api, const ProcessJob *job, DeviceJobTimes *times, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;

	TRY(cuda->event_elapsed(job->events.up_begin, job->events.up_end, &times->up_us, err));
	TRY(cuda->event_elapsed(job->events.sort_begin, job->events.sort_end, &times->sort_us, err));
	return cuda->event_elapsed(job->events.down_begin, job->events.chunk[0], &times->down_us, err);
}

static GpusortStatus
job_step_down(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
{
	uint32		read = pg_atomic_read_u32(&slot->read);
	bool		first;
	bool		any;

	pg_memory_barrier();
	while (job->started < job->total_down && job->started - read < slot->nchunks)
	{
		TRY(copy_chunk_down(api, slot, job, err));
		*step |= DEVICE_STEP_PROGRESS;
	}
	first = job->finished == 0;
	TRY(poll_chunks(api, slot, job, &any, err));
	if (any)
	{
		if (first)
			TRY(read_times(api, job, &slot->times, err));
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->made, job->finished);
		SetLatch(slot->owner.latch);
		*step |= DEVICE_STEP_PROGRESS;
	}
	if (job->finished == job->total_down)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&slot->status, DEVICE_DONE);
		pg_atomic_fetch_add_u32(&device_shared->process.finished, 1);
		pg_atomic_fetch_add_u64(&device_counters(slot->device)->done, 1);
		device_shared->failures[device_shared->devices[slot->device].index] = 0;
		SetLatch(slot->owner.latch);
		job->phase = JOB_OVER;
	}
	if (job->finished != job->started)
		*step |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Begin, end, and steps of a job
 * ------------------------------------------------------------------------
 */

/* Destroys the slot's stream and events.  Its last job was on another device. */
static void
forget_device(const DeviceApi *api, ProcessJob *job)
{
	const GpusortCudaApi *cuda = api->cuda;

	job_call_lock(job, job->device);
	cuda->stream_destroy(job->stream);
	for (int c = 0; c < DEVICE_JOB_CHUNKS; c++)
		cuda->event_destroy(job->events.chunk[c]);
	cuda->event_destroy(job->events.up_begin);
	cuda->event_destroy(job->events.up_end);
	cuda->event_destroy(job->events.sort_begin);
	cuda->event_destroy(job->events.sort_end);
	cuda->event_destroy(job->events.down_begin);
	process_memory_unlock(job->device);
	job->prepared = false;
}

/* Creates the slot's stream and events, unless its last job has left them. */
static GpusortStatus
prepare_slot(const DeviceApi *api, ProcessJob *job, int device, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[device];

	if (job->prepared)
		return GPUSORT_OK;
	TRY(cuda->stream_create(context, &job->stream, err));
	for (int c = 0; c < DEVICE_JOB_CHUNKS; c++)
		TRY(cuda->event_create(context, &job->events.chunk[c], err));
	TRY(cuda->event_create(context, &job->events.up_begin, err));
	TRY(cuda->event_create(context, &job->events.up_end, err));
	TRY(cuda->event_create(context, &job->events.sort_begin, err));
	TRY(cuda->event_create(context, &job->events.sort_end, err));
	TRY(cuda->event_create(context, &job->events.down_begin, err));
	job->device = device;
	job->prepared = true;
	return GPUSORT_OK;
}

/* JobCall: allocates the job's memory, and publishes its size for the admission of jobs. */
static GpusortStatus
begin_job(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortContext *context = api->contexts[slot->device];
	GpusortMemory before;
	GpusortMemory after;
	GpusortStatus status;

	if (job->prepared && job->device != slot->device)
		forget_device(api, job);
	job_call_lock(job, slot->device);
	status = prepare_slot(api, job, slot->device, err);
	if (status == GPUSORT_OK && !slot->producer.is_one)
	{
		api->cuda->device_memory(context, 0, &before);
		status = job_allocate(api, slot, job, err);
		api->cuda->device_memory(context, 0, &after);
		slot->allocated = after.used - before.used;
	}
	process_memory_unlock(slot->device);
	return status;
}

/* Reports an error to the backend.  Ends the process if the device is no longer usable. */
static void
fail_job(DeviceSlot *slot, ProcessJob *job, GpusortStatus status, const GpusortError *err)
{
	slot->error = *err;
	if (slot->error.message[0] == '\0')
		snprintf(slot->error.message, sizeof(slot->error.message), "status %d", (int) status);
	pg_write_barrier();
	pg_atomic_write_u32(&slot->status, DEVICE_ERROR);
	SetLatch(slot->owner.latch);
	job->phase = JOB_OVER;
	if (status == GPUSORT_CUDA_ERROR || status == GPUSORT_NO_DEVICE)
		device_process_fails("CUDA error on device %d: %s (%s:%d)",
							 device_shared->devices[slot->device].index,
							 err->message, err->file, (int) err->line);
}

/*
 * Updates the moving averages of the time that jobs hold their memory, per job and per
 * byte.  A job that is much older does not count as load (admission.c).
 */
static void
note_hold(const DeviceSlot *slot)
{
	static double bytes = 0;
	static double byte_us = 0;
	double		hold_us = (double) (device_now_us() - slot->opened_us);

	bytes = bytes * 7 / 8 + (double) slot->device_bytes;
	byte_us = byte_us * 7 / 8 + (double) slot->device_bytes * hold_us;
	device_shared->hold.byte_us = byte_us / bytes;
	device_shared->hold.job_us += (hold_us - device_shared->hold.job_us) / 8;
}

/* Frees the slot if the device no longer uses its memory.  Returns a set of DEVICE_STEP_*. */
static int
close_job(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortStatus status = GPUSORT_OK;

	if (job->phase != JOB_NONE)
	{
		bool		any;

		/* a producer's copies are on the stream of the job that it fills */
		if (slot->producer.is_one)
			status = poll_chunks(api, slot, job, &any, err);
		if (status == GPUSORT_OK && slot->producer.is_one && job->finished != job->started)
			return DEVICE_STEP_IN_FLIGHT;
		if (status == GPUSORT_OK && job->prepared)
			status = api->cuda->stream_poll(job->stream, err);
		if (status == GPUSORT_NOT_READY)
			return DEVICE_STEP_IN_FLIGHT;
		if (!process_memory_trylock(slot->device))
			return DEVICE_STEP_IN_FLIGHT | DEVICE_STEP_LOCKED;
		job_release(api, job);
		process_memory_unlock(slot->device);
		if (status != GPUSORT_OK)
			fail_job(slot, job, status, err);
		job->phase = JOB_NONE;
	}
	if (!slot->producer.is_one)
		note_hold(slot);
	device_shared->devices[slot->device].last_used_us = device_now_us();
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->state, device_slot_word(0, DEVICE_SLOT_FREE));
	return DEVICE_STEP_PROGRESS;
}

/* Reports the device as hung if more than the slot's timeout has passed. */
static void
check_since(const DeviceSlot *slot, uint64 since)
{
	if (device_now_us() - since > (uint64) slot->timeout_ms * 1000)
		device_process_hangs(slot->device, slot->timeout_ms);
}

/* Checks the duration of the job's call.  Its wait for a thread or a lock does not count. */
static void
check_call_patience(const DeviceSlot *slot, const ProcessJob *job)
{
	uint64		since = job->call.since;

	if (since != 0)
		check_since(slot, since);
}

/* Checks the time for which the job has waited for the device. */
static void
check_patience(const DeviceSlot *slot, ProcessJob *job)
{
	if (job->waiting_since == 0)
		job->waiting_since = device_now_us();
	else
		check_since(slot, job->waiting_since);
}

void
device_jobs_init(const DeviceApi *api)
{
	process_calls_init(api, jobs);
}

int
device_job_step(const DeviceApi *api, int slot_no)
{
	DeviceSlot *slot = &device_shared->slots[slot_no];
	ProcessJob *job = &jobs[slot_no];
	uint32		word = pg_atomic_read_u32(&slot->state);
	GpusortStatus status = GPUSORT_OK;
	GpusortError err;
	int			step = 0;

	/* the slot is free, or its job belongs to an older device process */
	if (device_slot_generation(word) != pg_atomic_read_u32(&device_shared->generation) ||
		device_slot_state(word) == DEVICE_SLOT_FREE)
		return 0;
	pg_read_barrier();
	if (job->call.what != NULL && !job_call_over(job))
	{
		check_call_patience(slot, job);
		return DEVICE_STEP_IN_FLIGHT;
	}
	err.status = 0;
	err.message[0] = '\0';
	err.file[0] = '\0';
	err.line = 0;
	device_shared->life.at_device = device_shared->devices[slot->device].index;
	if (job->call.what != NULL)
	{
		step = DEVICE_STEP_PROGRESS;
		job->call.what = NULL;
		status = job->call.status;
		err = job->call.error;
	}

	if (device_slot_state(word) == DEVICE_SLOT_CLOSING && !gpusort_is_broken(status))
		step = close_job(api, slot, job, &err);
	else
	{
		if (job->phase == JOB_NONE)
		{
			step = DEVICE_STEP_PROGRESS;
			job->phase = JOB_UP;
			job_call(slot_no, begin_job);
		}
		if (status == GPUSORT_OK && job->call.what == NULL && job->phase == JOB_UP && slot->producer.is_one)
			status = job_step_producer(api, slot, job, &device_shared->slots[slot->producer.into.slot],
									   &jobs[slot->producer.into.slot], &step, &err);
		else if (status == GPUSORT_OK && job->call.what == NULL && job->phase == JOB_UP)
			status = job_step_up(api, slot, job, &step, &err);
		if (status == GPUSORT_OK && job->call.what == NULL && job->phase == JOB_DOWN)
			status = job_step_down(api, slot, job, &step, &err);
		if (status != GPUSORT_OK)
		{
			fail_job(slot, job, status, &err);
			step |= DEVICE_STEP_PROGRESS;
		}
	}
	device_shared->life.at_device = -1;
	if (step == DEVICE_STEP_IN_FLIGHT)
		check_patience(slot, job);
	else
		job->waiting_since = 0;
	return step;
}
