/*
 * client.c
 *	  A backend's side of a GPU job.
 *
 * On error: a job is closed with the memory context in which it was opened, or when the
 * backend exits.  Closing never waits: the device process frees the slot, its chunks and
 * its device memory when the device no longer uses them.
 */
#include "postgres.h"

#include "compat.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "service/service_internal.h"
#include "settings.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

/* Longest wait: bounds the cost of a lost wake-up. */
#define WAIT_TIMEOUT_MS		200

/* Pause between two checks of whether the device process has started. */
#define START_CHECK_MS		2

/* device_job_return(): longest wait, and pause between two checks. */
#define RETURN_PATIENCE_US		1000000
#define RETURN_CHECK_MS			1

/* This backend's jobs. */
static dlist_head open_jobs = DLIST_STATIC_INIT(open_jobs);

/* Waits until the latch is set, or for this time. */
static void
wait_latch(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
					 compat_wait_event("GpuSortDevice"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

DeviceState
device_state(void)
{
	if (gpusort_device_mask == 0)
		return DEVICE_STATE_OFF;
	if (!gpusort_device_allowed)
		return DEVICE_STATE_FORBIDDEN;
	if (device_shared == NULL)
		return DEVICE_STATE_NONE;
	switch ((DeviceServiceState) pg_atomic_read_u32(&device_shared->state))
	{
		case DEVICE_SERVICE_READY:
			pg_read_barrier();
			return DEVICE_STATE_READY;
		case DEVICE_SERVICE_STARTING:
		case DEVICE_SERVICE_IDLE:
			return DEVICE_STATE_IDLE;
		case DEVICE_SERVICE_LEAVING:
			/* an idle process ends at once, and the next one can start then */
			return device_shared->leave ? DEVICE_STATE_NONE : DEVICE_STATE_IDLE;
		case DEVICE_SERVICE_OFF:
			return DEVICE_STATE_OFF;
		case DEVICE_SERVICE_NONE:
			if (device_shared->retry_us != 0 && device_now_us() >= device_shared->retry_us)
				return DEVICE_STATE_IDLE;
			break;
		case DEVICE_SERVICE_DOWN:
			break;
	}
	return DEVICE_STATE_NONE;
}

DeviceState
device_bring_back(double patience_us)
{
	uint64		start = device_now_us();
	DeviceState state = device_state();

	if (state != DEVICE_STATE_IDLE)
		return state;
	if (pg_atomic_read_u32(&device_shared->state) != DEVICE_SERVICE_STARTING)
	{
		pg_atomic_write_u32(&device_shared->asked, 1);
		device_wake_supervisor();
	}
	if (patience_us < device_shared->start_us)
		return state;
	while (state == DEVICE_STATE_IDLE && (double) (device_now_us() - start) < patience_us)
	{
		wait_latch(START_CHECK_MS);
		state = device_state();
	}
	return state;
}

int
device_algorithm(const char *name)
{
	for (int i = 0; i < device_shared->nalgorithms; i++)
	{
		if (strcmp(device_shared->algorithms[i], name) == 0)
			return i;
	}
	return -1;
}

/* The first device's costs, because the device of a job is unknown before its admission. */
const GpusortCosts *
device_costs(void)
{
	return &device_shared->devices[0].costs;
}

unsigned
device_algorithms(void)
{
	unsigned	mask = device_shared->nalgorithms == 0 ? ~0u : 0;

	for (int i = 0; i < device_shared->nalgorithms; i++)
	{
		const Algorithm *algorithm = algorithm_by_name(device_shared->algorithms[i]);

		if (algorithm_on_gpu(algorithm))
			mask |= 1u << algorithm->id;
	}
	return mask;
}

uint64
device_job_bytes(const DeviceJobSpec *spec)
{
	uint64		bytes = gpusort_keys_bytes(device_costs(), spec->max_rows, spec->key_width);

	/* first rows and ends of groups */
	if (spec->drop)
		bytes += spec->max_rows * 2 * sizeof(uint32);
	/* rows, their offsets, and gathered rows */
	if (spec->mode == DEVICE_ROWS)
		bytes += spec->max_row_bytes + spec->max_rows * sizeof(uint64) +
			DEVICE_JOB_CHUNKS * device_shared->chunk_size;
	return bytes;
}

/* ------------------------------------------------------------------------
 * Opening and closing
 * ------------------------------------------------------------------------
 */

/* Closes the slot.  The DeviceJob remains, because the caller reads its statistics. */
static void
job_detach(DeviceJob *job)
{
	DeviceSlot *slot = job->slot;

	if (slot == NULL)
		return;
	job->slot = NULL;
	dlist_delete(&job->node);
	slot->cancel = 1;
	pg_memory_barrier();
	device_close_slot(slot, device_slot_generation(job->word));
}

/* Reset callback of the job's memory context. */
static void
job_callback(void *arg)
{
	job_detach(arg);
}

/* Exit callback of the backend. */
static void
leave_all(int code, Datum arg)
{
	while (!dlist_is_empty(&open_jobs))
		job_detach(dlist_head_element(DeviceJob, node, &open_jobs));
}

/* Creates a job without a slot.  Its memory context will close the slot that it gets. */
static DeviceJob *
job_create(MemoryContext cxt)
{
	static bool registered = false;
	MemoryContext own = AllocSetContextCreate(cxt, "GpuSort device job", ALLOCSET_SMALL_SIZES);
	DeviceJob  *job = MemoryContextAllocZero(own, sizeof(DeviceJob));

	if (!registered)
	{
		before_shmem_exit(leave_all, (Datum) 0);
		registered = true;
	}

	/* register the callback first: an ERROR must not leave a slot open */
	job->callback.func = job_callback;
	job->callback.arg = job;
	job->cxt = own;
	MemoryContextRegisterResetCallback(own, &job->callback);
	return job;
}

/* Completes a new job; without a slot, deletes it and returns NULL. */
static DeviceJob *
job_begin(DeviceJob *job)
{
	if (job->slot == NULL)
	{
		MemoryContextDelete(job->cxt);
		return NULL;
	}
	dlist_push_head(&open_jobs, &job->node);
	job->opened_us = device_now_us();
	device_wake_process();
	return job;
}

DeviceJob *
device_job_open(MemoryContext cxt, const DeviceJobSpec *spec, double patience_us, DeviceState *why)
{
	DeviceJob  *job = job_create(cxt);

	job->slot = device_admit(spec, device_job_bytes(spec), patience_us, &job->word, why);
	return job_begin(job);
}

DeviceJob *
device_job_open_producer(MemoryContext cxt, const DeviceJobName *into)
{
	DeviceJob  *job = job_create(cxt);

	job->slot = device_admit_producer(into);
	/* in the job's generation, so that the producer fails when its job does */
	job->word = into->word;
	return job_begin(job);
}

void
device_job_fail(DeviceJob *job, const char *why)
{
	if (!job->failed)
	{
		job->failed = true;
		strlcpy(job->why, why, sizeof(job->why));
		/* the failure of a producer is counted by its job's owner */
		if (job->slot != NULL && !job->slot->producer.is_one)
		{
			pg_atomic_fetch_add_u64(&device_counters(job->slot->device)->failed, 1);
			device_failures_count(device_shared->devices[job->slot->device].index, job->why, true);
		}
	}
	/* the caller may still read a chunk; device_job_release() closes the slot then */
	if (job->got == job->read)
		job_detach(job);
}

void
device_job_close(DeviceJob *job)
{
	MemoryContextDelete(job->cxt);
}

void
device_job_return(DeviceJob *job)
{
	DeviceSlot *slot = job->slot;
	uint32		closing = device_slot_word(device_slot_generation(job->word), DEVICE_SLOT_CLOSING);
	uint64		start = device_now_us();

	device_job_close(job);
	while (slot != NULL && pg_atomic_read_u32(&slot->state) == closing &&
		   device_now_us() - start < RETURN_PATIENCE_US)
		wait_latch(RETURN_CHECK_MS);
}

/* ------------------------------------------------------------------------
 * Chunks
 * ------------------------------------------------------------------------
 */

/* Has the job failed?  If so, its slot is closed. */
static bool
job_failed(DeviceJob *job)
{
	if (job->failed || job->slot == NULL)
		return true;
	if (pg_atomic_read_u32(&device_shared->generation) != device_slot_generation(job->word))
		device_job_fail(job, "the device process ended");
	else if (pg_atomic_read_u32(&job->slot->status) == DEVICE_ERROR)
	{
		pg_read_barrier();
		device_job_fail(job, job->slot->error.message);
	}
	return job->failed;
}

/* Services requests of other processes; false if the job has failed. */
static bool
job_serve(DeviceJob *job)
{
	if (job->serve != NULL && !job->serve(job->serve_arg))
		device_job_fail(job, "the job that the rows are sent to has failed");
	return !job_failed(job);
}

char *
device_job_next_up(DeviceJob *job)
{
	for (;;)
	{
		if (!job_serve(job))
			return NULL;
		if (job->posted - pg_atomic_read_u32(&job->slot->taken) < job->slot->nchunks)
		{
			pg_memory_barrier();
			job->filling_since = device_now_us();
			return device_chunk(job->slot, job->posted);
		}
		wait_latch(WAIT_TIMEOUT_MS);
	}
}

void
device_job_post(DeviceJob *job, const DeviceChunkDesc *desc)
{
	DeviceSlot *slot = job->slot;

	slot->up[job->posted % slot->nchunks] = *desc;
	job->fill_us += (double) (device_now_us() - job->filling_since);
	job->rows_up += desc->rows;
	job->bytes_up += desc->rows_at + desc->row_bytes;
	pg_write_barrier();
	pg_atomic_write_u32(&slot->posted, ++job->posted);
	device_wake_process();
}

bool
device_job_grow(DeviceJob *job, DeviceJobSpec *spec, const DeviceJobSpec *wanted)
{
	DeviceSlot *slot = job->slot;
	uint64		input = spec->max_rows * (spec->key_width / 8 + sizeof(uint32)) + spec->max_row_bytes;
	uint32		growth;
	bool		ok;

	/* the old memory of the input exists until it is copied to the new memory */
	if (job_failed(job) || !device_reserve(slot, device_job_bytes(wanted) + input))
		return false;
	slot->grow.rows = wanted->max_rows;
	slot->grow.row_bytes = wanted->max_row_bytes;
	pg_write_barrier();
	growth = pg_atomic_add_fetch_u32(&slot->grow.requests, 1);
	device_wake_process();
	while (!job_failed(job) && pg_atomic_read_u32(&slot->grown) != growth)
		wait_latch(WAIT_TIMEOUT_MS);
	if (job->failed)
		return false;
	pg_read_barrier();
	ok = slot->grow_ok;
	if (ok)
		*spec = *wanted;
	slot->device_bytes = device_job_bytes(spec);
	return ok;
}

bool
device_job_drain(DeviceJob *job)
{
	while (job_serve(job) && pg_atomic_read_u32(&job->slot->taken) != job->posted)
		wait_latch(WAIT_TIMEOUT_MS);
	return !job->failed;
}

bool
device_job_wants(DeviceJob *job, uint64 *rows, uint64 *row_bytes)
{
	if (job_failed(job))
		return false;
	*rows = job->slot->want.rows;
	*row_bytes = job->slot->want.row_bytes;
	return true;
}

void
device_job_sort(DeviceJob *job)
{
	if (job_failed(job))
		return;
	pg_write_barrier();
	pg_atomic_write_u32(&job->slot->command, DEVICE_SORT);
	device_wake_process();
}

/* Do the parts that *desc describes lie within a chunk? */
static bool
chunk_is_sound(const DeviceJobSpec *spec, const DeviceChunkDesc *desc)
{
	Size		keys = spec->want_keys ? (Size) desc->rows * (spec->key_width / 8) : 0;
	Size		words = spec->keys_only ? 0 : (Size) desc->rows * sizeof(uint32);

	if (desc->rows == 0 ||
		(Size) desc->rows_at + desc->row_bytes > device_shared->chunk_size)
		return false;
	if (spec->drop && (desc->ends_at % sizeof(uint32) != 0 || keys > desc->ends_at ||
					   (Size) desc->ends_at + desc->rows * sizeof(uint32) > device_shared->chunk_size))
		return false;
	if (spec->mode == DEVICE_ROWS)
		return desc->rows_at % MAXIMUM_ALIGNOF == 0;
	return desc->words_at % sizeof(uint32) == 0 && keys <= desc->words_at &&
		desc->words_at + words <= device_shared->chunk_size;
}

/* The first chunk is here: reads what the device says of the whole result.  False if that is wrong. */
static bool
begin_result(DeviceJob *job)
{
	const DeviceSlot *slot = job->slot;

	job->times = slot->times;
	job->times.algorithm[sizeof(job->times.algorithm) - 1] = '\0';
	job->rows_down = slot->rows_down;
	job->first_us = (double) (device_now_us() - job->opened_us);
	return slot->spec.drop ? job->rows_down <= job->rows_up : job->rows_down == job->rows_up;
}

/* Checks the result's next chunk, of the chunks that were made.  NULL, or what is wrong. */
static const char *
wrong_chunk(DeviceJob *job, const DeviceChunkDesc *desc, uint32 made)
{
	const DeviceJobSpec *spec = &job->slot->spec;
	uint64		left;

	if (made - job->read > (uint32) job->slot->nchunks || !chunk_is_sound(spec, desc))
		return "the device sent an invalid chunk";
	if (job->got == 0 && !begin_result(job))
		return "the device sends a wrong number of rows";
	left = job->rows_down - job->rows_got;
	if (spec->mode == DEVICE_KEYS ? desc->rows != Min(left, device_chunk_rows(spec)) : desc->rows > left)
		return "the device sent a chunk with a wrong number of rows";
	return NULL;
}

char *
device_job_next_down(DeviceJob *job, DeviceChunkDesc *desc)
{
	/* without the command the wait would not end */
	if (job->slot != NULL && pg_atomic_read_u32(&job->slot->command) != DEVICE_SORT)
		elog(ERROR, "gpusort: the result of a job was read before its sort was started");
	for (;;)
	{
		DeviceSlot *slot = job->slot;
		uint32		status;
		uint32		made;

		if (job_failed(job))
			return NULL;
		/* read the status first: DONE is set after the last chunk was made */
		status = pg_atomic_read_u32(&slot->status);
		pg_read_barrier();
		made = pg_atomic_read_u32(&slot->made);
		if (made != job->got)
		{
			const char *wrong;

			pg_memory_barrier();
			*desc = slot->down[job->got % slot->nchunks];
			wrong = wrong_chunk(job, desc, made);
			if (wrong != NULL)
			{
				device_job_fail(job, wrong);
				return NULL;
			}
			job->rows_got += desc->rows;
			return device_chunk(slot, job->got++);
		}
		if (status == DEVICE_DONE)
		{
			/* rows_down is 0 if no chunk has come */
			if (job->rows_got != job->rows_down || (job->got == 0 && job->rows_up > 0))
				device_job_fail(job, "the device sent too few rows");
			return NULL;
		}
		wait_latch(WAIT_TIMEOUT_MS);
	}
}

void
device_job_release(DeviceJob *job)
{
	job->read++;
	if (job->failed)
		job_detach(job);
	if (job_failed(job))
		return;
	pg_memory_barrier();
	pg_atomic_write_u32(&job->slot->read, job->read);
	device_wake_process();
}

/* ------------------------------------------------------------------------
 * Chunks of DEVICE_KEYS
 * ------------------------------------------------------------------------
 */

/* Byte offset of the row ids in a chunk of this number of rows. */
static uint32
rids_at(const DeviceJob *job, size_t rows)
{
	return device_part((uint32) (rows * (job->slot->spec.key_width / 8)));
}

bool
key_chunk_next_up(DeviceJob *job, size_t rows, KeyChunk *chunk)
{
	chunk->keys = device_job_next_up(job);
	if (chunk->keys == NULL)
		return false;
	Assert(rows <= key_chunk_rows(&job->slot->spec));
	chunk->rows = (uint32) rows;
	chunk->rids = job->slot->spec.keys_only ? NULL : (uint32 *) (chunk->keys + rids_at(job, rows));
	return true;
}

void
key_chunk_post(DeviceJob *job, const KeyChunk *chunk)
{
	DeviceChunkDesc desc = {0};

	desc.rows = chunk->rows;
	desc.words_at = rids_at(job, chunk->rows);
	desc.rows_at = desc.words_at + (chunk->rids == NULL ? 0 : chunk->rows * sizeof(uint32));
	device_job_post(job, &desc);
}

bool
key_chunk_next_down(DeviceJob *job, KeyChunk *chunk)
{
	DeviceChunkDesc desc;
	char	   *start = device_job_next_down(job, &desc);
	const DeviceJobSpec *spec;

	if (start == NULL)
		return false;
	spec = &job->slot->spec;
	chunk->rows = desc.rows;
	chunk->keys = start;
	chunk->rids = spec->keys_only ? NULL : (uint32 *) (start + desc.words_at);
	chunk->ends = spec->drop ? (uint32 *) (start + desc.ends_at) : NULL;
	chunk->bytes = desc.rows_at + desc.row_bytes;
	return true;
}
