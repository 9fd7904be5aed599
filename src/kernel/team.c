/*
 * team.c
 *	  A team backed by threads of this process.
 *
 * Threads sleep on a condition variable between runs, since a run may be hours
 * away.  Within a run, members meet at barriers about ten times per sort, each
 * microseconds apart from the others' arrival, so a barrier spins before it
 * yields the processor: on a machine with fewer processors than members, pure
 * spinning would burn whole time slices.
 */
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#define SPINS_BEFORE_YIELD	1000

typedef struct ThreadTeam
{
	SortTeam	base;
	pthread_mutex_t mutex;
	pthread_cond_t wake;		/* a run begins, or quit */
	pthread_cond_t done;		/* the last thread has finished a run */
	unsigned long run_number;
	int			running;		/* threads not yet done with the run */
	bool		quit;
	SortTeamBody body;
	void	   *arg;

	/* the barrier: arrivals, and how many barriers have been passed */
	int			presorted __attribute__((aligned(64)));
	unsigned	phase __attribute__((aligned(64)));

	int			nthreads;
	pthread_t	threads[SORT_TEAM_MAX];
	struct ThreadStart
	{
		struct ThreadTeam *team;
		int			rank;
	}			starts[SORT_TEAM_MAX];
} ThreadTeam;

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

static void
thread_team_run(SortTeam *base, SortTeamBody body, void *arg)
{
	ThreadTeam *team = (ThreadTeam *) base;

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

static void
thread_team_barrier(SortTeam *base)
{
	ThreadTeam *team = (ThreadTeam *) base;
	unsigned	phase = __atomic_load_n(&team->phase, __ATOMIC_RELAXED);

	if (__atomic_add_fetch(&team->presorted, 1, __ATOMIC_ACQ_REL) == base->size)
	{
		__atomic_store_n(&team->presorted, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&team->phase, phase + 1, __ATOMIC_RELEASE);
		return;
	}
	for (int spins = 0; __atomic_load_n(&team->phase, __ATOMIC_ACQUIRE) == phase; spins++)
		if (spins >= SPINS_BEFORE_YIELD)
			sched_yield();
}

static const SortTeamOps thread_team_ops = {thread_team_run, thread_team_barrier};

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
	*team = (ThreadTeam) {.base = {&thread_team_ops, size}};
	pthread_mutex_init(&team->mutex, NULL);
	pthread_cond_init(&team->wake, NULL);
	pthread_cond_init(&team->done, NULL);

	/* A thread inherits its creator's mask, so no signal can slip in. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int rank = 1; rank < size; rank++)
	{
		team->starts[rank] = (struct ThreadStart) {team, rank};
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
