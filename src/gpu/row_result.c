/*
 * row_result.c
 *	  Results of row mode: sorted rows come back from the device chunk by chunk.
 *
 * The rows become the sort's result, a run on disk, rows of the batch, or a run that a merge
 * reads from the device.  Where keys are not exact, row_ties.c resolves ties on the way.
 *
 * With gpusort.verify the rows become a run before the first one is returned, and each is
 * compared with the row before it.  The order of equal rows cannot be checked, since rows
 * do not tell their input order.
 */
#include "postgres.h"

#include "gpu/job.h"
#include "gpu/row_mode.h"
#include "gpu/rows_read.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "settings.h"

void
device_rows_end(DeviceRows *dev, bool wait)
{
	resolver_end(dev);
	if (dev->job != NULL)
		device_close_job(dev->env, dev->job, wait);
	pfree(dev);
}

/*
 * The next row in the order of the keys alone, valid until the next call.  NULL at the end, and
 * if the device failed.
 */
static MinimalTuple
next_row_by_key(DeviceRows *dev, RowStream *stream)
{
	while (stream->left == 0)
	{
		if (stream->behind == 0 && !device_rows_next_chunk(dev, stream))
			return NULL;
		stream->left += stream->behind;
		stream->behind = 0;
	}
	return device_rows_read(dev, stream);
}

/* The next row in the sort's order, valid until the next call.  NULL as next_row_by_key(). */
static MinimalTuple
next_sorted_row(DeviceRows *dev, RowStream *stream)
{
	return dev->layout.layout.exact ? next_row_by_key(dev, stream) : resolver_next(dev, stream);
}

/* ------------------------------------------------------------------------
 * To the host before a row is returned
 * ------------------------------------------------------------------------
 */

/*
 * gpusort.verify: is the row in order after the one before it, and no duplicate where these
 * are dropped?  Keeps a copy for the next call.
 */
static bool
verify_row(DeviceRows *dev, StringInfo before, MinimalTuple row)
{
	const SortEnv *env = dev->env;
	MinimalTuple last = (MinimalTuple) before->data;
	bool		in_order = before->len == 0 || tiebreak_compare(env->tiebreak, last, row) <= 0;

	if (in_order && before->len > 0 && dev->spec.drop)
		in_order = !tiebreak_equal(env->tiebreak, env->spec.distinct, last, row);

	resetStringInfo(before);
	appendBinaryStringInfo(before, (const char *) row, row->t_len);
	return in_order;
}

void
device_rows_to_run(DeviceRows *dev, Runs *runs)
{
	StringInfoData before;
	RowStream	stream = {0};
	RunWriter	writer;
	MemoryContext old;
	MinimalTuple row;

	progress_phase(&dev->env->progress, PROGRESS_SORT);
	device_rows_start_sort(dev);
	initStringInfo(&before);
	old = runs_open(runs, &writer, false);
	for (uint64 i = 0; (row = next_sorted_row(dev, &stream)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			runs_pause(runs, i);
		if (gpusort_verify && !verify_row(dev, &before, row))
		{
			device_rows_fail(dev, "a row of the result is out of order");
			break;
		}
		run_writer_row(&writer, row);
	}
	device_layout_unite_ranges(&dev->layout, &dev->batch->keybuf, runs->ranges);
	runs_close(runs, &writer, old);
	pfree(before.data);
}

bool
device_rows_fit_memory(const DeviceRows *dev, const Runs *runs)
{
	Size		bytes = (Size) dev->sent.units << 3;

	return runs->n == 0 && !gpusort_verify &&
		bytes + dev->sent.rows * dev->batch->key_cost <= dev->env->limit &&
		dev->sent.rows <= dev->batch->max_rows &&
		arena_has_rids(&dev->batch->arena, bytes);
}

/*
 * The rows come into the batch in key order, and more rows may follow.  A stable sort of the
 * batch leaves equal rows in their input order.
 */
void
device_rows_to_memory(DeviceRows *dev)
{
	Batch	   *batch = dev->batch;
	KeyBuffer  *keybuf = &batch->keybuf;
	BulkOwner  *bulk = dev->env->bulk;
	TupleTableSlot *slot = sort_env_slot(dev->env);
	RowStream	stream = {0};
	MinimalTuple row;

	progress_phase(&dev->env->progress, PROGRESS_SORT);
	device_rows_start_sort(dev);
	keybuf_reserve(keybuf, bulk, dev->sent.rows);
	while ((row = next_row_by_key(dev, &stream)) != NULL)
	{
		uint32		rid;
		char	   *copy = arena_alloc(&batch->arena, bulk, MAXALIGN(row->t_len), &rid);

		if (copy == NULL || keybuf->n == keybuf->capacity)
			elog(ERROR, "gpusort: the device returned more rows than were sent");
		CHECK_FOR_INTERRUPTS();
		memcpy(copy, row, row->t_len);
		keybuf_stored_row(keybuf, &dev->env->keys, slot, (MinimalTuple) copy, rid);
	}
	ExecClearTuple(slot);
}

/* ------------------------------------------------------------------------
 * As a run that is read from the device
 * ------------------------------------------------------------------------
 */

/* Gets the next chunk and checks all of its rows, since they are copied as bytes. */
static bool
next_checked_chunk(DeviceRows *dev)
{
	RowStream  *stream = &dev->stream;

	if (!device_rows_next_chunk(dev, stream))
		return false;
	dev->copy.next = stream->next;
	while (stream->left > 0 && row_stream_next(stream) != NULL)
		;
	dev->copy.left = stream->next - dev->copy.next;
	dev->copy.rows += dev->down.rows;
	if (stream->left > 0)
		device_rows_fail(dev, ROW_NOT_FROM_INPUT);
	else if (!dev->spec.drop && dev->copy.rows == dev->sent.rows && stream->sum != dev->sent.sum)
		device_rows_fail(dev, ROWS_NOT_THE_INPUT);
	return !dev->failed;
}

/* Gets the next row where ties are resolved. */
static bool
next_resolved_row(DeviceRows *dev)
{
	MinimalTuple row = resolver_next(dev, &dev->stream);

	if (row == NULL)
		return false;
	dev->copy.next = (const char *) row;
	dev->copy.left = MAXALIGN(row->t_len);
	dev->copy.rows++;
	return true;
}

/* RunSource.read() */
static Size
source_read(RunSource *source, char *to, Size size)
{
	DeviceRows *dev = (DeviceRows *) source;
	Size		done = 0;

	while (done < size && source->more)
	{
		Size		part;

		if (dev->copy.left == 0 && !(dev->layout.layout.exact ? next_checked_chunk(dev) : next_resolved_row(dev)))
		{
			source->failed = true;
			source->more = false;
			return 0;
		}
		part = Min(size - done, dev->copy.left);
		memcpy(to + done, dev->copy.next, part);
		dev->copy.next += part;
		dev->copy.left -= part;
		done += part;
		source->more = dev->copy.left > 0 || dev->copy.rows < dev->job->rows_down;
	}
	return done;
}

static void
source_end(RunSource *source)
{
	dlist_delete(&source->node);
	device_rows_end((DeviceRows *) source, false);
}

void
device_rows_to_source(DeviceRows *dev, Runs *runs)
{
	StaticAssertStmt(offsetof(DeviceRows, source) == 0, "a run's source is cast to its DeviceRows");
	dev->source.read = source_read;
	dev->source.end = source_end;
	dev->source.more = true;
	device_rows_start_sort(dev);
	device_layout_unite_ranges(&dev->layout, &dev->batch->keybuf, runs->ranges);
	runs_add_source(runs, &dev->source, dev->sent.units << 3);
}

/* ------------------------------------------------------------------------
 * The sort's result, read from the device
 * ------------------------------------------------------------------------
 */

/* ResultMethods.next() */
static bool
stream_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	StreamResult *stream = (StreamResult *) result;
	DeviceRows *dev = stream->device_rows;
	MinimalTuple row = dev == NULL || dev->failed ? NULL : next_sorted_row(dev, &stream->stream);

	Assert(forward);
	if (row != NULL)
	{
		row_to_slot(slot, row);
		return true;
	}
	if (dev == NULL)
		return false;
	if (dev->failed)
	{
		uint64		sum;

		result->failed = true;
		result->returned = dev->down.returned - resolver_unreturned(dev, &sum) +
			(dev->down.held ? dev->down.rows - stream->stream.left - stream->stream.behind : 0);
		result->returned_sum = stream->stream.sum - sum;
		if (dev->returned_rows != NULL && !device_rows_notes_returned(dev))
		{
			returned_rows_reset(dev->returned_rows);
			dev->returned_rows->before = result->returned;
			dev->returned_rows->before_sum = result->returned_sum;
			dev->returned_rows->by_number = dev->spec.drop;
		}
		return false;
	}
	/* all rows are returned: free the device's memory at once */
	device_rows_end(dev, false);
	stream->device_rows = NULL;
	return false;
}

static void
stream_end(SortResult *result)
{
	StreamResult *stream = (StreamResult *) result;

	if (stream->device_rows != NULL)
		device_rows_end(stream->device_rows, false);
	stream->device_rows = NULL;
	stream->stream.left = stream->stream.behind = 0;
}

static const ResultMethods stream_methods = {
	.kind = RESULT_STREAM,
	.next = stream_next,
	.rewind = result_once,
	.mark = result_once,
	.restore = result_once,
	.end = stream_end
};

SortResult *
result_device_rows_begin(StreamResult *result, SortEnv *env, DeviceRows *dev)
{
	memset(result, 0, sizeof(*result));
	result->base.methods = &stream_methods;
	result->base.env = env;
	result->device_rows = dev;
	if (dev != NULL)
	{
		result->base.duplicates = env->spec.distinct > 0 && !dev->spec.drop;
		progress_phase(&env->progress, PROGRESS_SORT);
		device_rows_start_sort(dev);
		/* the sort has ended when the first chunk is here, or has failed */
		(void) device_rows_next_chunk(dev, &result->stream);
		result->base.failed = dev->failed;
	}
	return &result->base;
}
