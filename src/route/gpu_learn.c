/*
 * gpu_learn.c
 *	  What jobs have taught of a device; see gpu_learn.h.
 */
#include "route/gpu_learn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route/gpu_model.h"

static const FactorRule rule = {
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
		factors->log[part] = factor_now(&learned->part[part], now, &rule);
	for (int part = GPU_PART_SORT; part < GPU_PARTS; part++)
	{
		int			size = (part - GPU_PART_SORT) % GPU_SORT_SIZES;
		const Factor *sizes = &learned->part[part - size];
		int			from = factor_known_size(sizes, size);

		factors->log[part] = from < 0 ? 0 : factor_now(&sizes[from], now, &rule);
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
				 &rule);
}

/* What lies between its bounds is confirmed. */
static void
learn_hand_over(Factor *factor, const GpusortCosts *costs, const GpuJobTimes *times, int64_t now)
{
	double		least = hand_over_log(costs, times->hand_over_us);
	double		most = fmax(least, hand_over_log(costs, times->hand_over_most_us));

	factor_learn(factor, factor_is_known(factor), clamp(factor->log, least, most), now, &rule);
}

static void
learn_sort(GpuLearned *learned, const RouteFacts *facts, double took_us, double library_us, int64_t now)
{
	factor_sizes_learn(&learned->part[GPU_PART_SORT + width_of(facts->gpu.key_width) * GPU_SORT_SIZES],
					   facts->n, NULL, log(fmax(took_us, LEAST_US) / library_us), now, &rule);
}

/* With others under way: the parts of which something is known tell of the load. */
static bool
learn_load(GpuLearned *learned, const GpuJobTimes *times, double alone_us)
{
	double		took_us = times->up_us + times->down_us + times->sort_us;
	double		expected_us = alone_us * (1 + learned->load * times->others);
	double		load;

	if (times->others <= 0 || !factor_is_known(&learned->part[GPU_PART_UP]))
		return false;
	/* one that is held up does little, as with factors */
	took_us = clamp(took_us, expected_us * rule.off_below, expected_us * rule.off_above);
	load = clamp((took_us / alone_us - 1) / times->others, 0, LOAD_MAX);
	learned->load += (load - learned->load) *
		fmax(1.0 / (learned->load_jobs + 2), rule.least_share);
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
