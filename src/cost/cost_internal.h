/*
 * cost_internal.h
 *	  Declarations that files of the cost room share, and their unit tests use.
 *
 * Only store.c includes server headers.
 */
#ifndef GPUSORT_COST_COST_INTERNAL_H
#define GPUSORT_COST_COST_INTERNAL_H

#include "cost/cost.h"

/* ------------------------------------------------------------------------
 * CPU model (cpu_model.c)
 * ------------------------------------------------------------------------
 */

/* The CPU kernel for the input. */
extern const Algorithm *cpu_choose(const RouteFacts *facts);

/* Predicted microseconds of a CPU algorithm, without its correction factor; 0: not modelled. */
extern double cpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts);

/* ------------------------------------------------------------------------
 * GPU model (gpu_model.c)
 * ------------------------------------------------------------------------
 */

/* The logarithm of the sort's factor. */
extern double gpu_sort_factor(const GpuFactors *factors, int key_width, double rows);

/* ------------------------------------------------------------------------
 * Samples of keys (key_sample.c)
 * ------------------------------------------------------------------------
 */

#define GPU_SAMPLE_PAIRS	512

/* Scratch of a sample's sort by cpu_radix: a copy, one byte per record and a reserve. */
typedef struct GpuSampleScratch
{
	SortRec64	recs[2 * GPU_SAMPLE_PAIRS * 5 / 4] __attribute__((aligned(64)));
} GpuSampleScratch;

/* ------------------------------------------------------------------------
 * Correction factors (factor.c)
 *
 * The functions are pure; the caller passes the time.
 * ------------------------------------------------------------------------
 */

static inline double
clamp_double(double x, double low, double high)
{
	return fmin(fmax(x, low), high);
}

/* Range of a correction factor. */
#define FACTOR_MAX			128.0
#define FACTOR_MIN			0.125

/* Learning rule of a kind of factor. */
typedef struct FactorRule
{
	double		first_share;	/* of its deviation, added by the first job */
	double		least_share;	/* lower limit of the share of later jobs */
	double		off_above;		/* upper clamp of observed / expected time */
	double		off_below;		/* lower clamp of observed / expected time */

	/* half-life of the part above the measurement, in seconds without a job */
	double		fade_s;
} FactorRule;

static inline bool
factor_is_known(const Factor *factor)
{
	return factor->is_measured || factor->jobs > 0;
}

/* Takes in a measurement: the initial value, or averaged with learned jobs. */
extern void factor_measured(Factor *factor, double log_measured);

/* The logarithm of the factor at time now, after decay. */
extern double factor_now(const Factor *factor, int64_t now, const FactorRule *rule);

/*
 * Learns from a job that observed log_observed.  The first observation of an
 * unknown factor (known is false) is taken in full.
 */
extern void factor_learn(Factor *factor, bool known, double log_observed, int64_t now,
						 const FactorRule *rule);

/* Learns from a job of this many rows, for an array of factors by size. */
extern void factor_sizes_learn(Factor *sizes, double rows, double log_observed, int64_t now,
							   const FactorRule *rule);

/* Index of the known size nearest to this one; -1: none is known. */
extern int	factor_known_size(const Factor *sizes, int size);

/* Sets *first to the size below this number of rows; returns the fraction beyond it. */
extern double factor_size_of(double rows, int *first);

/*
 * Factor of the CPU model.  Only cpu_radix teaches it, because the model predicts that
 * kernel.
 *
 * Observations are wall-clock times, because they include every cause of delay:
 * oversubscription, cgroup limits, hyperthreads, memory bandwidth.  Load passes, so
 * the factor decays quickly.
 */

/* Takes in a measurement of the processor (CpuMeasured). */
extern void cpu_learn_measured(Factor *cpu, double sort_us);

/* Learns from a kernel that sorted facts->n records in took_us of wall-clock time. */
extern void cpu_learn_sort(Factor *cpu, const Algorithm *algorithm, const RouteFacts *facts,
						   double took_us, int64_t now);

/* RouteFacts.cpu_factor. */
extern double cpu_learn_factor(const Factor *cpu, int64_t now);

/* Upper limit of GpuLearned.load. */
#define GPU_LOAD_MAX		4.0

/* Initialises to "nothing learned". */
extern void gpu_learn_begin(GpuLearned *learned);

/* Takes in a measurement of the device. */
extern void gpu_learn_measured(GpuLearned *learned, const GpusortCosts *costs,
							   const DeviceMeasured *measured);

/*
 * Observed times of a job; 0: unknown.  Copies and the sort are timed by the
 * device's clock.
 */
typedef struct GpuJobTimes
{
	double		hand_over_us;	/* lower limit of the hand-over */
	double		hand_over_most_us;	/* upper limit of the hand-over */
	double		up_bytes;		/* bytes of the timed copy to the device */
	double		up_us;
	double		down_bytes;		/* bytes of the timed copy back */
	double		down_us;
	double		sort_us;
	double		others;			/* concurrent jobs on the device */
} GpuJobTimes;

/* Forgets what jobs taught: what was measured stays. */
extern void gpu_forget_jobs(GpuLearned *learned);

/* Learns from a finished job of facts->n rows, relative to facts->gpu.costs. */
extern void gpu_learn_job(GpuLearned *learned, const Algorithm *algorithm,
						  const RouteFacts *facts, const GpuJobTimes *times, int64_t now);

#endif							/* GPUSORT_COST_COST_INTERNAL_H */
