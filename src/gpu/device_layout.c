/*
 * device_layout.c
 *	  Layouts of keys that leave for a device before all rows are known; see
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
	range->inexact = !key_traits[col->kind].exact;
	range->set = PG_UINT64_MAX;
	range->common = 0;
}

/* Sets the key width, and adds numbers for NULL unless that needs a wider key. */
static void
add_null_bits(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width)
{
	dl->key_width = Max(least_width, device_key_width(dl->layout.total_bits));
	for (int c = 0; c < dl->layout.ncols; c++)
	{
		if (!dl->ranges[c].has_null && dl->layout.total_bits < dl->key_width)
		{
			dl->ranges[c].has_null = true;
			key_layout(&dl->layout, keybuf, dl->ranges);
		}
	}
	Assert(dl->layout.total_bits <= dl->key_width);
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

bool
device_layout_choose(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		dl->prefix_len[c] = col->prefix.len;
		if (key_traits[col->kind].exact)
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
	key_layout(&dl->layout, keybuf, dl->ranges);
	if (dl->layout.total_bits == 0 || dl->layout.total_bits > 128)
		return false;

	add_null_bits(dl, keybuf, least_width);
	return true;
}

/* Sets the layout of the columns' types, with or without numbers for NULLs. */
static bool
layout_of_types(DeviceLayout *dl, const KeyBuffer *keybuf, bool nulls)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		type_range(&keybuf->cols[c], &dl->ranges[c]);
		dl->ranges[c].has_null = nulls;
		dl->prefix_len[c] = keybuf->cols[c].prefix.len;
	}
	key_layout(&dl->layout, keybuf, dl->ranges);
	return dl->layout.total_bits <= 128;
}

bool
device_layout_for_any(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width)
{
	if (!layout_of_types(dl, keybuf, true) && !layout_of_types(dl, keybuf, false))
		return false;
	for (int c = 0; c < dl->layout.ncols; c++)
	{
		if (!key_traits[keybuf->cols[c].kind].same_in_processes)
			return false;
	}
	add_null_bits(dl, keybuf, least_width);
	return true;
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
device_layout_guess(DeviceLayout *dl, const KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		assumed_range(col, &dl->ranges[c]);
		dl->prefix_len[c] = col->prefix.len;
	}
	key_layout(&dl->layout, keybuf, dl->ranges);
	/* a key of more than 128 bits may become shorter when all rows are known */
	if (dl->layout.total_bits == 0 || dl->layout.total_bits > 128)
		return false;
	add_null_bits(dl, keybuf, 32);
	return true;
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
