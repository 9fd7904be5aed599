/*
 * gpu_route.c
 *	  Decides whether a sort uses a GPU, and reports what the GPU did.
 *
 * This module fills the router's facts from key buffers and layouts, which the router
 * does not know.  The decision is made in key mode when all rows are buffered, and in row
 * mode.
 *
 * A small sort pays for reading the device's state and for predicting the CPU's time.
 * If the CPU needs no more than the hand-over of a job costs, nothing else is computed.
 * Keys are sampled only if the router chooses the GPU: presorted input stays on the CPU,
 * and skewed keys need another algorithm.
 *
 * A sort with distinct columns lets the device drop duplicates if its keys are exact in
 * these columns and at most GPU_DROP_SHARE of the rows are expected to stay.
 */
#include "postgres.h"

#include <math.h>

#include "cost/cost.h"
#include "cost/store.h"
#include "gpu/job.h"
#include "monitor/stat.h"
#include "port/pg_bitutils.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort_internal.h"

/* Fills the facts that the CPU's algorithms depend on, for n rows. */
static void
fill_cpu_facts(const SortEnv *env, const KeyLayout *layout, int rid_bits, double n, RouteFacts *facts)
{
	memset(facts, 0, sizeof(*facts));
	facts->n = (size_t) n;
	if (env->spec.keys_only && layout->total_bits + rid_bits > 64)
	{
		facts->format = layout->total_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
		facts->end_bit = layout->total_bits;
	}
	else
	{
		/* a key that does not fit one word with the rid is truncated */
		facts->format = SORT_REC_PACKED;
		facts->begin_bit = rid_bits;
		facts->end_bit = Max(rid_bits + 1, Min(rid_bits + layout->total_bits, 64));
	}
	facts->inexact = !layout->exact;
	facts->bound = env->bound;
	facts->threads = sort_threads_most(env->spec.participants);
	facts->forced = gpusort_forced_algorithm();
}

/* Decides whether the device drops duplicates. */
static void
fill_drop_facts(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout, RouteFacts *facts)
{
	DistinctTest test;
	double		kept;

	if (!env->drop_duplicates || !layout->exact || layout->total_bits > 128)
		return;
	test = distinct_test(env->distinct_cols, layout, layout->total_bits);
	if (!test.exact || test.cut >= Max(layout->total_bits, 1))
		return;
	/* rows are made of whole keys, but groups check only the bits that tell them apart */
	if (env->spec.keys_only && test.cut > 0)
		return;
	kept = distinct_expected(env, keybuf, facts->n);
	if (kept > facts->n * GPU_DROP_SHARE)
		return;
	facts->gpu.drop = facts->gpu.keys_back = true;
	facts->gpu.equal_bit = test.cut;
	facts->gpu.rows_back = Max(kept, 1);
}

/*
 * Fills the facts that the GPU's algorithms depend on, behind those of the CPU.  *memory,
 * *all_memory: see cost/store.h.
 */
static void
fill_gpu_facts(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout, int key_width,
			   RouteFacts *facts, double *memory, double *all_memory)
{
	facts->gpu.key_width = key_width;
	facts->gpu.key_bits = Max(1, Min(layout->total_bits, 128));
	facts->gpu.keys_only = env->spec.keys_only && !env->spec.rids_are_tids;
	facts->gpu.keys_back = env->spec.keys_only || env->spec.gpu_verified || !layout->exact;
	facts->gpu.drop = false;
	facts->gpu.rows_back = 0;
	fill_drop_facts(env, keybuf, layout, facts);
	facts->gpu.algorithms = device_algorithms();
	device_learn_facts(facts, memory, all_memory);
}

/* Argument of sample_pair(): the buffered keys, and the order of the sampled pairs. */
typedef struct SampledKeys
{
	const KeyBuffer *keybuf;
	const KeyLayout *layout;
	bool		descends;		/* a key is less than the one before */
	bool		ascends;		/* a key is greater than the one before */
} SampledKeys;

/* Callback of gpu_sample_keys(): the leading 64 bits of keys i and i + 1. */
static void
sample_pair(void *arg, size_t i, uint64_t pair[2])
{
	SampledKeys *keys = arg;
	Key128		first = pack_key(keys->keybuf, keys->layout, i);
	Key128		second = pack_key(keys->keybuf, keys->layout, i + 1);
	int			shift = Max(0, Min(keys->layout->total_bits, 128) - 64);

	keys->descends |= second < first;
	keys->ascends |= second > first;
	pair[0] = (uint64) (first >> shift);
	pair[1] = (uint64) (second >> shift);
}

/* Samples the buffered keys.  Do they look presorted, ascending or descending? */
static bool
keys_ordered(const KeyBuffer *keybuf, const KeyLayout *layout, GpuSampleSeen *seen)
{
	SampledKeys keys = {.keybuf = keybuf,.layout = layout};

	gpu_sample_keys(keybuf->n, sample_pair, &keys, seen);
	return !keys.descends || !keys.ascends;
}

/* Does the router choose the GPU, supposing that it is ready? */
static bool
keys_gain(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout, RouteFacts *facts,
		  RouteDecision *decision)
{
	GpuSampleSeen seen;

	fill_gpu_facts(env, keybuf, layout, device_key_width(layout->total_bits), facts, NULL, NULL);
	gpusort_route_decide(facts, decision);
	if (algorithm_on_gpu(decision->algorithm) && facts->forced == NULL)
	{
		if (keys_ordered(keybuf, layout, &seen))
			return false;
		facts->gpu.key_distribution = seen.key_distribution;
		gpusort_route_decide(facts, decision);
	}
	facts->gpu.why_not = decision->forced_why_not;
	return algorithm_on_gpu(decision->algorithm);
}

bool
device_route_keys(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout, RouteFacts *facts,
				  RouteDecision *decision)
{
	fill_cpu_facts(env, layout, keybuf->keys_only ? 0 : keybuf_rid_bits(keybuf), keybuf->n, facts);
	facts->key_range = key_layout_range(keybuf, layout);
	facts->device = env->device_failed ? DEVICE_STATE_FAILED : device_state();
	if (facts->device != DEVICE_STATE_READY && facts->device != DEVICE_STATE_IDLE)
		return false;
	device_learn_cpu_facts(facts);
	gpusort_route_decide(facts, decision);
	if (facts->forced == NULL && decision->predicted_us <= device_costs()->job_us * GPU_LEAST_HAND_OVER)
		return false;
	if (facts->device == DEVICE_STATE_IDLE)
	{
		/* start the process again only if that is worth the wait */
		facts->device = DEVICE_STATE_READY;
		facts->device = !keys_gain(env, keybuf, layout, facts, decision) ?
			DEVICE_STATE_IDLE :
			device_bring_back(facts->forced != NULL ? DEVICE_FORCED_PATIENCE_US :
							  decision->cpu_us - decision->predicted_us);
		if (facts->device != DEVICE_STATE_READY)
			return false;
	}
	return keys_gain(env, keybuf, layout, facts, decision);
}

/* Chooses the GPU's best algorithm without regard to the CPU, or takes a forced one; false if there is none. */
static bool
choose_for_rows(const RouteFacts *facts, RouteDecision *decision)
{
	if (facts->forced != NULL)
		gpusort_route_decide(facts, decision);
	else
	{
		decision->predicted_us = HUGE_VAL;
		decision->algorithm = gpu_choose(facts, &decision->predicted_us);
	}
	return decision->algorithm != NULL && algorithm_on_gpu(decision->algorithm);
}

/* Does moving the rows gain, with this algorithm on the GPU? */
static bool
rows_gain(GpuRowsFacts *gain, const RouteDecision *decision)
{
	gain->gpu_sort_us = decision->predicted_us;
	return gpu_rows_gain_us(gain) > 0;
}

bool
device_route_rows(const SortEnv *env, const Batch *batch, const DeviceLayout *dl, double rows,
				  RouteFacts *facts, RouteDecision *decision)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	DeviceJobSpec rows_spec = {.mode = DEVICE_ROWS};
	GpuRowsFacts gain = {0};
	KeyRange	ranges[KEY_MAX_COLUMNS];
	KeyLayout	narrow;
	GpuSampleSeen seen;

	gain.rows = rows;
	gain.rows_here = keybuf->n;
	gain.row_bytes = (double) arena_used(&batch->arena) / keybuf->n;
	gain.key_cost = batch->key_cost;
	gain.memory = env->limit;
	rows_spec.max_rows = (uint64) rows;
	rows_spec.max_row_bytes = (uint64) (rows * gain.row_bytes);
	rows_spec.key_width = dl->key_width;

	/* the CPU's keys have the bits that the ranges of the buffered values need */
	keybuf_ranges(keybuf, ranges);
	key_layout(&narrow, keybuf, ranges);
	fill_cpu_facts(env, &narrow, Min(32, 1 + pg_leftmost_one_pos64((uint64) (rows * gain.row_bytes / 8) | 1)),
				   rows, facts);
	facts->device = device_state();
	fill_gpu_facts(env, keybuf, &dl->layout, dl->key_width, facts, &gain.device_memory, &gain.all_memory);
	facts->gpu.keys_back = facts->gpu.drop;
	gain.rows_back = facts->gpu.rows_back;
	rows_spec.drop = facts->gpu.drop;
	gain.device_bytes = (double) device_job_bytes(&rows_spec);
	if (env->drop_duplicates)
	{
		/* each run of a CPU sort drops its duplicates */
		double		run = Min(rows, env->limit / (gain.row_bytes + batch->key_cost));

		gain.run_rows_back = rows / run * distinct_expected(env, keybuf, run);
	}
	gain.resolver = !dl->layout.exact;
	gpu_copy_ns(facts, &gain.up_ns, &gain.down_ns);
	if (facts->forced != NULL)
		return choose_for_rows(facts, decision);

	/* the time of the CPU's best algorithm */
	facts->device = DEVICE_STATE_NONE;
	device_learn_cpu_facts(facts);
	gpusort_route_decide(facts, decision);
	gain.cpu_sort_us = decision->predicted_us;
	facts->device = device_state();
	if (!choose_for_rows(facts, decision) || !rows_gain(&gain, decision))
		return false;

	/* the GPU would gain: sample the keys */
	gain.ordered = keys_ordered(keybuf, &narrow, &seen);
	facts->gpu.key_distribution = seen.key_distribution;
	gain.repeated = seen.repeated;
	if (gain.ordered)
		gain.cpu_sort_us = 0;
	return choose_for_rows(facts, decision) && rows_gain(&gain, decision);
}

bool
device_route_producer(const SortEnv *env, const KeyBuffer *keybuf, const DeviceLayout *dl, double rows,
					  RouteFacts *facts, RouteDecision *decision)
{
	fill_cpu_facts(env, &dl->layout, 32, rows, facts);
	facts->device = DEVICE_STATE_READY;
	fill_gpu_facts(env, keybuf, &dl->layout, dl->key_width, facts, NULL, NULL);
	facts->gpu.keys_back = facts->gpu.drop;
	memset(decision, 0, sizeof(*decision));
	return choose_for_rows(facts, decision);
}

void
device_route_job(const RouteFacts *facts, const RouteDecision *decision, DeviceJobSpec *spec)
{
	spec->key_width = facts->gpu.key_width;
	spec->key_bits = facts->gpu.key_bits;
	spec->algorithm = device_algorithm(decision->algorithm->name);
	spec->no_other = facts->forced != NULL && decision->forced_why_not == NULL;
	spec->keys_only = facts->gpu.keys_only;
	spec->want_keys = facts->gpu.keys_back;
	spec->distinct = facts->gpu.distinct;
	spec->drop = facts->gpu.drop;
	spec->equal_bit = facts->gpu.equal_bit;
	/* a range of PG_UINT64_MAX is saturated, and says no more than the key's width */
	if (facts->key_range != 0 && facts->key_range != PG_UINT64_MAX)
	{
		spec->have_range = true;
		spec->key_max.lo = facts->key_range - 1;
	}
	/* for keys alone, an algorithm by value is faster if all bits of the key's width order */
	if (spec->keys_only && decision->algorithm->by_value)
		spec->key_bits = spec->key_width;
}

void
device_show_job(SortEnv *env, DeviceJob *job, const RouteDecision *decision, const DeviceJobSpec *spec)
{
	uint64		bytes = device_job_bytes(spec);

	env->progress.now->algorithm = decision->algorithm->id;
	env->progress.now->device += bytes - job->shown;
	job->shown = bytes;
}

void
device_close_job(SortEnv *env, DeviceJob *job, bool wait)
{
	env->progress.now->device -= job->shown;
	if (wait)
		device_job_return(job);
	else
		device_job_close(job);
}

void
device_report_job(SortEnv *env, const DeviceJob *job, const RouteFacts *facts, const RouteDecision *decision,
				  uint64 rows, bool at_once)
{
	SortReport *report = &env->report;
	const Algorithm *algorithm = algorithm_by_name(job->times.algorithm);

	report->facts = *facts;
	report->facts.n = rows;
	report->decision = *decision;
	report->decision.algorithm = algorithm;
	report->sorted = algorithm != NULL;
	report->key_bits = facts->gpu.key_bits;
	report->device.bytes_up += job->bytes_up;
	report->device.sort_us += job->times.sort_us;
	device_learn_job(job, facts, algorithm, at_once);
}

void
device_report_part(SortEnv *env, const DeviceJob *job)
{
	ReportDevice *device = env->report.device.used;
	int			index = device_shared->devices[job->slot->device].index;

	while (device->parts > 0 && device->index != index)
	{
		if (++device == env->report.device.used + REPORT_DEVICES)
			return;
	}
	device->index = index;
	device->parts++;
	device->rows += job->rows_up;
	device->sort_us += job->times.sort_us;
}

void
device_note_failure(SortEnv *env, const Algorithm *algorithm)
{
	env->device_failed = env->report.device.failed = true;
	gpusort_stat_fallback(algorithm);
}
