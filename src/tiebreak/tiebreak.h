/*
 * tiebreak.h
 *	  Resolves ties: orders rows whose normalized keys are equal or inexact.
 *
 * Other rooms include this header.  Its inline functions are for loops over rows; what
 * the room's own files need is in tie_break.h.
 */
#ifndef GPUSORT_TIEBREAK_TIEBREAK_H
#define GPUSORT_TIEBREAK_TIEBREAK_H

#include "tiebreak/tie_break.h"

/* Rows [start, end), behind those of all groups before, have equal keys. */
static inline void
tie_groups_add(TieGroups *groups, size_t start, size_t end)
{
	if (groups->last.end > 0)
		tie_groups_close(groups);
	groups->last.start = start;
	groups->last.end = end;
}

/* Row i > 0 has the key of row i - 1.  Their rids, and those before, are written. */
static inline void
tie_groups_equal(TieGroups *groups, size_t i)
{
	if (groups->last.end == i)
		groups->last.end = i + 1;
	else
		tie_groups_add(groups, i - 1, i + 1);
}

#endif							/* GPUSORT_TIEBREAK_TIEBREAK_H */
