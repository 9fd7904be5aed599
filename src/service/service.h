/*
 * service.h
 *	  The GPU service, for backends.
 */
#ifndef GPUSORT_SERVICE_SERVICE_H
#define GPUSORT_SERVICE_SERVICE_H

#include "postgres.h"

#include "compat.h"
#include "datatype/timestamp.h"
#include "service/device_state.h"
#include "service/protocol.h"

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

/* ------------------------------------------------------------------------
 * The supervisor and the device process; see protocol.h.
 * ------------------------------------------------------------------------
 */

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

/* process_job.c: once, before the first step. */
extern void device_jobs_init(const DeviceApi *api);

/* What can be done for the job in a slot now. */
extern int	device_job_step(const DeviceApi *api, int slot_no);

/*
 * process_measure.c: a step of measuring a device, if there is one to be done; for when
 * there is no job.
 */
extern bool device_measure_step(const DeviceApi *api, int device);

/*
 * process_calls.c: the thread that makes or gives back a context's memory, streams and events has
 * its device's lock (in calls: job_call_lock()); the loop never waits for it.
 */
extern bool process_memory_trylock(int device);
extern void process_memory_unlock(int device);

/* ------------------------------------------------------------------------
 * Shared memory of the device service: job slots and the staging pool.
 * ------------------------------------------------------------------------
 */

/* Does this machine seem to have a GPU driver?  Asks the file system only. */
extern bool device_driver_present(void);

/* The file that gpusort.device_library means, and whether it is there. */
extern void device_library_path(char *path, size_t size);
extern bool device_library_present(void);

/* ------------------------------------------------------------------------
 * Which device a sort of this backend would get now, and what else goes on there.
 * ------------------------------------------------------------------------
 */

typedef struct DeviceAvailability
{
	int			device;			/* index into DeviceShared.devices */
	uint64		memory;			/* of it that we could have more; 0: none, or not known */
	uint64		all_memory;		/* ... of all devices that we may use */
	double		others;			/* other backends' jobs that are under way there */
} DeviceAvailability;

extern void device_availability(DeviceAvailability *availability);

/* Other backends' jobs that are under way on a device. */
extern double device_others(int device);

/* ------------------------------------------------------------------------
 * A backend's sort on the device: the client's half of protocol.h.
 *
 *		job = device_job_open(cxt, &spec, patience_us, &why);
 *		while (rows)
 *			chunk = device_job_next_up(job);  fill it;  device_job_post(job, &desc);
 *		device_job_sort(job);
 *		while ((chunk = device_job_next_down(job, &desc)) != NULL)
 *			read it;  device_job_release(job);
 *		device_job_close(job);
 *
 * Every function may find that the job is lost: then it returns NULL or false,
 * job->lost holds, and the sort has to go on without it.  None raises an error
 * for the device's sake.  Waits are interruptible: a cancelled query leaves by
 * its own error, and the job is closed with the memory context it was opened in.
 * ------------------------------------------------------------------------
 */

typedef struct DeviceJob
{
	DeviceSlot *slot;			/* NULL: closed */
	uint32		word;			/* the slot's state while the job is ours */
	bool		failed;
	char		why[128];		/* why it is lost, for EXPLAIN and the log */
	uint32		posted;
	uint32		got;			/* chunks of the result, */
	uint32		read;			/* and those of them that were released */
	uint64		rows_up;		/* feeders' are added by who knows them */
	uint64		bytes_up;
	uint64		bytes_down;
	DeviceJobTimes times;		/* set when the first chunk comes down */
	uint64		filling_since;	/* a chunk; device_now_us() */
	double		fill_us;		/* that chunks were filled for */
	double		first_us;		/* from the opening until the first chunk came down */
	MemoryContext cxt;			/* its own */
	MemoryContextCallback callback;
	struct DeviceJob *next;		/* of this backend's open jobs */

	/* a feeder's: whenever it asks for a chunk or waits; false: all is lost.  NULL: nothing */
	bool		(*serve) (void *arg);
	void	   *serve_arg;
} DeviceJob;

/*
 * Can the device be asked at all?  A few loads; also notices
 * gpusort.device = off.
 */
extern DeviceState device_state(void);

/*
 * Of a device in state IDLE: it is had back.  Waits for that if it must be expected to
 * take less than patience_us, and no longer; the state then.  Otherwise later sorts
 * will have it.
 */
extern DeviceState device_bring_back(double patience_us);

/* The ABI's index of an algorithm by name; -1 if the library has none such. */
extern int	device_algorithm(const char *name);

/*
 * What sorts cost on the devices: as the library reported of the first, or an assumption
 * while none has been opened.  It stays where it is.  For a sort's prediction:
 * sort/device/device_learn.h.
 */
extern const GpusortCosts *device_costs(void);

/* Which algorithms the library has: a bit per AlgorithmId.  All, until it has told. */
extern unsigned device_algorithms(void);

/*
 * Opens a job whose device memory, device_bytes, is reserved at once, with
 * want_chunks of the pool at most.  If there is no room, or others wait already,
 * waits for up to patience_us (admission.c), or not at all if it must be expected
 * to take longer.  NULL and the reason if there is no room then.
 */
extern DeviceJob *device_job_open(MemoryContext cxt, const DeviceJobSpec *spec,
								  uint64 device_bytes, int want_chunks,
								  double patience_us, DeviceState *why);

/* An empty chunk to fill, of device_shared->chunk_size bytes. */
extern char *device_job_next_up(DeviceJob *job);
extern void device_job_post(DeviceJob *job, const DeviceChunkDesc *desc);

/*
 * Room on the device for more rows than *spec, by which the job was opened or has
 * grown, says: sets max_rows and max_row_bytes of *spec.  False if there is none, or the
 * job is lost; what it has it keeps.
 */
extern bool device_job_grow(DeviceJob *job, DeviceJobSpec *spec, uint64 max_rows,
							uint64 max_row_bytes);

/* Everything is posted. */
extern void device_job_sort(DeviceJob *job);

/*
 * The next chunk of the result; NULL at its end, or if the job is lost.  It is
 * ours until released, also if the job is lost then.  What it is said to hold lies in it;
 * whether that is right is the caller's to see.  The next may be had before this is
 * released.
 */
extern char *device_job_next_down(DeviceJob *job, DeviceChunkDesc *desc);
extern void device_job_release(DeviceJob *job);

/*
 * Several backends may fill a job of DEVICE_ROWS: its owner reserves feeders, false if there is no
 * room for so many, and names the job to the others, which open them.  A feeder is filled as a job
 * is, but that a row's place is counted from its chunk; device_job_drain() waits until all that was
 * posted is on the device, false if it is lost.  There it goes on while the owner is asked for
 * more room, now and then: device_job_wants() says for how much.
 */
extern bool device_job_reserve_producers(DeviceJob *job, int producers);
extern void device_job_name(const DeviceJob *job, DeviceJobName *name);
extern DeviceJob *device_job_open_producer(MemoryContext cxt, const DeviceJobName *into,
								  const DeviceJobSpec *spec);
extern bool device_job_drain(DeviceJob *job);
extern bool device_job_wants(DeviceJob *job, uint64 *rows, uint64 *row_bytes);

/* Gives the job back, whatever its state. */
extern void device_job_close(DeviceJob *job);

/* The same, and what it had is free again, unless that takes too long. */
extern void device_job_return(DeviceJob *job);

/* A backend's result was found wrong: counts as a failed job. */
#define DEVICE_TOO_FEW_ROWS		"the device sent too few rows"
extern void device_job_fail(DeviceJob *job, const char *why);

/* Device memory that a job of this shape takes, roughly. */
extern uint64 device_job_bytes(const DeviceJobSpec *spec);

/* ------------------------------------------------------------------------
 * Key mode's chunks, up and down.
 *
 * What travels is keys and the rids that belong to them, or keys alone; how a chunk
 * is divided among them is known here only.
 * ------------------------------------------------------------------------
 */

typedef struct KeyChunk
{
	uint32		rows;
	char	   *keys;			/* key_width each; on the way down only where asked for */
	uint32	   *rids;			/* NULL: keys are all there is */
	Size		bytes;			/* that crossed the bus */
} KeyChunk;

/* Rows of a job that a chunk has room for on its way up. */
extern size_t key_chunk_rows(const DeviceJobSpec *spec);

/* An empty chunk for so many rows, which key_chunk_post() sends; false if the job is lost. */
extern bool key_chunk_next_up(DeviceJob *job, const DeviceJobSpec *spec, size_t rows,
							  KeyChunk *chunk);
extern void key_chunk_post(DeviceJob *job, const DeviceJobSpec *spec, const KeyChunk *chunk);

/*
 * The next chunk of a result of which left rows are to come, ours until
 * device_job_release(); false at its end, or if the job is lost, which it is
 * if rows are more or fewer than they should be.
 */
extern bool key_chunk_next_down(DeviceJob *job, const DeviceJobSpec *spec, size_t left,
								KeyChunk *chunk);

#endif							/* GPUSORT_SERVICE_SERVICE_H */
