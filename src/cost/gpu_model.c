/*
 * gpu_model.c
 *	  Predicted times of the GPU kernels, transfers included.
 *
 * A route's predicted time is that of the algorithm's own curve (microseconds over
 * the number of rows, by key width; straight in between on logarithmic axes), of
 * the bytes on the bus, and of handing the job over and back.  What the CPU's
 * routes do alike (packing the keys, reading the rids out) is left out, as in
 * model.c.
 *
 *	gpu_radix		passes: one for each 8 bits, or fewer where leading bits tell keys apart, beside what is
 *					the same for any
 *	gpu_bucket		no digits, but a curve for each way that keys can be spread (gpu_sample.h)
 *	gpu_merge		neither
 *	gpu_counting	with rids: passes of 8 bits; keys alone: the range of the values
 *	gpu_hp1			a bitmap for the histogram: hardly any difference by range
 *
 * Whether the transfers overlap with something else is not known here, so they
 * count in full.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"

/*
 * Costs of rows in the host's memory, in nanoseconds: see gpu_rows_gain_us().  They are
 * what bench/results/queries-h200.md leaves to them: 50M rows of 32 bytes and 10M of 88,
 * CPU's time less GPU's and less what the built-in model says of the CPU's sort; spilling
 * from its work_mem of 4 and 64 MB.  They contain what that model takes the H200's host,
 * whose sorts are slower, for too fast; its later phases put misses at 1 to 6 ns a row
 * and no cost to faults.  (Sorts teach that by now, cpu_learn.h, so that such a host's rows count as
 * if they gained some ns too much.)
 */
#define HOST_RIDS_NS	0.6		/* per row: rids copied to and from staging */
#define FAULT_NS		0.09	/* per byte of memory touched for the first time */
#define MISS_NS			6.3		/* per row given back from a random place */
#define SPILL_NS		1.2		/* per byte written to a run and merged */
#define MOVE_NS			0.15	/* per byte moved from there to staging */
#define BUS_HIDDEN_NS	0.018	/* per byte of rows on that machine's bus, each way */
#define RESOLVE_NS		5.0		/* per row that is asked whether its key is that of the next: bench/GPU-NOTES.md */
#define ROW_MERGE_NS	13.0	/* per row of several parts that are merged, beyond one part's */

/* Passes that gpu_radix has to save to leave any out. */
#define RADIX_LEAST_SAVED	2

/* 0, 1, 2 for keys of 32, 64, 128 bits: also their SortRecFormat. */
static inline SortRecFormat
width_index(const RouteFacts *facts)
{
	return facts->gpu.key_width == 32 ? SORT_REC_PACKED :
		facts->gpu.key_width == 64 ? SORT_REC_64 : SORT_REC_128;
}

/* Number of values of the keys; 0: not known, or too many to count. */
static uint64_t
value_range(const RouteFacts *facts)
{
	uint64_t	range = facts->key_range;

	if (range == 0 && facts->gpu.key_bits < 32)
		range = UINT64_C(1) << facts->gpu.key_bits;
	return range <= UINT32_MAX ? range : 0;
}

/* Can an algorithm that indexes by value take the keys? */
static bool
range_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why)
{
	const GpusortCosts *limits = facts->gpu.costs;
	uint64_t	range = value_range(facts);

	if (range == 0)
		*why = "the keys' range is unknown or too large";
	else if (range > limits->values_always && range / limits->values_per_key > facts->n)
		*why = "the keys' range is too large for so few rows";
	else if (algorithm->id == ALGORITHM_GPU_ONEHOT &&
			 (facts->n > limits->onehot_rows ||
			  range * ((facts->n + 31) / 32 + 1) > limits->onehot_words))
		*why = "rows times values are too many";
	else if (algorithm->distinct && !facts->gpu.distinct)
		*why = "the keys are not known to be distinct";
	return *why == NULL;
}

bool
gpu_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why)
{
	*why = NULL;
	switch (facts->device)
	{
		case DEVICE_STATE_NONE:
			*why = "there is no device";
			break;
		case DEVICE_STATE_OFF:
			*why = "gpusort.device is off";
			break;
		case DEVICE_STATE_FORBIDDEN:
			*why = "gpusort.device_allowed is off";
			break;
		case DEVICE_STATE_BUSY:
			*why = "too many sorts are using the device";
			break;
		case DEVICE_STATE_FULL:
			*why = "it does not fit the device memory";
			break;
		case DEVICE_STATE_FAILED:
			*why = "the device failed";
			break;
		case DEVICE_STATE_IDLE:
			*why = "the device was idle, and is not back yet";
			break;
		case DEVICE_STATE_READY:
			if (facts->gpu.key_width == 0)
				*why = facts->gpu.why_not ? facts->gpu.why_not : "these rows are not for a device";
			else if ((facts->gpu.algorithms & (1u << algorithm->id)) == 0)
				*why = "the device has no such algorithm";
			else if (!algorithm_takes(algorithm, width_index(facts)))
				*why = "it does not take keys of this width";
			else if (!facts->gpu.keys_only && algorithm->keys_only)
				*why = "it sorts keys only";
			else if (facts->n > UINT32_MAX)
				*why = "more than 2^32 - 1 rows";
			else if (algorithm->by_value)
				(void) range_fits(algorithm, facts, why);
			break;
	}
	return *why == NULL;
}

/* gpu_counting of keys alone, between the ranges that were measured. */
static double
counting_keys_us(const GpusortCosts *costs, double n, uint64_t range)
{
	double		bits = log2((double) range);
	int			r = 0;
	double		below;
	double		above;
	double		part;

	if (bits > costs->range_log2[GPUSORT_COST_RANGES - 1])
		return fmax(n * costs->beyond_ns / 1000,
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
	return us * costs->count_width[width_index(facts)];
}

static double
gpu_radix_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	int			w = width_index(facts);
	double		digits = (facts->gpu.key_bits + 7) / 8;
	double		all = facts->gpu.key_width / 8;
	double		whole = facts->n < costs->radix_passes_from[w] ? all :
		costs->radix_passes[facts->gpu.key_distribution][w];
	double		passes = digits == all || digits >= whole + RADIX_LEAST_SAVED ? whole : digits;
	double		share = costs->radix_fixed[w] + (1 - costs->radix_fixed[w]) * passes / whole;

	return gpusort_cost_at(costs->radix[facts->gpu.key_distribution][w], facts->n) * share;
}

static double
gpu_merge_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	return gpusort_cost_at(costs->merge[width_index(facts)], facts->n);
}

static double
gpu_bucket_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	return gpusort_cost_at(costs->bucket[facts->gpu.key_distribution][width_index(facts)], facts->n);
}

static double
gpu_hp1_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	return gpusort_cost_at(costs->hp1, facts->n);
}

/* Of what is only forced there are no curves, and a kernel's time model_predict_us() knows. */
static double
unknown_us(const GpusortCosts *costs, const RouteFacts *facts)
{
	(void) costs;
	(void) facts;
	return HUGE_VAL;
}

#define gpu_onehot_us	unknown_us
#define gpu_hp_us		unknown_us
#define gpu_hp0_us		unknown_us

double
gpu_sort_us(AlgorithmId id, const RouteFacts *facts)
{
#define KERNELS(id, name)	[ALGORITHM_##id] = unknown_us,
#define LIBRARYS(id, name)	[ALGORITHM_##id] = name##_us,
	static double (*const predict[ALGORITHM_COUNT]) (const GpusortCosts *, const RouteFacts *) = {
		ALGORITHMS(KERNELS, LIBRARYS)
	};

	return predict[id] (facts->gpu.costs, facts);
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
gpu_predict_terms(const Algorithm *algorithm, const RouteFacts *facts, GpuTerms *terms)
{
	const GpusortCosts *costs = facts->gpu.costs;
	const GpuFactors *factors = facts->gpu.factors;
	double		key_bytes = facts->gpu.key_width / 8;
	double		rid_bytes = facts->gpu.keys_only ? 0 : sizeof(uint32_t);
	double		up_bytes = facts->n * (key_bytes + rid_bytes);
	double		down_bytes = facts->n * (rid_bytes + (facts->gpu.keys_back ? key_bytes : 0));
	double		up_ns;
	double		down_ns;

	terms->library_us[GPU_TERM_HAND_OVER] = costs->job_us;
	terms->library_us[GPU_TERM_UP] = up_bytes * costs->copy_ns / 1000;
	terms->library_us[GPU_TERM_SORT] = gpu_sort_us(algorithm->id, facts);
	terms->library_us[GPU_TERM_DOWN] = down_bytes * costs->copy_ns / 1000;
	terms->library_us[GPU_TERM_HOST] = facts->n * HOST_RIDS_NS / 1000;
	memcpy(terms->us, terms->library_us, sizeof(terms->us));
	if (factors == NULL)
		return;
	gpu_copy_ns(facts, &up_ns, &down_ns);
	terms->us[GPU_TERM_HAND_OVER] *= exp(factors->log[GPU_PART_HAND_OVER]);
	terms->us[GPU_TERM_UP] = up_bytes * up_ns / 1000;
	terms->us[GPU_TERM_SORT] *= exp(gpu_sort_factor(factors, facts->gpu.key_width, facts->n)) *
		factors->busy;
	terms->us[GPU_TERM_DOWN] = down_bytes * down_ns / 1000;
}

double
gpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts)
{
	GpuTerms	terms;
	double		us = 0;

	gpu_predict_terms(algorithm, facts, &terms);
	for (int t = 0; t < GPU_TERMS; t++)
		us += terms.us[t];
	return us;
}

const Algorithm *
gpu_choose(const RouteFacts *facts, double *us)
{
	const Algorithm *best = NULL;
	const char *why;

	/* nothing is quicker than handing the job over */
	if (facts->device != DEVICE_STATE_READY || facts->gpu.key_width == 0 ||
		*us <= facts->gpu.costs->job_us * GPU_LEAST_HAND_OVER)
		return NULL;
	FOR_EACH_ALGORITHM(a)
	{
		double		a_us;

		if (a->place != ALGORITHM_ON_GPU || a->only_forced || !gpu_fits(a, facts, &why))
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
 * What the bus takes for the rows' bytes counts as far as it is more than where the constants
 * are from, for there it is in them: hidden behind the rows' coming in and going out.
 *
 * Rows with equal keys that are to be settled lie together when they come back, but of more than a
 * chunk they are kept and visited as on the CPU.
 *
 * Rows for which one device has not memory enough are merged from several.  Those for which all
 * have not become runs there, too, or where the host has the memory come back to it: then there
 * is nothing to win but by sorting.
 */
double
gpu_rows_gain_us(const GpuRowsFacts *facts)
{
	double		rows = facts->rows;
	double		to_come = fmax(rows - facts->rows_here, 0);
	double		bytes = rows * facts->row_bytes;
	double		bus_ns = fmax(facts->up_ns - BUS_HIDDEN_NS, 0) + fmax(facts->down_ns - BUS_HIDDEN_NS, 0);
	bool		spills = bytes + rows * facts->key_cost > facts->memory;
	bool		known = facts->device_memory > 0;
	bool		in_parts = known && facts->device_bytes > facts->device_memory;
	double		all_memory = fmax(facts->all_memory, facts->device_memory);
	double		stay = known ? fmin(all_memory / facts->device_bytes, 1) : 1;
	double		serial = facts->resolver ? 1 - facts->repeated : 1;
	double		ns = -facts->rows_here * facts->row_bytes * MOVE_NS - bytes * bus_ns -
		(facts->resolver ? rows * RESOLVE_NS : 0);

	if (in_parts && !spills && stay < 1)
		ns -= fmin(facts->device_memory, bytes) * (MOVE_NS + FAULT_NS);
	else
		ns += stay * ((facts->ordered ? 0 : serial * rows * MISS_NS) +
					  serial * to_come * facts->row_bytes * FAULT_NS +
					  (spills ? bytes * SPILL_NS : 0) - (in_parts ? rows * ROW_MERGE_NS : 0));
	return ns / 1000 + facts->cpu_sort_us - facts->gpu_sort_us;
}

/* ------------------------------------------------------------------------
 * What a sort takes whose keys go to devices in parts.
 *
 * Splitting keys by their range is the host's work, a few nanoseconds each, and each part
 * is handed over by itself.  In return several devices share the sorting and the way
 * back.  They do not share the way there: one thread of the host fills the chunks, and
 * it is slower than one bus.
 *
 * So from the host's memory several devices are only quicker than one where a device takes
 * longer for a key, sorted and back, than the host for splitting: with an H200 on PCIe 5 it
 * is 0.2 ns against part_ns, at any number of rows.  (Chen's several GPUs pay from 24M
 * elements on because their keys need not be split by the host.)  What parts are
 * for is keys that no device has room for.
 * ------------------------------------------------------------------------
 */

/*
 * Of a key of 32, 64 and 128 bits, with its rid: looked up among the splitters and written to its
 * part, 3.8, 5.7 and 8 ns by the measurement in key/key_split.c; into memory that is touched for
 * the first time, 0.09 a byte; and copied from there, about 0.1 a byte.
 */
static double
part_ns(const RouteFacts *facts)
{
	return facts->gpu.key_width == 32 ? 5.5 : facts->gpu.key_width == 64 ? 7.5 : 12;
}

double
gpu_parts_us(const Algorithm *algorithm, const RouteFacts *facts, int parts, int devices)
{
	int			sharing = parts < devices ? parts : devices < 1 ? 1 : devices;
	GpuTerms	terms;

	gpu_predict_terms(algorithm, facts, &terms);
	return facts->n * part_ns(facts) / 1000 + terms.us[GPU_TERM_HAND_OVER] * parts + terms.us[GPU_TERM_UP] +
		(terms.us[GPU_TERM_SORT] + terms.us[GPU_TERM_DOWN]) / sharing + terms.us[GPU_TERM_HOST];
}

/* ------------------------------------------------------------------------
 * What jobs have taught of a device; see gpu_learn.h.
 * ------------------------------------------------------------------------
 */

static const FactorRule gpu_rule = {
	.first_share = 0.5,
	.least_share = 0.125,
	.off_above = 1.5,
	.off_below = 0.25,
	.fade_s = 3600
};

/* By how much another job makes one longer, until jobs have told, and at most. */
#define LOAD_ASSUMED		0.5
#define LOAD_MAX			4.0

/* What a job takes from one process to the other and back, beside what the device does. */
#define WAKE_UPS_US			100.0

/* Less than this says nothing of a rate, or of an interval. */
#define LEAST_COPY_BYTES	65536
#define LEAST_US			1.0

static inline double
clamp(double x, double low, double high)
{
	return fmin(fmax(x, low), high);
}

static inline int
width_of(int key_width)
{
	return key_width == 32 ? 0 : key_width == 64 ? 1 : 2;
}

void
gpu_learn_begin(GpuLearned *learned)
{
	memset(learned, 0, sizeof(*learned));
	learned->load = LOAD_ASSUMED;
}

/* ------------------------------------------------------------------------
 * What is to be gone by
 * ------------------------------------------------------------------------
 */

void
gpu_learn_factors(const GpuLearned *learned, double others, int64_t now, GpuFactors *factors)
{
	for (int part = 0; part < GPU_PART_SORT; part++)
		factors->log[part] = factor_now(&learned->part[part], now, &gpu_rule);
	for (int part = GPU_PART_SORT; part < GPU_PARTS; part++)
	{
		int			size = (part - GPU_PART_SORT) % GPU_SORT_SIZES;
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
	const double *log = &factors->log[GPU_PART_SORT + width_of(key_width) * GPU_SORT_SIZES + size];

	return log[0] + (log[1] - log[0]) * past;
}

/* ------------------------------------------------------------------------
 * Learning
 * ------------------------------------------------------------------------
 */

static double
hand_over_log(const GpusortCosts *costs, double us)
{
	return log(fmax(us / costs->job_us, GPU_LEAST_HAND_OVER));
}

void
gpu_learn_measured(GpuLearned *learned, const GpusortCosts *costs, const DeviceMeasured *measured)
{
	double		up = measured->up_ns > 0 ? measured->up_ns : measured->up_small_ns;
	double		down = measured->down_ns > 0 ? measured->down_ns : measured->down_small_ns;

	if (up > 0)
		factor_measured(&learned->part[GPU_PART_UP], log(up / costs->copy_ns));
	if (down > 0)
		factor_measured(&learned->part[GPU_PART_DOWN], log(down / costs->copy_ns));
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
			factor_measured(&learned->part[GPU_PART_SORT + w * GPU_SORT_SIZES + size],
							log(measured->sort_us[w][size] /
								gpu_sort_us((AlgorithmId) measured->algorithm, &facts)));
		}
	}
}

static void
learn_part(Factor *factor, double took_us, double library_us, int64_t now)
{
	factor_learn(factor, factor_is_known(factor), log(fmax(took_us, LEAST_US) / library_us), now,
				 &gpu_rule);
}

/* What lies between its bounds is confirmed. */
static void
learn_hand_over(Factor *factor, const GpusortCosts *costs, const GpuJobTimes *times, int64_t now)
{
	double		least = hand_over_log(costs, times->hand_over_us);
	double		most = fmax(least, hand_over_log(costs, times->hand_over_most_us));

	factor_learn(factor, factor_is_known(factor), clamp(factor->log, least, most), now, &gpu_rule);
}

static void
learn_sort(GpuLearned *learned, const RouteFacts *facts, double took_us, double library_us, int64_t now)
{
	factor_sizes_learn(&learned->part[GPU_PART_SORT + width_of(facts->gpu.key_width) * GPU_SORT_SIZES],
					   facts->n, NULL, log(fmax(took_us, LEAST_US) / library_us), now, &gpu_rule);
}

/* With others under way: the parts of which something is known tell of the load. */
static bool
learn_load(GpuLearned *learned, const GpuJobTimes *times, double serial_us)
{
	double		took_us = times->up_us + times->down_us + times->sort_us;
	double		expected_us = serial_us * (1 + learned->load * times->others);
	double		load;

	if (times->others <= 0 || !factor_is_known(&learned->part[GPU_PART_UP]))
		return false;
	/* one that is held up does little, as with factors */
	took_us = clamp(took_us, expected_us * gpu_rule.off_below, expected_us * gpu_rule.off_above);
	load = clamp((took_us / serial_us - 1) / times->others, 0, LOAD_MAX);
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
	GpuJobTimes told = *times;
	GpuFactors	factors;
	double		up_us;
	double		down_us;
	double		sort_us;
	double		busy;

	if (told.up_bytes < LEAST_COPY_BYTES || !(told.up_us > 0))
		told.up_us = told.up_bytes = 0;
	if (told.down_bytes < LEAST_COPY_BYTES || !(told.down_us > 0))
		told.down_us = told.down_bytes = 0;
	/* of values' ranges the library's costs know too little to blame the device */
	if (!algorithm_on_gpu(algorithm) || algorithm->by_value || algorithm->only_forced ||
		!(told.sort_us > 0))
		told.sort_us = 0;
	up_us = told.up_bytes * costs->copy_ns / 1000;
	down_us = told.down_bytes * costs->copy_ns / 1000;
	sort_us = told.sort_us > 0 ? gpu_sort_us(algorithm->id, facts) : 0;
	if (up_us + down_us + sort_us <= 0)
		return;

	/* as of now, not as decisions are to fade */
	gpu_learn_factors(learned, 0, 0, &factors);
	learned->jobs++;
	if (learn_load(learned, &told,
				   up_us * exp(part[GPU_PART_UP].log) + down_us * exp(part[GPU_PART_DOWN].log) +
				   sort_us * exp(gpu_sort_factor(&factors, facts->gpu.key_width, facts->n))))
		return;
	/* what nobody has seen alone: less what is assumed of the others, as it will count on top */
	busy = 1 + learned->load * told.others;
	if (told.up_us > 0)
		learn_part(&part[GPU_PART_UP], told.up_us / busy, up_us, now);
	if (told.down_us > 0)
		learn_part(&part[GPU_PART_DOWN], told.down_us / busy, down_us, now);
	if (told.sort_us > 0)
		learn_sort(learned, facts, told.sort_us / busy, sort_us, now);
	if (told.hand_over_most_us > 0)
		learn_hand_over(&part[GPU_PART_HAND_OVER], costs, &told, now);
}

/* ------------------------------------------------------------------------
 * Text
 * ------------------------------------------------------------------------
 */
const char *
gpu_part_name(GpuPart part)
{
	static const char *const names[] = {"hand_over", "up", "down", "sort_32", "sort_64", "sort_128"};

	return part < GPU_PART_SORT ? names[part] :
		names[GPU_PART_SORT + (part - GPU_PART_SORT) / GPU_SORT_SIZES];
}

void
gpu_learn_name(const char *name, char kept[GPU_LEARN_NAME])
{
	snprintf(kept, GPU_LEARN_NAME, "%s", name);
	for (char *c = kept; *c != '\0'; c++)
		*c = *c == '\n' ? ' ' : *c;
}

size_t
gpu_learn_format_of(const GpuLearnedOf *of, char text[GPU_LEARN_OF_SIZE])
{
	return snprintf(text, GPU_LEARN_OF_SIZE, "device %d %llu %s\n", of->number,
					(unsigned long long) of->memory, of->name);
}

/* The name is all behind one space: it may be empty, or begin or end with more of them. */
bool
gpu_learn_parse_of(const char **text, GpuLearnedOf *of)
{
	unsigned long long memory;
	int			len;
	const char *end;

	if (sscanf(*text, "device %d %llu%n", &of->number, &memory, &len) != 2 || (*text)[len] != ' ')
		return false;
	of->memory = memory;
	*text += len + 1;
	end = strchr(*text, '\n');
	if (end == NULL || end - *text >= GPU_LEARN_NAME)
		return false;
	memcpy(of->name, *text, end - *text);
	of->name[end - *text] = '\0';
	*text = end + 1;
	return true;
}

size_t
gpu_learn_format(const GpuLearned *learned, char text[GPU_LEARN_TEXT_SIZE])
{
	size_t		len = snprintf(text, GPU_LEARN_TEXT_SIZE, "load %.6g %u\njobs %llu\n", learned->load,
							   learned->load_jobs, (unsigned long long) learned->jobs);

	for (int p = 0; p < GPU_PARTS; p++)
		len += factor_format(&learned->part[p], gpu_part_name((GpuPart) p), text + len,
							 GPU_LEARN_TEXT_SIZE - len);
	return len;
}

bool
gpu_learn_parse(const char **text, GpuLearned *learned)
{
	const double load[][2] = {{0, LOAD_MAX}, {0, UINT32_MAX}};
	const double jobs[][2] = {{0, FACTOR_TEXT_MOST}};
	double		values[2];

	memset(learned, 0, sizeof(*learned));
	if (!factor_parse_line(text, "load", 2, load, values))
		return false;
	learned->load = values[0];
	learned->load_jobs = (uint32_t) values[1];
	if (!factor_parse_line(text, "jobs", 1, jobs, values))
		return false;
	learned->jobs = (uint64_t) values[0];
	for (int p = 0; p < GPU_PARTS; p++)
	{
		if (!factor_parse(text, gpu_part_name((GpuPart) p), &learned->part[p]))
			return false;
	}
	return true;
}
