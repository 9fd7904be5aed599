/*
 * device_sort.h
 *	  The sorter's device half.
 */
#ifndef GPUSORT_DEVICE_SORT_H
#define GPUSORT_DEVICE_SORT_H

#include "node/sorter.h"

/*
 * device_keys.c: sorts the staged rows' keys on the device into sorter->rids, if
 * the route goes there and gets through.  False: the CPU has to; facts->device
 * tells why, and facts and decision are as the CPU's route wants to find them.
 */
extern bool device_keys_sort(Sorter *sorter, const KeyLayout *layout, uint64 key_range);

/*
 * A GPU algorithm that was forced but did not sort: the decision that the CPU
 * made without it says so.
 */
extern void device_note_unforced(RouteFacts *facts, RouteDecision *decision);

/* The device failed this sort: logged, counted, not tried again. */
extern void device_note_failure(Sorter *sorter, const char *why);

#endif							/* GPUSORT_DEVICE_SORT_H */
