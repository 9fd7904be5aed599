/*
 * group_column.h
 *	  Columns that divide ordered rows into groups.
 */
#ifndef GPUSORT_NODES_BASE_GROUP_COLUMN_H
#define GPUSORT_NODES_BASE_GROUP_COLUMN_H

#include "postgres.h"

#include "fmgr.h"
#include "key/key.h"
#include "nodes/execnodes.h"

/* A column of the child's rows, with the value of an earlier row. */
typedef struct GroupColumn
{
	AttrNumber	attno;			/* column of the child, from 1 */
	int16		typlen;
	bool		typbyval;
	bool		bytes_decide;	/* values with different bytes are not equal */
	uint64		bits;			/* mask of a value's bits, if it is passed by value */
	Oid			collation;
	FmgrInfo	equal;			/* the equality function */
	bool		isnull;			/* the kept value is NULL */
	Datum		value;			/* kept value; in copy if passed by reference */
	char	   *copy;
	Size		room;			/* bytes allocated for copy */
} GroupColumn;

/* The columns by which a node divides its child's rows into groups. */
typedef struct GroupColumns
{
	MemoryContext cxt;			/* memory of kept values */
	MemoryContext scratch;		/* of comparisons, which reset it */
	TupleDesc	desc;			/* of the child's rows */
	AttrNumber	last_attno;		/* greatest column number */
	int			n;
	GroupColumn columns[FLEXIBLE_ARRAY_MEMBER];
} GroupColumns;

/* Prepares up to this number of columns, in the current memory context; comparisons use the node's ExprContext. */
extern GroupColumns *group_columns_create(const CustomScanState *css, int most);

/* Adds a column, or those of sort keys. */
extern void group_columns_add(GroupColumns *columns, AttrNumber attno, Oid equality, Oid collation);
extern void group_columns_add_keys(GroupColumns *columns, const KeyColumn *keys, int nkeys);

/* Makes a column for values that are kept, and not compared. */
extern void group_column_init(GroupColumn *column, TupleDesc desc, AttrNumber attno);

/* Is the value equal to the kept one of this column?  Neither is NULL. */
extern bool group_column_compare(GroupColumns *columns, int i, Datum value);

/* Copies a value, which is not NULL. */
extern void group_column_keep_by_reference(GroupColumn *column, Datum value, MemoryContext cxt);

#endif							/* GPUSORT_NODES_BASE_GROUP_COLUMN_H */
