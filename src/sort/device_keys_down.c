/*
 * device_keys_down.c
 *	  Key mode's way back: sorted rids, or keys, chunk by chunk.
 *
 * The node gives out rows of the first chunk while the others are still on their
 * way: sorter->n is what has arrived, and whoever comes to its end asks for more.
 * A result that is read once and forward needs no more memory than a chunk's
 * rids (or keys): each chunk replaces the one before.  One that is read again is
 * kept whole.
 *
 * Everything is waited for where the result is written to a run, where
 * gpusort.verify looks at it first, and where keys are not exact: then sorted keys
 * come along, and runs of equal ones are settled by comparison.
 *
 * Each chunk is checked before anything of it is used (device_check.c).
 *
 * On error: the CPU sorts the staged keys again and the rows go on where they stopped:
 * both orders are the stable one.  A device that fails in the middle has given the
 * right beginning; one that is found to be wrong may not have, which is checked.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "settings.h"
#include "sort/device_check.h"
#include "sort/verify.h"

static void
settle_ties(Sorter *sorter, uint32 *rids, size_t n)
{
	CHECK_FOR_INTERRUPTS();
	sorter->report.ties += n;
	tiebreak_sort(sorter->tiebreak, &sorter->arena, rids, n);
}

/* Where the run of equal keys that is not settled yet begins, and its key. */
typedef struct TieRun
{
	size_t		start;
	Key128		key;
} TieRun;

/* Settles the runs of equal keys that end among rows [first, first + count). */
static void
settle_chunk(Sorter *sorter, uint32 *rids, size_t first, size_t count,
			 const char *keys, int width, TieRun *run)
{
	for (size_t i = 0; i < count; i++)
	{
		Key128		key = device_key_at(keys, width, i);

		if (first + i > 0 && key == run->key)
			continue;
		if (first + i - run->start > 1)
			settle_ties(sorter, rids + run->start, first + i - run->start);
		run->start = first + i;
		run->key = key;
	}
}

/* Keys as the records of a sort that is nothing but keys, from place at on. */
static void
take_keys(Sorter *sorter, const char *chunk, int width, uint32 rows, size_t at)
{
	if (width == 128)
	{
		SortRec128 *recs = (SortRec128 *) sorter->recs.ptr + at;

		for (uint32 i = 0; i < rows; i++)
		{
			recs[i].hi = (uint64) (((const Key128 *) chunk)[i] >> 64);
			recs[i].lo = (uint64) ((const Key128 *) chunk)[i];
		}
	}
	else if (width == 64)
		memcpy((uint64 *) sorter->recs.ptr + at, chunk, rows * sizeof(uint64));
	else
	{
		uint64	   *words = (uint64 *) sorter->recs.ptr + at;

		for (uint32 i = 0; i < rows; i++)
			words[i] = ((const uint32 *) chunk)[i];
	}
}

/* What EXPLAIN and the statistics will say; the first chunk brings it. */
static void
report_sort(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;
	SorterReport *report = &sorter->report;

	report->facts = dk->facts;
	report->facts.n = sorter->stage.n;
	report->decision = dk->decision;
	report->decision.algorithm = algorithm_by_name(dk->job->cost.algorithm);
	report->sorted = report->decision.algorithm != NULL;
	report->key_bits = dk->facts.gpu.key_bits;
	report->bytes_up += dk->job->bytes_up;
	report->device_sort_us += dk->job->cost.sort_us;
	sorter_note_memory(sorter, dk->pending.size);
}

/* Room for the result, or for a chunk of it. */
static void
make_room(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;
	size_t		n = sorter->stage.n;

	dk->down_per_chunk = device_chunk_rows(&dk->spec);
	if (!dk->keep)
		n = Min(n, dk->down_per_chunk);
	if (dk->spec.no_rids)
	{
		sorter->keys_format = dk->spec.key_width <= 64 ? SORT_REC_PACKED : SORT_REC_128;
		sorter->keys_layout = dk->layout.layout;
		bulk_reserve(sorter->bulk, &sorter->recs, n * sort_rec_size(sorter->keys_format), 0);
		sorter->keys = sorter->recs.ptr;
	}
	else
	{
		bulk_reserve(sorter->bulk, &sorter->recs, n * sizeof(uint32), 0);
		sorter->rids = sorter->recs.ptr;
	}
	sorter->pos = sorter->n = 0;
}

/* Copies a chunk's rids, or keys, to the place at on; false if they are wrong. */
static bool
take_content(Sorter *sorter, const char *chunk, const DeviceChunkDesc *desc, size_t at,
			 TieRun *run)
{
	DeviceKeys *dk = sorter->device_keys;
	bool		last = dk->received + desc->rows == sorter->stage.n;
	uint32	   *rids = (uint32 *) sorter->recs.ptr + at;

	if (dk->spec.want_keys &&
		!device_check_keys(&dk->keys, chunk, dk->spec.key_width, desc->rows, last))
		return false;
	if (dk->spec.no_rids)
	{
		take_keys(sorter, chunk, dk->spec.key_width, desc->rows, at);
		return true;
	}
	/* what is checked is the copy: the chunk is in the device's reach */
	memcpy(rids, chunk + desc->words_at, desc->rows * sizeof(uint32));
	if (!device_check_rids(dk, rids, desc->rows))
		return false;
	if (dk->spec.want_keys)
		settle_chunk(sorter, sorter->recs.ptr, at, desc->rows, chunk, dk->spec.key_width, run);
	return true;
}

/*
 * Takes the next chunk: its rows are then the sorter's, or are added to those.
 * False at the end, and if the job is lost, also for a wrong chunk.
 */
static bool
take_chunk(Sorter *sorter, TieRun *run)
{
	DeviceKeys *dk = sorter->device_keys;
	DeviceJob  *job = dk->job;
	size_t		n = sorter->stage.n;
	DeviceChunkDesc desc;
	char	   *chunk = device_job_next_down(job, &desc);

	if (chunk == NULL)
	{
		if (!job->lost && dk->received != n)
			device_job_lose(job, "the device sent too few rows");
		return false;
	}
	if (desc.rows != Min(n - dk->received, dk->down_per_chunk))
	{
		device_job_lose(job, "the device sent another number of rows");
		return false;
	}
	if (dk->received == 0)
		report_sort(sorter);
	if (!dk->keep)
	{
		dk->given = dk->received;
		sorter->pos = sorter->n = sorter->batch_n = 0;
	}
	if (!take_content(sorter, chunk, &desc, sorter->n, run))
	{
		device_job_lose(job, dk->spec.no_rids ?
						"the result's keys are out of order, or not the input's" :
						"a row of the result is not one of the input, or comes twice");
		return false;
	}
	dk->received += desc.rows;
	sorter->n += desc.rows;
	sorter->report.bytes_down += desc.rows_at + desc.row_bytes;
	device_job_release(job);
	return true;
}

/* gpusort.verify: the rids' order, too; keys alone have been checked. */
static bool
verify_whole(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;
	char		why[sizeof(dk->job->why)];

	if (!gpusort_verify || dk->spec.no_rids ||
		verify_rids(sorter, &dk->layout.layout, sorter->rids, sorter->n, why))
		return true;
	device_job_lose(dk->job, why);
	return false;
}

bool
device_keys_receive(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;
	bool		streams = sorter->result_streams && !gpusort_verify &&
		(dk->spec.no_rids || !dk->spec.want_keys);
	TieRun		run = {0, 0};

	dk->keep = !streams || sorter->spec.random_access;
	make_room(sorter);
	device_check_begin(sorter);
	if (streams)
	{
		/* the first chunk is part of the sort's time, and so is its failure */
		return take_chunk(sorter, &run);
	}
	while (take_chunk(sorter, &run))
		CHECK_FOR_INTERRUPTS();
	if (dk->job->lost)
		return false;
	if (!dk->spec.no_rids && dk->spec.want_keys && sorter->n - run.start > 1)
		settle_ties(sorter, (uint32 *) sorter->recs.ptr + run.start, sorter->n - run.start);
	if (!verify_whole(sorter))
		return false;
	device_keys_end(sorter);
	return true;
}

/*
 * The device failed: the rest comes from the CPU.  What the check knows of the rows given
 * out must outlive the job.
 */
static void
recover(Sorter *sorter)
{
	DeviceKeys	dk = *sorter->device_keys;
	size_t		given = dk.given + sorter->pos;
	size_t		mark_pos = sorter->mark_pos;

	device_note_failure(sorter, dk.decision.algorithm, dk.job->why);
	memset(&sorter->device_keys->pending, 0, sizeof(BulkBuf));
	device_keys_end(sorter);
	sorter->result_streams = false;
	sorter_sort_staged(sorter);
	device_check_given(sorter, &dk, given);
	bulk_free(sorter->bulk, &dk.pending);
	sorter->pos = given;
	sorter->mark_pos = mark_pos;
}

bool
device_keys_more(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;

	/* no ties where the result streams */
	if (!take_chunk(sorter, NULL))
	{
		if (dk->job->lost)
			recover(sorter);
		else
			device_keys_end(sorter);
		/* it was kept for recover() */
		sorter_free_stage(sorter);
	}
	return sorter->pos < sorter->n;
}
