/*
 * store.c
 *	  The correction factors, in shared memory and in a file, and their use by sorts.
 *
 * gpusort.learned in the data directory holds the factors.  It is a text file
 * (store_text.c), not a table, because the factors belong to the machine and not to a
 * database: every backend uses them without a transaction, also a parallel worker, and a
 * standby can write them.  The file names the processor; on another one it is ignored.
 *
 * A file that cannot be read or parsed is logged and ignored, because a sort must
 * not fail for lack of a prediction.
 */
#include "postgres.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "cost/cost_internal.h"
#include "cost/store.h"
#include "service/service.h"
#include "settings.h"
#include "shared_memory.h"
#include "storage/fd.h"

/* ------------------------------------------------------------------------
 * The file
 * ------------------------------------------------------------------------
 */

#define LEARN_FILE		"gpusort.learned"

/* What is being written; only the supervisor writes.  After a crash it is overwritten. */
#define UNFINISHED_FILE	LEARN_FILE ".tmp"

#define LEARN_DEVICES	64
#define LEARN_TEXT_MAX	(LEARN_DEVICES * (GPU_LEARN_TEXT_SIZE + GPU_SECTION_SIZE) + CPU_LEARN_TEXT_SIZE + 1024)

/*
 * Replaces the file's content atomically.  durable: waits for the disk, so that a crash
 * of the machine loses neither the old nor the new content; otherwise a crash may
 * leave an empty file.  Errors are logged.
 */
static void
write_text(const char *text, Size len, bool durable)
{
	int			fd = OpenTransientFile(UNFINISHED_FILE, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	bool		written;

	if (fd >= 0)
		errno = ENOSPC;			/* of a write that is cut short */
	written = fd >= 0 && write(fd, text, len) == (ssize_t) len && (!durable || pg_fsync(fd) == 0);
	if (fd >= 0 && CloseTransientFile(fd) != 0)
		written = false;
	if (written &&
		(durable ? durable_rename(UNFINISHED_FILE, LEARN_FILE, LOG) : rename(UNFINISHED_FILE, LEARN_FILE)) == 0)
		return;
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", LEARN_FILE)));
	unlink(UNFINISHED_FILE);
}

/* ------------------------------------------------------------------------
 * Shared memory
 *
 * The correction factors lie in shared memory, under a lock that is held for a
 * microsecond.  A server without the GPU service learns nothing: the factors do not
 * matter between CPU kernels.
 * ------------------------------------------------------------------------
 */

/* The factors of a device. */
typedef struct LearnEntry
{
	bool		used;
	GpuLearnedOf of;
	uint32		measurements;	/* version of the measurement taken in */
	GpuLearned	learned;
} LearnEntry;

typedef struct StoreShared
{
	/* the lock protects all fields */
	bool		cpu_changed;	/* the CPU's factor changed since the last save */
	bool		gpu_changed;	/* devices' factors changed since the last save */
	unsigned	cpu_times;		/* CpuMeasured.times that was taken in */
	Factor		cpu;
	LearnEntry	devices[LEARN_DEVICES]; /* by CUDA's device number */
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

	pg_read_barrier();
	memcpy(copy, (const void *) measured, size);
	pg_read_barrier();
	if (before == 0 || before == *taken || before % 2 != 0 || *version != before)
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
	{
		cpu_learn_measured(&shared->cpu, copy.sort_us);
		shared->cpu_changed = true;
	}
}

void
device_learn_cpu_facts(RouteFacts *facts)
{
	bool		ready;
	Factor		cpu;

	if (facts->n < CPU_LEARN_ROWS || device_shared == NULL || !gpusort_device_learn)
		return;
	LWLockAcquire(shared_lock, LW_SHARED);
	ready = shared->cpu_times == (device_shared->cpu.times & ~1u);
	cpu = shared->cpu;
	LWLockRelease(shared_lock);
	if (!ready)
	{
		cpu_lock_up_to_date();
		cpu = shared->cpu;
		LWLockRelease(shared_lock);
	}
	facts->cpu_factor = cpu_learn_factor(&cpu, (int64) time(NULL));
	facts->cpu_sorts = cpu.jobs;
}

void
device_learn_cpu_sort(const RouteFacts *facts, const Algorithm *algorithm, double took_us)
{
	if (facts->n < CPU_LEARN_ROWS || took_us <= 0 || device_shared == NULL || !gpusort_device_learn)
		return;
	cpu_lock_up_to_date();
	cpu_learn_sort(&shared->cpu, algorithm, facts, took_us, (int64) time(NULL));
	shared->cpu_changed = true;
	LWLockRelease(shared_lock);
}

/* ------------------------------------------------------------------------
 * Correction factors of the GPU model
 *
 * A device's name and memory identify it; factors of a former device with the same
 * number are dropped.
 *
 * The device process reports the times of copies and of the sort (DeviceJobTimes).
 * The hand-over has no clock of its own.  It is the time until the first chunk of
 * the result, minus the time in which this backend filled chunks, minus the sort
 * and the copy back, minus the copies to the device that did not overlap with
 * filling.  Their number is unknown, so the hand-over has a lower and an upper
 * limit.
 * ------------------------------------------------------------------------
 */
bool
device_learn_who(int device, LearnDevice *who)
{
	const DeviceEntry *entry = &device_shared->devices[device];
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	uint32		state = pg_atomic_read_u32(&device_shared->state);

	pg_read_barrier();
	who->number = entry->index;
	memcpy(who->name, entry->name, sizeof(who->name));
	who->name[sizeof(who->name) - 1] = '\0';
	who->memory = entry->memory_total;
	who->costs = &entry->costs;
	who->measured = &entry->measured;
	who->measurements = &entry->measurements;
	pg_read_barrier();
	return device < device_shared->ndevices && who->memory != 0 &&
		(state == DEVICE_SERVICE_READY || state == DEVICE_SERVICE_IDLE) &&
		pg_atomic_read_u32(&device_shared->state) == state &&
		pg_atomic_read_u32(&device_shared->generation) == generation;
}

/* The factors of the device. */
static LearnEntry *
entry_of(const LearnDevice *device)
{
	Assert(device->number >= 0 && device->number < LEARN_DEVICES);
	return &shared->devices[device->number];
}

/* Does the entry belong to this device, and not to a former one with its number? */
static bool
entry_is_of(const LearnEntry *entry, const LearnDevice *device)
{
	char		name[GPU_LEARN_NAME];

	gpu_learn_name(device->name, name);
	return entry->used && entry->of.memory == device->memory && strcmp(entry->of.name, name) == 0;
}

static bool
gpu_is_up_to_date(const LearnEntry *entry, const LearnDevice *device)
{
	uint32		measurements = *device->measurements & ~1u;

	return entry_is_of(entry, device) && (measurements == 0 || entry->measurements == measurements);
}

/*
 * Drops factors of another device and takes in a new measurement.  The caller holds
 * the exclusive lock.
 */
static void
gpu_bring_up_to_date(LearnEntry *entry, const LearnDevice *device)
{
	DeviceMeasured measured;

	if (!entry_is_of(entry, device))
	{
		memset(entry, 0, sizeof(*entry));
		gpu_learn_begin(&entry->learned);
		entry->of.number = device->number;
		entry->of.memory = device->memory;
		gpu_learn_name(device->name, entry->of.name);
		entry->used = true;
	}
	if (copy_measured(&measured, device->measured, sizeof(measured), device->measurements,
					  &entry->measurements))
	{
		gpu_learn_measured(&entry->learned, device->costs, &measured);
		shared->gpu_changed = true;
	}
}

void
gpusort_learned(const LearnDevice *device, double others, GpuLearned *learned, GpuFactors *factors)
{
	LearnEntry *entry = entry_of(device);
	bool		ready;

	LWLockAcquire(shared_lock, LW_SHARED);
	ready = gpu_is_up_to_date(entry, device);
	if (ready)
		*learned = entry->learned;
	LWLockRelease(shared_lock);
	if (!ready)
	{
		LWLockAcquire(shared_lock, LW_EXCLUSIVE);
		gpu_bring_up_to_date(entry, device);
		*learned = entry->learned;
		LWLockRelease(shared_lock);
	}
	gpu_learn_factors(learned, others, (int64) time(NULL), factors);
}

void
device_learn_facts(RouteFacts *facts, double *memory, double *all_memory)
{
	static GpuFactors factors;
	DeviceAvailability availability;
	LearnDevice who;

	device_availability(&availability);
	facts->gpu.costs = &device_shared->devices[availability.device].costs;
	facts->gpu.factors = NULL;
	if (device_learn_who(availability.device, &who) && gpusort_device_learn)
	{
		GpuLearned	learned;

		gpusort_learned(&who, availability.others, &learned, &factors);
		facts->gpu.factors = &factors;
	}
	if (memory != NULL)
		*memory = (double) availability.memory;
	if (all_memory != NULL)
		*all_memory = (double) availability.all_memory;
}

void
device_learn_job(const DeviceJob *job, const RouteFacts *facts, const Algorithm *algorithm,
				 bool at_once)
{
	const DeviceJobTimes *observed = &job->times;
	GpuJobTimes times = {0};
	RouteFacts	done = *facts;
	LearnDevice who;
	LearnEntry *entry;

	if (job->slot == NULL || algorithm == NULL || !gpusort_device_learn ||
		!device_learn_who(job->slot->device, &who))
		return;
	done.n = job->rows_up;
	done.gpu.costs = who.costs;
	times.up_bytes = observed->up_bytes;
	times.up_us = observed->up_us;
	times.down_bytes = observed->down_bytes;
	times.down_us = observed->down_us;
	times.sort_us = observed->sort_us;
	times.others = device_others(job->slot->device);
	if (at_once && observed->up_bytes > 0)
	{
		double		most_us = job->first_us - job->fill_us - observed->sort_us - observed->down_us;
		double		up_us = observed->up_us * (double) job->bytes_up / observed->up_bytes;

		times.hand_over_us = Max(most_us - up_us, 0);
		times.hand_over_most_us = job->posted == 1 ? times.hand_over_us : Max(most_us, 0);
	}
	entry = entry_of(&who);
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	gpu_bring_up_to_date(entry, &who);
	gpu_learn_job(&entry->learned, algorithm, &done, &times, (int64) time(NULL));
	shared->gpu_changed = true;
	LWLockRelease(shared_lock);
}

/* ------------------------------------------------------------------------
 * The file's content
 *
 * The service's supervisor saves them, so that no query waits for a disk.
 * ------------------------------------------------------------------------
 */

/* Least interval between two saves, and if only the CPU's factor changed. */
#define SAVE_EVERY_S		10
#define SAVE_CPU_EVERY_S	60

/* Reads one device's section; false if it is invalid. */
static bool
parse_device(StoreText *text)
{
	GpuLearnedOf of;
	LearnEntry *entry;

	if (!gpu_section_text(text, &of) || of.number < 0 || of.number >= LEARN_DEVICES)
		return false;
	entry = &shared->devices[of.number];
	entry->of = of;
	entry->used = gpu_learn_text(text, &entry->learned);
	return entry->used;
}

/* Loads the file at the server's start. */
static void
load_factors(void)
{
	FILE	   *in = AllocateFile(LEARN_FILE, "r");
	StoreTextStatus status;
	StoreText	text;
	char	   *content;

	if (in == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", LEARN_FILE)));
		return;
	}
	content = palloc(LEARN_TEXT_MAX);
	content[fread(content, 1, LEARN_TEXT_MAX - 1, in)] = '\0';
	FreeFile(in);

	text = (StoreText)
	{
		.in = content
	};
	/* a crash of the machine may leave an empty file */
	status = content[0] == '\0' ? STORE_TEXT_OK : text_head(&text, LEARN_TEXT_HEAD);
	if (status == STORE_TEXT_OK && content[0] != '\0' && !cpu_learn_text(&text, &shared->cpu))
		status = STORE_TEXT_BAD;
	while (status == STORE_TEXT_OK && *text.in != '\0')
	{
		if (!parse_device(&text))
			status = STORE_TEXT_BAD;
	}
	pfree(content);
	if (status == STORE_TEXT_OK)
		return;
	memset(&shared->cpu, 0, sizeof(shared->cpu));
	memset(shared->devices, 0, sizeof(shared->devices));
	if (status == STORE_TEXT_OTHER_MACHINE)
		ereport(LOG,
				(errmsg("gpusort ignores correction factors of another machine")));
	else
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("gpusort cannot use file \"%s\"", LEARN_FILE),
				 errdetail("The correction factors of GPUs and of the CPU are reset.")));
}

/* Writes all factors to the text. */
static void
format_factors(StoreText *text)
{
	LearnEntry *entry = palloc(sizeof(LearnEntry));
	Factor		cpu;

	(void) text_head(text, LEARN_TEXT_HEAD);
	LWLockAcquire(shared_lock, LW_SHARED);
	cpu = shared->cpu;
	LWLockRelease(shared_lock);
	(void) cpu_learn_text(text, &cpu);
	for (int d = 0; d < LEARN_DEVICES; d++)
	{
		LWLockAcquire(shared_lock, LW_SHARED);
		*entry = shared->devices[d];
		LWLockRelease(shared_lock);
		if (!entry->used)
			continue;
		(void) gpu_section_text(text, &entry->of);
		(void) gpu_learn_text(text, &entry->learned);
	}
	pfree(entry);
}

/*
 * Saves changed factors; unless at_once, at most every few seconds.  Only the supervisor
 * calls this.  Errors are logged.
 */
static void
save_factors(bool at_once)
{
	static time_t last = 0;
	time_t		now = time(NULL);
	StoreText	text;
	char	   *content;
	bool		changed;

	if (device_shared == NULL || (!at_once && now - last < SAVE_EVERY_S && now >= last))
		return;
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	changed = shared->gpu_changed;
	shared->gpu_changed = false;
	if (at_once || now - last >= SAVE_CPU_EVERY_S || now < last)
	{
		changed |= shared->cpu_changed;
		shared->cpu_changed = false;
	}
	LWLockRelease(shared_lock);
	if (!changed)
		return;
	last = now;
	content = palloc(LEARN_TEXT_MAX);
	text = (StoreText)
	{
		.out = content,.end = content + LEARN_TEXT_MAX
	};
	format_factors(&text);

	/* not durable: the supervisor watches the device process, and must not wait for a disk */
	write_text(content, text.out - content, at_once);
	pfree(content);
}

/* ------------------------------------------------------------------------
 * Start
 * ------------------------------------------------------------------------
 */
void
gpusort_store_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &shared,
		.size = sizeof(StoreShared),
		.lock = &shared_lock,
		.lock_name = "gpusort_learn",
		.init = load_factors
	};

	device_supervisor_hook = save_factors;
	shared_memory_add(&part);
}
