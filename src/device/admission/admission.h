/*
 * admission.h
 *	  Who gets on the device, and who waits.
 */
#ifndef GPUSORT_ADMISSION_H
#define GPUSORT_ADMISSION_H

#include "device/protocol.h"
#include "device/state.h"

/*
 * A slot for the job, with device_bytes of a device's budget and up to
 * want_chunks of the pool; *word is its state's word.  Waits up to patience_us for
 * its turn and for room.  NULL, and *why, if there is none.
 */
extern DeviceSlot *device_admit(const DeviceJobSpec *spec, uint64 device_bytes,
								int want_chunks, double patience_us,
								uint32 *word, DeviceState *why);

/*
 * A slot for a feeder of this job, with up to want_chunks of the pool, of those that were reserved.  NULL if
 * there is none, or no such job; it does not wait.
 */
extern DeviceSlot *device_admit_feeder(const DeviceJobName *into, const DeviceJobSpec *spec,
									   int want_chunks, uint32 *word);

/* Keeps room for so many feeders of the job to come, and no more; false if there is none. */
extern bool device_reserve_feeders(DeviceSlot *slot, int feeders);

/* Gives a slot back that was opened for this generation. */
extern void device_close_slot(DeviceSlot *slot, uint32 generation);

/* There is something new for the device process. */
extern void device_wake_process(void);

#endif							/* GPUSORT_ADMISSION_H */
