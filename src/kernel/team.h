/*
 * team.h
 *	  A team: a fixed number of members that run one function together.
 *
 * A kernel calls sort_team_run() with a body.  Each member runs body(arg,
 * rank), and members meet at sort_team_barrier().  The caller has rank 0, the
 * threads of a pool have the ranks from 1 on.
 *
 * Threads block all signals, so that a server's handlers run in its main
 * thread, and access only the problem.
 */
#ifndef GPUSORT_TEAM_H
#define GPUSORT_TEAM_H

#include <stdbool.h>
#include <stddef.h>

#define SORT_TEAM_MAX	64		/* most members */

/* Kernels use a team from this number of records on. */
#define SORT_TEAM_MIN_RECORDS	((size_t) 1 << 16)

typedef void (*SortTeamBody) (void *arg, int rank);

/* A team; the first field of the struct that has its threads. */
typedef struct SortTeam
{
	int			size;			/* number of members, 1 .. SORT_TEAM_MAX */
} SortTeam;

/* Number of members.  In these functions a NULL team is the caller alone. */
static inline int
sort_team_size(const SortTeam *team)
{
	return team ? team->size : 1;
}

/* The team if it helps to sort n records, otherwise NULL. */
static inline SortTeam *
sort_team_for(SortTeam *team, size_t n)
{
	return sort_team_size(team) > 1 && n >= SORT_TEAM_MIN_RECORDS ? team : NULL;
}

/* Runs the body; returns when all members are done. */
extern void sort_team_run(SortTeam *team, SortTeamBody body, void *arg);

/*
 * Waits for all members.  Writes before the barrier are visible to all members
 * after it.
 */
extern void sort_team_barrier(SortTeam *team);

/*
 * Creates a team of size members: the caller and size - 1 threads.  NULL: no
 * memory or no threads.  One thread at a time may use the team.
 */
extern SortTeam *sort_thread_team_create(int size);

/* Ends the threads and frees the team. */
extern void sort_thread_team_destroy(SortTeam *team);

#endif							/* GPUSORT_TEAM_H */
