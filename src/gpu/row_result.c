/*
 * row_result.c
 *	  Record mode's way back: sorted rows, chunk by chunk.
 *
 * Always checked: a row's own checksum, before anything of it is used, so that what is
 * returned is a row that this job sent, whatever the device; and at the end the sum of all
 * rows against those that were sent, so that none came twice in another's place.  By
 * then, where the result streams, rows were given out.  The child is then run again, as
 * after any failure, and if the rows that come first now are not those that were given
 * out, the query ends with an ERROR (sorter_skip_given()).
 *
 * Where keys do not tell all rows apart, whoever wants rows in their order gets them by way of
 * settle.c.
 *
 * Verification (gpusort.verify): the result is brought back to a run before its first row
 * is given out, and each row is compared with the one before it.  Equal rows' order cannot
 * be checked from the rows alone.
 */
#include "postgres.h"

#include "cost/sort_feedback.h"
#include "gpu/gpu.h"
#include "gpu/gpu_internal.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "settings.h"

/* What all rows may be found to be. */
#define ROWS_NOT_THE_INPUT	"the result's rows are not the input's"

/* What EXPLAIN and the statistics will say. */
static void
report_sort(DeviceRows *dev)
{
	SortEnv    *env = dev->env;
	SortReport *report = &env->report;
	const Algorithm *algorithm = algorithm_by_name(dev->job->times.algorithm);

	report->facts = dev->facts;
	report->facts.n = dev->rows;
	report->decision = dev->decision;
	report->decision.algorithm = algorithm;
	report->sorted = algorithm != NULL;
	report->key_bits = dev->spec.key_bits;
	report->device_rows += dev->rows;
	report->device_sort_us += dev->job->times.sort_us;
	report->bytes_up += dev->job->bytes_up;
	device_report_part(env, dev->job, dev->rows);
	device_learn_job(dev->job, &dev->facts, algorithm, false);
	sort_env_note_memory(env, batch_held(dev->batch) +
						 (dev->job->slot == NULL ? 0 :
						  dev->job->slot->nchunks * device_shared->chunk_size));
}

/* Is it to be known which equal rows were given? */
static inline bool
notes_returned(const DeviceRows *dev)
{
	return dev->returned_rows != NULL && dev->layout.layout.exact;
}

/*
 * Of the chunk that is held all rows that are not left have been given: which they are is noted,
 * if the next chunk begins with an equal one, or if there is none because the rest is lost.
 */
static void
note_returned(DeviceRows *dev, const RowStream *stream, const char *next_first)
{
	ReturnedChunk	chunk = {dev->held, dev->holding_rows - stream->left, dev->returned, dev->held_sum};
	bool		more = next_first != NULL &&
		tiebreak_compare(dev->env->tiebreak, (MinimalTuple) stream->last,
						 (MinimalTuple) next_first) == 0;

	if (more || dev->job->failed)
		returned_rows_note(dev->returned_rows, dev->env->tiebreak, &chunk, more);
	else
		returned_rows_apart(dev->returned_rows);
}

/* The chunk that was read goes back. */
static void
release_chunk(DeviceRows *dev)
{
	dev->returned += dev->holding_rows;
	dev->holding = false;
	device_job_release(dev->job);
}

/* The next chunk of the job, which is to hold its rows; NULL at the end, or if it is lost. */
static char *
next_chunk(DeviceRows *dev, const RowStream *stream, DeviceChunkDesc *desc)
{
	uint64		returned = dev->returned + (dev->holding ? dev->holding_rows : 0);
	char	   *chunk = device_job_next_down(dev->job, desc);
	uint64		sum;

	if (chunk == NULL && !dev->job->failed && returned != dev->rows)
		device_job_fail(dev->job, DEVICE_TOO_FEW_ROWS);
	else if (chunk == NULL && !dev->job->failed && stream->sum != dev->sum)
		device_job_fail(dev->job, ROWS_NOT_THE_INPUT);
	else if (chunk != NULL && desc->rows > dev->rows - returned)
		device_job_fail(dev->job, "the device sent too many rows");
	else if (chunk != NULL && dev->holding &&
			 !row_is_whole(chunk + desc->rows_at, device_shared->chunk_size - desc->rows_at, &dev->secret, &sum))
		device_job_fail(dev->job, ROW_NOT_FROM_INPUT);
	return chunk;
}

/* The chunk before goes back first, unless it is needed to know which rows were given. */
bool
device_rows_next_chunk(DeviceRows *dev, RowStream *stream)
{
	SortReport *report = &dev->env->report;
	DeviceChunkDesc desc;
	char	   *chunk;

	if (dev->failed)
		return false;
	if (dev->holding && !notes_returned(dev))
		release_chunk(dev);
	chunk = next_chunk(dev, stream, &desc);
	if (dev->holding)
	{
		note_returned(dev, stream, chunk == NULL || dev->job->failed ? NULL : chunk + desc.rows_at);
		if (!dev->job->failed)
			release_chunk(dev);
	}
	if (dev->job->failed)
		device_rows_fail(dev);
	if (dev->job->failed || chunk == NULL)
		return false;
	if (dev->returned == 0)
		report_sort(dev);
	dev->holding = true;
	dev->holding_rows = desc.rows;
	dev->held = stream->next = chunk + desc.rows_at;
	stream->secret = dev->secret;
	dev->held_sum = stream->sum;
	stream->end = chunk + device_shared->chunk_size;
	stream->left = dev->layout.layout.exact ? desc.rows : 0;
	stream->behind = desc.rows - stream->left;
	report->bytes_down += desc.rows_at + desc.row_bytes;
	return true;
}

MinimalTuple
device_rows_read(DeviceRows *dev, RowStream *stream)
{
	MinimalTuple row = row_stream_next(stream);

	if (row == NULL)
	{
		device_job_fail(dev->job, ROW_NOT_FROM_INPUT);
		if (notes_returned(dev))
			note_returned(dev, stream, NULL);
		device_rows_fail(dev);
	}
	return row;
}

/*
 * The next row in the order of the keys alone, valid until the next call; NULL at the end, or if
 * the rows are lost.
 */
static MinimalTuple
next_by_key(DeviceRows *dev, RowStream *stream)
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

/* The next row in order; likewise. */
static MinimalTuple
next_row(DeviceRows *dev, RowStream *stream)
{
	return dev->layout.layout.exact ? next_by_key(dev, stream) : resolver_next(dev, stream);
}

/* ------------------------------------------------------------------------
 * To the host before anything is given out
 * ------------------------------------------------------------------------
 */

/* Under gpusort.verify: may the row follow the one before it?  Keeps a copy for the next. */
static bool
verify_row(DeviceRows *dev, StringInfo before, MinimalTuple row)
{
	bool		right = before->len == 0 ||
		tiebreak_compare(dev->env->tiebreak, (MinimalTuple) before->data, row) <= 0;

	resetStringInfo(before);
	appendBinaryStringInfo(before, (const char *) row, row->t_len);
	return right;
}

/* Their keys are those of a run. */
static inline void
add_ranges(const DeviceRows *dev, Runs *runs)
{
	device_layout_unite_ranges(&dev->layout, &dev->batch->keybuf, runs->ranges);
}

/*
 * Brings the sorted rows back into a run on disk; they are lost if, under
 * gpusort.verify, they are found wrong.
 */
void
device_rows_to_run(DeviceRows *dev, Runs *runs)
{
	StringInfoData before;
	RowStream	stream = {0};
	RunWriter	writer;
	MemoryContext old;
	MinimalTuple row;

	progress_phase(&dev->env->progress, PROGRESS_SORT);
	device_rows_ask(dev);
	initStringInfo(&before);
	old = runs_open(runs, &writer, false);
	for (uint64 i = 0; (row = next_row(dev, &stream)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			runs_pause(runs, i);
		if (gpusort_verify && !verify_row(dev, &before, row))
		{
			device_job_fail(dev->job, "a row of the result is out of order");
			device_rows_fail(dev);
			break;
		}
		run_writer_row(&writer, row);
	}
	add_ranges(dev, runs);
	runs_close(runs, &writer, old);
	pfree(before.data);
}

bool
device_rows_fit_memory(const DeviceRows *dev, const Runs *runs)
{
	Size		bytes = (Size) dev->units << 3;

	return runs->n == 0 && !gpusort_verify &&
		bytes + dev->rows * batch_key_cost(dev->batch) <= dev->env->limit &&
		dev->rows <= dev->batch->max_rows &&
		arena_has_rids(&dev->batch->arena, bytes);
}

/*
 * Brings the sorted rows back as if they came in now, so that others may follow: sorted
 * with those, equal ones stay in their order.
 */
void
device_rows_to_memory(DeviceRows *dev)
{
	Batch	   *batch = dev->batch;
	KeyBuffer	   *keybuf = &batch->keybuf;
	BulkOwner  *bulk = dev->env->bulk;
	TupleTableSlot *slot = sort_env_slot(dev->env);
	RowStream	stream = {0};
	MinimalTuple row;

	progress_phase(&dev->env->progress, PROGRESS_SORT);
	device_rows_ask(dev);
	keybuf_reserve(keybuf, bulk, dev->rows);
	while ((row = next_by_key(dev, &stream)) != NULL)
	{
		uint32		rid;
		char	   *copy = arena_alloc(&batch->arena, bulk, MAXALIGN(row->t_len), &rid);

		if (copy == NULL || keybuf->n == keybuf->capacity)
			elog(ERROR, "gpusort: rows from the device are more than went there");
		CHECK_FOR_INTERRUPTS();
		memcpy(copy, row, row->t_len);
		row_to_slot(slot, (MinimalTuple) copy);
		slot_getsomeattrs(slot, keybuf->last_att);
		keybuf_row(keybuf, &dev->env->keys, slot->tts_values, slot->tts_isnull, rid);
	}
	ExecClearTuple(slot);
}

/* ------------------------------------------------------------------------
 * As a run that stays on the device until it is read
 * ------------------------------------------------------------------------
 */

/*
 * The next chunk, if all that it is said to hold are rows that went in, and if there are no more
 * than those.
 */
static bool
next_sound_chunk(DeviceRows *dev)
{
	RowStream  *stream = &dev->stream;

	if (!device_rows_next_chunk(dev, stream))
		return false;
	dev->copy = stream->next;
	while (stream->left > 0 && row_stream_next(stream) != NULL)
		;
	dev->copy_left = stream->next - dev->copy;
	if (stream->left > 0)
		device_job_fail(dev->job, ROW_NOT_FROM_INPUT);
	else if (dev->returned + dev->holding_rows == dev->rows && stream->sum != dev->sum)
		device_job_fail(dev->job, ROWS_NOT_THE_INPUT);
	if (dev->job->failed)
		device_rows_fail(dev);
	return !dev->failed;
}

/* The next row, where rows are settled. */
static bool
next_resolved(DeviceRows *dev)
{
	MinimalTuple row = resolver_next(dev, &dev->stream);

	if (row == NULL)
		return false;
	dev->copy = (const char *) row;
	dev->copy_left = MAXALIGN(row->t_len);
	dev->copied++;
	return true;
}

/* Of rows that are settled as many as are wanted are copied one by one. */
static Size
source_read_resolved(RunSource *source, char *to, Size size)
{
	DeviceRows *dev = (DeviceRows *) source;
	Size		done = 0;

	while (done < size && (dev->copy_left > 0 || dev->copied < dev->rows))
	{
		Size		part;

		if (dev->copy_left == 0 && !next_resolved(dev))
		{
			source->failed = true;
			source->more = false;
			return 0;
		}
		part = Min(size - done, dev->copy_left);
		memcpy(to + done, dev->copy, part);
		dev->copy += part;
		dev->copy_left -= part;
		done += part;
	}
	source->more = dev->copy_left > 0 || dev->copied < dev->rows;
	return done;
}

static Size
source_read(RunSource *source, char *to, Size size)
{
	DeviceRows *dev = (DeviceRows *) source;

	if (dev->copy_left == 0 && !next_sound_chunk(dev))
	{
		source->failed = true;
		source->more = false;
		return 0;
	}
	size = Min(size, dev->copy_left);
	memcpy(to, dev->copy, size);
	dev->copy += size;
	dev->copy_left -= size;
	source->more = dev->copy_left > 0 || dev->returned + dev->holding_rows < dev->rows;
	return size;
}

static void
source_end(RunSource *source)
{
	dlist_delete(&source->node);
	device_rows_end((DeviceRows *) source);
}

void
device_rows_stay(DeviceRows *dev, Runs *runs)
{
	StaticAssertStmt(offsetof(DeviceRows, source) == 0, "a source is not its rows");
	dev->source.read = dev->layout.layout.exact ? source_read : source_read_resolved;
	dev->source.end = source_end;
	dev->source.more = true;
	device_rows_ask(dev);
	add_ranges(dev, runs);
	runs_add_source(runs, &dev->source, dev->units << 3);
}

/* ------------------------------------------------------------------------
 * The result that streams
 * ------------------------------------------------------------------------
 */
static bool
stream_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	StreamResult *stream = (StreamResult *) result;
	DeviceRows *dev = stream->device_rows;
	MinimalTuple row = dev == NULL || dev->failed ? NULL : next_row(dev, &stream->stream);

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
		result->returned = dev->returned - resolver_waiting(dev, &sum) +
			(dev->holding ? dev->holding_rows - stream->stream.left - stream->stream.behind : 0);
		result->returned_sum = stream->stream.sum - sum;
		if (dev->returned_rows != NULL && !notes_returned(dev))
			returned_rows_whole(dev->returned_rows, result->returned, result->returned_sum);
		return false;
	}
	/* what it had is others' again */
	device_rows_end(dev);
	stream->device_rows = NULL;
	return false;
}

static void
stream_end(SortResult *result)
{
	StreamResult *stream = (StreamResult *) result;

	if (stream->device_rows != NULL)
		device_rows_end(stream->device_rows);
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
	progress_phase(&env->progress, PROGRESS_SORT);
	device_rows_ask(dev);
	/* the first chunk is part of the sort's time, and so is its failure */
	(void) device_rows_next_chunk(dev, &result->stream);
	result->base.failed = dev->failed;
	return &result->base;
}

SortResult *
result_device_rows_none(StreamResult *result, SortEnv *env, bool failed)
{
	memset(result, 0, sizeof(*result));
	result->base.methods = &stream_methods;
	result->base.env = env;
	result->base.failed = failed;
	return &result->base;
}
