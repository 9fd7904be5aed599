/*
 * service.h
 *	  The supervisor and the device process; see protocol.h.
 */
#ifndef GPUSORT_SERVICE_H
#define GPUSORT_SERVICE_H

#include "compat.h"
#include "device/protocol.h"

/*
 * Called while libraries are preloaded, after the settings are defined.  False if
 * there will be no service: not preloaded, no staging memory, or no background worker.
 */
extern bool device_service_init(void);

/* Is there no service because max_worker_processes left none for it? */
extern bool device_service_lacks_worker(void);

/*
 * What the supervisor shall do now and then, and at_once when it ends; to be set while
 * libraries are preloaded.
 */
extern void (*device_supervisor_saves) (bool at_once);

/* process.c: the device process; never returns. */
pg_noreturn extern void device_process_main(void);

/*
 * process_end.c: the process has something to say for the server's log.  device: CUDA's number of
 * the one that fails, or -1.
 */
extern void device_process_notes(int device, const char *format,...) pg_attribute_printf(2, 3);

/*
 * The process ends with one of DEVICE_EXIT_; detail may be empty, and is not for everyone
 * if it is DEVICE_EXIT_NOTHING.
 */
pg_noreturn extern void device_process_gives_up(int code, const char *what, const char *detail);

/* The process ends, after an error of the device; in words for the log. */
pg_noreturn extern void device_process_fails(const char *format,...) pg_attribute_printf(1, 2);

/* Wakes the supervisor: something in shared memory is for it to see. */
extern void device_wake_supervisor(void);

/* The device has made no progress for so long: the supervisor will end the process. */
pg_noreturn extern void device_process_hangs(int device, int patience_ms);

typedef struct DeviceApi
{
	const GpusortCudaApi *cuda;
	GpusortContext *contexts[DEVICE_MAX];	/* as DeviceShared.devices */
} DeviceApi;

/* Exit codes of a process. */
#define DEVICE_EXIT_NOTHING		3	/* there is nothing to serve with */
#define DEVICE_EXIT_LATER		4	/* there may be, later */
#define DEVICE_EXIT_IDLE		5	/* everything was given back */

/* What a step found; a set of these. */
#define DEVICE_STEP_PROGRESS	1	/* something was done */
#define DEVICE_STEP_IN_FLIGHT	2	/* the device is at work: ask again soon */
#define DEVICE_STEP_LOCKED		4	/* ... with another job's call, which has the device's lock */

/* process_cache.c: before the driver starts: it shall compile once, not in each process. */
extern void device_process_keep_code(void);

/* process_crash.c: crashes are counted from here on, jobs being initialised. */
extern void process_crash_init(void);

/* process_job.c: once, before the first step. */
extern void device_jobs_init(const DeviceApi *api);

/* What can be done for the job in a slot now. */
extern int	device_job_step(const DeviceApi *api, int slot_no);

/*
 * process_idle.c: gives back what no job uses; ends the process when that is
 * everything.  Called all the time.
 */
extern void device_process_house(const DeviceApi *api);

/*
 * process_measure.c: a step of measuring a device, if there is one to be done; for when
 * there is no job.
 */
extern bool device_measure_step(const DeviceApi *api, int device);

/* Looks how much memory there is for jobs now; not while a call is getting some. */
extern void device_read_memory(const DeviceApi *api, int device);

/*
 * process_calls.c: the thread that makes or gives back a context's memory, streams and events has
 * its device's lock (in calls: job_call_lock()); the loop never waits for it.
 */
extern bool process_memory_trylock(int device);
extern void process_memory_unlock(int device);

#endif							/* GPUSORT_SERVICE_H */
