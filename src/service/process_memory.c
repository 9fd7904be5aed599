/*
 * process_memory.c
 *	  Device memory of jobs, and driver calls made by threads.
 *
 * Memory policy: all device memory of a job is allocated when it begins, for the
 * number of rows that it was opened for, so that a job that begins cannot run
 * out of memory later: in DEVICE_ROWS the device has the only copy of the rows.
 * A job that grows gets all of it anew, and what is up already is copied on the device:
 * that takes a thousandth of what the bus took for it, and leaves kernels that know one
 * array of rows, not pieces.  It doubles, so that all copies together are no more than
 * one.  Scratch and output, in which there is nothing yet, are given up before; should
 * there be no room after all they are had again, which blocks that were kept see to.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "service/process_internal.h"
#include "service/protocol.h"

void
job_describe_problem(const DeviceSlot *slot, const ProcessJob *job, uint64 n, GpusortProblem *problem)
{
	const DeviceJobSpec *spec = &slot->spec;

	memset(problem, 0, sizeof(*problem));
	problem->n = n;
	problem->key_width = spec->key_width;
	problem->begin_bit = 0;
	problem->end_bit = spec->key_bits;
	problem->facts = GPUSORT_MAY_CLOBBER_INPUT;
	if (spec->mode == DEVICE_KEYS && !spec->keys_only)
		problem->facts |= GPUSORT_FACT_RIDS_ASCENDING;
	if (spec->distinct)
		problem->facts |= GPUSORT_FACT_DISTINCT_KEYS;
	if (spec->have_range)
	{
		problem->facts |= GPUSORT_FACT_KEY_RANGE;
		problem->key_max = spec->key_max;
	}
	problem->output = (spec->keys_only ? 0 : GPUSORT_OUT_RIDS) |
		(spec->want_keys ? GPUSORT_OUT_KEYS : 0);
	problem->keys = job->keys;
	problem->rids = spec->mode == DEVICE_KEYS && !spec->keys_only ? job->words : NULL;
	problem->keys_out = spec->want_keys ? job->keys_out : NULL;
	problem->rids_out = job->order;
	problem->scratch = job->scratch;
	problem->scratch_bytes = job->scratch_bytes;
	problem->cancel = &slot->cancel;
}

void
job_describe_gather(const DeviceSlot *slot, ProcessJob *job, uint64 n)
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
	g->max_chunks = (uint32) (2 * job->max_row_bytes / chunk_size + 2);
	g->chunk_row = job->chunk_row;
	g->scratch = job->scratch;
	g->scratch_bytes = job->scratch_bytes;
	g->cancel = &slot->cancel;
}

/*
 * Takes the job's algorithm, or if this device cannot run it, the first that it can;
 * says how much scratch that takes.
 */
static GpusortStatus
plan_scratch(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[slot->device];
	GpusortStatus status = GPUSORT_UNSUPPORTED;
	GpusortProblem problem;
	const char *why;
	int			asked = slot->spec.algorithm;
	int			last = slot->spec.no_other ? -1 : device_shared->nalgorithms - 1;

	job_describe_problem(slot, job, job->max_rows, &problem);
	for (int i = asked < 0 ? 0 : -1; i <= last && status != GPUSORT_OK; i++)
	{
		int			a = i < 0 ? asked : i;

		if (!slot->spec.keys_only &&
			(!device_shared->algorithms[a].stable || !device_shared->algorithms[a].rids))
			continue;
		job->algorithm = a;
		status = cuda->sort_scratch(context, a, &problem, &job->scratch_bytes, &why, err);
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
		uint64		row_bytes = job->row_bytes;
		uint64		bytes;

		job->row_bytes = job->max_row_bytes;
		job_describe_gather(slot, job, job->max_rows);
		job->row_bytes = row_bytes;
		TRY(cuda->gather_scratch(context, &job->gather, &bytes, err));
		job->scratch_bytes = Max(job->scratch_bytes, bytes);
	}
	return GPUSORT_OK;
}

/* Gets what the job has not got yet. */
static GpusortStatus
allocate(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	GpusortContext *context = api->contexts[slot->device];
	uint64		n = job->max_rows;
	uint64		key_bytes = n * (spec->key_width / 8);

#define ALLOC(p, bytes) \
	do { \
		if ((p) == NULL) \
			TRY(api->cuda->device_alloc(context, (bytes), (void **) &(p), err)); \
	} while (0)

	TRY(plan_scratch(api, slot, job, err));
	ALLOC(job->keys, key_bytes);
	if (!spec->keys_only)
	{
		ALLOC(job->words, (n + 1) * sizeof(uint32));
		ALLOC(job->order, n * sizeof(uint32));
	}
	if (spec->want_keys)
		ALLOC(job->keys_out, key_bytes);
	ALLOC(job->scratch, job->scratch_bytes);
	if (spec->mode == DEVICE_ROWS)
	{
		ALLOC(job->rows, job->max_row_bytes);
		ALLOC(job->out_offset, (n + 1) * sizeof(uint64));
		for (int b = 0; b < GATHER_BUFFERS; b++)
			ALLOC(job->gathered[b], device_shared->chunk_size);
		if (job->chunk_row == NULL)
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

/* Gives memory back, if there is any at *p. */
static void
give_back(const DeviceApi *api, const ProcessJob *job, void *p)
{
	if (p != NULL)
		api->cuda->device_free(api->contexts[job->device], p);
}

/* Gives back what holds nothing before the sort. */
static void
release_empty(const DeviceApi *api, ProcessJob *job)
{
	give_back(api, job, job->keys_out);
	give_back(api, job, job->order);
	give_back(api, job, job->out_offset);
	give_back(api, job, job->scratch);
	for (int b = 0; b < GATHER_BUFFERS; b++)
		give_back(api, job, job->gathered[b]);
	free(job->chunk_row);
	job->keys_out = job->scratch = NULL;
	job->order = job->chunk_row = NULL;
	job->out_offset = NULL;
	memset(job->gathered, 0, sizeof(job->gathered));
}

/* Gives back what rows are copied to on their way up. */
static void
release_input(const DeviceApi *api, ProcessJob *job)
{
	give_back(api, job, job->keys);
	give_back(api, job, job->words);
	give_back(api, job, job->rows);
	job->keys = job->rows = NULL;
	job->words = NULL;
}

/*
 * Blocks that the library has kept from other jobs may be larger than what is asked
 * for.  Where that makes a job exceed the budget, it gets blocks of its own.
 */
static GpusortStatus
allocate_or_trim(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortStatus status = allocate(api, slot, job, err);

	if (status == GPUSORT_NO_MEMORY)
	{
		release_empty(api, job);
		release_input(api, job);
		api->cuda->device_trim(api->contexts[slot->device]);
		status = allocate(api, slot, job, err);
	}
	return status;
}

GpusortStatus
job_allocate(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	job->max_rows = slot->spec.max_rows;
	job->max_row_bytes = slot->spec.max_row_bytes;
	return allocate_or_trim(api, slot, job, err);
}

static GpusortStatus
copy_input(const DeviceApi *api, const DeviceSlot *slot, const ProcessJob *from, ProcessJob *to,
		   GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;

	TRY(cuda->copy_within(to->stream, to->keys, from->keys,
						  from->n * (slot->spec.key_width / 8), err));
	if (from->words != NULL)
		TRY(cuda->copy_within(to->stream, to->words, from->words, from->n * sizeof(uint32), err));
	if (from->rows != NULL)
		TRY(cuda->copy_within(to->stream, to->rows, from->rows, from->row_bytes, err));
	return cuda->stream_wait(to->stream, err);
}

GpusortStatus
job_grow(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, bool *ok, GpusortError *err)
{
	GpusortContext *context = api->contexts[slot->device];
	ProcessJob	old;
	GpusortMemory before;
	GpusortMemory after;
	GpusortStatus status;

	api->cuda->device_memory(context, 0, &before);
	release_empty(api, job);
	old = *job;
	job->keys = job->rows = NULL;
	job->words = NULL;
	job->max_rows = slot->grow_rows;
	job->max_row_bytes = slot->grow_row_bytes;
	status = allocate_or_trim(api, slot, job, err);
	*ok = status == GPUSORT_OK;
	if (*ok)
	{
		status = copy_input(api, slot, &old, job, err);
		release_input(api, &old);
	}
	else if (gpusort_use_cpu(status))
	{
		release_empty(api, job);
		release_input(api, job);
		*job = old;
		status = allocate(api, slot, job, err);
	}
	api->cuda->device_memory(context, 0, &after);
	slot->allocated = slot->allocated + after.used - before.used;
	return status;
}

void
job_release(const DeviceApi *api, ProcessJob *job)
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

/* ------------------------------------------------------------------------
 * Calls that wait for a device are made beside the loop, by threads.
 *
 * Most of what a job does is asked of its stream and looked at later.  Not so its begin
 * and its growth (device memory may have to be got), and the start of its sort: the library
 * decides by the first kernels' outcome how to go on, and where the rows' chunks are cut is
 * needed on the host.  In the loop such a call would hold all other jobs, also those on
 * other devices, for as long as what is before it on its device takes.  So the job is
 * given to a thread, and the loop goes on with the others; it looks for the call's end as
 * for that of any work under way.
 *
 * While a call is under way the job is the thread's: the loop leaves its slot and its
 * stream alone.  A context's memory, streams and events have a lock for each device, for which
 * the loop never waits: what it would give back it gives back a little later.
 *
 * Threads are started as they are needed, and stay.  They block all signals but those of a crash.  Where none
 * can be started the call is made in the loop.
 *
 * On error: status and error are the call's; what they mean is the loop's to say.
 * ------------------------------------------------------------------------
 */

/* Calls that are made at a time; others wait for one to end. */
#define CALL_THREADS		16

/* Calls that nobody has begun with, in the order in which they came: a ring. */
static int	waiting[DEVICE_SLOTS];
static int	first_waiting = 0;
static int	nwaiting = 0;

static int	nthreads = 0;
static int	nidle = 0;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of all these */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

static const DeviceApi *call_api;
static ProcessJob *call_jobs;

static pthread_mutex_t memory_locks[DEVICE_MAX];

static void
make_call(int slot_no)
{
	ProcessJob *job = &call_jobs[slot_no];

	job->call_since = device_now_us();
	process_crash_blames(device_shared->devices[device_shared->slots[slot_no].device].index);
	job->call_status = job->call(call_api, &device_shared->slots[slot_no], job, &job->call_error);
	process_crash_blames(-1);
	pg_write_barrier();
	pg_atomic_write_u32(&job->call_over, 1);
}

static void *
call_thread(void *arg)
{
	for (;;)
	{
		int			slot_no;

		pthread_mutex_lock(&lock);
		nidle++;
		while (nwaiting == 0)
			pthread_cond_wait(&work, &lock);
		nidle--;
		slot_no = waiting[first_waiting];
		first_waiting = (first_waiting + 1) % DEVICE_SLOTS;
		nwaiting--;
		pthread_mutex_unlock(&lock);
		make_call(slot_no);
	}
	return NULL;
}

/* Another thread; false if there is none. */
static bool
start_thread(void)
{
	pthread_t	thread;
	sigset_t	all;
	sigset_t	old;
	bool		started;

	sigfillset(&all);
	process_crash_unblock(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	started = pthread_create(&thread, NULL, call_thread, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (started)
		pthread_detach(thread);
	return started;
}

void
process_calls_init(const DeviceApi *api, ProcessJob *jobs)
{
	call_api = api;
	call_jobs = jobs;
	for (int d = 0; d < DEVICE_MAX; d++)
		pthread_mutex_init(&memory_locks[d], NULL);
}

void
job_call(int slot_no, JobCall call)
{
	ProcessJob *job = &call_jobs[slot_no];
	bool		here;

	job->call = call;
	job->call_since = 0;
	job->call_error.message[0] = job->call_error.file[0] = '\0';
	job->call_error.line = 0;
	pg_atomic_write_u32(&job->call_over, 0);
	pthread_mutex_lock(&lock);
	waiting[(first_waiting + nwaiting++) % DEVICE_SLOTS] = slot_no;
	if (nwaiting > nidle && nthreads < CALL_THREADS && start_thread())
		nthreads++;
	here = nthreads == 0;
	if (here)
		nwaiting = 0;
	else
		pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	if (here)
		make_call(slot_no);
}

bool
job_call_over(const ProcessJob *job)
{
	if (pg_atomic_read_u32((pg_atomic_uint32 *) &job->call_over) == 0)
		return false;
	pg_read_barrier();
	return true;
}

int
process_calls_last_device(void)
{
	uint64		last = 0;
	int			device = -1;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const ProcessJob *job = &call_jobs[i];

		if (job->call == NULL || job->call_since <= last ||
			pg_atomic_read_u32((pg_atomic_uint32 *) &job->call_over) != 0)
			continue;
		last = job->call_since;
		device = device_shared->devices[device_shared->slots[i].device].index;
	}
	return device;
}

void
job_call_lock(ProcessJob *job, int device)
{
	job->call_since = 0;
	pthread_mutex_lock(&memory_locks[device]);
	job->call_since = device_now_us();
}

bool
process_memory_trylock(int device)
{
	return pthread_mutex_trylock(&memory_locks[device]) == 0;
}

void
process_memory_unlock(int device)
{
	pthread_mutex_unlock(&memory_locks[device]);
}
