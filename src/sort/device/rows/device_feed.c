/*
 * device_feed.c
 *	  Record mode of many workers: all send their rows into one job, the leader reads them.
 *
 * The leader of a parallel sort opens a job for as many rows as the planner expects, before
 * there are workers, and gives it more room if they are more.  A worker's rows go from
 * their pages into chunks of its own feeder (device/client/client.h), and are on the device when it has
 * read its share.  The device sorts them all and gathers them, and the leader gives
 * them out as they come, as of any sort in record mode: no row is merged, and none lies on
 * the host.
 *
 * The keys' layout is made before the first row: by the columns' types, with a place for
 * NULLs where 128 bits have room.  A row that has no place there, is longer than a chunk, or
 * finds no room on the device makes the whole sort begin again without it.
 *
 * Memory: the job's chunks and the feeders'.
 *
 * On error: the rows are lost with the device, and the plan below is run again
 * (node/parallel/parallel_sort.c), which has to be one that gives the same rows.  given_rows.h knows which of
 * them are not to be given again.  A backend that ends closes what it has opened; feeders
 * of a job that is closed are lost.
 */
#include "postgres.h"

#include "device/admission/admission.h"
#include "device/clock.h"
#include "miscadmin.h"
#include "sort/device/rows/device_feed.h"
#include "sort/device/rows/device_rows.h"

/* How long a worker waits for a feeder; there was room for it when the leader asked. */
#define FEEDER_PATIENCE_US		UINT64CONST(1000000)
#define FEEDER_LOOK_US			1000L

typedef struct FeedSink
{
	DeviceRowsSink base;
	DeviceFeed	feed;
} FeedSink;

/* ------------------------------------------------------------------------
 * The leader
 * ------------------------------------------------------------------------
 */
Sink *
device_feed_lead(SortEnv *env, Batch *batch, double rows, double row_bytes, int workers,
				 GivenRows *given, DeviceFeed *feed)
{
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));
	double		patience_us = gpusort_forced_algorithm() != NULL ? DEVICE_FORCED_PATIENCE_US : 0;
	DeviceState why;

	memset(feed, 0, sizeof(*feed));
	dev->env = env;
	dev->batch = batch;
	dev->given_rows = given;
	if (device_bring_back(patience_us) == DEVICE_STATE_READY &&
		device_layout_for_any(&dev->layout, &batch->stage, 64) &&
		device_route_feed(env, &batch->stage, &dev->layout.layout, dev->layout.key_width, rows,
						  &dev->facts, &dev->decision))
	{
		dev->spec.mode = DEVICE_ROWS;
		device_route_job(&dev->facts, &dev->decision, &dev->spec);
		device_rows_room_for(&dev->spec, rows * DEVICE_ROWS_MARGIN, row_bytes);
		dev->job = device_job_open(env->cxt, &dev->spec, device_job_bytes(&dev->spec),
								   DEVICE_JOB_CHUNKS, patience_us, &why);
		if (dev->job != NULL && !device_room_for_feeders(workers))
		{
			device_job_close(dev->job);
			dev->job = NULL;
		}
	}
	if (dev->job == NULL)
	{
		pfree(dev);
		return NULL;
	}
	device_rows_show(dev);
	feed->on = true;
	device_job_name(dev->job, &feed->job);
	feed->spec = dev->spec;
	feed->row_bytes = row_bytes;
	return sink_device_rows_create(env, batch, dev);
}

static void
lose(DeviceRows *dev, const char *why)
{
	device_job_lose(dev->job, why);
	device_rows_lost(dev);
}

bool
device_feed_attend(Sink *sink)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	uint64		rows;
	uint64		bytes;

	if (!device_job_wants(dev->job, &rows, &bytes))
	{
		device_rows_lost(dev);
		return false;
	}
	if (rows <= dev->spec.max_rows && bytes <= dev->spec.max_row_bytes)
		return true;
	for (double margin = 2; margin > 1; margin -= 0.75)
	{
		DeviceJobSpec wanted = dev->spec;
		double		n = Max(rows, dev->spec.max_rows) * margin;

		device_rows_room_for(&wanted, n, Max(bytes, dev->spec.max_row_bytes) * margin / n);
		if (wanted.max_rows >= rows && wanted.max_row_bytes >= bytes &&
			device_job_grow(dev->job, &dev->spec, wanted.max_rows, wanted.max_row_bytes))
		{
			device_rows_show(dev);
			return true;
		}
		if (dev->job->lost)
			break;
	}
	lose(dev, "there is no room for the rows of all workers");
	return false;
}

void
device_feed_collect(Sink *sink, const DeviceFed *fed)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	dev->rows = fed->rows;
	dev->units = fed->units;
	dev->sum = fed->sum;
	dev->job->rows_up = fed->rows;
	dev->job->bytes_up = fed->bytes;
	dev->env->progress.now->rows_in = fed->rows;
}

/* ------------------------------------------------------------------------
 * A worker
 * ------------------------------------------------------------------------
 */

/* Its first row has come. */
static bool
open_feeder(FeedSink *sink)
{
	DeviceRows *dev = sink->base.dev;
	uint64		start = device_now_us();

	for (;;)
	{
		dev->job = device_job_feed(dev->env->cxt, &sink->feed.job, &sink->feed.spec);
		if (dev->job != NULL)
			return true;
		if (device_now_us() - start > FEEDER_PATIENCE_US)
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(FEEDER_LOOK_US);
	}
}

/* Can it take a row? */
static inline bool
can_feed(FeedSink *sink)
{
	return likely(sink->base.dev->job != NULL) || open_feeder(sink);
}

/* There is nowhere else for a row to go. */
static inline SinkAnswer
taken_or_lost(FeedSink *sink, SinkAnswer answer)
{
	if (likely(answer == SINK_TAKEN))
		return answer;
	if (!sink->base.dev->job->lost)
		lose(sink->base.dev, "a row has no place among those on the device");
	return SINK_LOST;
}

static SinkAnswer
feed_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (!can_feed((FeedSink *) sink))
		return SINK_LOST;
	return taken_or_lost((FeedSink *) sink, sink_device_rows_put_slot(sink, slot));
}

static SinkAnswer
feed_put_page(Sink *sink, RowPage *page, int *done)
{
	if (!can_feed((FeedSink *) sink))
		return SINK_LOST;
	return taken_or_lost((FeedSink *) sink, sink_device_rows_put_page(sink, page, done));
}

static SortResult *
feed_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	bool		lost = false;

	if (dev->job != NULL)
	{
		device_rows_post(dev);
		lost = !device_job_drain(dev->job);
		dev->env->report.bytes_up = dev->job->bytes_up;
		dev->env->report.device_rows = dev->rows;
	}
	dev->env->report.fed = true;
	return result_device_rows_none(&space->stream, sink->env, lost);
}

static void
feed_end(Sink *sink)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	if (dev->job != NULL)
		device_job_close(dev->job);
	pfree(dev);
	pfree(sink);
}

static const SinkMethods feed_methods = {
	.put_slot = feed_put_slot,
	.put_page = feed_put_page,
	.finish = feed_finish,
	.end = feed_end
};

Sink *
device_feed_join(SortEnv *env, Batch *batch, const DeviceFeed *feed)
{
	FeedSink   *sink = MemoryContextAllocZero(env->cxt, sizeof(FeedSink));
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));
	bool		fits;

	sink->feed = *feed;
	sink->base.base.methods = &feed_methods;
	sink->base.base.env = env;
	sink->base.base.batch = batch;
	sink->base.dev = dev;
	dev->env = env;
	dev->batch = batch;
	dev->feeds = true;
	dev->spec = feed->spec;
	/* how many fit is the leader's to see */
	dev->spec.max_rows = dev->spec.max_row_bytes = PG_UINT64_MAX;
	fits = device_layout_for_any(&dev->layout, &batch->stage, 64);
	Assert(fits && dev->layout.key_width == feed->spec.key_width);
	(void) fits;
	device_rows_divide_chunk(dev, feed->row_bytes);
	return &sink->base.base;
}

void
device_feed_sent(const Sink *sink, DeviceFed *fed)
{
	const DeviceRows *dev = ((const DeviceRowsSink *) sink)->dev;

	fed->rows = dev->rows;
	fed->units = dev->units;
	fed->sum = dev->sum;
	fed->bytes = dev->job == NULL ? 0 : dev->job->bytes_up;
}
