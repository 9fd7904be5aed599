/*
 * fault.h
 *	  Faults that tests order: gpusort.device_fault.
 *
 * A fault happens at a place in a job's way, and is of a kind; backend and process ask
 * at each place, and what follows is here.
 */
#ifndef GPUSORT_FAULT_H
#define GPUSORT_FAULT_H

#include "device/protocol.h"

struct ProcessJob;

typedef enum FaultPlace
{
	FAULT_NOWHERE,
	FAULT_ADMISSION,			/* the backend asks for room */
	FAULT_START,				/* the job begins */
	FAULT_UP,					/* the first chunk is up */
	FAULT_SORT,					/* all are, and it is to be sorted */
	FAULT_DOWN,					/* the first chunk is down */
	FAULT_CLOSE					/* the job is over */
} FaultPlace;

/* What is ordered now; a job's own is in its description. */
extern DeviceFault fault_ordered(void);

/* What waiting for room may cost. */
extern double fault_patience_us(double patience_us);

/* The backend has the service's lock, and keeps it until it is killed if that is ordered. */
extern void fault_admission(DeviceFault fault);

/* No memory or an error of CUDA's, if that is ordered for the place. */
extern GpusortStatus fault_error(const DeviceSlot *slot, FaultPlace place, GpusortError *err);

/* Is a stop ordered for the place? */
extern bool fault_will_stop(const DeviceSlot *slot, FaultPlace place);

/* Does the process end or get stuck here, or the job hang?  True for the latter. */
extern bool fault_stops(const DeviceSlot *slot, struct ProcessJob *job, FaultPlace place);

/* Does a job that hangs look as if the device did? */
extern bool fault_stalls(const DeviceSlot *slot);

/* What a device may take for the job's work: DEVICE_PATIENCE_MS, or a test's. */
extern int	fault_device_patience_ms(const DeviceSlot *slot);

/* Is a job that is over kept a while yet? */
extern bool fault_lingers(const DeviceSlot *slot, const struct ProcessJob *job);

/* A chunk of the result has come: it is made wrong, if that is ordered. */
extern void fault_corrupt(DeviceSlot *slot, uint32 counter);

#endif							/* GPUSORT_FAULT_H */
