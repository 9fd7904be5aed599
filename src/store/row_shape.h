/*
 * row_shape.h
 *	  Rows made of some fixed-width columns of heap tuples.
 *
 * Where a scan gives out only some of its table's columns, and these and all
 * before them are of fixed width, each lies at the same place in every tuple
 * without NULLs, and goes to the same place in every row: making the row is
 * copying its columns, with nothing deformed and nothing computed.
 */
#ifndef GPUSORT_ROW_SHAPE_H
#define GPUSORT_ROW_SHAPE_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"

typedef struct ShapeColumn
{
	uint16		from;			/* in the tuple's data */
	uint16		to;				/* in the row */
	uint16		len;
} ShapeColumn;

typedef struct RowShape
{
	int			last_att;		/* the tuple's columns that have to be there */
	int			ncols;
	Size		len;			/* of every row, as MinimalTuple */
	char		header[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(8);
	ShapeColumn cols[FLEXIBLE_ARRAY_MEMBER];
} RowShape;

/*
 * The shape of rows whose i-th column is column atts[i] (from 0) of tuples of
 * desc; NULL if they have none.  In the current memory context.
 */
extern RowShape *row_shape_create(TupleDesc desc, const AttrNumber *atts, int ncols);

/* Has this tuple what it takes? */
static inline bool
row_shape_fits(const RowShape *shape, const HeapTupleHeaderData *tuple)
{
	return (tuple->t_infomask & HEAP_HASNULL) == 0 &&
		HeapTupleHeaderGetNatts(tuple) >= shape->last_att;
}

/* Writes the row, MAXALIGN(shape->len) bytes, of a tuple with these data. */
static inline void
row_shape_write(const RowShape *shape, const char *data, char *row)
{
	/* what pads the columns must be zero, as heap_fill_tuple() would have it */
	memset(row, 0, MAXALIGN(shape->len));
	memcpy(row, shape->header, sizeof(shape->header));
	for (int i = 0; i < shape->ncols; i++)
	{
		const ShapeColumn *col = &shape->cols[i];

		if (col->len == 8)
			memcpy(row + col->to, data + col->from, 8);
		else if (col->len == 4)
			memcpy(row + col->to, data + col->from, 4);
		else
			memcpy(row + col->to, data + col->from, col->len);
	}
}

#endif							/* GPUSORT_ROW_SHAPE_H */
