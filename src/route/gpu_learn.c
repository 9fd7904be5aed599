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

/* No part takes less or more than this many times what the library says. */
#define FACTOR_MAX			128.0
#define FACTOR_MIN			0.125

/* A job counts as if it had taken no more, and no less, than so many times the expected. */
#define OFF_ABOVE			1.5
#define OFF_BELOW			0.25

/* The share by which a job moves a factor: of the first one half, then less, at least this. */
#define LEAST_SHARE			0.125

/* What jobs have said beyond the measured is half as much after so many seconds without one. */
#define FADE_SECONDS		3600.0

/* By how much another job makes one longer, until jobs have told, and at most. */
#define LOAD_ASSUMED		0.5
#define LOAD_MAX			4.0

/* What a job takes from one process to the other and back, beside what the device does. */
#define WAKE_UPS_US			100.0

/* Less than this says nothing of a rate, or of an interval. */
#define LEAST_COPY_BYTES	65536
#define LEAST_US			1.0

/* Bounds of numbers in the file. */
#define TEXT_JOBS_MAX		1e15

static inline double
clamp(double x, double low, double high)
{
	return fmin(fmax(x, low), high);
}

static inline bool
is_known(const GpuFactor *factor)
{
	return factor->is_measured || factor->jobs > 0;
}

static inline int
width_of(int key_width)
{
	return key_width == 32 ? 0 : key_width == 64 ? 1 : 2;
}

/* A number of rows among the sizes: *first, and how far beyond it. */
static double
size_of(double rows, int *first)
{
	double		x = (log2(fmax(rows, 1)) - DEVICE_MEASURED_FIRST) / DEVICE_MEASURED_STEP;

	x = clamp(x, 0, GPU_SORT_SIZES - 1);
	*first = (int) fmin(x, GPU_SORT_SIZES - 2);
	return x - *first;
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

/* A factor now: a job that kept others away is not believed for ever. */
static double
faded(const GpuFactor *factor, int64_t now)
{
	double		measured = factor->is_measured ? factor->measured : 0;
	double		idle = (double) (now - factor->seen);

	if (factor->log <= measured || factor->jobs == 0 || idle <= 0)
		return factor->log;
	return measured + (factor->log - measured) * exp2(-idle / FADE_SECONDS);
}

/* The size nearest to this one of which something is known; -1: none. */
static int
known_size(const GpuFactor *sizes, int size)
{
	for (int distance = 0; distance < GPU_SORT_SIZES; distance++)
	{
		if (size >= distance && is_known(&sizes[size - distance]))
			return size - distance;
		if (size + distance < GPU_SORT_SIZES && is_known(&sizes[size + distance]))
			return size + distance;
	}
	return -1;
}

void
gpu_learn_factors(const GpuLearned *learned, double others, int64_t now, GpuFactors *factors)
{
	for (int part = 0; part < GPU_PART_SORT; part++)
		factors->log[part] = faded(&learned->part[part], now);
	for (int part = GPU_PART_SORT; part < GPU_PARTS; part++)
	{
		int			size = (part - GPU_PART_SORT) % GPU_SORT_SIZES;
		const GpuFactor *sizes = &learned->part[part - size];
		int			from = known_size(sizes, size);

		factors->log[part] = from < 0 ? 0 : faded(&sizes[from], now);
	}
	factors->busy = 1 + learned->load * others;
	factors->jobs = learned->jobs;
}

double
gpu_sort_factor(const GpuFactors *factors, int key_width, double rows)
{
	int			size;
	double		past = size_of(rows, &size);
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

/* One more voice, in equal parts with what there is. */
static void
take_measured(GpuFactor *factor, double log_factor)
{
	factor->measured = clamp(log_factor, log(FACTOR_MIN), log(FACTOR_MAX));
	factor->log = factor->jobs > 0 ? (factor->log + factor->measured) / 2 : factor->measured;
	factor->is_measured = true;
}

void
gpu_learn_measured(GpuLearned *learned, const GpusortCosts *costs, const DeviceMeasured *measured)
{
	double		up = measured->up_ns > 0 ? measured->up_ns : measured->up_small_ns;
	double		down = measured->down_ns > 0 ? measured->down_ns : measured->down_small_ns;

	if (up > 0)
		take_measured(&learned->part[GPU_PART_UP], log(up / costs->copy_ns));
	if (down > 0)
		take_measured(&learned->part[GPU_PART_DOWN], log(down / costs->copy_ns));
	if (measured->launch_us > 0)
		take_measured(&learned->part[GPU_PART_HAND_OVER],
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
			take_measured(&learned->part[GPU_PART_SORT + w * GPU_SORT_SIZES + size],
						  log(measured->sort_us[w][size] /
							  gpu_sort_us((AlgorithmId) measured->algorithm, &facts)));
		}
	}
}

/* How far a job that was so far off moves a factor, of which something is known or not. */
static double
step_of(const GpuFactor *factor, bool known, double off)
{
	if (!known)
		return off;
	return clamp(off, log(OFF_BELOW), log(OFF_ABOVE)) * fmax(1.0 / (factor->jobs + 2), LEAST_SHARE);
}

static void
move(GpuFactor *factor, double by, int64_t now)
{
	factor->log = clamp(factor->log + by, log(FACTOR_MIN), log(FACTOR_MAX));
	if (factor->jobs < UINT32_MAX)
		factor->jobs++;
	factor->seen = now;
}

static void
learn_part(GpuFactor *factor, double took_us, double library_us, int64_t now)
{
	double		off = log(fmax(took_us, LEAST_US) / library_us) - factor->log;

	move(factor, step_of(factor, is_known(factor), off), now);
}

/* What lies between its bounds is confirmed. */
static void
learn_hand_over(GpuFactor *factor, const GpusortCosts *costs, const GpuJobTimes *times, int64_t now)
{
	double		least = hand_over_log(costs, times->hand_over_us);
	double		most = fmax(least, hand_over_log(costs, times->hand_over_most_us));

	move(factor, step_of(factor, is_known(factor), clamp(factor->log, least, most) - factor->log), now);
}

/* A sort lies between two sizes; what is not known of one is what is known of the other. */
static void
learn_sort(GpuLearned *learned, const GpuFactors *factors, const RouteFacts *facts,
		   double took_us, double library_us, int64_t now)
{
	int			first;
	double		past = size_of(facts->n, &first);
	int			from = GPU_PART_SORT + width_of(facts->gpu.key_width) * GPU_SORT_SIZES + first;
	GpuFactor  *size = &learned->part[from];
	int			near = past >= 0.5;
	bool		both = is_known(&size[!near]);
	double		near_weight = near ? past : 1 - past;
	double		far_weight = both ? 1 - near_weight : 0;
	double		squares;
	double		by;

	if (!is_known(&size[near]))
		size[near].log = factors->log[from + near];
	if (!both)
		near_weight = 1;
	squares = near_weight * near_weight + far_weight * far_weight;
	by = step_of(&size[near], known_size(&learned->part[from - first], first) >= 0,
				 log(fmax(took_us, LEAST_US) / library_us) -
				 gpu_sort_factor(factors, facts->gpu.key_width, facts->n)) / squares;
	move(&size[near], by * near_weight, now);
	if (both)
		size[!near].log = clamp(size[!near].log + by * far_weight, log(FACTOR_MIN), log(FACTOR_MAX));
}

/* With others under way: the parts of which something is known tell of the load. */
static bool
learn_load(GpuLearned *learned, const GpuJobTimes *times, double alone_us)
{
	double		took_us = times->up_us + times->down_us + times->sort_us;
	double		load;

	if (times->others <= 0 || !is_known(&learned->part[GPU_PART_UP]))
		return false;
	load = clamp((took_us / alone_us - 1) / times->others, 0, LOAD_MAX);
	learned->load += (load - learned->load) * fmax(1.0 / (learned->load_jobs + 2), LEAST_SHARE);
	if (learned->load_jobs < UINT32_MAX)
		learned->load_jobs++;
	return true;
}

void
gpu_learn_job(GpuLearned *learned, const Algorithm *algorithm, const RouteFacts *facts,
			  const GpuJobTimes *times, int64_t now)
{
	const GpusortCosts *costs = facts->gpu.costs;
	GpuFactor  *part = learned->part;
	GpuJobTimes told = *times;
	GpuFactors	factors;
	double		up_us;
	double		down_us;
	double		sort_us;

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
	if (told.up_us > 0)
		learn_part(&part[GPU_PART_UP], told.up_us, up_us, now);
	if (told.down_us > 0)
		learn_part(&part[GPU_PART_DOWN], told.down_us, down_us, now);
	if (told.sort_us > 0)
		learn_sort(learned, &factors, facts, told.sort_us, sort_us, now);
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

size_t
gpu_learn_format(const GpuLearned *learned, char text[GPU_LEARN_TEXT_SIZE])
{
	size_t		len = snprintf(text, GPU_LEARN_TEXT_SIZE, "load %.6g %u\njobs %llu\n", learned->load,
							   learned->load_jobs, (unsigned long long) learned->jobs);

	for (int p = 0; p < GPU_PARTS; p++)
	{
		const GpuFactor *part = &learned->part[p];

		len += snprintf(text + len, GPU_LEARN_TEXT_SIZE - len, "%s %.6g %d %.6g %u %lld\n",
						gpu_part_name((GpuPart) p), part->log, part->is_measured, part->measured,
						part->jobs, (long long) part->seen);
	}
	return len;
}

/* The line's name and n numbers within bounds; moves *text behind it. */
static bool
parse_line(const char **text, const char *name, int n, const double (*bounds)[2], double *values)
{
	size_t		len = strlen(name);

	if (strncmp(*text, name, len) != 0)
		return false;
	*text += len;
	for (int i = 0; i < n; i++)
	{
		char	   *end;

		if (**text != ' ')
			return false;
		values[i] = strtod(*text, &end);
		/* written so that a NaN is refused, too */
		if (end == *text || !(values[i] >= bounds[i][0] && values[i] <= bounds[i][1]))
			return false;
		*text = end;
	}
	return *(*text)++ == '\n';
}

bool
gpu_learn_parse(const char **text, GpuLearned *learned)
{
	/* what is printed is rounded */
	const double low = log(FACTOR_MIN) - 0.001;
	const double high = log(FACTOR_MAX) + 0.001;
	const double load[][2] = {{0, LOAD_MAX}, {0, UINT32_MAX}};
	const double jobs[][2] = {{0, TEXT_JOBS_MAX}};
	const double factor[][2] = {{low, high}, {0, 1}, {low, high}, {0, UINT32_MAX}, {0, TEXT_JOBS_MAX}};
	double		values[5];

	memset(learned, 0, sizeof(*learned));
	if (!parse_line(text, "load", 2, load, values))
		return false;
	learned->load = values[0];
	learned->load_jobs = (uint32_t) values[1];
	if (!parse_line(text, "jobs", 1, jobs, values))
		return false;
	learned->jobs = (uint64_t) values[0];
	for (int p = 0; p < GPU_PARTS; p++)
	{
		GpuFactor  *part = &learned->part[p];

		if (!parse_line(text, gpu_part_name((GpuPart) p), 5, factor, values))
			return false;
		part->log = values[0];
		part->is_measured = values[1] != 0;
		part->measured = values[2];
		part->jobs = (uint32_t) values[3];
		part->seen = (int64_t) values[4];
	}
	return true;
}
