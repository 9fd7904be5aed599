/*
 * model.c
 *	  Predicted times of the kernels, after the analytical models of the papers.
 *
 * Satish et al. 2010 (sections 4.3.2 and 5.2.1) write a radix sort's time as
 * passes times records times (operations + bytes / bandwidth), and a merge
 * sort's as one term per doubling of the runs until they fill the cache plus
 * two trips through memory; Abdel-hafeez et al. 2018 (section 4) count records
 * plus the key range for a counting sort.  We keep these forms and measure the
 * terms:
 *
 *	cpu_radix		n * radix(n, bits): passes times a pass, and as the kernel
 *					sorts no more bits than n records need, wide keys of one
 *					format cost the same; narrow ones have curves of their own
 *	cpu_merge		n * merge(n)
 *	cpu_counting	n * counting(n, bits) + range * cell
 *	both			n * chain, if the input is nearly in order
 *	presorted		nothing if sorted; n * reversed(n); passes * n * runs(n) for a
 *					few runs; otherwise n * nearly(n) + descents * drop
 *
 * Each term but cell and drop is a curve over n, not a number, because on
 * today's machines a byte from the L1 cache and a byte from memory differ by
 * more than operations do, and because a kernel changes its method with the
 * size.
 */
#include "route/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route/machine.h"
#include "route/scattered.h"

const RouteModel *route_model = &route_model_builtin;

/* Changes with the meaning of the curves, so that old files are not used. */
#define MODEL_TEXT_HEAD		"gpusort model 1\n"

/* Calling a kernel. */
#define START_NS			30

/* Kernels wake a team for so many records. */
#define TEAM_MIN_ROWS		65536

/*
 * The binary logarithm, exact at powers of two and linear between them: at most
 * 0.09 off, which no curve can tell.
 */
static inline double
rough_log2(size_t n)
{
	int			floor = 63 - __builtin_clzll((unsigned long long) n | 1);

	return floor + ((double) n / (double) ((size_t) 1 << floor) - 1.0);
}

double
model_curve_at(const double *curve, size_t n)
{
	double		x = (rough_log2(n) - model_knot_log2(0)) /
		(model_knot_log2(1) - model_knot_log2(0));
	int			knot;

	if (n == 0 || x <= 0)
		return curve[0];
	if (x >= MODEL_KNOTS - 1)
		return curve[MODEL_KNOTS - 1];
	knot = (int) x;
	return curve[knot] + (x - knot) * (curve[knot + 1] - curve[knot]);
}

/* Between curves of a kernel for key widths that are step bits apart. */
static double
between_widths(const RouteModel *model, int below, int above, double past, int step,
			   size_t n)
{
	double		a = model_curve_at(model->curve[below], n);
	double		b = model_curve_at(model->curve[above], n);

	return a + (b - a) * past / step;
}

static double
radix_ns(const RouteModel *model, SortRecFormat format, int bits, size_t n)
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
		return model_curve_at(model->curve[MODEL_RADIX + format], n);
	if (bits <= 8)
		return model_curve_at(model->curve[MODEL_RADIX_8], n);
	while (bits > widths[i].bits)
		i++;
	return between_widths(model, widths[i - 1].curve, widths[i].curve,
						  bits - widths[i - 1].bits,
						  widths[i].bits - widths[i - 1].bits, n);
}

/*
 * Few distinct keys use few cells of the table, however large it is: they cost
 * what keys of fewer bits do.
 */
static double
counting_ns(const RouteModel *model, int bits, uint64_t distinct, size_t n)
{
	double		used = bits;
	int			i;

	if (distinct != 0)
		used = fmin(used, rough_log2(distinct));
	if (used <= 8)
		return model_curve_at(model->curve[MODEL_COUNTING_8], n);
	i = (int) (used - 8) / 4;
	if (i >= 4)
		return model_curve_at(model->curve[MODEL_COUNTING_24], n);
	return between_widths(model, MODEL_COUNTING_8 + i, MODEL_COUNTING_8 + i + 1,
						  used - 8 - 4 * i, 4, n);
}

/*
 * What order adds per record to a kernel that scatters.  Neighbours with an
 * equal digit go to the same place one after the other, and each waits for the
 * count that the one before has just written.  The processor hides that while
 * what it has in flight spans several such runs, so it is felt from a run length
 * of 2^short_run records on, and fully from 2^long_run.
 */
static double
chain_ns(const RouteModel *model, const RouteFacts *facts, double log2_run,
		 int short_run, int long_run)
{
	double		felt = (log2_run - short_run) / (long_run - short_run);

	if (!facts->order_known || facts->scattered ||
		facts->descents > facts->n / ORDERED_PER_DESCENT)
		return 0;
	return model->scalar[MODEL_CHAIN_NS] * fmin(1, fmax(0, felt));
}

static double
presorted_ns(const RouteModel *model, const RouteFacts *facts)
{
	size_t		n = facts->n;
	SortRecFormat format = facts->format;

	if (facts->descents == 0)
		return 0;
	if (facts->ascents == 0)
		return n * model_curve_at(model->curve[MODEL_REVERSED + format], n);
	if (facts->descents < 4)
		return n * model_curve_at(model->curve[MODEL_RUNS + format], n) *
			(facts->descents > 1 ? 2 : 1);
	/* it would look for what is out of place, and give up */
	if (facts->scattered)
		return HUGE_VAL;
	return n * model_curve_at(model->curve[MODEL_NEARLY + format], n) +
		facts->descents * model->scalar[MODEL_DROP_NS];
}

/* What a team of this size, or one alone, makes of a kernel's nanoseconds: microseconds. */
static double
team_us(const RouteModel *model, double ns, int team)
{
	double		share = model->scalar[MODEL_TEAM_SHARE];

	ns *= 1 - share + share / team;
	return (ns + START_NS) / 1000;
}

static int
team_size(const RouteFacts *facts)
{
	return facts->n >= TEAM_MIN_ROWS && facts->threads > 1 ? facts->threads : 1;
}

static double
cpu_radix_us(const RouteModel *model, const RouteFacts *facts)
{
	const size_t n = facts->n;
	double		ns = radix_ns(model, facts->format, facts->end_bit - facts->begin_bit, n);

	/* of several digits only the leading ones repeat: late, but soon fully */
	ns += chain_ns(model, facts, rough_log2(n), 11, 16);
	return team_us(model, n * ns, team_size(facts));
}

static double
cpu_merge_us(const RouteModel *model, const RouteFacts *facts)
{
	double		ns = model_curve_at(model->curve[MODEL_MERGE + facts->format], facts->n);

	return team_us(model, facts->n * ns, team_size(facts));
}

static double
cpu_counting_us(const RouteModel *model, const RouteFacts *facts)
{
	const size_t n = facts->n;
	const int	bits = facts->end_bit - facts->begin_bit;
	int			team = team_size(facts);
	double		ns;

	ns = n * counting_ns(model, bits, facts->distinct, n) *
		sort_rec_size(facts->format) / sort_rec_size(SORT_REC_PACKED) +
		ldexp(model->scalar[MODEL_CELL_NS], bits);
	ns += n * chain_ns(model, facts, rough_log2(n) - bits, 2, 9);
	/* a table for each member must be worth it */
	return team_us(model, ns, ldexp(team, bits) > n ? 1 : team);
}

static double
presorted_us(const RouteModel *model, const RouteFacts *facts)
{
	return team_us(model, presorted_ns(model, facts), 1);
}

/* gpu_predict_us() knows. */
static double
library_us(const RouteModel *model, const RouteFacts *facts)
{
	(void) model;
	(void) facts;
	return HUGE_VAL;
}

double
model_predict_us(const RouteModel *model, const Algorithm *algorithm,
				 const RouteFacts *facts)
{
#define KERNELS(id, name)	[ALGORITHM_##id] = name##_us,
#define LIBRARYS(id, name)	[ALGORITHM_##id] = library_us,
	static double (*const predict[ALGORITHM_COUNT]) (const RouteModel *, const RouteFacts *) = {
		ALGORITHMS(KERNELS, LIBRARYS)
	};

	return predict[algorithm->id] (model, facts);
}

const char *const model_curve_names[MODEL_CURVES] = {
	"radix_packed", "radix_64", "radix_128",
	"radix_8_bits", "radix_12_bits", "radix_16_bits",
	"radix_24_bits",
	"counting_8_bits", "counting_12_bits", "counting_16_bits",
	"counting_20_bits", "counting_24_bits",
	"merge_packed", "merge_64", "merge_128",
	"reversed_packed", "reversed_64", "reversed_128",
	"runs_packed", "runs_64", "runs_128",
	"nearly_packed", "nearly_64", "nearly_128"
};

const char *const model_scalar_names[MODEL_SCALARS] = {
	"counting_cell", "counting_chain", "presorted_drop", "team_share"
};

size_t
model_format(const RouteModel *model, char text[MODEL_TEXT_SIZE])
{
	char		machine[MACHINE_NAME_SIZE];
	size_t		len;

	machine_name(machine);
	len = snprintf(text, MODEL_TEXT_SIZE, MODEL_TEXT_HEAD "%s\n", machine);
	for (int c = 0; c < MODEL_CURVES; c++)
	{
		len += snprintf(text + len, MODEL_TEXT_SIZE - len, "%s", model_curve_names[c]);
		for (int k = 0; k < MODEL_KNOTS; k++)
			len += snprintf(text + len, MODEL_TEXT_SIZE - len, " %.6g",
							model->curve[c][k]);
		len += snprintf(text + len, MODEL_TEXT_SIZE - len, "\n");
	}
	for (int i = 0; i < MODEL_SCALARS; i++)
		len += snprintf(text + len, MODEL_TEXT_SIZE - len, "%s %.6g\n",
						model_scalar_names[i], model->scalar[i]);
	return len;
}

/* Moves *text behind this prefix; false if it is not there. */
static bool
skip_prefix(const char **text, const char *prefix)
{
	size_t		len = strlen(prefix);

	if (strncmp(*text, prefix, len) != 0)
		return false;
	*text += len;
	return true;
}

/* Moves *text behind a line of a name and n values; false if it is not there. */
static bool
parse_line(const char **text, const char *name, double *values, int n)
{
	if (!skip_prefix(text, name))
		return false;
	for (int i = 0; i < n; i++)
	{
		char	   *end;
		double		v = strtod(*text, &end);

		/* written so that a NaN is refused, too */
		if (end == *text || !(v >= 0 && v <= MODEL_MAX_NS))
			return false;
		values[i] = v;
		*text = end;
	}
	return skip_prefix(text, "\n");
}

ModelTextStatus
model_parse(const char *text, RouteModel *model)
{
	char		machine[MACHINE_NAME_SIZE];
	RouteModel	parsed;

	if (!skip_prefix(&text, MODEL_TEXT_HEAD))
		return MODEL_TEXT_BAD;
	machine_name(machine);
	if (!skip_prefix(&text, machine) || !skip_prefix(&text, "\n"))
		return MODEL_TEXT_OTHER_MACHINE;

	for (int c = 0; c < MODEL_CURVES; c++)
		if (!parse_line(&text, model_curve_names[c], parsed.curve[c], MODEL_KNOTS))
			return MODEL_TEXT_BAD;
	for (int i = 0; i < MODEL_SCALARS; i++)
		if (!parse_line(&text, model_scalar_names[i], &parsed.scalar[i], 1))
			return MODEL_TEXT_BAD;
	if (parsed.scalar[MODEL_TEAM_SHARE] > 1)
		return MODEL_TEXT_BAD;
	*model = parsed;
	return MODEL_TEXT_OK;
}
