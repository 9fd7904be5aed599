/*
 * cpu_learn.c
 *	  What sorts on the CPU have taught of it; see cpu_learn.h.
 */
#include "route/cpu_learn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "route/model.h"

#define FORMATS		CPU_MEASURED_FORMATS

/*
 * There is a beginning to go by, measured or the model, so that the first sort has no more to say
 * than others: in the twenty that it takes to be near the best two are held up.
 */
static const FactorRule rule = {
	.first_share = 0.125,
	.least_share = 0.125,
	.off_above = 1.25,
	.off_below = 0.25,
	.fade_s = CPU_FADE_SECONDS
};

static const char *const format_names[FORMATS] = {"cpu_packed", "cpu_64", "cpu_128"};

void
cpu_learn_begin(CpuLearned *learned)
{
	memset(learned, 0, sizeof(*learned));
}

/* Of a format of which nothing is known: what is known of the nearest, or else the model is right. */
static double
other_formats(const CpuLearned *learned, int format, double rows, int64_t now)
{
	for (int distance = 1; distance < FORMATS; distance++)
	{
		for (int f = format - distance; f <= format + distance; f += 2 * distance)
		{
			if (f >= 0 && f < FORMATS && factor_known_size(learned->sizes[f], 0) >= 0)
				return factor_sizes_now(learned->sizes[f], rows, 0, now, &rule);
		}
	}
	return 0;
}

double
cpu_learn_factor(const CpuLearned *learned, const RouteFacts *facts, int64_t now)
{
	double		unknown = other_formats(learned, facts->format, facts->n, now);

	return exp(factor_sizes_now(learned->sizes[facts->format], facts->n, unknown, now, &rule));
}

void
cpu_learn_measured(CpuLearned *learned, const CpuMeasured *measured)
{
	const Algorithm *radix = &sort_algorithms[ALGORITHM_CPU_RADIX];

	for (int f = 0; f < FORMATS; f++)
	{
		RouteFacts	facts = {0};
		int			first;
		double		past;

		if (!(measured->sort_us[f] > 0))
			continue;
		facts.n = (size_t) 1 << CPU_MEASURED_LOG2_ROWS;
		facts.format = (SortRecFormat) f;
		facts.begin_bit = cpu_measured_begin_bit(f);
		facts.end_bit = cpu_measured_end_bit(f);
		facts.rids_ascending = true;
		past = factor_size_of(facts.n, &first);
		factor_measured(&learned->sizes[f][first + (past >= 0.5)],
						log(measured->sort_us[f] / model_predict_us(route_model, radix, &facts)));
	}
}

void
cpu_learn_sort(CpuLearned *learned, const Algorithm *algorithm, const RouteFacts *facts,
			   double took_us, int64_t now)
{
	double		unknown;
	double		model_us;

	if (algorithm->place != ALGORITHM_ON_CPU || algorithm->id == ALGORITHM_PRESORTED ||
		facts->n < CPU_LEARN_ROWS || !(took_us > 0))
		return;
	model_us = model_predict_us(route_model, algorithm, facts);
	if (!(model_us > 0 && model_us < HUGE_VAL))
		return;
	unknown = other_formats(learned, facts->format, facts->n, 0);
	factor_sizes_learn(learned->sizes[facts->format], facts->n, &unknown, log(took_us / model_us), now,
					   &rule);
	learned->sorts++;
}

size_t
cpu_learn_format(const CpuLearned *learned, char text[CPU_LEARN_TEXT_SIZE])
{
	size_t		len = snprintf(text, CPU_LEARN_TEXT_SIZE, "sorts %llu\n", (unsigned long long) learned->sorts);

	for (int f = 0; f < FORMATS; f++)
	{
		for (int size = 0; size < FACTOR_SIZES; size++)
			len += factor_format(&learned->sizes[f][size], format_names[f], text + len,
								 CPU_LEARN_TEXT_SIZE - len);
	}
	return len;
}

bool
cpu_learn_parse(const char **text, CpuLearned *learned)
{
	const double sorts[][2] = {{0, FACTOR_TEXT_MOST}};
	double		value;

	memset(learned, 0, sizeof(*learned));
	if (!factor_parse_line(text, "sorts", 1, sorts, &value))
		return false;
	learned->sorts = (uint64_t) value;
	for (int f = 0; f < FORMATS; f++)
	{
		for (int size = 0; size < FACTOR_SIZES; size++)
		{
			if (!factor_parse(text, format_names[f], &learned->sizes[f][size]))
				return false;
		}
	}
	return true;
}
