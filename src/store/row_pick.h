/*
 * row_pick.h
 *	  Row pick: forms MinimalTuples from some columns of heap tuples.
 *
 * The columns may come in any order.  Writes the bytes that a slot with these values
 * would be stored as.  Columns that are adjacent in the tuple and in the row, with
 * the same padding, form one piece and are copied at once.  The pieces are known in
 * advance for tuples whose varlenas are short and that have no NULL; other tuples are
 * copied column by column.
 */
#ifndef GPUSORT_STORE_ROW_PICK_H
#define GPUSORT_STORE_ROW_PICK_H

#include "postgres.h"

#include "store/tuple_walk.h"

typedef struct PickPiece
{
	uint16		step;			/* step in which the piece begins */
	uint16		last;			/* step in which the piece ends */
	int32		from;			/* bytes from the begin of the first step */
	int32		until;			/* bytes to the end of the last step */
	int32		len;			/* length if known in advance; otherwise 0 */
	uint8		align;			/* alignment in the row, less one */
} PickPiece;

typedef struct PickColumn
{
	AttrNumber	att;			/* column of the tuple, from 0 */
	bool		packable;		/* may have the short format */
} PickColumn;

typedef struct RowPick
{
	TupleWalk  *walk;
	int			npieces;
	int			ncols;
	int			times;			/* how often a column is taken at most */

	/* a row is at most times * (data of its tuple) + extra bytes */
	Size		extra;
	PickPiece  *pieces;
	PickColumn *cols;
	char		header[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(8);
} RowPick;

/*
 * Creates a pick of rows of rowdesc, whose i-th column is column atts[i] (from 0) of
 * tuples of desc, in the current memory context; NULL if it is not possible.
 */
extern RowPick *row_pick_create(TupleDesc desc, TupleDesc rowdesc, const AttrNumber *atts);

extern void row_pick_free(RowPick *pick);

/* row_pick() for tuples with NULLs, long varlenas or missing columns. */
extern Size row_pick_by_column(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len,
							   char *row);

#endif							/* GPUSORT_STORE_ROW_PICK_H */
