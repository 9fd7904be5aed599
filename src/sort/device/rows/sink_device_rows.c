/*
 * sink_device_rows.c
 *	  Record mode: the rows themselves go to the device, and come back in order.
 *
 * A large sort's time is not in the sorting: it is in memory that is touched for
 * the first time while rows are stored, and in a cache miss per row while they
 * are given back.  Here a row is copied once, from its page into a chunk of the
 * pinned staging pool, which is small and stays in the cache; the chunk crosses the
 * bus while the scan goes on; the device sorts and gathers; and the rows come
 * back chunk by chunk, to be read one after the other.  The host holds no more than
 * the job's few chunks, whatever the sort's size, so nothing is spilled as long as
 * the device has room.
 *
 * A sort begins in the host's arena.  When that has grown to DEVICE_ROWS_AFTER or
 * to work_mem, whichever comes first, the rows move over, in their order, and those
 * that follow go straight to staging.  Keys are laid out before all rows are
 * known, so a column gets the bits of its type, and a place for NULL where one
 * has been seen or where it costs nothing.  Where keys do not tell all rows apart each goes
 * marked with its key (store/row_mark.h), and equal ones are settled on their way back (settle.c).
 *
 * When its room on the device is full, rows go on to another job (device_rows_parts.c).
 * The devices' part of a sort ends early ("sealed": sorted, and brought back) when there
 * is no room anywhere, when a row is longer than a chunk, or when a value has no place in
 * the keys.  If work_mem holds the rows, they are then as if they had just come in;
 * otherwise they are written as a run like any other, and the sort goes on as one that
 * has spilled.  A result that may be read with pauses comes back in the same way
 * (node/device_pause.c).
 *
 * On error: the rows exist only on the device, so a device that fails takes them
 * with it.  Record mode is therefore used only above plans that can be run again
 * with the same rows in the same order (SortSpec.can_rerun): the sort is then
 * lost, and the node runs its child again and sorts on the CPU, skipping the rows that
 * were given out already.
 *
 * Each row travels with a checksum of its own, keyed by a secret of the job (store/row_sum.h), which
 * is checked when it comes back, before anything of it is used; result_device_rows.c.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "settings.h"
#include "sort/device/rows/device_rows.h"
#include "store/row_mark.h"

/* Rows of a sort stay on the host up to this many bytes. */
#define DEVICE_ROWS_AFTER		((Size) 32 * 1024 * 1024)

static inline void
put_key(char *chunk, int width, uint32 i, Key128 key)
{
	if (width == 64)
		((uint64 *) chunk)[i] = (uint64) key;
	else
		((Key128 *) chunk)[i] = key;
}

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */
static inline bool
chunk_is_full(const DeviceRows *dev, Size size)
{
	return dev->chunk == NULL || dev->chunk_rows == dev->max_chunk_rows ||
		size > (Size) (dev->end - dev->next);
}

static inline bool
job_is_full(const DeviceRows *dev, Size size)
{
	return dev->rows >= dev->spec.max_rows ||
		(dev->units << 3) + size > dev->spec.max_row_bytes;
}

/* Makes room for a row of size bytes in the chunk. */
static inline SinkAnswer
make_room(DeviceRows *dev, Size size)
{
	if (unlikely(chunk_is_full(dev, size)))
	{
		SinkAnswer	result = device_rows_start_chunk(dev, size);

		if (result != SINK_TAKEN)
			return result;
	}
	return unlikely(job_is_full(dev, size)) ? device_rows_more_room(dev, size) : SINK_TAKEN;
}

/* The row was written at dev->next; counts it in. */
static inline void
row_is_in(DeviceRows *dev, Key128 key, Size size)
{
	put_key(dev->chunk, dev->spec.key_width, dev->chunk_rows, key);
	if (!dev->layout.layout.exact)
		row_set_mark(dev->next, (uint64) (key >> 64), (uint64) key);
	((uint32 *) (dev->chunk + dev->words_at))[dev->chunk_rows] =
		(uint32) (dev->units - dev->base);
	dev->sum += row_set_checksum(dev->next, &dev->secret);
	dev->chunk_rows++;
	dev->rows++;
	dev->units += size >> 3;
	dev->next += size;
}

SinkAnswer
sink_device_rows_put_slot(Sink *sink, TupleTableSlot *slot)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	const Stage *stage = &sink->batch->stage;
	RowForm		form;
	SinkAnswer	room;
	Key128		key;

	row_measure(sink->env->writer, slot, &form);
	if (dev->spec.key_width == 64)
	{
		uint64		key64;

		if (unlikely(!device_row_key64(&dev->layout, stage, &sink->env->keys, slot->tts_values,
									   slot->tts_isnull, &key64)))
			return SINK_FULL;
		key = key64;
	}
	else if (unlikely(!device_row_key(&dev->layout, stage, &sink->env->keys, slot->tts_values,
									  slot->tts_isnull, &key)))
		return SINK_FULL;
	room = make_room(dev, form.room);
	if (unlikely(room != SINK_TAKEN))
	{
		if (room == SINK_LOST)
			device_rows_lost(dev);
		return room;
	}
	row_is_in(dev, key, row_write(sink->env->writer, slot, &form, dev->next));
	return SINK_TAKEN;
}

/* Takes rows of a direct page as far as there is room for them. */
static SinkAnswer
put_direct(DeviceRows *dev, RowPage *page, int *done)
{
	Stage	   *stage = &dev->batch->stage;
	bool		wide = dev->spec.key_width == 128;
	char		keys[MaxHeapTuplesPerPage * sizeof(Key128)] pg_attribute_aligned(16);
	SinkAnswer	room = SINK_TAKEN;

	/* the stage is empty: it only lends its arrays */
	Assert(stage->n == 0);
	stage_reserve(stage, dev->env->bulk, page->n);
	row_page_stage(page, 0, stage, &dev->env->keys, 0);
	if (device_layout_holds(&dev->layout, stage))
	{
		pack_keys(stage, &dev->layout.layout, dev->spec.key_width, 0, page->n, keys);
		for (; *done < page->n; (*done)++)
		{
			Key128		key = wide ? ((Key128 *) keys)[*done] : ((uint64 *) keys)[*done];

			room = make_room(dev, row_page_room(page, *done));
			if (unlikely(room != SINK_TAKEN))
				break;
			row_is_in(dev, key, row_page_write(page, *done, dev->next));
		}
	}
	stage_forget(stage, page->n);
	return room;
}

SinkAnswer
sink_device_rows_put_page(Sink *sink, RowPage *page, int *done)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	if (*done == 0 && page->direct)
	{
		SinkAnswer	answer = put_direct(dev, page, done);

		if (unlikely(answer == SINK_LOST))
			device_rows_lost(dev);
		if (unlikely(answer != SINK_TAKEN))
			return answer;
	}
	return sink_put_rows(sink, page, done);
}

/* The rows that the host has, in their order; false if the job fails. */
static bool
move_rows(DeviceRows *dev)
{
	const Stage *stage = &dev->batch->stage;
	int			width = dev->spec.key_width;
	char		keys[256 * sizeof(Key128)] pg_attribute_aligned(16);

	for (size_t start = 0; start < stage->n; start += 256)
	{
		size_t		count = Min(256, stage->n - start);

		pack_keys(stage, &dev->layout.layout, width, start, count, keys);
		CHECK_FOR_INTERRUPTS();
		for (size_t i = 0; i < count; i++)
		{
			MinimalTuple row = (MinimalTuple) arena_at(&dev->batch->arena, stage->rids[start + i]);
			Size		size = MAXALIGN(row->t_len);

			if (make_room(dev, size) != SINK_TAKEN)
				return false;
			memcpy(dev->next, row, size);
			row_is_in(dev, width == 64 ? ((uint64 *) keys)[i] : ((Key128 *) keys)[i], size);
		}
	}
	return true;
}

/* ------------------------------------------------------------------------
 * The end
 * ------------------------------------------------------------------------
 */
static SinkAnswer
device_rows_spill(Sink *sink, Runs *runs)
{
	return device_rows_seal((DeviceRowsSink *) sink, runs);
}

SinkAnswer
sink_device_rows_next_part(Sink *sink, Runs *runs)
{
	return device_rows_next_part((DeviceRowsSink *) sink, runs);
}

void
sink_device_rows_merge(Sink *sink, Runs *runs)
{
	device_rows_merge((DeviceRowsSink *) sink, runs);
}

static SortResult *
device_rows_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	((DeviceRowsSink *) sink)->dev = NULL;
	return result_device_rows_begin(&space->stream, sink->env, dev);
}

static void
device_rows_sink_end(Sink *sink)
{
	device_rows_parts_end((DeviceRowsSink *) sink);
	pfree(sink);
}

static const SinkMethods device_rows_methods = {
	.put_slot = sink_device_rows_put_slot,
	.put_page = sink_device_rows_put_page,
	.spill = device_rows_spill,
	.finish = device_rows_finish,
	.end = device_rows_sink_end
};

bool
sink_is_device_rows(const Sink *sink)
{
	return sink->methods == &device_rows_methods;
}

/* ------------------------------------------------------------------------
 * Beginning
 * ------------------------------------------------------------------------
 */

/* Can rows be moved at all? */
static bool
rows_can_move(const SortEnv *env, const Batch *batch)
{
	const Arena *arena = &batch->arena;

	if (env->device_failed || device_state() != DEVICE_STATE_READY || batch->stage.n == 0)
		return false;
	/* the longest row must find room in a chunk beside its key */
	for (uint32 c = 0; c < arena->nowned; c++)
	{
		if (arena->chunks[c].buf.size > device_shared->chunk_size / 2 &&
			arena->chunks[c].buf.size > ARENA_CHUNK_SIZE)
			return false;
	}
	return env->spec.can_rerun(env->spec.can_rerun_arg);
}

Size
sink_device_rows_after(const SortEnv *env)
{
	return device_state() == DEVICE_STATE_READY ? Min(env->limit, DEVICE_ROWS_AFTER) : env->limit;
}

Sink *
sink_device_rows_create(SortEnv *env, Batch *batch, DeviceRows *dev)
{
	DeviceRowsSink *sink = MemoryContextAllocZero(env->cxt, sizeof(DeviceRowsSink));

	sink->base.methods = &device_rows_methods;
	sink->base.env = env;
	sink->base.batch = batch;
	sink->dev = dev;
	dlist_init(&sink->closed);
	return &sink->base;
}

Sink *
sink_device_rows_begin(SortEnv *env, Batch *batch, bool *allowed)
{
	DeviceRows *dev = rows_can_move(env, batch) ? device_rows_open(env, batch) : NULL;

	if (dev == NULL)
		return NULL;
	sort_env_note_memory(env, batch_held(batch));
	if (!move_rows(dev))
	{
		/* the host has them still, and key mode may do better */
		ereport(DEBUG1,
				(errmsg_internal("gpusort: rows stay on the host: %s",
								 dev->job->lost ? dev->job->why : "one is longer than a chunk")));
		device_rows_end(dev);
		*allowed = false;
		return NULL;
	}
	batch_free(batch, env->bulk);
	return sink_device_rows_create(env, batch, dev);
}
