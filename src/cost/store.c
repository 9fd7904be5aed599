/*
 * store.c
 *	  Learned figures in shared memory and in files.
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
#include "storage/lwlock.h"

/* A file that is written takes a name with the process's number and this at its end. */
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
 * Replaces a file's content: a reader sees the old or the new one.  If it is to be durable, a crash of the
 * machine loses neither, and the disk is waited for.  Otherwise such a crash may leave an empty
 * file.  What goes wrong is reported at elevel; false, if that lets us go on.
 */
static bool
gpusort_write_text(const char *file, const char *text, Size len, bool durable, int elevel)
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
	/* it says what it cannot do */
	if (durable_rename(path, file, Min(elevel, WARNING)) == 0)
		return true;
	unlink(path);
	if (elevel >= ERROR)
		ereport(elevel,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not write file \"%s\"", file)));
	return false;
}

/* For the server's start, when nobody writes: removes files that processes did not live to finish. */
static void
gpusort_remove_unfinished_text(void)
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
 * The first max - 1 bytes of a file's content, palloc'd; NULL if there is no file, or it
 * cannot be read, which is reported at elevel.
 */
static char *
gpusort_read_text(const char *file, Size max, int elevel)
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
 * Keeps the model's measured constants over restarts.
 *
 * The router and the model know no server, and only see what route_model points to.
 *
 * They lie in a small text file, gpusort.model, in the data directory.  A file
 * and not a table, because the constants belong to the machine and not to a
 * database: every database's sorts use the same ones, a backend reads them
 * without a transaction or a catalog lookup (also a parallel worker, also on a
 * standby), and they can be written on a standby, which may be a different
 * machine.  For the same reason the file names the processor it was measured
 * on: a data directory that moved to another one goes back to the built-in
 * constants until gpusort_calibrate() runs there.
 *
 * Readers notice a new file by its inode and modification time.  A file that cannot be read or
 * understood is logged and ignored: a sort must not fail for want of a prediction.
 * It is logged once for each version of the file, not by each process that looks
 * at it: which was logged stands in shared memory.  A session that loaded the library by
 * itself has none, and says so where only those who look for it read it (DEBUG1).
 * ------------------------------------------------------------------------
 */

#define MODEL_FILE		"gpusort.model"

/* Sorts of fewer records than this do not look for a new file. */
#define REFRESH_MIN_ROWS	65536

/* The version of the file that was looked at last; zeroes: there was none. */
static struct
{
	bool		looked;
	ino_t		inode;
	struct timespec mtime;
}			seen;

static RouteModel stored;

/* A hash of the version that was logged last; NULL without shared memory. */
static pg_atomic_uint64 *logged = NULL;

static Size
logged_size(void)
{
	return sizeof(*logged);
}

static void
start_logged(void *memory, bool found)
{
	logged = memory;
	if (found)
		return;
	pg_atomic_init_u64(logged, 0);
	gpusort_remove_unfinished_text();
}

void
gpusort_model_store_init(void)
{
	static const SharedMemory wanted = {"gpusort_model", logged_size, start_logged};

	gpusort_shared_memory(&wanted);
}

/* Of the file that was seen; never 0. */
static uint64
file_version(void)
{
	uint64		parts[3] = {seen.inode, seen.mtime.tv_sec, seen.mtime.tv_nsec};

	return hash_bytes_extended((unsigned char *) parts, sizeof(parts), 0) | 1;
}

/* The level at which to say something of the version that was seen: once for all. */
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
	char	   *text = gpusort_read_text(MODEL_FILE, MODEL_TEXT_SIZE, level);
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

/* Tells the constants that this process uses from others, also after a restart; never 0. */
static uint64
gpusort_model_version(void)
{
	gpusort_model_refresh(0);
	return file_version();
}

void
gpusort_model_store(const RouteModel *model)
{
	char		text[MODEL_TEXT_SIZE];
	size_t		len = model_format(model, text);

	(void) gpusort_write_text(MODEL_FILE, text, len, true, ERROR);
}

/* ------------------------------------------------------------------------
 * What sorts on the CPU have taught of it, for all backends.
 *
 * It lies in shared memory, under a lock that is held for a microsecond; learn_store.c keeps
 * it in its file.  Without shared memory there is no GPU, and between the CPU's kernels it
 * makes no difference: a session that loaded the library by itself learns nothing.
 *
 * What was learned corrects a model, the one whose version stands beside it, and is dropped
 * with it.  A process that finds another version there than it uses looks for new constants
 * first, so that of two processes the one that is late gives way.
 * ------------------------------------------------------------------------
 */

typedef struct CpuShared
{
	LWLock	   *lock;
	bool		changed;		/* since the last gpusort_cpu_changed() */
	uint64		model;			/* what it corrects; 0: nothing yet */
	unsigned	times;			/* CpuMeasured.times of the last that was taken in */
	CpuLearned	learned;
} CpuShared;

static CpuShared *cpu_shared = NULL;

static Size
store_size(void)
{
	return sizeof(CpuShared);
}

static void
store_start(void *memory, bool found)
{
	cpu_shared = memory;
	if (found)
		return;
	memset(cpu_shared, 0, sizeof(*cpu_shared));
	cpu_shared->lock = &GetNamedLWLockTranche("gpusort_learn_cpu")->lock;
}

/* Asks for shared memory; while libraries are preloaded. */
static void
gpusort_cpu_store_init(void)
{
	static const SharedMemory wanted = {"gpusort_learn_cpu", store_size, store_start, true};

	gpusort_shared_memory(&wanted);
}

static bool
cpu_is_up_to_date(const volatile CpuMeasured *measured)
{
	return cpu_shared->model == gpusort_model_version() && cpu_shared->times == (measured->times & ~1u);
}

/* Under the exclusive lock: drops what corrected another model, takes in what was measured. */
static void
cpu_bring_up_to_date(const volatile CpuMeasured *measured)
{
	uint64		model = gpusort_model_version();
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
	/* one that is being written is for the next who looks */
	if (cpu_shared->times == before || before % 2 != 0 || measured->times != before)
		return;
	cpu_shared->times = before;
	cpu_learn_measured(&cpu_shared->learned, &copy);
	cpu_shared->changed = true;
}

/* Takes the exclusive lock, of what is up to date. */
static void
lock_up_to_date(const volatile CpuMeasured *measured)
{
	/* before the lock: it reads a file */
	if (!cpu_is_up_to_date(measured))
		gpusort_model_refresh(SIZE_MAX);
	LWLockAcquire(cpu_shared->lock, LW_EXCLUSIVE);
	cpu_bring_up_to_date(measured);
}

bool
gpusort_cpu_learned(const volatile CpuMeasured *measured, CpuLearned *learned)
{
	bool		ready;

	if (cpu_shared == NULL || !gpusort_device_learn)
		return false;
	LWLockAcquire(cpu_shared->lock, LW_SHARED);
	ready = cpu_is_up_to_date(measured);
	if (ready)
		*learned = cpu_shared->learned;
	LWLockRelease(cpu_shared->lock);
	if (ready)
		return true;
	lock_up_to_date(measured);
	*learned = cpu_shared->learned;
	LWLockRelease(cpu_shared->lock);
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
	LWLockRelease(cpu_shared->lock);
}

void
gpusort_cpu_forget(const volatile CpuMeasured *measured)
{
	if (cpu_shared == NULL)
		return;
	LWLockAcquire(cpu_shared->lock, LW_EXCLUSIVE);
	cpu_shared->model = 0;
	cpu_bring_up_to_date(measured);
	LWLockRelease(cpu_shared->lock);
}

static bool
gpusort_cpu_changed(void)
{
	bool		changed;

	LWLockAcquire(cpu_shared->lock, LW_EXCLUSIVE);
	changed = cpu_shared->changed;
	cpu_shared->changed = false;
	LWLockRelease(cpu_shared->lock);
	return changed;
}

static void
gpusort_cpu_format(StringInfo text)
{
	char		part[CPU_LEARN_TEXT_SIZE];
	CpuLearned	learned;
	uint64		model;

	LWLockAcquire(cpu_shared->lock, LW_SHARED);
	model = cpu_shared->model;
	learned = cpu_shared->learned;
	LWLockRelease(cpu_shared->lock);
	if (model == 0)
		return;
	(void) cpu_learn_format(&learned, part);
	appendStringInfo(text, "cpu " UINT64_FORMAT "\n%s", model, part);
}

static bool
gpusort_cpu_parse(const char **text)
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

/*
 * For the file (learn_store.c): its part of the text, and back; if the file is none, nothing of it
 * holds.  gpusort_cpu_changed: has it changed since the last call?
 */
static void
gpusort_cpu_drop(void)
{
	cpu_learn_begin(&cpu_shared->learned);
	cpu_shared->model = 0;
}

/* ------------------------------------------------------------------------
 * What jobs have taught of each device, for all backends; and over restarts, with what sorts
 * have taught of the CPU.
 *
 * It lies in shared memory, by CUDA's number, under a lock that is held for a
 * microsecond, and from time to time in a text file, gpusort.learned, in the data
 * directory; model_store.c says why a file.  The service's supervisor writes it, so that no
 * query waits for a disk.  What was learned belongs to a device in a machine: the file
 * names the processor, and each part of it the device, by its name and memory.  If another has
 * its number, what was known is dropped.
 *
 * On error: a file that cannot be read or understood is logged and ignored.
 * ------------------------------------------------------------------------
 */

#define LEARN_FILE			"gpusort.learned"
#define LEARN_HEAD			"gpusort learned 1\n"
#define LEARN_DEVICES		64
#define LEARN_FILE_MAX		(LEARN_DEVICES * (GPU_LEARN_TEXT_SIZE + GPU_LEARN_OF_SIZE) + \
							 CPU_LEARN_TEXT_SIZE + 1024)

/* Between two writes; and if sorts on the CPU, of which there are many, are all that is new. */
#define SAVE_EVERY_S		10
#define SAVE_CPU_EVERY_S	60

typedef struct LearnEntry
{
	bool		used;
	GpuLearnedOf of;
	uint32		measurements;	/* the last that was taken in */
	GpuLearned	learned;
} LearnEntry;

typedef struct LearnShared
{
	LWLock	   *lock;
	bool		changed;		/* since it was written */
	LearnEntry	entries[LEARN_DEVICES];
} LearnShared;

static LearnShared *gpu_shared = NULL;

/* ------------------------------------------------------------------------
 * The file
 * ------------------------------------------------------------------------
 */

/* One device's part; moves *text behind it.  False if it is none. */
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
	char	   *text = gpusort_read_text(LEARN_FILE, LEARN_FILE_MAX, LOG);
	const char *at = text;

	if (text == NULL)
		return;
	if (text[0] == '\0')
	{
		/* a crash of the machine cut it short */
		pfree(text);
		return;
	}
	machine_name(machine);
	if (strncmp(at, LEARN_HEAD, strlen(LEARN_HEAD)) != 0)
		at = NULL;
	else if (strncmp(at += strlen(LEARN_HEAD), machine, strlen(machine)) != 0 ||
			 at[strlen(machine)] != '\n')
		ereport(LOG,
				(errmsg("gpusort ignores what was learned on another machine")));
	else
	{
		at += strlen(machine) + 1;
		while (at != NULL && *at != '\0')
		{
			if (!(strncmp(at, "cpu ", 4) == 0 ? gpusort_cpu_parse(&at) : parse_device(&at)))
				at = NULL;
		}
	}
	if (at == NULL)
	{
		memset(gpu_shared->entries, 0, sizeof(gpu_shared->entries));
		gpusort_cpu_drop();
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("gpusort cannot use file \"%s\"", LEARN_FILE),
				 errdetail("What was learned of GPUs and of the CPU is learned anew.")));
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
	gpusort_cpu_format(text);
	for (int d = 0; d < LEARN_DEVICES; d++)
	{
		LWLockAcquire(gpu_shared->lock, LW_SHARED);
		*entry = gpu_shared->entries[d];
		LWLockRelease(gpu_shared->lock);
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
	LWLockAcquire(gpu_shared->lock, LW_EXCLUSIVE);
	changed = gpu_shared->changed;
	gpu_shared->changed = false;
	LWLockRelease(gpu_shared->lock);
	if (at_once || now - last >= SAVE_CPU_EVERY_S || now < last)
		changed |= gpusort_cpu_changed();
	if (!changed)
		return;
	last = now;
	initStringInfo(&text);
	format_all(&text);
	/* the supervisor watches the device process and does not wait for the disk meanwhile */
	(void) gpusort_write_text(LEARN_FILE, text.data, text.len, at_once, LOG);
	pfree(text.data);
}

/* ------------------------------------------------------------------------
 * Shared memory
 * ------------------------------------------------------------------------
 */
static Size
learn_size(void)
{
	return sizeof(LearnShared);
}

static void
learn_start(void *memory, bool found)
{
	gpu_shared = memory;
	if (found)
		return;
	memset(gpu_shared, 0, sizeof(*gpu_shared));
	gpu_shared->lock = &GetNamedLWLockTranche("gpusort_learn")->lock;
	read_file();
}

void
gpusort_learn_store_init(void)
{
	static const SharedMemory wanted = {"gpusort_learn", learn_size, learn_start, true};

	/* first, for the file has it, too */
	gpusort_cpu_store_init();
	gpusort_shared_memory(&wanted);
}

static LearnEntry *
entry_of(const LearnDevice *device)
{
	Assert(device->number >= 0 && device->number < LEARN_DEVICES);
	return &gpu_shared->entries[device->number];
}

/* Is it this device's, and not one's that had its number before? */
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

/* Under the exclusive lock: drops what was another device's, takes in what was measured. */
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
	/* none as yet; one that is being written is for the next who looks */
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

	LWLockAcquire(gpu_shared->lock, LW_SHARED);
	ready = gpu_is_up_to_date(entry, device);
	if (ready)
		*learned = entry->learned;
	LWLockRelease(gpu_shared->lock);
	if (ready)
		return;
	LWLockAcquire(gpu_shared->lock, LW_EXCLUSIVE);
	gpu_bring_up_to_date(entry, device);
	*learned = entry->learned;
	LWLockRelease(gpu_shared->lock);
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
	LWLockAcquire(gpu_shared->lock, LW_EXCLUSIVE);
	gpu_bring_up_to_date(entry, device);
	gpu_learn_job(&entry->learned, algorithm, facts, times, (int64) time(NULL));
	gpu_shared->changed = true;
	LWLockRelease(gpu_shared->lock);
}

void
gpusort_learn_forget(const LearnDevice *device)
{
	LearnEntry *entry = entry_of(device);

	LWLockAcquire(gpu_shared->lock, LW_EXCLUSIVE);
	entry->used = false;
	gpu_bring_up_to_date(entry, device);
	gpu_shared->changed = true;
	LWLockRelease(gpu_shared->lock);
}
