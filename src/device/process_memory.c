/*
 * process_memory.c
 *	  What a job's sort looks like, and the device memory that it takes.
 *
 * Memory policy: all device memory of a job is allocated when it begins, for the
 * number of rows that it was opened for, so that a job that begins cannot run
 * out of memory later: in DEVICE_ROWS the device has the only copy of the rows.
 */
#include "postgres.h"

#include <stdlib.h>

#include "device/process_job.h"

void
job_describe_sort(const DeviceSlot *slot, const ProcessJob *job, uint64 n, GpusortJob *sort)
{
	const DeviceJobSpec *spec = &slot->spec;

	memset(sort, 0, sizeof(*sort));
	sort->n = n;
	sort->key_bits = spec->key_width;
	sort->begin_bit = 0;
	sort->end_bit = spec->key_bits;
	sort->facts = GPUSORT_JOB_CLOBBER_INPUT;
	if (spec->mode == DEVICE_KEYS && !spec->no_rids)
		sort->facts |= GPUSORT_FACT_RIDS_ASCENDING;
	if (spec->distinct)
		sort->facts |= GPUSORT_FACT_DISTINCT_KEYS;
	if (spec->have_range)
	{
		sort->facts |= GPUSORT_FACT_KEY_RANGE;
		sort->key_max = spec->key_max;
	}
	sort->output = (spec->no_rids ? 0 : GPUSORT_OUT_RIDS) |
		(spec->want_keys ? GPUSORT_OUT_KEYS : 0);
	sort->keys = job->keys;
	sort->rids = spec->mode == DEVICE_KEYS && !spec->no_rids ? job->words : NULL;
	sort->keys_out = spec->want_keys ? job->keys_out : NULL;
	sort->rids_out = job->order;
	sort->scratch = job->scratch;
	sort->scratch_bytes = job->scratch_bytes;
	sort->cancel = &slot->cancel;
}

void
job_describe_gather(const DeviceSlot *slot, ProcessJob *job, uint64 n)
{
	GpusortGather *g = &job->gather;
	Size		chunk_size = device_shared->chunk_size;

	memset(g, 0, sizeof(*g));
	g->n = n;
	g->rows = job->rows;
	g->rows_units = job->row_bytes / 8;
	g->row_offset = job->words;
	g->order = job->order;
	g->out_offset = job->out_offset;
	g->chunk_units = chunk_size / 8;
	/* two neighbouring chunks hold more than one chunk's bytes together */
	g->max_chunks = (uint32) (2 * slot->spec.max_row_bytes / chunk_size + 2);
	g->chunk_row = job->chunk_row;
	g->scratch = job->scratch;
	g->scratch_bytes = job->scratch_bytes;
	g->cancel = &slot->cancel;
}

/*
 * Takes the job's algorithm, or if this device cannot run it, the first that it can;
 * says how much scratch that takes.
 */
static GpusortStatus
plan_scratch(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[slot->device];
	GpusortStatus status = GPUSORT_UNSUPPORTED;
	GpusortJob	sort;
	const char *why;
	int			asked = slot->spec.algorithm;
	int			last = slot->spec.no_other ? -1 : device_shared->nalgorithms - 1;

	job_describe_sort(slot, job, slot->spec.max_rows, &sort);
	for (int i = asked < 0 ? 0 : -1; i <= last && status != GPUSORT_OK; i++)
	{
		int			a = i < 0 ? asked : i;

		if (!slot->spec.no_rids &&
			(!device_shared->algorithms[a].stable || !device_shared->algorithms[a].rids))
			continue;
		job->algorithm = a;
		status = cuda->sort_scratch(context, a, &sort, &job->scratch_bytes, &why, err);
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
	if (slot->spec.mode == DEVICE_ROWS)
	{
		uint64		bytes;

		job->row_bytes = slot->spec.max_row_bytes;
		job_describe_gather(slot, job, slot->spec.max_rows);
		job->row_bytes = 0;
		TRY(cuda->gather_scratch(context, &job->gather, &bytes, err));
		job->scratch_bytes = Max(job->scratch_bytes, bytes);
	}
	return GPUSORT_OK;
}

GpusortStatus
job_allocate(const DeviceApi *api, const DeviceSlot *slot, ProcessJob *job, GpusortError *err)
{
	const DeviceJobSpec *spec = &slot->spec;
	GpusortContext *context = api->contexts[slot->device];
	uint64		n = spec->max_rows;
	uint64		key_bytes = n * (spec->key_width / 8);

#define ALLOC(p, bytes) \
	TRY(api->cuda->device_alloc(context, (bytes), (void **) &(p), err))

	TRY(plan_scratch(api, slot, job, err));
	ALLOC(job->keys, key_bytes);
	if (!spec->no_rids)
	{
		ALLOC(job->words, (n + 1) * sizeof(uint32));
		ALLOC(job->order, n * sizeof(uint32));
	}
	if (spec->want_keys)
		ALLOC(job->keys_out, key_bytes);
	ALLOC(job->scratch, job->scratch_bytes);
	if (spec->mode == DEVICE_ROWS)
	{
		ALLOC(job->rows, spec->max_row_bytes);
		ALLOC(job->out_offset, (n + 1) * sizeof(uint64));
		for (int b = 0; b < GATHER_BUFFERS; b++)
			ALLOC(job->gathered[b], device_shared->chunk_size);
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

void
job_release(const DeviceApi *api, ProcessJob *job)
{
	GpusortContext *context = api->contexts[job->device];
	void	   *mine[] = {job->keys, job->words, job->rows, job->keys_out, job->order,
	job->out_offset, job->scratch, job->gathered[0], job->gathered[1]};

	for (int i = 0; i < (int) lengthof(mine); i++)
	{
		if (mine[i] != NULL)
			api->cuda->device_free(context, mine[i]);
	}
	free(job->chunk_row);
	memset(&job->keys, 0, sizeof(*job) - offsetof(ProcessJob, keys));
	job->phase = JOB_NONE;
}
