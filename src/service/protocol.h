/*
 * protocol.h
 *	  What backends and the device process share: jobs, chunks, wake-ups.
 */
#ifndef GPUSORT_SERVICE_PROTOCOL_H
#define GPUSORT_SERVICE_PROTOCOL_H

#include "postgres.h"

#include <semaphore.h>

#include "../cuda/gpusort_abi.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "service/device_state.h"
#include "settings.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

/* Monotonic, in microseconds. */
static inline uint64
device_now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

/* ------------------------------------------------------------------------
 * What backends and the device process share: jobs, chunks, wake-ups.
 *
 * Three kinds of process take part.
 *
 *	The supervisor is a background worker.  It never touches CUDA; it starts the
 *	device process, sees it end, and starts the next: at once, or if the process has
 *	given an idle device back or found none, when a sort asks for it.
 *	The device process owns CUDA: contexts, streams, device memory.  It is not a
 *	child of the postmaster, and never becomes one (service/keeper.c), because the postmaster answers the death of any
 *	child that is attached to shared memory with a restart of the whole server;
 *	a fault in a driver must cost a sort its speed, not everybody their
 *	connection.
 *	A backend with a sort is the client (client.h).
 *
 * Since the device process may die at any instruction, it takes no lock that a
 * backend could wait for.  Backends take a lock only among themselves, to give
 * out job slots.  Everything between a backend and the device process is words
 * with one writer each:
 *
 *	slot state		FREE -> OPEN by the backend (under the lock), OPEN -> CLOSING by
 *					the backend, CLOSING -> FREE by the device process once the
 *					device is through with the slot's memory.  The state's word holds
 *					the generation of the device process for which it was opened;
 *					a job of an older generation is lost.  Then the backend
 *					itself frees the slot, or, if it had closed it, the supervisor;
 *					its device memory is free at once.
 *	chunks			A job owns a few chunks of the pinned staging pool as a ring.
 *					On the way up the backend fills chunks and counts "posted",
 *					the process copies and counts "taken".  When all rows are up
 *					the backend sets "command", and on the way down the process
 *					fills chunks and counts "made", the backend counts "read".  No
 *					counter ever decreases, except that each way down starts at 0.
 *
 * Several backends may fill one job: others than its owner open feeders, slots with
 * chunks of their own, whose rows go up into the job's memory, in the order in which
 * chunks are posted by any.  A feeder has neither a sort nor a result.  When all of its
 * chunks have been taken, the job has its rows; the owner asks for the sort when all
 * feeders have said so to each other (sort/parallel/exchange.h).  A slot has two chunks at
 * least, and the pool by default as many chunks as there are slots: of feeders the pool has
 * room for fewer than the table.  The owner reserves them before there are feeders, so that none waits.
 *
 * Chunks and device memory are given to a job when it is opened and stay its own:
 * a job never waits for another, so jobs cannot block each other.  A job whose rows are
 * still to be counted begins with a little memory and asks for more; it gets that at
 * once or not at all, and can do with what it has.  Sessions that hold nothing and
 * for which there is no room wait in a queue (admission.c).  A query that is not read on
 * holds what it was given; a cursor holds nothing (node/device_pause.c).
 *
 * Wake-ups: a backend posts a semaphore if the device process says that it
 * sleeps; the process sets the backend's latch.  Both only look at words when
 * they wake, so a lost or a spurious wake-up costs a little time at most.
 * ------------------------------------------------------------------------
 */

#define DEVICE_MAX			64	/* devices in use, and numbers that they may have with CUDA */
#define DEVICE_SLOTS		64	/* jobs at once */
#define DEVICE_JOB_CHUNKS	8	/* of one job, at most */
#define DEVICE_MIN_CHUNKS	2	/* ... and at least */
#define DEVICE_MAX_CHUNKS	16384	/* of the pool */
#define DEVICE_QUEUE		64	/* who waits for room, at most */
#define DEVICE_NOTES		8	/* that the supervisor has not logged yet, at most */
#define DEVICE_NOTE_SIZE	256

/* A slot's state; its word is generation * 4 + state. */
typedef enum DeviceSlotState
{
	DEVICE_SLOT_FREE,
	DEVICE_SLOT_OPEN,
	DEVICE_SLOT_CLOSING
} DeviceSlotState;

static inline uint32
device_slot_word(uint32 generation, DeviceSlotState state)
{
	return (generation << 2) | (uint32) state;
}

static inline DeviceSlotState
device_slot_state(uint32 word)
{
	return (DeviceSlotState) (word & 3);
}

/* What travels. */
typedef enum DeviceMode
{
	DEVICE_KEYS,				/* keys and rids up, rids (and keys) down */
	DEVICE_ROWS					/* keys and rows up, rows down */
} DeviceMode;

/* What the backend wants done next. */
typedef enum DeviceCommand
{
	DEVICE_LOAD,				/* take chunks up */
	DEVICE_SORT					/* all are posted: sort and send down */
} DeviceCommand;

/* How far the device process is. */
typedef enum DeviceStatus
{
	DEVICE_LOADING,
	DEVICE_SENDING,				/* sorted; chunks come down */
	DEVICE_DONE,				/* the last chunk has been made */
	DEVICE_ERROR				/* slot->error says what and where */
} DeviceStatus;

/*
 * A chunk's content, in this order, each part 256-byte aligned: rows keys, rows
 * words, then row_bytes of rows.  In DEVICE_KEYS a word is a rid; in DEVICE_ROWS
 * the place of a row, in units of 8 bytes from the start of the chunk's rows.
 * Down, keys are present only if asked for, and in DEVICE_ROWS there are only
 * rows.
 */
typedef struct DeviceChunkDesc
{
	uint32		rows;
	uint32		words_at;		/* byte offsets in the chunk */
	uint32		rows_at;
	uint32		row_bytes;
} DeviceChunkDesc;

/*
 * A job is a sort that was given to the service.  Both sides see its slot; a backend holds
 * it as a DeviceJob (client.h), the device process as a ProcessJob.
 */

/* What is to be sorted; written by the backend before the slot is open. */
typedef struct DeviceJobSpec
{
	DeviceMode	mode;
	int32		key_width;		/* 32, 64, 128 */
	int32		key_bits;		/* of them, from bit 0, order */
	int32		algorithm;		/* index of the ABI; -1: the library's first that
								 * can */
	bool		no_other;		/* if it cannot, none shall */
	bool		want_keys;		/* DEVICE_KEYS: send the keys down too */
	bool		keys_only;		/* DEVICE_KEYS: keys are all there is */
	bool		distinct;		/* no two keys are equal */
	bool		have_range;		/* key_max holds, key_min is 0 */
	GpusortKey128 key_max;
	uint64		max_rows;		/* room to make on the device at first */
	uint64		max_row_bytes;	/* DEVICE_ROWS: likewise */
	DeviceFault fault;
} DeviceJobSpec;

/* What it took; written by the device process before the first chunk down. */
typedef struct DeviceJobTimes
{
	double		sort_us;		/* kernels of the sort, by the device's clock */
	double		up_us;			/* the first chunk's copies, likewise, */
	double		up_bytes;		/* and what they copied */
	double		down_us;		/* ... of the result */
	double		down_bytes;
	char		algorithm[24];
} DeviceJobTimes;

/* A job, as its owner names it to other backends. */
typedef struct DeviceJobName
{
	int			slot;
	uint32		word;			/* the slot's state while there is a job, */
	uint64		number;			/* and which it is of all */
} DeviceJobName;

typedef struct DeviceSlot
{
	/* the backend's */
	pg_atomic_uint32 state;		/* see above */
	Latch	   *latch;
	int			pid;
	int			session;		/* pid, or of a parallel worker its leader's */
	uint64		opened_us;		/* device_now_us() */
	int			device;			/* index into DeviceShared.devices */
	uint64		device_bytes;	/* reserved of its budget */
	int			nchunks;
	uint32		chunks[DEVICE_JOB_CHUNKS];	/* of the pool */
	DeviceJobSpec spec;
	volatile uint64 number;		/* of all jobs */
	int			producers;		/* slots, and their chunks, that are kept for feeders of this job */
	bool		is_producer;	/* a feeder: its rows are those of */
	DeviceJobName into;			/* this job */
	DeviceChunkDesc up[DEVICE_JOB_CHUNKS];
	pg_atomic_uint32 posted;
	pg_atomic_uint32 read;
	pg_atomic_uint32 command;	/* DeviceCommand */
	volatile int32 cancel;		/* GpusortProblem.cancel */
	uint64		grow_rows;		/* the room wanted, before growths is counted on */
	uint64		grow_row_bytes;
	pg_atomic_uint32 growths;	/* asked for */

	/* the device process's, in lines of their own */
	char		pad[PG_CACHE_LINE_SIZE];
	DeviceChunkDesc down[DEVICE_JOB_CHUNKS];
	pg_atomic_uint32 taken;
	pg_atomic_uint32 made;
	pg_atomic_uint32 status;	/* DeviceStatus */
	pg_atomic_uint32 grown;		/* growths that were answered */
	volatile bool grow_ok;		/* the last one's answer */
	volatile uint64 allocated;	/* of the device's memory, when it has begun */
	volatile uint64 want_rows;	/* room that feeders' rows need, in all */
	volatile uint64 want_row_bytes;
	DeviceJobTimes times;
	GpusortError error;
} DeviceSlot;

typedef enum DeviceServiceState
{
	DEVICE_SERVICE_DOWN,		/* between two device processes */
	DEVICE_SERVICE_STARTING,
	DEVICE_SERVICE_READY,
	DEVICE_SERVICE_LEAVING,		/* the process ends after the jobs that it has */
	DEVICE_SERVICE_IDLE,		/* everything was given back; whoever asks has it again */
	DEVICE_SERVICE_OFF,			/* gpusort.device = off by reload */
	DEVICE_SERVICE_NONE			/* there is nothing to serve with: why_not, retry_us */
} DeviceServiceState;

/*
 * A device hangs if it makes no progress with its work for so long, if a call of the driver does not
 * return, or if the device process shows no sign of life.  No copy of a chunk and no sort takes a
 * thousandth of that time, but a call may have to compile the kernels for a device that
 * is newer than the library, which takes up to a minute, or to pin much memory.
 */
#define DEVICE_PATIENCE_MS		120000
#define DEVICE_TEST_PATIENCE_MS	1000	/* when a test orders it */

/* For so long jobs may end when the GPUs are to be given back; then they are lost. */
#define DEVICE_LEAVE_PATIENCE_MS	60000

/* Failures until a device is left out. */
#define DEVICE_MAX_FAILURES		3

/* A device in use. */
typedef struct DeviceEntry
{
	GpusortCosts costs;			/* set at the server's start, too */
	int32		index;			/* CUDA's */
	char		name[64];
	uint64		memory_total;
	volatile uint64 budget;		/* changes with what other programs take */
	volatile uint64 kept;		/* blocks for the next jobs */
	uint64		last_used_us;	/* device_now_us() */
	volatile DeviceMeasured measured;
	volatile uint32 measurements;	/* which of all it is: 0 none, odd while it is written */
} DeviceEntry;

#define DEVICE_MAX_ALGORITHMS	16

typedef struct DeviceAlgorithm
{
	char		name[24];
	uint32		key_widths;		/* GPUSORT_KEYS_* */
	bool		stable;
	bool		rids;
} DeviceAlgorithm;

/*
 * What a device has done since the server's start, or gpusort_stat_reset(): by the device process, but for
 * the jobs that failed.
 */
typedef struct DeviceCounters
{
	char		name[64];		/* when it was opened last; empty: never */
	pg_atomic_uint64 busy_us;	/* for which it was at work for some job, or a job waited for a call */
	pg_atomic_uint64 done;		/* jobs whose result came down */
	pg_atomic_uint64 failed;	/* jobs that were lost, as their owners found */
	pg_atomic_uint64 bytes_up;
	pg_atomic_uint64 bytes_down;
} DeviceCounters;

/* What the device process has to say for the server's log. */
typedef struct DeviceNote
{
	int			device;			/* a failure of this one, by CUDA's number; -1: none */
	char		text[DEVICE_NOTE_SIZE];
} DeviceNote;

/* A backend that waits for room. */
typedef struct DeviceWaiter
{
	uint64		since_us;		/* device_now_us() */
	uint64		sequence_number;
	Latch	   *latch;
	uint64		bytes;			/* of device memory */
	uint64		devices;		/* that could hold it: a bit per CUDA number */
} DeviceWaiter;

/* A reason for failures that has been logged (failure_log.c). */
#define DEVICE_LOGGED			8

typedef struct DeviceFailure
{
	uint32		reason;			/* a hash; 0: none */
	uint32		others;			/* sorts that it met since */
	uint64		logged_us;		/* device_now_us() */
} DeviceFailure;

typedef struct DeviceShared
{
	LWLock	   *lock;			/* of slots, chunks, queue and log, among backends */
	int			staging_chunks;
	Size		chunk_size;
	uint64		last_number;	/* of a job */

	/* the queue, in order */
	int			nwaiting;
	uint64		last_sequence;
	DeviceWaiter queue[DEVICE_QUEUE];
	Latch	   *volatile first_waiting; /* read without the lock */
	uint64		waited;			/* sorts that no longer wait, and for how long they did */
	uint64		waited_us;

	DeviceFailure logged[DEVICE_LOGGED];	/* under the lock */

	/* the supervisor's */
	pg_atomic_uint32 generation;
	pg_atomic_uint32 state;		/* DeviceServiceState; READY and LEAVING are set by the
								 * process */
	pg_atomic_uint32 process_pid;	/* 0: none */
	volatile int pool_pid;		/* the process that has the pool until it has ended; 0: none */
	pg_atomic_uint32 restarts;
	pg_atomic_uint32 finished;	/* jobs that went through, by the process */

	/*
	 * Jobs in a row that ended with an error of the device, by CUDA's number:
	 * counted by the process, also when it crashes, and by the supervisor for one that hangs.
	 */
	volatile uint32 failures[DEVICE_MAX];

	DeviceCounters counters[DEVICE_MAX];	/* by CUDA's number */

	/* giving GPUs back, and having them again: by the supervisor, but for asked */
	Latch	   *volatile supervisor;	/* NULL: none, and no process will come */
	pg_atomic_uint32 asked;		/* a sort wants a process to be started */
	pg_atomic_uint32 measure_asked; /* counts who wants the devices measured anew */
	volatile bool leave;		/* the process shall let its jobs end, and end */
	volatile uint64 retry_us;	/* NONE: not before; 0: never */
	volatile double start_us;	/* that the last start took */
	volatile int idle_blocks_s; /* gpusort.device_idle_blocks, _context */
	volatile int idle_context_s;
	volatile bool learn;		/* gpusort.device_learn */

	/* signs of life, by the process */
	pg_atomic_uint32 heartbeat; /* counts on while it is not stuck in a call */
	volatile int hangs;			/* it found that the device hangs */
	volatile int at_device;		/* that the call under way is for, or -1 */
	volatile int patience_ms;	/* DEVICE_PATIENCE_MS, or a test's */

	/* the device process's, valid while READY */
	int			ndevices;
	DeviceEntry devices[DEVICE_MAX];
	uint32		measurements;	/* of all devices, times two */
	volatile CpuMeasured cpu;	/* of this machine; stays when the process ends */
	int			nalgorithms;
	DeviceAlgorithm algorithms[DEVICE_MAX_ALGORITHMS];
	bool		pinned;

	/* for how long jobs have lately held what they have: of a job and a byte */
	volatile double hold_us;
	volatile double byte_hold_us;
	char		why_not[256];	/* valid while NONE, and after a failed start */
	char		why_detail[256];	/* more of it, with names of files: not for everyone */

	/* what the device process has to say for the server's log: written by it, logged by the supervisor */
	pg_atomic_uint32 notes;		/* all that were written; one is in note[number % DEVICE_NOTES] */
	DeviceNote	note[DEVICE_NOTES];

	/* wake-up of the device process */
	pg_atomic_uint32 sleeping;
	sem_t		wake;

	DeviceSlot	slots[DEVICE_SLOTS];
} DeviceShared;

/* NULL where the service was not configured (staging.c). */
extern DeviceShared *device_shared;
extern char *device_staging;	/* the pool */

/* The counters of a device in use. */
static inline DeviceCounters *
device_counters(int device)
{
	return &device_shared->counters[device_shared->devices[device].index];
}

/* Is the slot's job one of the device process that there is now? */
static inline bool
device_slot_is_current(const DeviceSlot *slot)
{
	uint32		word = pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state);

	return device_slot_state(word) != DEVICE_SLOT_FREE &&
		word >> 2 == pg_atomic_read_u32(&device_shared->generation);
}

/* Is this job, of one owner or another, still open? */
static inline bool
device_job_is_open(const DeviceJobName *name)
{
	const DeviceSlot *slot = &device_shared->slots[name->slot];

	if (pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state) != name->word)
		return false;
	pg_read_barrier();
	return slot->number == name->number;
}

/*
 * What the job in a slot has of its device's budget.  What it had of a process that
 * has ended is free memory, though its backend may not have looked yet; only the slot
 * and its chunks wait for that.
 */
static inline uint64
device_slot_memory(const DeviceSlot *slot)
{
	return device_slot_is_current(slot) ? Max(slot->device_bytes, slot->allocated) : 0;
}

static inline char *
device_chunk(const DeviceSlot *slot, uint32 counter)
{
	return device_staging +
		(Size) slot->chunks[counter % slot->nchunks] * device_shared->chunk_size;
}

/* Where the parts of a chunk begin. */
#define DEVICE_PART_ALIGN	256

static inline uint32
device_part(uint32 bytes)
{
	return (bytes + DEVICE_PART_ALIGN - 1) & ~(uint32) (DEVICE_PART_ALIGN - 1);
}

/* DEVICE_KEYS: rows of the result in each of its chunks but the last. */
static inline uint32
device_chunk_rows(const DeviceJobSpec *spec)
{
	Size		row = (spec->keys_only ? 0 : sizeof(uint32)) +
		(spec->want_keys ? spec->key_width / 8 : 0);

	return (uint32) ((device_shared->chunk_size - DEVICE_PART_ALIGN) / row);
}

#endif							/* GPUSORT_SERVICE_PROTOCOL_H */
