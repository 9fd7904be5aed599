/*
 * threads.c
 *	  The backend's team of sorting threads.
 *
 * Threads are started by the first sort that is large enough to use them and
 * sleep between sorts; when gpusort.threads changes they are replaced.  They block
 * all signals and touch only the records they sort (team.h), so PostgreSQL never
 * sees them.  If they cannot be started the backend sorts alone.
 *
 * All backends together run gpusort.max_threads of them at a time.  A sort takes what it
 * may have of that number when it begins, and gives it back when it ends: by
 * sort_threads_ended(), after an error with its transaction, or with the backend.  The number of those
 * that run is in shared memory.  A session that loaded the library by itself has none, and
 * the limit is its own.
 *
 * On error: see above.  A backend that is killed takes the shared memory with it.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "settings.h"
#include "shared_memory.h"
#include "sort/sort_internal.h"
#include "storage/ipc.h"

/* Below this many records waking a thread costs more than it brings. */
#define THREADS_MIN_ROWS	65536

static SortTeam *team = NULL;

/* Threads that run now: of all backends, NULL if they share nothing, and of this one. */
static pg_atomic_uint32 *all_running = NULL;
static int	running = 0;

static Size
running_size(void)
{
	return sizeof(*all_running);
}

static void
start_running(void *memory, bool found)
{
	all_running = memory;
	if (!found)
		pg_atomic_init_u32(all_running, 0);
}

void
sort_threads_init(void)
{
	static const SharedMemory wanted = {"gpusort_threads", running_size, start_running};

	gpusort_shared_memory(&wanted);
}

/* That all backends together may run. */
static int
all_may_run(void)
{
	return gpusort_max_threads < 0 ? max_worker_processes : gpusort_max_threads;
}

void
sort_threads_release(void)
{
	if (running > 0 && all_running != NULL)
		pg_atomic_fetch_sub_u32(all_running, (uint32) running);
	running = 0;
}

static void
release_at_exit(int code, Datum arg)
{
	sort_threads_release();
}

static void
release_with_transaction(XactEvent event, void *arg)
{
	sort_threads_release();
}

static void
release_with_subtransaction(SubXactEvent event, SubTransactionId my, SubTransactionId parent, void *arg)
{
	sort_threads_release();
}

/* Up to want of the threads that may still run are this backend's. */
static int
take_threads(int want)
{
	static bool registered = false;
	uint32		others;
	int			got;

	if (!registered)
	{
		RegisterXactCallback(release_with_transaction, NULL);
		RegisterSubXactCallback(release_with_subtransaction, NULL);
		before_shmem_exit(release_at_exit, (Datum) 0);
		registered = true;
	}
	sort_threads_release();
	if (all_running == NULL)
		return running = Min(want, all_may_run());
	others = pg_atomic_read_u32(all_running);
	do
		got = Max(0, Min(want, all_may_run() - (int) others));
	while (got > 0 && !pg_atomic_compare_exchange_u32(all_running, &others, others + (uint32) got));
	running = got;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %d threads beside this process, %u of others", got, others)));
	return got;
}

/* The machine's. */
static int
processors_there_are(void)
{
	static long processors = 0;

	if (processors == 0)
		processors = Max(1, sysconf(_SC_NPROCESSORS_ONLN));
	return (int) processors;
}

double
sort_abreast(double processes)
{
	return Min(processes, Max(2, processors_there_are()));
}

int
sort_threads_most(int participants)
{
	int			most = Min(max_worker_processes, 1 + all_may_run());

	if (participants > 1)
		most = Min(most, processors_there_are()) / participants;
	return Max(1, Min(gpusort_threads, most));
}

SortTeam *
sort_threads(size_t n, int participants)
{
	int			size;

	if (gpusort_threads == 1 || n < THREADS_MIN_ROWS)
		return NULL;
	size = sort_threads_most(participants);
	if (size > 1)
		size = 1 + take_threads(size - 1);
	if (size == 1)
		return NULL;
	if (team != NULL && team->size != size)
	{
		sort_thread_team_destroy(team);
		team = NULL;
	}
	if (team == NULL)
		team = sort_thread_team_create(size);
	if (team == NULL)
		sort_threads_release();
	return team;
}

bool
sort_threads_interrupted(void *arg)
{
	if (arg != NULL)
		return InterruptPending && (QueryCancelPending || ProcDiePending);
	CHECK_FOR_INTERRUPTS();
	return false;
}

void
sort_threads_ended(SortStatus status, const char *algorithm)
{
	sort_threads_release();
	if (status == SORT_STOPPED)
	{
		CHECK_FOR_INTERRUPTS();
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to user request")));
	}
	if (status != SORT_OK)
		elog(ERROR, "algorithm \"%s\" cannot sort its input", algorithm);
}
