/*
 * team.c
 *	  A team of threads of this process.
 *
 * Between runs threads sleep on a condition variable, because the next run may
 * be far away.  Within a run members meet at about ten barriers, microseconds
 * apart.  A barrier therefore spins first, and then yields the processor: with
 * fewer processors than members, spinning alone would use up time slices.
 *
 * Memory: one allocation per team, freed by sort_thread_team_destroy().
 *
 * Errors: sort_thread_team_create() returns NULL.
 */
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SPINS_BEFORE_YIELD	1000	/* polls of a barrier before sched_yield() */

/* A team of threads.  mutex protects the fields up to arg. */
typedef struct ThreadTeam
{
	SortTeam	base;
	pthread_mutex_t mutex;
	pthread_cond_t wake;		/* signals a run, or quit */
	pthread_cond_t done;		/* signals that running has become 0 */
	unsigned long run_number;	/* number of runs started */
	int			running;		/* threads that have not finished the run */
	bool		quit;			/* threads must end */
	SortTeamBody body;			/* function of the run */
	void	   *arg;			/* its argument */

	/*
	 * the barrier: members that have come to it, and number of barriers
	 * passed
	 */
	int			arrivals __attribute__((aligned(64)));
	unsigned	phase __attribute__((aligned(64)));

	int			nthreads;		/* threads created */
	pthread_t	threads[SORT_TEAM_MAX];
	struct ThreadStart
	{
		struct ThreadTeam *team;
		int			rank;
	}			starts[SORT_TEAM_MAX];
} ThreadTeam;

/* Body of a thread: runs the team's body once per run, until quit. */
static void *
thread_main(void *arg)
{
	struct ThreadStart *start = arg;
	ThreadTeam *team = start->team;
	unsigned long last_run = 0;

	pthread_mutex_lock(&team->mutex);
	for (;;)
	{
		while (team->run_number == last_run && !team->quit)
			pthread_cond_wait(&team->wake, &team->mutex);
		if (team->quit)
			break;
		last_run = team->run_number;
		pthread_mutex_unlock(&team->mutex);
		team->body(team->arg, start->rank);
		pthread_mutex_lock(&team->mutex);
		if (--team->running == 0)
			pthread_cond_signal(&team->done);
	}
	pthread_mutex_unlock(&team->mutex);
	return NULL;
}

void
sort_team_run(SortTeam *base, SortTeamBody body, void *arg)
{
	ThreadTeam *team = (ThreadTeam *) base;

	if (team == NULL)
	{
		body(arg, 0);
		return;
	}
	pthread_mutex_lock(&team->mutex);
	team->body = body;
	team->arg = arg;
	team->running = team->nthreads;
	team->run_number++;
	pthread_cond_broadcast(&team->wake);
	pthread_mutex_unlock(&team->mutex);

	body(arg, 0);

	pthread_mutex_lock(&team->mutex);
	while (team->running > 0)
		pthread_cond_wait(&team->done, &team->mutex);
	pthread_mutex_unlock(&team->mutex);
}

void
sort_team_barrier(SortTeam *base)
{
	ThreadTeam *team = (ThreadTeam *) base;
	unsigned	phase;

	if (team == NULL)
		return;
	phase = __atomic_load_n(&team->phase, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&team->arrivals, 1, __ATOMIC_ACQ_REL) == base->size)
	{
		__atomic_store_n(&team->arrivals, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&team->phase, phase + 1, __ATOMIC_RELEASE);
		return;
	}
	for (int spins = 0; __atomic_load_n(&team->phase, __ATOMIC_ACQUIRE) == phase; spins++)
		if (spins >= SPINS_BEFORE_YIELD)
			sched_yield();
}

SortTeam *
sort_thread_team_create(int size)
{
	ThreadTeam *team;
	sigset_t	all;
	sigset_t	before;

	if (size < 1 || size > SORT_TEAM_MAX)
		return NULL;
	if (posix_memalign((void **) &team, 64, sizeof(ThreadTeam)) != 0)
		return NULL;
	memset(team, 0, sizeof(ThreadTeam));
	team->base.size = size;
	pthread_mutex_init(&team->mutex, NULL);
	pthread_cond_init(&team->wake, NULL);
	pthread_cond_init(&team->done, NULL);

	/* threads inherit the mask, so that they get no signal from the start on */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int rank = 1; rank < size; rank++)
	{
		team->starts[rank] = (struct ThreadStart)
		{
			team, rank
		};
		if (pthread_create(&team->threads[rank], NULL, thread_main, &team->starts[rank]) != 0)
			break;
		team->nthreads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (team->nthreads < size - 1)
	{
		sort_thread_team_destroy(&team->base);
		return NULL;
	}
	return &team->base;
}

void
sort_thread_team_destroy(SortTeam *base)
{
	ThreadTeam *team = (ThreadTeam *) base;

	pthread_mutex_lock(&team->mutex);
	team->quit = true;
	pthread_cond_broadcast(&team->wake);
	pthread_mutex_unlock(&team->mutex);
	for (int rank = 1; rank <= team->nthreads; rank++)
		pthread_join(team->threads[rank], NULL);
	pthread_cond_destroy(&team->done);
	pthread_cond_destroy(&team->wake);
	pthread_mutex_destroy(&team->mutex);
	free(team);
}
