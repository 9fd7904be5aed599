/*
 * row_pick.h
 *	  Rows made of some columns of heap tuples, in any order.
 *
 * Byte for byte the row that a slot with these values would be stored as.  It is
 * made of pieces: columns that follow each other in the tuple as in the row, and
 * would be padded alike in both, are one piece and are copied at once.  Which they
 * are is known beforehand as long as varlenas are in the short format and nothing is
 * NULL; other tuples go column by column.
 */
#ifndef GPUSORT_ROW_PICK_H
#define GPUSORT_ROW_PICK_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "store/copy.h"
#include "store/tuple_walk.h"

typedef struct PickPiece
{
	uint16		step;			/* begins in this step, */
	uint16		last;			/* ends in that one, */
	int32		from;			/* so far behind its begin, */
	int32		until;			/* and so far before its end */
	int32		len;			/* if known beforehand; 0: not */
	uint8		align;			/* in the row, less one */
} PickPiece;

typedef struct PickColumn
{
	AttrNumber	att;			/* in the tuple, from 0 */
	bool		packable;		/* goes into the short format if it fits */
} PickColumn;

typedef struct RowPick
{
	TupleWalk  *walk;
	int			npieces;
	int			ncols;
	int			times;			/* that any one column is taken at most */
	Size		extra;			/* bytes of a row beyond so many times its tuple's data */
	PickPiece  *pieces;
	PickColumn *cols;
	char		header[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(8);
} RowPick;

/*
 * Rows of rowdesc whose i-th column is column atts[i] (from 0) of tuples of desc; NULL
 * if they cannot be made so.  In the current memory context.
 */
extern RowPick *row_pick_create(TupleDesc desc, TupleDesc rowdesc, const AttrNumber *atts);

extern void row_pick_free(RowPick *pick);

/* row_pick() of a tuple with NULLs, long varlenas, or columns that came later. */
extern Size row_pick_by_column(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len,
							   char *row);

/* Room for the row of a tuple of len bytes: at least what row_pick() will write. */
static inline Size
row_pick_room(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len)
{
	return MAXALIGN((len - tuple->t_hoff) * pick->times + pick->extra);
}

/* Writes the row of a tuple of len bytes; returns how many it takes, MAXALIGN'ed. */
static inline Size
row_pick(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len, char *row)
{
	WalkAt		at[WALK_MAX_STEPS];
	char	   *to = row + sizeof(pick->header);

	if (unlikely(!tuple_walk(pick->walk, tuple, len, at)))
		return row_pick_by_column(pick, tuple, len, row);
	memcpy(row, pick->header, sizeof(pick->header));
	for (int i = 0; i < pick->npieces; i++)
	{
		const PickPiece *piece = &pick->pieces[i];
		const char *from = at[piece->step].begin + piece->from;

		if (piece->align != 0)
			to = copy_align(to, piece->align);
		if (piece->len == 8)
			memcpy(to, from, 8);
		else if (piece->len == 4)
			memcpy(to, from, 4);
		else if (piece->len != 0)
			copy_bytes(to, from, piece->len);
		else
		{
			Size		size = at[piece->last].end - piece->until - from;

			copy_bytes(to, from, size);
			to += size;
		}
		to += piece->len;
	}
	((MinimalTuple) row)->t_len = to - row;
	return copy_align(to, MAXIMUM_ALIGNOF - 1) - row;
}

#endif							/* GPUSORT_ROW_PICK_H */
