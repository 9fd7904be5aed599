/*
 * device_rows.c
 *	  Record mode's job: its chunks on their way up, and the room it has on the device.
 *
 * The job's memory grows with what comes (device_job_grow): an estimate may be far off,
 * and others need the device, too.
 */
#include "postgres.h"

#include "sort/device/rows/settle.h"

void
device_rows_lost(DeviceRows *dev)
{
	if (!dev->lost)
	{
		/* of several backends' rows the owner of the job notes it */
		if (!dev->feeds)
			device_note_failure(dev->env, dev->decision.algorithm, dev->job->why);
		dev->lost = true;
	}
}

/* The next chunk to fill; false if the job is lost. */
static bool
next_chunk(DeviceRows *dev)
{
	dev->chunk = device_job_next_up(dev->job);
	if (dev->chunk == NULL)
		return false;
	dev->chunk_rows = 0;
	dev->base = dev->feeds ? dev->units : 0;
	dev->next = dev->chunk + dev->rows_at;
	dev->end = dev->chunk + device_shared->chunk_size;
	return true;
}

void
device_rows_post(DeviceRows *dev)
{
	DeviceChunkDesc desc;

	if (dev->chunk == NULL || dev->chunk_rows == 0)
		return;
	desc.rows = dev->chunk_rows;
	desc.words_at = dev->words_at;
	desc.rows_at = dev->rows_at;
	desc.row_bytes = (uint32) (dev->next - (dev->chunk + dev->rows_at));
	dev->chunk = NULL;
	device_job_post(dev->job, &desc);
}

SinkAnswer
device_rows_start_chunk(DeviceRows *dev, Size size)
{
	if (size > device_shared->chunk_size - dev->rows_at)
		return SINK_FULL;
	device_rows_post(dev);
	if (next_chunk(dev))
		return SINK_TAKEN;
	return SINK_LOST;
}

void
device_rows_ask(DeviceRows *dev)
{
	if (!dev->asked)
	{
		device_rows_post(dev);
		device_job_sort(dev->job);
	}
	dev->asked = true;
}

static void
show(DeviceRows *dev, uint64 bytes)
{
	ProgressCounters *now = dev->env->progress.now;

	now->device += bytes - dev->shown;
	dev->shown = bytes;
}

void
device_rows_show(DeviceRows *dev)
{
	dev->env->progress.now->algorithm = dev->decision.algorithm->id;
	show(dev, device_job_bytes(&dev->spec));
}

/* A size that many sorts share, so that the device's memory can be used again. */
static uint64
round_size(double size)
{
	uint64		step = UINT64CONST(1) << 16;

	while (step * 8 < size)
		step *= 2;
	return ((uint64) size + step - 1) / step * step;
}

/* Row places are 32-bit numbers of 8-byte units. */
void
device_rows_room_for(DeviceJobSpec *spec, double n, double row_bytes)
{
	const uint64 most_bytes = (UINT64CONST(8) << 32) - 8;

	/* a planner may expect more than can be counted */
	spec->max_rows = Min(round_size(Min(n, PG_UINT32_MAX)), PG_UINT32_MAX - 1);
	spec->max_row_bytes = Min(round_size(Min(n * row_bytes, most_bytes)), most_bytes);
}

/* ... which is no more than one run has anywhere. */
static void
room_for(const DeviceRows *dev, DeviceJobSpec *spec, double n, double row_bytes)
{
	device_rows_room_for(spec, n, row_bytes);
	spec->max_rows = Min(spec->max_rows, dev->batch->max_rows);
}

/* Rows to make room for when n have come. */
static double
rows_ahead(const DeviceRows *dev, double n, double row_bytes)
{
	double		ahead = n + Max(n, DEVICE_ROWS_STEP / row_bytes);

	return n < dev->expected ? Min(ahead, dev->expected * DEVICE_ROWS_MARGIN) : ahead;
}

SinkAnswer
device_rows_more_room(DeviceRows *dev, Size size)
{
	double		n = dev->rows + 1;
	double		row_bytes = ((dev->units << 3) + size) / n;
	double		ahead = rows_ahead(dev, n, row_bytes);

	dev->full = true;
	for (int i = 0; i < 2; i++)
	{
		DeviceJobSpec wanted = dev->spec;

		room_for(dev, &wanted, ahead, row_bytes);
		wanted.max_rows = Max(wanted.max_rows, dev->spec.max_rows);
		wanted.max_row_bytes = Max(wanted.max_row_bytes, dev->spec.max_row_bytes);
		if (wanted.max_rows < n || wanted.max_row_bytes < (dev->units << 3) + size)
			return SINK_FULL;
		if (device_job_grow(dev->job, &dev->spec, wanted.max_rows, wanted.max_row_bytes))
		{
			device_rows_show(dev);
			dev->full = false;
			return SINK_TAKEN;
		}
		if (dev->job->lost)
			return SINK_LOST;
		ahead = Min(ahead, n * DEVICE_ROWS_MARGIN);
	}
	return SINK_FULL;
}

void
device_rows_divide_chunk(DeviceRows *dev, double row_bytes)
{
	dev->max_chunk_rows = (uint32) ((device_shared->chunk_size - 2 * DEVICE_PART_ALIGN) /
									(row_bytes + dev->spec.key_width / 8 + sizeof(uint32)));
	dev->max_chunk_rows = Max(dev->max_chunk_rows, 1);
	dev->words_at = device_part(dev->max_chunk_rows * (dev->spec.key_width / 8));
	dev->rows_at = device_part(dev->words_at + dev->max_chunk_rows * sizeof(uint32));
}

bool
device_rows_open_job(DeviceRows *dev, double rows, double row_bytes, DeviceState *why)
{
	room_for(dev, &dev->spec, rows, row_bytes);
	*why = DEVICE_STATE_NONE;
	if (!job_secret_make(&dev->secret))
		return false;
	dev->job = device_job_open(dev->env->cxt, &dev->spec, device_job_bytes(&dev->spec),
							   DEVICE_JOB_CHUNKS, 0, why);
	if (dev->job == NULL)
		return false;
	device_rows_divide_chunk(dev, row_bytes);
	device_rows_show(dev);
	return true;
}

/*
 * Opens the job, for the rows that are here and some more or, if the device has no room
 * for so many, fewer; false if it has none.
 */
static bool
open_first(DeviceRows *dev)
{
	double		n = dev->batch->stage.n;
	double		row_bytes = (double) arena_used(&dev->batch->arena) / n;
	double		rows = rows_ahead(dev, n, row_bytes);
	DeviceState why;

	for (;;)
	{
		if (device_rows_open_job(dev, rows, row_bytes, &why))
			return true;
		if (why != DEVICE_STATE_FULL || rows < 3 * n)
			return false;
		rows /= 2;
	}
}

DeviceRows *
device_rows_open(SortEnv *env, Batch *batch)
{
	Stage	   *stage = &batch->stage;
	double		rows = device_rows_expected(env, stage);
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));

	dev->env = env;
	dev->batch = batch;
	/* 4-byte keys may as well take 8, and a place for NULL */
	if (device_layout_choose(&dev->layout, stage, 64) &&
		device_route_rows(env, batch, &dev->layout.layout, dev->layout.key_width, rows,
						  &dev->facts, &dev->decision))
	{
		dev->spec.mode = DEVICE_ROWS;
		device_route_job(&dev->facts, &dev->decision, &dev->spec);
		dev->expected = rows;
		if (open_first(dev))
			return dev;
	}
	pfree(dev);
	return NULL;
}

void
device_rows_return(DeviceRows *dev)
{
	settled_end(dev);
	device_job_return(dev->job);
	show(dev, 0);
	pfree(dev);
}

void
device_rows_end(DeviceRows *dev)
{
	settled_end(dev);
	device_job_close(dev->job);
	show(dev, 0);
	pfree(dev);
}
