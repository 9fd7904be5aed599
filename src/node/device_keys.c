/*
 * device_keys.c
 *	  Key mode: keys and rids go to the device, rids come back in order.
 *
 * The rows stay in the arena.  Keys are packed straight into chunks of the pinned
 * staging pool, at the narrowest of 32, 64 and 128 bits, so that while one chunk
 * crosses the bus the next is packed; the staged rids travel along, because
 * mapping positions back to rids here would be a cache miss per row.  The sorted
 * rids are copied out of the chunks as these arrive.  If the key is not exact the
 * sorted keys come back too, and runs of equal ones are settled by comparison
 * while later chunks are still under way.
 *
 * A sort whose rows are its keys (keys_only.h) sends no rids and gets the keys back.
 *
 * Memory policy: nothing but the rids, n * 4 bytes.  Staging is the pool's.
 *
 * On error: the rows are all here, so whatever happens to the job the CPU can
 * sort them, and does.  An ERROR (a cancel, a comparator) closes the job with the
 * sorter's memory context.
 */
#include "postgres.h"

#include "device/client.h"
#include "miscadmin.h"
#include "node/device_sort.h"
#include "node/verify.h"
#include "port/pg_bitutils.h"
#include "route/gpu_model.h"
#include "settings.h"
#include "sqlapi/sqlapi.h"
#include "stat.h"

/* Room for the words on what is wrong with a result. */
#define DEVICE_WHY_SIZE	128

/* Neighbours looked at to tell whether the input may be sorted already. */
#define ORDER_SAMPLE	256

static int
key_width(const KeyLayout *layout)
{
	return layout->total_bits <= 32 ? 32 : layout->total_bits <= 64 ? 64 : 128;
}

/* The facts as the CPU's routing will see them. */
static void
fill_facts(const Sorter *sorter, const KeyLayout *layout, uint64 key_range, RouteFacts *facts)
{
	const Stage *stage = &sorter->stage;
	int			rid_bits = 0;

	if (!sorter->spec.keys_only && stage->rids[stage->n - 1] != 0)
		rid_bits = 1 + pg_leftmost_one_pos32(stage->rids[stage->n - 1]);
	memset(facts, 0, sizeof(*facts));
	facts->n = stage->n;
	if (sorter->spec.keys_only && layout->total_bits > 64)
	{
		facts->format = SORT_REC_128;
		facts->end_bit = layout->total_bits;
	}
	else
	{
		/* cut to a word beside the rid, which mostly does */
		facts->format = SORT_REC_PACKED;
		facts->begin_bit = rid_bits;
		facts->end_bit = Max(1, Min(rid_bits + layout->total_bits, 64));
	}
	facts->rids_ascending = true;
	facts->key_range = key_range;
	facts->inexact = !layout->exact;
	facts->bound = sorter->bound;
	facts->threads = gpusort_threads;
	facts->device = ROUTE_DEVICE_READY;
	facts->forced = gpusort_forced_algorithm();
}

/* An input that looks sorted or reversed is the CPU's, which need not move it. */
static bool
looks_ordered(const Stage *stage, const KeyLayout *layout)
{
	size_t		step = Max(1, stage->n / ORDER_SAMPLE);
	size_t		descents = 0;
	size_t		ascents = 0;

	for (size_t i = 0; i + 1 < stage->n; i += step)
	{
		char		keys[2 * sizeof(Key128)] pg_attribute_aligned(16);

		/* 128 bits hold any key; wide layouts are left-aligned either way */
		if (layout->total_bits <= 64)
		{
			uint64	   *k = (uint64 *) keys;

			pack_keys(stage, layout, 64, i, 2, k);
			descents += k[1] < k[0];
			ascents += k[1] > k[0];
		}
		else
		{
			Key128	   *k = (Key128 *) keys;

			pack_keys(stage, layout, 128, i, 2, k);
			descents += k[1] < k[0];
			ascents += k[1] > k[0];
		}
	}
	return descents == 0 || ascents == 0;
}

/*
 * Does the route go to the device?  *algorithm is the ABI's index or -1,
 * *patience_us what waiting for room may cost.
 */
static bool
route_to_device(const Sorter *sorter, const KeyLayout *layout, RouteFacts *facts,
				int *algorithm, double *patience_us)
{
	RouteFacts	cpu = *facts;
	RouteDecision decision;
	double		gpu_us;

	*algorithm = -1;
	*patience_us = 0;
	if (facts->forced != NULL)
	{
		facts->device = device_state();
		if (facts->device != ROUTE_DEVICE_READY || gpu_route_kernel(facts->forced) == NULL)
			return false;
		*algorithm = device_algorithm(facts->forced);
		*patience_us = 1e7;
		return *algorithm >= 0;
	}
	facts->device = device_state();
	if (facts->n < GPU_MIN_ROWS || facts->device != ROUTE_DEVICE_READY ||
		looks_ordered(&sorter->stage, layout))
		return false;

	gpusort_model_refresh(cpu.n);
	gpusort_route_decide(&cpu, &decision);
	gpu_us = gpu_predict_us(facts->n, key_width(layout), !layout->exact);
	*patience_us = decision.predicted_us - gpu_us;
	return *patience_us > 0;
}

static void
describe_job(const Sorter *sorter, const KeyLayout *layout, uint64 key_range,
			 const RouteFacts *facts, int algorithm, DeviceJobSpec *spec)
{
	memset(spec, 0, sizeof(*spec));
	spec->mode = DEVICE_KEYS;
	spec->key_width = key_width(layout);
	spec->key_bits = Max(1, Min(layout->total_bits, 128));
	spec->algorithm = algorithm;
	spec->no_rids = sorter->spec.keys_only;
	spec->want_keys = spec->no_rids || !layout->exact;
	if (key_range != 0)
	{
		spec->have_range = true;
		spec->key_max.lo = key_range - 1;
	}
	spec->max_rows = facts->n;
	spec->fault = device_fault_ordered();
}

static inline Key128
key_at(const char *keys, int width, size_t i)
{
	if (width == 32)
		return ((const uint32 *) keys)[i];
	if (width == 64)
		return ((const uint64 *) keys)[i];
	return ((const Key128 *) keys)[i];
}

/* The sum of n keys, by which gpusort.verify knows them again. */
static Key128
sum_keys(const char *keys, int width, size_t n)
{
	Key128		sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += key_at(keys, width, i);
	return sum;
}

/* Packs the keys into chunks and posts them; *sum with gpusort.verify. */
static bool
send_keys(Sorter *sorter, const KeyLayout *layout, DeviceJob *job, Key128 *sum)
{
	const Stage *stage = &sorter->stage;
	int			width = key_width(layout);
	bool		rids = !sorter->spec.keys_only;
	Size		row = width / 8 + (rids ? sizeof(uint32) : 0);
	size_t		per_chunk = (device_shared->chunk_size - DEVICE_PART_ALIGN) / row;

	for (size_t start = 0; start < stage->n; start += per_chunk)
	{
		char	   *chunk = device_job_next_up(job);
		DeviceChunkDesc desc = {0};

		if (chunk == NULL)
			return false;
		CHECK_FOR_INTERRUPTS();
		desc.rows = (uint32) Min(per_chunk, stage->n - start);
		desc.words_at = device_part(desc.rows * (width / 8));
		desc.rows_at = desc.words_at + (rids ? desc.rows * sizeof(uint32) : 0);
		pack_keys(stage, layout, width, start, desc.rows, chunk);
		if (rids)
			memcpy(chunk + desc.words_at, stage->rids + start, desc.rows * sizeof(uint32));
		else if (gpusort_verify)
			*sum += sum_keys(chunk, width, desc.rows);
		device_job_post(job, &desc);
	}
	device_job_sort(job);
	return !job->lost;
}

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
		Key128		key = key_at(keys, width, i);

		if (first + i > 0 && key == run->key)
			continue;
		if (first + i - run->start > 1)
			settle_ties(sorter, rids + run->start, first + i - run->start);
		run->start = first + i;
		run->key = key;
	}
}

/* Takes the sorted rids from the chunks. */
static bool
receive_rids(Sorter *sorter, DeviceJob *job, const DeviceJobSpec *spec)
{
	size_t		n = sorter->stage.n;
	size_t		done = 0;
	uint32	   *rids;
	TieRun		run = {0, 0};
	DeviceChunkDesc desc;
	char	   *chunk;

	bulk_reserve(sorter->bulk, &sorter->recs, n * sizeof(uint32), 0);
	rids = sorter->recs.ptr;
	while ((chunk = device_job_next_down(job, &desc)) != NULL)
	{
		if (desc.rows > n - done)
		{
			device_job_lose(job, "the device sent too many rows");
			return false;
		}
		memcpy(rids + done, chunk + desc.words_at, desc.rows * sizeof(uint32));
		if (spec->want_keys)
			settle_chunk(sorter, rids, done, desc.rows, chunk, spec->key_width, &run);
		done += desc.rows;
		device_job_release(job);
		CHECK_FOR_INTERRUPTS();
	}
	if (job->lost)
		return false;
	if (done != n)
	{
		device_job_lose(job, "the device sent too few rows");
		return false;
	}
	if (spec->want_keys && n - run.start > 1)
		settle_ties(sorter, rids + run.start, n - run.start);
	return true;
}

/*
 * Takes the sorted keys from the chunks, as the records of a sort that is nothing
 * but keys; why[] says what gpusort.verify found.
 */
static bool
receive_keys(Sorter *sorter, DeviceJob *job, const DeviceJobSpec *spec, Key128 sum, char *why)
{
	size_t		n = sorter->stage.n;
	size_t		done = 0;
	int			width = spec->key_width;
	SortRecFormat format = width <= 64 ? SORT_REC_PACKED : SORT_REC_128;
	Key128		last = 0;
	DeviceChunkDesc desc;
	char	   *chunk;

	bulk_reserve(sorter->bulk, &sorter->recs, n * sort_rec_size(format), 0);
	while ((chunk = device_job_next_down(job, &desc)) != NULL)
	{
		if (desc.rows > n - done)
		{
			device_job_lose(job, "the device sent too many rows");
			return false;
		}
		if (width == 128)
		{
			SortRec128 *recs = (SortRec128 *) sorter->recs.ptr + done;

			for (uint32 i = 0; i < desc.rows; i++)
			{
				recs[i].hi = (uint64) (((const Key128 *) chunk)[i] >> 64);
				recs[i].lo = (uint64) ((const Key128 *) chunk)[i];
			}
		}
		else if (width == 64)
			memcpy((uint64 *) sorter->recs.ptr + done, chunk, desc.rows * sizeof(uint64));
		else
		{
			uint64	   *words = (uint64 *) sorter->recs.ptr + done;

			for (uint32 i = 0; i < desc.rows; i++)
				words[i] = ((const uint32 *) chunk)[i];
		}
		if (gpusort_verify)
		{
			sum -= sum_keys(chunk, width, desc.rows);
			for (uint32 i = 0; i < desc.rows; i++)
			{
				if (key_at(chunk, width, i) < last)
				{
					snprintf(why, DEVICE_WHY_SIZE, "row %zu of the result is out of order", done + i);
					return false;
				}
				last = key_at(chunk, width, i);
			}
		}
		done += desc.rows;
		device_job_release(job);
		CHECK_FOR_INTERRUPTS();
	}
	if (!job->lost && done != n)
		device_job_lose(job, "the device sent too few rows");
	if (!job->lost && gpusort_verify && sum != 0)
		snprintf(why, DEVICE_WHY_SIZE, "the result's keys are not the input's");
	else if (!job->lost)
	{
		sorter->keys = sorter->recs.ptr;
		sorter->keys_format = format;
		return true;
	}
	return false;
}

/* The result, whatever is wanted of it. */
static bool
receive(Sorter *sorter, const KeyLayout *layout, DeviceJob *job, const DeviceJobSpec *spec,
		Key128 sum, char *why)
{
	if (spec->no_rids)
		return receive_keys(sorter, job, spec, sum, why);
	if (!receive_rids(sorter, job, spec))
		return false;
	if (gpusort_verify &&
		!verify_rids(sorter, layout, sorter->recs.ptr, sorter->stage.n, why))
		return false;
	sorter->rids = sorter->recs.ptr;
	return true;
}

bool
device_keys_sort(Sorter *sorter, const KeyLayout *layout, uint64 key_range)
{
	SorterReport *report = &sorter->report;
	RouteFacts	facts;
	DeviceJobSpec spec;
	DeviceJob  *job;
	double		patience_us;
	int			algorithm;
	uint64		ties = report->ties;
	Key128		sum = 0;
	char		why[DEVICE_WHY_SIZE];

	fill_facts(sorter, layout, key_range, &facts);
	if (report->device_failed)
	{
		/* it failed once for this sort: no second time */
		facts.device = ROUTE_DEVICE_FAILED;
		goto use_cpu;
	}
	if (!route_to_device(sorter, layout, &facts, &algorithm, &patience_us))
		goto use_cpu;

	describe_job(sorter, layout, key_range, &facts, algorithm, &spec);
	job = device_job_open(sorter->cxt, &spec, device_job_bytes(&spec),
						  (int) (facts.n * (spec.key_width / 8 + 4) / device_shared->chunk_size) + 1,
						  patience_us, &facts.device);
	if (job == NULL)
		goto use_cpu;

	if (send_keys(sorter, layout, job, &sum) &&
		receive(sorter, layout, job, &spec, sum, why))
	{
		report->facts = facts;
		report->decision.kernel = gpu_route_kernel(job->cost.algorithm);
		report->decision.predicted_us = 0;
		report->decision.forced_why_not = NULL;
		report->sorted = true;
		report->key_bits = facts.end_bit - facts.begin_bit;
		report->bytes_up += job->bytes_up;
		report->bytes_down += job->bytes_down;
		report->device_sort_us += job->cost.sort_us;
		sorter->n = sorter->stage.n;
		sorter_note_memory(sorter, sorter->recs.size);
		device_job_close(job);
		return true;
	}

	report->ties = ties;
	device_note_failure(sorter, job->lost ? job->why : why);
	device_job_close(job);
	facts.device = ROUTE_DEVICE_FAILED;

use_cpu:
	report->facts.device = facts.device;
	return false;
}

void
device_note_failure(Sorter *sorter, const char *why)
{
	const char *forced = gpusort_forced_algorithm();

	ereport(LOG,
			(errmsg("a sort goes on without the GPU: %s", why)));
	sorter->report.device_failed = true;
	gpusort_stat_fallback(forced != NULL && gpu_route_kernel(forced) != NULL ? forced : "gpu_radix");
}

void
device_note_unforced(RouteFacts *facts, RouteDecision *decision)
{
	const char *forced = gpusort_forced_algorithm();

	if (forced == NULL || gpu_route_kernel(forced) == NULL)
		return;
	facts->forced = forced;
	switch (facts->device)
	{
		case ROUTE_DEVICE_NONE:
			decision->forced_why_not = "there is no device";
			break;
		case ROUTE_DEVICE_OFF:
			decision->forced_why_not = "gpusort.device is off";
			break;
		case ROUTE_DEVICE_BUSY:
			decision->forced_why_not = "too many sorts are using the device";
			break;
		case ROUTE_DEVICE_FULL:
			decision->forced_why_not = "it does not fit the device memory";
			break;
		case ROUTE_DEVICE_FAILED:
			decision->forced_why_not = "the device failed";
			break;
		case ROUTE_DEVICE_READY:
			decision->forced_why_not = "the device has no such algorithm";
			break;
	}
}
