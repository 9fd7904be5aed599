/*
 * key_parts.c
 *	  Key mode in parts: keys that exceed one job or one GPU.
 *
 * The buffered keys are split by key range (key_split.c).  Each part is a job of its own, on
 * any device that has room, and the results follow each other; nothing is merged.  While the
 * result of one part is received, the next parts are sent and sorted.
 *
 * A part whose keys are all equal needs no sort.  A part that no device takes, or that is too
 * small to gain, is sorted in place by the CPU.
 *
 * Deadlock: a sort that holds a job never waits for room.  It takes the room that is free for
 * its next part, and otherwise tries again after the next chunk.
 *
 * Memory policy: the split keys take at most what was counted for sorting the batch on the
 * CPU.  A sort that would exceed work_mem with them and the bitmap of check.c is not split.
 * Sorting a part on the CPU takes records and scratch of one part, within work_mem.
 *
 * On error: a part whose device fails is sorted on the CPU, and so are the parts that were
 * not sent; those on other devices continue.  After a wrong result the whole sort is repeated
 * on the CPU, as with a single job: the key buffer is kept to the end.
 */
#include "postgres.h"

#include "cost/cost.h"
#include "gpu/job_key.h"
#include "gpu/job_route.h"
#include "gpu/key_mode.h"
#include "gpu/key_split.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort_internal.h"

/*
 * The expected rows of a part fill this share of its job, as the part may be larger.  Without
 * parentheses: rows * PART_FILL is computed in integers.
 */
#define PART_FILL			7 / 8

/* Parts of fewer rows are sorted on the CPU. */
#define PART_MIN_ROWS		16384

/* Open jobs of one sort, per device. */
#define PARTS_AHEAD			2

/* The state of a part. */
typedef struct KeyPartJob
{
	DeviceJob  *job;			/* NULL: none */
	bool		sorted;			/* the split keys themselves are in order */
} KeyPartJob;

/* A sort in parts. */
typedef struct DeviceParts
{
	KeySplit	split;
	KeyPartJob	parts[KEY_SPLIT_MAX];

	/* job that was opened before the keys were split; NULL: a part has it */
	DeviceJob  *spare;
	uint64		spare_rows;		/* capacity of spare */
	int			ndevices;		/* devices that this backend may use */
	int			open;			/* open jobs */
	int			next_to_send;	/* parts before it are sent, or need not be */
	int			current;		/* the part whose result is read */
	size_t		received;		/* its rows in chunks that were released */
	size_t		chunk_rows;		/* rows of the chunk that is read */
	bool		failed;			/* a part's device failed: no more jobs */
} DeviceParts;

/* ------------------------------------------------------------------------
 * Room and gain
 * ------------------------------------------------------------------------
 */

/* Rows that a job of this many bytes has room for. */
static uint64
rows_of_bytes(const DeviceKeys *dk, uint64 bytes)
{
	uint64		empty = gpusort_keys_bytes(device_costs(), 0, dk->facts.gpu.key_width);
	uint64		row = gpusort_keys_bytes(device_costs(), 1, dk->facts.gpu.key_width) - empty;

	return bytes > empty ? (bytes - empty) / row : 0;
}

/* Rows of each job, so that two jobs fit at once, unless each would become very small. */
static uint64
rows_of_job(const DeviceKeys *dk, uint64 bytes)
{
	uint64		one = rows_of_bytes(dk, bytes);
	uint64		two = rows_of_bytes(dk, bytes / 2);

	return two >= one / 4 ? two : one;
}

/* Predicted time of the sort in parts. */
static double
parts_us(const DeviceKeys *dk, int parts, int devices)
{
	return gpu_parts_us(dk->decision.algorithm, &dk->facts, parts, devices);
}

/* Are the parts faster than the CPU, or is a GPU algorithm forced? */
static bool
parts_pay(const DeviceKeys *dk, int parts)
{
	return dk->facts.forced != NULL || parts_us(dk, parts, dk->parts->ndevices) < dk->decision.cpu_us;
}

int
device_parts_quicker(const DeviceKeys *dk)
{
	int			devices;

	if (device_shared->ndevices < 2)
		return 0;
	(void) device_largest_job(&devices);
	return devices > 1 && parts_us(dk, devices, devices) < dk->decision.predicted_us ? devices : 0;
}

/* Rows in a block of the split keys: several blocks per part, none larger than a chunk. */
static size_t
split_block_rows(const DeviceKeys *dk, int parts)
{
	size_t		rows = dk->batch->keybuf.n / ((size_t) parts * 8);

	return Min(Max(rows, 1024), dk->per_chunk);
}

/* Does work_mem hold the split keys beside the batch, the check and the result? */
static bool
split_fits_memory(const DeviceKeys *dk, KeySplit *split)
{
	const Batch *batch = dk->batch;

	return device_check_bytes(dk->env, batch) +
		key_split_bytes(split, batch->keybuf.n, split_block_rows(dk, split->nparts)) <= dk->env->limit;
}

/* Opens a job for a part; NULL, and *why, if there is no room. */
static DeviceJob *
open_part_of_keys(DeviceKeys *dk, uint64 rows, double patience_us, DeviceState *why)
{
	DeviceJobSpec spec = dk->spec;
	DeviceJob  *job;

	spec.max_rows = rows;
	job = device_job_open(dk->env->cxt, &spec, device_job_bytes(&spec),
						  (int) (rows / dk->per_chunk) + 1, patience_us, why);
	if (job != NULL)
	{
		dk->parts->open++;
		dk->env->progress.now->device += device_job_bytes(&spec);
	}
	return job;
}

bool
device_parts_begin(DeviceKeys *dk, int at_least, double patience_us)
{
	SortEnv    *env = dk->env;
	const KeyBuffer *keybuf = &dk->batch->keybuf;
	DeviceParts *parts = MemoryContextAllocZero(env->cxt, sizeof(DeviceParts));
	uint64		rows = rows_of_job(dk, device_largest_job(&parts->ndevices));
	uint64		part_rows = rows * PART_FILL;

	if (at_least > 0)
	{
		part_rows = Min(part_rows, keybuf->n / at_least + 1);
		rows = Min(rows, part_rows * 9 / 8);
	}
	dk->parts = parts;
	device_route_job(&dk->facts, &dk->decision, &dk->spec);
	dk->spec.mode = DEVICE_KEYS;
	/* parts have a known number of rows: the result has duplicates */
	dk->spec.drop = false;
	dk->spec.want_keys = env->spec.keys_only || env->spec.gpu_verified || !dk->layout.layout.exact;
	dk->layout.key_width = dk->spec.key_width;
	dk->per_chunk = key_chunk_rows(&dk->spec);
	if (part_rows >= PART_MIN_ROWS && part_rows < keybuf->n &&
		parts_pay(dk, (int) (keybuf->n / part_rows) + 1) &&
		key_split_plan(&parts->split, keybuf, &dk->layout.layout, dk->spec.key_width, part_rows) &&
		key_split_sorts(&parts->split) && split_fits_memory(dk, &parts->split) && job_secret_make(&dk->keys.secret))
	{
		parts->spare = open_part_of_keys(dk, rows, patience_us, &dk->facts.device);
		parts->spare_rows = rows;
	}
	if (parts->spare != NULL)
	{
		dk->decision.predicted_us = parts_us(dk, parts->split.nparts, parts->ndevices);
		env->progress.now->algorithm = dk->decision.algorithm->id;
		return true;
	}
	dk->parts = NULL;
	pfree(parts);
	return false;
}

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */

/* Closes a job and sets the pointer to it to NULL. */
static void
close_part_job(DeviceKeys *dk, DeviceJob **job)
{
	device_job_close(*job);
	*job = NULL;
	if (--dk->parts->open == 0)
		dk->env->progress.now->device = 0;
}

/* Sends a part to its job, and starts the sort.  A failure is noticed when the result is read. */
static void
send_part(DeviceKeys *dk, int p)
{
	KeySplit   *split = &dk->parts->split;
	DeviceJob  *job = dk->parts->parts[p].job;
	int			width = dk->spec.key_width / 8;

	for (size_t at = 0; at < split->parts[p].n;)
	{
		KeySpan		span = key_split_span(split, p, at);
		KeyChunk	chunk;

		CHECK_FOR_INTERRUPTS();
		if (!key_chunk_next_up(job, &dk->spec, span.n, &chunk))
			return;
		memcpy(chunk.keys, span.keys, span.n * width);
		if (chunk.rids != NULL)
			memcpy(chunk.rids, span.rids, span.n * sizeof(uint32));
		key_chunk_post(job, &dk->spec, &chunk);
		at += span.n;
	}
	device_job_sort(job);
}

/* Assigns a job to the part: the spare one, or a new one.  False if there is no room now. */
static bool
assign_job(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;
	size_t		n = parts->split.parts[p].n;
	DeviceState why;

	if (parts->spare != NULL && n <= parts->spare_rows)
	{
		parts->parts[p].job = parts->spare;
		parts->spare = NULL;
		return true;
	}
	if (parts->spare != NULL)
		close_part_job(dk, &parts->spare);
	if (parts->failed || device_state() != DEVICE_STATE_READY)
		return false;
	parts->parts[p].job = open_part_of_keys(dk, n, 0, &why);
	return parts->parts[p].job != NULL;
}

/* Sends the next parts while there is room. */
static void
send_next_parts(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	for (; parts->next_to_send < parts->split.nparts; parts->next_to_send++)
	{
		const KeyPart *part = &parts->split.parts[parts->next_to_send];

		if (part->constant || part->n == 0)
			parts->parts[parts->next_to_send].sorted = true;
		else if (part->n >= PART_MIN_ROWS)
		{
			if (parts->open >= PARTS_AHEAD * parts->ndevices && parts->spare == NULL)
				return;
			if (!assign_job(dk, parts->next_to_send))
				return;
			send_part(dk, parts->next_to_send);
		}
	}
}

void
device_parts_send(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;
	KeySplit   *split = &parts->split;
	MemoryContext old = MemoryContextSwitchTo(dk->env->cxt);
	uint64		start = device_now_us();

	key_split_run(split, dk->env->bulk, &dk->batch->keybuf, &dk->layout.layout);
	MemoryContextSwitchTo(old);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %zu keys were split into %d parts in %.1f ms", dk->batch->keybuf.n,
							 split->nparts, (device_now_us() - start) / 1000.0)));
	sort_env_note_memory(dk->env, batch_held(dk->batch) + split->blocks.requested);
	for (int p = 0; dk->spec.want_keys && p < split->nparts; p++)
	{
		for (size_t at = 0; at < split->parts[p].n;)
		{
			KeySpan		span = key_split_span(split, p, at);

			dk->keys.sum += device_check_sum(&dk->keys, span.keys, device_pair_rids(dk->env, span.rids),
											 dk->spec.key_width, span.n);
			at += span.n;
		}
	}
	dk->env->report.parts += split->nparts;
	send_next_parts(dk);
}

/* ------------------------------------------------------------------------
 * Sorting a part on the CPU
 * ------------------------------------------------------------------------
 */

/* Copies the part's keys to records or, if "back", sorted records to the part. */
static void
copy_part_records(const KeySplit *split, int part, const SortProblem *problem, void *recs, bool back)
{
	size_t		i = 0;

	while (i < split->parts[part].n)
	{
		KeySpan		span = key_split_span(split, part, i);

		CHECK_FOR_INTERRUPTS();
		for (size_t k = 0; k < span.n; k++, i++)
		{
			Key128		key = device_key_at(span.keys, split->key_width, k);
			uint32		rid = span.rids == NULL ? 0 : span.rids[k];

			if (!back)
			{
				sort_rec_set(recs, problem->format, problem->begin_bit, i, key, rid);
				continue;
			}
			key = sort_rec_get(recs, problem->format, problem->begin_bit, i, &rid);
			if (split->key_width == 32)
				((uint32 *) span.keys)[k] = (uint32) key;
			else if (split->key_width == 64)
				((uint64 *) span.keys)[k] = (uint64) key;
			else
				((Key128 *) span.keys)[k] = key;
			if (span.rids != NULL)
				span.rids[k] = rid;
		}
	}
}

/* Sorts a part in place on the CPU; false if there is no memory for that. */
static bool
sort_part_on_cpu(SortEnv *env, Batch *batch, const KeySplit *split, int part, int key_bits)
{
	int			rid_bits = split->rids ? keybuf_rid_bits(&batch->keybuf) : 0;
	BulkBuf		recs = {0};
	SortProblem problem = {0};
	Size		held = batch_held(batch) + split->blocks.requested;
	bool		sorted = false;

	problem.format = key_bits + rid_bits <= 64 ? SORT_REC_PACKED : key_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	problem.n = split->parts[part].n;
	problem.begin_bit = problem.format == SORT_REC_PACKED ? rid_bits : 0;
	problem.end_bit = problem.begin_bit + key_bits;
	problem.rids_ascending = split->rids;
	held += problem.n * sort_rec_size(problem.format);
	if (held + env->recs.requested <= env->limit)
	{
		bulk_reserve(env->bulk, &recs, problem.n * sort_rec_size(problem.format), 0);
		problem.recs = recs.ptr;
		copy_part_records(split, part, &problem, problem.recs, false);
		sorted = order_records(env, &problem, held);
	}
	if (sorted)
		copy_part_records(split, part, &problem, problem.result, true);
	bulk_free(env->bulk, &recs);
	bulk_free(env->bulk, &env->scratch);
	return sorted;
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */

static void
report_part_job(DeviceKeys *dk, const DeviceJob *job)
{
	device_keys_report(dk, job);
	device_report_part(dk->env, job, dk->parts->split.parts[dk->parts->current].n);
}

/* The part's job failed. */
static void
part_failed(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;

	/* statistics count a sort once */
	if (!parts->failed)
		device_note_failure(dk->env, dk->decision.algorithm);
	parts->failed = true;
	close_part_job(dk, &parts->parts[p].job);
}

/* Sorts a part that has no job on the CPU; false if there is no memory for that. */
static bool
sort_part(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;
	SortReport *report = &dk->env->report;

	if (!sort_part_on_cpu(dk->env, dk->batch, &parts->split, p, dk->spec.key_bits))
	{
		device_keys_fail(dk, "work_mem has no room to sort a part on the CPU");
		return false;
	}
	parts->parts[p].sorted = true;
	report->parts_here++;
	/* the first job whose result comes reports its own method */
	if (!report->sorted)
	{
		report->facts = dk->facts;
		report->decision = dk->decision;
		report->decision.algorithm = &sort_algorithms[ALGORITHM_CPU_RADIX];
		if (dk->facts.forced != NULL)
			report->decision.forced_why_not = "the CPU sorted its parts";
		report->key_bits = dk->spec.key_bits;
		report->sorted = true;
	}
	return true;
}

/* Sets *chunk to the next rows of a part whose split keys are in order. */
static void
chunk_of_split(const DeviceKeys *dk, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;
	KeySpan		span = key_split_span(&parts->split, parts->current, parts->received);

	chunk->rows = (uint32) Min(span.n, dk->down_per_chunk);
	chunk->keys = span.keys;
	chunk->rids = span.rids;
	chunk->bytes = 0;
}

/* The next chunk of the job's result; false if the job failed. */
static bool
chunk_of_job(DeviceKeys *dk, DeviceJob *job, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;

	if (!key_chunk_next_down(job, &dk->spec, parts->split.parts[parts->current].n, parts->received, chunk))
		return false;
	if (parts->received == 0)
		report_part_job(dk, job);
	return true;
}

bool
device_parts_next(DeviceKeys *dk, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;

	for (;;)
	{
		KeyPartJob *part = &parts->parts[parts->current];

		CHECK_FOR_INTERRUPTS();
		if (parts->received == parts->split.parts[parts->current].n)
		{
			if (part->job != NULL)
				close_part_job(dk, &part->job);
			parts->received = 0;
			if (++parts->current == parts->split.nparts)
				return false;
			continue;
		}
		send_next_parts(dk);
		if (part->sorted)
			chunk_of_split(dk, chunk);
		else if (part->job == NULL)
		{
			if (!sort_part(dk, parts->current))
				return false;
			parts->next_to_send = Max(parts->next_to_send, parts->current + 1);
			continue;
		}
		else if (!chunk_of_job(dk, part->job, chunk))
		{
			part_failed(dk, parts->current);
			continue;
		}
		parts->chunk_rows = chunk->rows;
		return true;
	}
}

void
device_parts_release(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	if (parts->parts[parts->current].job != NULL)
		device_job_release(parts->parts[parts->current].job);
	parts->received += parts->chunk_rows;
}

void
device_parts_end(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	for (int p = 0; p < parts->split.nparts; p++)
	{
		if (parts->parts[p].job != NULL)
			close_part_job(dk, &parts->parts[p].job);
	}
	if (parts->spare != NULL)
		close_part_job(dk, &parts->spare);
	key_split_free(&parts->split, dk->env->bulk);
	pfree(parts);
	dk->parts = NULL;
}
