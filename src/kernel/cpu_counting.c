/*
 * cpu_counting.c
 *	  cpu_counting: counting sort (Abdel-hafeez 2018, sections 4.1 and 4.2);
 *	  stable.
 *
 * The paper sorts keys without payload and emits each value as often as it was
 * counted.  Records have row ids, so the last step moves records: a scatter to
 * as many places as there are values, which is a single radix pass whose digit
 * is the whole key.  It pays as long as the table of counts fits the caches.
 *
 * Memory: a copy of the records, and for each member of the team a table of
 * 2^(key bits) counters.  After an interrupt the records are unchanged.
 *
 * Errors: SORT_STOPPED, SORT_NOT_APPLICABLE.
 */
#include <string.h>

#include "member.h"
#include "rec.h"

#define COUNTING_MAX_BITS	24	/* most key bits */
#define COUNTING_PER_RECORD	4	/* most counters per record */

/* Number of possible values. */
static inline size_t
counting_range(const SortProblem *problem)
{
	return (size_t) 1 << (problem->end_bit - problem->begin_bit);
}

/*
 * The team if it helps: each member must have at least as many records as
 * counters.
 */
static SortTeam *
counting_team(const SortProblem *problem)
{
	return problem->n / sort_team_size(problem->team) < counting_range(problem) ? NULL :
		sort_team_for(problem->team, problem->n);
}

/* First of n values that the member of that rank sums up. */
static inline size_t
member_share(const Member *m, size_t n, int rank)
{
	return n * rank / m->size;
}

#define COUNTING		FORMAT
#define FORMAT_TEMPLATE "kernel/counting_template.h"
#include "kernel/formats_template.h"

static bool
counting_applies(const SortProblem *problem, const char **why)
{
	if (!rids_suffice(problem, why))
		return false;
	if (problem->end_bit - problem->begin_bit > COUNTING_MAX_BITS)
		*why = "keys of more than 24 bits";
	else if (counting_range(problem) / COUNTING_PER_RECORD > problem->n)
		*why = "key range above 4 times the rows";
	else
		return true;
	return false;
}

/* Scratch: copy of the records, MemberShared, totals of the members, tables. */
static size_t
counting_scratch_bytes(const SortProblem *problem)
{
	size_t		members = sort_team_size(counting_team(problem));

	return align64(problem->n * sort_rec_size(problem->format)) + sizeof(MemberShared) +
		align64(members * sizeof(uint32_t)) +
		align64(members * counting_range(problem) * sizeof(uint32_t));
}

/* One call of counting_run(), shared by the members. */
typedef struct CountingRun
{
	SortProblem *problem;
	SortStatus	status;
} CountingRun;

static void
counting_member(void *arg, int rank)
{
	CountingRun *run = arg;
	SortProblem *problem = run->problem;
	char	   *p = (char *) problem->scratch + align64(problem->n * sort_rec_size(problem->format));
	Member		m = member_make(problem, (MemberShared *) p, rank, counting_team(problem));
	uint32_t   *totals = (uint32_t *) (p + sizeof(MemberShared));
	uint32_t   *tables = (uint32_t *) (p + sizeof(MemberShared) + align64(m.size * sizeof(uint32_t)));
	bool		ok = CALL_FORMAT(problem->format, sort, &m, tables, totals);

	/* all members store the same value */
	__atomic_store_n(&run->status, ok ? SORT_OK : SORT_STOPPED, __ATOMIC_RELAXED);
}

static SortStatus
counting_run(SortProblem *problem)
{
	CountingRun run = {problem, SORT_STOPPED};
	const char *why;

	if (!counting_applies(problem, &why))
		return SORT_NOT_APPLICABLE;
	sort_team_run(counting_team(problem), counting_member, &run);
	problem->result = problem->scratch;
	return run.status;
}

const SortKernel cpu_counting_kernel = {
	.applies = counting_applies,
	.scratch_bytes = counting_scratch_bytes,
	.run = counting_run
};
