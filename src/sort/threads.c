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

#include "miscadmin.h"
#include "settings.h"
#include "sort/threads.h"

/* Below this many records waking a thread costs more than it brings. */
#define THREADS_MIN_ROWS	65536

static SortTeam *team = NULL;

SortTeam *
sort_threads(size_t n)
{
	if (gpusort_threads == 1 || n < THREADS_MIN_ROWS)
		return NULL;
	if (team != NULL && team->size != gpusort_threads)
	{
		sort_thread_team_destroy(team);
		team = NULL;
	}
	if (team == NULL)
		team = sort_thread_team_create(gpusort_threads);
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
