/*
 * device_rows_parts.c
 *	  Record mode in parts: rows that are more than one job, or one device, has room for.
 *
 * Parts are made by arrival.  When a job can have no more room, it is asked for its sort and
 * rows go on to another: on whichever device has room for a part that is worth its while, so
 * that one device sorts while another is filled.  If none has, the oldest part becomes a run
 * on disk as soon as it is sorted, and its room is the next part's.  At the end the parts that
 * are still on devices are runs as those on disk are, read from there as the merge of runs
 * (sort/runs) needs them: so no more is written to disk than devices have no room for.
 *
 * Why by arrival and not by range, as keys go: rows are streamed, and what splits them evenly is
 * known of the first ones alone; a table in the order of its keys would fill one device after
 * the other and find no room.  The price is the merge, in the host, one row after the other.
 * Against that stand a sort on the CPU and, for each byte that it would write and read again,
 * disk; route/gpu_model.c weighs them.  Runs do not go back to a device to be merged:
 * bench/GPU-NOTES.md.
 *
 * Runs are in the order of arrival, and so are parts: those on disk came before those on
 * devices.  Equal rows stay in their order by that alone.
 *
 * On error: as in one part.  A part on disk is safe; one that is lost with a device takes the
 * sort with it, and the child is run again, on the CPU.
 */
#include "postgres.h"

#include "sort/device/rows/device_rows.h"

/* Room beyond what is expected, as that may be a bit off. */
#define PART_MARGIN			1.1

/* Jobs that a sort has open at once, for each device; others want slots, too. */
#define PARTS_AT_ONCE		4

/* A part has room for this much of the rows of the one before, or others make room first. */
#define PART_LEAST			0.25

/* ... and when that is not enough, less room is asked for. */
#define PART_LESS			0.9

/* The part that rows go to takes no more. */
static void
close_part(DeviceRowsSink *sink)
{
	DeviceRows *dev = sink->dev;

	sink->dev = NULL;
	if (dev == NULL)
		return;
	if (dev->rows == 0)
	{
		device_rows_end(dev);
		return;
	}
	dlist_push_tail(&sink->closed, &dev->part);
	sink->nclosed++;
	device_rows_ask(dev);
}

/* The oldest part becomes a run; false if it is lost. */
static bool
oldest_to_run(DeviceRowsSink *sink, Runs *runs)
{
	DeviceRows *dev = dlist_head_element(DeviceRows, part, &sink->closed);
	bool		lost;

	device_rows_to_run(dev, runs);
	lost = dev->lost;
	dlist_delete(&dev->part);
	sink->nclosed--;
	/* its room is wanted */
	device_rows_return(dev);
	return !lost;
}

/* A part for rows as those of another, without a job. */
static DeviceRows *
part_like(const DeviceRows *other)
{
	DeviceRows *dev = MemoryContextAllocZero(other->env->cxt, sizeof(DeviceRows));

	dev->env = other->env;
	dev->batch = other->batch;
	dev->spec = other->spec;
	dev->facts = other->facts;
	dev->decision = other->decision;
	dev->layout = other->layout;
	dev->expected = Max(other->expected - other->rows, 0);
	return dev;
}

/*
 * Opens the part's job for what is expected or, if that is unknown, for as many rows as the
 * part before had; of as much of that as there is room for.
 */
static bool
open_part(DeviceRows *dev, double rows_before, double row_bytes)
{
	double		rows = Max(dev->expected * PART_MARGIN, rows_before);
	DeviceState why;

	for (; rows >= rows_before * PART_LEAST; rows *= PART_LESS)
	{
		if (device_rows_open_job(dev, rows, row_bytes, &why))
			return true;
		if (why != DEVICE_STATE_FULL)
			return false;
	}
	return false;
}

SinkAnswer
device_rows_next_part(DeviceRowsSink *sink, Runs *runs)
{
	DeviceRows *full = sink->dev;
	double		rows = full->rows;
	double		row_bytes = rows == 0 ? 0 : (full->units << 3) / rows;
	SortReport *report = &full->env->report;
	DeviceRows *next;
	bool		opened;

	if (!full->full || rows == 0)
		return SINK_FULL;
	next = part_like(full);
	opened = sink->nclosed + 1 < PARTS_AT_ONCE * device_shared->ndevices &&
		open_part(next, rows, row_bytes);
	if (!opened && dlist_is_empty(&sink->closed) && device_rows_fit_memory(full, runs))
	{
		pfree(next);
		return SINK_FULL;
	}
	close_part(sink);
	while (!opened && !dlist_is_empty(&sink->closed))
	{
		if (!oldest_to_run(sink, runs))
		{
			pfree(next);
			return SINK_LOST;
		}
		opened = open_part(next, rows, row_bytes);
	}
	if (!opened)
	{
		pfree(next);
		return SINK_FULL;
	}
	sink->dev = next;
	report->parts += report->parts == 0 ? 2 : 1;
	return SINK_TAKEN;
}

SinkAnswer
device_rows_seal(DeviceRowsSink *sink, Runs *runs)
{
	if (sink->dev != NULL && dlist_is_empty(&sink->closed) &&
		device_rows_fit_memory(sink->dev, runs))
	{
		device_rows_to_memory(sink->dev);
		return sink->dev->lost ? SINK_LOST : SINK_TAKEN;
	}
	close_part(sink);
	while (!dlist_is_empty(&sink->closed))
	{
		if (!oldest_to_run(sink, runs))
			return SINK_LOST;
	}
	return SINK_TAKEN;
}

void
device_rows_merge(DeviceRowsSink *sink, Runs *runs)
{
	int			parts;

	if (runs->n == 0 && dlist_is_empty(&sink->closed))
		return;
	close_part(sink);
	parts = sink->nclosed;
	while (!dlist_is_empty(&sink->closed))
	{
		DeviceRows *dev = dlist_container(DeviceRows, part, dlist_pop_head_node(&sink->closed));

		dev->merged = parts;
		device_rows_stay(dev, runs);
	}
}

void
device_rows_parts_end(DeviceRowsSink *sink)
{
	while (!dlist_is_empty(&sink->closed))
		device_rows_end(dlist_container(DeviceRows, part, dlist_pop_head_node(&sink->closed)));
	if (sink->dev != NULL)
		device_rows_end(sink->dev);
	sink->dev = NULL;
}
