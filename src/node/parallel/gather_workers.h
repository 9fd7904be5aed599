/*
 * gather_workers.h
 *	  What has become of the workers of a parallel sort.
 */
#ifndef GPUSORT_GATHER_WORKERS_H
#define GPUSORT_GATHER_WORKERS_H

#include "postgres.h"

#include "nodes/execnodes.h"

/*
 * An ExchangeGone, whose argument is a ParallelSortState: has the worker of this ring ended, or
 * another that it may wait for, without a word?  An ERROR if one was taking rows.
 */
extern bool gather_worker_gone(void *arg, int ring);

/* Have all that were launched ended? */
extern bool gather_workers_ended(const GatherState *gather);

#endif							/* GPUSORT_GATHER_WORKERS_H */
