/*
 * progress.c
 *	  Progress of running sorts: the view gpusort_progress.
 *
 * Every backend has PROGRESS_SLOTS slots in shared memory, because sorts nest: a merge
 * join has two, and a window function may sort above it.  A sort takes a free slot when
 * it begins.  It frees the slot when it ends, or a callback of its memory context does
 * after an ERROR, or the backend's exit does.  A crash resets shared memory.  If no slot
 * is free, the sort is not shown and uses counters of its own.
 *
 * The owner of a slot is written between two increments of a change counter, by the macros
 * of pg_stat_activity; readers take no lock and retry.  The counters are written in place.
 * They may be read at slightly different moments, but always belong to one sort.
 *
 * Without shared_preload_libraries the slots are local, and the view shows only the
 * sorts of its own session.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "compat.h"
#include "funcapi.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "monitor/progress.h"
#include "port/atomics.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

/* Sorts of one backend that can be shown at a time */
#define PROGRESS_SLOTS	8
#define PROGRESS_COLS	13

/* Aligned to cache lines, to avoid false sharing between backends */
typedef struct ProgressSlot
{
	int			st_changecount; /* as in PgBackendStatus; odd: being written */
	int			pid;			/* 0: free */
	int			leader_pid;		/* 0: not a parallel worker */
	Oid			database;
	Oid			user;
	int			node;			/* plan_node_id, or PROGRESS_NO_NODE */
	double		rows_estimated;
	ProgressCounters counters;
}			pg_attribute_aligned(PG_CACHE_LINE_SIZE)
ProgressSlot;

static ProgressSlot session_slots[PROGRESS_SLOTS];
static ProgressSlot *shared_slots = NULL;	/* PROGRESS_SLOTS for each backend */
static ProgressSlot *own_slots = NULL;	/* this backend's; NULL: no sort yet */

SQL_FUNCTION(gpusort_progress_get);

/* Auxiliary processes do not sort.  Their numbers follow the backends', so they have no slots. */
static Size
slots_size(void)
{
	return mul_size(MaxBackends, sizeof(session_slots));
}

void
gpusort_progress_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &shared_slots,
		.size_later = slots_size
	};

	shared_memory_add(&part);
}

/* ------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------
 */

static void
slot_free(ProgressSlot *slot)
{
	PGSTAT_BEGIN_WRITE_ACTIVITY(slot);
	slot->pid = 0;
	PGSTAT_END_WRITE_ACTIVITY(slot);
}

/* Frees the slots at the backend's exit. */
static void
progress_exit(int code, Datum arg)
{
	for (int i = 0; i < PROGRESS_SLOTS; i++)
	{
		if (own_slots[i].pid != 0)
			slot_free(&own_slots[i]);
	}
}

static ProgressSlot *
free_slot(void)
{
	int			backend = MyProc - ProcGlobal->allProcs;

	if (own_slots == NULL && (shared_slots == NULL || backend >= MaxBackends))
		own_slots = session_slots;
	else if (own_slots == NULL)
	{
		own_slots = shared_slots + backend * PROGRESS_SLOTS;
		on_shmem_exit(progress_exit, (Datum) 0);
	}
	for (int i = 0; i < PROGRESS_SLOTS; i++)
	{
		if (own_slots[i].pid == 0)
			return &own_slots[i];
	}
	return NULL;
}

static void
progress_release(void *arg)
{
	progress_end(arg);
}

void
progress_create(Progress *progress, MemoryContext cxt)
{
	memset(progress, 0, sizeof(*progress));
	progress->now = &progress->own;
	progress->callback.func = progress_release;
	progress->callback.arg = progress;
	MemoryContextRegisterResetCallback(cxt, &progress->callback);
}

/* Resets the counters.  The sorter's memory is kept between sorts. */
static void
counters_begin(ProgressCounters *counters, uint64 memory)
{
	memset(counters, 0, sizeof(*counters));
	counters->memory = memory;
	counters->phase = PROGRESS_INGEST;
	counters->algorithm = -1;
}

void
progress_begin(Progress *progress, int node, double rows_estimated)
{
	ProgressSlot *slot = node == PROGRESS_UNSEEN ? NULL : free_slot();
	PGPROC	   *leader = MyProc->lockGroupLeader;

	Assert(progress->slot == NULL);
	if (slot == NULL)
	{
		counters_begin(&progress->own, progress->own.memory);
		return;
	}
	PGSTAT_BEGIN_WRITE_ACTIVITY(slot);
	slot->pid = MyProcPid;
	slot->leader_pid = leader != NULL && leader != MyProc ? leader->pid : 0;
	slot->database = MyDatabaseId;
	slot->user = GetSessionUserId();
	slot->node = node;
	slot->rows_estimated = rows_estimated;
	counters_begin(&slot->counters, progress->own.memory);
	PGSTAT_END_WRITE_ACTIVITY(slot);
	progress->slot = slot;
	progress->now = &slot->counters;
}

void
progress_end(Progress *progress)
{
	if (progress->slot == NULL)
		return;
	progress->own = progress->slot->counters;
	progress->now = &progress->own;
	slot_free(progress->slot);
	progress->slot = NULL;
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------
 */

/* Copies a slot consistently; false if it is free. */
static bool
slot_read(const volatile ProgressSlot *slot, ProgressSlot *copy)
{
	for (;;)
	{
		int			before;
		int			after;

		pgstat_begin_read_activity(slot, before);
		memcpy(copy, (const void *) slot, sizeof(*copy));
		pgstat_end_read_activity(slot, after);
		if (pgstat_read_activity_complete(before, after))
			return copy->pid != 0;
		CHECK_FOR_INTERRUPTS();
	}
}

static const char *const phase_names[] = {
	[PROGRESS_INGEST] = "ingest",
	[PROGRESS_SORT] = "sort",
	[PROGRESS_SPILL] = "spill",
	[PROGRESS_MERGE] = "merge",
	[PROGRESS_EMIT] = "emit"
};

/* Returns a row of the view.  Sorts of other roles are restricted as in pg_stat_activity. */
static void
put_slot(ReturnSetInfo *rsinfo, const ProgressSlot *slot)
{
	const ProgressCounters *now = &slot->counters;
	Datum		values[PROGRESS_COLS] = {0};
	bool		nulls[PROGRESS_COLS];

	memset(nulls, true, sizeof(nulls));
	values[0] = Int32GetDatum(slot->pid);
	values[1] = ObjectIdGetDatum(slot->database);
	nulls[0] = nulls[1] = false;
	if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), slot->user))
	{
		bool		writes = now->phase == PROGRESS_SPILL || now->phase == PROGRESS_MERGE;

		memset(nulls, false, sizeof(nulls));
		values[2] = Int32GetDatum(slot->leader_pid);
		nulls[2] = slot->leader_pid == 0;
		values[3] = Int32GetDatum(slot->node);
		nulls[3] = slot->node == PROGRESS_NO_NODE;
		values[4] = CStringGetTextDatum(phase_names[now->phase]);
		nulls[5] = now->algorithm < 0 || now->algorithm >= ALGORITHM_COUNT;
		if (!nulls[5])
			values[5] = CStringGetTextDatum(sort_algorithms[now->algorithm].name);
		values[6] = Int64GetDatum((int64) now->rows_in);
		values[7] = Int64GetDatum((int64) Min(slot->rows_estimated, 1e18));
		values[8] = Int64GetDatum((int64) now->rows_written);
		nulls[8] = !writes;
		values[9] = Int32GetDatum(now->runs);
		values[10] = Int64GetDatum((int64) now->memory);
		values[11] = Int64GetDatum((int64) now->disk);
		values[12] = Int64GetDatum((int64) now->device);
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
gpusort_progress_get(PG_FUNCTION_ARGS)
{
	const ProgressSlot *slots = shared_slots != NULL ? shared_slots : session_slots;
	int			n = shared_slots != NULL ? MaxBackends * PROGRESS_SLOTS : PROGRESS_SLOTS;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
	{
		ProgressSlot slot;

		if (slot_read(&slots[i], &slot))
			put_slot((ReturnSetInfo *) fcinfo->resultinfo, &slot);
	}
	return (Datum) 0;
}
