/*
 * key_parts.c
 *	  Key mode in parts: keys that exceed one job or one GPU.
 *
 * The buffered keys are split by key range (key_split.c).  Each part is a job of its own, on
 * any device that has room, and the results follow each other; nothing is merged.  While the
 * result of one part is received, the next parts are sent and sorted.  A part whose keys are
 * all equal needs no sort.
 *
 * Deadlock: a sort that holds a job never waits for room.  It takes the room that is free for
 * its next part, and otherwise tries again after the next chunk.  If the part that is read next
 * has no job, no later part has one either.  Then the sort waits, in all as long as the CPU would
 * need, or for gpusort.device_patience if a GPU is forced.
 *
 * Memory policy: the split keys take at most what was counted for sorting the batch on the
 * CPU.  A sort that would exceed work_mem with them and the bitmap of check.c is not split.
 *
 * On error: as with a single job.  The key buffer is kept to the end; if a part fails or finds
 * no room, the CPU sorts the whole batch.
 */
#include "postgres.h"

#include "cost/cost.h"
#include "gpu/job.h"
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

/* Parts of fewer rows do not pay. */
#define PART_MIN_ROWS		16384

/* Open jobs of one sort, per device. */
#define PARTS_AHEAD			2

/* A sort in parts. */
typedef struct DeviceParts
{
	KeySplit	split;
	DeviceJob  *jobs[KEY_SPLIT_MAX];	/* open jobs; NULL: none */

	/* job that was opened before the keys were split; NULL: a part has it */
	DeviceJob  *spare;
	uint64		spare_rows;		/* capacity of spare */
	int			ndevices;		/* devices that this backend may use */
	int			open;			/* open jobs */
	int			next_to_send;	/* parts before it are sent, or need not be */
	int			current;		/* the part whose result is read */
	uint64		patient_until_us;	/* parts wait for room until then */
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

/* Does work_mem hold the split keys beside the batch, the check and the result? */
static bool
split_fits_memory(const DeviceKeys *dk, KeySplit *split)
{
	size_t		n = dk->batch->keybuf.n;

	/* several blocks per part, none larger than a chunk */
	size_t		block_rows = Min(Max(n / ((size_t) split->nparts * 8), 1024), key_chunk_rows(&dk->spec));

	return device_check_bytes(dk->env, dk->batch) + key_split_bytes(split, n, block_rows) <= dk->env->limit;
}

/* Opens a job for a part; NULL, and dk->facts.device, if there is no room. */
static DeviceJob *
open_part_of_keys(DeviceKeys *dk, uint64 rows, double patience_us)
{
	DeviceJobSpec spec = dk->spec;
	DeviceJob  *job;

	spec.max_rows = rows;
	job = device_job_open(dk->env->cxt, &spec, patience_us, &dk->facts.device);
	if (job != NULL)
	{
		dk->parts->open++;
		device_show_job(dk->env, job, &dk->decision, &spec);
	}
	return job;
}

bool
device_parts_begin(DeviceKeys *dk, double patience_us)
{
	SortEnv    *env = dk->env;
	const KeyBuffer *keybuf = &dk->batch->keybuf;
	DeviceParts *parts = MemoryContextAllocZero(env->cxt, sizeof(DeviceParts));
	DeviceAvailability availability;
	uint64		rows;
	uint64		part_rows;

	device_availability(&availability);
	rows = rows_of_job(dk, availability.largest_job);
	part_rows = rows * PART_FILL;
	dk->parts = parts;
	parts->ndevices = availability.devices;
	parts->patient_until_us = device_now_us() +
		(uint64) (dk->facts.forced != NULL ? DEVICE_FORCED_PATIENCE_US : dk->decision.cpu_us);
	/* parts have a known number of rows: the result has duplicates */
	dk->spec.drop = false;
	dk->spec.want_keys = env->spec.keys_only || env->spec.gpu_verified || !dk->layout.exact;
	dk->keys.cut = 0;
	if (part_rows >= PART_MIN_ROWS && part_rows < keybuf->n &&
		(dk->facts.forced != NULL || gpu_parts_us(dk->decision.algorithm, &dk->facts, (int) (keybuf->n / part_rows) + 1,
												  parts->ndevices) < dk->decision.cpu_us) &&
		key_split_plan(&parts->split, keybuf, &dk->layout, dk->spec.key_width, part_rows) &&
		split_fits_memory(dk, &parts->split))
	{
		parts->spare = open_part_of_keys(dk, rows, patience_us);
		parts->spare_rows = rows;
	}
	if (parts->spare != NULL)
	{
		dk->decision.predicted_us = gpu_parts_us(dk->decision.algorithm, &dk->facts, parts->split.nparts,
												 parts->ndevices);
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
close_part_job(DeviceKeys *dk, DeviceJob **job, bool wait)
{
	device_close_job(dk->env, *job, wait);
	*job = NULL;
	dk->parts->open--;
}

/* Sends a part to its job, and starts the sort.  A failure is noticed when the result is read. */
static void
send_part(DeviceKeys *dk, int p)
{
	KeySplit   *split = &dk->parts->split;
	DeviceJob  *job = dk->parts->jobs[p];
	int			width = dk->spec.key_width / 8;

	for (size_t at = 0; at < split->parts[p].n;)
	{
		KeySpan		span = key_split_span(split, p, at);
		KeyChunk	chunk;

		CHECK_FOR_INTERRUPTS();
		if (!key_chunk_next_up(job, span.n, &chunk))
			return;
		memcpy(chunk.keys, span.keys, span.n * width);
		if (chunk.rids != NULL)
			memcpy(chunk.rids, span.rids, span.n * sizeof(uint32));
		key_chunk_post(job, &chunk);
		at += span.n;
	}
	device_job_sort(job);
}

/* Assigns a job to the part: the spare one, or a new one.  False if there is no room. */
static bool
assign_job(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;
	size_t		n = parts->split.parts[p].n;
	double		patience_us = 0;

	/* a part that is not read yet can be sent later */
	if (p == parts->current)
		patience_us = Max(0, (double) parts->patient_until_us - (double) device_now_us());
	if (parts->spare != NULL && n > parts->spare_rows)
		close_part_job(dk, &parts->spare, false);
	parts->jobs[p] = parts->spare != NULL ? parts->spare :
		open_part_of_keys(dk, n, patience_us);
	parts->spare = NULL;
	return parts->jobs[p] != NULL;
}

/* Sends the next parts while there is room.  The sort fails if there is none for the part that is read. */
static void
send_next_parts(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	for (; parts->next_to_send < parts->split.nparts; parts->next_to_send++)
	{
		const KeyPart *part = &parts->split.parts[parts->next_to_send];

		if (part->constant || part->n == 0)
			continue;
		if (parts->open >= PARTS_AHEAD * parts->ndevices && parts->spare == NULL)
			return;
		if (!assign_job(dk, parts->next_to_send))
		{
			dk->failed = dk->no_room = parts->next_to_send == parts->current;
			return;
		}
		send_part(dk, parts->next_to_send);
	}
}

void
device_parts_send(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;
	KeySplit   *split = &parts->split;
	MemoryContext old = MemoryContextSwitchTo(dk->env->cxt);
	uint64		start = device_now_us();

	key_split_run(split, dk->env->bulk, &dk->batch->keybuf, &dk->layout);
	MemoryContextSwitchTo(old);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %zu keys were split into %d parts in %.1f ms", dk->batch->keybuf.n,
							 split->nparts, (device_now_us() - start) / 1000.0)));
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
	send_next_parts(dk);
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */

bool
device_parts_next(DeviceKeys *dk, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;
	const KeyPart *part = &parts->split.parts[parts->current];

	while (dk->received - dk->job_first == part->n)
	{
		dk->job = NULL;
		/* the next part may need this part's memory */
		if (parts->jobs[parts->current] != NULL)
			close_part_job(dk, &parts->jobs[parts->current], parts->next_to_send == parts->current + 1 &&
						   parts->next_to_send < parts->split.nparts);
		dk->job_first += part->n;
		if (++parts->current == parts->split.nparts)
		{
			dk->env->report.parts += parts->current;
			return false;
		}
		part = &parts->split.parts[parts->current];
	}
	send_next_parts(dk);
	if (dk->failed)
		return false;
	dk->job = parts->jobs[parts->current];
	if (part->constant)
	{
		KeySpan		span = key_split_span(&parts->split, parts->current, dk->received - dk->job_first);

		*chunk = (KeyChunk) {.rows = (uint32) span.n,.keys = span.keys,.rids = span.rids};
	}
	return true;
}

Size
device_parts_bytes(const DeviceKeys *dk)
{
	return dk->parts == NULL ? 0 : dk->parts->split.blocks.requested;
}

void
device_parts_end(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	dk->job = NULL;
	for (int p = 0; p < parts->split.nparts; p++)
	{
		if (parts->jobs[p] != NULL)
			close_part_job(dk, &parts->jobs[p], false);
	}
	if (parts->spare != NULL)
		close_part_job(dk, &parts->spare, false);
	key_split_free(&parts->split, dk->env->bulk);
	pfree(parts);
	dk->parts = NULL;
}
