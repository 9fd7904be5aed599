/*
 * store.c
 *	  The correction factors in shared memory, and their use by sorts.
 *
 * The factors begin with the measurements that the service takes at its start, and jobs
 * correct them.  After a restart the predictions of a few jobs are worse.  A server without
 * the GPU service learns nothing: the factors do not matter between CPU kernels.
 *
 * A lock protects the factors.  It is held for a microsecond.
 */
#include "postgres.h"

#include <time.h>

#include "cost/cost_internal.h"
#include "cost/store.h"
#include "service/service.h"
#include "settings.h"
#include "shared_memory.h"

/* The factors of a device, which its name and memory identify. */
typedef struct LearnEntry
{
	char		name[64];
	uint64		memory;			/* 0: no device had this number yet */
	uint32		measurements;	/* version of the measurement taken in */
	GpuLearned	learned;
} LearnEntry;

typedef struct StoreShared
{
	unsigned	cpu_times;		/* CpuMeasured.times that was taken in */
	Factor		cpu;
	LearnEntry	devices[DEVICE_MAX]; /* by CUDA's device number */
} StoreShared;

static StoreShared *shared = NULL;
static LWLock *shared_lock = NULL;

/*
 * Copies a measurement, whose version is odd while the device process writes it.  False if
 * its version is *taken already, or if it is being written; a later call takes it in.
 */
static bool
copy_measured(void *copy, const volatile void *measured, Size size, const volatile uint32 *version,
			  uint32 *taken)
{
	uint32		before = *version;

	if (before == 0 || before == *taken || before % 2 != 0)
		return false;
	pg_read_barrier();
	memcpy(copy, (const void *) measured, size);
	pg_read_barrier();
	if (*version != before)
		return false;
	*taken = before;
	return true;
}

/* ------------------------------------------------------------------------
 * Correction factor of the CPU model
 * ------------------------------------------------------------------------
 */

/* Takes the exclusive lock and takes in a new measurement. */
static void
cpu_lock_up_to_date(void)
{
	const volatile CpuMeasured *measured = &device_shared->cpu;
	CpuMeasured copy;

	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	if (copy_measured(&copy, measured, sizeof(copy), &measured->times, &shared->cpu_times))
		cpu_learn_measured(&shared->cpu, copy.sort_us);
}

void
device_learn_cpu_facts(RouteFacts *facts)
{
	if (facts->n < CPU_LEARN_ROWS || device_shared == NULL || !gpusort_device_learn)
		return;
	cpu_lock_up_to_date();
	facts->cpu_factor = cpu_learn_factor(&shared->cpu, (int64) time(NULL));
	facts->cpu_sorts = shared->cpu.jobs;
	LWLockRelease(shared_lock);
}

void
device_learn_cpu_sort(const RouteFacts *facts, const Algorithm *algorithm, double took_us)
{
	if (facts->n < CPU_LEARN_ROWS || took_us <= 0 || device_shared == NULL || !gpusort_device_learn)
		return;
	cpu_lock_up_to_date();
	cpu_learn_sort(&shared->cpu, algorithm, facts, took_us, (int64) time(NULL));
	LWLockRelease(shared_lock);
}

/* ------------------------------------------------------------------------
 * Correction factors of the GPU model
 *
 * The device process reports the times of copies and of the sort (DeviceJobTimes).
 * The hand-over has no clock of its own.  It is the time until the first chunk of
 * the result, minus the time in which this backend filled chunks, minus the sort
 * and the copy back, minus the copies to the device that did not overlap with
 * filling.  Their number is unknown, so the hand-over has a lower and an upper
 * limit.
 * ------------------------------------------------------------------------
 */

/* Copies a device by its index; false if there is none, or the service is writing the list. */
static bool
copy_device(int device, DeviceEntry *copy)
{
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	uint32		state = pg_atomic_read_u32(&device_shared->state);

	pg_read_barrier();
	*copy = device_shared->devices[device];
	pg_read_barrier();
	return device < device_shared->ndevices && copy->memory_total != 0 &&
		(state == DEVICE_SERVICE_READY || state == DEVICE_SERVICE_IDLE) &&
		pg_atomic_read_u32(&device_shared->state) == state &&
		pg_atomic_read_u32(&device_shared->generation) == generation;
}

/*
 * The factors of a device: drops those of another one and takes in a new measurement.  The
 * caller holds the exclusive lock, and has a copy of the device.
 */
static LearnEntry *
bring_up_to_date(int device, const DeviceEntry *copy)
{
	LearnEntry *factors = &shared->devices[copy->index];
	const DeviceEntry *entry = &device_shared->devices[device];
	DeviceMeasured measured;	/* the measurement alone may change meanwhile */

	/* a former device may have had this number */
	if (factors->memory != copy->memory_total || strcmp(factors->name, copy->name) != 0)
	{
		memset(factors, 0, sizeof(*factors));
		gpu_learn_begin(&factors->learned);
		factors->memory = copy->memory_total;
		strlcpy(factors->name, copy->name, sizeof(factors->name));
	}
	if (copy_measured(&measured, &entry->measured, sizeof(measured), &entry->measurements,
					  &factors->measurements))
		gpu_learn_measured(&factors->learned, &copy->costs, &measured);
	return factors;
}

int
gpusort_learned(int device, GpuLearned *learned)
{
	DeviceEntry entry;

	if (!copy_device(device, &entry))
		return -1;
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	*learned = bring_up_to_date(device, &entry)->learned;
	LWLockRelease(shared_lock);
	return entry.index;
}

/* Sets the costs of a device, and its factors with this number of other jobs. */
static void
set_costs(RouteFacts *facts, int device, double others, bool measured_only)
{
	static GpuFactors factors;
	GpuLearned	learned;

	facts->gpu.costs = &device_shared->devices[device].costs;
	facts->gpu.factors = NULL;
	if (!gpusort_device_learn || gpusort_learned(device, &learned) < 0)
		return;
	if (measured_only)
		gpu_forget_jobs(&learned);
	gpu_learn_factors(&learned, others, (int64) time(NULL), &factors);
	facts->gpu.factors = &factors;
}

void
device_learn_facts(RouteFacts *facts, double *memory, double *all_memory)
{
	DeviceAvailability availability;

	device_availability(&availability);
	set_costs(facts, availability.device, device_active_jobs(availability.device), false);
	if (memory != NULL)
		*memory = (double) availability.memory;
	if (all_memory != NULL)
		*all_memory = (double) availability.all_memory;
}

void
device_plan_facts(RouteFacts *facts)
{
	set_costs(facts, 0, 0, true);
}

void
device_learn_job(const DeviceJob *job, const RouteFacts *facts, const Algorithm *algorithm,
				 bool at_once)
{
	const DeviceJobTimes *observed = &job->times;
	GpuJobTimes times = {0};
	RouteFacts	done = *facts;
	DeviceEntry entry;

	if (job->slot == NULL || algorithm == NULL || !gpusort_device_learn ||
		!copy_device(job->slot->device, &entry))
		return;
	done.n = job->rows_up;
	done.gpu.costs = &entry.costs;
	times.up_bytes = observed->up_bytes;
	times.up_us = observed->up_us;
	times.down_bytes = observed->down_bytes;
	times.down_us = observed->down_us;
	times.sort_us = observed->sort_us;
	times.others = device_active_jobs(job->slot->device);
	if (at_once && observed->up_bytes > 0)
	{
		double		most_us = job->first_us - job->fill_us - observed->sort_us - observed->down_us;
		double		up_us = observed->up_us * (double) job->bytes_up / observed->up_bytes;

		times.hand_over_us = Max(most_us - up_us, 0);
		times.hand_over_most_us = job->posted == 1 ? times.hand_over_us : Max(most_us, 0);
	}
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	gpu_learn_job(&bring_up_to_date(job->slot->device, &entry)->learned, algorithm, &done, &times, (int64) time(NULL));
	LWLockRelease(shared_lock);
}

void
gpusort_store_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &shared,
		.size = sizeof(StoreShared),
		.lock = &shared_lock,
		.lock_name = "gpusort_learn"
	};

	shared_memory_add(&part);
}
