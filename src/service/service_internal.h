/*
 * service_internal.h
 *	  What the GPU service's modules share.
 *
 * All but device_reserve() and device_largest_job() is asked under the lock.
 */
#ifndef GPUSORT_SERVICE_SERVICE_INTERNAL_H
#define GPUSORT_SERVICE_SERVICE_INTERNAL_H

#include "postgres.h"

#include "miscadmin.h"
#include "service/device_state.h"
#include "service/protocol.h"
#include "storage/proc.h"

/* What a job asks for. */
typedef struct Request
{
	uint64		bytes;			/* of one device's memory */
	int			want_chunks;
	uint64		devices;		/* a bit per CUDA number: those that could hold it */
} Request;

/* What is free. */
typedef struct Room
{
	uint64		memory[DEVICE_MAX];
	int			slot;			/* a free one, or -1 */
	int			slots;
	int			chunks;
	uint8		taken[DEVICE_MAX_CHUNKS / BITS_PER_BYTE];
} Room;

static inline uint64
room_device_bit(int device)
{
	return UINT64CONST(1) << device_shared->devices[device].index;
}

static inline bool
room_in_use(const DeviceSlot *slot)
{
	return pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state) !=
		device_slot_word(0, DEVICE_SLOT_FREE);
}

/* One that is closing is as good as gone. */
static inline bool
room_is_open(const DeviceSlot *slot)
{
	return device_slot_state(pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state)) == DEVICE_SLOT_OPEN;
}

/* This backend's job? */
static inline bool
room_is_mine(const DeviceSlot *slot)
{
	return slot->pid == MyProcPid && room_is_open(slot);
}

/* Who we are: this process, or as a parallel worker the leader. */
static inline int
room_session(void)
{
	return MyProc->lockGroupLeader != NULL ? MyProc->lockGroupLeader->pid : MyProcPid;
}

/*
 * Bytes of the largest job that a device would take of this backend, beside what it has, if
 * the others had nothing; and on how many devices it may have jobs.  Takes the lock.
 */
extern uint64 device_largest_job(int *devices);

/*
 * The job in the slot shall have so much of its device's memory; false if there is not
 * so much left for it.  What it has can be given back at any time, by the backend.
 */
extern bool device_reserve(DeviceSlot *slot, uint64 bytes);

/* ------------------------------------------------------------------------
 * Who waits for a device.
 * ------------------------------------------------------------------------
 */

/* For a backend that ends: it no longer waits. */
extern void device_leave_queue(void);

/* The service is gone or there is another one: everybody who waits looks again. */
extern void device_wake_queue(void);

/* A slot has become free: the first who waits looks again.  For any process. */
extern void device_wake_first(void);

/* ------------------------------------------------------------------------
 * For admission.c, under the lock
 * ------------------------------------------------------------------------
 */

/* Does this backend wait?  And as what?  Without the lock. */
extern uint32 queue_wait_event(void);

/* ------------------------------------------------------------------------
 * Who gets on the device, and who waits.
 * ------------------------------------------------------------------------
 */

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
extern DeviceSlot *device_admit_producer(const DeviceJobName *into, const DeviceJobSpec *spec,
									   int want_chunks, uint32 *word);

/* Keeps room for so many feeders of the job to come, and no more; false if there is none. */
extern bool device_reserve_producers(DeviceSlot *slot, int producers);

/* Gives a slot back that was opened for this generation. */
extern void device_close_slot(DeviceSlot *slot, uint32 generation);

/* There is something new for the device process. */
extern void device_wake_process(void);

/* ------------------------------------------------------------------------
 * Which failures of devices are news for the server's log.
 * ------------------------------------------------------------------------
 */

/* A sort goes on without the GPU, and why: logged if that is news. */
extern void device_log_failure(const char *why);

/* ------------------------------------------------------------------------
 * Faults that tests order: gpusort.device_fault.
 *
 * A fault happens at a place in a job's way, and is of a kind; backend and process ask
 * at each place, and what follows is here.
 * ------------------------------------------------------------------------
 */

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

/* ------------------------------------------------------------------------
 * The keeper: a process between the supervisor and the device process.
 *
 * All functions are the supervisor's.
 * ------------------------------------------------------------------------
 */

/*
 * Starts a keeper, and in a child of the keeper run(), which never returns.  The child's PID;
 * 0 if there is no such process: errno says why.
 */
extern pid_t keeper_start(void (*run) (void));

/* The device process gets this signal.  It is not waited for. */
extern void keeper_signal(int signo);

/*
 * Has the device process ended?  True once for each process, with its status as waitpid()
 * has it.
 */
extern bool keeper_process_ended(int *status);

#endif							/* GPUSORT_SERVICE_SERVICE_INTERNAL_H */
