/*
 * tuple_read.h
 *	  Reads columns of tuples, and forms rows from them, for loops over rows.
 */
#ifndef GPUSORT_STORE_TUPLE_READ_H
#define GPUSORT_STORE_TUPLE_READ_H

#include "postgres.h"

#include "store/row_copy.h"
#include "store/tuple.h"

/*
 * Stores the columns of a tuple of len bytes.  Values passed by reference stay in the tuple.
 * Raises an error if a column lies outside the tuple.
 */
static pg_attribute_always_inline void
column_reader_read(const ColumnReader *reader, const HeapTupleHeaderData *tuple, Size len)
{
	WalkAt		at[WALK_MAX_STEPS];

	if (unlikely(!tuple_walk(reader->walk, tuple, len, at)))
	{
		column_reader_read_slowly(reader, tuple, len);
		return;
	}
	for (int i = 0; i < reader->n; i++)
	{
		const ReaderColumn *column = &reader->columns[i];

		*column->value = datum_at(at[column->step].begin + column->offset, column->byval_len);
		*column->isnull = false;
	}
}

/* Upper bound of the bytes that row_pick() writes for a tuple of len bytes. */
static inline Size
row_pick_room(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len)
{
	return MAXALIGN((len - tuple->t_hoff) * pick->times + pick->extra);
}

/* Writes the row of a tuple of len bytes; returns its MAXALIGN'ed size. */
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

#endif							/* GPUSORT_STORE_TUPLE_READ_H */
