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
 * has been seen or where it costs nothing.
 *
 * The job's memory grows with what comes (device_job_grow); an estimate may be far off, and
 * others need the device, too.  The device's part of a sort ends early ("sealed": sorted, and brought back) when its
 * memory is full, when a row is longer than a chunk, or when a NULL has no place in the
 * keys.  If work_mem holds the rows, they are then as if they had just come in;
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
 * Each row travels with a checksum of its own (store/row_sum.h), which is checked when it
 * comes back, before anything of it is used; result_device_rows.c.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "settings.h"
#include "sort/device_rows.h"

/* Rows of a sort stay on the host up to this many bytes. */
#define DEVICE_ROWS_AFTER		((Size) 32 * 1024 * 1024)

/*
 * What a job has of the device follows what has come: at first so many bytes more, or
 * as many again, and so on.  An estimate only makes that less, with some room
 * beyond it, as it may be a bit off.
 */
#define DEVICE_ROWS_STEP		((Size) 8 * 1024 * 1024)
#define DEVICE_ROWS_MARGIN		1.25

static inline void
put_key(char *chunk, int width, uint32 i, Key128 key)
{
	if (width == 64)
		((uint64 *) chunk)[i] = (uint64) key;
	else
		((Key128 *) chunk)[i] = key;
}

typedef struct DeviceRowsSink
{
	Sink		base;
	DeviceRows *dev;			/* NULL: handed on */
} DeviceRowsSink;

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */
void
device_rows_lost(DeviceRows *dev)
{
	if (!dev->lost)
	{
		device_note_failure(dev->env, dev->decision.algorithm, dev->job->why);
		dev->lost = true;
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

/* Room for a row of size bytes in a new chunk. */
static pg_noinline SinkAnswer
start_chunk(DeviceRows *dev, Size size)
{
	if (size > device_shared->chunk_size - dev->rows_at)
		return SINK_FULL;
	device_rows_post(dev);
	if (next_chunk(dev))
		return SINK_TAKEN;
	return SINK_LOST;
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

/*
 * The room that n rows make the job ask for, in spec's max_rows and max_row_bytes.  Row
 * places are 32-bit numbers of 8-byte units.
 */
static void
room_for(DeviceJobSpec *spec, double n, double row_bytes)
{
	spec->max_rows = Min(round_size(n), PG_UINT32_MAX - 1);
	spec->max_row_bytes = Min(round_size(n * row_bytes), (UINT64CONST(8) << 32) - 8);
}

/* Rows to make room for when n have come. */
static double
rows_ahead(const DeviceRows *dev, double n, double row_bytes)
{
	double		ahead = n + Max(n, DEVICE_ROWS_STEP / row_bytes);

	return n < dev->expected ? Min(ahead, dev->expected * DEVICE_ROWS_MARGIN) : ahead;
}

/* The job is full: asks for more room, for a row of this size at least. */
static pg_noinline SinkAnswer
more_room(DeviceRows *dev, Size size)
{
	double		n = dev->rows + 1;
	double		row_bytes = ((dev->units << 3) + size) / n;
	double		ahead = rows_ahead(dev, n, row_bytes);

	for (int i = 0; i < 2; i++)
	{
		DeviceJobSpec wanted = dev->spec;

		room_for(&wanted, ahead, row_bytes);
		wanted.max_rows = Max(wanted.max_rows, dev->spec.max_rows);
		wanted.max_row_bytes = Max(wanted.max_row_bytes, dev->spec.max_row_bytes);
		if (wanted.max_rows < n || wanted.max_row_bytes < (dev->units << 3) + size)
			return SINK_FULL;
		if (device_job_grow(dev->job, &dev->spec, wanted.max_rows, wanted.max_row_bytes))
		{
			device_show_job(dev->env, &dev->decision, &dev->spec);
			return SINK_TAKEN;
		}
		if (dev->job->lost)
			return SINK_LOST;
		ahead = Min(ahead, n * DEVICE_ROWS_MARGIN);
	}
	return SINK_FULL;
}

/* Makes room for a row of size bytes in the chunk. */
static inline SinkAnswer
make_room(DeviceRows *dev, Size size)
{
	if (unlikely(chunk_is_full(dev, size)))
	{
		SinkAnswer	result = start_chunk(dev, size);

		if (result != SINK_TAKEN)
			return result;
	}
	return unlikely(job_is_full(dev, size)) ? more_room(dev, size) : SINK_TAKEN;
}

/* The row was written at dev->next; counts it in. */
static inline void
row_is_in(DeviceRows *dev, Key128 key, Size size)
{
	put_key(dev->chunk, dev->spec.key_width, dev->chunk_rows, key);
	((uint32 *) (dev->chunk + dev->words_at))[dev->chunk_rows] = (uint32) dev->units;
	dev->sum += row_seal(dev->next);
	dev->chunk_rows++;
	dev->rows++;
	dev->units += size >> 3;
	dev->next += size;
}

static SinkAnswer
device_rows_put_slot(Sink *sink, TupleTableSlot *slot)
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

		if (unlikely(!device_row_key64(&dev->layout, stage, slot->tts_values, slot->tts_isnull, &key64)))
			return SINK_FULL;
		key = key64;
	}
	else if (unlikely(!device_row_key(&dev->layout, stage, slot->tts_values, slot->tts_isnull, &key)))
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
	stage_reserve(stage, page->n);
	row_page_stage(page, 0, stage, 0);
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

static SinkAnswer
device_rows_put_page(Sink *sink, RowPage *page, int *done)
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
void
device_rows_end(DeviceRows *dev)
{
	device_job_close(dev->job);
	dev->env->progress.now->device = 0;
	pfree(dev);
}

static SinkAnswer
device_rows_spill(Sink *sink, Runs *runs)
{
	return device_rows_seal(((DeviceRowsSink *) sink)->dev, runs);
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
	DeviceRows *dev = ((DeviceRowsSink *) sink)->dev;

	if (dev != NULL)
		device_rows_end(dev);
	pfree(sink);
}

static const SinkMethods device_rows_methods = {
	.put_slot = device_rows_put_slot,
	.put_page = device_rows_put_page,
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

/*
 * Opens the job, for the rows that are here and some more or, if the device has no room
 * for so many, fewer.  NULL if it has none.
 */
static DeviceJob *
open_job(DeviceRows *dev)
{
	double		n = dev->batch->stage.n;
	double		row_bytes = (double) arena_used(&dev->batch->arena) / n;
	double		rows = rows_ahead(dev, n, row_bytes);
	DeviceState why;

	for (;;)
	{
		DeviceJob  *job;

		room_for(&dev->spec, rows, row_bytes);
		job = device_job_open(dev->env->cxt, &dev->spec, device_job_bytes(&dev->spec),
							  DEVICE_JOB_CHUNKS, 0, &why);
		if (job != NULL || why != DEVICE_STATE_FULL || rows < 3 * n)
			return job;
		rows /= 2;
	}
}

/* Where a chunk's parts are. */
static void
divide_chunk(DeviceRows *dev, double row_bytes)
{
	dev->max_chunk_rows = (uint32) ((device_shared->chunk_size - 2 * DEVICE_PART_ALIGN) /
									(row_bytes + dev->spec.key_width / 8 + sizeof(uint32)));
	dev->max_chunk_rows = Max(dev->max_chunk_rows, 1);
	dev->words_at = device_part(dev->max_chunk_rows * (dev->spec.key_width / 8));
	dev->rows_at = device_part(dev->words_at + dev->max_chunk_rows * sizeof(uint32));
}

/* Opens a job if that pays. */
static DeviceRows *
open_rows(SortEnv *env, Batch *batch)
{
	Stage	   *stage = &batch->stage;
	double		rows = device_rows_expected(env, stage);
	DeviceRows *dev = MemoryContextAllocZero(env->cxt, sizeof(DeviceRows));

	dev->env = env;
	dev->batch = batch;
	/* 4-byte keys may as well take 8, and a place for NULL */
	if (device_layout_choose(&dev->layout, stage, 64) &&
		device_route_rows(env, batch, &dev->layout.layout, dev->layout.key_width, rows,
						  &dev->facts, &dev->decision))
	{
		dev->spec.mode = DEVICE_ROWS;
		device_route_job(&dev->facts, &dev->decision, &dev->spec);
		dev->expected = rows;
		dev->job = open_job(dev);
	}
	if (dev->job != NULL)
	{
		device_show_job(env, &dev->decision, &dev->spec);
		return dev;
	}
	pfree(dev);
	return NULL;
}

Sink *
sink_device_rows_begin(SortEnv *env, Batch *batch, bool *allowed)
{
	DeviceRows *dev = rows_can_move(env, batch) ? open_rows(env, batch) : NULL;
	DeviceRowsSink *sink;

	if (dev == NULL)
		return NULL;
	divide_chunk(dev, (double) arena_used(&batch->arena) / batch->stage.n);
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
	batch_free(batch);
	sink = MemoryContextAllocZero(env->cxt, sizeof(DeviceRowsSink));
	sink->base.methods = &device_rows_methods;
	sink->base.env = env;
	sink->base.batch = batch;
	sink->dev = dev;
	return &sink->base;
}
