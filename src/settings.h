/*
 * settings.h
 *	  The configuration parameters of the extension.
 */
#ifndef GPUSORT_SETTINGS_H
#define GPUSORT_SETTINGS_H

#include "postgres.h"

struct Algorithm;				/* kernel/algorithm.h */

/* Faults of the service that a test can inject into a job */
typedef enum DeviceFault
{
	DEVICE_FAULT_NONE,
	DEVICE_FAULT_MEMORY_START,	/* out of device memory when the job begins */
	DEVICE_FAULT_MEMORY_SORT,	/* out of device memory when the sort begins */
	DEVICE_FAULT_ERROR_UP,		/* CUDA error after the first chunk to the device */
	DEVICE_FAULT_ERROR_SORT,	/* CUDA error in the sort */
	DEVICE_FAULT_ERROR_DOWN,	/* CUDA error after the first chunk back */
	DEVICE_FAULT_KILL_UP,		/* the device process is killed, at the same points */
	DEVICE_FAULT_KILL_SORT,
	DEVICE_FAULT_KILL_DOWN,
	DEVICE_FAULT_HANG_UP,		/* the job makes no progress, from the same points on */
	DEVICE_FAULT_HANG_SORT,
	DEVICE_FAULT_HANG_DOWN,
	DEVICE_FAULT_STALL,			/* the device makes no progress; short timeouts */
	DEVICE_FAULT_FREEZE,		/* the device process hangs in a call; short timeouts */
	DEVICE_FAULT_CORRUPT,		/* wrong result: a repeated rid or a wrong bit */
	DEVICE_FAULT_CORRUPT_SIZE,	/* a returned row has an impossible length */
	DEVICE_FAULT_CORRUPT_BIT,	/* wrong highest bit of a rid or key, or wrong t_hoff */
	DEVICE_FAULT_CORRUPT_PLACE, /* a chunk's offset lies outside the chunk */
	DEVICE_FAULT_CORRUPT_COUNT, /* a chunk's row count is too high by one */
	DEVICE_FAULT_CORRUPT_LATE,	/* a row or key repeats in the second chunk */
	DEVICE_FAULT_PATIENT,		/* no fault: waits for admission without limit */
	DEVICE_FAULT_LINGER,		/* as PATIENT, and the end of a job is delayed */
	DEVICE_FAULT_HOLD_LOCK,		/* the backend does not release the service's lock */
	DEVICE_FAULT_LATE_LEADER,	/* no fault: the leader looks for its workers after they end */
	DEVICE_FAULT_IMPATIENT		/* no fault: a timeout of one second for the job's work */
} DeviceFault;

extern bool gpusort_enable;
extern bool gpusort_index_builds;
extern bool gpusort_plan_grouping;
extern int	gpusort_plan_grouping_min_rows;
extern int	gpusort_min_rows;
extern int	gpusort_threads;
extern int	gpusort_max_threads;	/* of all sessions together; -1: max_worker_processes */
extern bool gpusort_verify;
extern int	gpusort_run_rows;

/* GPUs and their service */
extern char *gpusort_device;
extern uint64 gpusort_device_mask;	/* a bit per device that may be used */
extern bool gpusort_device_allowed; /* superuser's permission to use GPUs */
extern int	gpusort_device_share;	/* percent of a device's memory for one backend */
extern int	gpusort_device_memory;	/* MB on each device; 0: the free memory */
extern bool gpusort_device_learn;
extern int	gpusort_device_idle_blocks; /* seconds; 0: never */
extern int	gpusort_device_idle_context;	/* seconds; 0: never */
extern int	gpusort_staging_memory; /* MB; -1: the default if there is a driver */
extern char *gpusort_device_library;
extern int	gpusort_device_fault;	/* a DeviceFault */

/* Is gpusort.device_library set to another library than the default? */
extern bool gpusort_device_library_set(void);

extern void gpusort_settings_init(void);

/* The forced algorithm; NULL for auto. */
extern const struct Algorithm *gpusort_forced_algorithm(void);

#endif							/* GPUSORT_SETTINGS_H */
