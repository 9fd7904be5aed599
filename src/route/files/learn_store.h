/*
 * learn_store.h
 *	  What jobs have taught of each device, for all backends, and over restarts.
 */
#ifndef GPUSORT_LEARN_STORE_H
#define GPUSORT_LEARN_STORE_H

#include "postgres.h"

#include "route/gpu_learn.h"

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

#endif							/* GPUSORT_LEARN_STORE_H */
