/*
 * key_parts.c
 *	  Key mode in parts: keys that exceed one job or one GPU.
 *
 * The staged keys are split by range (key/key_split.h).  Each part is a job like any other,
 * on whichever device has room for it, and the results, one behind the other, are the
 * result: nothing is merged.  While rows of a part are given out, those behind it are
 * sent and sorted, on the same device where it has room for two, and on others.
 *
 * Whoever holds a job never waits for room: with one part on a device it takes what is
 * free for the next, or asks again after the next chunk.  It waits (admission.c) when it
 * holds none, so that sorts in parts cannot block each other.
 *
 * A part whose keys are all equal is in order where it lies.  One that no device takes,
 * or that comes out too small to be worth it, is sorted there by the CPU (device_parts_host.c).
 *
 * Memory policy: the split keys take no more than what was counted for sorting the batch
 * on the CPU; a sort that would exceed work_mem with them and the check is not parted.
 *
 * On error: a part that a device loses is sent once more, to any, and then sorted here; those
 * behind it go on.  A result that is wrong is the end of the device for this sort, as in one
 * piece: the staged keys are kept to the end.
 */
#include "postgres.h"

#include "cost/cost.h"
#include "gpu/gpu.h"
#include "gpu/gpu_internal.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "service/protocol.h"
#include "service/service_internal.h"
#include "settings.h"
#include "sort/sort_internal.h"

/* A job's room is filled to so much by what is expected of a part, which may be more. */
#define PART_FILL			7 / 8

/* Parts of fewer rows are sorted here. */
#define PART_MIN_ROWS		16384

/* Jobs that a sort has open at once, for each device. */
#define PARTS_AHEAD			2

/* Times that parts were lost until no device is asked any more. */
#define PARTS_MAX_LOST		2

typedef struct PartPlace
{
	DeviceJob  *job;			/* NULL: none */
	bool		here;			/* it is in order where it lies */
} PartPlace;

typedef struct DeviceParts
{
	KeySplit	split;
	PartPlace	parts[KEY_SPLIT_MAX];
	DeviceJob  *spare;			/* opened before the first part is known; NULL: used */
	uint64		spare_rows;
	int			ndevices;
	int			open;			/* jobs */
	int			ahead;			/* the first part that nothing has been done about */
	int			now;			/* the part whose rows come */
	size_t		come;			/* of them */
	size_t		in_chunk;		/* of the chunk that is being read */
	int			failed;			/* times that a part was, */
	uint32		failed_with;		/* the last time with this generation of the device process */
} DeviceParts;

/* ------------------------------------------------------------------------
 * Room and gain
 * ------------------------------------------------------------------------
 */

static bool device_part_sort_here(SortEnv *env, Batch *batch, const KeySplit *split, int part,
								  int key_bits);

/* Keys that a job of so many bytes has room for. */
static uint64
rows_in(const DeviceKeys *dk, uint64 bytes)
{
	uint64		empty = gpusort_keys_bytes(device_costs(), 0, dk->facts.gpu.key_width);
	uint64		row = gpusort_keys_bytes(device_costs(), 1, dk->facts.gpu.key_width) - empty;

	return bytes > empty ? (bytes - empty) / row : 0;
}

/* Rows of a job: two shall fit beside each other, unless that leaves little for each. */
static uint64
rows_of_job(const DeviceKeys *dk, uint64 bytes)
{
	uint64		one = rows_in(dk, bytes);
	uint64		two = rows_in(dk, bytes / 2);

	return two >= one / 4 ? two : one;
}

static double
parts_us(const DeviceKeys *dk, int parts, int devices)
{
	return gpu_parts_us(dk->decision.algorithm, &dk->facts, parts, devices);
}

/* Would so many parts be quicker than the CPU, or shall they be in any case? */
static bool
pays(const DeviceKeys *dk, int parts)
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

/* Blocks of the split keys: some for each part, but no larger than a chunk. */
static size_t
block_rows(const DeviceKeys *dk, int parts)
{
	size_t		rows = dk->batch->keybuf.n / ((size_t) parts * 8);

	return Min(Max(rows, 1024), dk->per_chunk);
}

/* Is there memory for the split keys beside the batch, the check and the result? */
static bool
memory_fits(const DeviceKeys *dk, KeySplit *split)
{
	const Batch *batch = dk->batch;

	return device_check_bytes(dk->env, batch) +
		key_split_bytes(split, batch->keybuf.n, block_rows(dk, split->nparts)) <= dk->env->limit;
}

/* Opens a job of so many rows; NULL if there is no room. */
static DeviceJob *
open_job(DeviceKeys *dk, uint64 rows, double patience_us, DeviceState *why)
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
	dk->layout.key_width = dk->spec.key_width;
	dk->per_chunk = key_chunk_rows(&dk->spec);
	if (part_rows >= PART_MIN_ROWS && part_rows < keybuf->n &&
		pays(dk, (int) (keybuf->n / part_rows) + 1) &&
		key_split_plan(&parts->split, keybuf, &dk->layout.layout, dk->spec.key_width, part_rows) &&
		key_split_sorts(&parts->split) && memory_fits(dk, &parts->split) && job_secret_make(&dk->keys.secret))
	{
		parts->spare = open_job(dk, rows, patience_us, &dk->facts.device);
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
static void
close_job(DeviceKeys *dk, DeviceJob **job)
{
	device_job_close(*job);
	*job = NULL;
	if (--dk->parts->open == 0)
		dk->env->progress.now->device = 0;
}

/* Sends a part to its job, and asks for the sort.  A job that is lost shows when it is read. */
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

/* Gets the part a job; false if there is no room now. */
static bool
open_part(DeviceKeys *dk, int p)
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
		close_job(dk, &parts->spare);
	if (parts->failed >= PARTS_MAX_LOST || device_state() != DEVICE_STATE_READY)
		return false;
	/* who waits must hold nothing that another could wait for */
	parts->parts[p].job = open_job(dk, n, parts->open > 0 ? 0 : dk->decision.cpu_us / parts->split.nparts,
								   &why);
	return parts->parts[p].job != NULL;
}

/* Sends the next parts, as far as there is room for them. */
static void
send_ahead(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	for (; parts->ahead < parts->split.nparts; parts->ahead++)
	{
		const KeyPart *part = &parts->split.parts[parts->ahead];

		if (part->constant || part->n == 0)
			parts->parts[parts->ahead].here = true;
		else if (part->n >= PART_MIN_ROWS)
		{
			if (parts->open >= PARTS_AHEAD * parts->ndevices && parts->spare == NULL)
				return;
			if (!open_part(dk, parts->ahead))
				return;
			send_part(dk, parts->ahead);
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

			dk->keys.sum += device_check_sum(&dk->keys.secret, span.keys, dk->spec.key_width, span.n);
			at += span.n;
		}
	}
	dk->env->report.parts += split->nparts;
	send_ahead(dk);
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */

/* What a job did, for EXPLAIN; its first chunk is here. */
static void
report_job(DeviceKeys *dk, const DeviceJob *job)
{
	device_keys_report(dk, job);
	device_report_part(dk->env, job, dk->parts->split.parts[dk->parts->now].n);
}

/* The part's job is lost: it is sent once more, or sorted here. */
static void
part_failed(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;
	const DeviceJob *job = parts->parts[p].job;
	uint32		generation = job->word >> 2;
	bool		ended = generation != pg_atomic_read_u32(&device_shared->generation);

	/* a sort is counted once */
	if (parts->failed == 0)
		device_note_failure(dk->env, dk->decision.algorithm, job->why);
	/* a process takes all parts with it that it has */
	if (parts->failed == 0 || !ended || parts->failed_with != generation)
		parts->failed++;
	parts->failed_with = generation;
	close_job(dk, &parts->parts[p].job);
	if (open_part(dk, p))
		send_part(dk, p);
}

/* The part that no device has is brought in order; false if that cannot be. */
static bool
sort_here(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;

	if (!device_part_sort_here(dk->env, dk->batch, &parts->split, p, dk->spec.key_bits))
	{
		device_keys_fail(dk, "work_mem has no room to sort a part on the CPU");
		return false;
	}
	parts->parts[p].here = true;
	dk->env->report.parts_here++;
	return true;
}

/* A chunk of what lies here. */
static void
chunk_here(const DeviceKeys *dk, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;
	KeySpan		span = key_split_span(&parts->split, parts->now, parts->come);

	chunk->rows = (uint32) Min(span.n, dk->down_per_chunk);
	chunk->keys = span.keys;
	chunk->rids = span.rids;
	chunk->bytes = 0;
}

/*
 * The next chunk of the job's result.  A job that is not the part's first gives those again
 * that have been taken: what it sends behind them is only right if they were, and is checked.
 */
static bool
chunk_of_job(DeviceKeys *dk, DeviceJob *job, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;
	size_t		n = parts->split.parts[parts->now].n;

	for (;;)
	{
		size_t		read = (size_t) job->read * dk->down_per_chunk;

		if (!key_chunk_next_down(job, &dk->spec, n - read, chunk))
			return false;
		if (read == 0)
			report_job(dk, job);
		if (read >= parts->come)
			return true;
		device_job_release(job);
	}
}

bool
device_parts_next(DeviceKeys *dk, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;

	for (;;)
	{
		PartPlace  *part = &parts->parts[parts->now];

		CHECK_FOR_INTERRUPTS();
		if (parts->come == parts->split.parts[parts->now].n)
		{
			if (part->job != NULL)
				close_job(dk, &part->job);
			parts->come = 0;
			if (++parts->now == parts->split.nparts)
				return false;
			continue;
		}
		send_ahead(dk);
		if (part->here)
			chunk_here(dk, chunk);
		else if (part->job == NULL)
		{
			if (!sort_here(dk, parts->now))
				return false;
			parts->ahead = Max(parts->ahead, parts->now + 1);
			continue;
		}
		else if (!chunk_of_job(dk, part->job, chunk))
		{
			part_failed(dk, parts->now);
			continue;
		}
		parts->in_chunk = chunk->rows;
		return true;
	}
}

void
device_parts_release(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	if (parts->parts[parts->now].job != NULL)
		device_job_release(parts->parts[parts->now].job);
	parts->come += parts->in_chunk;
}

void
device_parts_end(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	for (int p = 0; p < parts->split.nparts; p++)
	{
		if (parts->parts[p].job != NULL)
			close_job(dk, &parts->parts[p].job);
	}
	if (parts->spare != NULL)
		close_job(dk, &parts->spare);
	key_split_free(&parts->split, dk->env->bulk);
	pfree(parts);
	dk->parts = NULL;
}

/* ------------------------------------------------------------------------
 * A part of a sort's keys that no device sorts: the CPU does, where it lies.
 *
 * Memory policy: records and scratch of one part, within work_mem.
 * ------------------------------------------------------------------------
 */

/* The part's keys as records, or records' keys and rids back into the part. */
static void
copy_records(const KeySplit *split, int part, const SortProblem *problem, void *recs, bool back)
{
	uint64		rid_mask = (UINT64CONST(1) << problem->begin_bit) - 1;
	size_t		i = 0;

	while (i < split->parts[part].n)
	{
		KeySpan		span = key_split_span(split, part, i);

		CHECK_FOR_INTERRUPTS();
		for (size_t k = 0; k < span.n; k++, i++)
		{
			Key128		key = device_key_at(span.keys, split->key_width, k);
			uint32		rid = span.rids == NULL ? 0 : span.rids[k];

			switch (problem->format)
			{
				case SORT_REC_PACKED:
					if (back)
					{
						key = ((uint64 *) recs)[i] >> problem->begin_bit;
						rid = (uint32) (((uint64 *) recs)[i] & rid_mask);
					}
					else
						((uint64 *) recs)[i] = (uint64) key << problem->begin_bit | rid;
					break;
				case SORT_REC_64:
					if (back)
					{
						key = ((SortRec64 *) recs)[i].key;
						rid = ((SortRec64 *) recs)[i].rid;
					}
					else
						((SortRec64 *) recs)[i] = (SortRec64) {(uint64) key, rid, 0};
					break;
				case SORT_REC_128:
					if (back)
					{
						key = (Key128) ((SortRec128 *) recs)[i].hi << 64 | ((SortRec128 *) recs)[i].lo;
						rid = ((SortRec128 *) recs)[i].rid;
					}
					else
						((SortRec128 *) recs)[i] = (SortRec128) {(uint64) (key >> 64), (uint64) key, rid, 0};
					break;
			}
			if (!back)
				continue;
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

/* device_parts_host.c: the CPU sorts a part, where it lies; false if there is no memory for that. */
static bool
device_part_sort_here(SortEnv *env, Batch *batch, const KeySplit *split, int part, int key_bits)
{
	const SortKernel *kernel = sort_algorithms[ALGORITHM_CPU_RADIX].kernel;
	int			rid_bits = split->rids ? keybuf_rid_bits(&batch->keybuf) : 0;
	BulkBuf		recs = {0};
	SortProblem problem = {0};
	Size		bytes;
	Size		scratch;
	SortStatus	status;

	problem.format = key_bits + rid_bits <= 64 ? SORT_REC_PACKED : key_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	problem.n = split->parts[part].n;
	problem.begin_bit = problem.format == SORT_REC_PACKED ? rid_bits : 0;
	problem.end_bit = problem.begin_bit + key_bits;
	problem.rids_ascending = split->rids;
	problem.team = sort_threads(problem.n, env->spec.participants);
	problem.interrupted = sort_threads_interrupted;
	problem.interrupted_arg = problem.team;
	bytes = problem.n * sort_rec_size(problem.format);
	scratch = kernel->scratch_bytes(&problem);
	if (batch_held(batch) + split->blocks.requested + env->recs.requested + bytes + scratch > env->limit)
	{
		sort_threads_release();
		return false;
	}

	bulk_reserve(env->bulk, &recs, bytes, 0);
	bulk_reserve(env->bulk, &env->scratch, scratch, 0);
	problem.recs = recs.ptr;
	problem.scratch = env->scratch.ptr;
	sort_env_note_memory(env, batch_held(batch) + split->blocks.requested + bytes);
	copy_records(split, part, &problem, problem.recs, false);
	status = kernel->run(&problem);
	sort_threads_ended(status, sort_algorithms[ALGORITHM_CPU_RADIX].name);
	copy_records(split, part, &problem, problem.result, true);
	bulk_free(env->bulk, &recs);
	bulk_free(env->bulk, &env->scratch);
	return true;
}
