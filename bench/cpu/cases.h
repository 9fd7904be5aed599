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
	int			begin_bit;		/* as in SortProblem; a packed record's rid
								 * has begin_bit bits */
	int			end_bit;
	bool		rids_ascending; /* rid i is i, else a permutation of that */
} SortCase;

/* What a sorted output must satisfy, beyond ascending keys. */
typedef enum CaseCheck
{
	CASE_STABLE,				/* equal keys in input order, every record
								 * there */
	CASE_ORDER,					/* every record there */
	CASE_KEYS					/* every key there; rids do not matter */
} CaseCheck;

/*
 * Writes the case's records, keys in the named distribution.  Key bits outside
 * [begin_bit, end_bit) of the wide formats are filled with noise.  Returns 0, or
 * -1 if the distribution is unknown.
 */
extern int	case_fill(const SortCase *c, const char *distribution,
					  uint64_t seed, void *recs);

/*
 * What a caller finds out while it builds the records: the neighbours' order
 * (SortProblem.descents, ascents), and the highest key bit in which records differ,
 * plus one (begin_bit if none does).
 */
typedef struct CaseFacts
{
	size_t		descents;
	size_t		ascents;
	int			end_bit;
} CaseFacts;

extern CaseFacts case_facts(const SortCase *c, const void *recs);

/*
 * A sum over the records (keys alone for CASE_KEYS), the same for every order of
 * the same records.
 */
extern uint64_t case_checksum(const SortCase *c, const void *recs, CaseCheck check);

/*
 * The first record that is out of place: its key below its predecessor's, or,
 * for CASE_STABLE, equal to it with an input position that is not greater.  n
 * if there is none.
 */
extern size_t case_first_fault(const SortCase *c, const void *recs, CaseCheck check);

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_CASES_H */
