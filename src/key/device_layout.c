/*
 * device_layout.c
 *	  Keys that travel before all rows are known.
 */
#include "postgres.h"

#include "key/device_layout.h"

/* All that a column's type can hold. */
static void
type_range(const StageColumn *col, KeyRange *range)
{
	range->min = 0;
	range->max = col->wide ? PG_UINT64_MAX : PG_UINT32_MAX;
	range->has_null = col->range.has_null;
	range->inexact = !key_exact(col->kind);
}

bool
device_layout_choose(DeviceLayout *dl, const Stage *stage, int least_width)
{
	for (int c = 0; c < stage->ncols; c++)
		type_range(&stage->cols[c], &dl->ranges[c]);
	key_layout(&dl->layout, stage, dl->ranges);
	if (!dl->layout.exact)
		return false;

	/* a bit for NULL where it costs nothing */
	dl->key_width = Max(least_width, device_key_width(dl->layout.total_bits));
	for (int c = 0; c < stage->ncols; c++)
	{
		if (!dl->ranges[c].has_null && dl->layout.total_bits < dl->key_width)
		{
			dl->ranges[c].has_null = true;
			key_layout(&dl->layout, stage, dl->ranges);
		}
	}
	Assert(dl->layout.total_bits <= dl->key_width);
	return true;
}

bool
device_layout_for_any(DeviceLayout *dl, const Stage *stage, int least_width)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		type_range(&stage->cols[c], &dl->ranges[c]);
		dl->ranges[c].has_null = true;
	}
	key_layout(&dl->layout, stage, dl->ranges);
	if (!dl->layout.exact)
		return device_layout_choose(dl, stage, least_width);
	dl->key_width = Max(least_width, device_key_width(dl->layout.total_bits));
	return true;
}

bool
device_layout_holds(const DeviceLayout *dl, const Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		if (stage->cols[c].range.has_null && !dl->ranges[c].has_null)
			return false;
	}
	return true;
}
