/*
 * scattered.h
 *	  Inputs of which each part is in order, but not the whole.
 */
#ifndef GPUSORT_SCATTERED_H
#define GPUSORT_SCATTERED_H

#include "route/router.h"

/* An input with at most one descent for so many records may be nearly in order. */
#define ORDERED_PER_DESCENT	16

/* Are these records so?  False if they cannot be meant for an input nearly in order. */
extern bool route_scattered(const RouteFacts *facts, const void *recs);

#endif							/* GPUSORT_SCATTERED_H */
