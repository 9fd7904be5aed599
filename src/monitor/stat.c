/*
 * stat.c
 *	  Statistics of sorts by algorithm, and of index builds: the views gpusort_stat and
 *	  gpusort_index_builds.
 *
 * With shared_preload_libraries the counters lie in shared memory.  A sort adds to those
 * of its algorithm once, atomically.  An index build has an entry for its route, or for
 * the reason for which it was left to PostgreSQL, under a lock that it takes once or
 * twice.  The reasons are texts of the program, so there are few.  Without
 * shared_preload_libraries the counters are those of this session.
 *
 * On error: nothing here fails.  If there are more reasons than entries, the last entry
 * counts the remaining ones together.
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "port/atomics.h"
#include "shared_memory.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

/* SortStatCount as an array: the number of fields, and the first time */
#define STAT_COUNTERS	(sizeof(SortStatCount) / sizeof(uint64))
#define STAT_FIRST_TIME	(offsetof(SortStatCount, ingest_us) / sizeof(uint64))

typedef pg_atomic_uint64 AlgorithmStat[STAT_COUNTERS];

/* One entry per AlgorithmId, and one for sorts without rows */
#define STAT_NONE		ALGORITHM_COUNT
#define STAT_ALGORITHMS	(STAT_NONE + 1)

/* zeros are the initial values: where __int128 is, 64-bit atomics are native */
static AlgorithmStat session_stats[STAT_ALGORITHMS];
static AlgorithmStat *stats = session_stats;

#define INDEX_ENTRIES	64
#define INDEX_ROUTE		16
#define INDEX_REASON	112

/*
 * IndexStatCount as an array: its fields are the view's columns behind route and reason, in this
 * order.  The number of fields, the first one that is unknown for a build of PostgreSQL, and the
 * first time:
 */
#define INDEX_COUNTERS	(sizeof(IndexStatCount) / sizeof(uint64))
#define INDEX_FIRST_UNKNOWN	(offsetof(IndexStatCount, workers) / sizeof(uint64))
#define INDEX_FIRST_TIME	(offsetof(IndexStatCount, us) / sizeof(uint64))

typedef struct IndexEntry
{
	char		route[INDEX_ROUTE]; /* empty: the entry is free */
	char		reason[INDEX_REASON];	/* empty: a build of ours */
	uint64		counters[INDEX_COUNTERS];
} IndexEntry;

static IndexEntry session_entries[INDEX_ENTRIES];
static IndexEntry *entries = session_entries;
static LWLock *entries_lock = NULL; /* NULL: the session's entries */

void		(*gpusort_stat_reset_too) (void) = NULL;

SQL_FUNCTION(gpusort_stat_get);
SQL_FUNCTION(gpusort_stat_reset);
SQL_FUNCTION(gpusort_index_builds_get);

void
gpusort_stat_init(void)
{
	static const SharedPart sorts = {
		.memory = (void **) &stats,
		.size = sizeof(session_stats)
	};
	static const SharedPart builds = {
		.memory = (void **) &entries,
		.size = sizeof(session_entries),
		.lock = &entries_lock,
		.lock_name = "gpusort_index_builds"
	};

	shared_memory_add(&sorts);
	shared_memory_add(&builds);
}

void
gpusort_stat_add(const Algorithm *algorithm, const SortStatCount *count)
{
	int			a = algorithm != NULL ? (int) algorithm->id : STAT_NONE;

	for (int c = 0; c < STAT_COUNTERS; c++)
	{
		uint64		n = ((const uint64 *) count)[c];

		if (n != 0)
			pg_atomic_fetch_add_u64(&stats[a][c], n);
	}
}

void
gpusort_stat_fallback(const Algorithm *algorithm)
{
	gpusort_stat_add(algorithm, &(SortStatCount) {.fallbacks = 1});
}

static Datum
seconds(uint64 us)
{
	return Float8GetDatum((double) us / 1e6);
}

/* The SQL of version 1.0 declares only the columns up to the fallbacks. */
Datum
gpusort_stat_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < STAT_ALGORITHMS; i++)
	{
		Datum		values[1 + STAT_COUNTERS];
		bool		nulls[1 + STAT_COUNTERS] = {false};

		values[0] = CStringGetTextDatum(i == STAT_NONE ? "none" : sort_algorithms[i].name);
		for (int c = 0; c < STAT_COUNTERS; c++)
		{
			uint64		n = pg_atomic_read_u64(&stats[i][c]);

			values[1 + c] = c < STAT_FIRST_TIME ? Int64GetDatum((int64) n) : seconds(n);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Index builds
 * ------------------------------------------------------------------------
 */

static void
lock_entries(LWLockMode mode)
{
	if (entries_lock != NULL)
		LWLockAcquire(entries_lock, mode);
}

static void
unlock_entries(void)
{
	if (entries_lock != NULL)
		LWLockRelease(entries_lock);
}

/* The entry of a route and reason; the caller holds the lock. */
static IndexEntry *
find_entry(const char *route, const char *reason)
{
	IndexEntry *entry = entries;

	for (int i = 0; i < INDEX_ENTRIES; i++, entry++)
	{
		if (entry->route[0] == '\0')
		{
			strlcpy(entry->route, route, INDEX_ROUTE);
			strlcpy(entry->reason, i < INDEX_ENTRIES - 1 ? reason : "other reasons", INDEX_REASON);
			return entry;
		}
		if (strcmp(entry->route, route) == 0 && strncmp(entry->reason, reason, INDEX_REASON - 1) == 0)
			return entry;
	}
	return entry - 1;
}

void
index_stat_add(const char *route, const char *reason, const IndexStatCount *count)
{
	IndexEntry *entry;

	lock_entries(LW_EXCLUSIVE);
	entry = find_entry(route, reason != NULL ? reason : "");
	for (int c = 0; c < INDEX_COUNTERS; c++)
		entry->counters[c] += ((const uint64 *) count)[c];
	unlock_entries();
}

Datum
gpusort_index_builds_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	IndexEntry *copy = palloc(sizeof(session_entries));

	InitMaterializedSRF(fcinfo, 0);
	lock_entries(LW_SHARED);
	memcpy(copy, entries, sizeof(session_entries));
	unlock_entries();
	for (int i = 0; i < INDEX_ENTRIES && copy[i].route[0] != '\0'; i++)
	{
		bool		stock = copy[i].reason[0] != '\0';
		Datum		values[2 + INDEX_COUNTERS];
		bool		nulls[2 + INDEX_COUNTERS] = {false};

		values[0] = CStringGetTextDatum(copy[i].route);
		values[1] = CStringGetTextDatum(copy[i].reason);
		nulls[1] = !stock;
		for (int c = 0; c < INDEX_COUNTERS; c++)
		{
			uint64		n = copy[i].counters[c];

			values[2 + c] = c < INDEX_FIRST_TIME ? Int64GetDatum((int64) n) : seconds(n);
			/* a stock build's workers, what it spills, and its phases are not known */
			nulls[2 + c] = stock && c >= INDEX_FIRST_UNKNOWN && c != INDEX_FIRST_TIME;
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Reset
 * ------------------------------------------------------------------------
 */
Datum
gpusort_stat_reset(PG_FUNCTION_ARGS)
{
	for (int i = 0; i < STAT_ALGORITHMS; i++)
	{
		for (int c = 0; c < STAT_COUNTERS; c++)
			pg_atomic_write_u64(&stats[i][c], 0);
	}
	lock_entries(LW_EXCLUSIVE);
	memset(entries, 0, sizeof(session_entries));
	unlock_entries();
	if (gpusort_stat_reset_too != NULL)
		gpusort_stat_reset_too();
	PG_RETURN_VOID();
}
