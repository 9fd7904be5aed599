/*
 * tuple_walk_inline.h
 *	  Takes the steps of a walk, for loops over rows.
 */
#ifndef GPUSORT_STORE_TUPLE_WALK_INLINE_H
#define GPUSORT_STORE_TUPLE_WALK_INLINE_H

#include "postgres.h"

#include "compat.h"
#include "store/tuple_walk.h"

/* The size of the column's value at p. */
static inline Size
walk_value_size(const WalkColumn *col, const char *p)
{
	return col->len > 0 ? col->len : VARSIZE_ANY(p);
}

/* Does the tuple have all columns of the walk, without a NULL? */
static inline bool
tuple_walk_plain(const TupleWalk *walk, const HeapTupleHeaderData *tuple)
{
	if (unlikely(HeapTupleHeaderGetNatts(tuple) < walk->natts))
		return false;
	if (likely((tuple->t_infomask & HEAP_HASNULL) == 0))
		return true;
	for (int byte = 0; byte < walk->natts / 8; byte++)
	{
		if (tuple->t_bits[byte] != 0xFF)
			return false;
	}
	return (~tuple->t_bits[walk->natts / 8] & ((1 << walk->natts % 8) - 1)) == 0;
}

/*
 * Takes the steps through a tuple of len bytes; false if the tuple needs a walk column by
 * column.  Pages and tuples are aligned, so padding follows from addresses.
 */
static inline bool
tuple_walk(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len, WalkAt *at)
{
	const char *p = (const char *) tuple + tuple->t_hoff;

	if (unlikely(walk->nsteps == 0 || !tuple_walk_plain(walk, tuple)))
		return false;
	for (int s = 0; s < walk->nsteps; s++)
	{
		const WalkStep *step = &walk->steps[s];

		if (step->len > 0)
		{
			p = (const char *) (((uintptr_t) p + step->align) & ~(uintptr_t) step->align);
			at[s].begin = p;
			p += step->len;
		}
		else if (likely(VARATT_IS_1B(p) && !VARATT_IS_1B_E(p)))
		{
			at[s].begin = p;
			p += VARSIZE_1B(p);
		}
		else
		{
			if (step->small)
				return false;
			if (!VARATT_NOT_PAD_BYTE(p))
				p = (const char *) (((uintptr_t) p + step->align) & ~(uintptr_t) step->align);
			at[s].begin = p;
			p += VARSIZE_ANY(p);
		}
		at[s].end = p;
	}
	/* a corrupt length must not lead outside the tuple */
	return likely(p <= (const char *) tuple + len);
}

#endif							/* GPUSORT_STORE_TUPLE_WALK_INLINE_H */
