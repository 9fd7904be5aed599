/*
 * device_check.h
 *	  What a device says is checked before it is used.
 */
#ifndef GPUSORT_DEVICE_CHECK_H
#define GPUSORT_DEVICE_CHECK_H

#include "compat.h"
#include "sort/device/keys/device_keys.h"

/* What the batch, its result and checking its rids take; and is there memory for that? */
extern Size device_check_bytes(const SortEnv *env, const Batch *batch);
extern bool device_check_fits(const SortEnv *env, const Batch *batch);

/* All rows are staged: their rids are those that may come. */
extern void device_check_begin(DeviceKeys *dk);

/*
 * Rids that came: is each that of a row, and the first time?  If not, none of them
 * counts as having come.
 */
extern bool device_check_rids(DeviceKeys *dk, const uint32 *rids, size_t n);

/* The sum of n keys, whatever their order. */
extern uint64 device_check_sum(const JobSecret *secret, const char *keys, int width, size_t n);

/*
 * Keys that came: do they ascend, and from the last that came before?  The last of all
 * must also complete the sum of those that were sent.
 */
extern bool device_check_keys(KeyCheck *check, const char *keys, int width, size_t n, bool last);

/*
 * The device failed when so many rows had been returned by their rids, and the CPU has sorted them
 * all: are they its first rows?  An ERROR if not.
 */
extern void device_check_given(const DeviceKeys *dk, const Sorted *sorted, size_t given);

/* Rows were given out that are not the beginning of the right result. */
pg_noreturn extern void device_wrong_beginning(void);

#endif							/* GPUSORT_DEVICE_CHECK_H */
