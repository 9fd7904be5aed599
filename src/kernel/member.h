/*
 * member.h
 *	  What every kernel's body needs as one member of a team: which share of the
 *	  work is its own, when to stop, where to meet the others.
 *
 * Rank 0 alone asks problem->interrupted.  Members that only looked at a common
 * "stop" flag could disagree about it at a barrier, and wait for ever; so rank
 * 0 announces the number of the barrier that it is about to come to, and every
 * member gives up at that barrier, however late it reads the announcement.
 */
#ifndef GPUSORT_MEMBER_H
#define GPUSORT_MEMBER_H

#include <string.h>

#include "sort_kernel.h"
#include "team.h"

/* Records of work between two polls, at most. */
#define MEMBER_POLL		((size_t) 1 << 17)

/* In the shared scratch. */
typedef struct MemberShared
{
	unsigned	stop_at;		/* barrier number, 0 if nobody stops */
	unsigned	next_task __attribute__((aligned(64)));
	char		pad[60];
} MemberShared;

typedef struct Member
{
	SortProblem *problem;
	MemberShared *shared;
	int			rank;
	int			size;
	SortTeam   *team;			/* NULL if this member works alone */
	unsigned	barriers;		/* how many this member has passed */
} Member;

/*
 * The first act of each member: in a team, waits until rank 0 has prepared what
 * they share.
 */
static inline Member
member_make(SortProblem *problem, MemberShared *shared, int rank, bool by_team)
{
	Member		m;

	m.problem = problem;
	m.shared = shared;
	m.rank = rank;
	m.team = by_team ? problem->team : NULL;
	m.size = sort_team_size(m.team);
	m.barriers = 0;
	if (rank == 0)
		memset(shared, 0, sizeof(MemberShared));
	sort_team_barrier(m.team);
	return m;
}

/* Asks whether to stop; a member that stops goes to the next barrier at once. */
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

/* False if the team gives up here. */
static inline bool
member_barrier(Member *m)
{
	unsigned	stop_at;

	m->barriers++;
	sort_team_barrier(m->team);
	stop_at = __atomic_load_n(&m->shared->stop_at, __ATOMIC_RELAXED);
	return stop_at == 0 || stop_at > m->barriers;
}

/* The member's slice of n records: [start, end), starts at multiples of 64. */
static inline size_t
member_slice(const Member *m, size_t n, int rank)
{
	return rank == m->size ? n : (n / 64 * rank / m->size) * 64;
}

#endif							/* GPUSORT_MEMBER_H */
