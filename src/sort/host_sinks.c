/*
 * host_sinks.c
 *	  Sinks that keep rows, or keys without rows, in host memory.
 *
 * Memory policy: rows, buffered keys and the arrays that sorting will need are counted
 * row by row.  The sink is full when their sum exceeds the limit of the batch.  One row
 * is always taken, whatever its size.
 */
#include "postgres.h"

#include "sort/sort_internal.h"

static SinkAnswer
host_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(sink_host_full((HostSink *) sink)))
		return SINK_FULL;
	return likely(batch_put_row(sink->batch, &sink->env->keys, sink->env->writer, slot)) ? SINK_TAKEN : SINK_FULL;
}

SinkAnswer
sink_put_rows(Sink *sink, RowPage *page, int *done)
{
	int			last_att = sink->batch->keybuf.last_att;

	for (; *done < page->n; (*done)++)
	{
		TupleTableSlot *slot = page->row(page, *done);
		SinkAnswer	answer;

		slot_getsomeattrs(slot, last_att);
		answer = sink->methods->put_slot(sink, slot);
		if (unlikely(answer != SINK_TAKEN))
			return answer;
	}
	return SINK_TAKEN;
}

bool
sink_host_take_page(HostSink *sink, RowPage *page, int *done)
{
	if (*done > 0 || !page->direct || !batch_put_page(sink->base.batch, &sink->base.env->keys, page))
		return false;
	*done = page->n;
	return true;
}

static SinkAnswer
host_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(sink_host_full((HostSink *) sink)))
		return SINK_FULL;
	if (likely(sink_host_take_page((HostSink *) sink, page, done)))
		return SINK_TAKEN;
	return sink_put_rows(sink, page, done);
}

void
sink_batch_spilled(Sink *sink)
{
	SortEnv    *env = sink->env;

	batch_reset(sink->batch, env->bulk);
	/* the limit of the next run does not count these */
	bulk_free(env->bulk, &env->recs);
	bulk_free(env->bulk, &env->scratch);
}

void
sink_spill_batch(Sink *sink, OffloadJob *early, Runs *runs)
{
	Sorted		sorted;

	(void) order_batch(sink->env, sink->batch, early, false, &sorted);
	runs_write(runs, sink->batch, &sorted);
	sink_batch_spilled(sink);
}

static SinkAnswer
host_spill(Sink *sink, Runs *runs)
{
	sink_spill_batch(sink, NULL, runs);
	return SINK_TAKEN;
}

static SortResult *
host_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	return order_result(sink->env, sink->batch, NULL, !may_pause, space);
}

static void
host_end(Sink *sink)
{
}

static const SinkMethods host_methods = {
	.put_slot = host_put_slot,
	.put_page = host_put_page,
	.spill = host_spill,
	.finish = host_finish,
	.end = host_end
};

void
sink_host_init(HostSink *sink, SortEnv *env, Batch *batch)
{
	sink->base.methods = &host_methods;
	sink->base.env = env;
	sink->base.batch = batch;
}

/* ------------------------------------------------------------------------
 * Keys without rows
 * ------------------------------------------------------------------------
 */

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
	.spill = host_spill,
	.finish = host_finish,
	.end = host_end
};

void
sink_keys_init(HostSink *sink, SortEnv *env, Batch *batch)
{
	sink->base.methods = &keys_methods;
	sink->base.env = env;
	sink->base.batch = batch;
}
