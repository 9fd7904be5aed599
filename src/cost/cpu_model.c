/*
 * cpu_model.c
 *	  Predicted times of the CPU kernels.
 *
 * Satish et al. 2010 (sections 4.3.2 and 5.2.1) model a radix sort's time as
 * passes * records * (operations + bytes / bandwidth), and a merge sort's as one
 * term per doubling of the runs until they fill the cache plus two passes over
 * memory.  Abdel-hafeez et al. 2018 (section 4) count records plus the key range
 * for a counting sort.  The model keeps these forms and measures the terms:
 *
 *	cpu_radix		n * radix(n, bits) + n * chain if nearly sorted
 *	cpu_merge		n * merge(n)
 *	cpu_counting	n * counting(n, bits) + range * cell
 *					+ n * chain if nearly sorted
 *	presorted		0 if sorted; n * reversed(n) if reversed;
 *					passes * n * runs(n) for few runs;
 *					otherwise n * nearly(n) + descents * drop
 *
 * cpu_radix sorts no more bits than n records need, so full-width keys of one
 * format cost the same.  Narrow keys have curves of their own.
 *
 * The terms are curves over n, except cell and drop, because cache misses dominate
 * and a kernel changes its method with the size.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "cost/cost_internal.h"
#include "kernel/isa.h"
#include "kernel/team.h"

const RouteModel *route_model = &route_model_builtin;

/* Cost of calling a kernel. */
#define START_NS			30

/* Binary logarithm, linear between powers of two.  The error is at most 0.09. */
static inline double
rough_log2(size_t n)
{
	int			floor = 63 - __builtin_clzll((unsigned long long) n | 1);

	return floor + ((double) n / (double) ((size_t) 1 << floor) - 1.0);
}

double
model_curve_at(const double *curve, size_t n)
{
	double		x = (rough_log2(n) - model_point_log2(0)) /
		(model_point_log2(1) - model_point_log2(0));
	int			sample_point;

	if (n == 0 || x <= 0)
		return curve[0];
	if (x >= MODEL_POINTS - 1)
		return curve[MODEL_POINTS - 1];
	sample_point = (int) x;
	return curve[sample_point] + (x - sample_point) * (curve[sample_point + 1] - curve[sample_point]);
}

/* Nanoseconds per record by this curve of the model. */
static double
curve_ns(int curve, size_t n)
{
	return model_curve_at(route_model->curve[curve], n);
}

/* Interpolates between curves of a kernel for key widths that are step bits apart. */
static double
between_widths(int below, int above, double past, int step, size_t n)
{
	double		a = curve_ns(below, n);
	double		b = curve_ns(above, n);

	return a + (b - a) * past / step;
}

/*
 * How much longer cpu_merge takes here than its curve says.  Without vector instructions
 * it takes 7 to 17 times as long on an AMD EPYC, and cpu_radix hardly longer.
 */
double
model_merge_times(void)
{
	return sort_isa() == SORT_ISA_PORTABLE ? 10 : 1;
}

/* Nanoseconds per record of cpu_radix. */
static double
radix_ns(SortRecFormat format, int bits, size_t n)
{
	static const struct
	{
		int			bits;
		int			curve;
	}			widths[] = {
		{8, MODEL_RADIX_8}, {12, MODEL_RADIX_12}, {16, MODEL_RADIX_16},
		{24, MODEL_RADIX_24}, {32, MODEL_RADIX + SORT_REC_PACKED}
	};
	int			i = 1;

	if (format != SORT_REC_PACKED || bits >= 32)
		return curve_ns(MODEL_RADIX + format, n);
	if (bits <= 8)
		return curve_ns(MODEL_RADIX_8, n);
	while (bits > widths[i].bits)
		i++;
	return between_widths(widths[i - 1].curve, widths[i].curve, bits - widths[i - 1].bits,
						  widths[i].bits - widths[i - 1].bits, n);
}

/*
 * Nanoseconds per record of cpu_counting.  D distinct keys touch D cells of the table, so
 * they cost as much as keys of log2(D) bits.
 */
static double
counting_ns(int bits, uint64_t distinct, size_t n)
{
	double		used = bits;
	int			i;

	if (distinct != 0)
		used = fmin(used, rough_log2(distinct));
	if (used <= 8)
		return curve_ns(MODEL_COUNTING_8, n);
	i = (int) (used - 8) / 4;
	if (i >= 4)
		return curve_ns(MODEL_COUNTING_24, n);
	return between_widths(MODEL_COUNTING_8 + i, MODEL_COUNTING_8 + i + 1, used - 8 - 4 * i, 4, n);
}

/*
 * Extra time per record of a scattering kernel on nearly sorted input.  Neighbours
 * with equal digits update the same counter one after the other, so each waits for
 * its predecessor's store.  Out-of-order execution hides this for short runs of
 * equal digits: the cost begins at runs of 2^short_run records and is full at
 * 2^long_run.
 */
static double
chain_ns(const RouteFacts *facts, double log2_run, int short_run, int long_run)
{
	double		share = (log2_run - short_run) / (long_run - short_run);

	if (!facts->order_known || facts->scattered ||
		facts->descents > facts->n / PRESORTED_PER_DESCENT)
		return 0;
	return route_model->scalar[MODEL_CHAIN_NS] * fmin(1, fmax(0, share));
}

/* Nanoseconds of presorted for all records. */
static double
presorted_ns(const RouteFacts *facts)
{
	size_t		n = facts->n;
	SortRecFormat format = facts->format;

	if (facts->descents == 0)
		return 0;
	if (facts->ascents == 0)
		return n * curve_ns(MODEL_REVERSED + format, n);
	if (facts->descents < PRESORTED_MAX_RUNS)
		return n * curve_ns(MODEL_RUNS + format, n) * (facts->descents > 1 ? 2 : 1);
	/* the kernel would search for records out of place and abandon the search */
	if (facts->scattered)
		return HUGE_VAL;
	return n * curve_ns(MODEL_NEARLY + format, n) + facts->descents * route_model->scalar[MODEL_DROP_NS];
}

/* Microseconds of a kernel that takes ns alone, by a team of this size (Amdahl's law). */
static double
team_us(double ns, int team)
{
	double		share = route_model->scalar[MODEL_TEAM_SHARE];

	ns *= 1 - share + share / team;
	return (ns + START_NS) / 1000;
}

/* Size of the team that a kernel uses. */
static int
team_size(const RouteFacts *facts)
{
	return facts->n >= SORT_TEAM_MIN_RECORDS && facts->threads > 1 ? facts->threads : 1;
}

static double
cpu_radix_us(const RouteFacts *facts)
{
	const size_t n = facts->n;
	double		ns = radix_ns(facts->format, facts->end_bit - facts->begin_bit, n);

	/* only the leading digits repeat: the cost begins late and is soon full */
	ns += chain_ns(facts, rough_log2(n), 11, 16);
	return team_us(n * ns, team_size(facts));
}

static double
cpu_merge_us(const RouteFacts *facts)
{
	double		ns = curve_ns(MODEL_MERGE + facts->format, facts->n) * model_merge_times();

	return team_us(facts->n * ns, team_size(facts));
}

static double
cpu_counting_us(const RouteFacts *facts)
{
	const size_t n = facts->n;
	const int	bits = facts->end_bit - facts->begin_bit;
	int			team = team_size(facts);
	double		ns;

	ns = n * counting_ns(bits, facts->distinct, n) *
		sort_rec_size(facts->format) / sort_rec_size(SORT_REC_PACKED) +
		ldexp(route_model->scalar[MODEL_CELL_NS], bits);
	ns += n * chain_ns(facts, rough_log2(n) - bits, 2, 9);
	/* each member has a table of its own, so a team needs enough records */
	return team_us(ns, ldexp(team, bits) > n ? 1 : team);
}

double
model_predict_us(const Algorithm *algorithm, const RouteFacts *facts)
{
	switch (algorithm->id)
	{
		case ALGORITHM_CPU_RADIX:
			return cpu_radix_us(facts);
		case ALGORITHM_CPU_MERGE:
			return cpu_merge_us(facts);
		case ALGORITHM_CPU_COUNTING:
			return cpu_counting_us(facts);
		case ALGORITHM_PRESORTED:
			return team_us(presorted_ns(facts), 1);
		default:
			return HUGE_VAL;
	}
}

/* ------------------------------------------------------------------------
 * Built-in constants
 *
 * Nanoseconds at the sample points.  "bench/route_grid --calibrate --constants"
 * prints them; "bench/route_grid --log2-rows 25-25" measures 2^25 records, which
 * exceed the calibration's workspace.  The machine is an AMD EPYC Zen 5 (1 MB L2,
 * 32 MB L3, AVX-512), one core.  2^27 records are extrapolated.
 * ------------------------------------------------------------------------
 */

const RouteModel route_model_builtin = {
	.curve = {
		[0] = {5.21, 3.09, 2.78, 2.67, 2.56, 2.3, 3.62, 4.05, 4.16, 3.89, 5.5, 5.78},	/* radix_packed */
		[1] = {4.91, 3.7, 2.96, 3.34, 2.92, 2.89, 4.29, 5.72, 5.98, 6.52, 9.2, 9.66},	/* radix_64 */
		[2] = {5.66, 4.85, 4.32, 4.37, 4.26, 4.42, 6.13, 8.42, 8.61, 10, 10.6, 11.1},	/* radix_128 */
		[3] = {4, 2.18, 1.18, 0.959, 0.967, 0.876, 0.971, 3.75, 1.77, 1.59, 4.5, 4.73}, /* radix_8_bits */
		[4] = {5.1, 2.5, 2.1, 2, 1.95, 1.95, 2.1, 3.4, 2.8, 3.3, 4.8, 5},	/* radix_12_bits */
		[5] = {5.2, 3.16, 2.02, 1.84, 1.53, 1.57, 1.76, 2.41, 2.63, 3.05, 4.8, 5.04},	/* radix_16_bits */
		[6] = {5.39, 3.12, 2.71, 2.67, 1.98, 2.32, 3.08, 3.16, 3.28, 3.64, 5.4, 5.67},	/* radix_24_bits */
		[7] = {0.897, 0.897, 0.932, 0.932, 0.902, 0.825, 0.917, 1.15, 1.52, 1.47, 3.6, 3.78},	/* counting_8_bits */
		[8] = {0.897, 0.897, 0.897, 0.897, 0.896, 0.848, 0.965, 3.44, 3.52, 3.6, 4.6, 4.83},	/* counting_12_bits */
		[9] = {1.07, 1.07, 1.07, 1.07, 1.07, 1.02, 1.33, 2.5, 4.54, 4.93, 5.8, 6.09},	/* counting_16_bits */
		[10] = {3.92, 3.92, 3.92, 3.92, 3.92, 3.47, 3.47, 3.47, 5.46, 6.48, 9, 9.45},	/* counting_20_bits */
		[11] = {17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17.9},	/* counting_24_bits */
		[12] = {2.94, 1.8, 2.72, 3.65, 4.73, 5.59, 6.64, 8.25, 10.1, 11.4, 13.9, 14.6}, /* merge_packed */
		[13] = {5.04, 4.17, 4.51, 5.2, 6.16, 7.29, 8.76, 13.4, 17.2, 19.9, 22.2, 23.3}, /* merge_64 */
		[14] = {5.39, 5.57, 5.31, 6.36, 7.41, 8.4, 9.8, 17.3, 20.6, 23.2, 27, 28.4},	/* merge_128 */
		/* reversed_packed */
		[15] = {1.22, 0.861, 0.795, 0.716, 0.691, 0.624, 0.627, 0.649, 0.675, 0.723, 0.795, 0.811},
		[16] = {1.44, 1.16, 1.12, 1.13, 1.04, 0.747, 0.765, 0.789, 1, 1.09, 1.16, 1.2}, /* reversed_64 */
		[17] = {1.52, 1.3, 1.08, 1.02, 0.989, 0.939, 0.969, 1.03, 1.44, 1.86, 1.94, 1.99},	/* reversed_128 */
		[18] = {1.66, 1.43, 1.16, 1.05, 0.94, 0.758, 0.778, 0.811, 0.875, 0.885, 1.2, 1.21},	/* runs_packed */
		[19] = {1.79, 1.29, 1.18, 1.1, 0.995, 0.775, 0.798, 1.05, 1.32, 1.39, 1.51, 1.55},	/* runs_64 */
		[20] = {2.01, 1.54, 1.41, 1.36, 1.26, 1.18, 1.22, 1.61, 2.11, 2.54, 2.62, 2.66},	/* runs_128 */
		[21] = {1.66, 1.66, 1.66, 1.66, 1.52, 1.25, 1.29, 1.44, 1.57, 1.62, 1.67, 1.69},	/* nearly_packed */
		[22] = {2.17, 2.17, 2.17, 2.17, 2.25, 1.91, 1.97, 2.15, 2.38, 2.68, 2.8, 2.86}, /* nearly_64 */
		[23] = {2.67, 2.67, 2.67, 2.67, 2.81, 2.43, 2.53, 2.85, 3.08, 3.7, 3.82, 3.89}, /* nearly_128 */
	},
	.scalar = {0.65, 2.7, 30, 0.85}
};
