/*
 * faults.c
 *	  Faults of a GPU that a test orders for a session (gpusort.device_fault).
 *
 * The fake device is a module of the server, too: shared_preload_libraries = 'gpusort,
 * libgpusort_cpu_abi'.  As a module it defines the setting, and writes each session's value
 * into shared memory.  As a GPU library it wraps the functions of the fake device, or of the
 * library that GPUSORT_CPU_ABI_WRAPS names.  The device process calls them.  A call names
 * chunks of the staging pool, or a word of a slot: so the wrapper finds the slot, its session,
 * and the session's fault.
 *
 * A fault happens at a point of a job:
 *
 *		_start	memory for the job is allocated
 *		_up		the first chunk goes to the device; of errors, the second one
 *		_sort	all chunks are there, and the sort starts
 *		_down	the first chunk of the result is there; of errors, the second one is sent
 *
 * Three faults happen in the backend: HOLD_LOCK, LATE_LEADER and, in effect, LINGER.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "access/htup_details.h"
#include "compat.h"
#include "executor/executor.h"
#include "faults.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/feed/feed.h"
#include "nodes/nodeFuncs.h"
#include "service/protocol.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

typedef enum Fault
{
	FAULT_NONE,
	FAULT_MEMORY_START,			/* out of device memory */
	FAULT_MEMORY_SORT,
	FAULT_ERROR_UP,				/* an error of CUDA */
	FAULT_ERROR_SORT,
	FAULT_ERROR_DOWN,
	FAULT_KILL_UP,				/* the device process is killed */
	FAULT_KILL_SORT,
	FAULT_KILL_DOWN,
	FAULT_HANG_UP,				/* the job makes no progress, for as long as
								 * it is open */
	FAULT_HANG_SORT,
	FAULT_HANG_DOWN,
	FAULT_STALL,				/* the same from the sort on, and the timeout
								 * is short */
	FAULT_FREEZE,				/* a call does not return, and the timeout is
								 * short */
	FAULT_CORRUPT,				/* wrong result: a repeated rid or a wrong bit */
	FAULT_CORRUPT_SIZE,			/* a returned row has an impossible length */
	FAULT_CORRUPT_BIT,			/* wrong highest bit of a rid or key, or wrong
								 * t_hoff */
	FAULT_CORRUPT_PLACE,		/* a chunk's offset lies outside the chunk */
	FAULT_CORRUPT_COUNT,		/* a chunk's row count is too high by one */
	FAULT_CORRUPT_SWAP,			/* the first and the last row id of a chunk are
								 * exchanged */
	FAULT_CORRUPT_GROUP,		/* a duplicate counts for another group */
	FAULT_CORRUPT_GROUPS,		/* the result has more rows than the input */
	FAULT_CORRUPT_LATE,			/* a row or key repeats in the second chunk */
	FAULT_NO_GROUPS,			/* no key is left when duplicates are dropped */
	FAULT_LINGER,				/* the end of a job is delayed */
	FAULT_HOLD_LOCK,			/* the backend keeps the service's lock until
								 * it is killed */
	FAULT_LATE_LEADER			/* the leader looks for its workers after they
								 * end */
} Fault;

static const struct config_enum_entry fault_options[] = {
	{"none", FAULT_NONE, false},
	{"memory_start", FAULT_MEMORY_START, false},
	{"memory_sort", FAULT_MEMORY_SORT, false},
	{"error_up", FAULT_ERROR_UP, false},
	{"error_sort", FAULT_ERROR_SORT, false},
	{"error_down", FAULT_ERROR_DOWN, false},
	{"kill_up", FAULT_KILL_UP, false},
	{"kill_sort", FAULT_KILL_SORT, false},
	{"kill_down", FAULT_KILL_DOWN, false},
	{"hang_up", FAULT_HANG_UP, false},
	{"hang_sort", FAULT_HANG_SORT, false},
	{"hang_down", FAULT_HANG_DOWN, false},
	{"stall", FAULT_STALL, false},
	{"freeze", FAULT_FREEZE, false},
	{"corrupt", FAULT_CORRUPT, false},
	{"corrupt_size", FAULT_CORRUPT_SIZE, false},
	{"corrupt_bit", FAULT_CORRUPT_BIT, false},
	{"corrupt_place", FAULT_CORRUPT_PLACE, false},
	{"corrupt_count", FAULT_CORRUPT_COUNT, false},
	{"corrupt_swap", FAULT_CORRUPT_SWAP, false},
	{"corrupt_group", FAULT_CORRUPT_GROUP, false},
	{"corrupt_groups", FAULT_CORRUPT_GROUPS, false},
	{"corrupt_late", FAULT_CORRUPT_LATE, false},
	{"no_groups", FAULT_NO_GROUPS, false},
	{"linger", FAULT_LINGER, false},
	{"hold_lock", FAULT_HOLD_LOCK, false},
	{"late_leader", FAULT_LATE_LEADER, false},
	{NULL, 0, false}
};

/* Sessions with a fault. */
#define MAX_SESSIONS	256

typedef struct SessionFault
{
	volatile int pid;			/* 0: free */
	volatile int fault;
} SessionFault;

static SessionFault *sessions = NULL;

/* gpusort's variables, for the functions of protocol.h. */
DeviceShared *device_shared = NULL;
char	   *device_staging = NULL;
LWLock	   *device_lock = NULL;
static int	my_fault = FAULT_NONE;

/* Timeout of the device for a stalled or frozen job, and for one that hangs. */
#define SHORT_TIMEOUT_MS	1000
#define LONG_TIMEOUT_MS		PG_INT32_MAX

/* Time for which a finished job is kept. */
#define LINGER_US		300000

static Fault
fault_of(int pid)
{
	for (int i = 0; i < MAX_SESSIONS; i++)
	{
		if (sessions[i].pid == pid)
			return (Fault) sessions[i].fault;
	}
	return FAULT_NONE;
}

/* ------------------------------------------------------------------------
 * In the device process: jobs
 * ------------------------------------------------------------------------
 */

/* What the wrapper knows of the job in a slot. */
typedef struct FaultJob
{
	uint64		number;			/* DeviceSlot.number */
	Fault		fault;
	GpusortStream *stream;		/* stream of the owner; NULL: not known yet */
	uint32		up;				/* chunks sent to the device, by producers too */
	uint32		down;			/* chunks whose copy to the host has begun */
	bool		sorted;			/* the sort has started */
	bool		hangs;
	uint64		linger_since;	/* 0: the job is not over */
	struct
	{
		GpusortEvent *event;	/* recorded behind the copies of a chunk */
		bool		is_down;
		uint32		counter;	/* of the chunk */
	}			chunk[DEVICE_JOB_CHUNKS];
	char		first_row[64];	/* of the result */
} FaultJob;

static const GpusortCudaApi *wrapped;
static FaultJob jobs[DEVICE_SLOTS];

/* Several threads make calls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The copy after which no event was recorded yet; the main thread's only. */
static struct
{
	FaultJob   *job;			/* NULL: none */
	GpusortStream *stream;
	bool		is_down;
	uint32		counter;
	int			nchunks;
}			last_copy;

static bool
is_open(const DeviceSlot *slot)
{
	return device_slot_is_current(slot) &&
		device_slot_state(pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state)) == DEVICE_SLOT_OPEN;
}

/* The job in a slot. */
static FaultJob *
job_in(const DeviceSlot *slot)
{
	FaultJob   *job = &jobs[slot - device_shared->slots];

	if (job->number != slot->number)
	{
		memset(job, 0, sizeof(*job));
		job->number = slot->number;
		job->fault = fault_of(slot->owner.pid);
	}
	return job;
}

static DeviceSlot *
slot_of(const FaultJob *job)
{
	return &device_shared->slots[job - jobs];
}

/* The slot that has the chunk at p; NULL if p is in no job's chunk. */
static DeviceSlot *
slot_with_chunk(const void *p)
{
	Size		offset = (Size) ((const char *) p - device_staging);
	uint32		chunk = (uint32) (offset / device_shared->chunk_size);

	if ((const char *) p < device_staging || chunk >= (uint32) device_shared->staging_chunks)
		return NULL;
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		DeviceSlot *slot = &device_shared->slots[i];

		for (int c = 0; c < slot->nchunks && device_slot_is_current(slot); c++)
		{
			if (slot->chunks[c] == chunk)
				return slot;
		}
	}
	return NULL;
}

static bool
starts_chunk(const void *p)
{
	return (Size) ((const char *) p - device_staging) % device_shared->chunk_size == 0;
}

static GpusortStatus
injected(GpusortStatus status, GpusortError *err)
{
	err->status = status;
	strlcpy(err->message, "fault injected by gpusort.device_fault", sizeof(err->message));
	return status;
}

static void
hang(FaultJob *job, int timeout_ms)
{
	job->hangs = true;
	slot_of(job)->timeout_ms = timeout_ms;
}

static void
kill_process(void)
{
	kill(getpid(), SIGKILL);
}

/* Does not return, until the supervisor kills the process. */
static void
freeze(void)
{
	device_shared->settings.timeout_ms = SHORT_TIMEOUT_MS;
	device_wake_supervisor();	/* it reads timeout_ms */
	for (;;)
		pause();
}

/* ------------------------------------------------------------------------
 * Wrong results
 * ------------------------------------------------------------------------
 */

/* Changes a key or a row id of a chunk. */
static void
corrupt_keys(const DeviceSlot *slot, Fault fault, const DeviceChunkDesc *desc, char *keys)
{
	uint32	   *rids = (uint32 *) (keys + desc->words_at);
	Size		width = slot->spec.key_width / 8;

	if (slot->spec.keys_only && fault == FAULT_CORRUPT_LATE)
		memcpy(keys + width, keys, width);
	else if (slot->spec.keys_only)
		keys[fault == FAULT_CORRUPT_BIT ? width - 1 : 0] ^= fault == FAULT_CORRUPT_BIT ? 0x80 : 1;
	else if (fault == FAULT_CORRUPT_LATE)
		rids[0] = 0;			/* the first row of the input */
	else if (fault == FAULT_CORRUPT_BIT)
		rids[0] ^= 0x80000000;
	else if (fault == FAULT_CORRUPT_SWAP)
	{
		uint32		first = rids[0];

		rids[0] = rids[desc->rows - 1];
		rids[desc->rows - 1] = first;
	}
	else
		rids[0] = rids[desc->rows - 1];
}

/* Changes a row of a chunk, or replaces it with the first row of the first chunk. */
static void
corrupt_row(FaultJob *job, uint32 counter, char *row)
{
	switch (job->fault)
	{
		case FAULT_CORRUPT_LATE:
			if (counter == 0)
				memcpy(job->first_row, row, sizeof(job->first_row));
			else if (memcmp(job->first_row, row, sizeof(uint32)) == 0)
				memcpy(row, job->first_row, Min(sizeof(job->first_row), *(uint32 *) row));
			break;
		case FAULT_CORRUPT_BIT:
			((MinimalTuple) row)->t_hoff ^= 0x80;
			break;
		case FAULT_CORRUPT_SIZE:
			((MinimalTuple) row)->t_len = PG_UINT32_MAX;
			break;
		default:
			row[16] ^= 1;		/* past its header */
			break;
	}
}

/* Makes a chunk of the result wrong, before the backend sees it. */
static void
corrupt(FaultJob *job, uint32 counter)
{
	DeviceSlot *slot = slot_of(job);
	DeviceChunkDesc *desc = &slot->down[counter % slot->nchunks];
	char	   *chunk = device_chunk(slot, counter);
	bool		late = job->fault == FAULT_CORRUPT_LATE;

	if (slot->spec.mode == DEVICE_ROWS && late && counter == 0)
		corrupt_row(job, counter, chunk + desc->rows_at);
	if (counter != (late ? 1 : 0))
		return;
	if (job->fault == FAULT_CORRUPT_PLACE)
	{
		desc->words_at = (uint32) device_shared->chunk_size - sizeof(uint32);
		desc->rows_at = (uint32) device_shared->chunk_size + MAXIMUM_ALIGNOF;
	}
	else if (job->fault == FAULT_CORRUPT_COUNT)
		desc->rows++;
	else if (job->fault == FAULT_CORRUPT_GROUP)
		((uint32 *) (chunk + desc->ends_at))[0]++;
	else if (job->fault == FAULT_CORRUPT_GROUPS)
		slot->rows_down = PG_UINT32_MAX;
	else if (slot->spec.mode == DEVICE_KEYS)
		corrupt_keys(slot, job->fault, desc, chunk);
	else
		corrupt_row(job, counter, chunk + desc->rows_at);
}

/* ------------------------------------------------------------------------
 * The wrapper's functions
 * ------------------------------------------------------------------------
 */

/* Is there a job without copies whose fault is that it gets no memory? */
static bool
lacks_memory(void)
{
	bool		found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < DEVICE_SLOTS && !found; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (is_open(slot) && !slot->producer.is_one && job_in(slot)->up == 0)
			found = job_in(slot)->fault == FAULT_MEMORY_START;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static GpusortStatus
fault_device_alloc(GpusortContext *ctx, uint64_t bytes, void **out, GpusortError *err)
{
	if (lacks_memory())
	{
		*out = NULL;
		return injected(GPUSORT_NO_MEMORY, err);
	}
	return wrapped->device_alloc(ctx, bytes, out, err);
}

/* Remembers which chunk is copied, for the event behind the copies. */
static void
remember_copy(FaultJob *job, GpusortStream *stream, bool is_down, uint32 counter)
{
	last_copy.job = job;
	last_copy.stream = stream;
	last_copy.is_down = is_down;
	last_copy.counter = counter;
	last_copy.nchunks = slot_of(job)->nchunks;
}

/*
 * A chunk's first copy to the device.  close_rows() of the device process makes a last copy
 * from a chunk, after all chunks; this function is not called for it.
 */
static GpusortStatus
chunk_up(DeviceSlot *slot, GpusortStream *stream, GpusortError *err)
{
	FaultJob   *job = job_in(slot);
	FaultJob   *owner = slot->producer.is_one ? job_in(&device_shared->slots[slot->producer.into.slot]) : job;
	uint32		counter = job->up++;

	if (owner != job)
		owner->up++;
	else
		job->stream = stream;
	if (job->fault == FAULT_ERROR_UP && owner->up > 1)
		return injected(GPUSORT_CUDA_ERROR, err);
	if (job->fault == FAULT_KILL_UP)
		kill_process();
	if (job->fault == FAULT_HANG_UP)
		hang(job, LONG_TIMEOUT_MS);
	remember_copy(job, stream, false, counter);
	return GPUSORT_OK;
}

static GpusortStatus
fault_copy_in(GpusortStream *stream, void *dst, const void *src, uint64_t bytes, GpusortError *err)
{
	DeviceSlot *slot = slot_with_chunk(src);
	GpusortStatus status = GPUSORT_OK;

	pthread_mutex_lock(&lock);
	if (slot != NULL && starts_chunk(src) &&
		pg_atomic_read_u32(&slot->taken) != pg_atomic_read_u32(&slot->posted))
		status = chunk_up(slot, stream, err);
	pthread_mutex_unlock(&lock);
	return status == GPUSORT_OK ? wrapped->copy_in(stream, dst, src, bytes, err) : status;
}

static GpusortStatus
chunk_down(DeviceSlot *slot, GpusortStream *stream, GpusortError *err)
{
	FaultJob   *job = job_in(slot);
	uint32		counter = job->down++;

	if (job->fault == FAULT_FREEZE)
		freeze();
	if (job->fault == FAULT_ERROR_DOWN && counter > 0)
		return injected(GPUSORT_CUDA_ERROR, err);
	remember_copy(job, stream, true, counter);
	return GPUSORT_OK;
}

static GpusortStatus
fault_copy_out(GpusortStream *stream, void *dst, const void *src, uint64_t bytes, GpusortError *err)
{
	DeviceSlot *slot = slot_with_chunk(dst);
	GpusortStatus status = GPUSORT_OK;

	pthread_mutex_lock(&lock);
	if (slot != NULL && starts_chunk(dst))
		status = chunk_down(slot, stream, err);
	pthread_mutex_unlock(&lock);
	return status == GPUSORT_OK ? wrapped->copy_out(stream, dst, src, bytes, err) : status;
}

static GpusortStatus
fault_sort_run(GpusortStream *stream, int32_t algorithm, const GpusortProblem *problem,
			   GpusortResult *result, GpusortError *err)
{
	Size		offset = (const char *) problem->cancel - (const char *) device_shared->slots;
	Fault		fault = FAULT_NONE;

	if (problem->cancel != NULL && offset < sizeof(device_shared->slots))
	{
		FaultJob   *job;

		pthread_mutex_lock(&lock);
		job = job_in(&device_shared->slots[offset / sizeof(DeviceSlot)]);
		fault = job->fault;
		job->sorted = true;
		if (fault == FAULT_HANG_SORT)
			hang(job, LONG_TIMEOUT_MS);
		if (fault == FAULT_STALL)
			hang(job, SHORT_TIMEOUT_MS);
		pthread_mutex_unlock(&lock);
	}
	if (fault == FAULT_MEMORY_SORT)
		return injected(GPUSORT_NO_MEMORY, err);
	if (fault == FAULT_ERROR_SORT)
		return injected(GPUSORT_CUDA_ERROR, err);
	if (fault == FAULT_KILL_SORT)
		kill_process();
	return wrapped->sort_run(stream, algorithm, problem, result, err);
}

static GpusortStatus
fault_groups_run(GpusortStream *stream, const GpusortGroups *problem, uint64_t *groups, GpusortError *err)
{
	GpusortStatus status = wrapped->groups_run(stream, problem, groups, err);

	pthread_mutex_lock(&lock);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		if (jobs[i].fault == FAULT_NO_GROUPS && jobs[i].stream == stream && jobs[i].number == slot_of(&jobs[i])->number)
			*groups = 0;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

static GpusortStatus
fault_event_record(GpusortEvent *event, GpusortStream *stream, GpusortError *err)
{
	pthread_mutex_lock(&lock);
	if (last_copy.job != NULL && last_copy.stream == stream)
	{
		int			c = (int) (last_copy.counter % (uint32) last_copy.nchunks);

		last_copy.job->chunk[c].event = event;
		last_copy.job->chunk[c].is_down = last_copy.is_down;
		last_copy.job->chunk[c].counter = last_copy.counter;
		last_copy.job = NULL;
	}
	pthread_mutex_unlock(&lock);
	return wrapped->event_record(event, stream, err);
}

/*
 * The copies of a chunk have ended.  Returns whether the device process may learn that; once
 * it has, it does not ask again.
 */
static bool
chunk_may_end(FaultJob *job, bool is_down, uint32 counter)
{
	bool		is_last = counter > 0 || job->down == 1;

	if (is_down && is_last && job->fault == FAULT_HANG_DOWN)
		hang(job, LONG_TIMEOUT_MS);
	/* a backend that closes its job waits for nothing */
	if (job->hangs && is_open(slot_of(job)))
		return false;
	if (is_down && is_last && job->fault == FAULT_KILL_DOWN)
	{
		if (counter > 0 && pg_atomic_read_u32(&slot_of(job)->made) == 0)
			return false;		/* the backend must get the first chunk */
		kill_process();
	}
	if (is_down && job->fault >= FAULT_CORRUPT && job->fault <= FAULT_CORRUPT_LATE)
		corrupt(job, counter);
	return true;
}

static GpusortStatus
fault_event_poll(GpusortEvent *event, GpusortError *err)
{
	GpusortStatus status = wrapped->event_poll(event, err);

	if (status != GPUSORT_OK)
		return status;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < DEVICE_SLOTS * DEVICE_JOB_CHUNKS; i++)
	{
		FaultJob   *job = &jobs[i / DEVICE_JOB_CHUNKS];
		int			c = i % DEVICE_JOB_CHUNKS;

		if (job->chunk[c].event != event || job->number != slot_of(job)->number)
			continue;
		if (!chunk_may_end(job, job->chunk[c].is_down, job->chunk[c].counter))
			status = GPUSORT_NOT_READY;
		break;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

/* Is the job of this stream over, but not for long enough? */
static bool
lingers(const GpusortStream *stream)
{
	bool		found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < DEVICE_SLOTS && !found; i++)
	{
		FaultJob   *job = &jobs[i];

		if (job->stream != stream || job->fault != FAULT_LINGER || job->number != slot_of(job)->number ||
			is_open(slot_of(job)))
			continue;
		if (job->linger_since == 0)
			job->linger_since = device_now_us();
		found = device_now_us() - job->linger_since < LINGER_US;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static GpusortStatus
fault_stream_poll(GpusortStream *stream, GpusortError *err)
{
	return lingers(stream) ? GPUSORT_NOT_READY : wrapped->stream_poll(stream, err);
}

const GpusortCudaApi *
cpu_abi_with_faults(const GpusortCudaApi *api)
{
	static GpusortCudaApi with_faults;
	const char *path = getenv("GPUSORT_CPU_ABI_WRAPS");

	if (path != NULL)
	{
		void	   *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		gpusort_cuda_api_fn get_api = handle == NULL ? NULL :
			(gpusort_cuda_api_fn) dlsym(handle, "gpusort_cuda_api");

		api = get_api == NULL ? NULL : get_api(GPUSORT_ABI_VERSION);
	}
	if (api == NULL || sessions == NULL || device_shared == NULL)
		return api;
	wrapped = api;
	with_faults = *api;
	with_faults.device_alloc = fault_device_alloc;
	with_faults.stream_poll = fault_stream_poll;
	with_faults.event_record = fault_event_record;
	with_faults.event_poll = fault_event_poll;
	with_faults.copy_in = fault_copy_in;
	with_faults.copy_out = fault_copy_out;
	with_faults.sort_run = fault_sort_run;
	with_faults.groups_run = fault_groups_run;
	return &with_faults;
}

/* ------------------------------------------------------------------------
 * In a backend: the setting, and faults of the backend
 * ------------------------------------------------------------------------
 */

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static ExecutorStart_hook_type prev_executor_start_hook = NULL;
static ExecProcNodeMtd exec_gather = NULL;

static void
request_sessions(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(MAX_SESSIONS * sizeof(SessionFault));
}

static void
start_sessions(void)
{
	const DeviceVariables *variables = *find_rendezvous_variable(DEVICE_VARIABLES);
	bool		found;

	/* gpusort's hook runs first: its library is the first that is preloaded */
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	if (variables != NULL)
	{
		device_shared = *variables->shared;
		device_staging = *variables->staging;
		device_lock = *variables->lock;
	}
	sessions = ShmemInitStruct("gpusort_test_faults", MAX_SESSIONS * sizeof(SessionFault), &found);
	if (!found)
		memset(sessions, 0, MAX_SESSIONS * sizeof(SessionFault));
}

static void
forget_fault(int code, Datum arg)
{
	for (int i = 0; i < MAX_SESSIONS; i++)
	{
		if (sessions[i].pid == MyProcPid)
			sessions[i].pid = 0;
	}
}

static void
assign_fault(int newval, void *extra)
{
	static int	registered_pid = 0;

	if (sessions == NULL || !IsUnderPostmaster || (newval == FAULT_NONE && registered_pid != MyProcPid))
		return;
	if (registered_pid != MyProcPid)
	{
		int			i = 0;

		while (i < MAX_SESSIONS && !__sync_bool_compare_and_swap(&sessions[i].pid, 0, MyProcPid))
			i++;
		if (i == MAX_SESSIONS)
			return;
		registered_pid = MyProcPid;
		on_shmem_exit(forget_fault, 0);
	}
	for (int i = 0; i < MAX_SESSIONS; i++)
	{
		if (sessions[i].pid == MyProcPid)
			sessions[i].fault = newval;
	}
}

static void
hold_lock(void)
{
	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	pgstat_report_wait_start(PG_WAIT_EXTENSION);
	for (;;)
		pg_usleep(1000000L);
}

static TupleTableSlot *
no_tuple(PlanState *pstate)
{
	return ExecClearTuple(pstate->ps_ResultTupleSlot);
}

/* The leader comes after this time, because workers may wait for it to read the rows of a full device. */
#define LATE_LEADER_MS	10000

static TimeoutId late_timeout = MAX_TIMEOUTS;
static GatherState *late_gather;
static ExecProcNodeMtd exec_partial;

static void
leader_comes(void)
{
	outerPlanState(late_gather)->ExecProcNode = exec_partial;
	late_gather->need_to_scan_locally = true;
	SetLatch(MyLatch);
}

/* Without the leader's dummy row Gather waits until its workers end. */
static TupleTableSlot *
gather_late(PlanState *pstate)
{
	PlanState  *partial = outerPlanState(pstate);
	TupleTableSlot *slot;

	if (my_fault != FAULT_LATE_LEADER || ((GatherState *) pstate)->initialized ||
		((PartialSortState *) partial)->device_sink == NULL)
		return exec_gather(pstate);
	if (late_timeout == MAX_TIMEOUTS)
		late_timeout = RegisterTimeout(USER_TIMEOUT, leader_comes);
	late_gather = (GatherState *) pstate;
	exec_partial = partial->ExecProcNode;
	partial->ExecProcNode = no_tuple;
	enable_timeout_after(late_timeout, LATE_LEADER_MS);
	PG_TRY();
	{
		slot = exec_gather(pstate);
	}
	PG_FINALLY();
	{
		/* the node is gone after an ERROR that a block of PL/pgSQL catches */
		disable_timeout(late_timeout, false);
		if (partial->ExecProcNode == no_tuple)
			partial->ExecProcNode = exec_partial;
	}
	PG_END_TRY();
	return slot;
}

/* Wraps each Gather above a GpuSort Feed. */
static bool
wrap_gathers(PlanState *pstate, void *context)
{
	if (IsA(pstate, GatherState) && IsA(outerPlanState(pstate), CustomScanState) &&
		strcmp(((CustomScanState *) outerPlanState(pstate))->methods->CustomName, "GpuSort Feed") == 0)
	{
		exec_gather = pstate->ExecProcNodeReal;
		ExecSetExecProcNode(pstate, gather_late);
	}
	return planstate_tree_walker(pstate, wrap_gathers, context);
}

static void
start_executor(QueryDesc *query, int eflags)
{
	if (prev_executor_start_hook)
		prev_executor_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (my_fault == FAULT_HOLD_LOCK)
		hold_lock();
	if (my_fault == FAULT_LATE_LEADER)
		(void) wrap_gathers(query->planstate, NULL);
}

void
_PG_init(void)
{
	DefineCustomEnumVariable("gpusort.device_fault", "Orders a fault of the GPU for this session.", NULL,
							 &my_fault, FAULT_NONE, fault_options, PGC_SUSET, 0, NULL, assign_fault, NULL);
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_sessions;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_sessions;
	prev_executor_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_executor;
}
