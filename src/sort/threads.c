/*
 * threads.c
 *	  The backend's team of sorting threads.
 *
 * The first sort that is large enough to use threads starts them.  They sleep between
 * sorts, and are replaced when their number changes.  They block all signals and touch
 * only the records that they sort (kernel/team.h), so PostgreSQL never sees them.  If
 * they cannot be started, the backend sorts alone.
 *
 * All backends together run at most gpusort.max_threads threads at a time.  A counter in
 * shared memory has the number of running threads.  A sort takes its share when it
 * begins.  It returns the share in sort_threads_ended(), at the end of the transaction
 * or subtransaction after an error, or at backend exit.  After a crash of a backend the
 * server initializes shared memory again.  If the library was not preloaded there is no
 * counter, and the limit holds for this backend alone.
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

/* Below this number of records waking a thread costs more than it gains. */
#define THREADS_MIN_ROWS	65536

/* The backend's threads; NULL if not started. */
static SortTeam *team = NULL;

/* Running threads of all backends (NULL: no shared memory), and of this backend. */
static pg_atomic_uint32 *all_running = NULL;
static int	running = 0;

static void
init_running(void)
{
	pg_atomic_init_u32(all_running, 0);
}

void
sort_threads_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &all_running,
		.size = sizeof(*all_running),
		.init = init_running
	};

	shared_memory_add(&part);
}

/* Limit of threads for all backends together. */
static int
threads_limit(void)
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

/* Takes up to want threads of the number that may still run; returns how many. */
static int
take_threads(int want)
{
	static bool registered = false;
	uint32		running_now;
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
		return running = Min(want, threads_limit());
	running_now = pg_atomic_read_u32(all_running);
	do
		got = Max(0, Min(want, threads_limit() - (int) running_now));
	while (got > 0 && !pg_atomic_compare_exchange_u32(all_running, &running_now, running_now + (uint32) got));
	running = got;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %d threads beside this process, %u of others", got, running_now)));
	return got;
}

/* Processors of the machine. */
static int
processor_count(void)
{
	static long processors = 0;

	if (processors == 0)
		processors = Max(1, sysconf(_SC_NPROCESSORS_ONLN));
	return (int) processors;
}

double
sort_abreast(double processes)
{
	return Min(processes, Max(2, processor_count()));
}

int
sort_threads_most(int participants)
{
	int			most = Min(max_worker_processes, 1 + threads_limit());

	if (participants > 1)
		most = Min(most, processor_count()) / participants;
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
