/*
 * process.c
 *	  The device process: it owns CUDA and does the jobs' work in turn.
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
#include <time.h>
#include <unistd.h>

#include "device/clock.h"
#include "device/service/service.h"
#include "device/service/staging.h"
#include "miscadmin.h"
#include "settings.h"

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
