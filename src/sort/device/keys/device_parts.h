/*
 * device_parts.h
 *	  Key mode in parts: keys that are too many for one job, or for one device.
 */
#ifndef GPUSORT_DEVICE_PARTS_H
#define GPUSORT_DEVICE_PARTS_H

#include "key/key_split.h"
#include "sort/device/keys/device_keys.h"

/*
 * Would several devices at a time be quicker than one?  Of how many parts; 0: no.  Of
 * keys that have been routed to a device.
 */
extern int	device_parts_quicker(const DeviceKeys *dk);

/*
 * Opens the first job for keys that go in parts: so many at least, and as many as make them
 * fit.  False if there is no room for it, or no gain.
 */
extern bool device_parts_begin(DeviceKeys *dk, int parts, double patience_us);

/* Splits the keys, and sends the first of them. */
extern void device_parts_send(DeviceKeys *dk);

/*
 * The next chunk of the result, of whichever part, until device_parts_release(); false at the
 * end, or if it cannot be had, and then dk->lost holds.
 */
extern bool device_parts_next(DeviceKeys *dk, KeyChunk *chunk);
extern void device_parts_release(DeviceKeys *dk);

extern void device_parts_end(DeviceKeys *dk);

/* device_parts_host.c: the CPU sorts a part, where it lies; false if there is no memory for that. */
extern bool device_part_sort_here(SortEnv *env, Batch *batch, const KeySplit *split, int part,
								  int key_bits);

#endif							/* GPUSORT_DEVICE_PARTS_H */
