/*
 * device_layout.h
 *	  Keys that travel before all rows are known.
 *
 * A column then gets the bits of its type, and a place for NULL where one has been
 * seen or where it costs nothing.  (key/pack.h has the layout of known ranges.)
 *
 * Rows go by device_layout_choose().  Where all images so far are all of their values it is
 * hoped that they stay so.  Otherwise the key ends with the first column of which one is not, and
 * rows with equal keys are settled as they come back (sort/device/rows/settle.c).  What was
 * not reckoned with has no place, be it a NULL, an image that is not exact, or a string
 * without the prefix that all had: it ends the device's part of the sort.
 *
 * By device_layout_for_any() go rows of several processes, of which none is known.  Nothing is hoped of
 * them: the key ends with the first column whose images may be inexact.
 *
 * Keys alone go by device_layout_guess(), of any kind: of what has been seen it is guessed that
 * it stays so: that images are exact, second words all the same, and strings' prefix.  Where a
 * later row is otherwise (device_layout_holds()) they are sent again when all are known, which
 * costs the bus some milliseconds and nothing else.
 */
#ifndef GPUSORT_DEVICE_LAYOUT_H
#define GPUSORT_DEVICE_LAYOUT_H

#include "key/pack.h"
#include "key/type/strings.h"

typedef struct DeviceLayout
{
	KeyLayout	layout;
	KeyRange	ranges[STAGE_MAX_COLUMNS];	/* that it was made for */
	int			prefix_len[STAGE_MAX_COLUMNS];	/* of strings, likewise */
	int			key_width;		/* 32, 64, 128: in which it travels */
} DeviceLayout;

/* May rows of such columns go by device_layout_choose() at all?  Not if the first tells nothing. */
static inline bool
device_layout_possible(const Stage *stage)
{
	return stage->cols[0].kind != KEY_COMPARED;
}

/* Are a column's images the same whoever makes them, and do they tell much of the values? */
static inline bool
device_layout_shared(KeyKind kind)
{
	return key_exact(kind) || key_by_bytes(kind) || (kind >= KEY_NUMERIC && kind <= KEY_BITS);
}

/* False if 128 bits do not hold the key, or there is nothing in it.  least_width is a key_width. */
extern bool device_layout_choose(DeviceLayout *dl, const Stage *stage, int least_width);

/*
 * For rows of which none is known, also in other processes: there is a place for a NULL if 128
 * bits have room for that.  Strings' prefixes are what the stage has, and stay.  False, too, if a column of
 * the key is not one for several processes.
 */
extern bool device_layout_for_any(DeviceLayout *dl, const Stage *stage, int least_width);

/*
 * For keys alone, of rows of which many are staged.  False if 128 bits do not hold the key, or
 * there would be nothing in it; not exact if an image is not.
 */
extern bool device_layout_guess(DeviceLayout *dl, const Stage *stage);

/* Has every staged row a place in it, or is there one that was not reckoned with? */
extern bool device_layout_holds(const DeviceLayout *dl, const Stage *stage);

/*
 * Makes ranges, of rows that the stage's prefixes hold for, those of the layout's rows, too: the stage
 * may have shorter ones by now.
 */
extern void device_layout_unite_ranges(const DeviceLayout *dl, const Stage *stage, KeyRange *ranges);

/* The narrowest key_width for so many bits. */
static inline int
device_key_width(int total_bits)
{
	return total_bits <= 32 ? 32 : total_bits <= 64 ? 64 : 128;
}

/* Has a string a place behind its column's prefix? */
static inline bool
device_row_prefix(const DeviceLayout *dl, const StageColumn *col, int c, Datum value, uint64 image)
{
	if (unlikely(col->prefix.len != dl->prefix_len[c]))
		return false;
	/* images that one without the prefix gets; where it stays that is its place */
	return likely(image != 0 && image != PG_UINT64_MAX) || col->prefix.frozen ||
		string_has_prefix(col, value);
}

/* A value's part of the key, its image made by the writer; false if it has no place. */
static inline bool
device_row_part(const DeviceLayout *dl, const StageColumn *col, int c, KeyMaker maker, Datum value,
				uint64 *part)
{
	bool		inexact = false;
	uint64		image = key_image(col, maker, value, &inexact);

	if (col->by_bytes && !device_row_prefix(dl, col, c, value, image))
		return false;
	*part = image - (uint64) dl->layout.cols[c].base;
	return likely((!inexact || dl->ranges[c].inexact) &&
				  image >= dl->ranges[c].min && image <= dl->ranges[c].max);
}

/* One row's key; false if it has no place in the layout. */
static inline bool
device_row_key(const DeviceLayout *dl, const Stage *stage, const StageWriter *writer,
			   const Datum *values, const bool *isnull, Key128 *key)
{
	Key128		acc = 0;
	uint64		part;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
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

/* The same where 64 bits hold the key. */
static inline bool
device_row_key64(const DeviceLayout *dl, const Stage *stage, const StageWriter *writer,
				 const Datum *values, const bool *isnull, uint64 *key)
{
	uint64		acc = 0;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
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
		/* a column of 64 bits is the only one with any */
		acc = lc->bits == 64 ? v : (acc << lc->bits) | v;
	}
	*key = acc;
	return true;
}

/* The i-th of an array of keys. */
static inline Key128
device_key_at(const char *keys, int width, size_t i)
{
	if (width == 32)
		return ((const uint32 *) keys)[i];
	if (width == 64)
		return ((const uint64 *) keys)[i];
	return ((const Key128 *) keys)[i];
}

#endif							/* GPUSORT_DEVICE_LAYOUT_H */
