/*
 * service_internal.h
 *	  Functions that files of the GPU service share, in backends and in the supervisor.
 *
 * Those of the device process are in process_internal.h.
 */
#ifndef GPUSORT_SERVICE_SERVICE_INTERNAL_H
#define GPUSORT_SERVICE_SERVICE_INTERNAL_H

#include "postgres.h"

#include "service/protocol.h"
#include "service/service.h"

/* ------------------------------------------------------------------------
 * shared_state.c
 * ------------------------------------------------------------------------
 */

/*
 * What a service lacks, for users: that the settings ask for it, a GPU driver or the GPU
 * library.  Looks only at the file system.  NULL: nothing.
 */
extern const char *device_service_lacks(void);

/* Requests the service's shared memory.  Called while libraries are preloaded. */
extern void device_shared_init(void);

/* Sets path to that of the file that gpusort.device_library names. */
extern void device_library_path(char *path, size_t size);

/* ------------------------------------------------------------------------
 * failures.c
 * ------------------------------------------------------------------------
 */

/* Requests the counts' shared memory.  Called while libraries are preloaded. */
extern void device_failures_init(void);

/*
 * Counts a failure of a device, by CUDA's number; -1: not known.  Reasons that differ only
 * in their digits are the same reason.  of_sort: logs that a sort continues without the
 * GPU, unless this reason was logged recently.
 */
extern void device_failures_count(int device, const char *reason, bool of_sort);

/* Part of gpusort_stat_reset(). */
extern void device_failures_reset(void);

/* ------------------------------------------------------------------------
 * admission.c
 * ------------------------------------------------------------------------
 */

/*
 * Returns a slot for the job, with these bytes of a device's budget and chunks of the pool.
 * *word is its state word.  Looks for room for up to patience_us; 0: once.  Returns NULL and
 * sets *why if there is none.
 */
extern DeviceSlot *device_admit(const DeviceJobSpec *spec, uint64 bytes, double patience_us,
								uint32 *word, DeviceState *why);

/*
 * Returns one of the job's reserved slots for a producer, with chunks of the pool.  The slot has
 * the job's state word.  Does not wait.  NULL if none is reserved, or the job is no longer open.
 */
extern DeviceSlot *device_admit_producer(const DeviceJobName *into);

/*
 * Reserves this number of bytes of its device's memory for the job.  False if there is
 * no space.  A backend may lower slot->device_bytes at any time without this.
 */
extern bool device_reserve(DeviceSlot *slot, uint64 bytes);

/* Closes a slot that was opened for this generation. */
extern void device_close_slot(DeviceSlot *slot, uint32 generation);

/* ------------------------------------------------------------------------
 * keeper.c: called by the supervisor
 * ------------------------------------------------------------------------
 */

/* The supervisor's device process; 0: none is running. */
extern pid_t device_process;

/*
 * Starts a keeper, and run() in a child of the keeper, the device process; run() never
 * returns.  False, and errno, if there is no such process.
 */
extern bool keeper_start(void (*run) (void));

/* Sends a signal to the device process.  Does not wait for its effect. */
extern void keeper_signal(int signo);

/* Has the device process ended?  True once for each process; *status is that of waitpid(). */
extern bool keeper_process_ended(int *status);

#endif							/* GPUSORT_SERVICE_SERVICE_INTERNAL_H */
