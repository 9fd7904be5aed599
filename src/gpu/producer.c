/*
 * producer.c
 *	  Row mode of a parallel sort: all participants send their rows into one GPU job.
 *
 * The leader of a parallel sort opens a job for the rows that the planner expects, before
 * workers start, and grows it if more rows come.  Each participant is a producer: it writes
 * its rows from their pages into chunks of its own, which are on the device when it has read
 * its share.  The leader is a participant as well, and serves requests for room periodically
 * while it finds rows; as long as it finds none, producers that need room wait.  The device
 * sorts and gathers all rows, and the leader returns them as in any sort in row mode: nothing
 * is merged, and no row is stored on the host.
 *
 * The layout of the keys is made before the first row comes: by the columns' types, with a
 * value for NULL where 128 bits have room.  If a value does not fit the layout, a row is longer
 * than a chunk, or the device has no room, the whole sort begins again without a device.
 *
 * Strings omit a common prefix.  It is that of the first rows of one participant and does not
 * change; a string without it gets the smallest or the largest normalized key.  The leader
 * resolves ties (row_ties.c), unless the keys have all columns and no value was inexact.  As this
 * is its work alone, each participant examines the keys of its first rows, and the sort begins
 * again if many ties are to be expected.
 *
 * Duplicates of a sort with distinct columns: the device drops them, or the participants
 * sort on the CPU and drop them before they send rows.
 *
 * Memory policy: chunks of the job and of the producers.
 *
 * On error: if the device fails, its rows are gone.  The plan below is run again, which must
 * return the same rows; returned_rows.c knows which have been returned.  A backend that ends
 * closes its job or producer.  When a job is closed, its producers fail.
 */
#include "postgres.h"

#include <math.h>

#include "cost/cost.h"
#include "gpu/job.h"
#include "gpu/row_mode.h"
#include "kernel/rec.h"
#include "miscadmin.h"
#include "service/service.h"
#include "store/store.h"

/* The keys of this number of first rows are examined. */
#define EXAMINE_ROWS	4096

/*
 * At most this share of the rows may be tied.  The leader alone resolves ties, in about 100 ns a
 * row.  Without them it returns a row from a device in 15 ns, and from a merge in 40.
 */
#define MOST_TIED		0.25

/* The leader serves requests of producers after this number of rows or pages. */
#define SERVE_ROWS		64

/* First rows of a participant that determine the common prefixes. */
#define PREFIX_ROWS		16

/* What the keys of the first rows say. */
typedef enum FirstKeys
{
	FIRST_KEYS_UNKNOWN,			/* not examined yet */
	FIRST_KEYS_TIED,			/* many rows will be tied, if a value is inexact */
	FIRST_KEYS_DIFFER			/* few rows will be tied, or it does not matter */
} FirstKeys;

/* The sink of a participant. */
typedef struct ProducerSink
{
	DeviceRowsSink base;
	DeviceProducer *producer;	/* in shared memory */

	/* in the leader, the sink of producer_lead(); else NULL */
	Sink	   *lead;
	uint32		puts;			/* rows and pages that the leader put */
	bool		has_common;		/* the layout's prefixes are set */
	FirstKeys	first_keys;
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
	/* gpusort.run_rows limits the runs of one process */
	dev->most_rows = PG_UINT32_MAX - 1;
	dev->returned_rows = returned;
	keybuf_freeze(&batch->keybuf);
	if (device_bring_back(patience_us) == DEVICE_STATE_READY &&
		device_layout_for_any(&dev->layout, &batch->keybuf) &&
		device_route_producer(env, &batch->keybuf, &dev->layout, rows, &dev->facts, &dev->decision) &&
		(!env->drop_duplicates || dev->facts.gpu.drop || gpusort_forced_algorithm() != NULL))
	{
		dev->spec.mode = DEVICE_ROWS;
		device_route_job(&dev->facts, &dev->decision, &dev->spec);
		if (device_rows_open_job(dev, rows * DEVICE_ROWS_MARGIN, row_bytes, patience_us, &why) &&
			device_job_reserve_producers(dev->job, participants, &producer->job))
		{
			producer->on = true;
			producer->spec = dev->spec;
			producer->secret = dev->keys.secret;
			producer->row_bytes = row_bytes;
			SpinLockInit(&producer->lock);
			return sink_device_rows_create(env, batch, dev);
		}
	}
	device_rows_end(dev, false);
	return NULL;
}

bool
producer_serve(void *lead)
{
	DeviceRows *dev = ((DeviceRowsSink *) lead)->dev;
	uint64		rows;
	uint64		bytes;
	double		n;

	if (!device_job_wants(dev->job, &rows, &bytes))
	{
		device_rows_fail(dev, NULL);
		return false;
	}
	if (rows <= dev->spec.max_rows && bytes <= dev->spec.max_row_bytes)
		return true;
	n = Max(rows, dev->spec.max_rows);
	if (device_rows_grow_job(dev, n, Max(bytes, dev->spec.max_row_bytes), 2 * n))
		return true;
	/* with the job, all its producers fail */
	device_rows_fail(dev, "the device has no room for the rows of all participants");
	return false;
}

void
producer_collect(Sink *sink, const DeviceSent *sent_to_device)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	DeviceJobName name;

	dev->sent = *sent_to_device;
	dev->keys.sum = sent_to_device->key_sum;
	dev->job->rows_up = sent_to_device->rows;
	dev->job->bytes_up = sent_to_device->bytes;
	dev->env->progress.now->rows_in = sent_to_device->rows;
	/* no value was inexact: there are no ties to resolve */
	if (dev->layout.loose_column < dev->layout.layout.ncols && !sent_to_device->inexact)
	{
		dev->layout.layout.exact = true;
		dev->facts.inexact = false;
	}
	/* release the slots of workers that have no rows and opened no producer */
	(void) device_job_reserve_producers(dev->job, 0, &name);
}

/* ------------------------------------------------------------------------
 * A participant
 * ------------------------------------------------------------------------
 */

/* Opens the producer for the first row.  It is reserved, so this fails only if the job failed. */
static bool
open_producer(ProducerSink *sink)
{
	DeviceRows *dev = sink->base.dev;

	dev->job = device_job_open_producer(dev->env->cxt, &sink->producer->job);
	if (dev->job == NULL)
		return false;
	if (sink->lead != NULL)
	{
		dev->job->serve = producer_serve;
		dev->job->serve_arg = sink->lead;
	}
	return true;
}

/*
 * Serves requests, and opens the producer; false if the device failed, or if another participant
 * has given up, since the sort begins again then.
 */
static inline bool
prepare_put(ProducerSink *sink)
{
	if (unlikely(sink->producer->given_up) ||
		(sink->lead != NULL && unlikely(++sink->puts % SERVE_ROWS == 0) && !producer_serve(sink->lead)))
		return false;
	return likely(sink->base.dev->job != NULL) || open_producer(sink);
}

/*
 * Takes the common prefixes from shared memory; the first participant sets them to those of its
 * buffered rows.
 */
static void
agree_on_prefixes(ProducerSink *sink)
{
	KeyBuffer  *keybuf = &sink->base.base.batch->keybuf;
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

/* Sends the first rows, which were buffered in the batch. */
static SinkAnswer
send_first_rows(ProducerSink *sink)
{
	Sink	   *base = &sink->base.base;
	Batch	   *batch = base->batch;
	TupleTableSlot *slot = sort_env_slot(base->env);
	SinkAnswer	answer = SINK_TAKEN;
	uint32		rids[PREFIX_ROWS];
	size_t		n = batch->keybuf.n;

	Assert(n <= PREFIX_ROWS);
	memcpy(rids, batch->keybuf.rids, n * sizeof(uint32));
	agree_on_prefixes(sink);
	/* from here on the key buffer is empty; only its arrays are used */
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

/* Buffers one of the first rows. */
static SinkAnswer
buffer_first_row(ProducerSink *sink, TupleTableSlot *slot)
{
	SortEnv    *env = sink->base.base.env;
	Batch	   *batch = sink->base.base.batch;

	if (!batch_put_row(batch, &env->keys, env->writer, slot))
		return SINK_FULL;
	return batch->keybuf.n < PREFIX_ROWS ? SINK_TAKEN : send_first_rows(sink);
}

/*
 * Will few of the expected rows be tied, judged by the keys in the chunk?  A value that three or
 * more of the keys have is frequent: all its rows are tied.  If n keys of other values have p
 * pairs of equal keys, there are about n * n / 2p such values.
 */
static bool
few_ties(const DeviceRows *dev, double rows_expected)
{
	uint64		marks[EXAMINE_ROWS];
	uint32		n = Min(dev->up.rows, EXAMINE_ROWS);
	uint32		pairs = 0;
	uint32		frequent = 0;	/* rows of frequent values */
	double		others;

	for (uint32 i = 0; i < n; i++)
	{
		Key128		key = device_key_at(dev->up.chunk, dev->spec.key_width, i) >> dev->layout.bits_behind;

		marks[i] = (uint64) (key >> 64) * ROW_MARK_HIGH ^ (uint64) key;
	}
	qsort(marks, n, sizeof(uint64), compare_uint64);
	for (uint32 i = 0, end; i < n; i = end)
	{
		for (end = i + 1; end < n && marks[end] == marks[i]; end++)
			;
		pairs += end - i == 2;
		frequent += end - i > 2 ? end - i : 0;
	}
	others = n - frequent;
	return frequent + (pairs < 2 ? 0 : others * (1 - exp(-2.0 * pairs * rows_expected / (n * others)))) <=
		n * MOST_TIED;
}

/* Turns FULL into FAILED, as a row cannot go elsewhere; examines the first keys. */
static inline SinkAnswer
taken_or_failed(ProducerSink *sink, SinkAnswer answer)
{
	DeviceRows *dev = sink->base.dev;

	if (likely(answer == SINK_TAKEN) && likely(sink->first_keys == FIRST_KEYS_DIFFER))
		return answer;
	if (answer == SINK_TAKEN)
	{
		if (sink->first_keys == FIRST_KEYS_UNKNOWN)
		{
			/* wait for more keys; if rows are long, a chunk has fewer */
			if (dev->up.chunk == NULL || dev->up.rows < Min(EXAMINE_ROWS, dev->up.max_rows / 2))
				return answer;
			sink->first_keys = few_ties(dev, sink->producer->spec.max_rows / DEVICE_ROWS_MARGIN) ?
				FIRST_KEYS_DIFFER : FIRST_KEYS_TIED;
		}
		/* keys of all columns have no ties until a value is inexact */
		if (sink->first_keys == FIRST_KEYS_DIFFER ||
			(!dev->sent.inexact && dev->layout.loose_column < dev->layout.layout.ncols))
			return answer;
	}
	sink->producer->given_up = true;
	if (!dev->job->failed)
		device_rows_fail(dev, answer == SINK_TAKEN ? "many rows have equal keys" :
						 "a row does not fit the device's keys or chunks");
	return SINK_FAILED;
}

static SinkAnswer
producer_put_slot(Sink *sink, TupleTableSlot *slot)
{
	ProducerSink *producer = (ProducerSink *) sink;

	if (!prepare_put(producer))
		return SINK_FAILED;
	return taken_or_failed(producer, likely(producer->has_common) ?
						   sink_device_rows_put_slot(sink, slot) : buffer_first_row(producer, slot));
}

static SinkAnswer
producer_put_page(Sink *sink, RowPage *page, int *done)
{
	ProducerSink *producer = (ProducerSink *) sink;

	if (!prepare_put(producer))
		return SINK_FAILED;
	if (unlikely(!producer->has_common))
		return SINK_TAKEN;
	return taken_or_failed(producer, sink_device_rows_put_page(sink, page, done));
}

static SortResult *
producer_finish(Sink *sink, ResultSpace *space)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	SortResult *result;
	bool		failed = false;

	/* there are fewer than PREFIX_ROWS rows */
	if (sink->batch->keybuf.n > 0)
		failed = taken_or_failed((ProducerSink *) sink, send_first_rows((ProducerSink *) sink)) != SINK_TAKEN;
	if (dev->job != NULL)
	{
		device_rows_post(dev);
		failed = !device_job_drain(dev->job) || failed;
		dev->env->report.device.bytes_up = dev->job->bytes_up;
		dev->env->report.device.rows = dev->sent.rows;
	}
	dev->env->report.device.one_job = true;
	result = result_device_rows_begin(&space->stream, sink->env, NULL);
	result->failed = failed;
	return result;
}

static void
producer_end(Sink *sink)
{
	device_rows_end(((DeviceRowsSink *) sink)->dev, false);
	pfree(sink);
}

static const SinkMethods producer_methods = {
	.put_slot = producer_put_slot,
	.put_page = producer_put_page,
	.finish = producer_finish,
	.end = producer_end
};

Sink *
producer_join(SortEnv *env, Batch *batch, DeviceProducer *producer, Sink *lead)
{
	ProducerSink *sink = MemoryContextAllocZero(env->cxt, sizeof(ProducerSink));
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));
	bool		fits;

	sink->producer = producer;
	sink->lead = lead;
	sink->base.base.methods = &producer_methods;
	sink->base.base.env = env;
	sink->base.base.batch = batch;
	sink->base.dev = dev;
	dev->env = env;
	dev->batch = batch;
	dev->is_producer = true;
	dev->spec = producer->spec;
	dev->keys.secret = producer->secret;
	/* the leader knows how many fit, and grows the job */
	dev->spec.max_rows = dev->spec.max_row_bytes = PG_UINT64_MAX;
	fits = device_layout_for_any(&dev->layout, &batch->keybuf);
	Assert(fits && dev->layout.key_width == producer->spec.key_width);
	(void) fits;
	device_rows_prepare(dev, producer->row_bytes);
	sink->has_common = dev->layout.layout.exact;
	if (dev->layout.layout.exact || gpusort_forced_algorithm() != NULL)
		sink->first_keys = FIRST_KEYS_DIFFER;
	return &sink->base.base;
}

void
producer_sent(const Sink *sink, DeviceSent *sent_to_device)
{
	const DeviceRows *dev = ((const DeviceRowsSink *) sink)->dev;

	*sent_to_device = dev->sent;
	sent_to_device->key_sum = dev->keys.sum;
	sent_to_device->bytes = dev->job == NULL ? 0 : dev->job->bytes_up;
}
