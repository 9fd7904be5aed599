/*
 * rows.c
 *	  Row mode: rows are sent to a GPU and come back in order.
 *
 * A large sort in memory spends its time on memory that is touched for the first time while
 * rows are stored, and on a cache miss per row while they are returned.  In row mode a row is
 * copied once, from its page into a chunk of the pinned staging pool, which is small and stays
 * in the cache.  The chunk crosses the bus while the scan continues.  The device sorts and
 * gathers the rows, and they come back chunk by chunk, to be read sequentially.  The host
 * holds only the job's few chunks, and nothing is written to disk while devices have room.
 *
 * A sort begins in the host's arena.  When that reaches DEVICE_ROWS_AFTER or work_mem, its rows
 * are sent in input order, and the following rows go straight to the chunks.  Keys are laid
 * out before all rows are known: a column has the bits of its type, and a value for NULL where
 * one has come or where it costs nothing.  Where keys are not exact each row carries a mark of
 * its key, and row_ties.c resolves ties on the way back.
 *
 * Parts: when a job cannot grow, its sort is started and rows go to another job, on a device
 * that has room.  One device sorts while another is filled.  If none has room, the oldest part
 * becomes a run on disk, and its room is used for the next part.  At the end, parts on devices
 * are runs like those on disk: the merge reads them from there.  Parts follow the input order,
 * as runs do, and runs on disk precede parts on devices; that keeps the sort stable.  Parts are
 * not split by key range, as key mode does, because rows are streamed: the distribution of the
 * first rows is not that of all, and presorted input would fill one device after the other.
 *
 * Duplicates of a sort with distinct columns: where the keys are exact and many duplicates are
 * expected, each job drops the duplicates among its own rows, which check.c checks.  Equal rows
 * of different parts meet in the merge, which drops them.
 *
 * Draining: the devices' part of a sort ends early if there is no room anywhere, if a row is
 * longer than a chunk, or if a value has no place in the keys' layout.  If work_mem holds the
 * rows, they become rows of the batch; otherwise they become runs, and the sort continues as
 * an external sort.  A result that may be read with pauses is drained, too.
 *
 * Memory policy: the job's chunks.  Device memory grows with the rows (row_job.c).
 *
 * On error: the rows exist only on the device, so they are gone if it fails.  Row mode is used
 * only above plans that can be run again with the same rows in the same order
 * (SortSpec.can_rerun).  The node runs its child again and sorts on the CPU; rows that have
 * been returned are skipped.
 */
#include "postgres.h"

#include "gpu/job.h"
#include "gpu/row_mode.h"
#include "miscadmin.h"
#include "store/store.h"

/* A part's job has room for this multiple of the expected rows. */
#define PART_MARGIN			1.1

/* Open jobs of one sort, per device; other sorts need slots, too. */
#define PARTS_AT_ONCE		4

/* A part must have room for this share of the rows of the part before it. */
#define PART_LEAST			0.25

/* The first part must have room for this multiple of the rows so far. */
#define FIRST_LEAST			1.5

/* If there is no room, a part asks for this share of the rows that it asked for before. */
#define PART_LESS			0.9

/* Rows whose keys are packed at a time. */
#define SEND_BATCH			256

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */

/* Makes room for a row of size bytes in a chunk and in the job. */
static inline SinkAnswer
make_row_room(DeviceRows *dev, Size size)
{
	if (unlikely(dev->up.chunk == NULL || dev->up.rows == dev->up.max_rows ||
				 size > (Size) (dev->up.end - dev->up.next)))
	{
		SinkAnswer	result = device_rows_start_chunk(dev, size);

		if (result != SINK_TAKEN)
			return result;
	}
	if (unlikely(dev->sent.rows >= dev->spec.max_rows ||
				 (dev->sent.units << 3) + size > dev->spec.max_row_bytes))
		return device_rows_grow(dev, size);
	return SINK_TAKEN;
}

/* A row of size bytes has been written at dev->up.next: adds its key, mark, checksum and place. */
static inline void
add_row(DeviceRows *dev, Key128 key, Size size)
{
	if (dev->spec.key_width == 64)
		((uint64 *) dev->up.chunk)[dev->up.rows] = (uint64) key;
	else
		((Key128 *) dev->up.chunk)[dev->up.rows] = key;
	if (dev->marked)
	{
		Key128		marked = key >> dev->layout.bits_behind;

		row_set_mark(dev->up.next, (uint64) (marked >> 64), (uint64) marked);
		if (dev->spec.drop)
			dev->keys.sum += dev->spec.key_width == 64 ? key_hash(&dev->keys.secret, (uint64) key >> dev->keys.cut) :
				key_hash128(&dev->keys.secret, key >> dev->keys.cut);
	}
	((uint32 *) (dev->up.chunk + dev->up.words_at))[dev->up.rows] =
		(uint32) (dev->sent.units - dev->base);
	dev->sent.sum += row_set_checksum(dev->up.next, &dev->keys.secret);
	dev->up.rows++;
	dev->sent.rows++;
	dev->sent.units += size >> 3;
	dev->up.next += size;
}

SinkAnswer
sink_device_rows_put_slot(Sink *sink, TupleTableSlot *slot)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	const KeyBuffer *keybuf = &sink->batch->keybuf;
	RowForm		form;
	SinkAnswer	room;
	Key128		key;
	bool		fits;

	row_measure(sink->env->writer, slot, &form);
	fits = dev->spec.key_width == 64 ?
		device_row_key(&dev->layout, keybuf, &sink->env->keys, slot->tts_values, slot->tts_isnull, 64, &key,
					   &dev->sent.inexact) :
		device_row_key(&dev->layout, keybuf, &sink->env->keys, slot->tts_values, slot->tts_isnull, 128, &key,
					   &dev->sent.inexact);
	if (unlikely(!fits))
		return SINK_FULL;
	room = make_row_room(dev, form.room);
	if (unlikely(room != SINK_TAKEN))
	{
		if (room == SINK_FAILED)
			device_rows_fail(dev, NULL);
		return room;
	}
	add_row(dev, key, row_write(sink->env->writer, slot, &form, dev->up.next));
	return SINK_TAKEN;
}

/* Takes rows of a direct page while there is room. */
static SinkAnswer
put_direct_rows(DeviceRows *dev, RowPage *page, int *done)
{
	KeyBuffer  *keybuf = &dev->batch->keybuf;
	bool		wide = dev->spec.key_width == 128;
	char		keys[MaxHeapTuplesPerPage * sizeof(Key128)] pg_attribute_aligned(16);
	SinkAnswer	room = SINK_TAKEN;

	/* the key buffer is empty; only its arrays are used */
	Assert(keybuf->n == 0);
	keybuf_reserve(keybuf, dev->env->bulk, page->n);
	row_page_keys_to_buffer(page, 0, keybuf, &dev->env->keys, 0);
	for (int c = 0; c < keybuf->ncols; c++)
		dev->sent.inexact |= keybuf->cols[c].range.inexact;
	if (device_layout_holds(&dev->layout, keybuf))
	{
		pack_keys(keybuf, &dev->layout.layout, dev->spec.key_width, 0, page->n, keys);
		for (; *done < page->n; (*done)++)
		{
			Key128		key = wide ? ((Key128 *) keys)[*done] : ((uint64 *) keys)[*done];

			room = make_row_room(dev, row_page_room(page, *done));
			if (unlikely(room != SINK_TAKEN))
				break;
			add_row(dev, key, row_page_write(page, *done, dev->up.next));
		}
	}
	keybuf_forget(keybuf, page->n);
	return room;
}

SinkAnswer
sink_device_rows_put_page(Sink *sink, RowPage *page, int *done)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;
	SinkAnswer	answer = *done == 0 && page->direct ? put_direct_rows(dev, page, done) : SINK_TAKEN;

	if (unlikely(answer == SINK_FAILED))
		device_rows_fail(dev, NULL);
	return answer;
}

/* Sends the rows of the batch, in input order; false if one has no room, or the device failed. */
static bool
send_batch_rows(DeviceRows *dev)
{
	const KeyBuffer *keybuf = &dev->batch->keybuf;
	int			width = dev->spec.key_width;
	char		keys[SEND_BATCH * sizeof(Key128)] pg_attribute_aligned(16);

	for (size_t start = 0; start < keybuf->n; start += SEND_BATCH)
	{
		size_t		count = Min(SEND_BATCH, keybuf->n - start);

		pack_keys(keybuf, &dev->layout.layout, width, start, count, keys);
		CHECK_FOR_INTERRUPTS();
		for (size_t i = 0; i < count; i++)
		{
			MinimalTuple row = (MinimalTuple) arena_at(&dev->batch->arena, keybuf->rids[start + i]);
			Size		size = MAXALIGN(row->t_len);

			if (make_row_room(dev, size) != SINK_TAKEN)
				return false;
			memcpy(dev->up.next, row, size);
			add_row(dev, width == 64 ? ((uint64 *) keys)[i] : ((Key128 *) keys)[i], size);
		}
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Parts
 * ------------------------------------------------------------------------
 */

/* Closes the part that takes rows, and starts its sort. */
static void
close_part(DeviceRowsSink *sink)
{
	DeviceRows *dev = sink->dev;

	sink->dev = NULL;
	if (dev == NULL)
		return;
	if (dev->sent.rows == 0)
	{
		device_rows_end(dev, false);
		return;
	}
	dlist_push_tail(&sink->closed, &dev->part);
	sink->nclosed++;
	device_rows_start_sort(dev);
}

/* Writes the oldest part as a run; false if the device failed. */
static bool
oldest_to_run(DeviceRowsSink *sink, Runs *runs)
{
	DeviceRows *dev = dlist_head_element(DeviceRows, part, &sink->closed);
	bool		failed;

	device_rows_to_run(dev, runs);
	failed = dev->failed;
	dlist_delete(&dev->part);
	sink->nclosed--;
	/* the caller needs its room now */
	device_rows_end(dev, true);
	return !failed;
}

/* Creates a part without a job, for the rows that follow those of another part. */
static DeviceRows *
part_like(const DeviceRows *other)
{
	DeviceRows *dev = MemoryContextAllocZero(other->env->cxt, sizeof(DeviceRows));

	dev->env = other->env;
	dev->batch = other->batch;
	dev->most_rows = other->most_rows;
	dev->spec = other->spec;
	dev->facts = other->facts;
	dev->decision = other->decision;
	dev->layout = other->layout;
	dev->expected = Max(other->expected - other->sent.rows, 0);
	return dev;
}

/* Opens the part's job for this number of rows; for fewer, but at least for "least", if there is no room. */
static bool
open_part_job(DeviceRows *dev, double rows, double least, double row_bytes)
{
	DeviceState why = DEVICE_STATE_FULL;

	for (; rows >= least && why == DEVICE_STATE_FULL; rows *= PART_LESS)
	{
		if (device_rows_open_job(dev, rows, row_bytes, 0, &why))
			return true;
	}
	return false;
}

/* SinkMethods.next_part(). */
static SinkAnswer
device_rows_next_part(Sink *base, Runs *runs)
{
	DeviceRowsSink *sink = (DeviceRowsSink *) base;
	DeviceRows *full = sink->dev;
	double		rows = full->sent.rows;
	double		row_bytes = rows == 0 ? 0 : (full->sent.units << 3) / rows;
	SortReport *report = &full->env->report;
	DeviceRows *next;
	double		wanted;
	SinkAnswer	answer = SINK_FULL;

	if (!full->full || rows == 0)
		return SINK_FULL;
	next = part_like(full);
	wanted = Max(next->expected * PART_MARGIN, rows);
	if (sink->nclosed + 1 < PARTS_AT_ONCE * device_shared->ndevices &&
		open_part_job(next, wanted, rows * PART_LEAST, row_bytes))
		answer = SINK_TAKEN;
	/* a single part that memory holds stays open: the sorter drains it */
	if (answer == SINK_TAKEN || !dlist_is_empty(&sink->closed) || !device_rows_fit_memory(full, runs))
		close_part(sink);
	while (answer == SINK_FULL && !dlist_is_empty(&sink->closed))
		answer = !oldest_to_run(sink, runs) ? SINK_FAILED :
			open_part_job(next, wanted, rows * PART_LEAST, row_bytes) ? SINK_TAKEN : SINK_FULL;
	if (answer != SINK_TAKEN)
	{
		pfree(next);
		return answer;
	}
	sink->dev = next;
	report->parts += report->parts == 0 ? 2 : 1;
	return SINK_TAKEN;
}

/* SinkMethods.spill(): drains the devices to the host. */
static SinkAnswer
device_rows_drain(Sink *base, Runs *runs)
{
	DeviceRowsSink *sink = (DeviceRowsSink *) base;

	if (sink->dev != NULL && dlist_is_empty(&sink->closed) &&
		device_rows_fit_memory(sink->dev, runs))
	{
		device_rows_to_memory(sink->dev);
		return sink->dev->failed ? SINK_FAILED : SINK_TAKEN;
	}
	close_part(sink);
	while (!dlist_is_empty(&sink->closed))
	{
		if (!oldest_to_run(sink, runs))
			return SINK_FAILED;
	}
	return SINK_TAKEN;
}

/* SinkMethods.merge_parts(): the merge reads the parts from the devices. */
static void
device_rows_merge_parts(Sink *base, Runs *runs)
{
	DeviceRowsSink *sink = (DeviceRowsSink *) base;
	int			parts;

	if (runs->n == 0 && dlist_is_empty(&sink->closed))
		return;
	close_part(sink);
	parts = sink->nclosed;
	while (!dlist_is_empty(&sink->closed))
	{
		DeviceRows *dev = dlist_container(DeviceRows, part, dlist_pop_head_node(&sink->closed));

		dev->merged = parts;
		device_rows_to_source(dev, runs);
	}
}

static void
device_rows_sink_end(Sink *base)
{
	DeviceRowsSink *sink = (DeviceRowsSink *) base;

	while (!dlist_is_empty(&sink->closed))
		device_rows_end(dlist_container(DeviceRows, part, dlist_pop_head_node(&sink->closed)), false);
	if (sink->dev != NULL)
		device_rows_end(sink->dev, false);
	pfree(sink);
}

/* SinkMethods.finish() */
static SortResult *
device_rows_finish(Sink *sink, ResultSpace *space)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	((DeviceRowsSink *) sink)->dev = NULL;
	return result_device_rows_begin(&space->stream, sink->env, dev);
}

static const SinkMethods device_rows_methods = {
	.put_slot = sink_device_rows_put_slot,
	.put_page = sink_device_rows_put_page,
	.spill = device_rows_drain,
	.finish = device_rows_finish,
	.end = device_rows_sink_end,
	.next_part = device_rows_next_part,
	.merge_parts = device_rows_merge_parts
};

/* ------------------------------------------------------------------------
 * Beginning
 * ------------------------------------------------------------------------
 */

/* Rows that a job opened now would sort: those in the key buffer, and those still expected. */
static double
rows_expected(const SortEnv *env, const KeyBuffer *keybuf)
{
	double		rows_in = (double) env->progress.now->rows_in;

	return Max(env->rows_expected, 2.0 * rows_in) - (rows_in - (double) keybuf->n);
}

/* Opens a job for the batch's rows and the following ones; NULL if that does not pay. */
static DeviceRows *
open_rows(SortEnv *env, Batch *batch)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	double		n = keybuf->n;
	double		row_bytes = arena_used(&batch->arena) / n;
	double		rows = rows_expected(env, keybuf);
	double		ahead;
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));

	dev->env = env;
	dev->batch = batch;
	dev->most_rows = batch->max_rows;
	/* 4-byte keys travel in 8 bytes, with a value for NULL */
	if (device_layout_choose(&dev->layout, keybuf) &&
		device_route_rows(env, batch, &dev->layout, rows, &dev->facts, &dev->decision))
	{
		dev->spec.mode = DEVICE_ROWS;
		device_route_job(&dev->facts, &dev->decision, &dev->spec);
		dev->expected = rows;
		ahead = device_rows_ahead(dev, n, row_bytes);
		if (open_part_job(dev, ahead, Min(ahead, n * FIRST_LEAST), row_bytes))
			return dev;
	}
	pfree(dev);
	return NULL;
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
device_rows_begin(SortEnv *env, Batch *batch, bool *allowed)
{
	DeviceRows *dev;

	if (env->device_failed || device_state() != DEVICE_STATE_READY || batch->keybuf.n == 0 ||
		env->spec.can_rerun == NULL || !env->spec.can_rerun(env->spec.can_rerun_arg))
		return NULL;
	dev = open_rows(env, batch);
	if (dev == NULL)
		return NULL;
	sort_env_note_memory(env, batch_held(batch));
	if (!send_batch_rows(dev))
	{
		/* the batch still has all rows, and key mode may suit them */
		ereport(DEBUG1,
				(errmsg_internal("gpusort: rows stay on the host: %s",
								 dev->job->failed ? dev->job->why : "a row is longer than a chunk")));
		device_rows_end(dev, false);
		*allowed = false;
		return NULL;
	}
	return sink_device_rows_create(env, batch, dev);
}
