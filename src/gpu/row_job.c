/*
 * row_job.c
 *	  A GPU job of row mode: its memory on the device, and its chunks up and down.
 *
 * The job's device memory grows with the rows that come (device_rows_grow()): estimates may
 * be far off, and other sorts need the device, too.
 *
 * Checks of the result, always on: a row's own checksum before anything of the row is used,
 * so that each returned row is one that this job sent; and at the end the sum of all
 * checksums, so that no row came twice in place of another.  If the device drops duplicates,
 * the keys of the rows that came back are checked instead (check.c).  Where the result streams, rows
 * have been returned by then.  The child is run again, as after any failure of the device;
 * the query ends with an ERROR if the rows that come first now are not those that were
 * returned.
 */
#include "postgres.h"

#include "gpu/job.h"
#include "gpu/row_mode.h"
#include "store/store.h"

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */

void
device_rows_fail(DeviceRows *dev, const char *why)
{
	if (why != NULL)
		device_job_fail(dev->job, why);
	/* the chunk belonged to the job */
	dev->up.chunk = NULL;
	/* the failure of a producer is reported by the owner of its job */
	if (!dev->failed && !dev->is_producer)
		device_note_failure(dev->env, dev->decision.algorithm);
	dev->failed = true;
}

void
device_rows_post(DeviceRows *dev)
{
	DeviceChunkDesc desc;

	if (dev->up.chunk == NULL || dev->up.rows == 0)
		return;
	desc.rows = dev->up.rows;
	desc.words_at = dev->up.words_at;
	desc.rows_at = dev->up.rows_at;
	desc.row_bytes = (uint32) (dev->up.next - (dev->up.chunk + dev->up.rows_at));
	dev->up.chunk = NULL;
	device_job_post(dev->job, &desc);
}

SinkAnswer
device_rows_start_chunk(DeviceRows *dev, Size size)
{
	if (size > device_shared->chunk_size - dev->up.rows_at)
		return SINK_FULL;
	device_rows_post(dev);
	dev->up.chunk = device_job_next_up(dev->job);
	if (dev->up.chunk == NULL)
		return SINK_FAILED;
	dev->up.rows = 0;
	dev->base = dev->is_producer ? dev->sent.units : 0;
	dev->up.next = dev->up.chunk + dev->up.rows_at;
	dev->up.end = dev->up.chunk + device_shared->chunk_size;
	return SINK_TAKEN;
}

void
device_rows_start_sort(DeviceRows *dev)
{
	device_rows_post(dev);
	device_job_sort(dev->job);
}

/*
 * Rounds up to a multiple of a power of two, at most 1/8 larger.  Jobs of similar size then
 * have equal blocks, which the library keeps for later jobs.
 */
static uint64
round_size(double size)
{
	uint64		step = UINT64CONST(1) << 16;

	while (step * 8 < size)
		step *= 2;
	return ((uint64) size + step - 1) / step * step;
}

/* Sets spec's max_rows and max_row_bytes for n rows, but no more than a job can have. */
static void
set_room(const DeviceRows *dev, DeviceJobSpec *spec, double n, double row_bytes)
{
	/* rows' places are 32-bit numbers of 8-byte units */
	const uint64 most_bytes = (UINT64CONST(8) << 32) - 8;

	/* the planner's estimate may exceed 32 bits */
	spec->max_rows = Min(round_size(Min(n, PG_UINT32_MAX)), dev->most_rows);
	spec->max_row_bytes = Min(round_size(Min(n * row_bytes, most_bytes)), most_bytes);
}

double
device_rows_ahead(const DeviceRows *dev, double n, double row_bytes)
{
	double		ahead = n + Max(n, DEVICE_ROWS_STEP / row_bytes);

	return n < dev->expected ? Min(ahead, dev->expected * DEVICE_ROWS_MARGIN) : ahead;
}

bool
device_rows_grow_job(DeviceRows *dev, double n, uint64 bytes, double ahead)
{
	/* the second attempt asks for less */
	for (int i = 0; i < 2 && !dev->job->failed; i++)
	{
		DeviceJobSpec wanted = dev->spec;

		set_room(dev, &wanted, ahead, bytes / n);
		wanted.max_rows = Max(wanted.max_rows, dev->spec.max_rows);
		wanted.max_row_bytes = Max(wanted.max_row_bytes, dev->spec.max_row_bytes);
		if (wanted.max_rows < n || wanted.max_row_bytes < bytes)
			return false;
		if (device_job_grow(dev->job, &dev->spec, &wanted))
		{
			device_show_job(dev->env, dev->job, &dev->decision, &dev->spec);
			return true;
		}
		ahead = Min(ahead, n * DEVICE_ROWS_MARGIN);
	}
	return false;
}

SinkAnswer
device_rows_grow(DeviceRows *dev, Size size)
{
	double		n = dev->sent.rows + 1;
	uint64		bytes = (dev->sent.units << 3) + size;

	dev->full = !device_rows_grow_job(dev, n, bytes, device_rows_ahead(dev, n, bytes / n));
	return !dev->full ? SINK_TAKEN : dev->job->failed ? SINK_FAILED : SINK_FULL;
}

void
device_rows_prepare(DeviceRows *dev, double row_bytes)
{
	dev->marked = !dev->layout.layout.exact || dev->spec.drop;
	dev->keys.cut = dev->spec.drop ? dev->spec.equal_bit : 0;
	dev->up.max_rows = (uint32) ((device_shared->chunk_size - 2 * DEVICE_PART_ALIGN) /
									(row_bytes + dev->spec.key_width / 8 + sizeof(uint32)));
	dev->up.max_rows = Max(dev->up.max_rows, 1);
	dev->up.words_at = device_part(dev->up.max_rows * (dev->spec.key_width / 8));
	dev->up.rows_at = device_part(dev->up.words_at + dev->up.max_rows * sizeof(uint32));
}

bool
device_rows_open_job(DeviceRows *dev, double rows, double row_bytes, double patience_us, DeviceState *why)
{
	set_room(dev, &dev->spec, rows, row_bytes);
	*why = DEVICE_STATE_NONE;
	if (!job_secret_make(&dev->keys.secret))
		return false;
	dev->job = device_job_open(dev->env->cxt, &dev->spec, patience_us, why);
	if (dev->job == NULL)
		return false;
	device_rows_prepare(dev, row_bytes);
	device_show_job(dev->env, dev->job, &dev->decision, &dev->spec);
	return true;
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */

/* Reports the job, when its first chunk has come back. */
static void
report_sort(DeviceRows *dev)
{
	SortEnv    *env = dev->env;

	device_report_job(env, dev->job, &dev->facts, &dev->decision, dev->sent.rows, false);
	env->report.device.rows += dev->sent.rows;
	env->report.dropped_on_device += dev->sent.rows - dev->job->rows_down;
	device_report_part(env, dev->job);
	sort_env_note_memory(env, batch_held(dev->batch) +
						 (dev->job->slot == NULL ? 0 :
						  dev->job->slot->nchunks * device_shared->chunk_size));
}

/*
 * Notes the rows of the held chunk that have been returned, if the next chunk begins with an
 * equal row (next_first), or if the device failed.
 */
static void
note_returned(DeviceRows *dev, const RowStream *stream, const char *next_first)
{
	ReturnedChunk chunk = {dev->down.data, dev->down.rows - stream->left, dev->down.returned,
	dev->down.returned_sum};
	bool		more = next_first != NULL &&
		tiebreak_compare(dev->env->tiebreak, (MinimalTuple) stream->last,
						 (MinimalTuple) next_first) == 0;

	if (more || dev->job->failed)
		returned_rows_note(dev->returned_rows, dev->env->tiebreak, &chunk, more);
	else
		dev->returned_rows->more = false;
}

/* Releases the chunk that was read. */
static void
release_held(DeviceRows *dev)
{
	dev->down.returned += dev->down.rows;
	dev->down.held = false;
	device_job_release(dev->job);
}

/* Are the keys of the chunk's rows, and the ends of their groups, right?  Do the rows have these keys? */
static bool
groups_are_right(DeviceRows *dev, const char *chunk, const DeviceChunkDesc *desc)
{
	const uint32 *ends = (const uint32 *) (chunk + desc->ends_at);
	const char *row = chunk + desc->rows_at;
	const char *end = chunk + device_shared->chunk_size;
	bool		last = dev->job->rows_got == dev->job->rows_down;

	if (!device_check_groups(&dev->keys, chunk, ends, dev->spec.key_width, desc->rows, last, dev->sent.rows))
		return false;
	for (uint32 i = 0; i < desc->rows; i++)
	{
		Key128		key = device_key_at(chunk, dev->spec.key_width, i);
		char		header[ROW_SUM_HEADER];
		Size		size;

		/* the checksum that proves a row's length and mark is tested when the row is read */
		row_set_mark(header, (uint64) (key >> 64), (uint64) key);
		if ((Size) (end - row) < ROW_SUM_HEADER || row_mark(row) != row_mark(header))
			return false;
		size = MAXALIGN((Size) ((const MinimalTupleData *) row)->t_len);
		if (size > (Size) (end - row))
			return false;
		row += size;
	}
	return true;
}

/*
 * The next chunk of the result.  NULL at the end, where the checksum of all rows must be
 * right.  job->failed is set if something is wrong.
 */
static char *
next_chunk_down(DeviceRows *dev, const RowStream *stream, DeviceChunkDesc *desc)
{
	char	   *chunk = device_job_next_down(dev->job, desc);
	uint64		sum;

	if (chunk == NULL && !dev->job->failed && !dev->spec.drop && stream->sum != dev->sent.sum)
		device_job_fail(dev->job, ROWS_NOT_THE_INPUT);
	else if (chunk != NULL && dev->down.held &&
			 !row_is_whole(chunk + desc->rows_at, device_shared->chunk_size - desc->rows_at, &dev->keys.secret, &sum))
		device_job_fail(dev->job, ROW_NOT_FROM_INPUT);
	return chunk;
}

/*
 * The held chunk is released first, unless returned rows are noted: then its rows are
 * compared with the first row of the next chunk.
 */
bool
device_rows_next_chunk(DeviceRows *dev, RowStream *stream)
{
	SortReport *report = &dev->env->report;
	DeviceChunkDesc desc;
	char	   *chunk;

	if (dev->failed)
		return false;
	if (dev->down.held && !device_rows_notes_returned(dev))
		release_held(dev);
	chunk = next_chunk_down(dev, stream, &desc);
	if (dev->down.held)
	{
		note_returned(dev, stream, chunk == NULL || dev->job->failed ? NULL : chunk + desc.rows_at);
		if (!dev->job->failed)
			release_held(dev);
	}
	if (!dev->job->failed && chunk != NULL && dev->spec.drop && !groups_are_right(dev, chunk, &desc))
		device_job_fail(dev->job, ROWS_NOT_THE_INPUT);
	if (dev->job->failed)
		device_rows_fail(dev, NULL);
	if (dev->failed || chunk == NULL)
		return false;
	if (dev->down.returned == 0)
		report_sort(dev);
	dev->down.held = true;
	dev->down.rows = desc.rows;
	dev->down.data = stream->next = chunk + desc.rows_at;
	stream->secret = dev->keys.secret;
	dev->down.returned_sum = stream->sum;
	stream->end = chunk + device_shared->chunk_size;
	stream->left = dev->layout.layout.exact ? desc.rows : 0;
	stream->behind = desc.rows - stream->left;
	report->device.bytes_down += desc.rows_at + desc.row_bytes;
	return true;
}

void
device_rows_wrong_row(DeviceRows *dev, const RowStream *stream)
{
	device_job_fail(dev->job, ROW_NOT_FROM_INPUT);
	if (device_rows_notes_returned(dev))
		note_returned(dev, stream, NULL);
	device_rows_fail(dev, NULL);
}
