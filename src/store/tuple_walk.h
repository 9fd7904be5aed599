/*
 * tuple_walk.h
 *	  Where the columns of a heap tuple lie.
 *
 * A walk is prepared once, for the columns of a table that are wanted.  Columns of
 * fixed width that lie together are one step of it, a varlena is one.  A tuple that
 * has all columns up to the last one wanted, and no NULL among them, takes these
 * steps without a question about any column; any other is walked column by column.
 */
#ifndef GPUSORT_TUPLE_WALK_H
#define GPUSORT_TUPLE_WALK_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "compat.h"

/* Walks of more steps are taken column by column. */
#define WALK_MAX_STEPS	64

typedef struct WalkStep
{
	int32		len;			/* of columns of fixed width; 0: a varlena */
	uint8		align;			/* less one */
	bool		small;			/* a varlena that has to be in the short format */
} WalkStep;

/* Where a step was found. */
typedef struct WalkAt
{
	const char *begin;
	const char *end;
} WalkAt;

typedef struct WalkColumn
{
	int16		len;			/* -1: a varlena */
	uint8		align;			/* less one */
	uint16		step;
	int32		offset;			/* from where the step begins */
	const char *missing;		/* what tuples from before this column have; NULL: NULL */
} WalkColumn;

typedef struct TupleWalk
{
	int			natts;			/* columns up to the last wanted */
	int			nsteps;			/* 0: column by column */
	Size		missing_len;	/* bytes of all missing values */
	WalkStep   *steps;
	WalkColumn *cols;
} TupleWalk;

/*
 * A walk to columns atts[] (from 0) of tuples of desc; NULL if it cannot be done.
 * If small, tuple_walk() is only for tuples that have these columns' varlenas in the
 * short format, which lie unaligned.  In the current memory context.
 */
extern TupleWalk *tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small);

extern void tuple_walk_free(TupleWalk *walk);

/*
 * Where each of the walk's columns lies, of any tuple; NULL where it is NULL.  An
 * error if one lies outside the tuple.
 */
extern void tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
							   const char **where);

/* The size of the value that lies at p. */
static inline Size
walk_value_size(const WalkColumn *col, const char *p)
{
	return col->len > 0 ? col->len : VARSIZE_ANY(p);
}

/* Has the tuple all columns, and no NULL in them? */
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
 * Takes the steps through a tuple of len bytes; false if it is not one for them.
 * Pages, and tuples on them, are aligned, so that addresses tell the alignment.
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
	/* a broken length must not lead anybody out of the tuple */
	return likely(p <= (const char *) tuple + len);
}

#endif							/* GPUSORT_TUPLE_WALK_H */
