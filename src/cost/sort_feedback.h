/*
 * sort_feedback.h
 *	  A sort's predictions rest on what jobs have taught of the device, and sorts of the CPU,
 *	  and teach it.
 */
#ifndef GPUSORT_COST_SORT_FEEDBACK_H
#define GPUSORT_COST_SORT_FEEDBACK_H

#include "cost/store.h"
#include "service/service.h"

/*
 * A device by its place in the service's list; false if there is none there, or the service
 * is just making the list.
 */
extern bool device_learn_who(int device, LearnDevice *who);

/*
 * Sets the costs, and what corrects them, of the device that a sort would get now, and how much
 * memory of it, and of all devices (NULL: does not matter), it could have; 0: not known.
 */
extern void device_learn_facts(RouteFacts *facts, double *memory, double *all_memory);

/*
 * The first chunk of a job's result has come; this algorithm sorted it.  at_once: its keys were
 * all there when it was opened.
 */
extern void device_learn_job(const DeviceJob *job, const RouteFacts *facts,
							 const Algorithm *algorithm, bool at_once);

/*
 * Sets what corrects the model of the CPU for facts->n records of this format: nothing for few.
 * device_learned_cpu: all that is known; false: nothing, the model is right.
 */
extern void device_learn_cpu_facts(RouteFacts *facts);
extern bool device_learned_cpu(CpuLearned *learned);

/* A CPU's algorithm has sorted them. */
extern void device_learn_cpu_sort(const RouteFacts *facts, const Algorithm *algorithm, double took_us);

/* Another model is to be corrected from now on. */
extern void device_learn_cpu_forget(void);

#endif							/* GPUSORT_COST_SORT_FEEDBACK_H */
