/*
 * learn_store.c
 *	  What jobs have taught of each device, for all backends; and over restarts, with what
 *	  sorts have taught of the CPU.
 *
 * It lies in shared memory, by CUDA's number, under a lock that is held for a
 * microsecond, and from time to time in a text file, gpusort.learned, in the data
 * directory; model_store.c says why a file.  The service's supervisor writes it, so that no
 * query waits for a disk.  What was learned belongs to a device in a machine: the file
 * names the processor, and each part of it the device, by its name and memory.  If another has
 * its number, what was known is dropped.
 *
 * On error: a file that cannot be read or understood is logged and ignored.
 */
#include "postgres.h"

#include <time.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "route/files/cpu_store.h"
#include "route/files/learn_store.h"
#include "route/files/text_file.h"
#include "route/machine.h"
#include "settings.h"
#include "shared_memory.h"
#include "storage/lwlock.h"

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

static LearnShared *shared = NULL;

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
	entry = &shared->entries[of.number];
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
		memset(shared->entries, 0, sizeof(shared->entries));
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
		LWLockAcquire(shared->lock, LW_SHARED);
		*entry = shared->entries[d];
		LWLockRelease(shared->lock);
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

	if (shared == NULL || (!at_once && now - last < SAVE_EVERY_S && now >= last))
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	changed = shared->changed;
	shared->changed = false;
	LWLockRelease(shared->lock);
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
	shared = memory;
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	shared->lock = &GetNamedLWLockTranche("gpusort_learn")->lock;
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
	return &shared->entries[device->number];
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
is_up_to_date(const LearnEntry *entry, const LearnDevice *device)
{
	uint32		measurements = *device->measurements & ~1u;

	return is_of(entry, device) && (measurements == 0 || entry->measurements == measurements);
}

/* Under the exclusive lock: drops what was another device's, takes in what was measured. */
static void
bring_up_to_date(LearnEntry *entry, const LearnDevice *device)
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
	shared->changed = true;
}

void
gpusort_learned(const LearnDevice *device, GpuLearned *learned)
{
	LearnEntry *entry = entry_of(device);
	bool		ready;

	LWLockAcquire(shared->lock, LW_SHARED);
	ready = is_up_to_date(entry, device);
	if (ready)
		*learned = entry->learned;
	LWLockRelease(shared->lock);
	if (ready)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	bring_up_to_date(entry, device);
	*learned = entry->learned;
	LWLockRelease(shared->lock);
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
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	bring_up_to_date(entry, device);
	gpu_learn_job(&entry->learned, algorithm, facts, times, (int64) time(NULL));
	shared->changed = true;
	LWLockRelease(shared->lock);
}

void
gpusort_learn_forget(const LearnDevice *device)
{
	LearnEntry *entry = entry_of(device);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	entry->used = false;
	bring_up_to_date(entry, device);
	shared->changed = true;
	LWLockRelease(shared->lock);
}
