/*
 * tuple_walk.c
 *	  Where the columns of a heap tuple lie.
 *
 * A step of several columns has them at fixed places from where it begins, so a
 * column begins a new step if it asks for more alignment than the step's first one
 * does.  Only the step at the tuple's front is free of that: it begins at a place
 * that suits them all.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "compat.h"
#include "store/tuple_walk.h"
#include "utils/datum.h"

/* A column's value in tuples from before it was added, as it would lie in them. */
static const char *
missing_value(TupleDesc desc, int att, Size *len)
{
	Form_pg_attribute attr = TupleDescAttr(desc, att);
	bool		isnull;
	Datum		value = getmissingattr(desc, att + 1, &isnull);
	char	   *place;

	if (isnull)
		return NULL;
	if (attr->attbyval)
	{
		place = palloc0(sizeof(Datum));
		store_att_byval(place, value, attr->attlen);
	}
	else
		place = DatumGetPointer(datumCopy(value, false, attr->attlen));
	*len += attr->attlen > 0 ? attr->attlen : VARSIZE_ANY(place);
	return place;
}

/* Divides the columns into steps. */
static int
make_steps(TupleWalk *walk, const bool *small)
{
	int			n = 0;
	WalkStep   *step = NULL;	/* that may take another column */

	for (int att = 0; att < walk->natts; att++)
	{
		WalkColumn *col = &walk->cols[att];

		if (col->len > 0 && step != NULL && (n == 1 || col->align <= step->align))
		{
			col->offset = (step->len + col->align) & ~col->align;
			step->len = col->offset + col->len;
			step->align = Max(step->align, col->align);
		}
		else
		{
			if (n == WALK_MAX_STEPS)
				return 0;
			step = &walk->steps[n++];
			step->len = Max(col->len, 0);
			step->align = col->align;
			step->small = small[att];
			col->offset = 0;
			if (col->len < 0)
				step = NULL;
		}
		col->step = n - 1;
	}
	return n;
}

TupleWalk *
tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small)
{
	TupleWalk  *walk;
	bool	   *wanted;
	int			natts = 0;

	for (int i = 0; i < n; i++)
		natts = Max(natts, atts[i] + 1);
	for (int att = 0; att < natts; att++)
	{
		/* no table has such a column */
		if (TupleDescAttr(desc, att)->attlen < -1)
			return NULL;
	}

	wanted = palloc0(Max(1, natts) * sizeof(bool));
	walk = palloc0(sizeof(TupleWalk));
	walk->natts = natts;
	walk->steps = palloc0(WALK_MAX_STEPS * sizeof(WalkStep));
	walk->cols = palloc0(Max(1, natts) * sizeof(WalkColumn));
	for (int i = 0; i < n; i++)
		wanted[atts[i]] = true;
	for (int att = 0; att < natts; att++)
	{
		WalkColumn *col = &walk->cols[att];

		col->len = TupleDescAttr(desc, att)->attlen;
		col->align = att_align_nominal(1, TupleDescAttr(desc, att)->attalign) - 1;
		if (wanted[att])
			col->missing = missing_value(desc, att, &walk->missing_len);
		wanted[att] &= small;
	}
	walk->nsteps = make_steps(walk, wanted);
	pfree(wanted);
	return walk;
}

void
tuple_walk_free(TupleWalk *walk)
{
	for (int att = 0; att < walk->natts; att++)
	{
		if (walk->cols[att].missing != NULL)
			pfree(unconstify(char *, walk->cols[att].missing));
	}
	pfree(walk->steps);
	pfree(walk->cols);
	pfree(walk);
}

void
tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
				   const char **where)
{
	const char *p = (const char *) tuple + tuple->t_hoff;
	const char *end = (const char *) tuple + len;
	bool		hasnull = (tuple->t_infomask & HEAP_HASNULL) != 0;
	int			natts = Min(walk->natts, HeapTupleHeaderGetNatts(tuple));

	for (int att = 0; att < natts; att++)
	{
		const WalkColumn *col = &walk->cols[att];

		if (hasnull && att_isnull(att, tuple->t_bits))
		{
			where[att] = NULL;
			continue;
		}
		if (col->len > 0 || (p < end && !VARATT_NOT_PAD_BYTE(p)))
			p = (const char *) (((uintptr_t) p + col->align) & ~(uintptr_t) col->align);
		where[att] = p;
		if (p < end)
			p += walk_value_size(col, p);
		if (unlikely(p > end || where[att] == end))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg_internal("column %d lies outside its tuple", att + 1)));
	}
	for (int att = natts; att < walk->natts; att++)
		where[att] = walk->cols[att].missing;
}
