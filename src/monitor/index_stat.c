/*
 * index_stat.c
 *	  Statistics of index builds: the view gpusort_index_builds.
 *
 * There is an entry for each route, and one for each reason for which a build was left to
 * PostgreSQL.  The reasons are texts of the program, so there are few.  With
 * shared_preload_libraries the entries lie in shared memory, under a lock that a build
 * takes once or twice.  Otherwise they count the builds of this session.
 *
 * On error: nothing here fails.  If there are more reasons than entries, the last entry
 * counts the remaining ones together.
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "monitor/index_stat.h"
#include "shared_memory.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#define INDEX_STAT_ENTRIES	64
#define INDEX_STAT_ROUTE	16
#define INDEX_STAT_REASON	112
#define INDEX_STAT_COLS		13

typedef struct IndexStatEntry
{
	char		route[INDEX_STAT_ROUTE];	/* empty: the entry is free */
	char		reason[INDEX_STAT_REASON];	/* empty: a build of ours */
	IndexStatCount count;
} IndexStatEntry;

static IndexStatEntry session_entries[INDEX_STAT_ENTRIES];
static IndexStatEntry *entries = session_entries;
static LWLock *entries_lock = NULL; /* NULL: the session's entries */

SQL_FUNCTION(gpusort_index_builds_get);

void
index_stat_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &entries,
		.size = sizeof(session_entries),
		.lock = &entries_lock,
		.lock_name = "gpusort_index_builds"
	};

	shared_memory_add(&part);
}

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
static IndexStatEntry *
find_entry(const char *route, const char *reason)
{
	IndexStatEntry *entry = entries;

	for (int i = 0; i < INDEX_STAT_ENTRIES; i++, entry++)
	{
		if (entry->route[0] == '\0')
		{
			strlcpy(entry->route, route, INDEX_STAT_ROUTE);
			strlcpy(entry->reason, i < INDEX_STAT_ENTRIES - 1 ? reason : "other reasons", INDEX_STAT_REASON);
			return entry;
		}
		if (strcmp(entry->route, route) == 0 && strncmp(entry->reason, reason, INDEX_STAT_REASON - 1) == 0)
			return entry;
	}
	return entry - 1;
}

void
index_stat_add(const char *route, const char *reason, const IndexStatCount *count)
{
	IndexStatCount *sum;

	lock_entries(LW_EXCLUSIVE);
	sum = &find_entry(route, reason != NULL ? reason : "")->count;
	sum->builds += count->builds;
	sum->rows += count->rows;
	sum->pages += count->pages;
	sum->workers += count->workers;
	sum->gpu_builds += count->gpu_builds;
	sum->spills += count->spills;
	sum->spilled_bytes += count->spilled_bytes;
	sum->us += count->us;
	sum->scan_us += count->scan_us;
	sum->sort_us += count->sort_us;
	sum->load_us += count->load_us;
	unlock_entries();
}

void
index_stat_reset(void)
{
	lock_entries(LW_EXCLUSIVE);
	memset(entries, 0, sizeof(session_entries));
	unlock_entries();
}

static Datum
seconds(uint64 us)
{
	return Float8GetDatum((double) us / 1e6);
}

Datum
gpusort_index_builds_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	IndexStatEntry *copy = palloc(sizeof(session_entries));

	InitMaterializedSRF(fcinfo, 0);
	lock_entries(LW_SHARED);
	memcpy(copy, entries, sizeof(session_entries));
	unlock_entries();
	for (int i = 0; i < INDEX_STAT_ENTRIES && copy[i].route[0] != '\0'; i++)
	{
		const IndexStatCount *count = &copy[i].count;
		bool		stock = copy[i].reason[0] != '\0';
		Datum		values[INDEX_STAT_COLS];
		bool		nulls[INDEX_STAT_COLS] = {false};

		values[0] = CStringGetTextDatum(copy[i].route);
		values[1] = CStringGetTextDatum(copy[i].reason);
		nulls[1] = !stock;
		values[2] = Int64GetDatum((int64) count->builds);
		values[3] = Int64GetDatum((int64) count->rows);
		values[4] = Int64GetDatum((int64) count->pages);
		values[5] = Int64GetDatum((int64) count->workers);
		values[6] = Int64GetDatum((int64) count->gpu_builds);
		values[7] = Int64GetDatum((int64) count->spills);
		values[8] = Int64GetDatum((int64) count->spilled_bytes);
		values[9] = seconds(count->us);
		values[10] = seconds(count->scan_us);
		values[11] = seconds(count->sort_us);
		values[12] = seconds(count->load_us);

		/*
		 * a stock build's workers, what it spills, and its phases are not
		 * known
		 */
		nulls[5] = nulls[6] = nulls[7] = nulls[8] = nulls[10] = nulls[11] = nulls[12] = stock;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
