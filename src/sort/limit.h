/*
 * limit.h
 *	  Bounded sorts: only the first rows are wanted.
 */
#ifndef GPUSORT_LIMIT_H
#define GPUSORT_LIMIT_H

#include "postgres.h"

#include "key/page_keys.h"
#include "sort/sorter.h"

/* Staged rows at which, at the latest, a bounded sort throws away what cannot be wanted. */
static inline size_t
limit_trigger(size_t bound)
{
	return Max(2 * bound, 1024);
}

/*
 * Sorts what is staged, more rows than wanted; keeps the first bound rows, and sets
 * the threshold.
 */
extern void limit_cut(Sorter *sorter);

/* The bound-th of the rows, which have just been sorted, is the threshold. */
extern void limit_set_threshold(Sorter *sorter);

/* Does the row in the slot go behind all rows that are wanted? */
extern bool limit_rejects(const Sorter *sorter, TupleTableSlot *slot);

/*
 * The same of a tuple whose keys lie at fixed places in its data, as far as staged
 * columns tell: false may still be true.
 */
extern bool limit_rejects_at(const Sorter *sorter, const PageKeys *keys, const char *data);

#endif							/* GPUSORT_LIMIT_H */
