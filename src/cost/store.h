/*
 * store.h
 *	  The correction factors in shared memory, and their use by sorts.
 */
#ifndef GPUSORT_COST_STORE_H
#define GPUSORT_COST_STORE_H

#include "postgres.h"

#include "cost/cost.h"
#include "service/service.h"

/* Adds the factors to the shared memory of a server with the GPU service, while libraries are preloaded. */
extern void gpusort_store_init(void);

/* ------------------------------------------------------------------------
 * Correction factor of the CPU model, for all backends
 * ------------------------------------------------------------------------
 */

/*
 * Sets the CPU's correction factor, from CPU_LEARN_ROWS on; not without the GPU service
 * or with gpusort.device_learn off.
 */
extern void device_learn_cpu_facts(RouteFacts *facts);

/* Learns from a sort of facts->n records by a CPU algorithm. */
extern void device_learn_cpu_sort(const RouteFacts *facts, const Algorithm *algorithm, double took_us);

/* ------------------------------------------------------------------------
 * Correction factors of each device, for all backends
 * ------------------------------------------------------------------------
 */

/*
 * Copies what was learned of a device, by its index in the service's list.  Returns CUDA's
 * number; -1 if there is none, or the service is writing the list.
 */
extern int	gpusort_learned(int device, GpuLearned *learned);

/*
 * Sets the costs of the device that a sort would get now, and its correction factors
 * unless gpusort.device_learn is off.  They are valid until the next call.
 * *memory and *all_memory are the bytes available on this device and on all devices;
 * 0: unknown.  Either pointer may be NULL.
 */
extern void device_learn_facts(RouteFacts *facts, double *memory, double *all_memory);

/*
 * The same for a plan, which should not depend on the present load: the costs of the first
 * device, as it was measured, without other jobs and without what jobs have taught.
 */
extern void device_plan_facts(RouteFacts *facts);

/*
 * Learns from a job whose first chunk of the result has arrived.  at_once: all keys
 * existed when the job was opened.
 */
extern void device_learn_job(const DeviceJob *job, const RouteFacts *facts,
							 const Algorithm *algorithm, bool at_once);

#endif							/* GPUSORT_COST_STORE_H */
