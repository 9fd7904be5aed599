/*
 * parallel_device.h
 *	  A parallel sort whose rows are all in one job on a device: the leader's part.
 */
#ifndef GPUSORT_PARALLEL_DEVICE_H
#define GPUSORT_PARALLEL_DEVICE_H

#include "node/parallel/parallel_sort.h"

/*
 * Before there are workers: opens a job for their rows, if that is quicker, or is wanted by
 * gpusort.algorithm.
 */
extern bool parallel_device_lead(ParallelSortState *node);

/*
 * The workers have been launched: waits for their rows, and has them sorted.  False if they
 * are lost; otherwise the node's phase says where they are.
 */
extern bool parallel_device_sort(ParallelSortState *node);

#endif							/* GPUSORT_PARALLEL_DEVICE_H */
