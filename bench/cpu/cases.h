/*
 * cases.h
 *	  Inputs for sort kernels and the check of their outputs, shared by the
 *	  kernel benchmark and the unit tests.
 */
#ifndef GPUSORT_CASES_H
#define GPUSORT_CASES_H

#include "../../src/kernel/algorithm.h"

#ifdef __cplusplus
extern "C"
{
#endif

typedef struct SortCase
{
	SortRecFormat format;
	size_t		n;
	/* as in SortProblem; the rid of a packed record has begin_bit bits */
	int			begin_bit;
	int			end_bit;
	bool		rids_ascending; /* rid i is i; otherwise a permutation */
} SortCase;

/* What a sorted output must satisfy.  Keys ascend in all cases. */
typedef enum CaseCheck
{
	CASE_STABLE,				/* no record lost; equal keys in input order */
	CASE_ORDER,					/* no record lost */
	CASE_KEYS					/* no key lost; rids are not checked */
} CaseCheck;

/*
 * Writes the case's records, keys in the named distribution.  Key bits outside
 * [begin_bit, end_bit) of the wide formats are filled with noise.  Returns 0, or
 * -1 if the distribution is unknown.
 */
extern int	case_fill(const SortCase *c, const char *distribution,
					  uint64_t seed, void *recs);

/*
 * Facts that the caller of a kernel knows from building the records: the order
 * of neighbours (SortProblem.descents, ascents), and the highest key bit in
 * which records differ, plus one (begin_bit if all keys are equal).
 */
typedef struct CaseFacts
{
	size_t		descents;
	size_t		ascents;
	int			end_bit;
} CaseFacts;

extern CaseFacts case_facts(const SortCase *c, const void *recs);

/*
 * Checksum of the records, or of the keys for CASE_KEYS.  It does not depend on
 * their order.
 */
extern uint64_t case_checksum(const SortCase *c, const void *recs, CaseCheck check);

/*
 * Index of the first record that is out of order, or n.  A record is out of order
 * if its key is below its predecessor's.  For CASE_STABLE it also is if the keys
 * are equal and its input position is not greater.
 */
extern size_t case_first_fault(const SortCase *c, const void *recs, CaseCheck check);

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_CASES_H */
