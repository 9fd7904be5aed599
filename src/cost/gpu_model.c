/*
 * gpu_model.c
 *	  Predicted times of the GPU kernels, transfers included.
 *
 * The predicted time is the sum of the algorithm's curve, the bytes on the bus, and
 * the hand-over of the job.  A curve holds microseconds over the number of rows, by
 * key width, and is linear between its points on logarithmic axes.  Work that CPU
 * sorts do as well (packing keys, reading rids) is not counted.  Transfers count in
 * full, because their overlap is unknown.
 *
 *	gpu_radix		a fixed part, and passes of 8 bits; fewer passes where
 *					leading bits separate the keys
 *	gpu_bucket		a curve for each key distribution (key_sample.c)
 *	gpu_merge		one curve
 *	gpu_counting	with rids: passes of 8 bits; keys only: by the range of values
 *	gpu_hp1			one curve: its histogram is a bitmap
 *
 * Every term has a correction factor, learned from jobs (last part of this file).
 */
#include <math.h>
#include <string.h>

#include "cost/cost_internal.h"

/*
 * Costs of rows in the host's memory, in nanoseconds, for gpu_rows_gain_us().  They
 * are fitted to the queries of bench/results/queries-h200.md.
 */
#define HOST_RIDS_NS	0.6		/* per row: rids to and from pinned chunks */
#define FAULT_NS		0.09	/* per byte: first touch of memory */
#define MISS_NS			6.3		/* per row: return it from a random address */
#define MOVE_NS			0.15	/* per byte: copy rows to pinned chunks */

/* Per byte and direction: bus time that the other terms contain. */
#define BUS_HIDDEN_NS	0.018
#define RESOLVE_NS		5.0		/* per row: compare its key with the next one */
#define ROW_MERGE_NS	13.0	/* per row: merge the parts of several devices */

/* gpu_radix omits passes only if it can omit this number. */
#define RADIX_LEAST_SAVED	2

/* 0, 1, 2 for keys of 32, 64, 128 bits: also their SortRecFormat. */
static inline SortRecFormat
width_index(int key_width)
{
	return key_width == 32 ? SORT_REC_PACKED : key_width == 64 ? SORT_REC_64 : SORT_REC_128;
}

/* Number of possible key values; 0: unknown, or too many to count. */
static uint64_t
value_range(const RouteFacts *facts)
{
	uint64_t	range = facts->key_range;

	if (range == 0 && facts->gpu.key_bits < 32)
		range = UINT64_C(1) << facts->gpu.key_bits;
	return range <= UINT32_MAX ? range : 0;
}

/* Why the keys' range does not suit an algorithm that indexes by value; NULL: it does. */
static const char *
why_not_by_value(const Algorithm *algorithm, const RouteFacts *facts)
{
	const GpusortCosts *limits = facts->gpu.costs;
	uint64_t	range = value_range(facts);

	if (range == 0)
		return "the keys' range is unknown or too large";
	if (range > limits->values_always && range / limits->values_per_key > facts->n)
		return "the keys' range is too large for so few rows";
	if (algorithm->id == ALGORITHM_GPU_ONEHOT &&
		(facts->n > limits->onehot_rows ||
		 range * ((facts->n + 31) / 32 + 1) > limits->onehot_words))
		return "rows times values are too many";
	if (algorithm->distinct && !facts->gpu.distinct)
		return "the keys are not known to be distinct";
	return NULL;
}

bool
gpu_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why)
{
	static const char *const no_device[DEVICE_STATE_READY] = {
		[DEVICE_STATE_NONE] = "there is no device",
		[DEVICE_STATE_OFF] = "gpusort.device is off",
		[DEVICE_STATE_FORBIDDEN] = "gpusort.device_allowed is off",
		[DEVICE_STATE_BUSY] = "too many sorts are using the device",
		[DEVICE_STATE_FULL] = "it does not fit the device memory",
		[DEVICE_STATE_FAILED] = "the device failed",
		[DEVICE_STATE_IDLE] = "the device was idle, and is not back yet"
	};

	*why = NULL;
	if (facts->device != DEVICE_STATE_READY)
		*why = no_device[facts->device];
	else if (facts->gpu.key_width == 0)
		*why = facts->gpu.why_not ? facts->gpu.why_not : "these rows are not for a device";
	else if ((facts->gpu.algorithms & (1u << algorithm->id)) == 0)
		*why = "the device has no such algorithm";
	else if (!algorithm_takes(algorithm, width_index(facts->gpu.key_width)))
		*why = "it does not take keys of this width";
	else if (!facts->gpu.keys_only && algorithm->keys_only)
		*why = "it sorts keys only";
	else if (facts->n > UINT32_MAX)
		*why = "more than 2^32 - 1 rows";
	else if (algorithm->by_value)
		*why = why_not_by_value(algorithm, facts);
	return *why == NULL;
}

/* Time of gpu_counting without rids, interpolated between the ranges of the curves. */
static double
counting_keys_us(const GpusortCosts *costs, double n, uint64_t range)
{
	double		bits = log2((double) range);
	int			r = 0;
	double		below;
	double		above;
	double		part;

	if (bits > costs->range_log2[GPUSORT_COST_RANGES - 1])
		return fmax(n * costs->counting_wide_ns / 1000,
					gpusort_cost_at(costs->counting_keys[GPUSORT_COST_RANGES - 1], n));
	while (r < GPUSORT_COST_RANGES - 2 && bits > costs->range_log2[r + 1])
		r++;
	below = gpusort_cost_at(costs->counting_keys[r], n);
	above = gpusort_cost_at(costs->counting_keys[r + 1], n);
	part = (bits - costs->range_log2[r]) / (costs->range_log2[r + 1] - costs->range_log2[r]);
	return below + (above - below) * fmax(part, 0);
}

static double
gpu_counting_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	uint64_t	range = value_range(facts);
	double		bits = ceil(log2((double) range));
	double		us;

	if (facts->gpu.keys_only)
		us = counting_keys_us(costs, facts->n, range);
	else
	{
		us = gpusort_cost_at(costs->counting_rids[bits <= 8 ? 0 : bits <= 16 ? 1 : 2], facts->n);
		if (bits > 24)
			us *= 4.0 / 3;
	}
	return us * costs->counting_width[width_index(facts->gpu.key_width)];
}

static double
gpu_radix_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	int			w = width_index(facts->gpu.key_width);
	double		digits = (facts->gpu.key_bits + 7) / 8;
	double		all = facts->gpu.key_width / 8;
	double		whole = facts->n < costs->radix_passes_from[w] ? all :
		costs->radix_passes[facts->gpu.key_distribution][w];
	double		passes = digits == all || digits >= whole + RADIX_LEAST_SAVED ? whole : digits;
	double		share = costs->radix_fixed[w] + (1 - costs->radix_fixed[w]) * passes / whole;

	return gpusort_cost_at(costs->radix[facts->gpu.key_distribution][w], facts->n) * share;
}

double
gpu_sort_us(AlgorithmId id, const RouteFacts *facts)
{
	const GpusortCosts *costs = facts->gpu.costs;
	int			w = width_index(facts->gpu.key_width);

	switch (id)
	{
		case ALGORITHM_GPU_RADIX:
			return gpu_radix_us(costs, facts);
		case ALGORITHM_GPU_MERGE:
			return gpusort_cost_at(costs->merge[w], facts->n);
		case ALGORITHM_GPU_BUCKET:
			return gpusort_cost_at(costs->bucket[facts->gpu.key_distribution][w], facts->n);
		case ALGORITHM_GPU_COUNTING:
			return gpu_counting_us(costs, facts);
		case ALGORITHM_GPU_HP1:
			return gpusort_cost_at(costs->hp1, facts->n);
		default:
			return HUGE_VAL;
	}
}

void
gpu_copy_ns(const RouteFacts *facts, double *up_ns, double *down_ns)
{
	const GpuFactors *factors = facts->gpu.factors;

	*up_ns = *down_ns = facts->gpu.costs->copy_ns;
	if (factors == NULL)
		return;
	*up_ns *= exp(factors->log[GPU_PART_UP]) * factors->busy;
	*down_ns *= exp(factors->log[GPU_PART_DOWN]) * factors->busy;
}

void
gpu_predict_terms(const Algorithm *algorithm, const RouteFacts *facts, double us[GPU_TERMS])
{
	const GpusortCosts *costs = facts->gpu.costs;
	const GpuFactors *factors = facts->gpu.factors;
	double		key_bytes = facts->gpu.key_width / 8;
	double		rid_bytes = facts->gpu.keys_only ? 0 : sizeof(uint32_t);
	double		end_bytes = facts->gpu.drop ? sizeof(uint32_t) : 0;
	double		rows_back = facts->gpu.rows_back > 0 ? facts->gpu.rows_back : facts->n;
	double		up_bytes = facts->n * (key_bytes + rid_bytes);
	double		down_bytes = rows_back * (rid_bytes + end_bytes + (facts->gpu.keys_back ? key_bytes : 0));
	double		up_ns;
	double		down_ns;

	gpu_copy_ns(facts, &up_ns, &down_ns);
	us[GPU_TERM_HAND_OVER] = costs->job_us;
	us[GPU_TERM_UP] = up_bytes * up_ns / 1000;
	us[GPU_TERM_SORT] = gpu_sort_us(algorithm->id, facts);
	us[GPU_TERM_DOWN] = down_bytes * down_ns / 1000;
	us[GPU_TERM_HOST] = (facts->n + rows_back) / 2 * HOST_RIDS_NS / 1000;
	if (factors == NULL)
		return;
	us[GPU_TERM_HAND_OVER] *= exp(factors->log[GPU_PART_HAND_OVER]);
	us[GPU_TERM_SORT] *= exp(gpu_sort_factor(factors, facts->gpu.key_width, facts->n)) *
		factors->busy;
}

double
gpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts)
{
	double		us[GPU_TERMS];
	double		all_us = 0;

	gpu_predict_terms(algorithm, facts, us);
	for (int t = 0; t < GPU_TERMS; t++)
		all_us += us[t];
	return all_us;
}

const Algorithm *
gpu_choose(const RouteFacts *facts, double *us)
{
	const Algorithm *best = NULL;
	const char *why;

	/* no GPU sort is faster than the hand-over */
	if (facts->device != DEVICE_STATE_READY || facts->gpu.key_width == 0 ||
		*us <= facts->gpu.costs->job_us * GPU_LEAST_HAND_OVER)
		return NULL;
	FOR_EACH_ALGORITHM(a)
	{
		double		a_us;

		if (!algorithm_on_gpu(a) || a->only_forced || !gpu_fits(a, facts, &why))
			continue;
		a_us = gpu_predict_us(a, facts);
		if (a_us < *us)
		{
			best = a;
			*us = a_us;
		}
	}
	return best;
}

/*
 * The gain consists of these terms:
 *
 * - Bus time of the rows above BUS_HIDDEN_NS.  Up to that it overlaps with reading
 *	 and returning rows, and the other constants contain it.
 * - Rows with equal keys need their ties resolved, and rows whose key repeats often
 *	 are visited at random addresses as on the CPU.  They gain nothing.
 * - Duplicates are not returned: the CPU drops them, and the device if it can.
 * - Rows that exceed the memory of one device are merged from parts on several.
 * - Rows that exceed the memory of all devices become runs, as on the CPU; or they
 *	 return to the host if it has the memory.  They gain by the sort alone.
 */
double
gpu_rows_gain_us(const GpuRowsFacts *facts)
{
	double		rows = facts->rows;
	double		to_come = fmax(rows - facts->rows_here, 0);
	double		bytes = rows * facts->row_bytes;
	double		back = facts->rows_back > 0 ? facts->rows_back : rows;
	double		in_runs = facts->run_rows_back > 0 ? facts->run_rows_back / rows : 1;
	double		bus_ns = bytes * fmax(facts->up_ns - BUS_HIDDEN_NS, 0) +
		back * facts->row_bytes * fmax(facts->down_ns - BUS_HIDDEN_NS, 0);
	bool		spills = bytes + rows * facts->key_cost > facts->memory;
	bool		known = facts->device_memory > 0;
	bool		in_parts = known && facts->device_bytes > facts->device_memory;
	double		all_memory = fmax(facts->all_memory, facts->device_memory);
	double		stay = known ? fmin(all_memory / facts->device_bytes, 1) : 1;
	double		unrepeated = facts->resolver ? 1 - facts->repeated : 1;
	double		spill_ns = spills ? in_runs * (rows * RUN_ROW_NS + bytes * RUN_BYTE_NS) : 0;
	double		ns = -facts->rows_here * facts->row_bytes * MOVE_NS - bus_ns -
		(facts->resolver ? rows * RESOLVE_NS : 0);

	if (in_parts && !spills && stay < 1)
		ns -= fmin(facts->device_memory, bytes) * (MOVE_NS + FAULT_NS);
	else
		ns += stay * ((facts->ordered ? 0 : unrepeated * back * MISS_NS) +
					  unrepeated * to_come * facts->row_bytes * FAULT_NS +
					  spill_ns - (in_parts ? rows * ROW_MERGE_NS : 0));
	return ns / 1000 + facts->cpu_sort_us - facts->gpu_sort_us;
}

/* ------------------------------------------------------------------------
 * Keys in parts, by key range
 *
 * The host splits the keys by range and hands over each part.  Devices share the
 * sort and the copy back.  They do not share the copy to the device, because one
 * host thread fills the chunks and is slower than one bus.  Splitting takes the host
 * longer than a device needs for the keys, so parts serve keys that exceed the
 * memory of one device.
 * ------------------------------------------------------------------------
 */

/* Nanoseconds to split one key with its rid: find its part, write it, copy it to a chunk. */
static double
part_ns(const RouteFacts *facts)
{
	return facts->gpu.key_width == 32 ? 5.5 : facts->gpu.key_width == 64 ? 7.5 : 12;
}

double
gpu_parts_us(const Algorithm *algorithm, const RouteFacts *facts, int parts, int devices)
{
	int			sharing = parts < devices ? parts : devices < 1 ? 1 : devices;
	double		us[GPU_TERMS];

	gpu_predict_terms(algorithm, facts, us);
	return facts->n * part_ns(facts) / 1000 + us[GPU_TERM_HAND_OVER] * parts + us[GPU_TERM_UP] +
		(us[GPU_TERM_SORT] + us[GPU_TERM_DOWN]) / sharing + us[GPU_TERM_HOST];
}

/* ------------------------------------------------------------------------
 * Correction factors
 * ------------------------------------------------------------------------
 */

static const FactorRule gpu_rule = {
	.first_share = 0.5,
	.least_share = 0.125,
	.off_above = 1.5,
	.off_below = 0.25,
	.fade_s = 3600
};

/* Initial value of GpuLearned.load. */
#define LOAD_ASSUMED		0.5

/* Time of the wake-ups between backend and device process for a job. */
#define WAKE_UPS_US			100.0

/* Smaller copies and intervals are too inexact to learn from. */
#define LEAST_COPY_BYTES	65536
#define LEAST_US			1.0

void
gpu_learn_begin(GpuLearned *learned)
{
	memset(learned, 0, sizeof(*learned));
	learned->load = LOAD_ASSUMED;
}

void
gpu_forget_jobs(GpuLearned *learned)
{
	for (int part = 0; part < GPU_PARTS; part++)
	{
		learned->part[part].log = learned->part[part].measured;
		learned->part[part].jobs = 0;
	}
}

void
gpu_learn_factors(const GpuLearned *learned, double others, int64_t now, GpuFactors *factors)
{
	for (int part = 0; part < GPU_PART_SORT; part++)
		factors->log[part] = factor_now(&learned->part[part], now, &gpu_rule);
	for (int part = GPU_PART_SORT; part < GPU_PARTS; part++)
	{
		int			size = (part - GPU_PART_SORT) % FACTOR_SIZES;
		const Factor *sizes = &learned->part[part - size];
		int			from = factor_known_size(sizes, size);

		factors->log[part] = from < 0 ? 0 : factor_now(&sizes[from], now, &gpu_rule);
	}
	factors->busy = 1 + learned->load * others;
	factors->jobs = learned->jobs;
}

double
gpu_sort_factor(const GpuFactors *factors, int key_width, double rows)
{
	int			size;
	double		past = factor_size_of(rows, &size);
	const double *log = &factors->log[GPU_PART_SORT + width_index(key_width) * FACTOR_SIZES + size];

	return log[0] + (log[1] - log[0]) * past;
}

/* Logarithm of the hand-over's factor, for a hand-over that took us. */
static double
hand_over_log(const GpusortCosts *costs, double us)
{
	return log(fmax(us / costs->job_us, GPU_LEAST_HAND_OVER));
}

void
gpu_learn_measured(GpuLearned *learned, const GpusortCosts *costs, const DeviceMeasured *measured)
{
	if (measured->up_ns > 0)
		factor_measured(&learned->part[GPU_PART_UP], log(measured->up_ns / costs->copy_ns));
	if (measured->down_ns > 0)
		factor_measured(&learned->part[GPU_PART_DOWN], log(measured->down_ns / costs->copy_ns));
	if (measured->launch_us > 0)
		factor_measured(&learned->part[GPU_PART_HAND_OVER],
						hand_over_log(costs, measured->launch_us + WAKE_UPS_US));
	for (int w = 0; w < 3; w++)
	{
		for (int size = 0; size < DEVICE_MEASURED_SIZES; size++)
		{
			RouteFacts	facts = {0};

			if (!(measured->sort_us[w][size] > 0))
				continue;
			facts.n = (size_t) 1 << (DEVICE_MEASURED_FIRST + DEVICE_MEASURED_STEP * size);
			facts.gpu.key_width = facts.gpu.key_bits = 32 << w;
			facts.gpu.costs = costs;
			factor_measured(&learned->part[GPU_PART_SORT + w * FACTOR_SIZES + size],
							log(measured->sort_us[w][size] /
								gpu_sort_us(DEVICE_MEASURED_ALGORITHM, &facts)));
		}
	}
}

/* Learns from a part of a job that took took_us, and library_us by the library's costs. */
static void
learn_part(Factor *factor, double took_us, double library_us, int64_t now)
{
	factor_learn(factor, factor_is_known(factor), log(fmax(took_us, LEAST_US) / library_us), now,
				 &gpu_rule);
}

/*
 * Learns from the limits of the hand-over's time: a factor between them is confirmed;
 * otherwise the nearer limit is what was observed.
 */
static void
learn_hand_over(Factor *factor, const GpusortCosts *costs, const GpuJobTimes *times, int64_t now)
{
	double		least = hand_over_log(costs, times->hand_over_us);
	double		most = fmax(least, hand_over_log(costs, times->hand_over_most_us));

	factor_learn(factor, factor_is_known(factor), clamp_double(factor->log, least, most), now, &gpu_rule);
}

/*
 * Learns the slowdown by concurrent jobs.  alone_us is the expected time without
 * them.  False if there are none, or the factors are unknown.
 */
static bool
learn_load(GpuLearned *learned, const GpuJobTimes *times, double alone_us)
{
	double		took_us = times->up_us + times->down_us + times->sort_us;
	double		expected_us = alone_us * (1 + learned->load * times->others);
	double		load;

	if (times->others <= 0 || !factor_is_known(&learned->part[GPU_PART_UP]))
		return false;
	/* bounded, as the steps of factors are */
	took_us = clamp_double(took_us, expected_us * gpu_rule.off_below, expected_us * gpu_rule.off_above);
	load = clamp_double((took_us / alone_us - 1) / times->others, 0, GPU_LOAD_MAX);
	learned->load += (load - learned->load) *
		fmax(1.0 / (learned->load_jobs + 2), gpu_rule.least_share);
	if (learned->load_jobs < UINT32_MAX)
		learned->load_jobs++;
	return true;
}

void
gpu_learn_job(GpuLearned *learned, const Algorithm *algorithm, const RouteFacts *facts,
			  const GpuJobTimes *times, int64_t now)
{
	const GpusortCosts *costs = facts->gpu.costs;
	Factor	   *part = learned->part;
	GpuJobTimes observed = *times;
	GpuFactors	factors;
	double		up_us;
	double		down_us;
	double		sort_us;
	double		busy;

	if (observed.up_bytes < LEAST_COPY_BYTES || !(observed.up_us > 0))
		observed.up_us = observed.up_bytes = 0;
	if (observed.down_bytes < LEAST_COPY_BYTES || !(observed.down_us > 0))
		observed.down_us = observed.down_bytes = 0;
	/* the library's costs of sorts by value are too inexact to learn from */
	if (!algorithm_on_gpu(algorithm) || algorithm->by_value || algorithm->only_forced ||
		!(observed.sort_us > 0))
		observed.sort_us = 0;
	up_us = observed.up_bytes * costs->copy_ns / 1000;
	down_us = observed.down_bytes * costs->copy_ns / 1000;
	sort_us = observed.sort_us > 0 ? gpu_sort_us(algorithm->id, facts) : 0;
	if (up_us + down_us + sort_us <= 0)
		return;

	/* time 0: without decay */
	gpu_learn_factors(learned, 0, 0, &factors);
	learned->jobs++;
	if (learn_load(learned, &observed,
				   up_us * exp(part[GPU_PART_UP].log) + down_us * exp(part[GPU_PART_DOWN].log) +
				   sort_us * exp(gpu_sort_factor(&factors, facts->gpu.key_width, facts->n))))
		return;

	/*
	 * observations under load: remove the assumed slowdown, which decisions
	 * add again
	 */
	busy = 1 + learned->load * observed.others;
	if (observed.up_us > 0)
		learn_part(&part[GPU_PART_UP], observed.up_us / busy, up_us, now);
	if (observed.down_us > 0)
		learn_part(&part[GPU_PART_DOWN], observed.down_us / busy, down_us, now);
	if (observed.sort_us > 0)
		factor_sizes_learn(&part[GPU_PART_SORT + width_index(facts->gpu.key_width) * FACTOR_SIZES],
						   facts->n, log(fmax(observed.sort_us / busy, LEAST_US) / sort_us), now, &gpu_rule);
	if (observed.hand_over_most_us > 0)
		learn_hand_over(&part[GPU_PART_HAND_OVER], costs, &observed, now);
}
