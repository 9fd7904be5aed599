/*
 * calibrate.c
 *	  Measures the constants of the router's model on this machine.
 *
 * Every kernel sorts small samples (sample.h) of each record format at the sizes
 * of the curves' knots; a curve's value is the least time of some repetitions,
 * because disturbances only ever add.  Repetitions stop after a fixed time, so
 * calibration takes seconds whatever the machine.
 *
 * Sizes that the workspace cannot hold are not measured: from there on a curve
 * keeps the course of the built-in one, scaled to meet the last measured value.
 */
#include "route/model.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "route/sample.h"

/* Time for one measurement's repetitions, and their least number. */
#define MEASURE_US		15000.0
#define MEASURE_REPS	3

/* Small inputs are sorted many at a time: the clock is not fine enough. */
#define MEASURE_RECORDS	4096

#define SEED			1

/* The key width at which each record format is measured. */
static const int format_bits[] = {
	[SORT_REC_PACKED] = 32,
	[SORT_REC_64] = 64,
	[SORT_REC_128] = 128
};

/* A curve's value that was not measured. */
#define UNMEASURED		(-1.0)

typedef struct Calibration
{
	char	   *recs;
	char	   *scratch;
	size_t		room;			/* bytes of each of them */
	bool		(*interrupted) (void *arg);
	void	   *interrupted_arg;
	SortStatus	status;			/* SORT_OK until something stopped us */
} Calibration;

static double
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

/*
 * Nanoseconds per record that the named kernel takes for such an input;
 * UNMEASURED if it does not take it, or the workspace is too small, or we are to
 * stop.
 */
static double
measure(Calibration *cal, const char *name, size_t n, int key_bits,
		SampleOrder order)
{
	const SortKernel *kernel = sort_kernel_by_name(name);
	SortRecFormat format = sample_format(key_bits);
	size_t		stride = (n * sort_rec_size(format) + 63) & ~(size_t) 63;
	size_t		copies = n < MEASURE_RECORDS ? MEASURE_RECORDS / n : 1;
	double		total = 0;
	double		best = 0;
	RouteFacts	facts;
	const char *why;
	SortJob		job = {0};

	job.format = format;
	job.n = n;
	job.begin_bit = format == SORT_REC_PACKED ? 32 : 0;
	job.end_bit = job.begin_bit + key_bits;
	job.rids_ascending = true;
	job.scratch = cal->scratch;
	job.interrupted = cal->interrupted;
	job.interrupted_arg = cal->interrupted_arg;
	if (kernel == NULL ||
		(kernel->formats & (1u << format)) == 0 ||
		stride * copies > cal->room ||
		!kernel->applies(&job, &why) ||
		kernel->scratch_bytes(&job) > cal->room)
		return UNMEASURED;

	for (int rep = 0; rep < MEASURE_REPS || total < MEASURE_US; rep++)
	{
		double		us;

		if (cal->interrupted != NULL && cal->interrupted(cal->interrupted_arg))
			cal->status = SORT_STOPPED;
		if (cal->status != SORT_OK)
			return UNMEASURED;

		for (size_t c = 0; c < copies; c++)
			sample_fill(cal->recs + c * stride, n, key_bits, order, SEED + c, &facts);
		us = now_us();
		for (size_t c = 0; c < copies && cal->status == SORT_OK; c++)
		{
			job.recs = cal->recs + c * stride;
			cal->status = kernel->run(&job);
		}
		us = now_us() - us;
		total += us;
		if (rep == 0 || us < best)
			best = us;
	}
	return best * 1000 / (n * copies);
}

static void
calibrate_knot(Calibration *cal, RouteModel *model, int knot)
{
	const size_t n = (size_t) 1 << model_knot_log2(knot);

#define MEASURE(c, name, bits, order) \
	(model->curve[c][knot] = measure(cal, name, n, bits, order))
	for (int format = 0; format <= SORT_REC_128; format++)
	{
		int			bits = format_bits[format];

		MEASURE(MODEL_RADIX + format, "cpu_radix", bits, SAMPLE_RANDOM);
		MEASURE(MODEL_MERGE + format, "cpu_merge", bits, SAMPLE_RANDOM);
		MEASURE(MODEL_SORTED + format, "presorted", bits, SAMPLE_SORTED);
		MEASURE(MODEL_REVERSED + format, "presorted", bits, SAMPLE_REVERSED);
	}
	MEASURE(MODEL_RADIX_8, "cpu_radix", 8, SAMPLE_RANDOM);
	MEASURE(MODEL_RADIX_16, "cpu_radix", 16, SAMPLE_RANDOM);
	MEASURE(MODEL_RADIX_24, "cpu_radix", 24, SAMPLE_RANDOM);
#undef MEASURE
}

/*
 * Fills in what was not measured: the built-in curve, scaled to meet the last
 * measured value before it.  The scale is bounded, because two small values of a
 * term that hardly matters may differ by any factor.
 */
static void
extrapolate(RouteModel *model)
{
	for (int c = 0; c < MODEL_CURVES; c++)
	{
		const double *builtin = route_model_builtin.curve[c];
		double	   *curve = model->curve[c];
		double		scale = 1;

		for (int k = 0; k < MODEL_KNOTS; k++)
		{
			if (curve[k] == UNMEASURED)
				curve[k] = builtin[k] * scale;
			else if (builtin[k] > 0)
				scale = fmax(0.5, fmin(2, curve[k] / builtin[k]));
		}
	}
}

SortStatus
model_calibrate(RouteModel *model, void *workspace, size_t size,
				bool (*interrupted) (void *), void *arg)
{
	Calibration cal = {0};
	RouteModel	measured;

	cal.room = size / 2 & ~(size_t) 63;
	cal.recs = workspace;
	cal.scratch = cal.recs + cal.room;
	cal.interrupted = interrupted;
	cal.interrupted_arg = arg;
	cal.status = SORT_OK;

	/*
	 * Sorts find their memory in huge pages where there are any, and the first
	 * touch is not the kernels' time.
	 */
#ifdef MADV_HUGEPAGE
	{
		const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
		uintptr_t	start = ((uintptr_t) workspace + page - 1) & ~(page - 1);
		uintptr_t	end = ((uintptr_t) workspace + size) & ~(page - 1);

		if (end > start)
			(void) madvise((void *) start, end - start, MADV_HUGEPAGE);
	}
#endif
	memset(workspace, 0, size);

	for (int c = 0; c < MODEL_CURVES; c++)
		for (int k = 0; k < MODEL_KNOTS; k++)
			measured.curve[c][k] = UNMEASURED;
	for (int k = 0; k < MODEL_KNOTS; k++)
		calibrate_knot(&cal, &measured, k);
	if (cal.status != SORT_OK)
		return cal.status;

	extrapolate(&measured);
	*model = measured;
	return SORT_OK;
}
