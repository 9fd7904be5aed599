/*
 * process_internal.h
 *	  Functions that the device process's files share.
 *
 * process.c has the main loop, process_job.c moves each job forward, process_memory.c
 * has the device memory of jobs, process_calls.c makes driver calls in threads and ends
 * the process, process_measure.c measures devices.
 */
#ifndef GPUSORT_SERVICE_PROCESS_INTERNAL_H
#define GPUSORT_SERVICE_PROCESS_INTERNAL_H

#include "../cuda/gpusort_try.h"
#include "service/service_internal.h"

/* The GPU library, and the contexts of the devices in DeviceShared.devices. */
extern const GpusortCudaApi *cuda;
extern GpusortContext *device_contexts[DEVICE_MAX];

/* Exit codes of the device process; 1 is any other error. */
#define DEVICE_EXIT_NOTHING		3	/* no usable library: start no other process */
#define DEVICE_EXIT_LATER		4	/* no device could be opened: try later */
#define DEVICE_EXIT_IDLE		5	/* idle devices were released */

/* Result of a step of a job: a set of these. */
#define DEVICE_STEP_PROGRESS	1	/* something was done */
#define DEVICE_STEP_IN_FLIGHT	2	/* the device is working: ask again soon */
#define DEVICE_STEP_LOCKED		4	/* the device is locked by another job */

/* Buffers for gathered rows that wait for their copy. */
#define GATHER_BUFFERS		2

/* ProcessJob.blocks: blocks of the input come first. */
#define JOB_INPUT_BLOCKS	3
#define JOB_BLOCKS			(9 + GATHER_BUFFERS)

/* ProcessJob.events */
typedef enum JobEvent
{
	EVENT_UP_BEGIN,				/* around the first chunk's copies up */
	EVENT_UP_END,
	EVENT_SORT_BEGIN,
	EVENT_SORT_END,
	EVENT_DOWN_BEGIN,			/* before the first chunk's copies down */
	EVENT_CHUNK,				/* + place of a chunk: its copies have ended */
	JOB_EVENTS = EVENT_CHUNK + DEVICE_JOB_CHUNKS
} JobEvent;

struct ProcessJob;

/* A call that may wait for the device.  A thread makes it and owns the job meanwhile. */
typedef GpusortStatus (*JobCall) (DeviceSlot *slot, struct ProcessJob *job,
								  GpusortError *err);

/* A job as the device process sees it.  DeviceSlot.status is its state. */
typedef struct ProcessJob
{
	bool		begun;			/* false: there is no job in this slot */
	bool		prepared;		/* stream and events exist on "device" */
	int			device;
	GpusortStream *stream;
	GpusortEvent *events[JOB_EVENTS];

	struct
	{
		/* under way, or ended and not evaluated yet; NULL: none */
		JobCall		what;

		/* device_now_us() of its start; 0: it waits for the lock */
		volatile uint64 since;
		pg_atomic_uint32 over;	/* it has ended */
		GpusortStatus status;	/* its result */
		GpusortError error;
	}			call;

	/*
	 * Device memory, NULL where there is none.  The fields from here to the
	 * end are cleared when the job ends.
	 */
	union
	{
		void	   *blocks[JOB_BLOCKS];
		struct
		{
			/* input */
			char	   *keys;
			uint32	   *words;	/* row ids, or offsets of rows */
			char	   *rows;
			/* without data before the sort */
			char	   *keys_out;	/* sorted keys */
			uint32	   *order;	/* sorted row ids, or numbers of rows */
			uint32	   *first;	/* DEVICE_ROWS: numbers of the groups' first
								 * rows */
			uint32	   *ends;	/* ends of the groups, if duplicates are
								 * dropped */
			uint64	   *out_offset; /* DEVICE_ROWS: offsets of the sorted rows */
			char	   *scratch;
			char	   *gathered[GATHER_BUFFERS];
		};
	};
	uint64		scratch_bytes;
	uint64		max_rows;		/* rows that the memory has space for */
	uint64		max_row_bytes;
	int			algorithm;		/* the library's index */
	uint64		n;				/* rows up so far */
	uint64		rows_down;		/* rows of the result */
	uint64		row_bytes;		/* bytes of rows up so far */
	uint32		started;		/* chunks whose copies began, this direction */
	uint32		finished;		/* chunks whose copies ended, this direction */
	uint32		total_down;		/* chunks of the result */
	uint32		rows_per_chunk; /* DEVICE_KEYS */
	uint32	   *chunk_row;		/* DEVICE_ROWS: first sorted row of each chunk */
	GpusortGather gather;

	/* device_now_us() when it began to wait for the device; 0: it does not wait */
	uint64		waiting_since;
} ProcessJob;

/* ------------------------------------------------------------------------
 * process.c
 * ------------------------------------------------------------------------
 */

/* The device process.  Never returns. */
pg_noreturn extern void device_process_main(void);

/* ------------------------------------------------------------------------
 * process_calls.c
 * ------------------------------------------------------------------------
 */

/*
 * To be called once, before the first step.  Installs signal handlers, too, which count
 * crashes as failures of a device.
 */
extern void process_calls_init(void);

/* Starts a call for the job in a slot. */
extern void job_call(int slot_no, JobCall call);

/* Has the job's call ended? */
extern bool job_call_over(const ProcessJob *job);

/*
 * A device's lock is held while a context's memory, streams and events are created or
 * destroyed.  A call waits for it with job_call_lock(); the wait does not count as the
 * call's time.  The loop only tries to take it.
 */
extern void job_call_lock(ProcessJob *job, int device);
extern bool process_memory_trylock(int device);
extern void process_memory_unlock(int device);

/* Queues a message for the server's log.  device: CUDA's number of a failed device, or -1. */
extern void device_process_log(int device, const char *format,...) pg_attribute_printf(2, 3);

/*
 * Ends the process with an exit code.  detail may be empty.  With DEVICE_EXIT_NOTHING
 * only superusers see it.
 */
pg_noreturn extern void device_process_gives_up(int code, const char *what, const char *detail);

/* Ends the process after an error of the device life.at_device. */
pg_noreturn extern void device_process_fails(const GpusortError *err);

/* Reports that a device hangs, and waits until the supervisor kills the process. */
pg_noreturn extern void device_process_hangs(int device, int timeout_ms);

/* ------------------------------------------------------------------------
 * process_memory.c
 * ------------------------------------------------------------------------
 */

/* Sets *problem to the job's sort of n rows. */
extern void job_describe_problem(const DeviceSlot *slot, const ProcessJob *job,
								 uint64 n, GpusortProblem *problem);

/* Sets *problem to the dropping of duplicates among n sorted keys of the job. */
extern void job_describe_groups(const DeviceSlot *slot, const ProcessJob *job, uint64 n,
								GpusortGroups *problem);

/* Sets job->gather to the gathering of the job's n sorted rows. */
extern void job_describe_gather(const DeviceSlot *slot, ProcessJob *job, uint64 n);

/*
 * Chooses the algorithm, and allocates device memory for the rows that the job was opened
 * for.  After an error the job may have some memory.
 */
extern GpusortStatus job_allocate(const DeviceSlot *slot,
								  ProcessJob *job, GpusortError *err);

/* Frees the job's device memory and clears the job.  Stream and events stay. */
extern void job_release(ProcessJob *job);

/*
 * Grows the job's memory as the slot asks.  slot->grow_ok is false if there is no memory for
 * it.  Returns an error only if the job cannot continue with its old size either.  No copy of
 * the job may be under way.
 */
extern GpusortStatus job_grow(DeviceSlot *slot, ProcessJob *job, GpusortError *err);

/* ------------------------------------------------------------------------
 * process_job.c, process_measure.c
 * ------------------------------------------------------------------------
 */

/* The jobs by slot. */
extern ProcessJob process_jobs[DEVICE_SLOTS];

/* Does what can be done now for the job in a slot.  Returns a set of DEVICE_STEP_*. */
extern int	device_job_step(int slot_no);

/* Does one step of measuring a device; false if none is due.  There must be no jobs. */
extern bool device_measure_step(int device);

#endif							/* GPUSORT_SERVICE_PROCESS_INTERNAL_H */
