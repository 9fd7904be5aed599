/*
 * process_up.c
 *	  A job's input: chunks go up as they are posted; when all are, the sort starts.
 *
 * A feeder's go up on the stream of the job that it feeds, into that one's memory; the events
 * that tell when they are through are the feeder's own.
 */
#include "postgres.h"

#include "device/fault.h"
#include "device/process/process_job.h"

/* A feeder's places are counted from its chunk, the job's from its first row. */
static void
move_places(uint32 *words, uint32 rows, uint64 row_bytes)
{
	uint32		units = (uint32) (row_bytes / 8);

	for (uint32 i = 0; i < rows; i++)
		words[i] += units;
}

/* The next chunk of this job's, or of a feeder's, goes up into the job. */
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
	if (!first)
		TRY(fault_error(slot, FAULT_UP, err));
	if (slot->feeds)
		move_places((uint32 *) (chunk + desc.words_at), desc.rows, into->row_bytes);
	if (first)
		TRY(cuda->event_record(into->up_begin, into->stream, err));
	TRY(cuda->copy_in(into->stream, into->keys + into->n * width, chunk,
					  desc.rows * width, err));
	if (!spec->keys_only)
		TRY(cuda->copy_in(into->stream, into->words + into->n, chunk + desc.words_at,
						  desc.rows * sizeof(uint32), err));
	if (desc.row_bytes > 0)
		TRY(cuda->copy_in(into->stream, into->rows + into->row_bytes, chunk + desc.rows_at,
						  desc.row_bytes, err));
	TRY(cuda->event_record(job->chunk_event[job->started % slot->nchunks], into->stream, err));
	if (first)
	{
		TRY(cuda->event_record(into->up_end, into->stream, err));
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

/* The row after the last starts where the rows end; the first chunk is free. */
static GpusortStatus
close_rows(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	uint32	   *end = (uint32 *) device_chunk(slot, 0);

	*end = (uint32) (job->row_bytes / 8);
	return api->cuda->copy_in(job->stream, job->words + job->n, end, sizeof(uint32), err);
}

static GpusortStatus
start_sort(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	const DeviceJobSpec *spec = &slot->spec;
	GpusortProblem problem;

	TRY(fault_error(slot, FAULT_SORT, err));
	if (spec->mode == DEVICE_ROWS)
		TRY(close_rows(api, slot, job, err));
	job_describe_problem(slot, job, job->n, &problem);
	TRY(cuda->event_record(job->sort_begin, job->stream, err));
	TRY(cuda->sort_run(job->stream, job->algorithm, &problem, NULL, err));
	TRY(cuda->event_record(job->sort_end, job->stream, err));

	job->started = job->finished = 0;
	if (spec->mode == DEVICE_ROWS)
	{
		job_describe_gather(slot, job, job->n);
		TRY(cuda->gather_plan(job->stream, &job->gather, &job->total_down, err));
	}
	else
	{
		job->rows_per_chunk = device_chunk_rows(spec);
		job->total_down = (uint32) ((job->n + job->rows_per_chunk - 1) / job->rows_per_chunk);
	}
	strlcpy(slot->times.algorithm, device_shared->algorithms[job->algorithm].name,
			sizeof(slot->times.algorithm));
	job->phase = JOB_DOWN;
	pg_atomic_write_u32(&slot->status, DEVICE_SENDING);
	return GPUSORT_OK;
}

/* The backend waits for more room; what it has posted is on the device. */
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
	pg_atomic_write_u32(&slot->grown, pg_atomic_read_u32(&slot->growths));
	SetLatch(slot->latch);
	return GPUSORT_OK;
}

GpusortStatus
job_look_up(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, bool *through,
			GpusortError *err)
{
	*through = false;
	while (job->finished != job->started)
	{
		GpusortStatus status =
			api->cuda->event_poll(job->chunk_event[job->finished % slot->nchunks], err);

		if (status == GPUSORT_NOT_READY)
			break;
		TRY(status);
		job->finished++;
		*through = true;
	}
	return GPUSORT_OK;
}

/* The backend has back those that are through. */
static GpusortStatus
take_chunks(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *found, GpusortError *err)
{
	bool		through;

	TRY(job_look_up(api, slot, job, &through, err));
	if (!through)
		return GPUSORT_OK;
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->taken, job->finished);
	SetLatch(slot->latch);
	*found |= DEVICE_STEP_PROGRESS;
	return GPUSORT_OK;
}

GpusortStatus
job_step_up(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *found, GpusortError *err)
{
	/* the command first: it comes after all that was posted */
	uint32		command = pg_atomic_read_u32(&slot->command);
	int			slot_no = (int) (slot - device_shared->slots);
	uint32		posted;

	pg_read_barrier();
	posted = pg_atomic_read_u32(&slot->posted);
	pg_read_barrier();
	while (job->started != posted)
	{
		TRY(copy_chunk_up(api, slot, job, slot, job, err));
		*found |= DEVICE_STEP_PROGRESS;
		if (fault_stops(slot, job, FAULT_UP))
			return GPUSORT_OK;
	}
	TRY(take_chunks(api, slot, job, found, err));
	if (job->finished == job->started &&
		pg_atomic_read_u32(&slot->growths) != pg_atomic_read_u32(&slot->grown))
	{
		pg_read_barrier();
		*found |= DEVICE_STEP_PROGRESS;
		job_call(slot_no, answer_growth);
		return GPUSORT_OK;
	}
	/* rows: their end travels through the first chunk, which must be free */
	if (command == DEVICE_SORT &&
		(slot->spec.mode == DEVICE_KEYS || job->finished == job->started))
	{
		*found |= DEVICE_STEP_PROGRESS;
		if (fault_stops(slot, job, FAULT_SORT))
			return GPUSORT_OK;
		job_call(slot_no, start_sort);
		return GPUSORT_OK;
	}
	if (job->finished != job->started)
		*found |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* Has the job room for the chunk?  If not its owner is asked for some, once. */
static bool
feed_has_room(DeviceSlot *into_slot, const ProcessJob *into, const DeviceChunkDesc *desc)
{
	uint64		rows = into->n + desc->rows;
	uint64		row_bytes = into->row_bytes + desc->row_bytes;

	if (rows <= into->max_rows && row_bytes <= into->max_row_bytes)
		return true;
	if (rows > into_slot->want_rows || row_bytes > into_slot->want_row_bytes)
	{
		into_slot->want_rows = Max(rows, into_slot->want_rows);
		into_slot->want_row_bytes = Max(row_bytes, into_slot->want_row_bytes);
		pg_write_barrier();
		SetLatch(into_slot->latch);
	}
	return false;
}

GpusortStatus
job_step_feed(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, DeviceSlot *into_slot,
			  ProcessJob *into, int *found, GpusortError *err)
{
	uint32		posted = pg_atomic_read_u32(&slot->posted);
	bool		there = device_job_is_open(&slot->into);

	pg_read_barrier();
	/* until it has begun, and while it grows, its memory is not to be touched */
	if (there && (into->phase == JOB_NONE || into->call != NULL))
		return GPUSORT_OK;
	if (job->started != posted && (!there || into->phase != JOB_UP))
	{
		strlcpy(err->message, "the sort that these rows belong to is over", sizeof(err->message));
		return GPUSORT_BAD_CALL;
	}
	while (job->started != posted &&
		   feed_has_room(into_slot, into, &slot->up[job->started % slot->nchunks]))
	{
		TRY(copy_chunk_up(api, slot, job, into_slot, into, err));
		*found |= DEVICE_STEP_PROGRESS;
		if (fault_stops(slot, job, FAULT_UP))
			return GPUSORT_OK;
	}
	TRY(take_chunks(api, slot, job, found, err));
	if (job->finished != job->started)
		*found |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}
