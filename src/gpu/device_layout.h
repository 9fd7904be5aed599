/*
 * device_layout.h
 *	  Device layouts: keys of rows that leave before all rows are known.
 *
 * A column gets the bits of its type, and a number for NULL if a NULL has been seen or
 * if that needs no further bit.  What else is assumed depends on who sends the keys:
 *
 *	rows of one process		Columns whose normalized keys have been exact so far are
 *							assumed to stay exact.  The key ends with the first column
 *							that is not; then ties are resolved when the rows come back.
 *							A row that breaks an assumption (a NULL, an inexact
 *							normalized key, a string without the common prefix) does not
 *							fit the layout, and ends the device's part of the sort.
 *	rows of several processes	Nothing is assumed.  If 128 bits hold all columns, the key
 *							has all of them, and is exact if all values were exact.
 *							If a value was inexact, the columns behind the first
 *							column that may be inexact decide nothing: rows that are
 *							equal up to that column are ties, which are resolved.
 *							If 128 bits do not hold all columns, the key ends with the
 *							first column that may be inexact.
 */
#ifndef GPUSORT_GPU_DEVICE_LAYOUT_H
#define GPUSORT_GPU_DEVICE_LAYOUT_H

#include "key/key.h"

typedef struct DeviceLayout
{
	KeyLayout	layout;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* ranges that the layout is for */
	int			prefix_len[KEY_MAX_COLUMNS];	/* of strings */
	int			key_width;		/* bits of a key in transit: 64 or 128 */

	/*
	 * Of a key of all columns that is exact if all values are: the first
	 * column that may be inexact, and the bits behind it.  Otherwise
	 * KEY_MAX_COLUMNS and 0.
	 */
	int			loose_column;
	int			bits_behind;
} DeviceLayout;

/*
 * For the rows of one process, when some rows are buffered.  False if the key is empty or
 * longer than 128 bits.
 */
extern bool device_layout_choose(DeviceLayout *dl, const KeyBuffer *keybuf);

/*
 * For rows of several processes, before the first row.  There is a number for NULL if
 * 128 bits have room for it; if not, a NULL in the loose column or behind it has the least or
 * the greatest number, and is inexact.  Strings keep the key buffer's prefixes.  False as
 * device_layout_choose(), or if a column is not the same in all processes
 * (KeyTraits.same_in_processes).
 */
extern bool device_layout_for_any(DeviceLayout *dl, const KeyBuffer *keybuf);

/* Do all buffered rows fit the layout? */
extern bool device_layout_holds(const DeviceLayout *dl, const KeyBuffer *keybuf);

/*
 * Widens ranges[] by the layout's ranges.  ranges[] are relative to the key buffer's
 * current prefixes, which may be shorter than the layout's.
 */
extern void device_layout_unite_ranges(const DeviceLayout *dl, const KeyBuffer *keybuf, KeyRange *ranges);

/* Is the string's normalized key relative to the prefix that the layout is for? */
static inline bool
device_row_prefix(const DeviceLayout *dl, const KeyBufferColumn *col, int c, Datum value, uint64 normkey)
{
	if (unlikely(col->prefix.len != dl->prefix_len[c]))
		return false;

	/* the least and the greatest key may be of a string without the prefix */
	return likely(normkey != 0 && normkey != PG_UINT64_MAX) || col->prefix.frozen ||
		string_has_prefix(col, value);
}

/* A value's number in the key; false if the value does not fit the layout.  Sets *seen_inexact if it is inexact. */
static inline bool
device_row_part(const DeviceLayout *dl, const KeyBufferColumn *col, int c, KeyMaker maker, Datum value,
				uint64 *part, bool *seen_inexact)
{
	bool		inexact = false;
	uint64		normkey = normkey_of_value(col, maker, value, &inexact);

	if (col->by_bytes && !device_row_prefix(dl, col, c, value, normkey))
		return false;
	*part = normkey - (uint64) dl->layout.cols[c].base;
	*seen_inexact |= inexact;
	return likely((!inexact || dl->ranges[c].inexact) &&
				  normkey >= dl->ranges[c].min && normkey <= dl->ranges[c].max);
}

/*
 * Key of one row of this width, a constant; false if the row does not fit the layout.  Sets
 * *inexact if a value is.
 */
static pg_attribute_always_inline bool
device_row_key(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
			   const Datum *values, const bool *isnull, int width, Key128 *key, bool *inexact)
{
	Key128		acc = 0;
	uint64		acc64 = 0;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];
		uint64		part;
		Key128		v;

		if (unlikely(isnull[col->att]))
		{
			if (dl->ranges[c].has_null)
				v = lc->null_value;
			else if (c < dl->loose_column)
				return false;
			else
			{
				v = col->nulls_first ? 0 : (((Key128) 1) << lc->bits) - 1;
				*inexact = true;
			}
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &part, inexact))
			v = (Key128) part + lc->add;
		else
			return false;
		/* if a column has 64 bits, a key of 64 bits has no other */
		if (width == 64)
			acc64 = lc->bits == 64 ? (uint64) v : (acc64 << lc->bits) | (uint64) v;
		else
			acc = (acc << lc->bits) | v;
	}
	*key = width == 64 ? acc64 : acc;
	return true;
}

#endif							/* GPUSORT_GPU_DEVICE_LAYOUT_H */
