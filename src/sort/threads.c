/*
 * threads.c
 *	  The backend's team of sorting threads.
 *
 * Threads are started by the first sort that is large enough to use them and
 * sleep between sorts; when gpusort.threads changes they are replaced.  They block
 * all signals and touch only the records they sort (team.h), so PostgreSQL never
 * sees them.  If they cannot be started the backend sorts alone.
 */
#include "postgres.h"

#include <unistd.h>

#include "miscadmin.h"
#include "settings.h"
#include "sort/threads.h"

/* Below this many records waking a thread costs more than it brings. */
#define THREADS_MIN_ROWS	65536

static SortTeam *team = NULL;

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
	int			most = max_worker_processes;

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
	if (size == 1)
		return NULL;
	if (team != NULL && team->size != size)
	{
		sort_thread_team_destroy(team);
		team = NULL;
	}
	if (team == NULL)
		team = sort_thread_team_create(size);
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
