/*
 * result_device_keys.c
 *	  Key mode's way back: sorted rids, or keys, chunk by chunk.
 *
 * The node returns rows of the first chunk of rids while the others are still on their
 * way: the result has the rows that have arrived, and the reader that comes to their end asks
 * for more.  A result that is read once and forward needs no more memory than a chunk's
 * rids: each chunk replaces the one before.  One that is read again is kept whole.
 *
 * Everything is waited for where the result is written to a run, where gpusort.verify looks
 * at it first, where keys are not exact (then sorted keys come along, and runs of equal ones
 * are settled by comparison), and where keys are all that there is: a key that comes back
 * is a row, and only the sum of all tells that none is of another sort (device_check.c).
 *
 * On error: a device that fails in the middle has given the right beginning.  The
 * CPU sorts the staged keys again and the rows go on where they stopped: both
 * orders are the stable one.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "settings.h"
#include "sort/device/device_learn.h"
#include "sort/device/keys/device_check.h"
#include "sort/device/keys/device_parts.h"
#include "sort/verify.h"

static void
settle_ties(DeviceKeys *dk, uint32 *rids, size_t n)
{
	CHECK_FOR_INTERRUPTS();
	dk->ties += n;
	tiebreak_sort(dk->env->tiebreak, &dk->batch->arena, rids, n);
}

/* Settles the runs of equal keys that end among rows [first, first + count). */
static void
settle_chunk(DeviceKeys *dk, uint32 *rids, size_t first, size_t count, const char *keys)
{
	TieRun	   *run = &dk->run;

	for (size_t i = 0; i < count; i++)
	{
		Key128		key = device_key_at(keys, dk->spec.key_width, i);

		if (first + i > 0 && key == run->key)
			continue;
		if (first + i - run->start > 1)
			settle_ties(dk, rids + run->start, first + i - run->start);
		run->start = first + i;
		run->key = key;
	}
}

/* Keys as the records of a sort that is nothing but keys. */
static void
take_keys(const KeyChunk *chunk, int width, void *recs, size_t at)
{
	if (width == 128)
	{
		SortRec128 *to = (SortRec128 *) recs + at;

		for (uint32 i = 0; i < chunk->rows; i++)
		{
			to[i].hi = (uint64) (((const Key128 *) chunk->keys)[i] >> 64);
			to[i].lo = (uint64) ((const Key128 *) chunk->keys)[i];
		}
	}
	else if (width == 64)
		memcpy((uint64 *) recs + at, chunk->keys, chunk->rows * sizeof(uint64));
	else
	{
		uint64	   *words = (uint64 *) recs + at;

		for (uint32 i = 0; i < chunk->rows; i++)
			words[i] = ((const uint32 *) chunk->keys)[i];
	}
}

void
device_keys_report(DeviceKeys *dk, const DeviceJob *job)
{
	SortEnv    *env = dk->env;
	SortReport *report = &env->report;
	const Algorithm *algorithm = algorithm_by_name(job->times.algorithm);

	report->facts = dk->facts;
	report->facts.n = dk->batch->stage.n;
	report->decision = dk->decision;
	report->decision.algorithm = algorithm;
	report->sorted = algorithm != NULL;
	report->key_bits = dk->facts.gpu.key_bits;
	report->bytes_up += job->bytes_up;
	report->device_sort_us += job->times.sort_us;
	device_learn_job(job, &dk->facts, algorithm, dk->at_once);
	sort_env_note_memory(env, batch_held(dk->batch) + dk->pending.size);
}

void
device_keys_lose(DeviceKeys *dk, const char *why)
{
	if (!dk->lost)
		strlcpy(dk->why, why, sizeof(dk->why));
	dk->lost = true;
	if (dk->job != NULL)
		device_job_lose(dk->job, why);
}

/* The next chunk, until release_chunk(); false at the end, and if what is to come is lost. */
static bool
next_chunk(DeviceKeys *dk, KeyChunk *chunk)
{
	bool		come;

	if (dk->parts != NULL)
		return device_parts_next(dk, chunk);
	come = key_chunk_next_down(dk->job, &dk->spec, dk->batch->stage.n - dk->received, chunk);
	if (dk->job->lost)
		device_keys_lose(dk, dk->job->why);
	else if (come && dk->received == 0)
		device_keys_report(dk, dk->job);
	return come;
}

static void
release_chunk(DeviceKeys *dk)
{
	if (dk->parts != NULL)
		device_parts_release(dk);
	else
		device_job_release(dk->job);
}

/* Room for the result, or for a chunk of it. */
static void
make_room(DeviceKeys *dk, Sorted *sorted)
{
	SortEnv    *env = dk->env;
	size_t		n = dk->batch->stage.n;

	dk->down_per_chunk = device_chunk_rows(&dk->spec);
	if (!dk->keep)
		n = Min(n, dk->down_per_chunk);
	if (dk->spec.keys_only)
	{
		sorted->format = dk->spec.key_width <= 64 ? SORT_REC_PACKED : SORT_REC_128;
		sorted->layout = dk->layout.layout;
		bulk_reserve(env->bulk, &env->recs, n * sort_rec_size(sorted->format), 0);
		sorted->keys = env->recs.ptr;
	}
	else
	{
		bulk_reserve(env->bulk, &env->recs, n * sizeof(uint32), 0);
		sorted->rids = env->recs.ptr;
	}
	sorted->n = 0;
}

/* Copies a chunk's rids, or keys, to the place at on; false if they are wrong. */
static bool
take_content(DeviceKeys *dk, const KeyChunk *chunk, size_t at)
{
	bool		last = dk->received + chunk->rows == dk->batch->stage.n;
	uint32	   *rids = (uint32 *) dk->env->recs.ptr + at;

	if (dk->spec.want_keys &&
		!device_check_keys(&dk->keys, chunk->keys, dk->spec.key_width, chunk->rows, last))
		return false;
	if (dk->spec.keys_only)
	{
		take_keys(chunk, dk->spec.key_width, dk->env->recs.ptr, at);
		return true;
	}
	/* what is checked is the copy: the chunk is in the device's reach */
	memcpy(rids, chunk->rids, chunk->rows * sizeof(uint32));
	if (!device_check_rids(dk, rids, chunk->rows))
		return false;
	if (dk->spec.want_keys)
		settle_chunk(dk, dk->env->recs.ptr, at, chunk->rows, chunk->keys);
	return true;
}

/*
 * Takes the next chunk, whose rows come after the *n that there are, or replace them.
 * False at the end, and if the job is lost, also for a wrong chunk.
 */
static bool
take_chunk(DeviceKeys *dk, size_t *n)
{
	KeyChunk	chunk;

	if (!next_chunk(dk, &chunk))
		return false;
	if (!take_content(dk, &chunk, dk->keep ? *n : 0))
	{
		device_keys_lose(dk, dk->spec.keys_only ?
						 "the result's keys are out of order, or not the input's" :
						 "a row of the result " VERIFY_NOT_FROM_INPUT);
		return false;
	}
	if (!dk->keep)
	{
		dk->given = dk->received;
		*n = 0;
	}
	dk->received += chunk.rows;
	*n += chunk.rows;
	dk->env->report.bytes_down += chunk.bytes;
	release_chunk(dk);
	return true;
}

/* gpusort.verify: the rids' order, too; keys alone have been checked. */
static bool
verify_whole(DeviceKeys *dk, const Sorted *sorted)
{
	char		why[sizeof(dk->why)];

	if (!gpusort_verify || dk->spec.keys_only ||
		verify_rids(dk->env, dk->batch, &dk->layout.layout, sorted->rids, sorted->n, why))
		return true;
	device_keys_lose(dk, why);
	return false;
}

bool
device_keys_receive(DeviceKeys *dk, bool may_stream, Sorted *sorted, bool *streams)
{
	*streams = may_stream && !gpusort_verify && !dk->spec.want_keys;
	dk->keep = !*streams || dk->env->spec.random_access;
	make_room(dk, sorted);
	device_check_begin(dk);
	if (*streams)
	{
		/* the first chunk is part of the sort's time, and so is its failure */
		return take_chunk(dk, &sorted->n);
	}
	while (take_chunk(dk, &sorted->n))
		CHECK_FOR_INTERRUPTS();
	if (dk->lost)
		return false;
	if (!dk->spec.keys_only && dk->spec.want_keys && sorted->n - dk->run.start > 1)
		settle_ties(dk, (uint32 *) dk->env->recs.ptr + dk->run.start, sorted->n - dk->run.start);
	if (!verify_whole(dk, sorted))
		return false;
	dk->env->report.ties += dk->ties;
	return true;
}

/* ------------------------------------------------------------------------
 * The result that streams
 * ------------------------------------------------------------------------
 */

/*
 * The device failed: the rest comes from the CPU.  What the check knows of the rows given
 * out outlives the job.
 */
static void
recover(ArrayResult *array, DeviceKeys *dk)
{
	SortEnv    *env = dk->env;
	Batch	   *batch = dk->batch;
	Sorted		sorted;

	array->more = NULL;
	array->pos += dk->given;
	device_note_failure(env, dk->decision.algorithm, dk->why);
	device_keys_close(dk);
	(void) order_batch(env, batch, NULL, false, &sorted);
	progress_phase(&env->progress, PROGRESS_EMIT);
	device_check_given(dk, &sorted, array->pos);
	device_keys_end(dk);

	array->n = sorted.n;
	((MemoryResult *) array)->rids = sorted.rids;
}

/* All rows that have arrived were read: gets more. */
static void
get_more(ArrayResult *array)
{
	DeviceKeys *dk = array->more;
	Batch	   *batch = dk->batch;

	/* no ties where the result streams */
	if (take_chunk(dk, &array->n))
	{
		if (dk->keep)
			return;
		array->pos = 0;
		return;
	}
	if (dk->lost)
		recover(array, dk);
	else
	{
		device_keys_end(dk);
		array->more = NULL;
	}
	/* they were kept for recover() */
	batch_free_keys(batch, array->base.env->bulk);
	tiebreak_release(array->base.env->tiebreak);
}

static bool
streamed_rows_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	ArrayResult *array = (ArrayResult *) result;

	if (array->more != NULL && forward && array->pos >= array->n)
		get_more(array);
	return result_rows_next(result, forward, slot);
}

static void
streamed_end(SortResult *result)
{
	ArrayResult *array = (ArrayResult *) result;

	if (array->more != NULL)
		device_keys_end(array->more);
	array->more = NULL;
}

static const ResultMethods streamed_rows_methods = {
	.kind = RESULT_ROWS,
	.next = streamed_rows_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.end = streamed_end
};

void
result_device_keys_begin(SortResult *result, DeviceKeys *dk)
{
	Assert(!dk->env->spec.keys_only);
	result->methods = &streamed_rows_methods;
	((ArrayResult *) result)->more = dk;
}
