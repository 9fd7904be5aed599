/*
 * rows.c
 *	  Row mode: rows are sent to a GPU and come back in order.
 *
 * The job's memory grows with what comes (device_job_grow): an estimate may be far off,
 * and others need the device, too.
 */
#include "postgres.h"

#include "gpu/gpu_internal.h"
#include "miscadmin.h"
#include "settings.h"
#include "store/row.h"

static SinkAnswer device_rows_next_part(DeviceRowsSink *sink, Runs *runs);
static SinkAnswer device_rows_drain(DeviceRowsSink *sink, Runs *runs);
static void device_rows_merge(DeviceRowsSink *sink, Runs *runs);
static void device_rows_parts_end(DeviceRowsSink *sink);

void
device_rows_fail(DeviceRows *dev)
{
	if (!dev->failed)
	{
		/* of several backends' rows the owner of the job notes it */
		if (!dev->producers_of)
			device_note_failure(dev->env, dev->decision.algorithm, dev->job->why);
		dev->failed = true;
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
	dev->base = dev->producers_of ? dev->units : 0;
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

static SinkAnswer
device_rows_start_chunk(DeviceRows *dev, Size size)
{
	if (size > device_shared->chunk_size - dev->rows_at)
		return SINK_FULL;
	device_rows_post(dev);
	if (next_chunk(dev))
		return SINK_TAKEN;
	return SINK_FAILED;
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

/* A new chunk, for a row of size bytes; more room in a job that is full, for such a row at least. */
static SinkAnswer
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
		if (dev->job->failed)
			return SINK_FAILED;
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

/* Opens the job, with room for so many rows of that size; false if there is none. */
static bool
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
	double		n = dev->batch->keybuf.n;
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

/* Opens a job for the batch's rows and those to come, if that pays; NULL if not. */
static DeviceRows *
device_rows_open(SortEnv *env, Batch *batch)
{
	KeyBuffer	   *keybuf = &batch->keybuf;
	double		rows = device_rows_expected(env, keybuf);
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));

	dev->env = env;
	dev->batch = batch;
	/* 4-byte keys may as well take 8, and a place for NULL */
	if (device_layout_choose(&dev->layout, keybuf, 64) &&
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
	resolver_end(dev);
	device_job_return(dev->job);
	show(dev, 0);
	pfree(dev);
}

void
device_rows_end(DeviceRows *dev)
{
	resolver_end(dev);
	device_job_close(dev->job);
	show(dev, 0);
	pfree(dev);
}

/* ------------------------------------------------------------------------
 * Record mode: the rows themselves go to the device, and come back in order.
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
 * ------------------------------------------------------------------------
 */

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
	const KeyBuffer *keybuf = &sink->batch->keybuf;
	RowForm		form;
	SinkAnswer	room;
	Key128		key;

	row_measure(sink->env->writer, slot, &form);
	if (dev->spec.key_width == 64)
	{
		uint64		key64;

		if (unlikely(!device_row_key64(&dev->layout, keybuf, &sink->env->keys, slot->tts_values,
									   slot->tts_isnull, &key64)))
			return SINK_FULL;
		key = key64;
	}
	else if (unlikely(!device_row_key(&dev->layout, keybuf, &sink->env->keys, slot->tts_values,
									  slot->tts_isnull, &key)))
		return SINK_FULL;
	room = make_room(dev, form.room);
	if (unlikely(room != SINK_TAKEN))
	{
		if (room == SINK_FAILED)
			device_rows_fail(dev);
		return room;
	}
	row_is_in(dev, key, row_write(sink->env->writer, slot, &form, dev->next));
	return SINK_TAKEN;
}

/* Takes rows of a direct page as far as there is room for them. */
static SinkAnswer
put_direct(DeviceRows *dev, RowPage *page, int *done)
{
	KeyBuffer	   *keybuf = &dev->batch->keybuf;
	bool		wide = dev->spec.key_width == 128;
	char		keys[MaxHeapTuplesPerPage * sizeof(Key128)] pg_attribute_aligned(16);
	SinkAnswer	room = SINK_TAKEN;

	/* the stage is empty: it only lends its arrays */
	Assert(keybuf->n == 0);
	keybuf_reserve(keybuf, dev->env->bulk, page->n);
	row_page_keys_to_buffer(page, 0, keybuf, &dev->env->keys, 0);
	if (device_layout_holds(&dev->layout, keybuf))
	{
		pack_keys(keybuf, &dev->layout.layout, dev->spec.key_width, 0, page->n, keys);
		for (; *done < page->n; (*done)++)
		{
			Key128		key = wide ? ((Key128 *) keys)[*done] : ((uint64 *) keys)[*done];

			room = make_room(dev, row_page_room(page, *done));
			if (unlikely(room != SINK_TAKEN))
				break;
			row_is_in(dev, key, row_page_write(page, *done, dev->next));
		}
	}
	keybuf_forget(keybuf, page->n);
	return room;
}

SinkAnswer
sink_device_rows_put_page(Sink *sink, RowPage *page, int *done)
{
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	if (*done == 0 && page->direct)
	{
		SinkAnswer	answer = put_direct(dev, page, done);

		if (unlikely(answer == SINK_FAILED))
			device_rows_fail(dev);
		if (unlikely(answer != SINK_TAKEN))
			return answer;
	}
	return sink_put_rows(sink, page, done);
}

/* The rows that the host has, in their order; false if the job fails. */
static bool
move_rows(DeviceRows *dev)
{
	const KeyBuffer *keybuf = &dev->batch->keybuf;
	int			width = dev->spec.key_width;
	char		keys[256 * sizeof(Key128)] pg_attribute_aligned(16);

	for (size_t start = 0; start < keybuf->n; start += 256)
	{
		size_t		count = Min(256, keybuf->n - start);

		pack_keys(keybuf, &dev->layout.layout, width, start, count, keys);
		CHECK_FOR_INTERRUPTS();
		for (size_t i = 0; i < count; i++)
		{
			MinimalTuple row = (MinimalTuple) arena_at(&dev->batch->arena, keybuf->rids[start + i]);
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
	return device_rows_drain((DeviceRowsSink *) sink, runs);
}

static SinkAnswer
sink_device_rows_next_part(Sink *sink, Runs *runs)
{
	return device_rows_next_part((DeviceRowsSink *) sink, runs);
}

static void
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
	.end = device_rows_sink_end,
	.next_part = sink_device_rows_next_part,
	.merge_parts = sink_device_rows_merge
};

/* ------------------------------------------------------------------------
 * Beginning
 * ------------------------------------------------------------------------
 */

/* Can rows be moved at all? */
static bool
rows_can_move(const SortEnv *env, const Batch *batch)
{
	const Arena *arena = &batch->arena;

	if (env->device_failed || device_state() != DEVICE_STATE_READY || batch->keybuf.n == 0)
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
device_rows_after(const SortEnv *env)
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
device_rows_begin(SortEnv *env, Batch *batch, bool *allowed)
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
								 dev->job->failed ? dev->job->why : "one is longer than a chunk")));
		device_rows_end(dev);
		*allowed = false;
		return NULL;
	}
	batch_free(batch, env->bulk);
	return sink_device_rows_create(env, batch, dev);
}

/* ------------------------------------------------------------------------
 * Record mode in parts: rows that are more than one job, or one device, has room for.
 *
 * Parts are made by arrival.  When a job can have no more room, it is asked for its sort and
 * rows go on to another: on whichever device has room for a part that is worth its while, so
 * that one device sorts while another is filled.  If none has, the oldest part becomes a run
 * on disk as soon as it is sorted, and its room is the next part's.  At the end the parts that
 * are still on devices are runs as those on disk are, read from there as the merge of runs
 * (sort/runs) needs them: so no more is written to disk than devices have no room for.
 *
 * Why by arrival and not by range, as keys go: rows are streamed, and what splits them evenly is
 * known of the first ones alone; a table in the order of its keys would fill one device after
 * the other and find no room.  The price is the merge, in the host, one row after the other.
 * Against that stand a sort on the CPU and, for each byte that it would write and read again,
 * disk; route/gpu_model.c weighs them.  Runs do not go back to a device to be merged:
 * bench/GPU-NOTES.md.
 *
 * Runs are in the order of arrival, and so are parts: those on disk came before those on
 * devices.  Equal rows stay in their order by that alone.
 *
 * On error: as in one part.  A part on disk is safe; one that is lost with a device takes the
 * sort with it, and the child is run again, on the CPU.
 * ------------------------------------------------------------------------
 */

/* Room beyond what is expected, as that may be a bit off. */
#define PART_MARGIN			1.1

/* Jobs that a sort has open at once, for each device; others want slots, too. */
#define PARTS_AT_ONCE		4

/* A part has room for this much of the rows of the one before, or others make room first. */
#define PART_LEAST			0.25

/* ... and when that is not enough, less room is asked for. */
#define PART_LESS			0.9

/* The part that rows go to takes no more. */
static void
close_part(DeviceRowsSink *sink)
{
	DeviceRows *dev = sink->dev;

	sink->dev = NULL;
	if (dev == NULL)
		return;
	if (dev->rows == 0)
	{
		device_rows_end(dev);
		return;
	}
	dlist_push_tail(&sink->closed, &dev->part);
	sink->nclosed++;
	device_rows_ask(dev);
}

/* The oldest part becomes a run; false if it is lost. */
static bool
oldest_to_run(DeviceRowsSink *sink, Runs *runs)
{
	DeviceRows *dev = dlist_head_element(DeviceRows, part, &sink->closed);
	bool		failed;

	device_rows_to_run(dev, runs);
	failed = dev->failed;
	dlist_delete(&dev->part);
	sink->nclosed--;
	/* its room is wanted */
	device_rows_return(dev);
	return !failed;
}

/* A part for rows as those of another, without a job. */
static DeviceRows *
part_like(const DeviceRows *other)
{
	DeviceRows *dev = MemoryContextAllocZero(other->env->cxt, sizeof(DeviceRows));

	dev->env = other->env;
	dev->batch = other->batch;
	dev->spec = other->spec;
	dev->facts = other->facts;
	dev->decision = other->decision;
	dev->layout = other->layout;
	dev->expected = Max(other->expected - other->rows, 0);
	return dev;
}

/*
 * Opens the part's job for what is expected or, if that is unknown, for as many rows as the
 * part before had; of as much of that as there is room for.
 */
static bool
open_part(DeviceRows *dev, double rows_before, double row_bytes)
{
	double		rows = Max(dev->expected * PART_MARGIN, rows_before);
	DeviceState why;

	for (; rows >= rows_before * PART_LEAST; rows *= PART_LESS)
	{
		if (device_rows_open_job(dev, rows, row_bytes, &why))
			return true;
		if (why != DEVICE_STATE_FULL)
			return false;
	}
	return false;
}

/* device_rows_parts.c: rows go on to another part; FULL: to none, what there is must be sealed. */
static SinkAnswer
device_rows_next_part(DeviceRowsSink *sink, Runs *runs)
{
	DeviceRows *full = sink->dev;
	double		rows = full->rows;
	double		row_bytes = rows == 0 ? 0 : (full->units << 3) / rows;
	SortReport *report = &full->env->report;
	DeviceRows *next;
	bool		opened;

	if (!full->full || rows == 0)
		return SINK_FULL;
	next = part_like(full);
	opened = sink->nclosed + 1 < PARTS_AT_ONCE * device_shared->ndevices &&
		open_part(next, rows, row_bytes);
	if (!opened && dlist_is_empty(&sink->closed) && device_rows_fit_memory(full, runs))
	{
		pfree(next);
		return SINK_FULL;
	}
	close_part(sink);
	while (!opened && !dlist_is_empty(&sink->closed))
	{
		if (!oldest_to_run(sink, runs))
		{
			pfree(next);
			return SINK_FAILED;
		}
		opened = open_part(next, rows, row_bytes);
	}
	if (!opened)
	{
		pfree(next);
		return SINK_FULL;
	}
	sink->dev = next;
	report->parts += report->parts == 0 ? 2 : 1;
	return SINK_TAKEN;
}

/* The devices' part ends: all become runs, or a single part's rows the batch's.  Not FULL. */
static SinkAnswer
device_rows_drain(DeviceRowsSink *sink, Runs *runs)
{
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

/* All rows are in: parts, if there are several or runs before them, are runs where they lie. */
static void
device_rows_merge(DeviceRowsSink *sink, Runs *runs)
{
	int			parts;

	if (runs->n == 0 && dlist_is_empty(&sink->closed))
		return;
	close_part(sink);
	parts = sink->nclosed;
	while (!dlist_is_empty(&sink->closed))
	{
		DeviceRows *dev = dlist_container(DeviceRows, part, dlist_pop_head_node(&sink->closed));

		dev->merged = parts;
		device_rows_stay(dev, runs);
	}
}

/* Ends those that have not been handed on. */
static void
device_rows_parts_end(DeviceRowsSink *sink)
{
	while (!dlist_is_empty(&sink->closed))
		device_rows_end(dlist_container(DeviceRows, part, dlist_pop_head_node(&sink->closed)));
	if (sink->dev != NULL)
		device_rows_end(sink->dev);
	sink->dev = NULL;
}
