/*
 * row_pick_inline.h
 *	  Forms rows from columns of tuples, for loops over rows.
 */
#ifndef GPUSORT_STORE_ROW_PICK_INLINE_H
#define GPUSORT_STORE_ROW_PICK_INLINE_H

#include "postgres.h"

#include "store/row_copy.h"
#include "store/row_pick.h"
#include "store/tuple_walk_inline.h"

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

#endif							/* GPUSORT_STORE_ROW_PICK_INLINE_H */
