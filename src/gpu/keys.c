/*
 * keys.c
 *	  Key mode: keys are sorted on a GPU, rows stay in host memory.
 *
 * Keys are packed into chunks of the pinned staging pool, at the narrowest of 32, 64 and 128
 * bits.  Rids travel with their keys: translating positions into rids on the host would cost a
 * cache miss per row.  A sort whose rows are its keys sends no rids and gets the keys back.  The
 * rids of an index build without rows are TIDs (SortSpec.rids_are_tids).
 *
 * Results: the whole result is received and checked before its first row is returned.  Keys
 * come back, too, where they are not exact (ties are resolved), where the device drops
 * duplicates, where the rows are their keys, and in an index build (SortSpec.gpu_verified):
 * a wrong order in an index would outlive the statement.  The device is free when the first
 * row is returned.  Returning rows while rids are on their way would hide the bus: 4 bytes a
 * row, 0.3 ns at 12 GB/s, of 20 to 100 ns that a row takes.
 *
 * Duplicates of a sort with distinct columns are dropped by the device where keys are exact
 * and many duplicates are expected, and by the host, with the ties, where keys are inexact.
 *
 * Memory policy: rows and key buffer as in batch.c; the result and the bitmap of check.c count.
 *
 * On error: rows and buffered keys are kept until the result is complete.  If the device
 * fails or its result is wrong, the CPU sorts the buffered keys.  An ERROR (a cancel, or one
 * of a comparator) closes the job with its memory context.
 */
#include "postgres.h"

#include "gpu/job.h"
#include "gpu/key_mode.h"
#include "gpu/row_mode.h"
#include "miscadmin.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort_internal.h"

/* The host drops duplicates that a device leaves if at most this share of the rows stays. */
#define DROP_HERE_SHARE		0.5

/* ------------------------------------------------------------------------
 * The job
 * ------------------------------------------------------------------------
 */

/* Opens the job that dk describes; false, and dk->facts.device, if it cannot. */
static bool
open_keys_job(DeviceKeys *dk, double patience_us)
{
	dk->spec.mode = DEVICE_KEYS;
	dk->spec.max_rows = dk->batch->keybuf.n;
	device_route_job(&dk->facts, &dk->decision, &dk->spec);
	dk->facts.device = DEVICE_STATE_NONE;
	dk->keys.cut = dk->spec.drop ? dk->spec.equal_bit : 0;
	if (!job_secret_make(&dk->keys.secret))
		return false;
	dk->job = device_job_open(dk->env->cxt, &dk->spec, patience_us, &dk->facts.device);
	if (dk->job == NULL)
		return false;
	device_show_job(dk->env, dk->job, &dk->decision, &dk->spec);
	return true;
}

/* The result is wrong: marks it as not available. */
static void
device_keys_fail(DeviceKeys *dk, const char *why)
{
	dk->failed = true;
	/* a failed job is logged and counted by the service */
	if (dk->job != NULL)
		device_job_fail(dk->job, why);
	else
		ereport(LOG, (errmsg("a sort continues without the GPU: %s", why)));
}

/* Closes the job and frees *dk.  A failure is counted here, once for each sort. */
static void
device_keys_end(DeviceKeys *dk)
{
	dk->failed |= dk->job != NULL && dk->job->failed;
	if (dk->failed && !dk->no_room)
		device_note_failure(dk->env, dk->decision.algorithm);
	if (dk->parts != NULL)
		device_parts_end(dk);
	if (dk->job != NULL)
		device_close_job(dk->env, dk->job, false);
	bulk_free(dk->env->bulk, &dk->pending);
	pfree(dk);
}

/* Sends all keys of the batch, and starts the sort.  False if the job failed. */
static bool
send_batch_keys(DeviceKeys *dk)
{
	const KeyBuffer *keybuf = &dk->batch->keybuf;
	int			width = dk->spec.key_width;
	size_t		per_chunk = key_chunk_rows(&dk->spec);

	if (dk->parts != NULL)
	{
		device_parts_send(dk);
		return !dk->failed;
	}
	for (size_t start = 0; start < keybuf->n; start += per_chunk)
	{
		size_t		n = Min(per_chunk, keybuf->n - start);
		KeyChunk	chunk;

		if (!key_chunk_next_up(dk->job, n, &chunk))
			break;
		CHECK_FOR_INTERRUPTS();
		pack_keys(keybuf, &dk->layout, width, start, n, chunk.keys);
		if (chunk.rids != NULL)
			memcpy(chunk.rids, keybuf->rids + start, n * sizeof(uint32));
		if (dk->spec.want_keys)
			dk->keys.sum += device_check_sum(&dk->keys, chunk.keys,
											 device_pair_rids(dk->env, keybuf->rids + start), width, n);
		key_chunk_post(dk->job, &chunk);
	}
	device_job_sort(dk->job);
	dk->failed = dk->job->failed;
	return !dk->failed;
}

/* ------------------------------------------------------------------------
 * Receiving the result
 * ------------------------------------------------------------------------
 */

/* Finds the groups of equal keys among rows [first, first + count). */
static void
find_chunk_ties(DeviceKeys *dk, size_t first, size_t count, const char *keys)
{
	for (size_t i = 0; i < count; i++)
	{
		Key128		key = device_key_at(keys, dk->spec.key_width, i);

		if (first + i > 0 && key == dk->last_key)
			tie_groups_equal(&dk->groups, first + i);
		dk->last_key = key;
	}
}

/*
 * Drops duplicates that the device has left, because keys are inexact, if many are expected;
 * ties are resolved.  Otherwise the result has duplicates, and its reader drops them: it
 * reads the rows anyway.
 */
static void
drop_duplicates_here(DeviceKeys *dk)
{
	SortEnv    *env = dk->env;
	Sorted	   *sorted = dk->sorted;
	const Batch *batch = dk->batch;
	size_t		n = sorted->n;

	if (dk->spec.drop)
		env->report.dropped_on_device += batch->keybuf.n - n;
	else if (env->drop_duplicates && !dk->layout.exact && !env->spec.keys_only &&
			 distinct_expected(env, &batch->keybuf, n) < n * DROP_HERE_SHARE)
	{
		sorted->n = distinct_rids(env, &batch->arena, env->recs.ptr, n, NULL, false);
		env->report.dropped_in_batches += n - sorted->n;
	}
	else
		sorted->duplicates = env->drop_duplicates;
}

/* Copies the chunk's keys, and their rids where they are TIDs, as records of the result. */
static void
copy_records(const DeviceKeys *dk, const KeyChunk *chunk, void *recs, size_t at)
{
	const SortRecFormat format = dk->sorted->format;
	const int	rid_bits = dk->sorted->rid_bits;

#define COPY_KEYS(key_t) \
	for (uint32 i = 0; i < chunk->rows; i++) \
		sort_rec_set(recs, sizeof(key_t) <= sizeof(uint64) ? SORT_REC_PACKED : SORT_REC_128, 0, at + i, \
					 ((const key_t *) chunk->keys)[i], 0)
#define COPY_PAIRS(key_t) \
	for (uint32 i = 0; i < chunk->rows; i++) \
		sort_rec_set(recs, format, rid_bits, at + i, ((const key_t *) chunk->keys)[i], chunk->rids[i])

	if (chunk->rids == NULL)
		BY_KEY_WIDTH(dk->spec.key_width, COPY_KEYS);
	else
		BY_KEY_WIDTH(dk->spec.key_width, COPY_PAIRS);
}

/* Rows of the result; known when its first chunk is here. */
static size_t
result_rows(const DeviceKeys *dk)
{
	return dk->spec.drop ? (size_t) dk->job->rows_down : dk->batch->keybuf.n;
}

/* The next chunk of the result.  False at the end, and if dk->failed is set. */
static bool
next_key_chunk(DeviceKeys *dk, KeyChunk *chunk)
{
	bool		next;

	if (dk->parts != NULL && !device_parts_next(dk, chunk))
		return false;
	if (dk->job == NULL)
		return true;
	next = key_chunk_next_down(dk->job, chunk);
	if (dk->job->failed)
		dk->failed = true;
	else if (next && dk->received == dk->job_first)
	{
		device_report_job(dk->env, dk->job, &dk->facts, &dk->decision, dk->batch->keybuf.n,
						  dk->parts == NULL);
		if (dk->parts != NULL)
			device_report_part(dk->env, dk->job);
	}
	return next;
}

/* Reserves memory for the result. */
static void
reserve_result(DeviceKeys *dk)
{
	SortEnv    *env = dk->env;
	Sorted	   *sorted = dk->sorted;
	size_t		n = dk->batch->keybuf.n;

	if (env->spec.keys_only)
	{
		int			bits = dk->layout.total_bits;

		sorted->rid_bits = env->spec.rids_are_tids ? keybuf_rid_bits(&dk->batch->keybuf) : 0;
		sorted->format = bits + sorted->rid_bits <= 64 ? SORT_REC_PACKED : bits <= 64 ? SORT_REC_64 : SORT_REC_128;
		sorted->layout = dk->layout;
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

/* Appends a chunk's rids, or keys, to the result.  NULL, or what is wrong with them. */
static const char *
take_content(DeviceKeys *dk, const KeyChunk *chunk)
{
	size_t		at = dk->received;
	bool		last = at + chunk->rows == result_rows(dk);
	const uint32 *rids = chunk->rids;

	if (!dk->env->spec.keys_only)
	{
		uint32	   *copy = (uint32 *) dk->env->recs.ptr + at;

		/* the copy is checked, because the device can still write to the chunk */
		memcpy(copy, chunk->rids, chunk->rows * sizeof(uint32));
		rids = copy;
		if (!device_check_rids(dk, rids, chunk->rows))
			return "a row of the result " VERIFY_NOT_FROM_INPUT;
	}
	if (dk->spec.drop ?
		!device_check_groups(&dk->keys, chunk->keys, chunk->ends, dk->spec.key_width, chunk->rows, last,
							 dk->batch->keybuf.n) :
		dk->spec.want_keys &&
		!device_check_keys(&dk->keys, chunk->keys, device_pair_rids(dk->env, rids), dk->spec.key_width,
						   chunk->rows, last))
		return "the result's keys are out of order, or not the input's";
	if (dk->env->spec.keys_only)
		copy_records(dk, chunk, dk->env->recs.ptr, at);
	else if (!dk->layout.exact)
		find_chunk_ties(dk, at, chunk->rows, chunk->keys);
	return NULL;
}

/* Receives the next chunk.  False at the end, and if dk->failed is set. */
static bool
receive_chunk(DeviceKeys *dk)
{
	KeyChunk	chunk;
	const char *wrong;

	if (!next_key_chunk(dk, &chunk))
		return false;
	wrong = take_content(dk, &chunk);
	if (wrong != NULL)
	{
		device_keys_fail(dk, wrong);
		return false;
	}
	dk->received += chunk.rows;
	dk->env->report.device.bytes_down += chunk.bytes;
	if (dk->job != NULL)
		device_job_release(dk->job);
	return true;
}

/* gpusort.verify: checks the order of the rids.  Keys have been checked already. */
static bool
verify_order(DeviceKeys *dk)
{
	char		why[DEVICE_FAILURE_SIZE];

	if (!gpusort_verify || dk->env->spec.keys_only ||
		verify_rids(dk->env, dk->batch, &dk->layout, dk->sorted->rids, dk->sorted->n,
					dk->spec.drop ? dk->spec.equal_bit : -1, why))
		return true;
	device_keys_fail(dk, why);
	return false;
}

/* Receives the result.  False if dk->failed is set. */
static bool
receive_result(DeviceKeys *dk)
{
	uint64		ties;

	reserve_result(dk);
	tie_groups_begin(&dk->groups, dk->env->tiebreak, &dk->batch->arena, dk->env->recs.ptr);
	device_check_begin(dk);
	sort_env_note_memory(dk->env, batch_held(dk->batch) + dk->pending.size + device_parts_bytes(dk));
	while (receive_chunk(dk))
		CHECK_FOR_INTERRUPTS();
	if (dk->failed)
		return false;
	Assert(dk->received == result_rows(dk));
	dk->sorted->n = dk->received;
	ties = tie_groups_end(&dk->groups);
	if (!verify_order(dk))
		return false;
	drop_duplicates_here(dk);
	dk->env->report.ties += ties;
	return true;
}

/* ------------------------------------------------------------------------
 * Sorting a batch
 * ------------------------------------------------------------------------
 */

/* Opens a job, or jobs in parts, for the batch; NULL, and *refusal, if the device is not used. */
static DeviceKeys *
open_keys(SortEnv *env, Batch *batch, const KeyLayout *layout, OffloadRefusal *refusal)
{
	DeviceKeys *dk = MemoryContextAllocZero(env->cxt, sizeof(DeviceKeys));
	double		patience_us = gpusort_forced_algorithm() != NULL ? DEVICE_FORCED_PATIENCE_US : 0;

	dk->env = env;
	dk->batch = batch;
	dk->layout = *layout;
	if (device_route_keys(env, &batch->keybuf, layout, &dk->facts, &dk->decision) &&
		(open_keys_job(dk, patience_us) ||
		 (dk->facts.device == DEVICE_STATE_FULL && device_parts_begin(dk, patience_us))))
		return dk;
	refusal->device = dk->facts.device;
	refusal->why_not = dk->facts.gpu.why_not;
	pfree(dk);
	return NULL;
}

/* SortOffload.sort_keys() */
static bool
device_keys_sort(SortEnv *env, Batch *batch, const KeyLayout *layout, Sorted *sorted, OffloadRefusal *refusal)
{
	DeviceKeys *dk;
	bool		ok;
	instr_time	start;
	instr_time	end;

	if (device_check_bytes(env, batch) > env->limit)
	{
		refusal->device = env->device_failed ? DEVICE_STATE_FAILED : device_state();
		refusal->why_not = "work_mem is too small for checking the result of a device";
		return false;
	}
	dk = open_keys(env, batch, layout, refusal);
	if (dk == NULL)
		return false;

	dk->sorted = sorted;
	sort_env_clock(env, &start);
	ok = send_batch_keys(dk) && receive_result(dk);
	sort_env_clock(env, &end);
	if (ok && env->timed)
	{
		env->report.predicted_us += dk->decision.predicted_us;
		INSTR_TIME_ACCUM_DIFF(env->report.predicted_time, end, start);
	}
	env->report.device.batches += ok;
	if (!ok)
		refusal->device = dk->no_room ? dk->facts.device : DEVICE_STATE_FAILED;
	device_keys_end(dk);
	return ok;
}

static const SortOffload gpu_offload = {
	.state = device_state,
	.rows_after = DEVICE_ROWS_AFTER,
	.begin_rows = device_rows_begin,
	.sort_keys = device_keys_sort
};

void
gpu_init(void)
{
	sort_offload = &gpu_offload;
}
