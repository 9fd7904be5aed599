/*
 * device_rows_down.c
 *	  Record mode's way back: sorted rows, chunk by chunk.
 *
 * Always checked: a row's own checksum, before anything of it is used, so that what is
 * given out is a row that went in, whatever the device; and at the end the sum of all
 * rows against those that went in, so that none came twice in another's place.  By
 * then, where the result streams, rows were given out.  The child is then run again, as
 * after any failure, and if the rows that come first now are not those that were given
 * out, the query ends with an ERROR (gpusort_node.c).
 *
 * Verification (gpusort.verify): the result is brought back to a run before its first row
 * is given out, and its keys are looked at: are they in order?  Equal rows' order cannot
 * be checked from the rows alone.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "node/device_pause.h"
#include "settings.h"
#include "sort/device_rows.h"

#define ROWS_PER_INTERRUPT_CHECK	4096

/* Everything is up: asks for the sort. */
static void
ask_sort(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;

	device_rows_post(dev);
	device_job_sort(dev->job);
}

/* What EXPLAIN and the statistics will say. */
static void
report_sort(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	SorterReport *report = &sorter->report;

	report->facts = dev->facts;
	report->facts.n = dev->rows;
	report->decision = dev->decision;
	report->decision.algorithm = algorithm_by_name(dev->job->cost.algorithm);
	report->sorted = report->decision.algorithm != NULL;
	report->key_bits = dev->spec.key_bits;
	report->device_rows += dev->rows;
	report->device_sort_us += dev->job->cost.sort_us;
	sorter_note_memory(sorter, dev->job->slot == NULL ? 0 :
					   dev->job->slot->nchunks * device_shared->chunk_size);
}

/*
 * Makes the next chunk of the result the one that is read; false at the end, or
 * if the job is lost.
 */
static bool
next_result(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	DeviceChunkDesc desc;
	char	   *chunk;

	if (sorter->lost)
		return false;
	if (dev->holding)
	{
		dev->given += dev->holding_rows;
		dev->holding = false;
		device_job_release(dev->job);
	}
	chunk = device_job_next_down(dev->job, &desc);
	if (chunk == NULL && !dev->job->lost && dev->given != dev->rows)
		device_job_lose(dev->job, "the device sent too few rows");
	else if (chunk == NULL && !dev->job->lost && sorter->stream_sum != dev->sum)
		device_job_lose(dev->job, "the result's rows are not the input's");
	else if (chunk != NULL && desc.rows > dev->rows - dev->given)
		device_job_lose(dev->job, "the device sent too many rows");
	if (dev->job->lost)
		device_rows_lost(sorter);
	if (dev->job->lost || chunk == NULL)
		return false;
	if (dev->given == 0)
	{
		sorter->stream_sum = 0;
		report_sort(sorter);
	}
	dev->holding = true;
	dev->holding_rows = desc.rows;
	sorter->stream_next = chunk + desc.rows_at;
	sorter->stream_end = chunk + device_shared->chunk_size;
	sorter->stream_left = desc.rows;
	sorter->report.bytes_up = dev->job->bytes_up;
	sorter->report.bytes_down = dev->job->bytes_down;
	return true;
}

MinimalTuple
device_rows_next(Sorter *sorter)
{
	MinimalTuple row;

	while (sorter->stream_left == 0)
	{
		if (!next_result(sorter))
			return NULL;
	}
	row = sorter_stream_row(sorter);
	if (row == NULL)
	{
		device_job_lose(sorter->device_rows->job, "a row of the result is none of the input's");
		device_rows_lost(sorter);
	}
	return row;
}

uint64
device_rows_given(const Sorter *sorter)
{
	const DeviceRows *dev = sorter->device_rows;

	return dev->given + (dev->holding ? dev->holding_rows - sorter->stream_left : 0);
}

/* A row of the result under gpusort.verify. */
typedef struct VerifyRows
{
	Key128		prev;
	TupleTableSlot *slot;
} VerifyRows;

static bool
verify_row(Sorter *sorter, VerifyRows *verify, MinimalTuple row)
{
	const DeviceRows *dev = sorter->device_rows;
	const Stage *stage = &sorter->stage;
	Key128		key;

	row_to_slot(verify->slot, row);
	slot_getsomeattrs(verify->slot, stage->last_att);
	if (!device_row_key(&dev->layout, stage, verify->slot->tts_values, verify->slot->tts_isnull, &key) ||
		key < verify->prev)
		return false;
	verify->prev = key;
	return true;
}

/*
 * Brings the sorted rows back into a run on disk.  False if they are lost or,
 * under gpusort.verify, found wrong; sorter->lost then holds.
 */
static bool
rows_to_run(Sorter *sorter)
{
	DeviceRows *dev = sorter->device_rows;
	VerifyRows	verify = {0, NULL};
	RunWriter	writer;
	MemoryContext old;
	MinimalTuple row;

	if (gpusort_verify)
		verify.slot = MakeSingleTupleTableSlot(sorter->spec.desc, &TTSOpsMinimalTuple);
	old = sorter_begin_run(sorter, &writer);
	for (uint64 i = 0; (row = device_rows_next(sorter)) != NULL; i++)
	{
		if (i % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (verify.slot != NULL && !verify_row(sorter, &verify, row))
		{
			device_job_lose(dev->job, "a row of the result is out of order");
			device_rows_lost(sorter);
			break;
		}
		run_writer_row(&writer, row);
	}
	sorter_finish_run(sorter, &writer, old);
	if (verify.slot != NULL)
		ExecDropSingleTupleTableSlot(verify.slot);
	return !sorter->lost;
}

/* Is there room in the host's memory, so that there need not be a run? */
static bool
fit_memory(const Sorter *sorter)
{
	const DeviceRows *dev = sorter->device_rows;
	Size		bytes = (Size) dev->units << 3;

	return sorter->nruns == 0 && !gpusort_verify &&
		bytes + dev->rows * sorter->key_cost <= sorter->limit && dev->rows <= sorter->max_rows &&
		arena_has_rids(&sorter->arena, bytes);
}

/*
 * Brings the sorted rows back as if they came in now, so that others may follow: sorted
 * with those, equal ones stay in their order.
 */
static void
rows_to_memory(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	TupleTableSlot *slot = sorter_merge_slot(sorter);
	MinimalTuple row;

	stage_reserve(stage, sorter->device_rows->rows);
	while ((row = device_rows_next(sorter)) != NULL)
	{
		uint32		rid;
		char	   *copy = arena_alloc(&sorter->arena, MAXALIGN(row->t_len), &rid);

		if (copy == NULL || stage->n == stage->capacity)
			elog(ERROR, "gpusort: rows from the device are more than went there");
		if (stage->n % ROWS_PER_INTERRUPT_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		memcpy(copy, row, row->t_len);
		row_to_slot(slot, (MinimalTuple) copy);
		slot_getsomeattrs(slot, stage->last_att);
		stage_row(stage, slot->tts_values, slot->tts_isnull, rid);
	}
	ExecClearTuple(slot);
	sorter->device_rows_allowed = false;
	sorter->send_at = device_keys_after(sorter);
}

/*
 * Ends the device's part: the rows become a run, or are in the host's memory again.
 * False: the sort goes on there; true if it is lost, so that nothing more is to be done.
 */
bool
device_rows_seal(Sorter *sorter)
{
	if (!sorter->lost)
	{
		ask_sort(sorter);
		if (fit_memory(sorter))
			rows_to_memory(sorter);
		else
			(void) rows_to_run(sorter);
	}
	if (sorter->lost)
		return true;
	device_rows_end(sorter);
	sorter->put_limit = device_rows_after(sorter);
	return false;
}

void
device_rows_perform(Sorter *sorter)
{
	if (sorter->lost)
		return;
	if (sorter->nruns > 0 || gpusort_verify || device_may_pause())
	{
		(void) device_rows_seal(sorter);
		return;
	}
	ask_sort(sorter);
	/* the first chunk is part of the sort's time, and so is its failure */
	(void) next_result(sorter);
	sorter->state = SORTER_STREAM;
}

void
device_rows_end(Sorter *sorter)
{
	if (sorter->device_rows == NULL)
		return;
	device_job_close(sorter->device_rows->job);
	pfree(sorter->device_rows);
	sorter->device_rows = NULL;
	sorter->stream_left = 0;
}
