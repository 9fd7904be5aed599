/*
 * cpu_store.c
 *	  What sorts on the CPU have taught of it, for all backends.
 *
 * It lies in shared memory, under a lock that is held for a microsecond; learn_store.c keeps
 * it in its file.  Without shared memory there is no GPU, and between the CPU's kernels it
 * makes no difference: a session that loaded the library by itself learns nothing.
 *
 * What was learned corrects a model, the one whose version stands beside it, and is dropped
 * with it.  A process that finds another version there than it uses looks for new constants
 * first, so that of two processes the one that is late gives way.
 */
#include "postgres.h"

#include <time.h>

#include "route/files/cpu_store.h"
#include "route/files/model_store.h"
#include "settings.h"
#include "shared_memory.h"
#include "storage/lwlock.h"

typedef struct CpuShared
{
	LWLock	   *lock;
	bool		changed;		/* since the last gpusort_cpu_changed() */
	uint64		model;			/* what it corrects; 0: nothing yet */
	unsigned	times;			/* CpuMeasured.times of the last that was taken in */
	CpuLearned	learned;
} CpuShared;

static CpuShared *shared = NULL;

static Size
store_size(void)
{
	return sizeof(CpuShared);
}

static void
store_start(void *memory, bool found)
{
	shared = memory;
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	shared->lock = &GetNamedLWLockTranche("gpusort_learn_cpu")->lock;
}

void
gpusort_cpu_store_init(void)
{
	static const SharedMemory wanted = {"gpusort_learn_cpu", store_size, store_start, true};

	gpusort_shared_memory(&wanted);
}

static bool
is_up_to_date(const volatile CpuMeasured *measured)
{
	return shared->model == gpusort_model_version() && shared->times == (measured->times & ~1u);
}

/* Under the exclusive lock: drops what corrected another model, takes in what was measured. */
static void
bring_up_to_date(const volatile CpuMeasured *measured)
{
	uint64		model = gpusort_model_version();
	unsigned	before = measured->times;
	CpuMeasured copy;

	if (shared->model != model)
	{
		cpu_learn_begin(&shared->learned);
		shared->model = model;
		shared->times = 0;
		shared->changed = true;
	}
	pg_read_barrier();
	copy = *(const CpuMeasured *) measured;
	pg_read_barrier();
	/* one that is being written is for the next who looks */
	if (shared->times == before || before % 2 != 0 || measured->times != before)
		return;
	shared->times = before;
	cpu_learn_measured(&shared->learned, &copy);
	shared->changed = true;
}

/* Takes the exclusive lock, of what is up to date. */
static void
lock_up_to_date(const volatile CpuMeasured *measured)
{
	/* before the lock: it reads a file */
	if (!is_up_to_date(measured))
		gpusort_model_refresh(SIZE_MAX);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	bring_up_to_date(measured);
}

bool
gpusort_cpu_learned(const volatile CpuMeasured *measured, CpuLearned *learned)
{
	bool		ready;

	if (shared == NULL || !gpusort_device_learn)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	ready = is_up_to_date(measured);
	if (ready)
		*learned = shared->learned;
	LWLockRelease(shared->lock);
	if (ready)
		return true;
	lock_up_to_date(measured);
	*learned = shared->learned;
	LWLockRelease(shared->lock);
	return true;
}

void
gpusort_cpu_sorted(const volatile CpuMeasured *measured, const Algorithm *algorithm,
				   const RouteFacts *facts, double took_us)
{
	if (shared == NULL || !gpusort_device_learn)
		return;
	lock_up_to_date(measured);
	cpu_learn_sort(&shared->learned, algorithm, facts, took_us, (int64) time(NULL));
	shared->changed = true;
	LWLockRelease(shared->lock);
}

void
gpusort_cpu_forget(const volatile CpuMeasured *measured)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->model = 0;
	bring_up_to_date(measured);
	LWLockRelease(shared->lock);
}

bool
gpusort_cpu_changed(void)
{
	bool		changed;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	changed = shared->changed;
	shared->changed = false;
	LWLockRelease(shared->lock);
	return changed;
}

void
gpusort_cpu_format(StringInfo text)
{
	char		part[CPU_LEARN_TEXT_SIZE];
	CpuLearned	learned;
	uint64		model;

	LWLockAcquire(shared->lock, LW_SHARED);
	model = shared->model;
	learned = shared->learned;
	LWLockRelease(shared->lock);
	if (model == 0)
		return;
	(void) cpu_learn_format(&learned, part);
	appendStringInfo(text, "cpu " UINT64_FORMAT "\n%s", model, part);
}

bool
gpusort_cpu_parse(const char **text)
{
	unsigned long long model;
	int			len;

	if (sscanf(*text, "cpu %llu%n", &model, &len) != 1 || (*text)[len] != '\n')
		return false;
	*text += len + 1;
	if (!cpu_learn_parse(text, &shared->learned))
		return false;
	shared->model = model;
	return true;
}

void
gpusort_cpu_drop(void)
{
	cpu_learn_begin(&shared->learned);
	shared->model = 0;
}
