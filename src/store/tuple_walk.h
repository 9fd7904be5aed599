/*
 * tuple_walk.h
 *	  Walk: finds the columns of a heap tuple.
 *
 * A walk is prepared once for the wanted columns of a table.  A step of it is a
 * varlena, or several adjacent columns of fixed width.  A tuple that has all columns
 * up to the last wanted one, and no NULL among them, takes these steps without tests
 * per column.  Other tuples are walked column by column.
 */
#ifndef GPUSORT_STORE_TUPLE_WALK_H
#define GPUSORT_STORE_TUPLE_WALK_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"

/* A walk that needs more steps goes column by column. */
#define WALK_MAX_STEPS	64

typedef struct WalkStep
{
	/* bytes of columns of fixed width; 0: a varlena */
	int32		len;
	uint8		align;			/* alignment less one */
	bool		small;			/* the varlena must have the short format */
} WalkStep;

/* Begin and end of a step in a tuple. */
typedef struct WalkAt
{
	const char *begin;
	const char *end;
} WalkAt;

typedef struct WalkColumn
{
	int16		len;			/* -1: a varlena */
	uint8		align;			/* alignment less one */
	uint16		step;			/* the step that has the column */
	int32		offset;			/* offset in the step */
	const char *missing;		/* value in older tuples; NULL: SQL NULL */
} WalkColumn;

typedef struct TupleWalk
{
	int			natts;			/* columns up to the last wanted one */
	int			nsteps;			/* 0: walk column by column */
	Size		missing_len;	/* bytes of all missing values */
	WalkStep   *steps;
	WalkColumn *cols;
} TupleWalk;

/*
 * Creates a walk to the columns atts[] (from 0) of tuples of desc, in the current
 * memory context; NULL if a type is not supported.  If small, tuple_walk() accepts
 * only tuples that have the varlenas of these columns in the short format, which is
 * not aligned.
 */
extern TupleWalk *tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small);

extern void tuple_walk_free(TupleWalk *walk);

/*
 * Finds the columns of any tuple: where[] gets their addresses, NULL for an SQL NULL.
 * Raises an error if a column lies outside the tuple.
 */
extern void tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
							   const char **where);

#endif							/* GPUSORT_STORE_TUPLE_WALK_H */
