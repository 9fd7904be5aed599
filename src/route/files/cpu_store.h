/*
 * cpu_store.h
 *	  What sorts on the CPU have taught of it, for all backends.
 */
#ifndef GPUSORT_CPU_STORE_H
#define GPUSORT_CPU_STORE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "route/cpu_learn.h"

/* Asks for shared memory; while libraries are preloaded. */
extern void gpusort_cpu_store_init(void);

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

/*
 * For the file (learn_store.c): its part of the text, and back; if the file is none, nothing of it
 * holds.  gpusort_cpu_changed: has it changed since the last call?
 */
extern void gpusort_cpu_format(StringInfo text);
extern bool gpusort_cpu_parse(const char **text);
extern void gpusort_cpu_drop(void);
extern bool gpusort_cpu_changed(void);

#endif							/* GPUSORT_CPU_STORE_H */
