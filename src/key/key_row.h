/*
 * key_row.h
 *	  Writes the keys of a row to a key buffer, for loops over rows.
 */
#ifndef GPUSORT_KEY_KEY_ROW_H
#define GPUSORT_KEY_KEY_ROW_H

#include "postgres.h"

#include "key/key_buffer.h"

/* Counts n rows that have been written. */
static inline void
keybuf_count(KeyBuffer *keybuf, size_t n)
{
	keybuf->n += n;
	if (unlikely(keybuf->input_order.possible != 0) && keybuf->n - keybuf->input_order.seen >= INPUT_ORDER_ROWS)
		input_order_check(keybuf);
}

/* Writes a value that is not NULL for row i. */
static inline void
keybuf_value(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value)
{
	uint64		normkey;

	if (col->computed)
		normkey = keybuf_computed(keybuf, maker, col, i, value);
	else
		normkey = normkey_of_value(col, NO_KEY_MAKER, value, NULL);
	key_range_add(&col->range, normkey);
	keybuf_store(col, i, normkey);
}

/* Appends one row.  The key buffer has room for it. */
static inline void
keybuf_row(KeyBuffer *keybuf, const KeyWriter *writer, const Datum *values, const bool *isnull, uint32 rid)
{
	size_t		i = keybuf->n;

	Assert(i < keybuf->capacity);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyBufferColumn *col = &keybuf->cols[c];

		if (unlikely(isnull[col->att]))
			keybuf_null(keybuf, writer->owner, col, i);
		else
			keybuf_value(keybuf, writer->makers[c], col, i, values[col->att]);
	}
	if (keybuf->rids != NULL)
		keybuf->rids[i] = rid;
	keybuf_count(keybuf, 1);
}

#endif							/* GPUSORT_KEY_KEY_ROW_H */
