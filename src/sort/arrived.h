/*
 * arrived.h
 *	  Batches that need no sort.
 */
#ifndef GPUSORT_ARRIVED_H
#define GPUSORT_ARRIVED_H

#include "sort/order.h"

/*
 * As order_batch(), if the rows came in order, or each before the last; false if they
 * did not, or if an algorithm is to be tried all the same.
 */
extern bool arrived_in_order(SortEnv *env, Batch *batch, struct DeviceKeys *early, Sorted *sorted);

#endif							/* GPUSORT_ARRIVED_H */
