/*
 * client.h
 *	  A backend's sort on the device: the client's half of protocol.h.
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
 */
#ifndef GPUSORT_CLIENT_H
#define GPUSORT_CLIENT_H

#include "device/protocol.h"
#include "device/state.h"

typedef struct DeviceJob
{
	DeviceSlot *slot;			/* NULL: closed */
	uint32		word;			/* the slot's state while the job is ours */
	bool		lost;
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
	bool		(*attend) (void *arg);
	void	   *attend_arg;
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
extern bool device_job_feeders(DeviceJob *job, int feeders);
extern void device_job_name(const DeviceJob *job, DeviceJobName *name);
extern DeviceJob *device_job_feed(MemoryContext cxt, const DeviceJobName *into,
								  const DeviceJobSpec *spec);
extern bool device_job_drain(DeviceJob *job);
extern bool device_job_wants(DeviceJob *job, uint64 *rows, uint64 *row_bytes);

/* Gives the job back, whatever its state. */
extern void device_job_close(DeviceJob *job);

/* The same, and what it had is free again, unless that takes too long. */
extern void device_job_return(DeviceJob *job);

/* A backend's result was found wrong: counts as a failed job. */
#define DEVICE_TOO_FEW_ROWS		"the device sent too few rows"
extern void device_job_lose(DeviceJob *job, const char *why);

/* Device memory that a job of this shape takes, roughly. */
extern uint64 device_job_bytes(const DeviceJobSpec *spec);

#endif							/* GPUSORT_CLIENT_H */
