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
 * The device's part of a sort ends early ("sealed": sorted, brought back, and
 * written as a run like any other) when its memory is full, when a row is longer
 * than a chunk, or when a NULL has no place in the keys.  The sort then goes on as
 * one that has spilled.
 *
 * On error: the rows exist only on the device, so a device that fails takes them
 * with it.  Record mode is therefore used only above plans that can be run again
 * with the same rows in the same order (plan/rerun.c): the sort is then lost
 * (sorter->lost), and the node runs its child again and sorts on the CPU,
 * skipping the rows that were given out already.
 *
 * Verification (gpusort.verify): the sealed result is checked while it is
 * brought back to a run, before its first row is given out: keys in order, and
 * a sum over all rows' hashes the same as on the way in.  Equal rows' order cannot
 * be checked from the rows alone.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "device/client.h"
#include "miscadmin.h"
#include "node/device_sort.h"
#include "route/gpu_model.h"
#include "settings.h"

/* Rows of a sort stay on the host up to this many bytes. */
#define DEVICE_ROWS_AFTER		((Size) 32 * 1024 * 1024)

/* Room beyond what is expected, so that an estimate may be a bit off. */
#define DEVICE_ROWS_MARGIN		1.25

#define ROWS_PER_INTERRUPT_CHECK	4096

typedef struct DeviceRows
{
	DeviceJob  *job;
	DeviceJobSpec spec;
	KeyLayout	layout;
	KeyRange	ranges[STAGE_MAX_COLUMNS];	/* that the layout was made for */
	bool		sorted;			/* device_job_sort() was asked for */

	/* the chunk being filled */
	char	   *chunk;			/* NULL: none yet */
	uint32		chunk_rows;		/* in it so far */
	uint32		max_chunk_rows;
	uint32		words_at;
	uint32		rows_at;
	char	   *next;			/* the row to come goes here */
	char	   *end;

	uint64		rows;			/* all so far */
	uint64		units;			/* of 8 bytes, all so far */
	uint64		checksum;		/* with gpusort.verify */

	/* on the way back */
	bool		holding;		/* a chunk is being read */
	uint64		given;			/* rows of chunks before it */
	uint32		holding_rows;
} DeviceRows;

/* ------------------------------------------------------------------------
 * Layout
 * ------------------------------------------------------------------------
 */

/* All that a column's type can hold. */
static void
type_range(const StageColumn *col, KeyRange *range)
{
	range->min = 0;
	range->max = col->wide ? PG_UINT64_MAX : PG_UINT32_MAX;
	range->has_null = col->range.has_null;
}

/* The width in which total_bits travel. */
static int
width_of(int total_bits)
{
	return total_bits <= 32 ? 32 : total_bits <= 64 ? 64 : 128;
}

/* False if 128 bits do not hold the key. */
static bool
choose_layout(const Stage *stage, DeviceRows *dev)
{
	int			width;

	for (int c = 0; c < stage->ncols; c++)
		type_range(&stage->cols[c], &dev->ranges[c]);
	key_layout(&dev->layout, stage, dev->ranges);
	if (!dev->layout.exact)
		return false;

	/* a bit for NULL where it costs nothing; 4-byte keys may as well take 8 */
	width = Max(64, width_of(dev->layout.total_bits));
	for (int c = 0; c < stage->ncols; c++)
	{
		if (!dev->ranges[c].has_null && dev->layout.total_bits < width)
		{
			dev->ranges[c].has_null = true;
			key_layout(&dev->layout, stage, dev->ranges);
		}
	}
	Assert(dev->layout.total_bits <= width);
	dev->spec.key_width = width;
	dev->spec.key_bits = dev->layout.total_bits;
	return true;
}

/* One row's key; false if it has no place in the layout. */
static inline bool
row_key(const Stage *stage, const DeviceRows *dev, const Datum *values,
		const bool *isnull, Key128 *key)
{
	Key128		acc = 0;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		const LayoutColumn *lc = &dev->layout.cols[c];

		if (unlikely(isnull[col->att]))
		{
			if (!dev->ranges[c].has_null)
				return false;
			acc = (acc << lc->bits) | lc->null_value;
		}
		else
			acc = (acc << lc->bits) |
				((Key128) key_image(col->kind, col->flip, values[col->att]) + lc->add);
	}
	*key = acc;
	return true;
}

/* The same where 64 bits hold the key. */
static inline bool
row_key64(const Stage *stage, const DeviceRows *dev, const Datum *values,
		  const bool *isnull, uint64 *key)
{
	uint64		acc = 0;

	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		const LayoutColumn *lc = &dev->layout.cols[c];
		uint64		v;

		if (unlikely(isnull[col->att]))
		{
			if (!dev->ranges[c].has_null)
				return false;
			v = (uint64) lc->null_value;
		}
		else
			v = key_image(col->kind, col->flip, values[col->att]) + lc->add;
		/* a column of 64 bits is the only one */
		acc = c == 0 ? v : (acc << lc->bits) | v;
	}
	*key = acc;
	return true;
}

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
static void
rows_lost(Sorter *sorter)
{
	if (!sorter->lost)
	{
		device_note_failure(sorter, sorter->device_rows->job->why);
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

static void
post_chunk(DeviceRows *dev)
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

/* Is there anything to do before a row of size bytes can be written? */
static inline bool
no_room(const DeviceRows *dev, Size size)
{
	return dev->chunk == NULL || dev->chunk_rows == dev->max_chunk_rows ||
		size > (Size) (dev->end - dev->next) ||
		dev->rows >= dev->spec.max_rows ||
		(dev->units << 3) + size > dev->spec.max_row_bytes;
}

/* Makes room for a row of size bytes in the chunk. */
static PutResult
make_room(Sorter *sorter, Size size)
{
	DeviceRows *dev = sorter->device_rows;

	if (dev->chunk == NULL || dev->chunk_rows == dev->max_chunk_rows ||
		size > (Size) (dev->end - dev->next))
	{
		if (size > device_shared->chunk_size - dev->rows_at)
			return PUT_FULL;
		post_chunk(dev);
		if (!next_chunk(dev))
			return PUT_LOST;
	}
	if (dev->rows + 1 > dev->spec.max_rows ||
		(dev->units << 3) + size > dev->spec.max_row_bytes)
		return PUT_FULL;
	return PUT_DONE;
}

/* The row was written at dev->next; counts it in. */
static inline void
row_is_in(DeviceRows *dev, Key128 key, Size size)
{
	put_key(dev->chunk, dev->spec.key_width, dev->chunk_rows, key);
	((uint32 *) (dev->chunk + dev->words_at))[dev->chunk_rows] = (uint32) dev->units;
	if (unlikely(gpusort_verify))
		dev->checksum += hash_bytes_extended((unsigned char *) dev->next,
											 ((MinimalTuple) dev->next)->t_len, 0);
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
	Size		size;
	Key128		key;

	if (unlikely(sorter->lost))
		return true;
	row_measure(slot, &form);
	size = MAXALIGN(form.len);
	if (dev->spec.key_width == 64)
	{
		uint64		key64;

		if (unlikely(!row_key64(&sorter->stage, dev, slot->tts_values, slot->tts_isnull, &key64)))
			return device_rows_seal(sorter);
		key = key64;
	}
	else if (unlikely(!row_key(&sorter->stage, dev, slot->tts_values, slot->tts_isnull, &key)))
		return device_rows_seal(sorter);
	if (unlikely(no_room(dev, size)))
	{
		PutResult	result = make_room(sorter, size);

		if (result == PUT_LOST)
		{
			rows_lost(sorter);
			return true;
		}
		if (result == PUT_FULL)
			return device_rows_seal(sorter);
	}
	row_write(slot, &form, (MinimalTuple) dev->next);
	row_is_in(dev, key, size);
	return true;
}

/* Puts a row that is a tuple on its page. */
static PutResult
put_tuple(Sorter *sorter, const PageScan *scan, int i, Key128 key)
{
	DeviceRows *dev = sorter->device_rows;
	Size		size = MAXALIGN(page_scan_len(scan, i));

	if (unlikely(no_room(dev, size)))
	{
		PutResult	result = make_room(sorter, size);

		if (result != PUT_DONE)
			return result;
	}
	page_scan_write(scan, i, dev->next);
	row_is_in(dev, key, size);
	return PUT_DONE;
}

int
device_rows_put_page(Sorter *sorter, PageScan *scan)
{
	DeviceRows *dev = sorter->device_rows;
	Stage	   *stage = &sorter->stage;
	bool		wide = dev->spec.key_width == 128;
	char		keys[MaxHeapTuplesPerPage * sizeof(Key128)] pg_attribute_aligned(16);
	int			done = 0;
	bool		null_without_place = false;

	/* the stage is empty: it only lends its arrays */
	Assert(stage->n == 0);
	stage_reserve(stage, scan->n);
	page_scan_stage(scan, stage, 0);
	for (int c = 0; c < stage->ncols; c++)
		null_without_place |= stage->cols[c].range.has_null && !dev->ranges[c].has_null;
	if (!null_without_place)
	{
		pack_keys(stage, &dev->layout, dev->spec.key_width, 0, scan->n, keys);
		for (; done < scan->n; done++)
		{
			Key128		key = wide ? ((Key128 *) keys)[done] : ((uint64 *) keys)[done];
			PutResult	result = put_tuple(sorter, scan, done, key);

			if (unlikely(result == PUT_LOST))
				rows_lost(sorter);
			if (unlikely(result != PUT_DONE))
				break;
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

		pack_keys(stage, &dev->layout, width, start, count, keys);
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

/* A size that many sorts share, so that the device's memory can be used again. */
static uint64
round_size(double size)
{
	uint64		step = UINT64CONST(1) << 16;

	while (step * 8 < size)
		step *= 2;
	return ((uint64) size + step - 1) / step * step;
}

static bool
rows_wanted(Sorter *sorter)
{
	const char *forced = gpusort_forced_algorithm();
	const Stage *stage = &sorter->stage;

	if (!sorter->device_rows_allowed || sorter->report.device_failed ||
		device_state() != ROUTE_DEVICE_READY || stage->n == 0 || sorter->bound > 0 ||
		(forced != NULL && (gpu_route_kernel(forced) == NULL || device_algorithm(forced) < 0)))
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

bool
device_rows_begin(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	const char *forced = gpusort_forced_algorithm();
	DeviceRows *dev;
	double		row_bytes;
	double		rows;
	RouteDevice why;

	if (!rows_wanted(sorter))
		goto refuse;
	dev = MemoryContextAllocZero(sorter->cxt, sizeof(DeviceRows));
	dev->spec.mode = DEVICE_ROWS;
	dev->spec.algorithm = forced != NULL ? device_algorithm(forced) : -1;
	dev->spec.fault = device_fault_ordered();
	if (!choose_layout(stage, dev))
	{
		pfree(dev);
		goto refuse;
	}

	row_bytes = (double) arena_used(&sorter->arena) / stage->n;
	rows = Max(sorter->rows_expected, 2.0 * stage->n) * DEVICE_ROWS_MARGIN;
	/* row places are 32-bit numbers of 8-byte units */
	rows = Min(rows, Min(32.0 * 1024 * 1024 * 1024 / row_bytes, PG_UINT32_MAX - 1));
	for (;;)
	{
		dev->spec.max_rows = Min(round_size(rows), PG_UINT32_MAX - 1);
		dev->spec.max_row_bytes = Min(round_size(rows * row_bytes), (UINT64CONST(8) << 32) - 8);
		dev->job = device_job_open(sorter->cxt, &dev->spec, device_job_bytes(&dev->spec),
								   DEVICE_JOB_CHUNKS, 0, &why);
		if (dev->job != NULL || why != ROUTE_DEVICE_FULL || rows < 3.0 * stage->n)
			break;
		rows /= 2;
	}
	if (dev->job == NULL)
	{
		pfree(dev);
		sorter->report.facts.device = why;
		goto refuse;
	}

	dev->max_chunk_rows = (uint32) ((device_shared->chunk_size - 2 * DEVICE_PART_ALIGN) /
									(row_bytes + dev->spec.key_width / 8 + sizeof(uint32)));
	dev->max_chunk_rows = Max(dev->max_chunk_rows, 1);
	dev->words_at = device_part(dev->max_chunk_rows * (dev->spec.key_width / 8));
	dev->rows_at = device_part(dev->words_at + dev->max_chunk_rows * sizeof(uint32));
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
		goto refuse;
	}
	arena_free(&sorter->arena);
	stage_free(stage);
	for (int c = 0; c < stage->ncols; c++)
		key_range_union(&sorter->ranges[c], &dev->ranges[c]);
	return true;

refuse:
	sorter->put_limit = sorter->limit;
	return false;
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */

/* Everything is up: asks for the sort. */
static void
ask_sort(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;

	post_chunk(dev);
	device_job_sort(dev->job);
	dev->sorted = true;
}

/* What EXPLAIN and the statistics will say. */
static void
report_sort(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	SorterReport *report = &sorter->report;

	memset(&report->facts, 0, sizeof(report->facts));
	report->facts.n = dev->rows;
	report->facts.format = dev->spec.key_width == 64 ? SORT_REC_64 : SORT_REC_128;
	report->facts.end_bit = dev->spec.key_bits;
	report->facts.rids_ascending = true;
	report->facts.device = ROUTE_DEVICE_READY;
	report->facts.forced = gpusort_forced_algorithm();
	memset(&report->decision, 0, sizeof(report->decision));
	report->decision.kernel = gpu_route_kernel(dev->job->cost.algorithm);
	report->sorted = report->decision.kernel != NULL;
	report->key_bits = dev->spec.key_bits;
	report->device_rows += dev->rows;
	report->device_sort_us += dev->job->cost.sort_us;
	sorter_note_memory(sorter, dev->job->slot == NULL ? 0 :
					   dev->job->slot->nchunks * device_shared->chunk_size);
}

/*
 * Makes the next chunk of the result the one that is read; false at the end, or
 * if the job is lost.
 */
static bool
next_result(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	DeviceChunkDesc desc;
	char	   *chunk;

	if (sorter->lost)
		return false;
	if (dev->holding)
	{
		dev->given += dev->holding_rows;
		dev->holding = false;
		device_job_release(dev->job);
	}
	chunk = device_job_next_down(dev->job, &desc);
	if (chunk == NULL)
	{
		if (!dev->job->lost && dev->given != dev->rows)
			device_job_lose(dev->job, "the device sent too few rows");
		if (dev->job->lost)
			rows_lost(sorter);
		return false;
	}
	if (dev->given == 0)
		report_sort(sorter);
	dev->holding = true;
	dev->holding_rows = desc.rows;
	sorter->stream_next = chunk + desc.rows_at;
	sorter->stream_left = desc.rows;
	sorter->report.bytes_up = dev->job->bytes_up;
	sorter->report.bytes_down = dev->job->bytes_down;
	return true;
}

MinimalTuple
device_rows_next(Sorter *sorter)
{
	MinimalTuple row;

	while (sorter->stream_left == 0)
	{
		if (!next_result(sorter))
			return NULL;
	}
	row = (MinimalTuple) sorter->stream_next;
	sorter->stream_next += MAXALIGN(row->t_len);
	sorter->stream_left--;
	return row;
}

uint64
device_rows_given(const Sorter *sorter)
{
	const DeviceRows *dev = sorter->device_rows;

	return dev->given + (dev->holding ? dev->holding_rows - sorter->stream_left : 0);
}

/* A row of the result under gpusort.verify. */
typedef struct VerifyRows
{
	uint64		checksum;
	Key128		prev;
	TupleTableSlot *slot;
} VerifyRows;

static bool
verify_row(Sorter *sorter, VerifyRows *verify, MinimalTuple row)
{
	const DeviceRows *dev = sorter->device_rows;
	const Stage *stage = &sorter->stage;
	Key128		key;

	verify->checksum += hash_bytes_extended((unsigned char *) row, row->t_len, 0);
	row_to_slot(verify->slot, row);
	slot_getsomeattrs(verify->slot, stage->last_att);
	if (!row_key(stage, dev, verify->slot->tts_values, verify->slot->tts_isnull, &key) ||
		key < verify->prev)
		return false;
	verify->prev = key;
	return true;
}

/*
 * Brings the sorted rows back into a run on disk.  False if they are lost or,
 * under gpusort.verify, found wrong; sorter->lost then holds.
 */
static bool
rows_to_run(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	VerifyRows	verify = {0, 0, NULL};
	RunWriter	writer;
	MemoryContext old;
	MinimalTuple row;

	if (gpusort_verify)
		verify.slot = MakeSingleTupleTableSlot(sorter->spec.desc, &TTSOpsMinimalTuple);
	old = sorter_begin_run(sorter, &writer);
	for (uint64 i = 0; (row = device_rows_next(sorter)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (verify.slot != NULL && !verify_row(sorter, &verify, row))
		{
			device_job_lose(dev->job, "a row of the result is out of order");
			rows_lost(sorter);
			break;
		}
		run_writer_row(&writer, row);
	}
	if (!sorter->lost && verify.slot != NULL && verify.checksum != dev->checksum)
	{
		device_job_lose(dev->job, "the result's rows are not the input's");
		rows_lost(sorter);
	}
	sorter_finish_run(sorter, &writer, old);
	if (verify.slot != NULL)
		ExecDropSingleTupleTableSlot(verify.slot);
	return !sorter->lost;
}

/*
 * Ends the device's part: the rows become a run.  False: the sort goes on in the
 * host's memory; true if it is lost, so that nothing more is to be done.
 */
bool
device_rows_seal(Sorter *sorter)
{
	if (!sorter->lost)
	{
		ask_sort(sorter);
		(void) rows_to_run(sorter);
	}
	if (sorter->lost)
		return true;
	device_rows_end(sorter);
	sorter->put_limit = device_rows_after(sorter);
	return false;
}

void
device_rows_perform(Sorter *sorter)
{
	if (sorter->lost)
		return;
	if (sorter->nruns > 0 || gpusort_verify)
	{
		(void) device_rows_seal(sorter);
		return;
	}
	ask_sort(sorter);
	/* the first chunk is part of the sort's time, and so is its failure */
	(void) next_result(sorter);
	sorter->state = SORTER_STREAM;
}

void
device_rows_end(Sorter *sorter)
{
	if (sorter->device_rows == NULL)
		return;
	device_job_close(sorter->device_rows->job);
	pfree(sorter->device_rows);
	sorter->device_rows = NULL;
	sorter->stream_left = 0;
}
