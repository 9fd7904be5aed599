/*
 * cost.h
 *	  Router, cost models, correction factors.
 *
 * The router chooses a CPU kernel by a rule, and the fastest GPU algorithm if its
 * predicted time is less than that of the kernel.  GPU algorithms take part if
 * facts->gpu describes their keys; their time includes the transfers.  The router is a
 * pure function of the facts and the model's constants: it allocates nothing, reads no
 * setting and no clock, and includes no server header, so that unit tests can call it.
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
 *		decision.algorithm->kernel->run(&problem);		... for a CPU algorithm
 *
 * An unknown fact is zero.
 */
#ifndef GPUSORT_COST_COST_H
#define GPUSORT_COST_COST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../cuda/gpusort_abi.h"
#include "kernel/algorithm.h"
#include "kernel/sort_kernel.h"
#include "service/device_state.h"

/* Inputs with fewer records have no prediction, and stay on the CPU. */
#define ROUTE_TINY_ROWS		128

/* Size of the buffer of gpusort_route_reason(). */
#define ROUTE_REASON_SIZE	256

/* The keys as a GPU would receive them. */
typedef struct RouteGpu
{
	/* 32, 64 or 128 bits; 0: no GPU takes the keys */
	int			key_width;
	const char *why_not;		/* why key_width is 0 on a ready device */
	int			key_bits;		/* significant bits, from bit 0 */
	bool		keys_only;		/* keys travel without rids */
	bool		keys_back;		/* sorted keys are copied back */
	bool		distinct;		/* no two keys are equal */

	/* the device drops rows whose keys are equal from bit equal_bit on */
	bool		drop;
	int			equal_bit;
	double		rows_back;		/* expected rows of the result; 0: all */
	GpusortDistribution key_distribution;	/* from gpu_sample_keys() */
	unsigned	algorithms;		/* of the library: a bit per AlgorithmId */
	const GpusortCosts *costs;	/* the library's; set if key_width is not 0 */
	const struct GpuFactors *factors;	/* corrections; NULL: none */
} RouteGpu;

typedef struct RouteFacts
{
	/* The problem, as in SortProblem.  The first four must be set. */
	size_t		n;				/* records */
	SortRecFormat format;
	int			begin_bit;		/* significant key bits: [begin_bit, end_bit) */
	int			end_bit;

	/* The keys */
	/* largest - smallest + 1, saturating; 0: unknown */
	uint64_t	key_range;

	/*
	 * Presortedness, counted over neighbours during ingest.  No descent:
	 * sorted.  No ascent: reversed.  Neither: all keys are equal.
	 */
	bool		order_known;	/* descents and ascents are set */
	size_t		descents;		/* keys smaller than their predecessor */
	size_t		ascents;		/* keys larger than their predecessor */
	bool		scattered;		/* few descents, but the runs overlap */

	/* Use of the result.  Only gpusort_route_reason() reads these. */
	bool		inexact;		/* equal keys are compared */
	size_t		bound;			/* first rows wanted; 0: all */

	/* Resources */
	int			threads;		/* team size; 0 and 1: the caller alone */
	double		cpu_factor;		/* correction factor of the CPU model; 0: none */
	uint32_t	cpu_sorts;		/* sorts that taught it */
	DeviceState device;
	RouteGpu	gpu;

	const Algorithm *forced;	/* gpusort.algorithm; NULL: auto */
} RouteFacts;

typedef struct RoutePrediction
{
	const Algorithm *algorithm;
	double		us;				/* predicted time; 0: not modelled */
	size_t		scratch;		/* bytes on host or device; 0: none */
	const char *why_not;		/* why it cannot be chosen; NULL: it can */
} RoutePrediction;

typedef struct RouteDecision
{
	const Algorithm *algorithm;
	double		predicted_us;	/* 0: not modelled (tiny or presorted input) */
	double		cpu_us;			/* predicted time of the best CPU kernel */

	/* Why facts->forced cannot run.  NULL: it runs, or none is forced. */
	const char *forced_why_not;
} RouteDecision;

/* Sets facts->scattered from a sample of the records. */
extern void gpusort_route_sample(RouteFacts *facts, const void *recs);

/*
 * Chooses an algorithm.  If the forced algorithm cannot run, forced_why_not says
 * why and the choice is automatic.
 */
extern void gpusort_route_decide(const RouteFacts *facts, RouteDecision *decision);

/* Fills the problem from the facts; its rids ascend.  The pointers of *problem become NULL. */
extern void gpusort_route_problem(const RouteFacts *facts, SortProblem *problem);

/*
 * Predicts the times of the CPU's choice and of every GPU algorithm.  out[0] is the
 * automatic choice.  Algorithms that can be chosen follow by predicted time; algorithms
 * that cannot be chosen come last.
 */
extern void gpusort_route_predict(const RouteFacts *facts, RoutePrediction out[ALGORITHM_COUNT]);

/*
 * Writes the text of EXPLAIN's "Sort Route", for example "cpu radix: 32-bit keys,
 * 10000000 rows, no device".  buf has ROUTE_REASON_SIZE bytes.  Returns buf.
 */
extern char *gpusort_route_reason(const RouteFacts *facts,
								  const RouteDecision *decision, char *buf);

/* ------------------------------------------------------------------------
 * Correction factors
 *
 * A correction factor is the ratio of observed to modelled time of a cost term.
 * The factor begins as a measurement and is then a clamped moving average in log
 * space.  One job moves the factor by a bounded step, and upwards by less than
 * downwards, because delays only make jobs longer.  A device with a high factor gets
 * no jobs, so no job corrects the factor.  Therefore its part above the measurement
 * decays while no job comes; the next slow job restores it.
 * ------------------------------------------------------------------------
 */

/* Sort factors exist at 2^14, 2^17, ... rows, with linear interpolation. */
#define FACTOR_SIZES		4

typedef struct Factor
{
	double		log;			/* natural logarithm of the factor */
	double		measured;		/* logarithm, if is_measured */
	bool		is_measured;
	uint32_t	jobs;			/* jobs that moved it */
	int64_t		seen;			/* time of the last such job, in seconds */
} Factor;

/*
 * The CPU model's constants come from another processor.  One factor adapts them to this
 * one and to its present load.  Smaller sorts neither teach nor use it: they never go to
 * a GPU.
 */
#define CPU_LEARN_ROWS		8192

/* ------------------------------------------------------------------------
 * Key distribution, from a sample
 *
 * The cost of a GPU's bucket sort depends on the distribution of the keys.  The
 * sample consists of pairs of neighbours.
 * ------------------------------------------------------------------------
 */

typedef struct GpuSampleSeen
{
	GpusortDistribution key_distribution;
	double		repeated;		/* share of keys that occur more than once */
} GpuSampleSeen;

/* Sets keys[] to the leading 64 bits of the keys i and i + 1. */
typedef void (*GpuSamplePair) (void *arg, size_t i, uint64_t keys[2]);

/* Samples n keys and classifies them. */
extern void gpu_sample_keys(size_t n, GpuSamplePair pair, void *arg, GpuSampleSeen *seen);

/* ------------------------------------------------------------------------
 * Correction factors of the GPU model
 *
 * The library's costs (GpusortCosts) come from one kind of GPU on one kind of bus.
 * Each part of a job has a correction factor: the hand-over, the copy to the
 * device, the copy back, and the sort by key width and number of rows.
 * ------------------------------------------------------------------------
 */

/* Lower limit of the hand-over's time, as a share of the library's figure. */
#define GPU_LEAST_HAND_OVER	0.3

/* The parts of a job that have factors. */
typedef enum GpuPart
{
	GPU_PART_HAND_OVER,
	GPU_PART_UP,
	GPU_PART_DOWN,
	GPU_PART_SORT,				/* + width * FACTOR_SIZES + size */
	GPU_PARTS = GPU_PART_SORT + 3 * FACTOR_SIZES
} GpuPart;

typedef struct GpuLearned
{
	Factor		part[GPU_PARTS];

	/*
	 * Slowdown of a job by each concurrent job, relative to its time: 1 is
	 * twice as long.
	 */
	double		load;
	uint32_t	load_jobs;		/* jobs that taught load */
	uint64_t	jobs;			/* jobs that taught */
} GpuLearned;

/* Factors that a decision uses (RouteGpu.factors). */
typedef struct GpuFactors
{
	double		log[GPU_PARTS];
	double		busy;			/* slowdown of copies and sorts now; 1: none */
	uint64_t	jobs;			/* jobs that taught */
} GpuFactors;

/* The factors for a decision at time now, with this number of concurrent jobs. */
extern void gpu_learn_factors(const GpuLearned *learned, double others, int64_t now,
							  GpuFactors *factors);

/* Terms of a job's predicted time. */
typedef enum GpuTerm
{
	GPU_TERM_HAND_OVER,
	GPU_TERM_UP,
	GPU_TERM_SORT,
	GPU_TERM_DOWN,

	/* the host copies rids to and from pinned chunks */
	GPU_TERM_HOST,
	GPU_TERMS
} GpuTerm;

/* ------------------------------------------------------------------------
 * GPU model
 * ------------------------------------------------------------------------
 */

/* Can this GPU algorithm sort the input?  If not, *why is a short reason. */
extern bool gpu_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why);

/* Predicted microseconds of an algorithm that auto may choose, transfers included: by term, and in all. */
extern void gpu_predict_terms(const Algorithm *algorithm, const RouteFacts *facts, double us[GPU_TERMS]);
extern double gpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts);

/* Predicted microseconds of a sort whose keys go to several devices in parts. */
extern double gpu_parts_us(const Algorithm *algorithm, const RouteFacts *facts, int parts,
						   int devices);

/*
 * Microseconds of the sort alone, by the library's costs; HUGE_VAL for an algorithm
 * that auto never chooses.
 */
extern double gpu_sort_us(AlgorithmId id, const RouteFacts *facts);

/*
 * The fastest GPU algorithm that takes less than *us; sets *us to its time.  NULL if
 * there is none.
 */
extern const Algorithm *gpu_choose(const RouteFacts *facts, double *us);

/*
 * A GPU drops duplicates if at most this share of the rows is expected to stay.  Otherwise
 * checking the groups would take longer than returning all rows.
 */
#define GPU_DROP_SHARE		0.9

/* Nanoseconds of a CPU sort to write a row to a run, and to read and merge it */
#define RUN_ROW_NS			25.0
#define RUN_BYTE_NS			0.4 /* per byte of row and key */

/* Facts for the decision to move a sort's rows to a GPU. */
typedef struct GpuRowsFacts
{
	double		rows;			/* expected rows of the sort */
	double		rows_here;		/* rows in the host's memory already */
	double		rows_back;		/* rows that the device keeps; 0: all */
	double		run_rows_back;	/* rows that the runs of a CPU sort keep; 0: all */
	double		row_bytes;
	double		key_cost;		/* bytes per row for keys in a CPU sort */
	double		memory;			/* memory limit of the CPU sort, in bytes */
	bool		ordered;		/* the rows so far ascend or descend */
	bool		resolver;		/* rows with equal keys may differ: ties */
	double		repeated;		/* share of the rows whose key repeats often */
	double		cpu_sort_us;	/* predicted time of the CPU sort of the keys */
	double		gpu_sort_us;	/* predicted, with transfers */
	double		up_ns;			/* per byte to the device */
	double		down_ns;		/* per byte from the device */
	double		device_bytes;	/* device memory that the rows need */
	double		device_memory;	/* available memory of one device; 0: enough */
	double		all_memory;		/* available memory of all devices */
} GpuRowsFacts;

/* Predicted nanoseconds per byte on the bus, in each direction. */
extern void gpu_copy_ns(const RouteFacts *facts, double *up_ns, double *down_ns);

/* Predicted microseconds saved by sorting the rows on a GPU; negative: a loss. */
extern double gpu_rows_gain_us(const GpuRowsFacts *facts);

/* ------------------------------------------------------------------------
 * Cost model of hash tables, and of the nodes that take sorted rows instead (hash_model.c)
 *
 * Times are in microseconds, for one process, without the inputs' own cost.
 * ------------------------------------------------------------------------
 */

/* Rows that are grouped. */
typedef struct GroupFacts
{
	double		rows;
	double		groups;
	double		row_bytes;		/* average size of a stored row */

	/*
	 * Average size of a group in the hash table, with its share of the
	 * buckets.
	 */
	double		entry_bytes;
	double		memory;			/* bytes that the hash table may have */
	double		processes;		/* that have such a table each at a time; 0: one */
	bool		quiet;			/* count the random reads of a quiet machine */
	int			keys;			/* columns that are grouped by */
	int			varlena_keys;	/* of these, columns of variable length */
	bool		aggregates;		/* groups have transition values */
} GroupFacts;

/* Grouping by a hash table, without the transition functions. */
extern double hash_group_us(const GroupFacts *facts);

/*
 * Grouping by comparing neighbours of sorted rows, without the transition functions.
 * Includes the additional time of a sort for rows with equal keys.
 */
extern double sorted_group_us(const GroupFacts *facts);

/* As sorted_group_us(), by a GpuSort Aggregate above a GpuSort. */
extern double aggregate_node_us(const GroupFacts *facts);

/* Rows that are joined by equality, in one process or in several. */
typedef struct JoinFacts
{
	double		outer_rows;
	double		inner_rows;		/* put into hash tables */
	double		outer_bytes;	/* average size of a stored row */
	double		inner_bytes;
	double		table_bytes;	/* of one hash table, with its buckets */
	double		memory;			/* bytes that the hash table may have */
	int			keys;
	int			varlena_keys;
	bool		node;			/* merged by a GpuSort Join */
} JoinFacts;

/* A hash join, without the time of its output rows. */
extern double hash_join_us(const JoinFacts *facts);

/* Do hash tables of this size exceed the CPU's inner caches? */
extern bool hash_exceeds_caches(double table_bytes);

/*
 * Time of a merge join that reads these rows of sorted inputs, without the cost of its
 * output rows.  inner_again inner rows are read again, for outer rows with equal keys.
 */
extern double merge_join_us(const JoinFacts *facts, double outer_read, double inner_read, double inner_again);

#endif							/* GPUSORT_COST_COST_H */
