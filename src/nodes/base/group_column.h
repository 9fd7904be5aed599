/*
 * group_column.h
 *	  Columns that divide ordered rows into groups.
 */
#ifndef GPUSORT_NODES_BASE_GROUP_COLUMN_H
#define GPUSORT_NODES_BASE_GROUP_COLUMN_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "fmgr.h"

/* A column, with the value of an earlier row. */
typedef struct GroupColumn
{
	AttrNumber	attno;			/* column of the child, from 1 */
	int16		typlen;
	bool		typbyval;
	bool		bytes_decide;	/* values with different bytes are not equal */
	Oid			collation;
	FmgrInfo	equal;			/* the equality function */
	bool		isnull;			/* the kept value is NULL */
	Datum		value;			/* kept value; in copy if passed by reference */
	char	   *copy;
	Size		room;			/* bytes allocated for copy */
} GroupColumn;

extern void group_column_init(GroupColumn *column, AttrNumber attno, Oid equality, Oid collation,
							  TupleDesc desc);

/* Is the value equal to the kept one?  Neither is NULL.  Resets scratch if it is used. */
extern bool group_column_compare(GroupColumn *column, Datum value, MemoryContext scratch);

/* Copies a value, which is not NULL, to memory in cxt. */
extern void group_column_keep_by_reference(GroupColumn *column, Datum value, MemoryContext cxt);

#endif							/* GPUSORT_NODES_BASE_GROUP_COLUMN_H */
