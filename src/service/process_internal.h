/*
 * process_internal.h
 *	  A job as the device process knows it; private to process_*.c.
 *
 * process_calls.c makes the calls that wait, in threads;
 * process_job.c begins, steps and ends jobs, process_memory.c plans them and gets
 * their device memory, process_up.c takes their input and starts the sort,
 * process_down.c sends the result.
 */
#ifndef GPUSORT_SERVICE_PROCESS_INTERNAL_H
#define GPUSORT_SERVICE_PROCESS_INTERNAL_H

#include <signal.h>

#include "../cuda/gpusort_try.h"
#include "service/service.h"

typedef enum JobPhase
{
	JOB_NONE,					/* no job in this slot */
	JOB_UP,
	JOB_DOWN,
	JOB_OVER,					/* done or failed */
	JOB_HANGS					/* on a test's order: for ever */
} JobPhase;

/* Buffers that gathered rows wait in for their copy. */
#define GATHER_BUFFERS		2

struct ProcessJob;

/* A call that may wait for the device: made by a thread, which has the job until it is over. */
typedef GpusortStatus (*JobCall) (const DeviceApi *api, DeviceSlot *slot, struct ProcessJob *job,
								  GpusortError *err);

typedef struct ProcessJob
{
	JobPhase	phase;
	bool		prepared;		/* stream and events exist on device */
	int			device;
	GpusortStream *stream;
	GpusortEvent *chunk_event[DEVICE_JOB_CHUNKS];
	GpusortEvent *up_begin;		/* the first chunk's copies */
	GpusortEvent *up_end;
	GpusortEvent *sort_begin;
	GpusortEvent *sort_end;
	GpusortEvent *down_begin;	/* the first chunk's, until its chunk_event */

	JobCall		call;			/* under way, or over and not looked at; NULL: none */
	volatile uint64 call_since; /* device_now_us(); 0: it waits for a thread or a lock */
	pg_atomic_uint32 call_over;
	GpusortStatus call_status;	/* of one that is over */
	GpusortError call_error;

	/* device memory; from here on all is cleared when the job ends */
	char	   *keys;
	uint32	   *words;
	char	   *rows;
	char	   *keys_out;
	uint32	   *order;
	uint64	   *out_offset;
	char	   *scratch;
	uint64		scratch_bytes;
	char	   *gathered[GATHER_BUFFERS];

	uint64		max_rows;		/* that there is room for */
	uint64		max_row_bytes;
	int			algorithm;
	uint64		n;				/* rows up so far */
	uint64		row_bytes;
	uint32		started;		/* chunks whose copies are asked for, this way */
	uint32		finished;		/* ... and are through */
	uint32		total_down;		/* chunks that the result makes */
	uint32		rows_per_chunk; /* DEVICE_KEYS */
	uint32	   *chunk_row;		/* DEVICE_ROWS: first sorted row of each chunk */
	GpusortGather gather;
	uint64		waiting_since;	/* device_now_us(); 0: not for the device */
} ProcessJob;

/* process_calls.c */
extern void process_calls_init(const DeviceApi *api, ProcessJob *jobs);
extern void job_call(int slot_no, JobCall call);
extern bool job_call_over(const ProcessJob *job);

/* The device of the call that was begun last, of those under way; by CUDA's number, -1: there is none. */
extern int	process_calls_last_device(void);

/* process_crash.c: the thread's call is for this device, by CUDA's number; -1: it makes none. */
extern void process_crash_blames(int device);

/* Takes the signals of a crash out of the set: blocked, they would not reach their handler. */
extern void process_crash_unblock(sigset_t *set);

/* process_calls.c: in a call: waits for the device's lock (service.h), which does not count as the call's time. */
extern void job_call_lock(ProcessJob *job, int device);

/* process_memory.c */
extern void job_describe_problem(const DeviceSlot *slot, const ProcessJob *job,
								 uint64 n, GpusortProblem *problem);
extern void job_describe_gather(const DeviceSlot *slot, ProcessJob *job, uint64 n);
extern GpusortStatus job_allocate(const DeviceApi *api, const DeviceSlot *slot,
								  ProcessJob *job, GpusortError *err);
extern void job_release(const DeviceApi *api, ProcessJob *job);

/*
 * More room, as the slot says, if there is memory for it (*ok).  An error only if the
 * job cannot go on with what it had, either.  Nothing of it is under way.
 */
extern GpusortStatus job_grow(const DeviceApi *api, DeviceSlot *slot, ProcessJob *job, bool *ok,
							  GpusortError *err);

#endif							/* GPUSORT_SERVICE_PROCESS_INTERNAL_H */
