/*
 * member.h
 *	  A member of a team that runs a kernel together: its slice of the
 *	  records, its barriers, and how the team stops.
 *
 * Only rank 0 asks problem->interrupted.  If members tested a common stop flag,
 * they could read different values before the same barrier, and some would wait
 * for ever.  Rank 0 therefore announces the number of the next barrier, and
 * every member gives up at that barrier, whenever it reads the announcement.
 */
#ifndef GPUSORT_MEMBER_H
#define GPUSORT_MEMBER_H

#include <string.h>

#include "sort_kernel.h"
#include "team.h"

/*
 * Most records that a member processes between two calls of member_stopped().
 */
#define MEMBER_POLL		((size_t) 1 << 17)

/* State that the members share, in the problem's scratch. */
typedef struct MemberShared
{
	unsigned	stop_at;		/* barrier at which to give up; 0: none */
	/* next part to be taken */
	unsigned	next_task __attribute__((aligned(64)));
	char		pad[60];
} MemberShared;

/* A member, in its own memory. */
typedef struct Member
{
	SortProblem *problem;
	MemberShared *shared;
	int			rank;			/* 0 .. size - 1 */
	int			size;			/* members of the team */
	SortTeam   *team;			/* NULL: this member works alone */
	unsigned	barriers;		/* number of barriers passed */
} Member;

/*
 * Makes the member; each member calls it first.  In a team it waits until rank
 * 0 has cleared the shared state.
 */
static inline Member
member_make(SortProblem *problem, MemberShared *shared, int rank, SortTeam *team)
{
	Member		m;

	m.problem = problem;
	m.shared = shared;
	m.rank = rank;
	m.team = team;
	m.size = sort_team_size(team);
	m.barriers = 0;
	if (rank == 0)
		memset(shared, 0, sizeof(MemberShared));
	sort_team_barrier(team);
	return m;
}

/*
 * Is the team to stop?  If so, the member must go to its next barrier at once.
 */
static inline bool
member_stopped(Member *m)
{
	if (m->rank == 0)
	{
		if (m->problem->interrupted != NULL && m->shared->stop_at == 0 &&
			m->problem->interrupted(m->problem->interrupted_arg))
			__atomic_store_n(&m->shared->stop_at, m->barriers + 1, __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&m->shared->stop_at, __ATOMIC_RELAXED) != 0;
}

/* Waits for all members.  False: the team gives up at this barrier. */
static inline bool
member_barrier(Member *m)
{
	unsigned	stop_at;

	m->barriers++;
	sort_team_barrier(m->team);
	stop_at = __atomic_load_n(&m->shared->stop_at, __ATOMIC_RELAXED);
	return stop_at == 0 || stop_at > m->barriers;
}

/*
 * First of n records of the slice of that rank, a multiple of 64; for rank =
 * size n, the end of the last slice.
 */
static inline size_t
member_slice(const Member *m, size_t n, int rank)
{
	return rank == m->size ? n : (n / 64 * rank / m->size) * 64;
}

#endif							/* GPUSORT_MEMBER_H */
