/*
 * team.h
 *	  Who sorts: a fixed number of members that run one function together.
 *
 * A kernel that can use several members calls sort_team_run() with a body; each
 * member runs body(arg, rank), and members meet at sort_team_barrier().  What
 * members share lies in the problem's records and scratch, found by offset, never
 * by a pointer that one member left for another.  So the same kernels serve two
 * kinds of team:
 *
 *	threads		sort_thread_team_create(): the caller is rank 0, a pool of
 *				threads the others; sort_team_run() is called once, by the caller
 *	processes	each process maps the problem at its own addresses, builds its own
 *				SortProblem, and calls the kernel itself; its team's run op calls the
 *				body with the process's own rank
 *
 * Threads block every signal, so that a server's handlers run in its main
 * thread alone, and touch nothing but the problem.
 */
#ifndef GPUSORT_TEAM_H
#define GPUSORT_TEAM_H

#ifdef __cplusplus
extern "C"
{
#endif

#define SORT_TEAM_MAX	64

typedef struct SortTeam SortTeam;
typedef void (*SortTeamBody) (void *arg, int rank);

typedef struct SortTeamOps
{
	/* Returns when this process's members have all returned from body. */
	void		(*run) (SortTeam *team, SortTeamBody body, void *arg);

	/* Nobody leaves before all have come; what came before is visible after. */
	void		(*barrier) (SortTeam *team);
} SortTeamOps;

/* Embedded first in whatever backs the team. */
struct SortTeam
{
	const SortTeamOps *ops;
	int			size;			/* 1 .. SORT_TEAM_MAX */
};

/* A missing team is the caller alone. */
static inline int
sort_team_size(const SortTeam *team)
{
	return team ? team->size : 1;
}

static inline void
sort_team_run(SortTeam *team, SortTeamBody body, void *arg)
{
	if (team)
		team->ops->run(team, body, arg);
	else
		body(arg, 0);
}

static inline void
sort_team_barrier(SortTeam *team)
{
	if (team)
		team->ops->barrier(team);
}

/*
 * A team of size members backed by size - 1 threads, which sleep between runs.
 * NULL if memory or threads cannot be had.  Used by one thread at a time.
 */
extern SortTeam *sort_thread_team_create(int size);
extern void sort_thread_team_destroy(SortTeam *team);

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_TEAM_H */
