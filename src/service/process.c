/*
 * process.c
 *	  The device process: its main loop, and how it ends.
 *
 * One thread goes round the slots; each job takes one step at a time (start the
 * copies of what is posted, look which are finished, start the sort, start the way
 * down), so jobs progress chunk by chunk beside each other and the device always
 * has several streams to choose from.  It waits for no device: calls that may are
 * made by other threads (process_calls.c).  While something is under way on the
 * device the loop looks again after some microseconds, because no event of CUDA can
 * be waited for together with a semaphore; otherwise it sleeps.
 *
 * On error: a job that the device cannot take is the job's own matter.  After a
 * CUDA error nothing in this process can be trusted: it ends, the supervisor
 * starts another, and the backends finish on the CPU.  A device that fails again
 * and again, or whose driver crashes the process (process_crash.c), is left out by later processes if
 * there are others, since with each of its errors all lose their jobs.  Where there is no
 * device, or none that can be opened (it is full, busy, not ready yet), the process ends too:
 * another looks later.
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
#include "service/protocol.h"
#include "service/service.h"
#include "settings.h"
#include "storage/fd.h"

/* A look at the keeper, and the cost of a lost wake-up. */
#define IDLE_TIMEOUT_MS		500

/* Between two looks at work under way on the device. */
#define POLL_PAUSE_US		10

/* No cost of a device is as much (hours, in microseconds); a job has not so many copies. */
#define DEVICE_COST_MAX		1e10
#define DEVICE_COPIES_MAX	16

static DeviceApi device_api;

/* Devices that were at work for a job in the loop's last round, or that a job waited for. */
static bool at_work[DEVICE_MAX];

static void device_process_notes(int device, const char *format,...) pg_attribute_printf(2, 3);
static void device_read_memory(const DeviceApi *api, int device);
static void device_process_house(const DeviceApi *api);
static void device_process_keep_code(void);
static void process_crash_init(void);

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
	device_api.cuda = get_api == NULL ? NULL : get_api(GPUSORT_ABI_VERSION);
	if (device_api.cuda == NULL || device_api.cuda->api_size != sizeof(GpusortCudaApi))
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

/*
 * Takes over what the library says of a device's costs, unless that cannot be; then what
 * is assumed stays.
 */
static void
read_costs(const GpusortContext *context, DeviceEntry *entry)
{
	GpusortCosts costs;
	const double *numbers = (const double *) &costs;
	bool		ascending = true;

	device_api.cuda->costs(context, &costs);
	for (size_t i = 0; i < offsetof(GpusortCosts, copies) / sizeof(double); i++)
	{
		if (!(numbers[i] > 0 && numbers[i] <= DEVICE_COST_MAX))
		{
			device_process_notes(-1, "gpusort: the device library says nonsense of the costs of device %d",
					(int) entry->index);
			return;
		}
	}
	for (int r = 1; r < GPUSORT_COST_RANGES; r++)
		ascending &= costs.range_log2[r] > costs.range_log2[r - 1];
	if (!ascending || costs.copies == 0 || costs.copies > DEVICE_COPIES_MAX || costs.values_per_key == 0)
	{
		device_process_notes(-1, "gpusort: the device library says nonsense of the limits of device %d",
				(int) entry->index);
		return;
	}
	entry->costs = costs;
}

static void
open_devices(void)
{
	const GpusortCudaApi *cuda = device_api.cuda;
	GpusortDeviceInfo info[DEVICE_MAX];
	GpusortError err;
	int32_t		count;
	int			good = 0;
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
		GpusortContext **context = &device_api.contexts[device_shared->ndevices];

		if (!info[i].usable)
			strlcpy(err.message, info[i].why_not, sizeof(err.message));
		if (!is_wanted(&info[i]) || (good > 0 && fails_often(&info[i])))
			continue;
		device_shared->at_device = info[i].index;
		status = cuda->context_create(info[i].index, (uint64) gpusort_device_memory << 20,
									  context, &err);
		device_shared->at_device = -1;
		if (status != GPUSORT_OK)
		{
			device_process_notes(info[i].index, "gpusort: device %d is left out: %s", (int) info[i].index, err.message);
			continue;
		}
		if (entry->index != info[i].index || strcmp(entry->name, info[i].name) != 0)
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
		device_read_memory(&device_api, device_shared->ndevices++);
	}
	if (device_shared->ndevices == 0)
		device_process_gives_up(gpusort_is_broken(status) ? 1 : DEVICE_EXIT_LATER, "no usable device", err.message);

	/* copies from memory that is not pinned work, slowly */
	device_shared->pinned =
		cuda->host_register(device_api.contexts[0], device_staging,
							device_shared->staging_chunks * device_shared->chunk_size,
							&err) == GPUSORT_OK;
	if (!device_shared->pinned)
		device_process_notes(-1, "gpusort: the staging pool is not pinned: %s", err.message);
}

static void
list_algorithms(void)
{
	int			n = 0;
	const GpusortAlgorithm *a;

	while (n < DEVICE_MAX_ALGORITHMS && (a = device_api.cuda->algorithm(n)) != NULL)
	{
		DeviceAlgorithm *out = &device_shared->algorithms[n++];

		strlcpy(out->name, a->name, sizeof(out->name));
		out->key_widths = a->key_widths;
		out->stable = a->stable != 0;
		out->rids = a->rids != 0;
	}
	device_shared->nalgorithms = n;
}

static int
step_all(void)
{
	int			found = 0;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		int			device = device_shared->slots[i].device;
		int			step = device_job_step(&device_api, i);

		at_work[device] |= step != 0;
		found |= step;
	}
	return found;
}

/* A clock that nobody sets, where the C library can wait by it. */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 30)
#define WAKE_CLOCK	CLOCK_MONOTONIC

static inline int
wait_for_wake(const struct timespec *until)
{
	return sem_clockwait(&device_shared->wake, WAKE_CLOCK, until);
}
#else
#define WAKE_CLOCK	CLOCK_REALTIME

static inline int
wait_for_wake(const struct timespec *until)
{
	return sem_timedwait(&device_shared->wake, until);
}
#endif

/* Who was at work in the last round was so since the round before. */
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

/* Sleeps until a backend has something new. */
static void
sleep_idle(void)
{
	struct timespec until;

	pg_atomic_write_u32(&device_shared->sleeping, 1);
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
	pg_atomic_write_u32(&device_shared->sleeping, 0);
	while (sem_trywait(&device_shared->wake) == 0)
		;
}

/* A step of what devices are measured by, while nobody wants anything else of them. */
static bool
measure(void)
{
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		if (device_slot_is_current(&device_shared->slots[i]))
			return false;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (device_measure_step(&device_api, d))
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
	device_process_keep_code();
	load_library();
	device_jobs_init(&device_api);
	process_crash_init();
	open_devices();
	list_algorithms();
	device_shared->why_not[0] = '\0';
	device_shared->why_detail[0] = '\0';
	device_shared->start_us = (double) (device_now_us() - start);
	pg_write_barrier();
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_READY);

	for (;;)
	{
		int			found = step_all();

		count_busy();
		pg_atomic_fetch_add_u32(&device_shared->heartbeat, 1);
		/* without a keeper, or given up */
		if (getppid() != parent || pg_atomic_read_u32(&device_shared->generation) != generation)
			_exit(0);
		device_process_house(&device_api);
		if (found & DEVICE_STEP_PROGRESS)
			continue;
		if (found & DEVICE_STEP_IN_FLIGHT)
		{
			struct timespec pause = {0, POLL_PAUSE_US * 1000L};

			nanosleep(&pause, NULL);
		}
		else
		{
			if (!measure())
				sleep_idle();
			/* what begins now was not under way meanwhile */
			count_busy();
		}
	}
}

/* ------------------------------------------------------------------------
 * How the device process ends: there is nothing to serve with, a device failed, or one
 * hangs.
 *
 * The reason stands in shared memory, where the supervisor finds it to be logged.  Beside
 * process.c, as what the loop calls ends the process, too.
 * ------------------------------------------------------------------------
 */

/* The supervisor looks at what has changed. */
void
device_wake_supervisor(void)
{
	Latch	   *supervisor = device_shared->supervisor;

	if (supervisor != NULL)
		SetLatch(supervisor);
}

/*
 * process_end.c: the process has something to say for the server's log.  device: CUDA's number of
 * the one that fails, or -1.
 */
static void
device_process_notes(int device, const char *format,...)
{
	uint32		n = pg_atomic_read_u32(&device_shared->notes);
	va_list		args;

	va_start(args, format);
	device_shared->note[n % DEVICE_NOTES].device = device;
	vsnprintf(device_shared->note[n % DEVICE_NOTES].text, DEVICE_NOTE_SIZE, format, args);
	va_end(args);
	pg_write_barrier();
	pg_atomic_write_u32(&device_shared->notes, n + 1);
	device_wake_supervisor();
}

void
device_process_gives_up(int code, const char *what, const char *detail)
{
	if (code == DEVICE_EXIT_NOTHING)
	{
		strlcpy(device_shared->why_not, what, sizeof(device_shared->why_not));
		strlcpy(device_shared->why_detail, detail, sizeof(device_shared->why_detail));
	}
	else
		snprintf(device_shared->why_not, sizeof(device_shared->why_not), "%s%s%s",
				 what, detail[0] ? ": " : "", detail);
	_exit(code);
}

void
device_process_fails(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(device_shared->why_not, sizeof(device_shared->why_not), format, args);
	va_end(args);
	if (device_shared->at_device >= 0)
		device_shared->failures[device_shared->at_device]++;
	_exit(1);
}

/*
 * With work under way on a device that does not answer, the end of a process may
 * take for ever: the backends must not wait for it.
 */
void
device_process_hangs(int device, int patience_ms)
{
	snprintf(device_shared->why_not, sizeof(device_shared->why_not),
			 "device %d has made no progress with a sort for %d s", device_shared->devices[device].index,
			 patience_ms / 1000);
	device_shared->at_device = device_shared->devices[device].index;
	pg_write_barrier();
	device_shared->hangs = 1;
	device_wake_supervisor();
	for (;;)
		pause();
}

/* ------------------------------------------------------------------------
 * What no job uses is given back: memory soon, contexts later.
 *
 * A GPU is seldom a database's alone.  Freed blocks are kept for the next job,
 * because it costs more to get them than to sort; when a device has had no job for
 * gpusort.device_idle_blocks they go.  A context takes some hundred megabytes, too,
 * and nothing less than the end of its process is sure to give all of it back: so when
 * there was no job for gpusort.device_idle_context, or gpusort.device was changed by a
 * reload, the process ends, and the supervisor starts another when a sort asks.
 *
 * A backend that opens a job at that moment and the process that leaves each
 * say so first and look at the other then: either the process sees the job and stays,
 * or the backend sees that it leaves.  Both may be; that is a job for the CPU.
 * ------------------------------------------------------------------------
 */

/* Jobs' memory, and that of other programs, is looked at so often, if anything happens. */
#define LOOK_EVERY_US		20000

/* Looks how much memory there is for jobs now; not while a call is getting some. */
static void
device_read_memory(const DeviceApi *api, int device)
{
	GpusortMemory memory;

	if (!process_memory_trylock(device))
		return;
	device_shared->at_device = device_shared->devices[device].index;
	api->cuda->device_memory(api->contexts[device], 1, &memory);
	device_shared->at_device = -1;
	process_memory_unlock(device);
	device_shared->devices[device].budget = memory.budget;
	device_shared->devices[device].kept = memory.kept;
}

/* Counts each device's jobs; those that wait for their backends count too. */
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

/* Ends the process if it has no job, and none comes. */
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

/*
 * process_idle.c: gives back what no job uses; ends the process when that is
 * everything.  Called all the time.
 */
static void
device_process_house(const DeviceApi *api)
{
	static uint64 last_look = 0;
	uint64		now = device_now_us();
	uint64		last_used = 0;
	int			jobs[DEVICE_MAX];
	int			all;

	if (now - last_look < LOOK_EVERY_US)
		return;
	last_look = now;
	all = count_jobs(jobs);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		DeviceEntry *entry = &device_shared->devices[d];

		if (jobs[d] > 0)
			entry->last_used_us = now;
		else if (entry->kept > 0 &&
				 idle_for(entry->last_used_us, now, device_shared->idle_blocks_s) &&
				 process_memory_trylock(d))
		{
			device_shared->at_device = entry->index;
			api->cuda->device_trim(api->contexts[d]);
			device_shared->at_device = -1;
			process_memory_unlock(d);
		}
		last_used = Max(last_used, entry->last_used_us);
		device_read_memory(api, d);
	}
	if (device_shared->leave ||
		pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_LEAVING ||
		(all == 0 && idle_for(last_used, now, device_shared->idle_context_s)))
		try_to_leave();
}

/* ------------------------------------------------------------------------
 * A place for what the driver compiles.
 *
 * The GPU library has machine code for the architectures that it was built for, and
 * code from which a driver makes that of any later one.  That takes up to a minute, so the
 * driver keeps what it has made, but by default below the home directory of the
 * server's user, which often is not there or cannot be written to: then each process
 * would compile anew.  So the place is a directory in the data directory, unless
 * who started the server has set another.  What lies there is the driver's; it may be
 * deleted at any time.
 *
 * On error: the process goes on without, and says so in the server's log.
 * ------------------------------------------------------------------------
 */

#define CACHE_DIRECTORY		"gpusort.cache"

/* All of our kernels for a few architectures; the driver drops what was used least lately. */
#define CACHE_MAX_BYTES		"268435456"

/* process_cache.c: before the driver starts: it shall compile once, not in each process. */
static void
device_process_keep_code(void)
{
	char		path[MAXPGPATH];

	if (getenv("CUDA_CACHE_PATH") != NULL)
		return;
	/* the driver may look from elsewhere */
	snprintf(path, sizeof(path), "%s/" CACHE_DIRECTORY, DataDir);
	if ((MakePGDirectory(path) != 0 && errno != EEXIST) ||
		setenv("CUDA_CACHE_PATH", path, 1) != 0 ||
		setenv("CUDA_CACHE_MAXSIZE", CACHE_MAX_BYTES, 0) != 0)
		device_process_notes(-1, "gpusort: compiled GPU code is not kept in \"%s\": %s", path, strerror(errno));
}

/* ------------------------------------------------------------------------
 * Crashes of the device process are counted against the device whose call was running.
 *
 * A driver that crashes takes the process with it, and the next process would run into the same
 * crash.  A handler of the signals that a crash raises counts it as a failure of the device
 * (DeviceShared.failures), so that a device that crashes again and again is left out
 * (process.c), and lets the signal end the process as it would have without the handler.
 *
 * A signal that another process sends is no crash, and SIGKILL is never one.
 *
 * The device is that of the call of the thread that crashed.  For the loop it is at_device; for a thread
 * of the driver's own, that of the call that was begun last, if no other is known.
 * ------------------------------------------------------------------------
 */

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

/* Of the call of this thread, by CUDA's number; -1: none */
static __thread int thread_device = -1;

void
process_crash_blames(int device)
{
	thread_device = device;
}

static void
handle_crash(int signo, siginfo_t *info, void *context)
{
	int			device = thread_device;

	(void) context;
	if (device < 0)
		device = device_shared->at_device;
	if (device < 0)
		device = process_calls_last_device();
	/* sent by the kernel, or by abort() */
	if (device >= 0 && (info->si_code > 0 || info->si_pid == getpid()))
	{
		device_shared->failures[device]++;
		/* for the supervisor, which counts the reason */
		device_shared->at_device = device;
	}
	/* it is pending until this handler, which is not called again, returns */
	raise(signo);
}

/* process_crash.c: crashes are counted from here on, jobs being initialised. */
static void
process_crash_init(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = handle_crash;
	action.sa_flags = SA_SIGINFO | SA_RESETHAND;
	sigfillset(&action.sa_mask);
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		(void) sigaction(crash_signals[i], &action, NULL);
}

void
process_crash_unblock(sigset_t *set)
{
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		sigdelset(set, crash_signals[i]);
}
