/*
 * device_model.h
 *	  What is known of GPUs, as SQL functions.
 */
#ifndef GPUSORT_DEVICE_MODEL_H
#define GPUSORT_DEVICE_MODEL_H

#include "postgres.h"

#include "nodes/execnodes.h"

/* A row of gpusort_calibrate(). */
extern void gpusort_put_constant(ReturnSetInfo *rsinfo, const char *name, int log2_rows,
								 double builtin, double measured);

/*
 * Has every GPU measured, waits for that, forgets what jobs have taught of it, and returns what
 * was measured beside the library's costs: nanoseconds a byte, a job, a row.
 */
extern void gpusort_calibrate_devices(ReturnSetInfo *rsinfo);

#endif							/* GPUSORT_DEVICE_MODEL_H */
