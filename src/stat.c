/*
 * stat.c
 *	  Counters of what ran: the view gpusort_stat.
 *
 * With shared_preload_libraries the counters are the server's, in shared memory,
 * bumped once per sort with atomic additions.  Without it they are this
 * session's.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "stat.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

typedef struct AlgorithmStat
{
	pg_atomic_uint64 sorts;
	pg_atomic_uint64 rows;
	pg_atomic_uint64 bytes;		/* memory at the peak, or written to disk */
	pg_atomic_uint64 spills;	/* sorts that wrote runs */
	pg_atomic_uint64 fallbacks; /* forced or chosen first, but could not run */
} AlgorithmStat;

/* A counter for each AlgorithmId, and one for sorts that none had to run. */
#define STAT_NONE	ALGORITHM_COUNT
#define STAT_COUNTERS	(STAT_NONE + 1)
#define STAT_COLS	6

static AlgorithmStat session_stats[STAT_COUNTERS];
static AlgorithmStat *stats = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

PG_FUNCTION_INFO_V1(gpusort_stat_get);
PG_FUNCTION_INFO_V1(gpusort_stat_reset);

static void
stat_clear(AlgorithmStat *s)
{
	for (int i = 0; i < STAT_COUNTERS; i++)
	{
		pg_atomic_init_u64(&s[i].sorts, 0);
		pg_atomic_init_u64(&s[i].rows, 0);
		pg_atomic_init_u64(&s[i].bytes, 0);
		pg_atomic_init_u64(&s[i].spills, 0);
		pg_atomic_init_u64(&s[i].fallbacks, 0);
	}
}

static void
stat_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(MAXALIGN(sizeof(session_stats)));
}

static void
stat_shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	stats = ShmemInitStruct("gpusort_stat", sizeof(session_stats), &found);
	if (!found)
		stat_clear(stats);
	LWLockRelease(AddinShmemInitLock);
}

void
gpusort_stat_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = stat_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = stat_shmem_startup;
}

static AlgorithmStat *
stat_counters(void)
{
	if (stats == NULL)
	{
		stat_clear(session_stats);
		stats = session_stats;
	}
	return stats;
}

void
gpusort_stat_count(const SortCount *sort)
{
	AlgorithmStat *s = &stat_counters()[sort->algorithm ? (int) sort->algorithm->id : STAT_NONE];

	pg_atomic_fetch_add_u64(&s->sorts, 1);
	pg_atomic_fetch_add_u64(&s->rows, sort->rows);
	pg_atomic_fetch_add_u64(&s->bytes, sort->bytes);
	if (sort->spilled)
		pg_atomic_fetch_add_u64(&s->spills, 1);
	if (sort->passed_over)
		gpusort_stat_fallback(sort->passed_over);
}

void
gpusort_stat_fallback(const Algorithm *algorithm)
{
	pg_atomic_fetch_add_u64(&stat_counters()[algorithm->id].fallbacks, 1);
}

Datum
gpusort_stat_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	AlgorithmStat *s = stat_counters();

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < STAT_COUNTERS; i++)
	{
		Datum		values[STAT_COLS];
		bool		nulls[STAT_COLS] = {false};

		values[0] = CStringGetTextDatum(i == STAT_NONE ? "none" : sort_algorithms[i].name);
		values[1] = Int64GetDatum((int64) pg_atomic_read_u64(&s[i].sorts));
		values[2] = Int64GetDatum((int64) pg_atomic_read_u64(&s[i].rows));
		values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&s[i].bytes));
		values[4] = Int64GetDatum((int64) pg_atomic_read_u64(&s[i].spills));
		values[5] = Int64GetDatum((int64) pg_atomic_read_u64(&s[i].fallbacks));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
gpusort_stat_reset(PG_FUNCTION_ARGS)
{
	AlgorithmStat *s = stat_counters();

	for (int i = 0; i < STAT_COUNTERS; i++)
	{
		pg_atomic_write_u64(&s[i].sorts, 0);
		pg_atomic_write_u64(&s[i].rows, 0);
		pg_atomic_write_u64(&s[i].bytes, 0);
		pg_atomic_write_u64(&s[i].spills, 0);
		pg_atomic_write_u64(&s[i].fallbacks, 0);
	}
	PG_RETURN_VOID();
}
