/*
 * failures.h
 *	  Failures of devices by device and reason, for administrators.
 */
#ifndef GPUSORT_FAILURES_H
#define GPUSORT_FAILURES_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Reasons that are kept, of all devices; beyond that the one that is longest ago is dropped. */
#define DEVICE_FAILURES			64
#define DEVICE_FAILURE_SIZE		160

typedef struct DeviceFailureCount
{
	int			device;			/* CUDA's number; -1: not known, or none */
	uint64		failures;		/* 0: this place is empty */
	TimestampTz last;
	char		reason[DEVICE_FAILURE_SIZE];	/* of the last */
} DeviceFailureCount;

/* For _PG_init, where there is a service. */
extern void device_failures_init(void);

/*
 * Counts a failure.  Reasons that differ in their numbers alone are one.  For backends and the
 * supervisor; without a service nothing is done.
 */
extern void device_failures_count(int device, const char *reason);

/* A copy of all of them, into room for DEVICE_FAILURES; returns how many there are. */
extern int	device_failures_read(DeviceFailureCount *all);

extern void device_failures_reset(void);

#endif							/* GPUSORT_FAILURES_H */
