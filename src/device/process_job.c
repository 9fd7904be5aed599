/*
 * process_job.c
 *	  One job's steps in the device process.
 *
 * Everything that a job does on the device happens on one stream in this order:
 * copies up, sort, (gather,) copies down; events tell when a chunk of the staging
 * pool is free again on the way up, and full on the way down.
 *
 * Memory policy: all device memory of a job is allocated when it begins, for the
 * number of rows that it was opened for, so that a job that begins cannot run
 * out of memory later: in DEVICE_ROWS the device has the only copy of the rows.
 * Streams and events belong to the slot and are kept for its next job.
 */
#include "postgres.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/service.h"

typedef enum JobPhase
{
	JOB_NONE,					/* no job in this slot */
	JOB_UP,
	JOB_DOWN,
	JOB_OVER					/* done, failed, or hanging on a test's order */
} JobPhase;

/* Buffers that gathered rows wait in for their copy. */
#define GATHER_BUFFERS		2

typedef struct ProcessJob
{
	JobPhase	phase;
	bool		prepared;		/* stream and events exist on device */
	int			device;
	GpusortStream *stream;
	GpusortEvent *chunk_event[DEVICE_JOB_CHUNKS];
	GpusortEvent *sort_begin;
	GpusortEvent *sort_end;

	/* device memory */
	char	   *keys;
	uint32	   *words;
	char	   *rows;
	char	   *keys_out;
	uint32	   *order;
	uint64	   *out_offset;
	char	   *scratch;
	uint64		scratch_bytes;
	char	   *gathered[GATHER_BUFFERS];

	int			algorithm;
	uint64		n;				/* rows up so far */
	uint64		row_bytes;
	uint32		started;		/* chunks whose copies are asked for, this way */
	uint32		finished;		/* ... and are through */
	uint32		total_down;		/* chunks that the result makes */
	uint32		rows_per_chunk; /* DEVICE_KEYS */
	uint32	   *chunk_row;		/* DEVICE_ROWS: first sorted row of each chunk */
	GpusortGather gather;
} ProcessJob;

static ProcessJob jobs[DEVICE_SLOTS];

#define TRY(call) \
	do { \
		GpusortStatus try_status = (call); \
		if (try_status != GPUSORT_OK) \
			return try_status; \
	} while (0)

/* ------------------------------------------------------------------------
 * Beginning and end
 * ------------------------------------------------------------------------
 */
static GpusortStatus
fault(const DeviceSlot *slot, DeviceFault which, GpusortStatus status, GpusortError *err)
{
	if (slot->spec.fault != which)
		return GPUSORT_OK;
	err->status = status;
	strlcpy(err->message, "fault injected by gpusort.device_fault", sizeof(err->message));
	return status;
}

/* Faults that end the process, or the job's progress; true for the latter. */
static bool
stop_here(const DeviceSlot *slot, DeviceFault kill_fault, DeviceFault hang_fault)
{
	if (slot->spec.fault == kill_fault)
		kill(getpid(), SIGKILL);
	return slot->spec.fault == hang_fault;
}

static GpusortStatus
prepare_slot(const DeviceApi *api, ProcessJob *job, int device, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[device];

	if (job->prepared && job->device == device)
		return GPUSORT_OK;
	if (job->prepared)
	{
		cuda->stream_destroy(job->stream);
		for (int c = 0; c < DEVICE_JOB_CHUNKS; c++)
			cuda->event_destroy(job->chunk_event[c]);
		cuda->event_destroy(job->sort_begin);
		cuda->event_destroy(job->sort_end);
		job->prepared = false;
	}
	TRY(cuda->stream_create(context, &job->stream, err));
	for (int c = 0; c < DEVICE_JOB_CHUNKS; c++)
		TRY(cuda->event_create(context, &job->chunk_event[c], err));
	TRY(cuda->event_create(context, &job->sort_begin, err));
	TRY(cuda->event_create(context, &job->sort_end, err));
	job->device = device;
	job->prepared = true;
	return GPUSORT_OK;
}

static void
describe_sort(const DeviceSlot *slot, const ProcessJob *job, uint64 n, GpusortJob *sort)
{
	const DeviceJobSpec *spec = &slot->spec;

	memset(sort, 0, sizeof(*sort));
	sort->n = n;
	sort->key_bits = spec->key_width;
	sort->begin_bit = 0;
	sort->end_bit = spec->key_bits;
	sort->facts = GPUSORT_JOB_CLOBBER_INPUT;
	if (spec->mode == DEVICE_KEYS && !spec->no_rids)
		sort->facts |= GPUSORT_FACT_RIDS_ASCENDING;
	if (spec->have_range)
	{
		sort->facts |= GPUSORT_FACT_KEY_RANGE;
		sort->key_max = spec->key_max;
	}
	sort->output = (spec->no_rids ? 0 : GPUSORT_OUT_RIDS) |
		(spec->want_keys ? GPUSORT_OUT_KEYS : 0);
	sort->keys = job->keys;
	sort->rids = spec->mode == DEVICE_KEYS && !spec->no_rids ? job->words : NULL;
	sort->keys_out = spec->want_keys ? job->keys_out : NULL;
	sort->rids_out = job->order;
	sort->scratch = job->scratch;
	sort->scratch_bytes = job->scratch_bytes;
	sort->cancel = &slot->cancel;
}

static void
describe_gather(const DeviceSlot *slot, ProcessJob *job, uint64 n)
{
	GpusortGather *g = &job->gather;
	Size		chunk_size = device_shared->chunk_size;

	memset(g, 0, sizeof(*g));
	g->n = n;
	g->rows = job->rows;
	g->rows_units = job->row_bytes / 8;
	g->row_offset = job->words;
	g->order = job->order;
	g->out_offset = job->out_offset;
	g->chunk_units = chunk_size / 8;
	/* two neighbouring chunks hold more than one chunk's bytes together */
	g->max_chunks = (uint32) (2 * slot->spec.max_row_bytes / chunk_size + 2);
	g->chunk_row = job->chunk_row;
	g->scratch = job->scratch;
	g->scratch_bytes = job->scratch_bytes;
	g->cancel = &slot->cancel;
}

/* Chooses the algorithm and says how much scratch the job takes. */
static GpusortStatus
plan_scratch(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[slot->device];
	GpusortStatus status = GPUSORT_UNSUPPORTED;
	GpusortJob	sort;
	const char *why;
	int			first = Max(slot->spec.algorithm, 0);
	int			last = slot->spec.algorithm < 0 ? device_shared->nalgorithms - 1 : first;

	describe_sort(slot, job, slot->spec.max_rows, &sort);
	for (int a = first; a <= last && status != GPUSORT_OK; a++)
	{
		if (!slot->spec.no_rids &&
			(!device_shared->algorithms[a].stable || !device_shared->algorithms[a].rids))
			continue;
		job->algorithm = a;
		status = cuda->sort_scratch(context, a, &sort, &job->scratch_bytes, &why, err);
		if (status != GPUSORT_OK && status != GPUSORT_UNSUPPORTED)
			return status;
	}
	if (status != GPUSORT_OK)
	{
		if (err->message[0] == '\0')
			strlcpy(err->message, "no algorithm of the device can sort this",
					sizeof(err->message));
		return status;
	}
	if (slot->spec.mode == DEVICE_ROWS)
	{
		uint64		bytes;

		job->row_bytes = slot->spec.max_row_bytes;
		describe_gather(slot, job, slot->spec.max_rows);
		job->row_bytes = 0;
		TRY(cuda->gather_scratch(context, &job->gather, &bytes, err));
		job->scratch_bytes = Max(job->scratch_bytes, bytes);
	}
	return GPUSORT_OK;
}

static GpusortStatus
allocate(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	GpusortContext *context = api->contexts[slot->device];
	uint64		n = spec->max_rows;
	uint64		key_bytes = n * (spec->key_width / 8);

#define ALLOC(p, bytes) \
	TRY(api->cuda->device_alloc(context, (bytes), (void **) &(p), err))

	TRY(fault(slot, DEVICE_FAULT_MEMORY_START, GPUSORT_NO_MEMORY, err));
	TRY(prepare_slot(api, job, slot->device, err));
	TRY(plan_scratch(api, slot, job, err));
	ALLOC(job->keys, key_bytes);
	if (!spec->no_rids)
	{
		ALLOC(job->words, (n + 1) * sizeof(uint32));
		ALLOC(job->order, n * sizeof(uint32));
	}
	if (spec->want_keys)
		ALLOC(job->keys_out, key_bytes);
	ALLOC(job->scratch, job->scratch_bytes);
	if (spec->mode == DEVICE_ROWS)
	{
		ALLOC(job->rows, spec->max_row_bytes);
		ALLOC(job->out_offset, (n + 1) * sizeof(uint64));
		for (int b = 0; b < GATHER_BUFFERS; b++)
			ALLOC(job->gathered[b], device_shared->chunk_size);
		job->chunk_row = malloc(((Size) job->gather.max_chunks + 1) * sizeof(uint32));
		if (job->chunk_row == NULL)
		{
			strlcpy(err->message, "no host memory", sizeof(err->message));
			return GPUSORT_NO_MEMORY;
		}
	}
#undef ALLOC
	return GPUSORT_OK;
}

static void
release(const DeviceApi *api, ProcessJob *job)
{
	GpusortContext *context = api->contexts[job->device];
	void	   *mine[] = {job->keys, job->words, job->rows, job->keys_out, job->order,
	job->out_offset, job->scratch, job->gathered[0], job->gathered[1]};

	for (int i = 0; i < (int) lengthof(mine); i++)
	{
		if (mine[i] != NULL)
			api->cuda->device_free(context, mine[i]);
	}
	free(job->chunk_row);
	memset(&job->keys, 0, sizeof(*job) - offsetof(ProcessJob, keys));
	job->phase = JOB_NONE;
}

/* Says so to the backend; after a CUDA error, ends the process. */
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
	if (status == GPUSORT_CUDA_ERROR)
	{
		snprintf(device_shared->why_not, sizeof(device_shared->why_not), "CUDA error: %s (%s:%d)",
				 err->message, err->file, (int) err->line);
		_exit(1);
	}
}

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */
static GpusortStatus
copy_chunk_up(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	const DeviceJobSpec *spec = &slot->spec;
	DeviceChunkDesc desc = slot->up[job->started % slot->nchunks];
	char	   *chunk = device_chunk(slot, job->started);
	uint64		width = spec->key_width / 8;

	if (job->n + desc.rows > spec->max_rows ||
		job->row_bytes + desc.row_bytes > spec->max_row_bytes ||
		(Size) desc.rows_at + desc.row_bytes > device_shared->chunk_size)
	{
		strlcpy(err->message, "more rows than the job was opened for", sizeof(err->message));
		return GPUSORT_BAD_CALL;
	}
	if (job->started > 0)
		TRY(fault(slot, DEVICE_FAULT_ERROR_UP, GPUSORT_CUDA_ERROR, err));
	TRY(cuda->copy_in(job->stream, job->keys + job->n * width, chunk,
					  desc.rows * width, err));
	if (!spec->no_rids)
		TRY(cuda->copy_in(job->stream, job->words + job->n, chunk + desc.words_at,
						  desc.rows * sizeof(uint32), err));
	if (desc.row_bytes > 0)
		TRY(cuda->copy_in(job->stream, job->rows + job->row_bytes, chunk + desc.rows_at,
						  desc.row_bytes, err));
	TRY(cuda->event_record(job->chunk_event[job->started % slot->nchunks], job->stream, err));
	job->n += desc.rows;
	job->row_bytes += desc.row_bytes;
	job->started++;
	return GPUSORT_OK;
}

/* The row after the last starts where the rows end. */
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
	GpusortJob	sort;

	TRY(fault(slot, DEVICE_FAULT_MEMORY_SORT, GPUSORT_NO_MEMORY, err));
	TRY(fault(slot, DEVICE_FAULT_ERROR_SORT, GPUSORT_CUDA_ERROR, err));
	if (spec->mode == DEVICE_ROWS)
	{
		/* the word travels through the first chunk, which must be free */
		TRY(cuda->stream_wait(job->stream, err));
		TRY(close_rows(api, slot, job, err));
	}
	describe_sort(slot, job, job->n, &sort);
	TRY(cuda->event_record(job->sort_begin, job->stream, err));
	TRY(cuda->sort_run(job->stream, job->algorithm, &sort, NULL, err));
	TRY(cuda->event_record(job->sort_end, job->stream, err));

	job->started = job->finished = 0;
	if (spec->mode == DEVICE_ROWS)
	{
		describe_gather(slot, job, job->n);
		TRY(cuda->gather_plan(job->stream, &job->gather, &job->total_down, err));
	}
	else
	{
		uint32		row = (spec->no_rids ? 0 : sizeof(uint32)) +
			(spec->want_keys ? spec->key_width / 8 : 0);

		job->rows_per_chunk = (uint32) ((device_shared->chunk_size - DEVICE_PART_ALIGN) / row);
		job->total_down = (uint32) ((job->n + job->rows_per_chunk - 1) / job->rows_per_chunk);
	}
	strlcpy(slot->cost.algorithm, device_shared->algorithms[job->algorithm].name,
			sizeof(slot->cost.algorithm));
	job->phase = JOB_DOWN;
	pg_atomic_write_u32(&slot->status, DEVICE_SENDING);
	return GPUSORT_OK;
}

static GpusortStatus
step_up(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *found, GpusortError *err)
{
	/* the command first: it comes after all that was posted */
	uint32		command = pg_atomic_read_u32(&slot->command);
	uint32		posted;
	bool		through = false;

	pg_read_barrier();
	posted = pg_atomic_read_u32(&slot->posted);
	pg_read_barrier();
	while (job->started != posted)
	{
		TRY(copy_chunk_up(api, slot, job, err));
		*found |= DEVICE_STEP_PROGRESS;
		if (stop_here(slot, DEVICE_FAULT_KILL_UP, DEVICE_FAULT_HANG_UP))
		{
			job->phase = JOB_OVER;
			return GPUSORT_OK;
		}
	}
	if (command == DEVICE_SORT)
	{
		*found |= DEVICE_STEP_PROGRESS;
		if (stop_here(slot, DEVICE_FAULT_KILL_SORT, DEVICE_FAULT_HANG_SORT))
		{
			job->phase = JOB_OVER;
			return GPUSORT_OK;
		}
		return start_sort(api, slot, job, err);
	}

	while (job->finished != job->started)
	{
		GpusortStatus status =
			api->cuda->event_poll(job->chunk_event[job->finished % slot->nchunks], err);

		if (status == GPUSORT_NOT_READY)
			break;
		TRY(status);
		job->finished++;
		through = true;
	}
	if (through)
	{
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->taken, job->finished);
		SetLatch(slot->latch);
		*found |= DEVICE_STEP_PROGRESS;
	}
	if (job->finished != job->started)
		*found |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */
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

/* A test's order: the first chunk of the result is made wrong. */
static void
corrupt_chunk(const DeviceSlot *slot)
{
	char	   *chunk = device_chunk(slot, 0);
	const DeviceChunkDesc *desc = &slot->down[0];

	if (slot->spec.no_rids)
		chunk[0] ^= 1;
	else if (slot->spec.mode == DEVICE_KEYS)
	{
		uint32	   *rids = (uint32 *) (chunk + desc->words_at);

		rids[0] = rids[desc->rows - 1];
	}
	else
		chunk[16] ^= 1;			/* past a row's header */
}

static GpusortStatus
step_down(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, int *found, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	uint32		read = pg_atomic_read_u32(&slot->read);
	bool		through = false;

	pg_memory_barrier();
	while (job->started < job->total_down && job->started - read < slot->nchunks)
	{
		if (job->started > 0)
			TRY(fault(slot, DEVICE_FAULT_ERROR_DOWN, GPUSORT_CUDA_ERROR, err));
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
		{
			TRY(cuda->event_elapsed(job->sort_begin, job->sort_end, &slot->cost.sort_us, err));
			if (slot->spec.fault == DEVICE_FAULT_CORRUPT)
				corrupt_chunk(slot);
		}
		job->finished++;
		through = true;
	}
	if (through)
	{
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->made, job->finished);
		SetLatch(slot->latch);
		*found |= DEVICE_STEP_PROGRESS;
		if (stop_here(slot, DEVICE_FAULT_KILL_DOWN, DEVICE_FAULT_HANG_DOWN))
			job->phase = JOB_OVER;
	}
	if (job->finished == job->total_down && job->phase == JOB_DOWN)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&slot->status, DEVICE_DONE);
		pg_atomic_fetch_add_u32(&device_shared->finished, 1);
		SetLatch(slot->latch);
		job->phase = JOB_OVER;
	}
	if (job->finished != job->started)
		*found |= DEVICE_STEP_IN_FLIGHT;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Both
 * ------------------------------------------------------------------------
 */
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
	err.status = 0;
	err.message[0] = '\0';
	err.file[0] = '\0';
	err.line = 0;

	if (device_slot_state(word) == DEVICE_SLOT_CLOSING)
	{
		if (job->phase != JOB_NONE)
		{
			if (job->prepared)
				status = api->cuda->stream_poll(job->stream, &err);
			if (status == GPUSORT_NOT_READY)
				return DEVICE_STEP_IN_FLIGHT;
			release(api, job);
			if (status == GPUSORT_CUDA_ERROR)
				fail_job(slot, job, status, &err);
		}
		pg_memory_barrier();
		pg_atomic_write_u32(&slot->state, device_slot_word(0, DEVICE_SLOT_FREE));
		return DEVICE_STEP_PROGRESS;
	}

	if (job->phase == JOB_NONE)
	{
		found = DEVICE_STEP_PROGRESS;
		job->phase = JOB_UP;
		status = allocate(api, slot, job, &err);
	}
	if (status == GPUSORT_OK && job->phase == JOB_UP)
		status = step_up(api, slot, job, &found, &err);
	if (status == GPUSORT_OK && job->phase == JOB_DOWN)
		status = step_down(api, slot, job, &found, &err);
	if (status != GPUSORT_OK)
	{
		fail_job(slot, job, status, &err);
		found |= DEVICE_STEP_PROGRESS;
	}
	return found;
}
