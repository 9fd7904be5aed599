/*
 * settings.h
 *	  Every GUC of the extension.
 */
#ifndef GPUSORT_SETTINGS_H
#define GPUSORT_SETTINGS_H

#include "postgres.h"

struct Algorithm;				/* kernel/algorithm.h */

/* Faults of the service that a test can order for a job. */
typedef enum DeviceFault
{
	DEVICE_FAULT_NONE,
	DEVICE_FAULT_MEMORY_START,	/* no device memory when the job begins */
	DEVICE_FAULT_MEMORY_SORT,	/* ... when it is to be sorted */
	DEVICE_FAULT_ERROR_UP,		/* a CUDA error after the first chunk up */
	DEVICE_FAULT_ERROR_SORT,
	DEVICE_FAULT_ERROR_DOWN,	/* ... after the first chunk down */
	DEVICE_FAULT_KILL_UP,		/* the process is killed at the same points */
	DEVICE_FAULT_KILL_SORT,
	DEVICE_FAULT_KILL_DOWN,
	DEVICE_FAULT_HANG_UP,		/* ... or the job stops there, as if it had no more to do */
	DEVICE_FAULT_HANG_SORT,
	DEVICE_FAULT_HANG_DOWN,
	DEVICE_FAULT_STALL,			/* the device never gets on; and little patience */
	DEVICE_FAULT_FREEZE,		/* the process is stuck in a call, likewise */
	DEVICE_FAULT_CORRUPT,		/* the result is wrong: a rid comes twice, or a bit is */
	DEVICE_FAULT_CORRUPT_SIZE,	/* a row of it says that it is longer than memory */
	DEVICE_FAULT_CORRUPT_BIT,	/* the highest bit of a rid or key, a row's t_hoff */
	DEVICE_FAULT_CORRUPT_PLACE, /* a chunk's content is said to be outside of it */
	DEVICE_FAULT_CORRUPT_COUNT, /* a chunk is said to have a row too many */
	DEVICE_FAULT_CORRUPT_LATE,	/* in the second chunk a row or key comes twice */
	DEVICE_FAULT_PATIENT,		/* none: waits for room, however long */
	DEVICE_FAULT_LINGER,		/* patient, and its jobs' ends take a while */
	DEVICE_FAULT_HOLD_LOCK,		/* the backend never lets go of the service's lock */
	DEVICE_FAULT_LATE_LEADER,	/* none: workers have ended when their leader first looks for them */
	DEVICE_FAULT_IMPATIENT		/* none: the device may take a second for the job's work */
} DeviceFault;

extern bool gpusort_enable;
extern int	gpusort_min_rows;
extern int	gpusort_threads;
extern int	gpusort_max_threads;	/* of all sessions together; -1: max_worker_processes */
extern bool gpusort_verify;
extern int	gpusort_run_rows;

/* the device and its service */
extern char *gpusort_device;
extern uint64 gpusort_device_mask;	/* a bit per device that may be used */
extern bool gpusort_device_allowed; /* an administrator's word on it */
extern int	gpusort_device_share;	/* percent of a device's memory for one backend */
extern int	gpusort_device_memory;	/* MB on each device; 0: what is free */
extern bool gpusort_device_learn;
extern int	gpusort_device_idle_blocks; /* seconds; 0: never */
extern int	gpusort_device_idle_context;
extern int	gpusort_staging_memory; /* MB; -1: the default where there is a driver */
extern char *gpusort_device_library;
extern int	gpusort_device_fault;	/* a DeviceFault */

/* Is gpusort.device_library not the library that we ship? */
extern bool gpusort_device_library_set(void);

extern void gpusort_settings_init(void);

/* The forced algorithm, NULL for auto. */
extern const struct Algorithm *gpusort_forced_algorithm(void);

#endif							/* GPUSORT_SETTINGS_H */
