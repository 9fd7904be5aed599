/*
 * service.h
 *	  The GPU service, for backends: its state, the availability of devices, and jobs.
 *
 * Times are in microseconds, sizes in bytes.  Without a service device_shared is NULL;
 * then functions about algorithms, costs, availability and jobs must not be called.
 */
#ifndef GPUSORT_SERVICE_SERVICE_H
#define GPUSORT_SERVICE_SERVICE_H

#include "postgres.h"

#include "compat.h"
#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "service/device_state.h"
#include "service/protocol.h"

/* ------------------------------------------------------------------------
 * The service as a whole
 * ------------------------------------------------------------------------
 */

/*
 * Starts the service.  Called while libraries are preloaded, after the settings are
 * defined.  False if there will be no service: the library is not preloaded, there is
 * no staging memory, no GPU driver, or no free background worker.
 */
extern bool device_service_init(void);

/* Why there is no service, for users. */
extern const char *device_service_why_none(void);

/* State of the GPUs as seen by this session.  Reads only a few words. */
extern DeviceState device_state(void);

/*
 * If the state is IDLE, asks the supervisor to start a device process.  Waits up to
 * patience_us for the process, but not at all if its start is expected to take longer;
 * it then serves later sorts.  Returns the state afterwards.
 */
extern DeviceState device_bring_back(double patience_us);

/* The ABI's index of an algorithm of this name; -1 if the library does not have it. */
extern int	device_algorithm(const char *name);

/* The algorithms of the library: a bit per AlgorithmId.  All bits while they are unknown. */
extern unsigned device_algorithms(void);

/*
 * Costs of sorts, as the library reported them for the first device, or built-in costs
 * while no device has been opened.  The pointer stays valid.
 */
extern const GpusortCosts *device_costs(void);

/* ------------------------------------------------------------------------
 * Failures by device and reason
 * ------------------------------------------------------------------------
 */

/* Number of reasons that are kept.  The oldest one is replaced. */
#define DEVICE_FAILURES			64
#define DEVICE_FAILURE_SIZE		160

typedef struct DeviceFailureCount
{
	int			device;			/* CUDA's number; -1: none, or not known */
	uint64		failures;		/* 0: this entry is empty */
	TimestampTz last;			/* time of the last failure */
	char		reason[DEVICE_FAILURE_SIZE];	/* text of the last failure */

	/* the server's log */
	TimestampTz logged;			/* when it was last logged ... */
	uint32		logged_generation;	/* ... and under which device process */
	uint64		not_logged;		/* failures since then */
} DeviceFailureCount;

/* Copies the counts into an array of DEVICE_FAILURES entries, and returns their number. */
extern int	device_failures_read(DeviceFailureCount *all);

/* ------------------------------------------------------------------------
 * Availability of devices
 * ------------------------------------------------------------------------
 */

typedef struct DeviceAvailability
{
	int			device;			/* index of the device with most free memory */

	/* memory that this backend could get on that device; 0: none */
	uint64		memory;
	uint64		all_memory;		/* memory that it could get on all devices */

	/*
	 * The largest job that it could have on one device, in addition to its
	 * jobs, if no other backend had a job.
	 */
	uint64		largest_job;
	int			devices;		/* devices that it may use */
} DeviceAvailability;

extern void device_availability(DeviceAvailability *availability);

/*
 * The load of a device: jobs of other backends for which it has worked within the last
 * 100 ms.  A job that waits longer for its backend is no load.
 */
extern int	device_active_jobs(int device);

/* Use of the service by all sorts */
typedef struct DeviceUse
{
	int			jobs;			/* occupied slots */
	int			chunks;			/* occupied staging chunks */
	int			waiting;		/* sorts that wait for room */
	int			device_jobs[DEVICE_MAX];
	uint64		device_bytes[DEVICE_MAX];
} DeviceUse;

extern void device_use_read(DeviceUse *use);

/* ------------------------------------------------------------------------
 * A job: a backend's sort on a device
 *
 *		job = device_job_open(cxt, &spec, patience_us, &why);
 *		while (rows)
 *			chunk = device_job_next_up(job);  fill it;  device_job_post(job, &desc);
 *		device_job_sort(job);
 *		while ((chunk = device_job_next_down(job, &desc)) != NULL)
 *			read it;  device_job_release(job);
 *		device_job_close(job);
 *
 * Every function may find that the job has failed.  Then it returns NULL or false,
 * job->failed is set, and the sort has to continue without the job.  No function
 * raises an ERROR because of a device.  Waits are interruptible.  A cancelled query's
 * job is closed with the memory context in which it was opened.
 * ------------------------------------------------------------------------
 */

typedef struct DeviceJob
{
	DeviceSlot *slot;			/* NULL: closed */
	uint32		word;			/* the slot's state word while the job is open */
	bool		failed;
	char		why[128];		/* reason of the failure, for EXPLAIN and log */
	uint32		posted;			/* chunks posted */
	uint32		got;			/* chunks of the result received */
	uint32		read;			/* chunks of the result released */
	uint64		rows_up;		/* the caller adds the rows of producers */
	uint64		bytes_up;
	uint64		rows_down;		/* rows of the result; set when the first
								 * chunk comes down */
	uint64		rows_got;		/* rows of the chunks received */
	DeviceJobTimes times;		/* set when the first chunk comes down */
	uint64		opened_us;		/* device_now_us() */
	uint64		filling_since;	/* device_now_us(), for the current chunk */
	double		fill_us;		/* total time spent in filling chunks */
	double		first_us;		/* time from opening to the first chunk down */
	uint64		shown;			/* the caller's: bytes in its progress view */
	MemoryContext cxt;			/* the job's own */
	MemoryContextCallback callback;
	dlist_node	node;			/* in the list of this backend's open jobs */

	/*
	 * Only of a producer, or NULL: services requests of other processes.
	 * Called before each chunk and while the producer waits for one.  False:
	 * the sort has failed.
	 */
	bool		(*serve) (void *arg);
	void	   *serve_arg;
} DeviceJob;

/*
 * Opens a job.  device_job_bytes(spec) of device memory are reserved at once.  If there is no
 * room, it looks again for up to patience_us (admission.c).  Returns NULL and sets *why if
 * there is none.
 */
extern DeviceJob *device_job_open(MemoryContext cxt, const DeviceJobSpec *spec, double patience_us,
								  DeviceState *why);

/* Waits for an empty chunk of device_shared->chunk_size bytes. */
extern char *device_job_next_up(DeviceJob *job);

/* Sends that chunk, filled as *desc describes. */
extern void device_job_post(DeviceJob *job, const DeviceChunkDesc *desc);

/*
 * Asks for space for the rows of *wanted, which differs from *spec, the spec that the job was
 * opened with or has grown to, in max_rows and max_row_bytes.  Sets *spec to it.  False if there
 * is no space or the job has failed.  The job keeps the space that it has.
 */
extern bool device_job_grow(DeviceJob *job, DeviceJobSpec *spec, const DeviceJobSpec *wanted);

/* Starts the sort; all chunks must be posted.  Does not wait. */
extern void device_job_sort(DeviceJob *job);

/*
 * Waits for the next chunk of the result.  NULL at the end, or if the job has failed.
 * The chunk stays valid until it is released, even if the job fails meanwhile.  The
 * parts that *desc describes lie within the chunk, and all chunks together have the rows
 * that were sent, or with DeviceJobSpec.drop at most these.  The caller must check that
 * their content is right.  The next chunk may be asked for before this one is released.
 */
extern char *device_job_next_down(DeviceJob *job, DeviceChunkDesc *desc);
extern void device_job_release(DeviceJob *job);

/*
 * Producers: several backends may fill a job of DEVICE_ROWS.  Its owner reserves slots
 * for producers (false if there is no space; 0 releases those that are not used), and
 * passes the job's name to the other backends, which open the producers.  A producer is filled like a job, but the
 * offsets of rows count from its chunk.  device_job_drain() waits until all
 * posted chunks are on the device; false if the producer has failed.  Meanwhile the
 * job may need more space: device_job_wants() tells its owner for how many rows and bytes
 * of rows (false if the job has failed), and the owner grows the job.
 */
extern bool device_job_reserve_producers(DeviceJob *job, int producers, DeviceJobName *name);
extern DeviceJob *device_job_open_producer(MemoryContext cxt, const DeviceJobName *into);
extern bool device_job_drain(DeviceJob *job);
extern bool device_job_wants(DeviceJob *job, uint64 *rows, uint64 *row_bytes);

/* Closes the job in any state.  Never waits. */
extern void device_job_close(DeviceJob *job);

/* Closes the job and waits, for a limited time, until its resources are free. */
extern void device_job_return(DeviceJob *job);

/* Marks the job as failed, because the backend cannot use its result. */
extern void device_job_fail(DeviceJob *job, const char *why);

/* Estimate of the device memory that a job of this shape takes. */
extern uint64 device_job_bytes(const DeviceJobSpec *spec);

/* ------------------------------------------------------------------------
 * Chunks of DEVICE_KEYS: keys with their row ids, or keys alone
 * ------------------------------------------------------------------------
 */

typedef struct KeyChunk
{
	uint32		rows;

	/* key_width bits each; on the way down only if DeviceJobSpec.want_keys */
	char	   *keys;
	uint32	   *rids;			/* NULL: no row ids */
	uint32	   *ends;			/* ends of the groups; NULL: no duplicates are dropped */
	Size		bytes;			/* bytes that crossed the bus */
} KeyChunk;

/*
 * Returns an empty chunk for this number of rows, which key_chunk_post() sends.  False
 * if the job has failed.
 */
extern bool key_chunk_next_up(DeviceJob *job, size_t rows, KeyChunk *chunk);
extern void key_chunk_post(DeviceJob *job, const KeyChunk *chunk);

/* As device_job_next_down().  False at the end, or if the job has failed. */
extern bool key_chunk_next_down(DeviceJob *job, KeyChunk *chunk);

#endif							/* GPUSORT_SERVICE_SERVICE_H */
