/*
 * process_down.c
 *	  A job's result: chunks go down as far as the backend has read them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "device/process_job.h"

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
		desc->rows_at = desc->words_at + (spec->no_rids ? 0 : desc->rows * sizeof(uint32));
		if (width > 0)
			TRY(cuda->copy_out(job->stream, chunk, job->keys_out + first * width,
							   desc->rows * width, err));
		if (!spec->no_rids)
			TRY(cuda->copy_out(job->stream, chunk + desc->words_at, job->order + first,
							   desc->rows * sizeof(uint32), err));
	}
	TRY(cuda->event_record(job->chunk_event[job->started % slot->nchunks], job->stream, err));
	job->started++;
	return GPUSORT_OK;
}

/* A test's order: keys and rids of a chunk are made wrong. */
static void
corrupt_keys(const DeviceSlot *slot, uint32 counter)
{
	DeviceFault fault = slot->spec.fault;
	const DeviceChunkDesc *desc = &slot->down[counter % slot->nchunks];
	char	   *keys = device_chunk(slot, counter);
	uint32	   *rids = (uint32 *) (keys + desc->words_at);
	Size		width = slot->spec.key_width / 8;

	if (slot->spec.no_rids && fault == DEVICE_FAULT_CORRUPT_LATE)
		memcpy(keys + width, keys, width);
	else if (slot->spec.no_rids)
		keys[fault == DEVICE_FAULT_CORRUPT_BIT ? width - 1 : 0] ^=
			fault == DEVICE_FAULT_CORRUPT_BIT ? 0x80 : 1;
	else if (fault == DEVICE_FAULT_CORRUPT_LATE)
		rids[0] = 0;			/* the input's first row */
	else if (fault == DEVICE_FAULT_CORRUPT_BIT)
		rids[0] ^= 0x80000000;
	else
		rids[0] = rids[desc->rows - 1];
}

/* Likewise a row; one that comes twice is the first chunk's first. */
static void
corrupt_row(const DeviceSlot *slot, uint32 counter)
{
	static char first[64];
	char	   *row = device_chunk(slot, counter);

	switch (slot->spec.fault)
	{
		case DEVICE_FAULT_CORRUPT_LATE:
			if (counter == 0)
				memcpy(first, row, sizeof(first));
			else if (memcmp(first, row, sizeof(uint32)) == 0)
				memcpy(row, first, Min(sizeof(first), *(uint32 *) row));
			break;
		case DEVICE_FAULT_CORRUPT_BIT:
			((MinimalTuple) row)->t_hoff ^= 0x80;
			break;
		case DEVICE_FAULT_CORRUPT_SIZE:
			((MinimalTuple) row)->t_len = PG_UINT32_MAX;
			break;
		default:
			row[16] ^= 1;		/* past its header */
			break;
	}
}

/* A test's order: a chunk of the result is made wrong. */
static void
corrupt_chunk(DeviceSlot *slot, uint32 counter)
{
	DeviceFault fault = slot->spec.fault;
	DeviceChunkDesc *desc = &slot->down[counter % slot->nchunks];
	bool		late = fault == DEVICE_FAULT_CORRUPT_LATE;

	if (fault < DEVICE_FAULT_CORRUPT || fault > DEVICE_FAULT_CORRUPT_LATE)
		return;
	if (slot->spec.mode == DEVICE_ROWS && late && counter == 0)
		corrupt_row(slot, counter);
	if (counter != (late ? 1 : 0))
		return;
	if (fault == DEVICE_FAULT_CORRUPT_PLACE)
	{
		desc->words_at = (uint32) device_shared->chunk_size - sizeof(uint32);
		desc->rows_at = (uint32) device_shared->chunk_size + MAXIMUM_ALIGNOF;
	}
	else if (fault == DEVICE_FAULT_CORRUPT_COUNT)
		desc->rows++;
	else if (slot->spec.mode == DEVICE_KEYS)
		corrupt_keys(slot, counter);
	else
		corrupt_row(slot, counter);
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
			TRY(job_fault(slot, DEVICE_FAULT_ERROR_DOWN, GPUSORT_CUDA_ERROR, err));
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
			TRY(cuda->event_elapsed(job->sort_begin, job->sort_end, &slot->cost.sort_us, err));
		corrupt_chunk(slot, job->finished);
		job->finished++;
		through = true;
	}
	if (through)
	{
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->made, job->finished);
		SetLatch(slot->latch);
		*found |= DEVICE_STEP_PROGRESS;
		if (job_stops(slot, job, DEVICE_FAULT_KILL_DOWN, DEVICE_FAULT_HANG_DOWN))
			return GPUSORT_OK;
	}
	if (job->finished == job->total_down)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&slot->status, DEVICE_DONE);
		pg_atomic_fetch_add_u32(&device_shared->finished, 1);
		device_shared->failures[device_shared->devices[slot->device].index] = 0;
		SetLatch(slot->latch);
		job->phase = JOB_OVER;
	}
	if (job->finished != job->started)
		*found |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}
