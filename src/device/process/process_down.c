/*
 * process_down.c
 *	  A job's result: chunks go down as far as the backend has read them.
 */
#include "postgres.h"

#include "device/fault.h"
#include "device/process/process_job.h"

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
			TRY(cuda->event_record(job->down_begin, job->stream, err));
		/* how long the rows are only the device knows: nearly a whole chunk */
		TRY(cuda->copy_out(job->stream, chunk, gathered, device_shared->chunk_size, err));
		desc->rows = last - first;
		desc->row_bytes = (uint32) device_shared->chunk_size;
	}
	else
	{
		uint64		first = (uint64) job->started * job->rows_per_chunk;
		uint64		width = spec->want_keys ? spec->key_width / 8 : 0;

		desc->rows = (uint32) Min(job->rows_per_chunk, job->n - first);
		desc->words_at = device_part(desc->rows * width);
		desc->rows_at = desc->words_at + (spec->keys_only ? 0 : desc->rows * sizeof(uint32));
		if (job->started == 0)
			TRY(cuda->event_record(job->down_begin, job->stream, err));
		if (width > 0)
			TRY(cuda->copy_out(job->stream, chunk, job->keys_out + first * width,
							   desc->rows * width, err));
		if (!spec->keys_only)
			TRY(cuda->copy_out(job->stream, chunk + desc->words_at, job->order + first,
							   desc->rows * sizeof(uint32), err));
	}
	TRY(cuda->event_record(job->chunk_event[job->started % slot->nchunks], job->stream, err));
	if (job->started == 0)
		slot->times.down_bytes = (double) desc->rows_at + desc->row_bytes;
	pg_atomic_fetch_add_u64(&device_counters(slot->device)->bytes_down,
							desc->row_bytes + (spec->mode == DEVICE_ROWS ? 0 : desc->rows_at));
	job->started++;
	return GPUSORT_OK;
}

/* What the job took, when its first chunk is through. */
static GpusortStatus
read_times(const DeviceApi *api, const ProcessJob *job, DeviceJobTimes *times, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;

	TRY(cuda->event_elapsed(job->up_begin, job->up_end, &times->up_us, err));
	TRY(cuda->event_elapsed(job->sort_begin, job->sort_end, &times->sort_us, err));
	return cuda->event_elapsed(job->down_begin, job->chunk_event[0], &times->down_us, err);
}

GpusortStatus
job_step_down(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *found, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	uint32		read = pg_atomic_read_u32(&slot->read);
	bool		through = false;

	pg_memory_barrier();
	while (job->started < job->total_down && job->started - read < slot->nchunks)
	{
		if (job->started > 0)
			TRY(fault_error(slot, FAULT_DOWN, err));
		TRY(copy_chunk_down(api, slot, job, err));
		*found |= DEVICE_STEP_PROGRESS;
	}
	while (job->finished != job->started)
	{
		GpusortStatus status =
			cuda->event_poll(job->chunk_event[job->finished % slot->nchunks], err);

		if (status == GPUSORT_NOT_READY)
			break;
		TRY(status);
		if (job->finished == 0)
			TRY(read_times(api, job, &slot->times, err));
		fault_corrupt(slot, job->finished);
		job->finished++;
		through = true;
	}
	if (through)
	{
		/* who has seen all chunks would not miss what a fault stops */
		uint32		unseen = job->finished == job->total_down && fault_will_stop(slot, FAULT_DOWN);

		pg_memory_barrier();
		pg_atomic_write_u32(&slot->made, job->finished - unseen);
		SetLatch(slot->latch);
		*found |= DEVICE_STEP_PROGRESS;
		if (fault_stops(slot, job, FAULT_DOWN))
			return GPUSORT_OK;
	}
	if (job->finished == job->total_down)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&slot->status, DEVICE_DONE);
		pg_atomic_fetch_add_u32(&device_shared->finished, 1);
		pg_atomic_fetch_add_u64(&device_counters(slot->device)->done, 1);
		device_shared->failures[device_shared->devices[slot->device].index] = 0;
		SetLatch(slot->latch);
		job->phase = JOB_OVER;
	}
	if (job->finished != job->started)
		*found |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}
