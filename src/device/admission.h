/*
 * admission.h
 *	  Who gets on the device, and who waits: slots, chunks, device memory.
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
								uint32 *word, RouteDevice *why);

/*
 * The job in the slot shall have so much of its device's memory; false if there is not
 * so much left for it.  What it has can be given back at any time, by the backend.
 */
extern bool device_reserve(DeviceSlot *slot, uint64 bytes);

/* Gives a slot back that was opened for this generation. */
extern void device_close_slot(DeviceSlot *slot, uint32 generation);

/* For a backend that ends: it no longer waits. */
extern void device_leave_queue(void);

/* The service is gone or there is another one: everybody who waits looks again. */
extern void device_wake_queue(void);

/* A slot has become free: the first who waits looks again.  For any process. */
extern void device_wake_first(void);

/* There is something new for the device process. */
extern void device_wake_process(void);

/* The monotonic clock that all processes share, in microseconds. */
extern uint64 device_now_us(void);

#endif							/* GPUSORT_ADMISSION_H */
