/*
 * router.h
 *	  Which algorithm sorts this input: facts in, decision out.
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
#ifndef GPUSORT_ROUTER_H
#define GPUSORT_ROUTER_H

#include "../cuda/gpusort_abi.h"
#include "device/state.h"
#include "kernel/algorithm.h"

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
	GpusortSpread spread;		/* gpu_sample.h */
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

#endif							/* GPUSORT_ROUTER_H */
