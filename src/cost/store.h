/*
 * store.h
 *	  Learned figures in shared memory and in files.
 */
#ifndef GPUSORT_COST_STORE_H
#define GPUSORT_COST_STORE_H

#include "postgres.h"

#include "cost/cost.h"
#include "lib/stringinfo.h"

/* Hooks for shared memory; to be called while libraries are preloaded. */
extern void gpusort_model_store_init(void);

/*
 * Makes the model's constants those that gpusort_calibrate() stored last, if it
 * ever ran on this machine.  Called before routing n records: inputs too small
 * for the model return at once, others cost one stat() when nothing changed.
 */
extern void gpusort_model_refresh(size_t n);

/*
 * Replaces the stored constants; an error if that fails.  Every backend,
 * this one included, takes them up at its next gpusort_model_refresh().
 */
extern void gpusort_model_store(const RouteModel *model);

/* ------------------------------------------------------------------------
 * What sorts on the CPU have taught of it, for all backends.
 * ------------------------------------------------------------------------
 */

/*
 * What is known, with what was measured taken in; false, and the model is right, without
 * shared memory or if gpusort.device_learn is off.
 */
extern bool gpusort_cpu_learned(const volatile CpuMeasured *measured, CpuLearned *learned);

/* A kernel has sorted facts->n records. */
extern void gpusort_cpu_sorted(const volatile CpuMeasured *measured, const Algorithm *algorithm,
							   const RouteFacts *facts, double took_us);

/* Forgets what sorts have taught; what was measured holds. */
extern void gpusort_cpu_forget(const volatile CpuMeasured *measured);

/* ------------------------------------------------------------------------
 * What jobs have taught of each device, for all backends, and over restarts.
 * ------------------------------------------------------------------------
 */

/* A device, as its service knows it. */
typedef struct LearnDevice
{
	int			number;			/* CUDA's */
	char		name[64];
	uint64		memory;			/* bytes in all: with the name, who it is */
	const GpusortCosts *costs;
	const volatile DeviceMeasured *measured;
	const volatile uint32 *measurements;	/* counts them: odd while one is written; 0: none */
} LearnDevice;

/* Asks for shared memory; while libraries are preloaded. */
extern void gpusort_learn_store_init(void);

/* What is known of it, brought up to date.  Of another device under its number: nothing. */
extern void gpusort_learned(const LearnDevice *device, GpuLearned *learned);

/* What decisions shall go by; NULL if gpusort.device_learn is off.  It holds until the next call. */
extern const GpuFactors *gpusort_learn_factors(const LearnDevice *device, double others);

/* A job of facts->n rows was done. */
extern void gpusort_learn_job(const LearnDevice *device, const Algorithm *algorithm,
							  const RouteFacts *facts, const GpuJobTimes *times);

/* Forgets what jobs have taught of it; what was measured holds. */
extern void gpusort_learn_forget(const LearnDevice *device);

/*
 * Writes what has changed to the file, not too often unless at_once.  For one process; what
 * goes wrong is logged.
 */
extern void gpusort_learn_save(bool at_once);

/* ------------------------------------------------------------------------
 * Small text files in the data directory that are written whole.
 * ------------------------------------------------------------------------
 */

#endif							/* GPUSORT_COST_STORE_H */
