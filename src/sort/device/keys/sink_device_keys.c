/*
 * sink_device_keys.c
 *	  Rows go into the host's memory, and their keys to a device while others come.
 *
 * From some number of rows on, when the router says that the device will be worth
 * it, each chunk's worth of staged keys is sent as soon as it is there: it is still
 * in the cache then, and at the end of the scan only the last chunk is missing.  The
 * ranges are not known yet, so these keys have the bits of their types
 * (device_layout.h).  When the job does not do any more the sink is full, and says
 * that keys are dropped: nothing is lost, the batch has them all.
 *
 * Memory policy: as sink_host.c.
 */
#include "postgres.h"

#include "sort/device/keys/device_keys.h"
#include "sort/sink/sink.h"

typedef struct DeviceKeysSink
{
	HostSink	host;
	DeviceKeys *keys;			/* NULL: handed on */
	bool		dropped;		/* the job does not do any more */
} DeviceKeysSink;

/* Sends whole chunks; false if that cannot go on. */
static pg_noinline bool
send_chunks(DeviceKeysSink *sink)
{
	DeviceKeys *dk = sink->keys;
	const Stage *stage = &dk->batch->stage;

	if (sink->dropped)
		return false;
	while (stage->n - dk->sent >= dk->per_chunk)
	{
		if (!device_layout_holds(&dk->layout, stage) ||
			!device_keys_room(dk, dk->sent + dk->per_chunk, true) ||
			!device_keys_send(dk, dk->per_chunk))
		{
			if (dk->job->lost)
				device_note_failure(dk->env, dk->decision.algorithm, dk->job->why);
			sink->dropped = true;
			return false;
		}
	}
	sink->host.ask_rows = dk->sent + dk->per_chunk;
	return true;
}

/* Is there place for another row?  ask_rows is when to send. */
static inline bool
has_room(DeviceKeysSink *sink)
{
	const Batch *batch = sink->host.base.batch;

	if (unlikely(batch->stage.n >= sink->host.ask_rows) && !send_chunks(sink))
		return false;
	return batch_taken(batch) <= batch->limit;
}

static SinkAnswer
device_keys_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	return likely(batch_put_row(sink->batch, &sink->env->keys, sink->env->writer, slot)) ? SINK_TAKEN : SINK_FULL;
}

static SinkAnswer
device_keys_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	if (sink_host_take_page((HostSink *) sink, page, done))
		return SINK_TAKEN;
	return sink_put_rows(sink, page, done);
}

static SinkAnswer
device_keys_only_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	return likely(batch_put_key(sink->batch, &sink->env->keys, slot)) ? SINK_TAKEN : SINK_FULL;
}

static SinkAnswer
device_keys_only_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(!has_room((DeviceKeysSink *) sink)))
		return SINK_FULL;
	if (sink_keys_take_page((HostSink *) sink, page, done))
		return SINK_TAKEN;
	return sink_put_rows(sink, page, done);
}

/* The job goes on to whoever sorts the batch; NULL if it has none to go on with. */
static DeviceKeys *
hand_over(Sink *sink)
{
	DeviceKeysSink *keys = (DeviceKeysSink *) sink;
	DeviceKeys *dk = keys->keys;

	keys->keys = NULL;
	if (!keys->dropped)
		return dk;
	device_keys_end(dk);
	return NULL;
}

static SinkAnswer
device_keys_spill(Sink *sink, Runs *runs)
{
	sink_spill_batch(sink, hand_over(sink), runs);
	return SINK_TAKEN;
}

static SortResult *
device_keys_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	return order_result(sink->env, sink->batch, hand_over(sink), !may_pause, space);
}

static void
device_keys_sink_end(Sink *sink)
{
	DeviceKeys *dk = ((DeviceKeysSink *) sink)->keys;

	if (dk != NULL)
		device_keys_end(dk);
	pfree(sink);
}

static const SinkMethods device_keys_methods = {
	.put_slot = device_keys_put_slot,
	.put_page = device_keys_put_page,
	.spill = device_keys_spill,
	.finish = device_keys_finish,
	.end = device_keys_sink_end
};

static const SinkMethods device_keys_only_methods = {
	.put_slot = device_keys_only_put_slot,
	.put_page = device_keys_only_put_page,
	.spill = device_keys_spill,
	.finish = device_keys_finish,
	.end = device_keys_sink_end
};

Sink *
sink_device_keys_begin(SortEnv *env, Batch *batch)
{
	DeviceKeys *dk = device_keys_open_early(env, batch);
	DeviceKeysSink *sink;

	if (dk == NULL)
		return NULL;
	sink = MemoryContextAllocZero(env->cxt, sizeof(DeviceKeysSink));
	sink->host.base.methods = env->spec.keys_only ?
		&device_keys_only_methods : &device_keys_methods;
	sink->host.base.env = env;
	sink->host.base.batch = batch;
	sink->keys = dk;
	return &sink->host.base;
}

bool
sink_device_keys_dropped(const Sink *sink)
{
	return (sink->methods == &device_keys_methods ||
			sink->methods == &device_keys_only_methods) &&
		((const DeviceKeysSink *) sink)->dropped;
}
