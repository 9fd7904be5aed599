/*
 * process_memory.c
 *	  Device memory of jobs.
 *
 * Memory policy: all device memory of a job is allocated when it begins, for the
 * number of rows that it was opened for.  So a job cannot run out of memory later; in
 * DEVICE_ROWS the device has the only copy of the rows.  A job that grows gets new
 * memory, and its input is copied on the device.  A copy on the device is much faster
 * than the bus, and kernels need each array in one piece.  Sizes double, so that all
 * copies together are no more than one copy of the final size.  Scratch and output
 * memory is empty before the sort and is freed before the new memory is allocated.
 * If the new memory cannot be had, the old sizes are allocated again, from the blocks
 * that the library keeps.
 */
#include "postgres.h"

#include <stdlib.h>

#include "service/process_internal.h"

void
job_describe_problem(const DeviceSlot *slot, const ProcessJob *job, uint64 n, GpusortProblem *problem)
{
	const DeviceJobSpec *spec = &slot->spec;

	memset(problem, 0, sizeof(*problem));
	problem->n = n;
	problem->key_width = spec->key_width;
	problem->begin_bit = 0;
	problem->end_bit = spec->key_bits;
	problem->facts = GPUSORT_MAY_CLOBBER_INPUT;
	if (spec->mode == DEVICE_KEYS && !spec->keys_only)
		problem->facts |= GPUSORT_FACT_RIDS_ASCENDING;
	if (spec->distinct)
		problem->facts |= GPUSORT_FACT_DISTINCT_KEYS;
	if (spec->have_range)
	{
		problem->facts |= GPUSORT_FACT_KEY_RANGE;
		problem->key_max = spec->key_max;
	}
	problem->output = (spec->keys_only ? 0 : GPUSORT_OUT_RIDS) |
		(spec->want_keys ? GPUSORT_OUT_KEYS : 0);
	problem->keys = job->keys;
	problem->rids = spec->mode == DEVICE_KEYS && !spec->keys_only ? job->words : NULL;
	problem->keys_out = spec->want_keys ? job->keys_out : NULL;
	problem->rids_out = job->order;
	problem->scratch = job->scratch;
	problem->scratch_bytes = job->scratch_bytes;
	problem->cancel = &slot->cancel;
}

/*
 * The first keys of the groups replace the input's keys, which the sort has used.  So do
 * their row ids; the offsets of rows are still needed.
 */
void
job_describe_groups(const DeviceSlot *slot, const ProcessJob *job, uint64 n, GpusortGroups *problem)
{
	const DeviceJobSpec *spec = &slot->spec;

	memset(problem, 0, sizeof(*problem));
	problem->n = n;
	problem->key_width = spec->key_width;
	problem->begin_bit = spec->equal_bit;
	problem->end_bit = spec->key_bits;
	problem->keys = job->keys_out;
	problem->rids = spec->keys_only ? NULL : job->order;
	problem->keys_out = job->keys;
	problem->rids_out = spec->mode == DEVICE_ROWS ? job->first : job->words;
	problem->ends = job->ends;
	problem->scratch = job->scratch;
	problem->scratch_bytes = job->scratch_bytes;
	problem->cancel = &slot->cancel;
}

void
job_describe_gather(const DeviceSlot *slot, ProcessJob *job, uint64 n)
{
	GpusortGather *g = &job->gather;
	const DeviceJobSpec *spec = &slot->spec;
	Size		chunk_size = device_shared->chunk_size - (spec->drop ? 2 * DEVICE_PART_ALIGN : 0);
	uint32		overhead = spec->drop ? (spec->key_width / 8 + sizeof(uint32) + 7) / 8 : 0;

	memset(g, 0, sizeof(*g));
	g->n = n;
	g->rows = job->rows;
	g->rows_units = job->row_bytes / 8;
	g->row_offset = job->words;
	g->order = spec->drop ? job->first : job->order;
	g->out_offset = job->out_offset;
	g->chunk_units = chunk_size / 8;
	g->overhead_units = overhead;
	/* any two consecutive chunks together hold more than one chunk's bytes */
	g->max_chunks = (uint32) (2 * (job->max_row_bytes + job->max_rows * overhead * 8) / chunk_size + 2);
	g->chunk_row = job->chunk_row;
	g->scratch = job->scratch;
	g->scratch_bytes = job->scratch_bytes;
	g->cancel = &slot->cancel;
}

/*
 * Chooses the algorithm that the backend asked for or, if that cannot sort this, the first
 * one that can.  Sets the size of the scratch memory.
 */
static GpusortStatus
plan_scratch(const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortContext *context = device_contexts[slot->device];
	GpusortStatus status = GPUSORT_UNSUPPORTED;
	GpusortProblem problem;
	const char *why;
	int			asked = slot->spec.algorithm;
	int			last = slot->spec.no_other ? -1 : device_shared->nalgorithms - 1;

	job_describe_problem(slot, job, job->max_rows, &problem);
	/* i is -1 for the algorithm that was asked for */
	for (int i = asked < 0 ? 0 : -1; i <= last && status != GPUSORT_OK; i++)
	{
		int			a = i < 0 ? asked : i;

		/* the number is that of the library when the sort was routed */
		if (a >= device_shared->nalgorithms)
			continue;
		if (!slot->spec.keys_only &&
			(!cuda->algorithm(a)->stable || !cuda->algorithm(a)->rids))
			continue;
		job->algorithm = a;
		status = cuda->sort_scratch(context, a, &problem, &job->scratch_bytes, &why, err);
		if (status != GPUSORT_OK && status != GPUSORT_UNSUPPORTED)
			return status;
	}
	if (status != GPUSORT_OK)
	{
		if (err->message[0] == '\0')
			strlcpy(err->message, "no algorithm of the device can sort this",
					sizeof(err->message));
		return status;
	}
	if (slot->spec.drop)
	{
		GpusortGroups groups;
		uint64		bytes;

		job_describe_groups(slot, job, job->max_rows, &groups);
		TRY(cuda->groups_scratch(context, &groups, &bytes, err));
		job->scratch_bytes = Max(job->scratch_bytes, bytes);
	}
	if (slot->spec.mode == DEVICE_ROWS)
	{
		uint64		row_bytes = job->row_bytes;
		uint64		bytes;

		job->row_bytes = job->max_row_bytes;
		job_describe_gather(slot, job, job->max_rows);
		job->row_bytes = row_bytes;
		TRY(cuda->gather_scratch(context, &job->gather, &bytes, err));
		job->scratch_bytes = Max(job->scratch_bytes, bytes);
	}
	return GPUSORT_OK;
}

/* Allocates the memory that the job does not have yet. */
static GpusortStatus
allocate(const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	GpusortContext *context = device_contexts[slot->device];
	uint64		n = job->max_rows;
	uint64		key_bytes = n * (spec->key_width / 8);

#define ALLOC(p, bytes) \
	do { \
		if ((p) == NULL) \
			TRY(cuda->device_alloc(context, (bytes), (void **) &(p), err)); \
	} while (0)

	TRY(plan_scratch(slot, job, err));
	ALLOC(job->keys, key_bytes);
	if (!spec->keys_only)
	{
		ALLOC(job->words, (n + 1) * sizeof(uint32));
		ALLOC(job->order, n * sizeof(uint32));
	}
	if (spec->want_keys)
		ALLOC(job->keys_out, key_bytes);
	if (spec->drop)
		ALLOC(job->ends, n * sizeof(uint32));
	if (spec->drop && spec->mode == DEVICE_ROWS)
		ALLOC(job->first, n * sizeof(uint32));
	ALLOC(job->scratch, job->scratch_bytes);
	if (spec->mode == DEVICE_ROWS)
	{
		ALLOC(job->rows, job->max_row_bytes);
		ALLOC(job->out_offset, (n + 1) * sizeof(uint64));
		for (int b = 0; b < GATHER_BUFFERS; b++)
			ALLOC(job->gathered[b], device_shared->chunk_size);
		if (job->chunk_row == NULL)
			job->chunk_row = malloc(((Size) job->gather.max_chunks + 1) * sizeof(uint32));
		if (job->chunk_row == NULL)
		{
			strlcpy(err->message, "no host memory", sizeof(err->message));
			return GPUSORT_NO_MEMORY;
		}
	}
#undef ALLOC
	return GPUSORT_OK;
}

/* Frees the blocks [from, to) of the job. */
static void
release_blocks(ProcessJob *job, int from, int to)
{
	for (int b = from; b < to; b++)
	{
		if (job->blocks[b] != NULL)
			cuda->device_free(device_contexts[job->device], job->blocks[b]);
		job->blocks[b] = NULL;
	}
}

/* Frees the memory that has no data before the sort: scratch and output. */
static void
release_empty(ProcessJob *job)
{
	release_blocks(job, JOB_INPUT_BLOCKS, JOB_BLOCKS);
	free(job->chunk_row);
	job->chunk_row = NULL;
}

/* Frees all memory of the job. */
static void
release_all(ProcessJob *job)
{
	release_blocks(job, 0, JOB_INPUT_BLOCKS);
	release_empty(job);
}

/*
 * allocate(), with a second try.  The library keeps blocks of earlier jobs, and may return
 * a block that is larger than asked for.  If the job exceeds the budget because of that,
 * all kept blocks are freed, and the job gets blocks of the right size.
 */
static GpusortStatus
allocate_or_trim(const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	GpusortStatus status = allocate(slot, job, err);

	if (status == GPUSORT_NO_MEMORY)
	{
		release_all(job);
		cuda->device_trim(device_contexts[slot->device]);
		status = allocate(slot, job, err);
	}
	return status;
}

GpusortStatus
job_allocate(const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	job->max_rows = slot->spec.max_rows;
	job->max_row_bytes = slot->spec.max_row_bytes;
	return allocate_or_trim(slot, job, err);
}

/* Copies the input that has come so far to new memory, and waits for the copies. */
static GpusortStatus
copy_input(const DeviceSlot *slot, const ProcessJob *from, ProcessJob *to,
		   GpusortError *err)
{
	TRY(cuda->copy_within(to->stream, to->keys, from->keys,
						  from->n * (slot->spec.key_width / 8), err));
	if (from->words != NULL)
		TRY(cuda->copy_within(to->stream, to->words, from->words, from->n * sizeof(uint32), err));
	if (from->rows != NULL)
		TRY(cuda->copy_within(to->stream, to->rows, from->rows, from->row_bytes, err));
	return cuda->stream_wait(to->stream, err);
}

GpusortStatus
job_grow(DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	ProcessJob	old;
	GpusortStatus status;

	release_empty(job);
	old = *job;
	memset(job->blocks, 0, sizeof(job->blocks));
	job->max_rows = slot->grow.rows;
	job->max_row_bytes = slot->grow.row_bytes;
	status = allocate_or_trim(slot, job, err);
	slot->grow_ok = status == GPUSORT_OK;
	if (status == GPUSORT_OK)
	{
		status = copy_input(slot, &old, job, err);
		release_blocks(&old, 0, JOB_INPUT_BLOCKS);
	}
	else if (gpusort_use_cpu(status))
	{
		release_all(job);
		*job = old;
		status = allocate(slot, job, err);
	}
	return status;
}

void
job_release(ProcessJob *job)
{
	StaticAssertStmt(offsetof(ProcessJob, scratch_bytes) - offsetof(ProcessJob, blocks) == JOB_BLOCKS * sizeof(void *),
					 "blocks[] has all blocks");
	release_all(job);
	memset(&job->blocks, 0, sizeof(*job) - offsetof(ProcessJob, blocks));
	job->begun = false;
}
