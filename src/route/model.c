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
 *	cpu_counting	n * (counting(n) + table(range)) + range * cell
 *	presorted		n * sorted(n) or n * reversed(n)
 *
 * Each term is a curve over n (or over the range), not a number, because on
 * today's machines a byte from the L1 cache and a byte from memory differ by
 * more than operations do, and because a kernel changes its method with the
 * size.
 */
#include "route/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route/machine.h"

const RouteModel *route_model = &route_model_builtin;

/* Changes with the meaning of the curves, so that old files are not used. */
#define MODEL_TEXT_HEAD		"gpusort model 1\n"

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

double
model_predict_us(const RouteModel *model, const SortKernel *kernel,
				 const RouteFacts *facts)
{
	const size_t n = facts->n;
	const int	bits = facts->end_bit - facts->begin_bit;
	const SortRecFormat format = facts->format;
	double		ns;

#define AT(c, size) model_curve_at(model->curve[c], size)
	if (strcmp(kernel->name, "cpu_radix") == 0)
	{
		if (format != SORT_REC_PACKED || bits >= 32)
			ns = n * AT(MODEL_RADIX + format, n);
		else if (bits <= 8)
			ns = n * AT(MODEL_RADIX_8, n);
		else
		{
			int			lower = bits / 8 - 1;	/* curves 8, 16, 24, then 32 */
			double		below = AT(MODEL_RADIX_8 + lower, n);
			double		above = AT(lower == 2 ? MODEL_RADIX : MODEL_RADIX_8 + lower + 1, n);

			ns = n * (below + (above - below) * (bits % 8) / 8);
		}
	}
	else if (strcmp(kernel->name, "cpu_merge") == 0)
		ns = n * AT(MODEL_MERGE + format, n);
	else if (strcmp(kernel->name, "cpu_counting") == 0)
	{
		size_t		cells = (size_t) 1 << (bits < 62 ? bits : 62);

		ns = n * (AT(MODEL_COUNTING + format, n) + AT(MODEL_TABLE, cells)) +
			cells * AT(MODEL_CELL, cells);
	}
	else if (strcmp(kernel->name, "presorted") == 0)
		ns = n * AT((facts->descents == 0 ? MODEL_SORTED : MODEL_REVERSED) + format, n);
	else
		ns = n * MODEL_MAX_NS;	/* not modelled: only when nothing else can */
#undef AT
	return ns / 1000;
}

const char *const model_curve_names[MODEL_CURVES] = {
	"radix_packed", "radix_64", "radix_128",
	"radix_8_bits", "radix_16_bits", "radix_24_bits",
	"merge_packed", "merge_64", "merge_128",
	"counting_packed", "counting_64", "counting_128",
	"sorted_packed", "sorted_64", "sorted_128",
	"reversed_packed", "reversed_64", "reversed_128",
	"counting_table", "counting_cell"
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
	{
		if (!skip_prefix(&text, model_curve_names[c]))
			return MODEL_TEXT_BAD;
		for (int k = 0; k < MODEL_KNOTS; k++)
		{
			char	   *end;
			double		v = strtod(text, &end);

			/* written so that a NaN is refused, too */
			if (end == text || !(v >= 0 && v <= MODEL_MAX_NS))
				return MODEL_TEXT_BAD;
			parsed.curve[c][k] = v;
			text = end;
		}
		if (!skip_prefix(&text, "\n"))
			return MODEL_TEXT_BAD;
	}
	*model = parsed;
	return MODEL_TEXT_OK;
}
