/*
 * sort_feedback.h
 *	  Feeds correction factors into a sort's facts, and its times back.
 */
#ifndef GPUSORT_COST_SORT_FEEDBACK_H
#define GPUSORT_COST_SORT_FEEDBACK_H

#include "cost/store.h"
#include "service/service.h"

/*
 * Looks up a device by its index in the service's list.  False if there is none, or
 * the service is writing the list.
 */
extern bool device_learn_who(int device, LearnDevice *who);

/*
 * Sets the costs and correction factors of the device that a sort would get now.
 * *memory and *all_memory are the bytes available on this device and on all devices;
 * 0: unknown.  Either pointer may be NULL.
 */
extern void device_learn_facts(RouteFacts *facts, double *memory, double *all_memory);

/*
 * Learns from a job whose first chunk of the result has arrived.  at_once: all keys
 * existed when the job was opened.
 */
extern void device_learn_job(const DeviceJob *job, const RouteFacts *facts,
							 const Algorithm *algorithm, bool at_once);

/*
 * device_learn_cpu_facts() sets the CPU's correction factor for facts->n records, from
 * CPU_LEARN_ROWS on.  device_learned_cpu() returns all factors; false if there are none.
 */
extern void device_learn_cpu_facts(RouteFacts *facts);
extern bool device_learned_cpu(CpuLearned *learned);

/* Learns from a sort of facts->n records by a CPU algorithm. */
extern void device_learn_cpu_sort(const RouteFacts *facts, const Algorithm *algorithm, double took_us);

/* Forgets the CPU's correction factors, because the model's constants changed. */
extern void device_learn_cpu_forget(void);

#endif							/* GPUSORT_COST_SORT_FEEDBACK_H */
