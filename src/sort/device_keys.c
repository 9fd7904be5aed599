/*
 * device_keys.c
 *	  Key mode: keys and rids go to the device, rids come back in order.
 *
 * The rows stay in the arena.  Keys are packed straight into chunks of the pinned
 * staging pool, at the narrowest of 32, 64 and 128 bits, so that while one chunk
 * crosses the bus the next is packed; the staged rids travel along, because
 * mapping positions back to rids here would be a cache miss per row.
 *
 * Keys of a large sort go up while its rows still come in.  From some number of
 * rows on, when the router says that the device will be worth it, each chunk's
 * worth of staged keys is sent as soon as it is there: it is still in the cache
 * then, and at the end of the scan only the last chunk is missing.  The ranges
 * are not known yet, so these keys have the bits of their types
 * (device_layout.h).  Should that turn out not to do (a NULL without a place, more
 * rows than there is room for, all of them in order) the job is dropped, and what is right for
 * the whole input is done at the end: the staged keys are all here.
 *
 * A sort whose rows are its keys (keys_only.h) sends no rids and gets the keys back.
 * device_keys_down.c has the way back.
 *
 * On error: rows and staged keys are kept until the result is here, so whatever happens
 * to the job the CPU can sort them, and does.  An ERROR (a cancel, a comparator)
 * closes the job with the sorter's memory context.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "settings.h"
#include "sort/device_check.h"

/* Keys of so many rows are waited for before some are sent. */
#define STREAM_AFTER_ROWS	((size_t) 1 << 18)

/* Room beyond what is expected, so that an estimate may be a bit off. */
#define STREAM_MARGIN		1.25

static size_t
rows_per_chunk(const Sorter *sorter, int key_width)
{
	Size		row = key_width / 8 + (sorter->spec.keys_only ? 0 : sizeof(uint32));

	return (device_shared->chunk_size - DEVICE_PART_ALIGN) / row;
}

/* Opens the job that dk describes, for so many rows; false and the reason if not. */
static bool
open_job(Sorter *sorter, DeviceKeys *dk, uint64 max_rows, double patience_us)
{
	dk->spec.mode = DEVICE_KEYS;
	dk->spec.max_rows = max_rows;
	device_route_job(&dk->facts, &dk->decision, &dk->spec);
	dk->layout.key_width = dk->spec.key_width;
	dk->per_chunk = rows_per_chunk(sorter, dk->spec.key_width);
	dk->ties = sorter->report.ties;
	dk->job = device_job_open(sorter->cxt, &dk->spec, device_job_bytes(&dk->spec),
							  (int) (max_rows / dk->per_chunk) + 1,
							  patience_us, &dk->facts.device);
	if (dk->job != NULL)
		sorter->device_keys = dk;
	return dk->job != NULL;
}

void
device_keys_end(Sorter *sorter)
{
	if (sorter->device_keys == NULL)
		return;
	device_job_close(sorter->device_keys->job);
	bulk_free(sorter->bulk, &sorter->device_keys->pending);
	pfree(sorter->device_keys);
	sorter->device_keys = NULL;
}

/* Sends the next n staged rows' keys, no more than a chunk's worth. */
static bool
send_chunk(Sorter *sorter, size_t n)
{
	DeviceKeys *dk = sorter->device_keys;
	const Stage *stage = &sorter->stage;
	bool		rids = !sorter->spec.keys_only;
	int			width = dk->spec.key_width;
	char	   *chunk = device_job_next_up(dk->job);
	DeviceChunkDesc desc = {0};

	if (chunk == NULL)
		return false;
	CHECK_FOR_INTERRUPTS();
	desc.rows = (uint32) n;
	desc.words_at = device_part(desc.rows * (width / 8));
	desc.rows_at = desc.words_at + (rids ? desc.rows * sizeof(uint32) : 0);
	pack_keys(stage, &dk->layout.layout, width, dk->sent, n, chunk);
	if (rids)
		memcpy(chunk + desc.words_at, stage->rids + dk->sent, n * sizeof(uint32));
	if (dk->spec.want_keys)
		dk->keys.sum += device_check_sum(chunk, width, n);
	device_job_post(dk->job, &desc);
	dk->sent += n;
	return true;
}

/* ------------------------------------------------------------------------
 * While rows come in
 * ------------------------------------------------------------------------
 */
size_t
device_keys_after(const Sorter *sorter)
{
	const Algorithm *forced = gpusort_forced_algorithm();

	if (sorter->bound > 0 || sorter->report.device_failed || !sorter->stage.exact ||
		device_state() != ROUTE_DEVICE_READY)
		return SIZE_MAX;
	if (forced == NULL)
		return STREAM_AFTER_ROWS;
	/* some want a range, which only the end tells */
	return !algorithm_on_gpu(forced) || forced->by_value ? SIZE_MAX : rows_per_chunk(sorter, 128);
}

/* Rows that the sort, or the run that is being made, may come to. */
static double
rows_to_expect(const Sorter *sorter)
{
	double		n = sorter->stage.n;
	double		bytes = (double) arena_used(&sorter->arena) / n + sorter->key_cost;
	double		rows = device_rows_expected(sorter) * STREAM_MARGIN;

	return Min(rows, Max(n, sorter->limit / bytes) + STREAM_AFTER_ROWS);
}

/* Asks whether keys shall go up now. */
static bool
begin_stream(Sorter *sorter)
{
	DeviceKeys *dk = MemoryContextAllocZero(sorter->cxt, sizeof(DeviceKeys));
	double		rows = Min(rows_to_expect(sorter), PG_UINT32_MAX - 1);

	if (device_layout_choose(&dk->layout, &sorter->stage, 32) &&
		device_route_keys(sorter, &dk->layout.layout, dk->layout.key_width, 0,
						  (size_t) (rows / STREAM_MARGIN), &dk->facts, &dk->decision) &&
		open_job(sorter, dk, (uint64) Min(rows, 2.0 * sorter->stage.n), 0))
		return true;
	pfree(dk);
	return false;
}

/* Room on the device for so many keys; some more, if they are still coming. */
static bool
room_for(DeviceKeys *dk, size_t n, bool more)
{
	return n <= dk->spec.max_rows ||
		(more && 2 * n < PG_UINT32_MAX && device_job_grow(dk->job, &dk->spec, 2 * n, 0)) ||
		(n < PG_UINT32_MAX && !dk->job->lost && device_job_grow(dk->job, &dk->spec, n, 0));
}

void
device_keys_stream(Sorter *sorter)
{
	DeviceKeys *dk;

	if (sorter->device_keys == NULL && !begin_stream(sorter))
	{
		/* more rows may make it worth it */
		sorter->send_at = 2 * sorter->stage.n;
		return;
	}
	dk = sorter->device_keys;
	while (sorter->stage.n - dk->sent >= dk->per_chunk)
	{
		if (!device_layout_holds(&dk->layout, &sorter->stage) ||
			!room_for(dk, dk->sent + dk->per_chunk, true) ||
			!send_chunk(sorter, dk->per_chunk))
		{
			if (dk->job->lost)
				device_note_failure(sorter, dk->decision.algorithm, dk->job->why);
			device_keys_end(sorter);
			sorter->send_at = SIZE_MAX;
			return;
		}
	}
	sorter->send_at = dk->sent + dk->per_chunk;
}

/* ------------------------------------------------------------------------
 * When they are all there
 * ------------------------------------------------------------------------
 */

/* Is the job that keys were sent to still the right one? */
static bool
stream_fits(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;
	const Stage *stage = &sorter->stage;

	return device_layout_holds(&dk->layout, stage) &&
		(dk->facts.forced != NULL || !device_keys_ordered(stage, &dk->layout.layout)) &&
		room_for(dk, stage->n, false);
}

/* What waiting for room may cost. */
static double
patience_us(const DeviceKeys *dk)
{
	if (device_fault_ordered() == DEVICE_FAULT_PATIENT)
		return DEVICE_TEST_PATIENCE_US;
	return dk->facts.forced != NULL ? DEVICE_FORCED_PATIENCE_US :
		dk->decision.cpu_us - dk->decision.predicted_us;
}

/* Opens a job for what is known now. */
static bool
begin_whole(Sorter *sorter, const KeyLayout *layout, uint64 key_range)
{
	DeviceKeys *dk = MemoryContextAllocZero(sorter->cxt, sizeof(DeviceKeys));
	SorterReport *report = &sorter->report;

	dk->layout.layout = *layout;
	if (device_route_keys(sorter, layout, device_key_width(layout->total_bits), key_range,
						  sorter->stage.n, &dk->facts, &dk->decision) &&
		open_job(sorter, dk, sorter->stage.n, patience_us(dk)))
		return true;
	report->facts.device = dk->facts.device;
	report->facts.gpu.why_not = dk->facts.gpu.why_not;
	pfree(dk);
	return false;
}

static bool
send_rest(Sorter *sorter)
{
	DeviceKeys *dk = sorter->device_keys;
	size_t		n = sorter->stage.n;

	while (dk->sent < n)
	{
		if (!send_chunk(sorter, Min(dk->per_chunk, n - dk->sent)))
			return false;
	}
	device_job_sort(dk->job);
	return !dk->job->lost;
}

bool
device_keys_sort(Sorter *sorter, const KeyLayout *layout, uint64 key_range)
{
	DeviceKeys *dk;

	if (!device_check_fits(sorter))
	{
		device_keys_end(sorter);
		sorter->report.facts.device = sorter->report.device_failed ?
			ROUTE_DEVICE_FAILED : device_state();
		sorter->report.facts.gpu.why_not = "work_mem has no room to check what comes back";
		return false;
	}
	if (sorter->device_keys != NULL && !stream_fits(sorter))
	{
		dk = sorter->device_keys;
		if (dk->job->lost)
			device_note_failure(sorter, dk->decision.algorithm, dk->job->why);
		device_keys_end(sorter);
	}
	if (sorter->device_keys == NULL && !begin_whole(sorter, layout, key_range))
		return false;

	sorter->report.early_rows += sorter->device_keys->sent;
	sorter->send_at = device_keys_after(sorter);
	if (send_rest(sorter) && device_keys_receive(sorter))
		return true;

	dk = sorter->device_keys;
	sorter->report.ties = dk->ties;
	sorter->report.facts.device = ROUTE_DEVICE_FAILED;
	device_note_failure(sorter, dk->decision.algorithm, dk->job->why);
	device_keys_end(sorter);
	return false;
}
