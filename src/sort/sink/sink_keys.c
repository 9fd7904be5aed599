/*
 * sink_keys.c
 *	  Rows are their keys (key_reader.c): these go into the host's memory, and nothing else.
 *
 * Memory policy: as sink_host.c.
 */
#include "postgres.h"

#include "sort/sink/sink.h"

static SinkAnswer
keys_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(sink_host_full((HostSink *) sink)))
		return SINK_FULL;
	return likely(batch_put_key(sink->batch, &sink->env->keys, slot)) ? SINK_TAKEN : SINK_FULL;
}

bool
sink_keys_take_page(HostSink *sink, RowPage *page, int *done)
{
	Batch	   *batch = sink->base.batch;

	if (batch_taken(batch) + (page->n - *done) * batch->sort_cost > batch->limit ||
		!batch_put_page_keys(batch, &sink->base.env->keys, page, *done))
		return false;
	*done = page->n;
	return true;
}

static SinkAnswer
keys_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(sink_host_full((HostSink *) sink)))
		return SINK_FULL;
	if (likely(sink_keys_take_page((HostSink *) sink, page, done)))
		return SINK_TAKEN;
	return sink_put_rows(sink, page, done);
}

static const SinkMethods keys_methods = {
	.put_slot = keys_put_slot,
	.put_page = keys_put_page,
	.spill = sink_host_spill,
	.finish = sink_host_finish,
	.end = sink_holds_nothing
};

void
sink_keys_init(HostSink *sink, SortEnv *env, Batch *batch)
{
	sink->base.methods = &keys_methods;
	sink->base.env = env;
	sink->base.batch = batch;
}
