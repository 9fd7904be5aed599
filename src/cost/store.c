/*
 * store.c
 *	  The model's constants and the correction factors, in shared memory and files.
 *
 * gpusort.model holds the measured constants, gpusort.learned the correction factors.
 * Both are text files in the data directory, not tables, because they belong to the
 * machine and not to a database: every backend reads them without a transaction,
 * also a parallel worker, and a standby can write them.  Each names the processor; on
 * another one it is ignored.
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
#include "cost/cost.h"
#include "cost/store.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "settings.h"
#include "shared_memory.h"
#include "storage/fd.h"

/* Suffix of a file that is being written; before it stands the process's number. */
#define UNFINISHED		".tmp"

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

/*
 * The first max - 1 bytes of a file's content, palloc'd.  NULL if there is no file, or
 * if it cannot be opened, which is reported at elevel.
 */
static char *
read_text(const char *file, Size max, int elevel)
{
	FILE	   *in = AllocateFile(file, "r");
	char	   *text;
	Size		len;

	if (in == NULL)
	{
		if (errno != ENOENT)
			ereport(elevel,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", file)));
		return NULL;
	}
	text = palloc(max);
	len = fread(text, 1, max - 1, in);
	text[len] = '\0';
	FreeFile(in);
	return text;
}

/* ------------------------------------------------------------------------
 * The model's constants
 *
 * A reader notices a new file by its inode and modification time.  Shared memory
 * holds the version of the file that was logged last, so that only one process logs a
 * bad version.  Without shared memory the message has level DEBUG1.
 * ------------------------------------------------------------------------
 */

#define MODEL_FILE		"gpusort.model"

/* Smaller sorts do not check for a new file. */
#define REFRESH_MIN_ROWS	65536

/* The version of the file that this process read last; zeroes: no file. */
static struct
{
	bool		looked;			/* this process checked for a file */
	ino_t		inode;
	struct timespec mtime;
}			seen;

static RouteModel stored;

/* Hash of the version that was logged last; NULL without shared memory. */
static pg_atomic_uint64 *logged = NULL;

static void
init_logged(void)
{
	pg_atomic_init_u64(logged, 0);
	remove_unfinished_text();
}

void
gpusort_model_store_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &logged,
		.size = sizeof(*logged),
		.init = init_logged
	};

	shared_memory_add(&part);
}

/* Hash of the version that was read last; never 0. */
static uint64
file_version(void)
{
	uint64		parts[3] = {seen.inode, seen.mtime.tv_sec, seen.mtime.tv_nsec};

	return hash_bytes_extended((unsigned char *) parts, sizeof(parts), 0) | 1;
}

/* Error level for messages about this version: LOG in one process, DEBUG1 in the others. */
static int
log_level(void)
{
	uint64		version = file_version();

	return logged != NULL && pg_atomic_exchange_u64(logged, version) != version ? LOG : DEBUG1;
}

static bool
read_model(RouteModel *model)
{
	int			level = log_level();
	char	   *text = read_text(MODEL_FILE, MODEL_TEXT_SIZE, level);
	ModelTextStatus status;

	if (text == NULL)
		return false;
	status = model_parse(text, model);
	pfree(text);
	switch (status)
	{
		case MODEL_TEXT_OK:
			return true;
		case MODEL_TEXT_OTHER_MACHINE:
			ereport(level,
					(errmsg("gpusort ignores constants that were measured on another machine"),
					 errhint("Run gpusort_calibrate() to measure this one.")));
			return false;
		case MODEL_TEXT_BAD:
			break;
	}
	ereport(level,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("gpusort cannot use file \"%s\"", MODEL_FILE),
			 errhint("Run gpusort_calibrate() to write it anew.")));
	return false;
}

void
gpusort_model_refresh(size_t n)
{
	struct stat st;

	if (n < REFRESH_MIN_ROWS && seen.looked)
		return;

	if (stat(MODEL_FILE, &st) != 0)
		memset(&st, 0, sizeof(st));
	if (st.st_ino == seen.inode &&
		st.st_mtim.tv_sec == seen.mtime.tv_sec &&
		st.st_mtim.tv_nsec == seen.mtime.tv_nsec)
	{
		seen.looked = true;
		return;
	}
	seen.looked = true;
	seen.inode = st.st_ino;
	seen.mtime = st.st_mtim;

	route_model = st.st_ino != 0 && read_model(&stored) ?
		&stored : &route_model_builtin;
}

/* Identifies the constants that this process uses, also after a restart; never 0. */
static uint64
model_version(void)
{
	gpusort_model_refresh(0);
	return file_version();
}

void
gpusort_model_store(const RouteModel *model)
{
	char		text[MODEL_TEXT_SIZE];
	size_t		len = model_format(model, text);

	(void) write_text(MODEL_FILE, text, len, true, ERROR);
}

/* ------------------------------------------------------------------------
 * Correction factors of the CPU model
 *
 * They lie in shared memory, under a lock that is held for a microsecond.  A session
 * without shared memory learns nothing: it has no GPU, and the factors do not matter
 * between CPU kernels.
 *
 * The factors belong to one version of the model's constants and are dropped with it.
 * A process that finds another version first reloads its constants, so that an
 * outdated process does not drop the factors of a newer version.
 * ------------------------------------------------------------------------
 */

typedef struct CpuShared
{
	bool		changed;		/* changed since the last cpu_take_changed() */
	uint64		model;			/* version of its constants; 0: none */
	unsigned	times;			/* CpuMeasured.times when it was read */
	CpuLearned	learned;
} CpuShared;

static CpuShared *cpu_shared = NULL;
static LWLock *cpu_lock = NULL;

static void
cpu_store_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &cpu_shared,
		.size = sizeof(CpuShared),
		.lock = &cpu_lock,
		.lock_name = "gpusort_learn_cpu"
	};

	shared_memory_add(&part);
}

static bool
cpu_is_up_to_date(const volatile CpuMeasured *measured)
{
	return cpu_shared->model == model_version() && cpu_shared->times == (measured->times & ~1u);
}

/*
 * Drops factors of other constants and takes in a new measurement.  The caller holds
 * the exclusive lock.
 */
static void
cpu_bring_up_to_date(const volatile CpuMeasured *measured)
{
	uint64		model = model_version();
	unsigned	before = measured->times;
	CpuMeasured copy;

	if (cpu_shared->model != model)
	{
		cpu_learn_begin(&cpu_shared->learned);
		cpu_shared->model = model;
		cpu_shared->times = 0;
		cpu_shared->changed = true;
	}
	pg_read_barrier();
	copy = *(const CpuMeasured *) measured;
	pg_read_barrier();
	/* skip a measurement that is being written; a later call takes it in */
	if (cpu_shared->times == before || before % 2 != 0 || measured->times != before)
		return;
	cpu_shared->times = before;
	cpu_learn_measured(&cpu_shared->learned, &copy);
	cpu_shared->changed = true;
}

/* Takes the exclusive lock and brings the factors up to date. */
static void
lock_up_to_date(const volatile CpuMeasured *measured)
{
	/* reads a file, so before the lock */
	if (!cpu_is_up_to_date(measured))
		gpusort_model_refresh(SIZE_MAX);
	LWLockAcquire(cpu_lock, LW_EXCLUSIVE);
	cpu_bring_up_to_date(measured);
}

bool
gpusort_cpu_learned(const volatile CpuMeasured *measured, CpuLearned *learned)
{
	bool		ready;

	if (cpu_shared == NULL || !gpusort_device_learn)
		return false;
	LWLockAcquire(cpu_lock, LW_SHARED);
	ready = cpu_is_up_to_date(measured);
	if (ready)
		*learned = cpu_shared->learned;
	LWLockRelease(cpu_lock);
	if (ready)
		return true;
	lock_up_to_date(measured);
	*learned = cpu_shared->learned;
	LWLockRelease(cpu_lock);
	return true;
}

void
gpusort_cpu_sorted(const volatile CpuMeasured *measured, const Algorithm *algorithm,
				   const RouteFacts *facts, double took_us)
{
	if (cpu_shared == NULL || !gpusort_device_learn)
		return;
	lock_up_to_date(measured);
	cpu_learn_sort(&cpu_shared->learned, algorithm, facts, took_us, (int64) time(NULL));
	cpu_shared->changed = true;
	LWLockRelease(cpu_lock);
}

void
gpusort_cpu_forget(const volatile CpuMeasured *measured)
{
	if (cpu_shared == NULL)
		return;
	LWLockAcquire(cpu_lock, LW_EXCLUSIVE);
	cpu_shared->model = 0;
	cpu_bring_up_to_date(measured);
	LWLockRelease(cpu_lock);
}

/* Have the factors changed since the last call? */
static bool
cpu_take_changed(void)
{
	bool		changed;

	LWLockAcquire(cpu_lock, LW_EXCLUSIVE);
	changed = cpu_shared->changed;
	cpu_shared->changed = false;
	LWLockRelease(cpu_lock);
	return changed;
}

static void
cpu_format(StringInfo text)
{
	char		part[CPU_LEARN_TEXT_SIZE];
	CpuLearned	learned;
	uint64		model;

	LWLockAcquire(cpu_lock, LW_SHARED);
	model = cpu_shared->model;
	learned = cpu_shared->learned;
	LWLockRelease(cpu_lock);
	if (model == 0)
		return;
	(void) cpu_learn_format(&learned, part);
	appendStringInfo(text, "cpu " UINT64_FORMAT "\n%s", model, part);
}

static bool
cpu_parse(const char **text)
{
	unsigned long long model;
	int			len;

	if (sscanf(*text, "cpu %llu%n", &model, &len) != 1 || (*text)[len] != '\n')
		return false;
	*text += len + 1;
	if (!cpu_learn_parse(text, &cpu_shared->learned))
		return false;
	cpu_shared->model = model;
	return true;
}

static void
cpu_drop(void)
{
	cpu_learn_begin(&cpu_shared->learned);
	cpu_shared->model = 0;
}

/* ------------------------------------------------------------------------
 * Correction factors of the GPU model, and the file of all factors
 *
 * They lie in shared memory, by CUDA's device number, under a lock that is held for a
 * microsecond.  The service's supervisor saves them, so that no query waits for a
 * disk.  A device's name and memory identify it; factors of a former device with the
 * same number are dropped.
 * ------------------------------------------------------------------------
 */

#define LEARN_FILE			"gpusort.learned"
#define LEARN_HEAD			"gpusort learned 1\n"
#define LEARN_DEVICES		64
#define LEARN_FILE_MAX		(LEARN_DEVICES * (GPU_LEARN_TEXT_SIZE + GPU_LEARN_OF_SIZE) + \
							 CPU_LEARN_TEXT_SIZE + 1024)

/* Interval between two saves, and between two saves if only the CPU's factors changed. */
#define SAVE_EVERY_S		10
#define SAVE_CPU_EVERY_S	60

typedef struct LearnEntry
{
	bool		used;
	GpuLearnedOf of;
	uint32		measurements;	/* sequence number of the measurement taken in */
	GpuLearned	learned;
} LearnEntry;

typedef struct LearnShared
{
	bool		changed;		/* changed since the last save */
	LearnEntry	entries[LEARN_DEVICES];
} LearnShared;

static LearnShared *gpu_shared = NULL;
static LWLock *gpu_lock = NULL;

/* Parses one device's part and moves *text past it; false if it is invalid. */
static bool
parse_device(const char **text)
{
	GpuLearnedOf of;
	LearnEntry *entry;

	if (!gpu_learn_parse_of(text, &of) || of.number < 0 || of.number >= LEARN_DEVICES)
		return false;
	entry = &gpu_shared->entries[of.number];
	entry->of = of;
	entry->used = gpu_learn_parse(text, &entry->learned);
	return entry->used;
}

static void
read_file(void)
{
	char		machine[MACHINE_NAME_SIZE];
	char	   *text = read_text(LEARN_FILE, LEARN_FILE_MAX, LOG);
	const char *at = text;

	if (text == NULL)
		return;
	if (text[0] == '\0')
	{
		/* a crash of the machine truncated the file */
		pfree(text);
		return;
	}
	machine_name(machine);
	if (strncmp(at, LEARN_HEAD, strlen(LEARN_HEAD)) != 0)
		at = NULL;
	else if (strncmp(at += strlen(LEARN_HEAD), machine, strlen(machine)) != 0 ||
			 at[strlen(machine)] != '\n')
		ereport(LOG,
				(errmsg("gpusort ignores correction factors of another machine")));
	else
	{
		at += strlen(machine) + 1;
		while (at != NULL && *at != '\0')
		{
			if (!(strncmp(at, "cpu ", 4) == 0 ? cpu_parse(&at) : parse_device(&at)))
				at = NULL;
		}
	}
	if (at == NULL)
	{
		memset(gpu_shared->entries, 0, sizeof(gpu_shared->entries));
		cpu_drop();
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("gpusort cannot use file \"%s\"", LEARN_FILE),
				 errdetail("The correction factors of GPUs and of the CPU start anew.")));
	}
	pfree(text);
}

static void
format_all(StringInfo text)
{
	char		machine[MACHINE_NAME_SIZE];
	char		of[GPU_LEARN_OF_SIZE];
	char		part[GPU_LEARN_TEXT_SIZE];
	LearnEntry *entry = palloc(sizeof(LearnEntry));

	machine_name(machine);
	appendStringInfo(text, LEARN_HEAD "%s\n", machine);
	cpu_format(text);
	for (int d = 0; d < LEARN_DEVICES; d++)
	{
		LWLockAcquire(gpu_lock, LW_SHARED);
		*entry = gpu_shared->entries[d];
		LWLockRelease(gpu_lock);
		if (!entry->used)
			continue;
		(void) gpu_learn_format_of(&entry->of, of);
		(void) gpu_learn_format(&entry->learned, part);
		appendStringInfo(text, "%s%s", of, part);
	}
	pfree(entry);
}

void
gpusort_learn_save(bool at_once)
{
	static time_t last = 0;
	time_t		now = time(NULL);
	StringInfoData text;
	bool		changed;

	if (gpu_shared == NULL || (!at_once && now - last < SAVE_EVERY_S && now >= last))
		return;
	LWLockAcquire(gpu_lock, LW_EXCLUSIVE);
	changed = gpu_shared->changed;
	gpu_shared->changed = false;
	LWLockRelease(gpu_lock);
	if (at_once || now - last >= SAVE_CPU_EVERY_S || now < last)
		changed |= cpu_take_changed();
	if (!changed)
		return;
	last = now;
	initStringInfo(&text);
	format_all(&text);

	/*
	 * the supervisor watches the device process, so it does not wait for the
	 * disk
	 */
	(void) write_text(LEARN_FILE, text.data, text.len, at_once, LOG);
	pfree(text.data);
}

void
gpusort_learn_store_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &gpu_shared,
		.size = sizeof(LearnShared),
		.init = read_file,
		.lock = &gpu_lock,
		.lock_name = "gpusort_learn"
	};

	/* the CPU's part first, because read_file() fills it, too */
	cpu_store_init();
	shared_memory_add(&part);
}

static LearnEntry *
entry_of(const LearnDevice *device)
{
	Assert(device->number >= 0 && device->number < LEARN_DEVICES);
	return &gpu_shared->entries[device->number];
}

/* Does the entry belong to this device, and not to a former one with its number? */
static bool
is_of(const LearnEntry *entry, const LearnDevice *device)
{
	char		name[GPU_LEARN_NAME];

	gpu_learn_name(device->name, name);
	return entry->used && entry->of.memory == device->memory && strcmp(entry->of.name, name) == 0;
}

static bool
gpu_is_up_to_date(const LearnEntry *entry, const LearnDevice *device)
{
	uint32		measurements = *device->measurements & ~1u;

	return is_of(entry, device) && (measurements == 0 || entry->measurements == measurements);
}

/*
 * Drops factors of another device and takes in a new measurement.  The caller holds
 * the exclusive lock.
 */
static void
gpu_bring_up_to_date(LearnEntry *entry, const LearnDevice *device)
{
	uint32		before = *device->measurements;
	DeviceMeasured measured;

	if (!is_of(entry, device))
	{
		memset(entry, 0, sizeof(*entry));
		gpu_learn_begin(&entry->learned);
		entry->of.number = device->number;
		entry->of.memory = device->memory;
		gpu_learn_name(device->name, entry->of.name);
		entry->used = true;
	}
	pg_read_barrier();
	measured = *(const DeviceMeasured *) device->measured;
	pg_read_barrier();
	/* skip a measurement that is being written; a later call takes it in */
	if (before == 0 || entry->measurements == before || before % 2 != 0 || *device->measurements != before)
		return;
	entry->measurements = before;
	gpu_learn_measured(&entry->learned, device->costs, &measured);
	gpu_shared->changed = true;
}

void
gpusort_learned(const LearnDevice *device, GpuLearned *learned)
{
	LearnEntry *entry = entry_of(device);
	bool		ready;

	LWLockAcquire(gpu_lock, LW_SHARED);
	ready = gpu_is_up_to_date(entry, device);
	if (ready)
		*learned = entry->learned;
	LWLockRelease(gpu_lock);
	if (ready)
		return;
	LWLockAcquire(gpu_lock, LW_EXCLUSIVE);
	gpu_bring_up_to_date(entry, device);
	*learned = entry->learned;
	LWLockRelease(gpu_lock);
}

const GpuFactors *
gpusort_learn_factors(const LearnDevice *device, double others)
{
	static GpuFactors factors;
	GpuLearned	learned;

	if (!gpusort_device_learn)
		return NULL;
	gpusort_learned(device, &learned);
	gpu_learn_factors(&learned, others, (int64) time(NULL), &factors);
	return &factors;
}

void
gpusort_learn_job(const LearnDevice *device, const Algorithm *algorithm, const RouteFacts *facts,
				  const GpuJobTimes *times)
{
	LearnEntry *entry = entry_of(device);

	if (!gpusort_device_learn)
		return;
	LWLockAcquire(gpu_lock, LW_EXCLUSIVE);
	gpu_bring_up_to_date(entry, device);
	gpu_learn_job(&entry->learned, algorithm, facts, times, (int64) time(NULL));
	gpu_shared->changed = true;
	LWLockRelease(gpu_lock);
}

void
gpusort_learn_forget(const LearnDevice *device)
{
	LearnEntry *entry = entry_of(device);

	LWLockAcquire(gpu_lock, LW_EXCLUSIVE);
	entry->used = false;
	gpu_bring_up_to_date(entry, device);
	gpu_shared->changed = true;
	LWLockRelease(gpu_lock);
}
