/*
 * cpu_model.c
 *	  The choice among CPU kernels, and the predicted time of a sort on the CPU.
 *
 * The choice is a rule, because the facts tell which kernel is the fastest:
 *
 *	presorted		input in order, reversed, of few runs, or nearly in order
 *	cpu_counting	keys of few bits, and no fewer records than values
 *	cpu_merge		few packed records, with vector instructions
 *	cpu_radix		all other inputs
 *
 * bench/route_grid compares the rule with measured times.
 *
 * The predicted time decides between the CPU and a GPU, and is a part of a sort's cost
 * in a plan.  The model predicts the time of cpu_radix, also where cpu_counting or
 * cpu_merge is chosen: these kernels take a little less.  Satish et al. 2010 (section 4.3.2) model a radix
 * sort's time as passes * records * (operations + bytes / bandwidth).  The model keeps
 * this form, n * radix(n, bits), and measures the term.  It is a curve over n, because
 * cache misses dominate and the kernel changes its method with the size.  cpu_radix
 * sorts no more bits than n records need, so full-width keys of one format cost the
 * same.  Narrow keys have curves of their own.
 */
#include <stdbool.h>
#include <stdint.h>

#include "cost/cost_internal.h"
#include "kernel/isa.h"
#include "kernel/team.h"

/* ------------------------------------------------------------------------
 * The choice
 * ------------------------------------------------------------------------
 */

/* cpu_counting sorts keys of at most this number of bits: its table of counts fits the inner caches. */
#define COUNTING_BITS		12

/* cpu_merge sorts at least and fewer than these numbers of packed records. */
#define MERGE_MIN_ROWS		24
#define MERGE_MAX_ROWS		512

/* presorted works alone: a larger team sorts nearly ordered records faster by cpu_radix. */
#define PRESORTED_MAX_TEAM	3

/* Size of the team that a kernel uses. */
static int
team_size(const RouteFacts *facts)
{
	return facts->n >= SORT_TEAM_MIN_RECORDS && facts->threads > 1 ? facts->threads : 1;
}

/* Does presorted sort the input in one or two passes? */
static bool
in_few_runs(const RouteFacts *facts)
{
	return facts->order_known &&
		(facts->descents == 0 ||
		 (facts->n >= ROUTE_TINY_ROWS && (facts->ascents == 0 || facts->descents < PRESORTED_MAX_RUNS)));
}

static bool
nearly_in_order(const RouteFacts *facts)
{
	return facts->order_known && !facts->scattered && facts->descents <= facts->n / PRESORTED_PER_DESCENT &&
		team_size(facts) <= PRESORTED_MAX_TEAM;
}

const Algorithm *
cpu_choose(const RouteFacts *facts)
{
	const int	bits = facts->end_bit - facts->begin_bit;
	AlgorithmId id = ALGORITHM_CPU_RADIX;

	if (in_few_runs(facts))
		id = ALGORITHM_PRESORTED;
	else if (facts->n >= ROUTE_TINY_ROWS && bits <= COUNTING_BITS && facts->n >> bits > 0)
		id = ALGORITHM_CPU_COUNTING;
	else if (facts->n >= ROUTE_TINY_ROWS && nearly_in_order(facts))
		id = ALGORITHM_PRESORTED;
	else if (facts->format == SORT_REC_PACKED && facts->n >= MERGE_MIN_ROWS && facts->n < MERGE_MAX_ROWS &&
			 sort_isa() != SORT_ISA_PORTABLE)
		id = ALGORITHM_CPU_MERGE;
	return &sort_algorithms[id];
}

/* ------------------------------------------------------------------------
 * The predicted time
 *
 * A cost curve holds nanoseconds per record at sample points of 2^5, 2^7, ... 2^27
 * records.  Between sample points it is linear in the logarithm of the size.  A curve
 * rises where the input exceeds a cache.
 *
 * The figures are those of an AMD EPYC Zen 5 (1 MB L2, 32 MB L3, AVX-512), one core;
 * "bench/route_grid --orders random" measures them.  2^27 records are extrapolated.
 * ------------------------------------------------------------------------
 */

#define CURVE_POINTS		12
#define CURVE_FIRST_LOG2	5	/* binary logarithm of the first point's records */
#define CURVE_STEP_LOG2		2

typedef double Curve[CURVE_POINTS];

/* Keys of full width, by record format. */
static const Curve radix_curves[] = {
	[SORT_REC_PACKED] = {5.21, 3.09, 2.78, 2.67, 2.56, 2.3, 3.62, 4.05, 4.16, 3.89, 5.5, 5.78},
	[SORT_REC_64] = {4.91, 3.7, 2.96, 3.34, 2.92, 2.89, 4.29, 5.72, 5.98, 6.52, 9.2, 9.66},
	[SORT_REC_128] = {5.66, 4.85, 4.32, 4.37, 4.26, 4.42, 6.13, 8.42, 8.61, 10, 10.6, 11.1}
};

/* Packed records of 8, 16 and 24 key bits. */
static const Curve narrow_curves[] = {
	{4, 2.18, 1.18, 0.959, 0.967, 0.876, 0.971, 3.75, 1.77, 1.59, 4.5, 4.73},
	{5.2, 3.16, 2.02, 1.84, 1.53, 1.57, 1.76, 2.41, 2.63, 3.05, 4.8, 5.04},
	{5.39, 3.12, 2.71, 2.67, 1.98, 2.32, 3.08, 3.16, 3.28, 3.64, 5.4, 5.67}
};

#define NARROW_STEP			8	/* bits from one narrow curve to the next */
#define NARROW_CURVES		((int) (sizeof(narrow_curves) / sizeof(Curve)))

/* Cost of calling a kernel. */
#define START_NS			30

/* Share of a kernel's time that the members of a team divide among them. */
#define TEAM_SHARE			0.85

/* Binary logarithm, linear between powers of two.  The error is at most 0.09. */
static inline double
rough_log2(size_t n)
{
	int			floor = 63 - __builtin_clzll((unsigned long long) n | 1);

	return floor + ((double) n / (double) ((size_t) 1 << floor) - 1.0);
}

/* A curve's value at n records. */
static double
curve_at(const Curve curve, size_t n)
{
	double		x = (rough_log2(n) - CURVE_FIRST_LOG2) / CURVE_STEP_LOG2;
	int			point;

	if (n == 0 || x <= 0)
		return curve[0];
	if (x >= CURVE_POINTS - 1)
		return curve[CURVE_POINTS - 1];
	point = (int) x;
	return curve[point] + (x - point) * (curve[point + 1] - curve[point]);
}

/* Nanoseconds per record of cpu_radix. */
static double
radix_ns(SortRecFormat format, int bits, size_t n)
{
	double		whole = curve_at(radix_curves[format], n);
	int			i = bits / NARROW_STEP - 1;
	double		below;
	double		above;

	if (format != SORT_REC_PACKED || i >= NARROW_CURVES)
		return whole;
	if (i < 0)
		return curve_at(narrow_curves[0], n);
	below = curve_at(narrow_curves[i], n);
	above = i + 1 < NARROW_CURVES ? curve_at(narrow_curves[i + 1], n) : whole;
	return below + (above - below) * (bits % NARROW_STEP) / NARROW_STEP;
}

double
cpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts)
{
	double		ns;

	if (facts->n < ROUTE_TINY_ROWS || algorithm->id == ALGORITHM_PRESORTED ||
		(algorithm->id == ALGORITHM_CPU_MERGE && facts->n >= MERGE_MAX_ROWS))
		return 0;
	ns = facts->n * radix_ns(facts->format, facts->end_bit - facts->begin_bit, facts->n);
	/* Amdahl's law */
	return (ns * (1 - TEAM_SHARE + TEAM_SHARE / team_size(facts)) + START_NS) / 1000;
}
