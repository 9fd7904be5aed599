/*
 * store.h
 *	  The model's constants and the correction factors, in shared memory and files.
 */
#ifndef GPUSORT_COST_STORE_H
#define GPUSORT_COST_STORE_H

#include "postgres.h"

#include "cost/cost.h"
#include "lib/stringinfo.h"

/* Requests shared memory for the model's constants, while libraries are preloaded. */
extern void gpusort_model_store_init(void);

/*
 * Loads the constants that gpusort_calibrate() stored last on this machine, if they
 * changed.  Called before routing n records: small inputs return at once, larger
 * ones cost one stat().
 */
extern void gpusort_model_refresh(size_t n);

/*
 * Stores new constants, or raises an error.  Each backend loads them at its next
 * gpusort_model_refresh().
 */
extern void gpusort_model_store(const RouteModel *model);

/* ------------------------------------------------------------------------
 * Correction factors of the CPU model, for all backends
 *
 * measured is the device service's measurement of the processor.
 * ------------------------------------------------------------------------
 */

/*
 * Copies the factors, with the measurement taken in.  False without shared memory or
 * with gpusort.device_learn off.
 */
extern bool gpusort_cpu_learned(const volatile CpuMeasured *measured, CpuLearned *learned);

/* Learns from a kernel that sorted facts->n records. */
extern void gpusort_cpu_sorted(const volatile CpuMeasured *measured, const Algorithm *algorithm,
							   const RouteFacts *facts, double took_us);

/* Forgets what sorts taught.  The measurement remains. */
extern void gpusort_cpu_forget(const volatile CpuMeasured *measured);

/* ------------------------------------------------------------------------
 * Correction factors of each device, for all backends and across restarts
 * ------------------------------------------------------------------------
 */

/* A device of the service.  Name and memory identify it. */
typedef struct LearnDevice
{
	int			number;			/* CUDA's device number */
	char		name[64];
	uint64		memory;			/* total bytes */
	const GpusortCosts *costs;
	const volatile DeviceMeasured *measured;

	/* Sequence number of measured; odd: being written, 0: none. */
	const volatile uint32 *measurements;
} LearnDevice;

/* Requests shared memory for the correction factors, while libraries are preloaded. */
extern void gpusort_learn_store_init(void);

/* Copies the device's factors.  Factors of a former device with its number are dropped. */
extern void gpusort_learned(const LearnDevice *device, GpuLearned *learned);

/*
 * The factors for a decision with this number of concurrent jobs; NULL if
 * gpusort.device_learn is off.  The result is valid until the next call.
 */
extern const GpuFactors *gpusort_learn_factors(const LearnDevice *device, double others);

/* Learns from a finished job of facts->n rows. */
extern void gpusort_learn_job(const LearnDevice *device, const Algorithm *algorithm,
							  const RouteFacts *facts, const GpuJobTimes *times);

/* Forgets what jobs taught.  The measurement remains. */
extern void gpusort_learn_forget(const LearnDevice *device);

/*
 * Saves changed factors to the file; unless at_once, at most every few seconds.  Only
 * the supervisor calls this.  Errors are logged.
 */
extern void gpusort_learn_save(bool at_once);

#endif							/* GPUSORT_COST_STORE_H */
