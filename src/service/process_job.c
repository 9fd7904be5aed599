/*
 * process_job.c
 *	  One job in the device process: copy chunks up, sort, copy chunks down.
 *
 * A job's work on the device is queued on one stream in this order: copies up, sort,
 * (dropping of duplicates, gather,) copies down.  Events tell when a chunk of the staging
 * pool is free again on the way up, and full on the way down.  Streams and events belong
 * to the slot and are kept for its next job.
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

ProcessJob	process_jobs[DEVICE_SLOTS];

/* ------------------------------------------------------------------------
 * Input: copies of posted chunks, then the sort
 * ------------------------------------------------------------------------
 */

/*
 * Starts the copies of the slot's next chunk up.  They go into the memory of job "into":
 * the slot's own job, or the job that a producer fills.
 */
static GpusortStatus
copy_chunk_up(DeviceSlot *slot, ProcessJob *job, DeviceSlot *into_slot,
			  ProcessJob *into, GpusortError *err)
{
	const DeviceJobSpec *spec = &into_slot->spec;
	DeviceChunkDesc desc = slot->up[job->started % slot->nchunks];
	char	   *chunk = device_chunk(slot, job->started);
	uint64		width = spec->key_width / 8;
	uint64		bytes = desc.rows * (width + (spec->keys_only ? 0 : sizeof(uint32))) + desc.row_bytes;
	bool		first = into->n == 0;

	if (into->n + desc.rows > into->max_rows ||
		into->row_bytes + desc.row_bytes > into->max_row_bytes ||
		(Size) desc.rows_at + desc.row_bytes > device_shared->chunk_size)
	{
		strlcpy(err->message, "more rows than the job was opened for", sizeof(err->message));
		return GPUSORT_BAD_CALL;
	}
	/* a producer's row offsets count from its chunk, a job's from its first row */
	if (slot->producer.is_one)
	{
		uint32	   *words = (uint32 *) (chunk + desc.words_at);
		uint32		units = (uint32) (into->row_bytes / 8);

		for (uint32 i = 0; i < desc.rows; i++)
			words[i] += units;
	}
	if (first)
		TRY(cuda->event_record(into->events[EVENT_UP_BEGIN], into->stream, err));
	TRY(cuda->copy_in(into->stream, into->keys + into->n * width, chunk,
					  desc.rows * width, err));
	if (!spec->keys_only)
		TRY(cuda->copy_in(into->stream, into->words + into->n, chunk + desc.words_at,
						  desc.rows * sizeof(uint32), err));
	if (desc.row_bytes > 0)
		TRY(cuda->copy_in(into->stream, into->rows + into->row_bytes, chunk + desc.rows_at,
						  desc.row_bytes, err));
	TRY(cuda->event_record(job->events[EVENT_CHUNK + job->started % slot->nchunks], into->stream, err));
	if (first)
	{
		TRY(cuda->event_record(into->events[EVENT_UP_END], into->stream, err));
		into_slot->times.up_bytes = (double) bytes;
	}
	into->n += desc.rows;
	into->row_bytes += desc.row_bytes;
	pg_atomic_fetch_add_u64(&device_counters(slot->device)->bytes_up, bytes);
	job->started++;
	return GPUSORT_OK;
}

/*
 * Appends the end of the rows as the offset of one more row, which gather_rows() needs for
 * the length of the last row.  It is copied from the first chunk, which is free.
 */
static GpusortStatus
close_rows(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	uint32	   *end = (uint32 *) device_chunk(slot, 0);

	*end = (uint32) (job->row_bytes / 8);
	return cuda->copy_in(job->stream, job->words + job->n, end, sizeof(uint32), err);
}

/* JobCall: starts the sort, and plans the chunks of the result. */
static GpusortStatus
start_sort(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	GpusortProblem problem;
	GpusortGroups groups;

	if (spec->mode == DEVICE_ROWS)
		TRY(close_rows(slot, job, err));
	job_describe_problem(slot, job, job->n, &problem);
	TRY(cuda->event_record(job->events[EVENT_SORT_BEGIN], job->stream, err));
	TRY(cuda->sort_run(job->stream, job->algorithm, &problem, NULL, err));
	TRY(cuda->event_record(job->events[EVENT_SORT_END], job->stream, err));
	job->rows_down = job->n;
	if (spec->drop)
	{
		/* waits for the sort, too */
		job_describe_groups(slot, job, job->n, &groups);
		TRY(cuda->groups_run(job->stream, &groups, &job->rows_down, err));
	}

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
	strlcpy(slot->times.algorithm, device_shared->algorithms[job->algorithm],
			sizeof(slot->times.algorithm));
	slot->rows_down = job->rows_down;
	pg_write_barrier();
	pg_atomic_write_u32(&slot->status, DEVICE_SENDING);
	return GPUSORT_OK;
}

/* Changes the job's device memory under the lock, and publishes its size for the admission of jobs. */
static GpusortStatus
change_memory(DeviceSlot *slot, ProcessJob *job, JobCall change, GpusortError *err)
{
	GpusortContext *context = device_contexts[slot->device];
	GpusortMemory before;
	GpusortMemory after;
	GpusortStatus status;

	job_call_lock(job, slot->device);
	cuda->device_memory(context, 0, &before);
	status = change(slot, job, err);
	cuda->device_memory(context, 0, &after);
	slot->allocated = slot->allocated + after.used - before.used;
	process_memory_unlock(slot->device);
	return status;
}

/* JobCall: answers the backend's request for more space.  All posted chunks are on the device. */
static GpusortStatus
answer_growth(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	TRY(change_memory(slot, job, job_grow, err));
	pg_write_barrier();
	pg_atomic_write_u32(&slot->grown, pg_atomic_read_u32(&slot->grow.requests));
	SetLatch(slot->owner.latch);
	return GPUSORT_OK;
}

/* Counts the chunks whose copies, up or down, have ended. */
static GpusortStatus
poll_chunks(const DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
{
	while (job->finished != job->started)
	{
		GpusortStatus status =
			cuda->event_poll(job->events[EVENT_CHUNK + job->finished % slot->nchunks], err);

		if (status == GPUSORT_NOT_READY)
			break;
		TRY(status);
		job->finished++;
		*step |= DEVICE_STEP_PROGRESS;
	}
	if (job->finished != job->started)
		*step |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* Returns chunks whose copies up have ended to the backend. */
static GpusortStatus
take_chunks(DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
{
	uint32		before = job->finished;

	TRY(poll_chunks(slot, job, step, err));
	if (job->finished != before)
	{
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->taken, job->finished);
		SetLatch(slot->owner.latch);
	}
	return GPUSORT_OK;
}

static GpusortStatus
job_step_up(DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
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
		TRY(copy_chunk_up(slot, job, slot, job, err));
		*step |= DEVICE_STEP_PROGRESS;
	}
	TRY(take_chunks(slot, job, step, err));
	if (job->finished == job->started &&
		pg_atomic_read_u32(&slot->grow.requests) != pg_atomic_read_u32(&slot->grown))
	{
		pg_read_barrier();
		*step |= DEVICE_STEP_PROGRESS;
		job_call(slot_no, answer_growth);
	}
	/* close_rows() uses the first chunk, which must be free */
	else if (command == DEVICE_SORT &&
			 (slot->spec.mode == DEVICE_KEYS || job->finished == job->started))
	{
		*step |= DEVICE_STEP_PROGRESS;
		job_call(slot_no, start_sort);
	}
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
job_step_producer(DeviceSlot *slot, ProcessJob *job, DeviceSlot *into_slot,
				  ProcessJob *into, int *step, GpusortError *err)
{
	uint32		posted = pg_atomic_read_u32(&slot->posted);
	bool		is_open = device_job_is_open(&slot->producer.into);

	pg_read_barrier();

	/* the job's memory is not usable before the job has begun, and while it grows */
	if (is_open && (!into->begun || into->call.what != NULL))
		return GPUSORT_OK;
	if (job->started != posted && (!is_open || pg_atomic_read_u32(&into_slot->status) != DEVICE_LOADING))
	{
		strlcpy(err->message, "the job that the rows are sent to has ended", sizeof(err->message));
		return GPUSORT_BAD_CALL;
	}
	while (job->started != posted &&
		   producer_has_room(into_slot, into, &slot->up[job->started % slot->nchunks]))
	{
		TRY(copy_chunk_up(slot, job, into_slot, into, err));
		*step |= DEVICE_STEP_PROGRESS;
	}
	return take_chunks(slot, job, step, err);
}

/* ------------------------------------------------------------------------
 * Result: copies of chunks down, into chunks that the backend has released
 * ------------------------------------------------------------------------
 */

/*
 * Describes the result's next chunk for the backend, which has the result's rows from *first
 * on.  Rows are gathered for it.
 */
static GpusortStatus
plan_chunk_down(const DeviceSlot *slot, ProcessJob *job, DeviceChunkDesc *desc, uint64 *first,
				GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	uint32		end;

	memset(desc, 0, sizeof(*desc));
	if (spec->mode == DEVICE_ROWS)
	{
		uint32		last = job->chunk_row[job->started + 1];

		*first = job->chunk_row[job->started];
		desc->rows = last - (uint32) *first;
		TRY(cuda->gather_rows(job->stream, &job->gather, (uint32) *first, last,
							  job->gathered[job->started % GATHER_BUFFERS], err));
	}
	else
	{
		*first = (uint64) job->started * job->rows_per_chunk;
		desc->rows = (uint32) Min(job->rows_per_chunk, job->rows_down - *first);
	}
	end = spec->want_keys ? desc->rows * (spec->key_width / 8) : 0;
	if (spec->mode == DEVICE_KEYS)
	{
		desc->words_at = device_part(end);
		end = desc->words_at + (spec->keys_only ? 0 : desc->rows * sizeof(uint32));
	}
	if (spec->drop)
	{
		desc->ends_at = device_part(end);
		end = desc->ends_at + desc->rows * sizeof(uint32);
	}
	desc->rows_at = end;
	if (spec->mode == DEVICE_ROWS)
	{
		desc->rows_at = device_part(end);
		/* only the device knows the exact length; the chunk is nearly full */
		desc->row_bytes = (uint32) device_shared->chunk_size - desc->rows_at;
	}
	return GPUSORT_OK;
}

/* Starts the copies of the result's next chunk. */
static GpusortStatus
copy_chunk_down(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	DeviceChunkDesc *desc = &slot->down[job->started % slot->nchunks];
	char	   *chunk = device_chunk(slot, job->started);
	uint64		width = spec->key_width / 8;
	uint64		first;

	TRY(plan_chunk_down(slot, job, desc, &first, err));
	if (job->started == 0)
	{
		TRY(cuda->event_record(job->events[EVENT_DOWN_BEGIN], job->stream, err));
		slot->times.down_bytes = (double) desc->rows_at + desc->row_bytes;
	}
	if (spec->want_keys)
		TRY(cuda->copy_out(job->stream, chunk, (spec->drop ? job->keys : job->keys_out) + first * width,
						   desc->rows * width, err));
	if (spec->drop)
		TRY(cuda->copy_out(job->stream, chunk + desc->ends_at, job->ends + first,
						   desc->rows * sizeof(uint32), err));
	if (spec->mode == DEVICE_ROWS)
		TRY(cuda->copy_out(job->stream, chunk + desc->rows_at, job->gathered[job->started % GATHER_BUFFERS],
						   desc->row_bytes, err));
	else if (!spec->keys_only)
		TRY(cuda->copy_out(job->stream, chunk + desc->words_at, (spec->drop ? job->words : job->order) + first,
						   desc->rows * sizeof(uint32), err));
	TRY(cuda->event_record(job->events[EVENT_CHUNK + job->started % slot->nchunks], job->stream, err));
	pg_atomic_fetch_add_u64(&device_counters(slot->device)->bytes_down, desc->rows_at + desc->row_bytes);
	job->started++;
	return GPUSORT_OK;
}

/* Reads the job's times, when its first chunk is down. */
static GpusortStatus
read_times(const ProcessJob *job, DeviceJobTimes *times, GpusortError *err)
{
	TRY(cuda->event_elapsed(job->events[EVENT_UP_BEGIN], job->events[EVENT_UP_END], &times->up_us, err));
	TRY(cuda->event_elapsed(job->events[EVENT_SORT_BEGIN], job->events[EVENT_SORT_END], &times->sort_us, err));
	return cuda->event_elapsed(job->events[EVENT_DOWN_BEGIN], job->events[EVENT_CHUNK], &times->down_us, err);
}

static GpusortStatus
job_step_down(DeviceSlot *slot, ProcessJob *job, int *step, GpusortError *err)
{
	uint32		read = pg_atomic_read_u32(&slot->read);
	uint32		before = job->finished;

	pg_memory_barrier();
	while (job->started < job->total_down && job->started - read < slot->nchunks)
	{
		TRY(copy_chunk_down(slot, job, err));
		*step |= DEVICE_STEP_PROGRESS;
	}
	TRY(poll_chunks(slot, job, step, err));
	if (job->finished != before)
	{
		if (before == 0)
			TRY(read_times(job, &slot->times, err));
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->made, job->finished);
		SetLatch(slot->owner.latch);
	}
	if (job->finished == job->total_down)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&slot->status, DEVICE_DONE);
		device_shared->process.has_finished = true;
		pg_atomic_fetch_add_u64(&device_counters(slot->device)->done, 1);
		device_shared->failures[device_shared->devices[slot->device].index] = 0;
		SetLatch(slot->owner.latch);
	}
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Begin, end, and steps of a job
 * ------------------------------------------------------------------------
 */

/* Creates the slot's stream and events, unless its last job has left them, and the job's memory. */
static GpusortStatus
prepare_job(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortContext *context = device_contexts[slot->device];

	if (!job->prepared)
	{
		TRY(cuda->stream_create(context, &job->stream, err));
		for (int e = 0; e < JOB_EVENTS; e++)
			TRY(cuda->event_create(context, &job->events[e], err));
		job->device = slot->device;
		job->prepared = true;
	}
	return slot->producer.is_one ? GPUSORT_OK : job_allocate(slot, job, err);
}

/* JobCall: the first one of a job. */
static GpusortStatus
begin_job(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	/* the slot's last job was on another device: destroy its stream and events */
	if (job->prepared && job->device != slot->device)
	{
		job_call_lock(job, job->device);
		cuda->stream_destroy(job->stream);
		for (int e = 0; e < JOB_EVENTS; e++)
			cuda->event_destroy(job->events[e]);
		process_memory_unlock(job->device);
		job->prepared = false;
	}
	return change_memory(slot, job, prepare_job, err);
}

/* Reports an error to the backend.  Ends the process if the device is no longer usable. */
static void
fail_job(DeviceSlot *slot, GpusortStatus status, const GpusortError *err)
{
	slot->error = *err;
	if (slot->error.message[0] == '\0')
		snprintf(slot->error.message, sizeof(slot->error.message), "status %d", (int) status);
	pg_write_barrier();
	pg_atomic_write_u32(&slot->status, DEVICE_ERROR);
	SetLatch(slot->owner.latch);
	if (status == GPUSORT_CUDA_ERROR || status == GPUSORT_NO_DEVICE)
		device_process_fails(err);
}

/* Frees the slot if the device no longer uses its memory.  Returns a set of DEVICE_STEP_*. */
static int
close_job(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortStatus status = GPUSORT_OK;

	if (job->begun)
	{
		int			step = 0;

		/* a producer's copies are on the stream of the job that it fills */
		if (slot->producer.is_one)
			status = poll_chunks(slot, job, &step, err);
		if (status == GPUSORT_OK && slot->producer.is_one && job->finished != job->started)
			return DEVICE_STEP_IN_FLIGHT;
		if (status == GPUSORT_OK && job->prepared)
			status = cuda->stream_poll(job->stream, err);
		if (status == GPUSORT_NOT_READY)
			return DEVICE_STEP_IN_FLIGHT;
		if (!process_memory_trylock(slot->device))
			return DEVICE_STEP_IN_FLIGHT | DEVICE_STEP_LOCKED;
		job_release(job);
		process_memory_unlock(slot->device);
		if (status != GPUSORT_OK)
			fail_job(slot, status, err);
	}
	device_shared->devices[slot->device].last_used_us = device_now_us();
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->state, device_slot_word(0, DEVICE_SLOT_FREE));
	return DEVICE_STEP_PROGRESS;
}

/* Reports the device as hung if more than the slot's timeout has passed; 0: it is not waited for. */
static void
check_since(const DeviceSlot *slot, uint64 since)
{
	if (since != 0 && device_now_us() - since > (uint64) slot->timeout_ms * 1000)
		device_process_hangs(slot->device, slot->timeout_ms);
}

int
device_job_step(int slot_no)
{
	DeviceSlot *slot = &device_shared->slots[slot_no];
	ProcessJob *job = &process_jobs[slot_no];
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
		check_since(slot, job->call.since);
		slot->active_us = device_now_us();
		return DEVICE_STEP_IN_FLIGHT;
	}
	memset(&err, 0, sizeof(err));
	device_shared->life.at_device = device_shared->devices[slot->device].index;
	if (job->call.what != NULL)
	{
		step = DEVICE_STEP_PROGRESS;
		job->call.what = NULL;
		status = job->call.status;
		err = job->call.error;
	}

	if (device_slot_state(word) == DEVICE_SLOT_CLOSING && !gpusort_is_broken(status))
		step = close_job(slot, job, &err);
	else
	{
		uint32		state = pg_atomic_read_u32(&slot->status);

		if (!job->begun)
		{
			step = DEVICE_STEP_PROGRESS;
			job->begun = true;
			job_call(slot_no, begin_job);
		}
		else if (status == GPUSORT_OK && state == DEVICE_LOADING && slot->producer.is_one)
			status = job_step_producer(slot, job, &device_shared->slots[slot->producer.into.slot],
									   &process_jobs[slot->producer.into.slot], &step, &err);
		else if (status == GPUSORT_OK && state == DEVICE_LOADING)
			status = job_step_up(slot, job, &step, &err);
		else if (status == GPUSORT_OK && state == DEVICE_SENDING)
			status = job_step_down(slot, job, &step, &err);
		if (status != GPUSORT_OK)
		{
			fail_job(slot, status, &err);
			step |= DEVICE_STEP_PROGRESS;
		}
	}
	device_shared->life.at_device = -1;
	if (step != 0 && device_slot_state(word) == DEVICE_SLOT_OPEN)
		slot->active_us = device_now_us();
	if (step != DEVICE_STEP_IN_FLIGHT)
		job->waiting_since = 0;
	else if (job->waiting_since == 0)
		job->waiting_since = device_now_us();
	check_since(slot, job->waiting_since);
	return step;
}
