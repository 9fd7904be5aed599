/*
 * process_job.c
 *	  One job's steps in the device process.
 *
 * Everything that a job does on the device happens on one stream in this order:
 * copies up, sort, (gather,) copies down; events tell when a chunk of the staging
 * pool is free again on the way up, and full on the way down.  Streams and events
 * belong to the slot and are kept for its next job.
 *
 * A device that does not get on with what it was given is not waited for without
 * end: after a time that no work takes, the process says so to the supervisor, which
 * ends it.
 */
#include "postgres.h"

#include "device/admission/queue.h"
#include "device/clock.h"
#include "device/fault.h"
#include "device/process/process_job.h"

static ProcessJob jobs[DEVICE_SLOTS];

/* ------------------------------------------------------------------------
 * Beginning and end
 * ------------------------------------------------------------------------
 */

/* The slot's last job was on another device. */
static void
forget_device(const DeviceApi *api, ProcessJob *job)
{
	const GpusortCudaApi *cuda = api->cuda;

	job_call_lock(job, job->device);
	cuda->stream_destroy(job->stream);
	for (int c = 0; c < DEVICE_JOB_CHUNKS; c++)
		cuda->event_destroy(job->chunk_event[c]);
	cuda->event_destroy(job->up_begin);
	cuda->event_destroy(job->up_end);
	cuda->event_destroy(job->sort_begin);
	cuda->event_destroy(job->sort_end);
	cuda->event_destroy(job->down_begin);
	process_memory_unlock(job->device);
	job->prepared = false;
}

static GpusortStatus
prepare_slot(const DeviceApi *api, ProcessJob *job, int device, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[device];

	if (job->prepared)
		return GPUSORT_OK;
	TRY(cuda->stream_create(context, &job->stream, err));
	for (int c = 0; c < DEVICE_JOB_CHUNKS; c++)
		TRY(cuda->event_create(context, &job->chunk_event[c], err));
	TRY(cuda->event_create(context, &job->up_begin, err));
	TRY(cuda->event_create(context, &job->up_end, err));
	TRY(cuda->event_create(context, &job->sort_begin, err));
	TRY(cuda->event_create(context, &job->sort_end, err));
	TRY(cuda->event_create(context, &job->down_begin, err));
	job->device = device;
	job->prepared = true;
	return GPUSORT_OK;
}

/* What a job really has is told to those who come later. */
static GpusortStatus
begin_job(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortContext *context = api->contexts[slot->device];
	GpusortMemory before;
	GpusortMemory after;
	GpusortStatus status;

	TRY(fault_error(slot, FAULT_START, err));
	if (job->prepared && job->device != slot->device)
		forget_device(api, job);
	job_call_lock(job, slot->device);
	status = prepare_slot(api, job, slot->device, err);
	if (status == GPUSORT_OK && !slot->feeds)
	{
		api->cuda->device_memory(context, 0, &before);
		status = job_allocate(api, slot, job, err);
		api->cuda->device_memory(context, 0, &after);
		slot->allocated = after.used - before.used;
	}
	process_memory_unlock(slot->device);
	return status;
}

/* Says so to the backend; ends the process if the device can no longer be used. */
static void
fail_job(DeviceSlot *slot, ProcessJob *job, GpusortStatus status, const GpusortError *err)
{
	slot->error = *err;
	if (slot->error.message[0] == '\0')
		snprintf(slot->error.message, sizeof(slot->error.message), "status %d", (int) status);
	pg_write_barrier();
	pg_atomic_write_u32(&slot->status, DEVICE_ERROR);
	SetLatch(slot->latch);
	job->phase = JOB_OVER;
	if (status == GPUSORT_CUDA_ERROR || status == GPUSORT_NO_DEVICE)
		device_process_fails("CUDA error on device %d: %s (%s:%d)",
							 device_shared->devices[slot->device].index,
							 err->message, err->file, (int) err->line);
}

/*
 * For how long jobs hold what they have, by job and by byte, the last ones
 * counting most: by this backends tell how long they would wait (admission.c).
 */
static void
note_hold(const DeviceSlot *slot)
{
	static double bytes = 0;
	static double byte_us = 0;
	double		hold_us = (double) (device_now_us() - slot->opened_us);

	bytes = bytes * 7 / 8 + (double) slot->device_bytes;
	byte_us = byte_us * 7 / 8 + (double) slot->device_bytes * hold_us;
	device_shared->byte_hold_us = byte_us / bytes;
	device_shared->hold_us += (hold_us - device_shared->hold_us) / 8;
}

/* The slot goes back when the device is through with its memory. */
static int
close_job(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortStatus status = GPUSORT_OK;

	if (job->phase != JOB_NONE)
	{
		bool		through;

		/* a feeder's copies are on another's stream */
		if (slot->feeds)
			status = job_look_up(api, slot, job, &through, err);
		if (status == GPUSORT_OK && slot->feeds && job->finished != job->started)
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
	if (!slot->feeds)
		note_hold(slot);
	device_shared->devices[slot->device].last_used_us = device_now_us();
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->state, device_slot_word(0, DEVICE_SLOT_FREE));
	device_wake_first();
	return DEVICE_STEP_PROGRESS;
}

/* Has the device had the time since then, and more than it may take? */
static void
check_since(const DeviceSlot *slot, uint64 since)
{
	int			patience_ms = fault_device_patience_ms(slot);

	if (device_now_us() - since > (uint64) patience_ms * 1000)
		device_process_hangs(slot->device, patience_ms);
}

/* The job waits for its call.  A call that waits for a thread, or for another job's call, has not begun. */
static void
check_call_patience(const DeviceSlot *slot, const ProcessJob *job)
{
	uint64		since = job->call_since;

	if (since != 0)
		check_since(slot, since);
}

/* The job waits for the device. */
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
	int			found = 0;

	/* a slot of an older generation is not for us */
	if (word >> 2 != pg_atomic_read_u32(&device_shared->generation) ||
		device_slot_state(word) == DEVICE_SLOT_FREE)
		return 0;
	pg_read_barrier();
	if (job->call != NULL && !job_call_over(job))
	{
		check_call_patience(slot, job);
		return DEVICE_STEP_IN_FLIGHT;
	}
	err.status = 0;
	err.message[0] = '\0';
	err.file[0] = '\0';
	err.line = 0;
	device_shared->at_device = device_shared->devices[slot->device].index;
	if (job->call != NULL)
	{
		found = DEVICE_STEP_PROGRESS;
		job->call = NULL;
		status = job->call_status;
		err = job->call_error;
	}

	if (device_slot_state(word) == DEVICE_SLOT_CLOSING && !gpusort_is_broken(status))
		found = fault_lingers(slot, job) ? DEVICE_STEP_IN_FLIGHT : close_job(api, slot, job, &err);
	else
	{
		if (job->phase == JOB_NONE)
		{
			found = DEVICE_STEP_PROGRESS;
			job->phase = JOB_UP;
			job_call(slot_no, begin_job);
		}
		if (status == GPUSORT_OK && job->call == NULL && job->phase == JOB_UP && slot->feeds)
			status = job_step_feed(api, slot, job, &device_shared->slots[slot->into.slot],
								   &jobs[slot->into.slot], &found, &err);
		else if (status == GPUSORT_OK && job->call == NULL && job->phase == JOB_UP)
			status = job_step_up(api, slot, job, &found, &err);
		if (status == GPUSORT_OK && job->call == NULL && job->phase == JOB_DOWN)
			status = job_step_down(api, slot, job, &found, &err);
		if (status != GPUSORT_OK)
		{
			fail_job(slot, job, status, &err);
			found |= DEVICE_STEP_PROGRESS;
		}
		if (job->call == NULL && job->phase == JOB_HANGS)
			found = fault_stalls(slot) ? DEVICE_STEP_IN_FLIGHT : 0;
	}
	device_shared->at_device = -1;
	if (found == DEVICE_STEP_IN_FLIGHT)
		check_patience(slot, job);
	else
		job->waiting_since = 0;
	return found;
}
