/*
 * store.c
 *	  The learned figures, in shared memory and files, and their use by sorts.
 *
 * The learned figures are the measured constants of the CPU model and the correction
 * factors.  gpusort.model holds the constants, gpusort.learned the factors.  Both are
 * text files of one format (store_text.c) in the data directory, not tables, because
 * they belong to the machine and not to a database: every backend reads them without a
 * transaction, also a parallel worker, and a standby can write them.  They are two
 * files because they are written by different processes at different times.  Each
 * names the processor; on another one it is ignored.
 *
 * A file that cannot be read or parsed is logged and ignored, because a sort must
 * not fail for lack of a prediction.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "cost/cost_internal.h"
#include "cost/store.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "service/service.h"
#include "settings.h"
#include "shared_memory.h"
#include "storage/fd.h"

/* ------------------------------------------------------------------------
 * Files
 * ------------------------------------------------------------------------
 */

/* Suffix of a file that is being written, after the PID of the writing process. */
#define UNFINISHED		".tmp"

#define LEARN_DEVICES	64
#define LEARN_TEXT_MAX	(LEARN_DEVICES * (GPU_LEARN_TEXT_SIZE + GPU_SECTION_SIZE) + CPU_LEARN_TEXT_SIZE + 1024)

/* A file, and what is logged if it cannot be used. */
typedef struct StoreFile
{
	const char *name;
	const char *head;			/* first line */
	Size		max;			/* bytes of its text */
	bool		may_be_empty;	/* after a crash of the machine */
	const char *other_machine;	/* message, and a hint or NULL */
	const char *other_machine_hint;
	const char *bad_detail;		/* NULL: none */
	const char *bad_hint;		/* NULL: none */
} StoreFile;

static const StoreFile model_file = {
	.name = "gpusort.model",
	.head = MODEL_TEXT_HEAD,
	.max = MODEL_TEXT_SIZE,
	.other_machine = "gpusort ignores constants that were measured on another machine",
	.other_machine_hint = "Run gpusort_calibrate() to measure this one.",
	.bad_hint = "Run gpusort_calibrate() to write it again."
};

static const StoreFile learn_file = {
	.name = "gpusort.learned",
	.head = LEARN_TEXT_HEAD,
	.max = LEARN_TEXT_MAX,
	.may_be_empty = true,
	.other_machine = "gpusort ignores correction factors of another machine",
	.bad_detail = "The correction factors of GPUs and of the CPU are reset."
};

/* Removes the file and reports errno at elevel.  Returns false if that returns. */
static bool
write_failed(const char *path, const char *done, int elevel)
{
	int			save_errno = errno;

	unlink(path);
	errno = save_errno;
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not %s file \"%s\": %m", done, path)));
	return false;
}

/*
 * Replaces a file's content atomically.  durable: waits for the disk, so that a crash
 * of the machine loses neither the old nor the new content; otherwise a crash may
 * leave an empty file.  Errors are reported at elevel; returns false if that returns.
 */
static bool
write_text(const char *file, const char *text, Size len, bool durable, int elevel)
{
	char		path[MAXPGPATH];
	int			fd;

	snprintf(path, sizeof(path), "%s.%d" UNFINISHED, file, MyProcPid);
	fd = OpenTransientFile(path, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		return write_failed(path, "create", elevel);

	errno = 0;
	if (write(fd, text, len) != (ssize_t) len || (durable && pg_fsync(fd) != 0))
	{
		if (errno == 0)
			errno = ENOSPC;
		CloseTransientFile(fd);
		return write_failed(path, "write", elevel);
	}
	if (CloseTransientFile(fd) != 0)
		return write_failed(path, "close", elevel);
	if (!durable)
		return rename(path, file) == 0 || write_failed(path, "rename", elevel);
	/* durable_rename() reports its errors */
	if (durable_rename(path, file, Min(elevel, WARNING)) == 0)
		return true;
	unlink(path);
	if (elevel >= ERROR)
		ereport(elevel,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not write file \"%s\"", file)));
	return false;
}

/* Removes unfinished files of crashed processes, at the server's start. */
static void
remove_unfinished_text(void)
{
	DIR		   *dir = AllocateDir(".");
	struct dirent *entry;

	while ((entry = ReadDirExtended(dir, ".", LOG)) != NULL)
	{
		const char *name = entry->d_name;
		size_t		length = strlen(name);

		if (strncmp(name, "gpusort.", 8) == 0 && length > strlen(UNFINISHED) &&
			strcmp(name + length - strlen(UNFINISHED), UNFINISHED) == 0 && unlink(name) != 0)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", name)));
	}
	FreeDir(dir);
}

/* Loads a file.  parse() reads what follows the head.  False if nothing was loaded. */
static bool
load_text(const StoreFile *file, bool (*parse) (StoreText *text), int elevel)
{
	FILE	   *in = AllocateFile(file->name, "r");
	StoreTextStatus status;
	StoreText	text;
	char	   *content;

	if (in == NULL)
	{
		if (errno != ENOENT)
			ereport(elevel,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", file->name)));
		return false;
	}
	content = palloc(file->max);
	content[fread(content, 1, file->max - 1, in)] = '\0';
	FreeFile(in);
	if (content[0] == '\0' && file->may_be_empty)
	{
		pfree(content);
		return false;
	}

	text = (StoreText)
	{
		.in = content
	};
	status = text_head(&text, file->head);
	if (status == STORE_TEXT_OK && !parse(&text))
		status = STORE_TEXT_BAD;
	pfree(content);
	if (status == STORE_TEXT_OTHER_MACHINE)
		ereport(elevel,
				(errmsg_internal("%s", file->other_machine),
				 file->other_machine_hint ? errhint("%s", file->other_machine_hint) : 0));
	else if (status == STORE_TEXT_BAD)
		ereport(elevel,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("gpusort cannot use file \"%s\"", file->name),
				 file->bad_detail ? errdetail("%s", file->bad_detail) : 0,
				 file->bad_hint ? errhint("%s", file->bad_hint) : 0));
	return status == STORE_TEXT_OK;
}

/* Begins the text of a file that save_text() writes. */
static StoreText
begin_text(const StoreFile *file, char **content)
{
	StoreText	text;

	*content = palloc(file->max);
	text = (StoreText)
	{
		.out = *content,.end = *content + file->max
	};
	(void) text_head(&text, file->head);
	return text;
}

/* Writes the content, as write_text() does, and frees it. */
static void
save_text(const StoreFile *file, char *content, const StoreText *text, bool durable, int elevel)
{
	(void) write_text(file->name, content, text->out - content, durable, elevel);
	pfree(content);
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
	/* hash of the version of model_file that was logged last */
	pg_atomic_uint64 logged;

	/* The lock protects the following fields.  They exist only with the service. */
	bool		cpu_changed;	/* the CPU's factors changed since the last save */
	bool		gpu_changed;	/* devices' factors changed since the last save */
	uint64		cpu_model;		/* version of the constants; 0: none */
	unsigned	cpu_times;		/* CpuMeasured.times that was taken in */
	CpuLearned	cpu;
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
 * The model's constants
 *
 * A reader notices a new file by its inode and modification time.  Only one process
 * logs a bad version.  Without shared memory the message has level DEBUG1.
 * ------------------------------------------------------------------------
 */

/* Smaller sorts do not check for a new file. */
#define REFRESH_MIN_ROWS	65536

/* The version of the file that this process read last; inode 0: there was no file. */
static struct
{
	bool		checked;		/* this process has checked for a file */
	ino_t		inode;
	struct timespec mtime;
}			seen;

static RouteModel stored;		/* the constants of the file */

/* Hash of the version that was read last; never 0. */
static uint64
file_version(void)
{
	uint64		parts[3] = {seen.inode, seen.mtime.tv_sec, seen.mtime.tv_nsec};

	return hash_bytes_extended((unsigned char *) parts, sizeof(parts), 0) | 1;
}

/* Error level for messages about this version: LOG in the first process, DEBUG1 in all later ones. */
static int
log_level(void)
{
	uint64		version = file_version();

	return shared != NULL && pg_atomic_exchange_u64(&shared->logged, version) != version ? LOG : DEBUG1;
}

static bool
parse_model(StoreText *text)
{
	return model_text(text, &stored);
}

void
gpusort_model_refresh(size_t n)
{
	struct stat st;

	if (n < REFRESH_MIN_ROWS && seen.checked)
		return;

	if (stat(model_file.name, &st) != 0)
		memset(&st, 0, sizeof(st));
	if (st.st_ino == seen.inode &&
		st.st_mtim.tv_sec == seen.mtime.tv_sec &&
		st.st_mtim.tv_nsec == seen.mtime.tv_nsec)
	{
		seen.checked = true;
		return;
	}
	seen.checked = true;
	seen.inode = st.st_ino;
	seen.mtime = st.st_mtim;

	route_model = st.st_ino != 0 && load_text(&model_file, parse_model, log_level()) ?
		&stored : &route_model_builtin;
}

/* Identifies the constants that this process uses, also after a restart; never 0. */
static uint64
model_version(void)
{
	gpusort_model_refresh(0);
	return file_version();
}

/* ------------------------------------------------------------------------
 * Correction factors of the CPU model
 *
 * The factors belong to one version of the model's constants and are dropped with it.
 * A process that finds another version first reloads its constants, so that an
 * outdated process does not drop the factors of a newer version.
 * ------------------------------------------------------------------------
 */

static bool
cpu_is_up_to_date(void)
{
	const volatile CpuMeasured *measured = &device_shared->cpu;

	return shared->cpu_model == model_version() && shared->cpu_times == (measured->times & ~1u);
}

/*
 * Drops factors of other constants and takes in a new measurement.  The caller holds
 * the exclusive lock.
 */
static void
cpu_bring_up_to_date(void)
{
	const volatile CpuMeasured *measured = &device_shared->cpu;
	uint64		model = model_version();
	CpuMeasured copy;

	if (shared->cpu_model != model)
	{
		memset(&shared->cpu, 0, sizeof(shared->cpu));
		shared->cpu_model = model;
		shared->cpu_times = 0;
		shared->cpu_changed = true;
	}
	if (copy_measured(&copy, measured, sizeof(copy), &measured->times, &shared->cpu_times))
	{
		cpu_learn_measured(&shared->cpu, &copy);
		shared->cpu_changed = true;
	}
}

/* Takes the exclusive lock and brings the factors up to date. */
static void
cpu_lock_up_to_date(void)
{
	/* reads a file, so before the lock */
	if (!cpu_is_up_to_date())
		gpusort_model_refresh(SIZE_MAX);
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	cpu_bring_up_to_date();
}

/* Copies the factors; false if there are none. */
static bool
cpu_learned(CpuLearned *learned)
{
	bool		ready;

	if (device_shared == NULL || !gpusort_device_learn)
		return false;
	LWLockAcquire(shared_lock, LW_SHARED);
	ready = cpu_is_up_to_date();
	if (ready)
		*learned = shared->cpu;
	LWLockRelease(shared_lock);
	if (ready)
		return true;
	cpu_lock_up_to_date();
	*learned = shared->cpu;
	LWLockRelease(shared_lock);
	return true;
}

void
device_learn_cpu_facts(RouteFacts *facts)
{
	CpuLearned	learned;

	if (facts->n < CPU_LEARN_ROWS || !cpu_learned(&learned))
		return;
	facts->cpu_factor = cpu_learn_factor(&learned, facts, (int64) time(NULL));
	facts->cpu_sorts = learned.sorts;
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

/* Forgets what sorts taught, because the model's constants changed. */
static void
cpu_forget(void)
{
	if (device_shared == NULL)
		return;
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	shared->cpu_model = 0;
	cpu_bring_up_to_date();
	LWLockRelease(shared_lock);
}

void
gpusort_model_store(const RouteModel *model)
{
	RouteModel	copy = *model;
	char	   *content;
	StoreText	text = begin_text(&model_file, &content);

	(void) model_text(&text, &copy);
	save_text(&model_file, content, &text, true, ERROR);
	gpusort_model_refresh(SIZE_MAX);
	cpu_forget();
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

void
gpusort_learn_forget(const LearnDevice *device)
{
	LearnEntry *entry = entry_of(device);

	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	entry->used = false;
	gpu_bring_up_to_date(entry, device);
	shared->gpu_changed = true;
	LWLockRelease(shared_lock);
}

/* ------------------------------------------------------------------------
 * The file of the factors
 *
 * The service's supervisor saves them, so that no query waits for a disk.
 * ------------------------------------------------------------------------
 */

/* Least interval between two saves, and if only the CPU's factors changed. */
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

static bool
parse_factors(StoreText *text)
{
	while (*text->in != '\0')
	{
		if (!(strncmp(text->in, "cpu ", 4) == 0 ?
			  cpu_section_text(text, &shared->cpu_model) && cpu_learn_text(text, &shared->cpu) :
			  parse_device(text)))
			return false;
	}
	return true;
}

static void
load_factors(void)
{
	if (load_text(&learn_file, parse_factors, LOG))
		return;
	memset(&shared->cpu, 0, sizeof(shared->cpu));
	shared->cpu_model = 0;
	memset(shared->devices, 0, sizeof(shared->devices));
}

/* Writes all factors to the text. */
static void
format_factors(StoreText *text)
{
	LearnEntry *entry = palloc(sizeof(LearnEntry));
	uint64		model;
	CpuLearned	cpu;

	LWLockAcquire(shared_lock, LW_SHARED);
	model = shared->cpu_model;
	cpu = shared->cpu;
	LWLockRelease(shared_lock);
	if (model != 0)
	{
		(void) cpu_section_text(text, &model);
		(void) cpu_learn_text(text, &cpu);
	}
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
	text = begin_text(&learn_file, &content);
	format_factors(&text);

	/* not durable: the supervisor watches the device process, and must not wait for a disk */
	save_text(&learn_file, content, &text, at_once, LOG);
}

/* ------------------------------------------------------------------------
 * Start
 * ------------------------------------------------------------------------
 */
static void
init_shared_figures(void)
{
	pg_atomic_init_u64(&shared->logged, 0);
	remove_unfinished_text();
	if (shared_lock != NULL)
		load_factors();
}

void
gpusort_store_init(bool learns)
{
	static SharedPart part = {
		.memory = (void **) &shared,
		.init = init_shared_figures
	};

	part.size = learns ? sizeof(StoreShared) : offsetof(StoreShared, cpu_changed);
	if (learns)
	{
		part.lock = &shared_lock;
		part.lock_name = "gpusort_learn";
		device_supervisor_hook = save_factors;
	}
	shared_memory_add(&part);
}
