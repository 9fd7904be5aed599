/*
 * device_rows.c
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
 * (device_pause.c).
 *
 * On error: the rows exist only on the device, so a device that fails takes them
 * with it.  Record mode is therefore used only above plans that can be run again
 * with the same rows in the same order (node/rerun.c): the sort is then lost
 * (sorter->lost), and the node runs its child again and sorts on the CPU,
 * skipping the rows that were given out already.
 *
 * Each row travels with a checksum of its own (store/row_sum.h), which is checked when it
 * comes back, before anything of it is used; device_rows_down.c.
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

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */
void
device_rows_lost(Sorter *sorter)
{
	if (!sorter->lost)
	{
		device_note_failure(sorter, sorter->device_rows->decision.algorithm,
							sorter->device_rows->job->why);
		sorter->lost = true;
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

typedef enum PutResult
{
	PUT_DONE,
	PUT_FULL,					/* no place for it on the device */
	PUT_LOST
} PutResult;

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
static pg_noinline PutResult
start_chunk(Sorter *sorter, Size size)
{
	DeviceRows *dev = sorter->device_rows;

	if (size > device_shared->chunk_size - dev->rows_at)
		return PUT_FULL;
	device_rows_post(dev);
	return next_chunk(dev) ? PUT_DONE : PUT_LOST;
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
static pg_noinline PutResult
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
			return PUT_FULL;
		if (device_job_grow(dev->job, &dev->spec, wanted.max_rows, wanted.max_row_bytes))
			return PUT_DONE;
		if (dev->job->lost)
			return PUT_LOST;
		ahead = Min(ahead, n * DEVICE_ROWS_MARGIN);
	}
	return PUT_FULL;
}

/* Makes room for a row of size bytes in the chunk. */
static inline PutResult
make_room(Sorter *sorter, Size size)
{
	DeviceRows *dev = sorter->device_rows;

	if (unlikely(chunk_is_full(dev, size)))
	{
		PutResult	result = start_chunk(sorter, size);

		if (result != PUT_DONE)
			return result;
	}
	return unlikely(job_is_full(dev, size)) ? more_room(dev, size) : PUT_DONE;
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

bool
device_rows_put(Sorter *sorter, TupleTableSlot *slot)
{
	DeviceRows *dev = sorter->device_rows;
	RowForm		form;
	PutResult	room;
	Key128		key;

	if (unlikely(sorter->lost))
		return true;
	row_measure(sorter->writer, slot, &form);
	if (dev->spec.key_width == 64)
	{
		uint64		key64;

		if (unlikely(!device_row_key64(&dev->layout, &sorter->stage, slot->tts_values, slot->tts_isnull, &key64)))
			return device_rows_seal(sorter);
		key = key64;
	}
	else if (unlikely(!device_row_key(&dev->layout, &sorter->stage, slot->tts_values, slot->tts_isnull, &key)))
		return device_rows_seal(sorter);
	room = make_room(sorter, form.room);
	if (unlikely(room == PUT_LOST))
	{
		device_rows_lost(sorter);
		return true;
	}
	if (unlikely(room == PUT_FULL))
		return device_rows_seal(sorter);
	row_is_in(dev, key, row_write(sorter->writer, slot, &form, dev->next));
	return true;
}

int
device_rows_put_page(Sorter *sorter, PageScan *scan)
{
	DeviceRows *dev = sorter->device_rows;
	Stage	   *stage = &sorter->stage;
	bool		wide = dev->spec.key_width == 128;
	char		keys[MaxHeapTuplesPerPage * sizeof(Key128)] pg_attribute_aligned(16);
	int			done = 0;

	/* the stage is empty: it only lends its arrays */
	Assert(stage->n == 0);
	stage_reserve(stage, scan->n);
	page_scan_stage(scan, stage, 0);
	if (device_layout_holds(&dev->layout, stage))
	{
		pack_keys(stage, &dev->layout.layout, dev->spec.key_width, 0, scan->n, keys);
		for (; done < scan->n; done++)
		{
			Key128		key = wide ? ((Key128 *) keys)[done] : ((uint64 *) keys)[done];
			PutResult	room = make_room(sorter, page_scan_room(scan, done));

			if (unlikely(room == PUT_LOST))
				device_rows_lost(sorter);
			if (unlikely(room != PUT_DONE))
				break;
			row_is_in(dev, key, page_scan_write(scan, done, dev->next));
		}
	}
	stage_forget(stage, scan->n);
	return done;
}

/* The rows that the host has, in their order; false if the job fails. */
static bool
move_rows(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	Stage	   *stage = &sorter->stage;
	int			width = dev->spec.key_width;
	char		keys[256 * sizeof(Key128)] pg_attribute_aligned(16);

	for (size_t start = 0; start < stage->n; start += 256)
	{
		size_t		count = Min(256, stage->n - start);

		pack_keys(stage, &dev->layout.layout, width, start, count, keys);
		CHECK_FOR_INTERRUPTS();
		for (size_t i = 0; i < count; i++)
		{
			MinimalTuple row = (MinimalTuple) arena_at(&sorter->arena, stage->rids[start + i]);
			Size		size = MAXALIGN(row->t_len);

			if (make_room(sorter, size) != PUT_DONE)
				return false;
			memcpy(dev->next, row, size);
			row_is_in(dev, width == 64 ? ((uint64 *) keys)[i] : ((Key128 *) keys)[i], size);
		}
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Beginning
 * ------------------------------------------------------------------------
 */

/* Can rows be moved at all? */
static bool
rows_can_move(Sorter *sorter)
{
	if (!sorter->device_rows_allowed || sorter->report.device_failed ||
		device_state() != ROUTE_DEVICE_READY || sorter->stage.n == 0 || sorter->bound > 0)
		return false;
	/* the longest row must find room in a chunk beside its key */
	for (uint32 c = 0; c < sorter->arena.nowned; c++)
	{
		if (sorter->arena.chunks[c].buf.size > device_shared->chunk_size / 2 &&
			sorter->arena.chunks[c].buf.size > ARENA_CHUNK_SIZE)
			return false;
	}
	return sorter->spec.can_rerun != NULL && sorter->spec.can_rerun(sorter->spec.can_rerun_arg);
}

Size
device_rows_after(const Sorter *sorter)
{
	return sorter->device_rows_allowed && device_state() == ROUTE_DEVICE_READY ?
		Min(sorter->limit, DEVICE_ROWS_AFTER) : sorter->limit;
}

/*
 * Opens the job, for the rows that are here and some more or, if the device has no room
 * for so many, fewer.  NULL if it has none.
 */
static DeviceJob *
open_job(Sorter *sorter, DeviceRows *dev)
{
	double		n = sorter->stage.n;
	double		row_bytes = (double) arena_used(&sorter->arena) / n;
	double		rows = rows_ahead(dev, n, row_bytes);
	RouteDevice why;

	for (;;)
	{
		DeviceJob  *job;

		room_for(&dev->spec, rows, row_bytes);
		job = device_job_open(sorter->cxt, &dev->spec, device_job_bytes(&dev->spec),
							  DEVICE_JOB_CHUNKS, 0, &why);
		if (job != NULL || why != ROUTE_DEVICE_FULL || rows < 3 * n)
		{
			sorter->report.facts.device = why;
			return job;
		}
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

/* Tries it. */
static bool
begin(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	double		rows = device_rows_expected(sorter);
	DeviceRows *dev;

	if (!rows_can_move(sorter))
		return false;
	dev = MemoryContextAllocZero(sorter->cxt, sizeof(DeviceRows));
	/* 4-byte keys may as well take 8, and a place for NULL */
	if (!device_layout_choose(&dev->layout, stage, 64) ||
		!device_route_rows(sorter, &dev->layout.layout, dev->layout.key_width, rows,
						   &dev->facts, &dev->decision))
	{
		pfree(dev);
		return false;
	}
	dev->spec.mode = DEVICE_ROWS;
	device_route_job(&dev->facts, &dev->decision, &dev->spec);
	dev->expected = rows;
	dev->job = open_job(sorter, dev);
	if (dev->job == NULL)
	{
		pfree(dev);
		return false;
	}

	divide_chunk(dev, (double) arena_used(&sorter->arena) / stage->n);
	sorter->device_rows = dev;
	sorter_note_memory(sorter, 0);
	if (!move_rows(sorter))
	{
		/* the host has them still, and key mode may do better */
		ereport(DEBUG1,
				(errmsg_internal("gpusort: rows stay on the host: %s",
								 dev->job->lost ? dev->job->why : "one is longer than a chunk")));
		device_rows_end(sorter);
		sorter->device_rows_allowed = false;
		return false;
	}
	arena_free(&sorter->arena);
	stage_free(stage);
	for (int c = 0; c < stage->ncols; c++)
		key_range_union(&sorter->ranges[c], &dev->layout.ranges[c]);
	return true;
}

bool
device_rows_begin(Sorter *sorter)
{
	if (begin(sorter))
	{
		/* keys that went ahead of their rows */
		device_keys_end(sorter);
		sorter->send_at = SIZE_MAX;
		return true;
	}
	sorter->put_limit = sorter->limit;
	/* their keys may go */
	sorter->send_at = device_keys_after(sorter);
	return false;
}
