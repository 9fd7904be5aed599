/*
 * device_layout.c
 *	  Layouts of the keys of rows that leave for a device before all rows are known; see
 *	  device_layout.h.
 */
#include "postgres.h"

#include "gpu/device_layout.h"
#include "key/key.h"
#include "service/service.h"

/* Sets *range to that of the column's type. */
static void
type_range(const KeyBufferColumn *col, KeyRange *range)
{
	range->min = 0;
	range->max = col->wide ? PG_UINT64_MAX : PG_UINT32_MAX;
	/* excludes key_unplaced() */
	if (key_traits[col->kind].may_be_unplaced)
	{
		range->min += (col->flip != 0);
		range->max -= (col->flip == 0);
	}
	range->has_null = col->range.has_null;
	range->inexact = key_traits[col->kind].computed;
	range->set = PG_UINT64_MAX;
	range->common = 0;
}

/* The same, but the column is assumed to stay exact, and a constant word to stay constant. */
static void
assumed_range(const KeyBufferColumn *col, KeyRange *range)
{
	type_range(col, range);
	range->inexact = col->range.inexact;
	/* a constant word, such as the second word of numerics with four decimals */
	if ((key_traits[col->kind].words == 0 || col->kind == KEY_COMPARED) && col->range.min == col->range.max)
		range->min = range->max = col->range.min;
}

/*
 * Lays out the keys for the ranges, with a key width, and adds numbers for NULL unless that
 * needs a wider key.  False if the key is empty or longer than 128 bits.
 */
static bool
layout_ranges(DeviceLayout *dl, const KeyBuffer *keybuf)
{
	dl->loose_column = KEY_MAX_COLUMNS;
	dl->bits_behind = 0;
	for (int c = 0; c < keybuf->ncols; c++)
		dl->prefix_len[c] = keybuf->cols[c].prefix.len;
	key_layout(&dl->layout, keybuf, dl->ranges);
	if (dl->layout.total_bits == 0 || dl->layout.total_bits > 128)
		return false;
	dl->key_width = Max(64, device_key_width(dl->layout.total_bits));
	for (int c = 0; c < dl->layout.ncols; c++)
	{
		if (!dl->ranges[c].has_null && dl->layout.total_bits < dl->key_width)
		{
			dl->ranges[c].has_null = true;
			key_layout(&dl->layout, keybuf, dl->ranges);
		}
	}
	Assert(dl->layout.total_bits <= dl->key_width);
	return true;
}

bool
device_layout_choose(DeviceLayout *dl, const KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		if (!key_traits[col->kind].computed)
			type_range(col, &dl->ranges[c]);
		else if (!col->by_bytes || col->range.min <= col->range.max)
			assumed_range(col, &dl->ranges[c]);
		else
		{
			/* without a string there is no prefix */
			key_range_init(&dl->ranges[c]);
			dl->ranges[c].has_null = col->range.has_null;
		}
	}
	return layout_ranges(dl, keybuf);
}

/*
 * A layout for all values of the columns' types, with numbers for NULL or without: of all
 * columns, or of those up to the first one that may be inexact.  The sort begins again without
 * the device at a NULL that is neither a number nor inexact.
 */
static bool
layout_types(DeviceLayout *dl, const KeyBuffer *keybuf, bool all_columns, bool nulls)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		type_range(&keybuf->cols[c], &dl->ranges[c]);
		dl->ranges[c].has_null = nulls;
		dl->ranges[c].inexact &= !all_columns;
	}
	if (!layout_ranges(dl, keybuf) || (all_columns && !dl->layout.exact))
		return false;
	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyTraits *traits = &key_traits[keybuf->cols[c].kind];

		if (!traits->same_in_processes)
			return false;
		if (!all_columns)
			continue;
		dl->ranges[c].inexact = traits->computed;
		if (dl->loose_column < c)
			dl->bits_behind += dl->layout.cols[c].bits;
		else if (traits->computed)
			dl->loose_column = c;
	}
	/* not before all values have been seen */
	dl->layout.exact &= dl->loose_column == KEY_MAX_COLUMNS;
	/* a NULL before the loose column would need a number; a shorter key may have room for it */
	return nulls || dl->layout.exact || dl->loose_column == 0 || !all_columns;
}

bool
device_layout_for_any(DeviceLayout *dl, const KeyBuffer *keybuf)
{
	return layout_types(dl, keybuf, true, true) || layout_types(dl, keybuf, true, false) ||
		layout_types(dl, keybuf, false, true) || layout_types(dl, keybuf, false, false);
}

void
device_layout_unite_ranges(const DeviceLayout *dl, const KeyBuffer *keybuf, KeyRange *ranges)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		KeyRange	range = dl->ranges[c];

		if (col->by_bytes)
		{
			string_shift_range(col, dl->prefix_len[c], col->prefix.len, &range);
			string_shift_range(col, ranges[c].skip, col->prefix.len, &ranges[c]);
		}
		key_range_union(&ranges[c], &range);
		ranges[c].skip = col->prefix.len;
	}
}

bool
device_layout_holds(const DeviceLayout *dl, const KeyBuffer *keybuf)
{
	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const KeyRange *range = &dl->ranges[c];

		if ((col->range.has_null && !range->has_null) || (col->range.inexact && !range->inexact))
			return false;
		if (col->range.min <= col->range.max &&
			(col->range.min < range->min || col->range.max > range->max))
			return false;
		if (col->by_bytes && col->prefix.len != dl->prefix_len[c])
			return false;
	}
	return true;
}
