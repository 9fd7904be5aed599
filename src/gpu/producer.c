/*
 * producer.c
 *	  Record mode of many workers: all send their rows into one job, the leader reads them.
 *
 * The leader of a parallel sort opens a job for as many rows as the planner expects, before
 * there are workers, and gives it more room if they are more.  A participant's rows go from
 * their pages into chunks of its own feeder (device/client/client.h), and are on the device when it has
 * read its share.  The leader is a participant as well, and looks after the job whenever it has
 * found some rows: while it finds none, and there are more than expected, the others wait for it.
 * The device sorts them all and gathers them, and the leader gives them out as they come, as of any
 * sort in record mode: no row is merged, and none lies on the host.
 *
 * The keys' layout is made before the first row: by the columns' types, with a place for
 * NULLs where 128 bits have room.  A row that has no place there, is longer than a chunk, or
 * finds no room on the device makes the whole sort begin again without it.
 *
 * Where keys do not tell all rows apart the leader settles equal ones (settle.c).  The prefix that strings
 * leave out is that of some rows, the first that came to anybody, and stays: a string without it has
 * the smallest or the largest image.  As nothing else is known of the rows each participant looks whether
 * its first ones have different keys.  If many have not the sort begins again: to settle them would
 * be the leader's work alone.
 *
 * Memory: the job's chunks and the feeders'.
 *
 * On error: the rows are lost with the device, and the plan below is run again
 * (node/parallel/parallel_sort.c), which has to be one that gives the same rows.  given_rows.h knows which of
 * them are not to be given again.  A backend that ends closes what it has opened; feeders
 * of a job that is closed are lost.
 */
#include "postgres.h"

#include "cost/cost.h"
#include "gpu/gpu.h"
#include "gpu/gpu_internal.h"
#include "miscadmin.h"
#include "service/protocol.h"
#include "service/service_internal.h"
#include "store/row.h"

/* A participant's first rows whose keys are looked at, and of how many one may have another's. */
#define LOOK_ROWS				1000
#define LOOK_EQUAL				32

/* The leader's rows, or pages, between two looks at what others want. */
#define SERVE_ROWS				64

/* A participant's rows that tell what strings have in common. */
#define COMMON_RANGE_ROWS				16

typedef struct ProducerSink
{
	DeviceRowsSink base;
	DeviceProducer *producer;			/* everybody's */
	Sink	   *lead;			/* in the leader: device_feed_lead()'s, */
	uint32		puts;			/* ... rows and pages */
	bool		has_common;			/* the layout's prefixes are set */
	bool		looked;			/* at the first keys */
} ProducerSink;

/* ------------------------------------------------------------------------
 * The leader
 * ------------------------------------------------------------------------
 */
Sink *
producer_lead(SortEnv *env, Batch *batch, double rows, double row_bytes, int participants,
				 ReturnedRows *returned, DeviceProducer *producer)
{
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));
	double		patience_us = gpusort_forced_algorithm() != NULL ? DEVICE_FORCED_PATIENCE_US : 0;
	DeviceState why;

	memset(producer, 0, sizeof(*producer));
	dev->env = env;
	dev->batch = batch;
	dev->returned_rows = returned;
	keybuf_freeze(&batch->keybuf);
	if (device_bring_back(patience_us) == DEVICE_STATE_READY &&
		device_layout_for_any(&dev->layout, &batch->keybuf, 64) &&
		device_route_producer(env, &batch->keybuf, &dev->layout.layout, dev->layout.key_width, rows,
						  &dev->facts, &dev->decision) &&
		job_secret_make(&dev->secret))
	{
		dev->spec.mode = DEVICE_ROWS;
		device_route_job(&dev->facts, &dev->decision, &dev->spec);
		device_rows_room_for(&dev->spec, rows * DEVICE_ROWS_MARGIN, row_bytes);
		dev->job = device_job_open(env->cxt, &dev->spec, device_job_bytes(&dev->spec),
								   DEVICE_JOB_CHUNKS, patience_us, &why);
		if (dev->job != NULL && !device_job_reserve_producers(dev->job, participants))
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
	producer->on = true;
	device_job_name(dev->job, &producer->job);
	producer->spec = dev->spec;
	producer->secret = dev->secret;
	producer->row_bytes = row_bytes;
	SpinLockInit(&producer->lock);
	return sink_device_rows_create(env, batch, dev);
}

static void
lose(DeviceRows *dev, const char *why)
{
	device_job_fail(dev->job, why);
	device_rows_fail(dev);
}

bool
producer_serve(Sink *sink)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	uint64		rows;
	uint64		bytes;

	if (!device_job_wants(dev->job, &rows, &bytes))
	{
		device_rows_fail(dev);
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
		if (dev->job->failed)
			break;
	}
	lose(dev, "there is no room for the rows of all participants");
	return false;
}

void
producer_collect(Sink *sink, const DeviceSent *sent_to_device)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	dev->rows = sent_to_device->rows;
	dev->units = sent_to_device->units;
	dev->sum = sent_to_device->sum;
	dev->job->rows_up = sent_to_device->rows;
	dev->job->bytes_up = sent_to_device->bytes;
	dev->env->progress.now->rows_in = sent_to_device->rows;
	/* some may have had no rows, or not have been started */
	(void) device_job_reserve_producers(dev->job, 0);
}

/* ------------------------------------------------------------------------
 * A participant
 * ------------------------------------------------------------------------
 */

static bool
serve_leader(void *lead)
{
	return producer_serve(lead);
}

/* The first row has come.  The leader has reserved the feeder: there is none if the job is lost. */
static bool
open_producer(ProducerSink *sink)
{
	DeviceRows *dev = sink->base.dev;

	dev->job = device_job_open_producer(dev->env->cxt, &sink->producer->job, &sink->producer->spec);
	if (dev->job == NULL)
		return false;
	if (sink->lead != NULL)
	{
		dev->job->serve = serve_leader;
		dev->job->serve_arg = sink->lead;
	}
	return true;
}

/* Can it take a row? */
static inline bool
can_produce(ProducerSink *sink)
{
	if (sink->lead != NULL && unlikely(++sink->puts % SERVE_ROWS == 0) && !producer_serve(sink->lead))
		return false;
	return likely(sink->base.dev->job != NULL) || open_producer(sink);
}

/*
 * Strings' images are relative to the prefixes that all participants have; if none has said so yet, to what the
 * staged rows have in common.
 */
static void
agree_on_prefixes(ProducerSink *sink)
{
	KeyBuffer	   *keybuf = &sink->base.base.batch->keybuf;
	DeviceProducer *producer = sink->producer;

	keybuf_freeze(keybuf);
	SpinLockAcquire(&producer->lock);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		if (producer->has_common)
			keybuf->cols[c].prefix = producer->prefixes[c];
		else
			producer->prefixes[c] = keybuf->cols[c].prefix;
	}
	producer->has_common = true;
	SpinLockRelease(&producer->lock);
	for (int c = 0; c < keybuf->ncols; c++)
		sink->base.dev->layout.prefix_len[c] = keybuf->cols[c].prefix.len;
	sink->has_common = true;
}

/* The first rows, which were in the batch, go where the others will go. */
static SinkAnswer
send_first(ProducerSink *sink)
{
	Sink	   *base = &sink->base.base;
	Batch	   *batch = base->batch;
	TupleTableSlot *slot = sort_env_slot(base->env);
	SinkAnswer	answer = SINK_TAKEN;
	uint32		rids[COMMON_RANGE_ROWS];
	size_t		n = batch->keybuf.n;

	Assert(n <= COMMON_RANGE_ROWS);
	memcpy(rids, batch->keybuf.rids, n * sizeof(uint32));
	agree_on_prefixes(sink);
	/* from here on it only lends its arrays */
	keybuf_reset(&batch->keybuf);
	for (size_t i = 0; i < n && answer == SINK_TAKEN; i++)
	{
		row_to_slot(slot, (MinimalTuple) arena_at(&batch->arena, rids[i]));
		slot_getsomeattrs(slot, batch->keybuf.last_att);
		answer = sink_device_rows_put_slot(base, slot);
	}
	ExecClearTuple(slot);
	arena_reset(&batch->arena, base->env->bulk);
	return answer;
}

/* Takes one of the first rows. */
static SinkAnswer
take_first(ProducerSink *sink, TupleTableSlot *slot)
{
	SortEnv    *env = sink->base.base.env;
	Batch	   *batch = sink->base.base.batch;

	if (!batch_put_row(batch, &env->keys, env->writer, slot))
		return SINK_FULL;
	return batch->keybuf.n < COMMON_RANGE_ROWS ? SINK_TAKEN : send_first(sink);
}

/* Do the keys in the chunk tell their rows apart, all but a few? */
static bool
keys_tell(const DeviceRows *dev)
{
	uint64		marks[LOOK_ROWS];
	uint32		n = Min(dev->chunk_rows, LOOK_ROWS);
	uint32		equal = 0;

	for (uint32 i = 0; i < n; i++)
	{
		Key128		key = device_key_at(dev->chunk, dev->spec.key_width, i);

		marks[i] = (uint64) (key >> 64) * ROW_MARK_HIGH ^ (uint64) key;
	}
	qsort(marks, n, sizeof(uint64), sample_compare);
	for (uint32 i = 1; i < n; i++)
		equal += marks[i] == marks[i - 1];
	return equal <= n / LOOK_EQUAL;
}

/* There is nowhere else for a row to go. */
static inline SinkAnswer
taken_or_failed(ProducerSink *sink, SinkAnswer answer)
{
	DeviceRows *dev = sink->base.dev;

	if (likely(answer == SINK_TAKEN) && likely(sink->looked))
		return answer;
	if (answer == SINK_TAKEN)
	{
		/* enough to look at; rows that are longer than expected fill a chunk with fewer */
		if (dev->chunk == NULL || dev->chunk_rows < Min(LOOK_ROWS, dev->max_chunk_rows / 2))
			return answer;
		sink->looked = true;
		if (keys_tell(dev))
			return answer;
	}
	if (!dev->job->failed)
		lose(dev, answer == SINK_TAKEN ? "many rows have equal keys" : "a row has no place among those on the device");
	return SINK_FAILED;
}

static SinkAnswer
producer_put_slot(Sink *sink, TupleTableSlot *slot)
{
	ProducerSink   *producer = (ProducerSink *) sink;

	if (!can_produce(producer))
		return SINK_FAILED;
	return taken_or_failed(producer, likely(producer->has_common) ?
						   sink_device_rows_put_slot(sink, slot) : take_first(producer, slot));
}

static SinkAnswer
producer_put_page(Sink *sink, RowPage *page, int *done)
{
	ProducerSink   *producer = (ProducerSink *) sink;

	if (!can_produce(producer))
		return SINK_FAILED;
	if (unlikely(!producer->has_common))
		return sink_put_rows(sink, page, done);
	return taken_or_failed(producer, sink_device_rows_put_page(sink, page, done));
}

static SortResult *
partial_sort_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	bool		failed = false;

	/* they are all that there are */
	if (sink->batch->keybuf.n > 0)
		failed = taken_or_failed((ProducerSink *) sink, send_first((ProducerSink *) sink)) != SINK_TAKEN;
	if (dev->job != NULL)
	{
		device_rows_post(dev);
		failed = !device_job_drain(dev->job) || failed;
		dev->env->report.bytes_up = dev->job->bytes_up;
		dev->env->report.device_rows = dev->rows;
	}
	dev->env->report.sent_to_device = true;
	return result_device_rows_none(&space->stream, sink->env, failed);
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

static const SinkMethods partial_sort_methods = {
	.put_slot = producer_put_slot,
	.put_page = producer_put_page,
	.finish = partial_sort_finish,
	.end = feed_end
};

Sink *
producer_join(SortEnv *env, Batch *batch, DeviceProducer *producer, Sink *lead)
{
	ProducerSink   *sink = MemoryContextAllocZero(env->cxt, sizeof(ProducerSink));
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));
	bool		fits;

	sink->producer = producer;
	sink->lead = lead;
	sink->base.base.methods = &partial_sort_methods;
	sink->base.base.env = env;
	sink->base.base.batch = batch;
	sink->base.dev = dev;
	dev->env = env;
	dev->batch = batch;
	dev->producers_of = true;
	dev->spec = producer->spec;
	dev->secret = producer->secret;
	/* how many fit is the leader's to see */
	dev->spec.max_rows = dev->spec.max_row_bytes = PG_UINT64_MAX;
	fits = device_layout_for_any(&dev->layout, &batch->keybuf, 64);
	Assert(fits && dev->layout.key_width == producer->spec.key_width);
	(void) fits;
	sink->has_common = sink->looked = dev->layout.layout.exact;
	if (gpusort_forced_algorithm() != NULL)
		sink->looked = true;
	device_rows_divide_chunk(dev, producer->row_bytes);
	return &sink->base.base;
}

void
producer_sent(const Sink *sink, DeviceSent *sent_to_device)
{
	const DeviceRows *dev = ((const DeviceRowsSink *) sink)->dev;

	sent_to_device->rows = dev->rows;
	sent_to_device->units = dev->units;
	sent_to_device->sum = dev->sum;
	sent_to_device->bytes = dev->job == NULL ? 0 : dev->job->bytes_up;
}
