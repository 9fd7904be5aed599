/*
 * host_sink.c
 *	  The sink of a sort in host memory: keeps rows, or keys without rows, in the batch.
 *
 * The sink is full when rows, keys and the arrays that sorting will need exceed the limit
 * of the batch.  One row is always taken, whatever its size.  Two tables of methods differ
 * in put_slot() only, so that no row costs a test.
 *
 * Memory policy: the batch's.
 */
#include "postgres.h"

#include "sort/sort_internal.h"

/* Is the sink full? */
static inline bool
host_full(const Sink *sink)
{
	const Batch *batch = sink->batch;

	return batch->keybuf.n >= batch->max_rows || batch_taken(batch) > batch->limit;
}

static SinkAnswer
host_put_slot(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(host_full(sink)))
		return SINK_FULL;
	return likely(batch_put_row(sink->batch, &sink->env->keys, sink->env->writer, slot)) ? SINK_TAKEN : SINK_FULL;
}

static SinkAnswer
host_put_slot_key(Sink *sink, TupleTableSlot *slot)
{
	if (unlikely(host_full(sink)))
		return SINK_FULL;
	return likely(batch_put_key(sink->batch, &sink->env->keys, slot)) ? SINK_TAKEN : SINK_FULL;
}

/*
 * Takes the page's rows from *done on with one check of memory.  False if the page must be
 * taken row by row: its rows may not fit, or cannot be copied directly.
 */
static inline bool
host_take_page(Sink *sink, RowPage *page, int done)
{
	Batch	   *batch = sink->batch;
	const KeyWriter *keys = &sink->env->keys;

	if (sink->env->spec.keys_only)
		return batch_put_page_keys(batch, keys, page, done);
	return done == 0 && page->direct && batch_put_page(batch, keys, page);
}

static SinkAnswer
host_put_page(Sink *sink, RowPage *page, int *done)
{
	if (unlikely(host_full(sink)))
		return SINK_FULL;
	if (likely(host_take_page(sink, page, *done)))
		*done = page->n;
	return SINK_TAKEN;
}

void
sink_batch_spilled(Sink *sink)
{
	SortEnv    *env = sink->env;
	Batch	   *batch = sink->batch;
	Size		kept = env->recs.size + env->scratch.size;

	/*
	 * malloc() would return these to the kernel, and each batch would fault
	 * on their pages again; a process keeps regions anyway.  An empty batch
	 * must have room for a row.
	 */
	if (env->recs.mapped || env->scratch.mapped || kept > batch->keybuf.n * batch->sort_cost ||
		batch->keybuf.bytes + kept >= batch->limit)
	{
		bulk_free(env->bulk, &env->recs);
		bulk_free(env->bulk, &env->scratch);
		kept = 0;
	}
	batch->kept = kept;
	batch_reset(batch, env->bulk);
}

static SinkAnswer
host_spill(Sink *sink, Runs *runs)
{
	Sorted		sorted;

	order_batch(sink->env, sink->batch, ORDER_PART, &sorted);
	runs_write(runs, sink->batch, &sorted);
	sink_batch_spilled(sink);
	return SINK_TAKEN;
}

SortResult *
sink_batch_finish(Sink *sink, ResultSpace *space)
{
	SortEnv    *env = sink->env;
	Batch	   *batch = sink->batch;
	Sorted		sorted;
	SortResult *result;

	order_batch(env, batch, env->spec.compares ? ORDER_COMPARE : ORDER_PLAIN, &sorted);
	if (env->bound > 0)
		sorted.n = Min(sorted.n, env->bound);
	result = env->spec.keys_only ?
		result_keys_begin(&space->keys, env, &batch->keybuf, &sorted) :
		result_rows_begin(&space->memory, env, &batch->arena, sorted.rids, sorted.n);
	result->duplicates = sorted.duplicates;
	if (!env->spec.keys_only)
		space->memory.equal = sorted.equal;
	batch_free_keys(batch, env->bulk);
	tiebreak_release(env->tiebreak);
	return result;
}

static const SinkMethods host_methods = {
	.put_slot = host_put_slot,
	.put_page = host_put_page,
	.spill = host_spill,
	.finish = sink_batch_finish
};

static const SinkMethods host_keys_methods = {
	.put_slot = host_put_slot_key,
	.put_page = host_put_page,
	.spill = host_spill,
	.finish = sink_batch_finish
};

void
sink_host_init(Sink *sink, SortEnv *env, Batch *batch)
{
	sink->methods = env->spec.keys_only ? &host_keys_methods : &host_methods;
	sink->env = env;
	sink->batch = batch;
}
