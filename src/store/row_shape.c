/*
 * row_shape.c
 *	  Rows made of some fixed-width columns of heap tuples.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "store/row_shape.h"

/* Longer rows gain little, and their places fit 16 bits. */
#define ROW_SHAPE_MAX_LEN	1024

/* Where a fixed-width column begins that comes after end bytes. */
static int
column_start(TupleDesc desc, int att, int end)
{
	return att_align_nominal(end, TupleDescAttr(desc, att)->attalign);
}

RowShape *
row_shape_create(TupleDesc desc, const AttrNumber *atts, int ncols)
{
	RowShape   *shape;
	MinimalTuple header;
	int			last_att = 0;
	int			from = 0;
	int			to = 0;

	for (int i = 0; i < ncols; i++)
		last_att = Max(last_att, atts[i] + 1);
	for (int att = 0; att < last_att; att++)
	{
		if (TupleDescAttr(desc, att)->attlen <= 0)
			return NULL;
	}

	shape = palloc0(offsetof(RowShape, cols) + Max(1, ncols) * sizeof(ShapeColumn));
	shape->last_att = last_att;
	shape->ncols = ncols;
	for (int i = 0; i < ncols; i++)
	{
		ShapeColumn *col = &shape->cols[i];

		to = column_start(desc, atts[i], to);
		col->to = sizeof(shape->header) + to;
		col->len = TupleDescAttr(desc, atts[i])->attlen;
		to += col->len;
		if (to > ROW_SHAPE_MAX_LEN)
			break;
	}
	for (int att = 0; att < last_att && from <= ROW_SHAPE_MAX_LEN; att++)
	{
		from = column_start(desc, att, from);
		for (int i = 0; i < ncols; i++)
		{
			if (atts[i] == att)
				shape->cols[i].from = from;
		}
		from += TupleDescAttr(desc, att)->attlen;
	}
	if (from > ROW_SHAPE_MAX_LEN || to > ROW_SHAPE_MAX_LEN)
	{
		pfree(shape);
		return NULL;
	}

	shape->len = sizeof(shape->header) + to;
	header = (MinimalTuple) shape->header;
	header->t_len = shape->len;
	HeapTupleHeaderSetNatts(header, ncols);
	header->t_hoff = sizeof(shape->header) + MINIMAL_TUPLE_OFFSET;
	return shape;
}
