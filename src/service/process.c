/*
 * process.c
 *	  The device process: start, main loop, and release of idle devices.
 *
 * One thread visits all slots in turn.  At each visit a job takes one step: it starts
 * copies of posted chunks, polls for finished copies, starts the sort, or starts
 * copies of the result.  So jobs progress chunk by chunk beside each other, and the
 * device always has several streams to choose from.  The loop never waits for a device:
 * threads make the calls that may wait (process_calls.c).  While the device is
 * working, the loop polls every few microseconds, because one cannot wait for a CUDA
 * event and a semaphore together.  Otherwise it sleeps on the semaphore.
 *
 * Memory policy: a GPU is often shared with other programs.  Freed blocks are kept for
 * the next job, because allocating them takes longer than sorting.  When a device had no
 * job for gpusort.device_idle_blocks, its blocks are freed.  A context takes some
 * hundred megabytes, and only the end of its process is sure to free all of it.  So
 * the process ends when there was no job for gpusort.device_idle_context, or when a
 * reload changes gpusort.device.  The supervisor starts another one when a sort asks.
 *
 * On error: if the device cannot take a job, only this job fails.  After a CUDA error
 * the state of this process is undefined: it ends, the supervisor starts another one,
 * and the backends finish on the CPU.  An error of one device ends the jobs of all
 * devices.  So a device that fails several times in a row is left out by
 * later processes if there are other devices.  If no device can be opened, the process
 * ends, and a later process tries again.
 *
 * This process is not a backend: no locks, no palloc in the loop, no ERROR.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "miscadmin.h"
#include "service/process_internal.h"
#include "settings.h"
#include "storage/fd.h"

/* Longest sleep: bounds the cost of a lost wake-up, and finds that the keeper has ended. */
#define IDLE_TIMEOUT_MS		500

/* Pause between two polls while the device is working. */
#define POLL_PAUSE_US		10

/* Limits of plausible costs: hours in microseconds, and copies of a job's memory. */
#define DEVICE_COST_MAX		1e10
#define DEVICE_COPIES_MAX	16

const GpusortCudaApi *cuda = NULL;
GpusortContext *device_contexts[DEVICE_MAX];

/* Devices that a job used or waited for since the last count_busy(). */
static bool at_work[DEVICE_MAX];

/* ------------------------------------------------------------------------
 * Start
 * ------------------------------------------------------------------------
 */

#define CACHE_DIRECTORY		"gpusort.cache"

/* Holds all kernels for some architectures.  The driver evicts the least recently used. */
#define CACHE_MAX_BYTES		"268435456"

/*
 * Sets a cache directory for kernels that the driver compiles.  The library has machine
 * code for some architectures, and code that the driver compiles for later ones,
 * which may take a minute.  By default the driver's cache is below the home directory
 * of the server's user, which often does not exist or is not writable.  So the cache is
 * a directory in the data directory, unless CUDA_CACHE_PATH is set.  Its files may be
 * deleted at any time.  Without a cache the process works, and logs that.
 */
static void
set_code_cache(void)
{
	char		path[MAXPGPATH];

	if (getenv("CUDA_CACHE_PATH") != NULL)
		return;
	/* an absolute path: the driver may change the working directory */
	snprintf(path, sizeof(path), "%s/" CACHE_DIRECTORY, DataDir);
	if ((MakePGDirectory(path) != 0 && errno != EEXIST) ||
		setenv("CUDA_CACHE_PATH", path, 1) != 0 ||
		setenv("CUDA_CACHE_MAXSIZE", CACHE_MAX_BYTES, 0) != 0)
		device_process_log(-1, "gpusort: compiled GPU code is not kept in \"%s\": %s", path, strerror(errno));
}

/* Loads the GPU library.  Ends the process if that is not possible. */
static void
load_library(void)
{
	char		path[MAXPGPATH];
	void	   *handle;
	gpusort_cuda_api_fn get_api;

	device_library_path(path, sizeof(path));
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL)
		device_process_gives_up(DEVICE_EXIT_NOTHING, "no device library", dlerror());
	get_api = (gpusort_cuda_api_fn) dlsym(handle, "gpusort_cuda_api");
	cuda = get_api == NULL ? NULL : get_api(GPUSORT_ABI_VERSION);
	if (cuda == NULL || cuda->api_size != sizeof(GpusortCudaApi))
		device_process_gives_up(DEVICE_EXIT_NOTHING, "the device library is of another version", path);
}

static bool
is_wanted(const GpusortDeviceInfo *info)
{
	return info->usable && info->index >= 0 && info->index < DEVICE_MAX &&
		(gpusort_device_mask & (UINT64CONST(1) << info->index)) != 0;
}

static bool
fails_often(const GpusortDeviceInfo *info)
{
	return device_shared->failures[info->index] >= DEVICE_MAX_FAILURES;
}

static bool
are_plausible(const GpusortCosts *costs)
{
	const double *numbers = (const double *) costs;

	for (size_t i = 0; i < offsetof(GpusortCosts, copies) / sizeof(double); i++)
	{
		if (!(numbers[i] > 0 && numbers[i] <= DEVICE_COST_MAX))
			return false;
	}
	for (int r = 1; r < GPUSORT_COST_RANGES; r++)
	{
		if (costs->range_log2[r] <= costs->range_log2[r - 1])
			return false;
	}
	return costs->copies > 0 && costs->copies <= DEVICE_COPIES_MAX && costs->values_per_key > 0;
}

/* Reads the device's costs from the library.  Implausible costs are ignored. */
static void
read_costs(const GpusortContext *context, DeviceEntry *entry)
{
	GpusortCosts costs;

	cuda->costs(context, &costs);
	if (are_plausible(&costs))
		entry->costs = costs;
	else
		device_process_log(-1, "gpusort: the device library reports implausible costs of device %d",
						   (int) entry->index);
}

/*
 * Updates the device's memory budget, unless a call is allocating memory.  trim: first frees
 * the blocks that are kept for later jobs.
 */
static void
read_memory(int device, bool trim)
{
	DeviceEntry *entry = &device_shared->devices[device];
	GpusortMemory memory;

	if (!process_memory_trylock(device))
		return;
	device_shared->life.at_device = entry->index;
	if (trim)
		cuda->device_trim(device_contexts[device]);
	cuda->device_memory(device_contexts[device], 1, &memory);
	device_shared->life.at_device = -1;
	process_memory_unlock(device);
	entry->budget = memory.budget;
	entry->kept = memory.kept;
}

/*
 * Opens the wanted devices, without those that fail often if there are others, and pins the
 * staging pool.  Ends the process if no device can be opened.
 */
static void
open_devices(void)
{
	GpusortDeviceInfo info[DEVICE_MAX];
	GpusortError err;
	int32_t		count;
	int			good = 0;		/* wanted devices that do not fail often */
	GpusortStatus status;

	memset(&err, 0, sizeof(err));
	status = cuda->devices(info, DEVICE_MAX, &count, &err);
	if (status != GPUSORT_OK)
		device_process_gives_up(gpusort_use_cpu(status) ? DEVICE_EXIT_LATER : 1, "no device", err.message);
	device_shared->ndevices = 0;
	count = Min(count, DEVICE_MAX);
	for (int i = 0; i < count; i++)
		good += is_wanted(&info[i]) && !fails_often(&info[i]);
	for (int i = 0; i < count; i++)
	{
		DeviceEntry *entry = &device_shared->devices[device_shared->ndevices];
		GpusortContext **context = &device_contexts[device_shared->ndevices];

		if (!info[i].usable)
			strlcpy(err.message, info[i].why_not, sizeof(err.message));
		if (!is_wanted(&info[i]) || (good > 0 && fails_often(&info[i])))
			continue;
		device_shared->life.at_device = info[i].index;
		status = cuda->context_create(info[i].index, (uint64) gpusort_device_memory << 20,
									  context, &err);
		device_shared->life.at_device = -1;
		if (status != GPUSORT_OK)
		{
			device_process_log(info[i].index, "gpusort: device %d is left out: %s", (int) info[i].index, err.message);
			continue;
		}
		/* the measurement of another device: backends know a device by the same three */
		if (entry->index != info[i].index || strcmp(entry->name, info[i].name) != 0 ||
			entry->memory_total != info[i].memory_total)
		{
			entry->measurements = 0;
			memset((void *) &entry->measured, 0, sizeof(entry->measured));
		}
		entry->index = info[i].index;
		memcpy(entry->name, info[i].name, sizeof(entry->name));
		strlcpy(device_shared->counters[entry->index].name, entry->name,
				sizeof(device_shared->counters[entry->index].name));
		read_costs(*context, entry);
		entry->memory_total = info[i].memory_total;
		entry->last_used_us = device_now_us();
		read_memory(device_shared->ndevices++, false);
	}
	if (device_shared->ndevices == 0)
		device_process_gives_up(gpusort_is_broken(status) ? 1 : DEVICE_EXIT_LATER, "no usable device", err.message);

	/* copies also work with memory that is not pinned, but slowly */
	if (cuda->host_register(device_contexts[0], device_staging,
							device_shared->staging_chunks * device_shared->chunk_size, &err) != GPUSORT_OK)
		device_process_log(-1, "gpusort: the staging pool is not pinned: %s", err.message);
}

/* Tells the backends which algorithms the library has. */
static void
publish_algorithms(void)
{
	int			n = 0;
	const GpusortAlgorithm *a;

	for (; n < DEVICE_MAX_ALGORITHMS && (a = cuda->algorithm(n)) != NULL; n++)
		strlcpy(device_shared->algorithms[n], a->name, sizeof(device_shared->algorithms[n]));
	device_shared->nalgorithms = n;
}

/* ------------------------------------------------------------------------
 * Release of idle devices
 * ------------------------------------------------------------------------
 */

/* Pause between two checks of idle devices and of the memory that other programs use. */
#define IDLE_CHECK_US		20000

/* Counts the jobs of each device, including those that wait for their backends. */
static int
count_jobs(int *jobs)
{
	int			all = 0;

	memset(jobs, 0, DEVICE_MAX * sizeof(int));
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		if (device_slot_is_current(&device_shared->slots[i]))
		{
			jobs[device_shared->slots[i].device]++;
			all++;
		}
	}
	return all;
}

/*
 * Ends the process if it has no job.  A backend that opens a job and a process that
 * leaves each announce it first and then look at the other.  Either the process sees
 * the job and stays, or the backend sees that the process leaves.  If both happen, the
 * CPU does the sort.
 */
static void
try_to_leave(void)
{
	static uint64 leaving_since = 0;
	uint64		now = device_now_us();
	int			jobs[DEVICE_MAX];

	if (leaving_since == 0)
		leaving_since = now;
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_LEAVING);
	pg_memory_barrier();
	if (count_jobs(jobs) == 0 ||
		now - leaving_since > (uint64) DEVICE_LEAVE_PATIENCE_MS * 1000)
		_exit(DEVICE_EXIT_IDLE);
	if (device_shared->leave)
		return;
	leaving_since = 0;
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_READY);
}

static inline bool
idle_for(uint64 since, uint64 now, int seconds)
{
	return seconds > 0 && now > since && now - since >= (uint64) seconds * 1000000;
}

/* Frees the memory of idle devices, and ends the process if all devices are idle. */
static void
release_idle(void)
{
	static uint64 last_check = 0;
	uint64		now = device_now_us();
	uint64		last_used = 0;
	int			jobs[DEVICE_MAX];
	int			all;

	if (now - last_check < IDLE_CHECK_US)
		return;
	last_check = now;
	all = count_jobs(jobs);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		DeviceEntry *entry = &device_shared->devices[d];

		if (jobs[d] > 0)
			entry->last_used_us = now;
		last_used = Max(last_used, entry->last_used_us);
		read_memory(d, jobs[d] == 0 && entry->kept > 0 &&
					idle_for(entry->last_used_us, now, device_shared->settings.idle_blocks_s));
	}
	if (device_shared->leave ||
		pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_LEAVING ||
		(all == 0 && idle_for(last_used, now, device_shared->settings.idle_context_s)))
		try_to_leave();
}

/* ------------------------------------------------------------------------
 * Main loop
 * ------------------------------------------------------------------------
 */

/* Does a step of each job.  Returns the union of their sets of DEVICE_STEP_*. */
static int
step_all(void)
{
	int			steps = 0;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		int			device = device_shared->slots[i].device;
		int			step = device_job_step(i);

		at_work[device] |= step != 0;
		steps |= step;
	}
	return steps;
}

/* Prefer the monotonic clock: the time of day may be set. */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 30)
#define WAKE_CLOCK	CLOCK_MONOTONIC
#define wait_for_wake(until)	sem_clockwait(&device_shared->wakeup.semaphore, WAKE_CLOCK, until)
#else
#define WAKE_CLOCK	CLOCK_REALTIME
#define wait_for_wake(until)	sem_timedwait(&device_shared->wakeup.semaphore, until)
#endif

/* Counts the time since the last call as busy time of the devices that had work. */
static void
count_busy(void)
{
	static uint64 since = 0;
	uint64		now = device_now_us();

	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (at_work[d] && since != 0)
			pg_atomic_fetch_add_u64(&device_counters(d)->busy_us, now - since);
		at_work[d] = false;
	}
	since = now;
}

/* Sleeps until a backend wakes the process. */
static void
sleep_idle(void)
{
	struct timespec until;

	pg_atomic_write_u32(&device_shared->wakeup.sleeping, 1);
	pg_memory_barrier();
	if ((step_all() & (DEVICE_STEP_PROGRESS | DEVICE_STEP_IN_FLIGHT)) == 0)
	{
		clock_gettime(WAKE_CLOCK, &until);
		until.tv_nsec += IDLE_TIMEOUT_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		while (wait_for_wake(&until) != 0 && errno == EINTR)
			;
	}
	pg_atomic_write_u32(&device_shared->wakeup.sleeping, 0);
	while (sem_trywait(&device_shared->wakeup.semaphore) == 0)
		;
}

/* One step of measuring a device, if there are no jobs. */
static bool
measure_devices(void)
{
	int			jobs[DEVICE_MAX];

	for (int d = 0; d < device_shared->ndevices && count_jobs(jobs) == 0; d++)
	{
		if (device_measure_step(d))
			return true;
	}
	return false;
}

void
device_process_main(void)
{
	pid_t		parent = getppid();
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	uint64		start;
	sigset_t	none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	start = device_now_us();
	set_code_cache();
	load_library();
	process_calls_init();
	open_devices();
	publish_algorithms();
	device_set_absence("%s", "");
	device_shared->start_us = (double) (device_now_us() - start);
	pg_write_barrier();
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_READY);

	for (;;)
	{
		int			steps = step_all();

		count_busy();
		pg_atomic_fetch_add_u32(&device_shared->life.heartbeat, 1);
		/* the keeper has ended, or the supervisor has given this process up */
		if (getppid() != parent || pg_atomic_read_u32(&device_shared->generation) != generation)
			_exit(0);
		release_idle();
		if (steps & DEVICE_STEP_PROGRESS)
			continue;
		if (steps & DEVICE_STEP_IN_FLIGHT)
		{
			struct timespec pause = {0, POLL_PAUSE_US * 1000L};

			nanosleep(&pause, NULL);
		}
		else
		{
			if (!measure_devices())
				sleep_idle();
			/* the sleep does not count as busy */
			count_busy();
		}
	}
}
