/*
 * factor.c
 *	  Correction factors of cost terms, and the one of the CPU model.
 *
 * cost.h describes the learning rule.  A factor is kept as its logarithm, so that
 * "twice as long" and "half as long" are steps of one size.
 */
#include <math.h>

#include "cost/cost_internal.h"
#include "service/device_state.h"

static inline double
bounded(double log_factor)
{
	return clamp_double(log_factor, log(FACTOR_MIN), log(FACTOR_MAX));
}

void
factor_measured(Factor *factor, double log_measured)
{
	factor->measured = bounded(log_measured);
	factor->log = factor->jobs > 0 ? (factor->log + factor->measured) / 2 : factor->measured;
	factor->is_measured = true;
}

double
factor_now(const Factor *factor, int64_t now, const FactorRule *rule)
{
	double		measured = factor->is_measured ? factor->measured : 0;
	double		idle = (double) (now - factor->seen);

	if (factor->log <= measured || factor->jobs == 0 || idle <= 0)
		return factor->log;
	return measured + (factor->log - measured) * exp2(-idle / rule->fade_s);
}

void
factor_learn(Factor *factor, bool known, double log_observed, int64_t now, const FactorRule *rule)
{
	double		step;

	/* an observation below the decayed factor confirms the decay */
	if (log_observed <= factor_now(factor, now, rule))
		factor->log = factor_now(factor, now, rule);
	step = log_observed - factor->log;
	if (known)
		step = clamp_double(step, log(rule->off_below), log(rule->off_above)) *
			clamp_double(1.0 / (factor->jobs + 2), rule->least_share, rule->first_share);
	factor->log = bounded(factor->log + step);
	if (factor->jobs < UINT32_MAX)
		factor->jobs++;
	factor->seen = now;
}

/* ------------------------------------------------------------------------
 * Factors by number of rows
 * ------------------------------------------------------------------------
 */

double
factor_size_of(double rows, int *first)
{
	double		x = (log2(fmax(rows, 1)) - DEVICE_MEASURED_FIRST) / DEVICE_MEASURED_STEP;

	x = clamp_double(x, 0, FACTOR_SIZES - 1);
	*first = (int) fmin(x, FACTOR_SIZES - 2);
	return x - *first;
}

int
factor_known_size(const Factor *sizes, int size)
{
	for (int distance = 0; distance < FACTOR_SIZES; distance++)
	{
		if (size >= distance && factor_is_known(&sizes[size - distance]))
			return size - distance;
		if (size + distance < FACTOR_SIZES && factor_is_known(&sizes[size + distance]))
			return size + distance;
	}
	return -1;
}

/* The size nearest to the job's learns.  If it is unknown, it begins as the nearest known one. */
void
factor_sizes_learn(Factor *sizes, double rows, double log_observed, int64_t now, const FactorRule *rule)
{
	int			first;
	int			near = factor_size_of(rows, &first) >= 0.5;
	Factor	   *size = &sizes[first + near];
	int			known = factor_known_size(sizes, first + near);

	if (!factor_is_known(size) && known >= 0)
		size->log = sizes[known].log;
	factor_learn(size, known >= 0, log_observed, now, rule);
}

/* ------------------------------------------------------------------------
 * Correction factor of the CPU model
 * ------------------------------------------------------------------------
 */

/*
 * The initial value is good (a measurement or the model itself), so the first
 * sort moves the factor by no more than later ones.
 */
static const FactorRule cpu_rule = {
	.first_share = 0.125,
	.least_share = 0.125,
	.off_above = 1.25,
	.off_below = 0.25,
	.fade_s = 60
};

double
cpu_learn_factor(const Factor *cpu, int64_t now)
{
	return exp(factor_now(cpu, now, &cpu_rule));
}

void
cpu_learn_measured(Factor *cpu, double sort_us)
{
	const RouteFacts facts = {
		.n = (size_t) 1 << CPU_MEASURED_LOG2_ROWS,
		.format = SORT_REC_64,
		.end_bit = 64
	};

	if (sort_us > 0)
		factor_measured(cpu, log(sort_us / cpu_predict_us(&sort_algorithms[ALGORITHM_CPU_RADIX], &facts)));
}

void
cpu_learn_sort(Factor *cpu, const Algorithm *algorithm, const RouteFacts *facts, double took_us, int64_t now)
{
	if (algorithm->id == ALGORITHM_CPU_RADIX && facts->n >= CPU_LEARN_ROWS && took_us > 0)
		factor_learn(cpu, true, log(took_us / cpu_predict_us(algorithm, facts)), now, &cpu_rule);
}
