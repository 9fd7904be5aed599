/*
 * cost.h
 *	  The router: its facts, its models and its decision.
 *
 * The router is a pure function of the facts and of the model's constants
 * (model.h).  It allocates nothing, reads no setting and no clock, and includes
 * no server header, so that tests can call it with tables of facts.
 *
 * Of the algorithms that can sort the problem, a GPU's included if facts->gpu says how it
 * would get the keys, it takes the one with the least predicted time; a GPU's
 * time (gpu_model.h) contains the transfers.  Inputs below ROUTE_TINY_ROWS are not
 * worth a prediction: of the two kernels that come into question one is picked by two
 * constants.  For the same reason the words that explain a decision are only written on
 * demand: gpusort_route_reason().
 *
 * A caller sorts like this:
 *
 *		RouteFacts	facts = {0};
 *		RouteDecision decision;
 *
 *		facts.n = n;
 *		facts.format = SORT_REC_PACKED;		... and what else is known
 *		gpusort_route_sample(&facts, recs);
 *		gpusort_route_decide(&facts, &decision);
 *		gpusort_route_problem(&facts, &problem);
 *		problem.recs = recs;			... and scratch
 *		decision.algorithm->kernel->run(&problem);		... unless it is a GPU's
 *
 * A fact that is not known is zero.
 */
#ifndef GPUSORT_COST_COST_H
#define GPUSORT_COST_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../cuda/gpusort_abi.h"
#include "kernel/algorithm.h"
#include "kernel/sort_kernel.h"
#include "service/device_state.h"

/* Below this many records the choice of algorithm is not modelled. */
#define ROUTE_TINY_ROWS		128

/* Room for the words of a reason. */
#define ROUTE_REASON_SIZE	256

/* The keys as a GPU would be given them. */
typedef struct RouteGpu
{
	int			key_width;		/* 32, 64, 128; 0: GPUs are out of the question, */
	const char *why_not;		/* for this reason, if the device is ready */
	int			key_bits;		/* of them, that order, from bit 0 */
	bool		keys_only;		/* no rids go along and come back */
	bool		keys_back;		/* keys come back */
	bool		distinct;		/* no two keys are equal */
	GpusortDistribution key_distribution;		/* gpu_sample.h */
	unsigned	algorithms;		/* that the library has: a bit per AlgorithmId */
	const GpusortCosts *costs;	/* of its sorts; needed with key_width */
	const struct GpuFactors *factors;	/* gpu_learn.h; NULL: the costs are right */
} RouteGpu;

typedef struct RouteFacts
{
	/* the problem, as in SortProblem: these four must be set */
	size_t		n;				/* records */
	SortRecFormat format;
	int			begin_bit;		/* key bits that order, after narrowing: */
	int			end_bit;		/* [begin_bit, end_bit) */
	bool		rids_ascending; /* as in SortProblem */

	/* the keys; 0 is "not known" */
	uint64_t	key_range;		/* largest - smallest + 1, saturating */
	uint64_t	distinct;		/* estimate of distinct keys, if they are few */

	/*
	 * Disorder, counted during ingest over neighbours: how many keys are
	 * smaller (descents) and larger (ascents) than the key before.  No
	 * descent is a sorted input, no ascent a reversed one, neither a flat one.
	 */
	bool		order_known;
	size_t		descents;
	size_t		ascents;
	bool		scattered;		/* though few descend: runs that begin anywhere */

	/* what the result is for; only explained, no CPU kernel depends on it */
	bool		inexact;		/* equal keys are settled by comparison after */
	size_t		bound;			/* rows wanted of the front; 0: all */

	/* the means */
	size_t		memory;			/* bytes left for scratch; 0: no limit */
	int			threads;		/* team size; 0 and 1: the caller alone */
	double		cpu_factor;		/* the CPU's kernels take so many times what the model
								 * says (cpu_learn.h); 0: just that */
	DeviceState device;
	RouteGpu	gpu;

	/* gpusort.algorithm: forced where it applies; NULL is auto */
	const Algorithm *forced;
} RouteFacts;

typedef struct RoutePrediction
{
	const Algorithm *algorithm;
	double		us;				/* predicted time; < 0: not applicable, or never auto's */
	size_t		scratch;		/* bytes, a GPU's of its memory; 0 when not applicable */
	const char *why_not;		/* a few words; NULL when there is a time */
} RoutePrediction;

typedef struct RouteDecision
{
	const Algorithm *algorithm; /* NULL: nothing fits facts->memory */
	double		predicted_us;	/* 0 when not modelled: tiny or sorted input, never auto's */
	double		cpu_us;			/* a GPU's algorithm: what the best CPU kernel takes */
	const char *forced_why_not; /* why the forced name was not followed; NULL
								 * when it was, or when none was given */
} RouteDecision;

/*
 * Sets facts->distinct and facts->scattered from a sample of the records that they
 * describe, where the choice may depend on it; leaves them alone otherwise, distinct
 * also where the sample hardly repeats a key.  Costs a small fraction of the sort.
 */
extern void gpusort_route_sample(RouteFacts *facts, const void *recs);

/*
 * Chooses.  Cost: about 20 ns for tiny or sorted inputs, 100 otherwise, a few
 * hundred where a GPU is ready.  When
 * the forced algorithm cannot run, the choice is auto's and forced_why_not says
 * why.  algorithm is NULL only when no kernel's scratch fits facts->memory.
 */
extern void gpusort_route_decide(const RouteFacts *facts, RouteDecision *decision);

/*
 * Makes the problem that the facts describe: everything about the records but where
 * they are; the rest of *problem is zero.
 */
extern void gpusort_route_problem(const RouteFacts *facts, SortProblem *problem);

/*
 * Predicts every algorithm for these facts, a GPU's too: applicable ones first, by
 * predicted time, then the others.  out[0] is auto's choice, except for tiny inputs.
 */
extern void gpusort_route_predict(const RouteFacts *facts, RoutePrediction out[ALGORITHM_COUNT]);

/*
 * Writes the decision's explanation for EXPLAIN's "Sort Route", for example
 * "cpu radix: 32-bit keys, 10000000 rows, no device".  buf has
 * ROUTE_REASON_SIZE bytes; returns buf.
 */
extern char *gpusort_route_reason(const RouteFacts *facts,
								  const RouteDecision *decision, char *buf);

/* An algorithm's name as EXPLAIN prints it: "cpu_radix" is "cpu radix". */
extern void gpusort_route_display_name(const char *name, char *buf, size_t size);

/* ------------------------------------------------------------------------
 * Inputs of known shape, for measuring: calibration and the router's bench.
 * ------------------------------------------------------------------------
 */

typedef enum SampleOrder
{
	SAMPLE_RANDOM,				/* uniform over all key bits */
	SAMPLE_UNIQUE,				/* shuffled, evenly spread, none twice if they fit */
	SAMPLE_REPEATED,			/* uniform over 100 values of all key bits */
	SAMPLE_SORTED,				/* ascending, gaps as the key bits allow */
	SAMPLE_REVERSED,			/* descending */
	SAMPLE_SWAPPED,				/* ascending, 1 % of neighbours swapped */
	SAMPLE_DISPLACED,			/* ascending, 1 % of keys random */
	SAMPLE_SCATTERED,			/* ascending, 5 % of keys random */
	SAMPLE_RUNS,				/* two ascending runs */
	SAMPLE_FLAT,				/* all equal */
	SAMPLE_ORDERS
} SampleOrder;

extern const char *const sample_order_names[SAMPLE_ORDERS];

/*
 * Fills recs with n records whose keys have key_bits bits, in the format that
 * the node would choose for them (packed up to 32, 64 up to 64, then 128), rids
 * ascending from 0.  Sets every fact that describes them.  The same arguments
 * give the same records.
 */
extern void sample_fill(void *recs, size_t n, int key_bits, SampleOrder order,
						uint64_t seed, RouteFacts *facts);

/* The narrowest format that takes keys of so many bits beside a 32-bit rid. */
extern SortRecFormat sample_format(int key_bits);

/*
 * Checks what a kernel made of sample_fill()'s records, given the same
 * arguments: each record is one of them, and (key, rid) ascends strictly, so
 * all are there and the sort was stable.
 */
extern bool sample_verify(const void *recs, size_t n, int key_bits,
						  SampleOrder order, uint64_t seed);

/* ------------------------------------------------------------------------
 * Names the processor, so that measured constants are not used on another.
 * ------------------------------------------------------------------------
 */

#define MACHINE_NAME_SIZE	128

/*
 * One line of text without a newline: the processor's name and the sizes of its
 * L2 and L3 caches, as far as the system tells them.
 */
extern void machine_name(char name[MACHINE_NAME_SIZE]);

/* ------------------------------------------------------------------------
 * How long a kernel will take: the router's model and its constants.
 *
 * The constants are cost curves: nanoseconds per record at input sizes of 2^5,
 * 2^7, ... 2^27 records, linear in between over the logarithm of the size.  A
 * curve holds what the papers write as operations plus bytes over bandwidth,
 * and its course is the memory hierarchy: it climbs where an input leaves a
 * cache.  model.c says which curves a kernel's time is made of.
 * ------------------------------------------------------------------------
 */

#define MODEL_POINTS			12
#define MODEL_POINT_FIRST	5

/* No record costs more than this; a guard for stored constants. */
#define MODEL_MAX_NS		1e6

/* "+ format": one curve for each SortRecFormat. */
typedef enum ModelCurve
{
	MODEL_RADIX = 0,			/* cpu_radix + format, keys wider than n needs */
	MODEL_RADIX_8 = 3,			/* ... packed records of 8 key bits */
	MODEL_RADIX_12 = 4,			/* ... of 12 */
	MODEL_RADIX_16 = 5,			/* ... of 16 */
	MODEL_RADIX_24 = 6,			/* ... of 24 */
	MODEL_COUNTING_8 = 7,		/* cpu_counting, packed records of 8 key bits, */
	MODEL_COUNTING_12 = 8,		/* without what its table costs by its size */
	MODEL_COUNTING_16 = 9,
	MODEL_COUNTING_20 = 10,
	MODEL_COUNTING_24 = 11,
	MODEL_MERGE = 12,			/* cpu_merge + format */
	MODEL_REVERSED = 15,		/* presorted + format: descending */
	MODEL_RUNS = 18,			/* ... a few runs, for each pass over them */
	MODEL_NEARLY = 21,			/* ... records out of place, without those */
	MODEL_CURVES = 24
} ModelCurve;

/* Constants that are no curves. */
typedef enum ModelScalar
{
	MODEL_CELL_NS,				/* cpu_counting, for each cell of its table */
	MODEL_CHAIN_NS,				/* cpu_radix and cpu_counting, for each record of an
								 * input nearly in order */
	MODEL_DROP_NS,				/* presorted, for each record out of place */
	MODEL_TEAM_SHARE,			/* of a kernel's time that a team divides, 0 .. 1 */
	MODEL_SCALARS
} ModelScalar;

typedef struct RouteModel
{
	double		curve[MODEL_CURVES][MODEL_POINTS];
	double		scalar[MODEL_SCALARS];
} RouteModel;

extern const char *const model_scalar_names[MODEL_SCALARS];
extern const char *const model_curve_names[MODEL_CURVES];

/* The constants in use, at first the built-in ones. */
extern const RouteModel *route_model;
extern const RouteModel route_model_builtin;

/* The binary logarithm of a knot's number of records. */
static inline int
model_point_log2(int sample_point)
{
	return MODEL_POINT_FIRST + 2 * sample_point;
}

/* A curve's value at n records. */
extern double model_curve_at(const double *curve, size_t n);

/* Predicted microseconds of a CPU algorithm that applies to these facts. */
extern double model_predict_us(const RouteModel *model, const Algorithm *algorithm,
							   const RouteFacts *facts);

/*
 * The constants as text, with the machine that they belong to.  model_format
 * returns the length.  model_parse changes *model only if it returns OK.
 */
#define MODEL_TEXT_SIZE		8192

typedef enum ModelTextStatus
{
	MODEL_TEXT_OK,
	MODEL_TEXT_BAD,				/* not such a text, or of another version */
	MODEL_TEXT_OTHER_MACHINE
} ModelTextStatus;

extern size_t model_format(const RouteModel *model, char text[MODEL_TEXT_SIZE]);
extern ModelTextStatus model_parse(const char *text, RouteModel *model);

/*
 * Measures this machine (calibrate.c).  workspace is 64-byte aligned; inputs
 * grow until they fill it, and what is larger is scaled from the built-in
 * curves.  interrupted() as in SortProblem.
 */
extern SortStatus model_calibrate(RouteModel *model, void *workspace, size_t size,
								  bool (*interrupted) (void *), void *arg);

/* ------------------------------------------------------------------------
 * How many times longer something takes than a model says: measured once, and told again by
 * everything that is done.
 *
 * Robust and bounded: a factor is a logarithm; one job moves it by no more than a share of
 * what that job would have it be, and what a job says counts up to a limit, upwards a
 * lower one, so that a job that was held up does little.  A factor that keeps jobs away can
 * not be put right by any, so that what jobs have said beyond the measured fades while
 * none comes.  What has faded comes back with the next job, unless that says that it was right.
 *
 * Pure functions of what they are given, the time included.
 * ------------------------------------------------------------------------
 */

/* Nothing takes less or more than this many times what a model says. */
#define FACTOR_MAX			128.0
#define FACTOR_MIN			0.125

/* Sizes for which sorts have factors: 2^14, 2^17, ... rows, straight in between. */
#define FACTOR_SIZES		4

typedef struct Factor
{
	double		log;			/* its logarithm */
	double		measured;		/* what was measured, if is_measured */
	bool		is_measured;
	uint32_t	jobs;			/* that moved it */
	int64_t		seen;			/* when the last of them did, in seconds */
} Factor;

/* How a kind of factor is learned. */
typedef struct FactorRule
{
	double		first_share;	/* by which the first job moves it, */
	double		least_share;	/* and all others in the end */
	double		off_above;		/* it counts as if it had taken no more than so many times the expected, */
	double		off_below;		/* and no less */
	double		fade_s;			/* what jobs have said beyond the measured is half as much after
								 * so many seconds without one */
} FactorRule;

static inline bool
factor_is_known(const Factor *factor)
{
	return factor->is_measured || factor->jobs > 0;
}

/* It was measured: the beginning of what jobs will move, or an equal voice. */
extern void factor_measured(Factor *factor, double log_measured);

/* What it is now. */
extern double factor_now(const Factor *factor, int64_t now, const FactorRule *rule);

/* A job says that it is this; known: something was known of it before. */
extern void factor_learn(Factor *factor, bool known, double log_told, int64_t now,
						 const FactorRule *rule);

/*
 * A factor for each size.  factor_sizes_now: that at some number of rows; of a size of which
 * nothing is known it is that of the nearest, or unknown if there is none.  factor_sizes_learn:
 * a job of so many rows says that it is this; unknown is NULL if not even that is known.
 */
extern void factor_sizes_learn(Factor *sizes, double rows, const double *unknown, double log_told,
							   int64_t now, const FactorRule *rule);

/* The size nearest to this one of which something is known; -1: none. */
extern int	factor_known_size(const Factor *sizes, int size);

/* A number of rows among the sizes: *first, and how far beyond it. */
extern double factor_size_of(double rows, int *first);

/*
 * As a line of text, and back: false if it is none, or not one that could have been learned.
 * *text is moved behind it.  factor_parse_line: likewise for n numbers within bounds.
 */
extern size_t factor_format(const Factor *factor, const char *name, char *text, size_t size);
extern bool factor_parse(const char **text, const char *name, Factor *factor);
extern bool factor_parse_line(const char **text, const char *name, int n,
							  const double (*bounds)[2], double *values);

/* The greatest number of jobs, and of seconds, in a text. */
#define FACTOR_TEXT_MOST	1e15

/* ------------------------------------------------------------------------
 * What sorts on the CPU have taught of it: how many times longer its kernels take than the
 * model says.
 *
 * The model's constants are of one kind of processor, or of an hour in which nothing else
 * went on (gpusort_calibrate()).  Here is what sorts take on this one, now: a factor
 * (factor.h) for each format of records, which is what keys of a width are sorted as, and
 * some sizes; between formats of which something is known and others the nearest holds.
 *
 * Time is the clock's.  What is decided by it, a GPU or not, is a question of when the rows
 * are there: with more sorts than processors a kernel waits for its turn, and each second
 * that it needs is two by the clock, while the GPU's part of a job waits for none.  The
 * processor's own time, and a term for the load beside it, would come to the same with
 * more to go wrong: load averages know of no cgroup's share, none knows of hyperthreads or
 * of the memory's bandwidth, and all are in the clock.  Load passes, so that what sorts have
 * said beyond the measured fades within minutes without any (CPU_FADE_SECONDS).  Small sorts
 * mostly end before the processor is taken from them, large ones do not, and so the sizes
 * differ under load.
 *
 * One factor for all kernels and teams of any size, that of the format and rows: a choice
 * between kernels is by the model, and no factor that only one of them has learned comes in
 * between.  Those teach that move every record, whatever its place: not what takes an input
 * as it lies.
 * ------------------------------------------------------------------------
 */

/*
 * Sorts of fewer records neither teach nor ask: none of them is a GPU's, and they would feel the
 * cost.
 */
#define CPU_LEARN_ROWS		8192

#define CPU_FADE_SECONDS	60.0

typedef struct CpuLearned
{
	Factor		sizes[3][FACTOR_SIZES]; /* by SortRecFormat */
	uint64_t	sorts;			/* that taught anything */
} CpuLearned;

/* Nothing is known. */
extern void cpu_learn_begin(CpuLearned *learned);

/* The processor was measured; the model in use is what it is compared with. */
extern void cpu_learn_measured(CpuLearned *learned, const CpuMeasured *measured);

/* A kernel has sorted facts->n records, in so many microseconds by the clock. */
extern void cpu_learn_sort(CpuLearned *learned, const Algorithm *algorithm, const RouteFacts *facts,
						   double took_us, int64_t now);

/* RouteFacts.cpu_factor for these facts: their format and rows are looked at. */
extern double cpu_learn_factor(const CpuLearned *learned, const RouteFacts *facts, int64_t now);

/*
 * As text, a line for each factor, and back; false if it is none, or not one that could
 * have been learned.  *text is moved behind it.
 */
#define CPU_LEARN_TEXT_SIZE		1536

extern size_t cpu_learn_format(const CpuLearned *learned, char text[CPU_LEARN_TEXT_SIZE]);
extern bool cpu_learn_parse(const char **text, CpuLearned *learned);

/* ------------------------------------------------------------------------
 * How keys are spread, by a sample of them: what a GPU's sorts by value depend on.
 *
 * The sample is pairs of neighbours, so that it tells order, too.  A thousand keys and
 * a sort of them cost some microseconds (bench/GPU-NOTES.md).
 * ------------------------------------------------------------------------
 */

#define GPU_SAMPLE_PAIRS	512

/* Aligned as kernels want records. */
typedef struct GpuSample
{
	size_t		n;
	SortRec64	recs[2 * GPU_SAMPLE_PAIRS] __attribute__((aligned(64)));
} GpuSample;

/* What its sort takes: a copy and a byte each, with some to spare. */
typedef struct GpuSampleScratch
{
	SortRec64	recs[2 * GPU_SAMPLE_PAIRS * 5 / 4] __attribute__((aligned(64)));
} GpuSampleScratch;

typedef struct GpuSampleSeen
{
	GpusortDistribution key_distribution;
	double		repeated;		/* part of the keys that the sample has twice, or more often */
} GpuSampleSeen;

static inline void
gpu_sample_begin(GpuSample *sample)
{
	sample->n = 0;
}

/* Of n keys every so many is the first of a pair, from 0 on, ... */
static inline size_t
gpu_sample_step(size_t n)
{
	return n < GPU_SAMPLE_PAIRS ? 1 : n / GPU_SAMPLE_PAIRS;
}

/* ... as long as there is a second, and room. */
static inline bool
gpu_sample_wants(const GpuSample *sample, size_t n, size_t i)
{
	return i + 1 < n && sample->n < 2 * GPU_SAMPLE_PAIRS;
}

/* The next key: its leading 64 bits. */
static inline void
gpu_sample_add(GpuSample *sample, uint64_t key)
{
	sample->recs[sample->n].key = key;
	sample->recs[sample->n].rid = (uint32_t) sample->n;
	sample->n++;
}

/* Looks at them; they are lost. */
extern void gpu_sample_look(GpuSample *sample, GpuSampleSeen *seen);

/* Its sort, by cpu_radix; the scratch is not there yet. */
extern void gpu_sample_problem(GpuSample *sample, SortProblem *problem);

/* Two words of a sample, for qsort(). */
extern int	sample_compare(const void *a, const void *b);

/* ------------------------------------------------------------------------
 * What jobs have taught of a device: how much longer its parts of a job take than the
 * library says.
 *
 * The library's costs (GpusortCosts) come from one kind of GPU on one kind of bus.  On
 * another each part of a job has a factor of its own: handing it over and back, the
 * bytes there, the bytes back, and the sort, by key width and number of rows.  A factor
 * begins with what the device process has measured, if it has, and every job moves it
 * (factor.h).
 *
 * Pure functions of what they are given, the time included.
 * ------------------------------------------------------------------------
 */

/* Handing a job over takes at least this much of what the library says. */
#define GPU_LEAST_HAND_OVER	0.3

#define GPU_SORT_SIZES		FACTOR_SIZES

/* The parts of a job that have factors. */
typedef enum GpuPart
{
	GPU_PART_HAND_OVER,
	GPU_PART_UP,
	GPU_PART_DOWN,
	GPU_PART_SORT,				/* + width * GPU_SORT_SIZES + size */
	GPU_PARTS = GPU_PART_SORT + 3 * GPU_SORT_SIZES
} GpuPart;

typedef struct GpuLearned
{
	Factor		part[GPU_PARTS];
	double		load;			/* by how much each other job that is under way makes one
								 * longer: 1 is twice as long */
	uint32_t	load_jobs;
	uint64_t	jobs;			/* that taught anything */
} GpuLearned;

/* What a decision goes by (RouteGpu.factors). */
typedef struct GpuFactors
{
	double		log[GPU_PARTS];
	double		busy;			/* copies and sorts take so many times longer, now */
	uint64_t	jobs;
} GpuFactors;

/* A job's predicted time by part, in microseconds; us_library without factors. */
typedef enum GpuTerm
{
	GPU_TERM_HAND_OVER,
	GPU_TERM_UP,
	GPU_TERM_SORT,
	GPU_TERM_DOWN,
	GPU_TERM_HOST,				/* rids to and from staging: no device's matter */
	GPU_TERMS
} GpuTerm;

typedef struct GpuTerms
{
	double		us[GPU_TERMS];
	double		library_us[GPU_TERMS];
} GpuTerms;

/*
 * What a job took; 0: it does not tell.  Of a job of several chunks handing over is known
 * to lie between two times, as it is not known which copies were waited for.
 */
typedef struct GpuJobTimes
{
	double		hand_over_us;	/* at least, */
	double		hand_over_most_us;	/* and at most */
	double		up_bytes;		/* of a copy, by the device's clock */
	double		up_us;
	double		down_bytes;
	double		down_us;
	double		sort_us;
	double		others;			/* jobs that were under way on the device */
} GpuJobTimes;

/* Nothing is known. */
extern void gpu_learn_begin(GpuLearned *learned);

/* The device was measured: the beginning of what jobs will move, or an equal voice. */
extern void gpu_learn_measured(GpuLearned *learned, const GpusortCosts *costs,
							   const DeviceMeasured *measured);

/* A job of facts->n rows, for facts->gpu.costs, was done by this algorithm. */
extern void gpu_learn_job(GpuLearned *learned, const Algorithm *algorithm,
						  const RouteFacts *facts, const GpuJobTimes *times, int64_t now);

/* What decisions shall go by now, with so many other jobs under way. */
extern void gpu_learn_factors(const GpuLearned *learned, double others, int64_t now,
							  GpuFactors *factors);

/* The logarithm of a sort's factor; NULL: 0. */
extern double gpu_sort_factor(const GpuFactors *factors, int key_width, double rows);

/* Whose it is, in a file. */
#define GPU_LEARN_NAME		64

typedef struct GpuLearnedOf
{
	int			number;
	uint64_t	memory;
	char		name[GPU_LEARN_NAME];
} GpuLearnedOf;

/* A device's name as it is kept: no longer, and one line, whatever else is in it. */
extern void gpu_learn_name(const char *name, char kept[GPU_LEARN_NAME]);

/* As a line of text, and back; false if it is none.  *text is moved behind it. */
#define GPU_LEARN_OF_SIZE	(GPU_LEARN_NAME + 64)

extern size_t gpu_learn_format_of(const GpuLearnedOf *of, char text[GPU_LEARN_OF_SIZE]);
extern bool gpu_learn_parse_of(const char **text, GpuLearnedOf *of);

/*
 * As text, a line for each part, and back; false if it is none, or not one that could
 * have been learned.  *text is moved behind it.
 */
#define GPU_LEARN_TEXT_SIZE		2048

extern size_t gpu_learn_format(const GpuLearned *learned, char text[GPU_LEARN_TEXT_SIZE]);
extern bool gpu_learn_parse(const char **text, GpuLearned *learned);

/* A part's name, for users. */
extern const char *gpu_part_name(GpuPart part);

/* ------------------------------------------------------------------------
 * What a sort takes whose keys go to devices in parts.
 * ------------------------------------------------------------------------
 */

/* Predicted microseconds in so many parts on so many devices; as gpu_predict_us() for one job. */
extern double gpu_parts_us(const Algorithm *algorithm, const RouteFacts *facts, int parts,
						   int devices);

/* ------------------------------------------------------------------------
 * Inputs of which each part is in order, but not the whole.
 * ------------------------------------------------------------------------
 */

/* An input with at most one descent for so many records may be nearly in order. */
#define ORDERED_PER_DESCENT	16

/* ------------------------------------------------------------------------
 * The GPU's algorithms as the router sees them: which can sort an input, and how long that
 * will take, transfers included.
 * ------------------------------------------------------------------------
 */

/* Can this GPU's algorithm sort this?  If not, *why says so in a few words. */
extern bool gpu_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why);

/* Predicted microseconds of one that is not only forced: keys (and rids) there, sorted, and back. */
extern double gpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts);
extern void gpu_predict_terms(const Algorithm *algorithm, const RouteFacts *facts, GpuTerms *terms);

/* ... of the sort alone, as the library says: HUGE_VAL for one that is only forced. */
extern double gpu_sort_us(AlgorithmId id, const RouteFacts *facts);

/*
 * The one that takes least, if that is less than *us; sets *us.  NULL if none is,
 * or none can.
 */
extern const Algorithm *gpu_choose(const RouteFacts *facts, double *us);

/* What is known when a sort could move its rows to a GPU. */
typedef struct GpuRowsFacts
{
	double		rows;			/* expected in all */
	double		rows_here;		/* of them in the host's memory already */
	double		row_bytes;
	double		key_cost;		/* bytes per row that the CPU's sort takes besides */
	double		memory;			/* bytes it may take */
	bool		ordered;		/* the rows so far are in order, or in reverse */
	bool		resolver;		/* keys do not tell all rows apart; equal ones are settled, there and here */
	double		repeated;		/* part of the rows of whose keys there are many each */
	double		cpu_sort_us;	/* predicted for the keys alone */
	double		gpu_sort_us;	/* there, transfers included */
	double		up_ns;			/* per byte of rows on the bus, as things are; 0: as on the */
	double		down_ns;		/* machine that the model's other constants are from */
	double		device_bytes;	/* of a device's memory that they would take */
	double		device_memory;	/* ... and that they can have; 0: enough */
	double		all_memory;		/* ... of all devices */
} GpuRowsFacts;

/* Predicted nanoseconds of a byte on the bus, there and back. */
extern void gpu_copy_ns(const RouteFacts *facts, double *up_ns, double *down_ns);

/*
 * Predicted microseconds that are won by moving the rows to a GPU and having them
 * back in order; negative: lost.
 */
extern double gpu_rows_gain_us(const GpuRowsFacts *facts);

#endif							/* GPUSORT_COST_COST_H */
