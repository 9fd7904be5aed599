/*
 * device_layout.h
 *	  Device layouts: keys that leave before all rows are known.
 *
 * A column gets the bits of its type, and a number for NULL if a NULL has been seen or
 * if that needs no further bit.
 *
 * device_layout_choose() is for rows of one process.  Columns whose normalized keys have
 * been exact so far are assumed to stay exact.  The key ends with the first column that is
 * not; then ties are resolved when the rows come back.  A row that breaks an assumption (a
 * NULL, an inexact normalized key, a string without the common prefix) does not fit the
 * layout, and ends the device's part of the sort.
 *
 * device_layout_for_any() is for rows of several processes.  Nothing is assumed: the key
 * ends with the first column whose kind may be inexact.
 *
 * device_layout_guess() is for keys without rows.  What holds for the rows so far is
 * assumed to hold for all: exactness, constant second words, prefixes.  If a later row
 * breaks an assumption (device_layout_holds()), the keys are sent again when all rows are
 * known.
 */
#ifndef GPUSORT_GPU_DEVICE_LAYOUT_H
#define GPUSORT_GPU_DEVICE_LAYOUT_H

#include "key/key.h"

typedef struct DeviceLayout
{
	KeyLayout	layout;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* ranges that the layout is for */
	int			prefix_len[KEY_MAX_COLUMNS];	/* of strings */
	int			key_width;		/* bits of a key in transit: 32, 64 or 128 */
} DeviceLayout;

/* False if the key is empty or longer than 128 bits.  key_width is at least least_width. */
extern bool device_layout_choose(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width);

/*
 * For rows of several processes, before the first row.  There is a number for NULL if
 * 128 bits have room for it.  Strings keep the key buffer's prefixes.  False if the key is
 * longer than 128 bits, or if a column is not the same in all processes
 * (KeyTraits.same_in_processes).
 */
extern bool device_layout_for_any(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width);

/* For keys without rows, when many rows are buffered.  False as device_layout_choose(). */
extern bool device_layout_guess(DeviceLayout *dl, const KeyBuffer *keybuf);

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

/* A value's number in the key; false if the value does not fit the layout. */
static inline bool
device_row_part(const DeviceLayout *dl, const KeyBufferColumn *col, int c, KeyMaker maker, Datum value,
				uint64 *part)
{
	bool		inexact = false;
	uint64		normkey = normkey_of_value(col, maker, value, &inexact);

	if (col->by_bytes && !device_row_prefix(dl, col, c, value, normkey))
		return false;
	*part = normkey - (uint64) dl->layout.cols[c].base;
	return likely((!inexact || dl->ranges[c].inexact) &&
				  normkey >= dl->ranges[c].min && normkey <= dl->ranges[c].max);
}

/* Key of one row; false if the row does not fit the layout. */
static inline bool
device_row_key(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
			   const Datum *values, const bool *isnull, Key128 *key)
{
	Key128		acc = 0;
	uint64		part;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];

		if (unlikely(isnull[col->att]))
		{
			if (!dl->ranges[c].has_null)
				return false;
			acc = (acc << lc->bits) | lc->null_value;
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &part))
			acc = (acc << lc->bits) | ((Key128) part + lc->add);
		else
			return false;
	}
	*key = acc;
	return true;
}

/* device_row_key() for keys of up to 64 bits. */
static inline bool
device_row_key64(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
				 const Datum *values, const bool *isnull, uint64 *key)
{
	uint64		acc = 0;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];
		uint64		v;

		if (unlikely(isnull[col->att]))
		{
			if (!dl->ranges[c].has_null)
				return false;
			v = (uint64) lc->null_value;
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &v))
			v += lc->add;
		else
			return false;
		/* if a column has 64 bits, no other column has any */
		acc = lc->bits == 64 ? v : (acc << lc->bits) | v;
	}
	*key = acc;
	return true;
}

#endif							/* GPUSORT_GPU_DEVICE_LAYOUT_H */
