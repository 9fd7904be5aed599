/*
 * protocol.h
 *	  The protocol between backends and the device process, in shared memory.
 *
 * docs/design/device-protocol.md describes the processes, the path of a job and the states.
 *
 * The device process may die at any instruction.  So it never takes a lock that a
 * backend could wait for.  Backends take a lock only among themselves, to allocate
 * job slots.  Everything between a backend and the device process is a set of
 * words with one writer each:
 *
 *	slot state		FREE -> OPEN by the backend (under the lock), OPEN -> CLOSING by
 *					the backend, CLOSING -> FREE by the device process when the
 *					device no longer uses the slot's memory.  The word also holds
 *					the generation of the device process for which the slot was
 *					opened.  A job of an older generation has failed: the backend
 *					frees its slot, or the supervisor does if the backend had closed
 *					it already.  Its device memory counts as free at once.
 *	chunks			While rows go up, the backend fills chunks of the job's ring and
 *					counts "posted"; the device process copies them and counts
 *					"taken".  After the last chunk the backend sets "command".  Then
 *					the device process fills chunks and counts "made", and the
 *					backend counts "read".
 *
 * Several backends may fill one job.  Each backend beside the owner opens a
 * producer: a slot with chunks of its own, whose rows go into the memory of the
 * owner's job, in the order in which the chunks are posted.  A producer has no sort
 * and no result.  The owner reserves the slots and chunks of the producers in
 * advance, so that no producer waits (parallel/exchange.c).
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

/* Monotonic time in microseconds. */
static inline uint64
device_now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

#define DEVICE_MAX			64	/* devices; CUDA's device numbers are below it */
#define DEVICE_SLOTS		64	/* jobs at the same time */
#define DEVICE_JOB_CHUNKS	8	/* maximal number of chunks of a job */
#define DEVICE_MIN_CHUNKS	2	/* minimal number of chunks of a job */
#define DEVICE_MAX_CHUNKS	16384	/* maximal number of chunks of the pool */
#define DEVICE_NOTES		16	/* messages that are kept for the supervisor */
#define DEVICE_NOTE_SIZE	256 /* bytes of a message */

/* ------------------------------------------------------------------------
 * Slots
 * ------------------------------------------------------------------------
 */

typedef enum DeviceSlotState
{
	DEVICE_SLOT_FREE,
	DEVICE_SLOT_OPEN,
	DEVICE_SLOT_CLOSING
} DeviceSlotState;

/* DeviceSlot.state: the generation, and the state in the two low bits. */
static inline uint32
device_slot_word(uint32 generation, DeviceSlotState state)
{
	return (generation << 2) | (uint32) state;
}

static inline uint32
device_slot_generation(uint32 word)
{
	return word >> 2;
}

static inline DeviceSlotState
device_slot_state(uint32 word)
{
	return (DeviceSlotState) (word & 3);
}

/* What a job transfers. */
typedef enum DeviceMode
{
	DEVICE_KEYS,				/* keys and rids up; rids (and keys) down */
	DEVICE_ROWS					/* keys and rows up; rows down */
} DeviceMode;

/* The backend's command to the device process. */
typedef enum DeviceCommand
{
	DEVICE_LOAD,				/* copy chunks to the device */
	DEVICE_SORT					/* all chunks are posted: sort and send down */
} DeviceCommand;

/* The device process's progress. */
typedef enum DeviceStatus
{
	DEVICE_LOADING,
	DEVICE_SENDING,				/* sorted; chunks come down */
	DEVICE_DONE,				/* the last chunk has been made */
	DEVICE_ERROR				/* slot->error is the reason */
} DeviceStatus;

/*
 * Layout of a chunk.  Its parts follow each other, each aligned to 256 bytes:
 * "rows" keys, "rows" words, then "row_bytes" bytes of rows.  In DEVICE_KEYS a word
 * is a row id.  In DEVICE_ROWS a word is the offset of a row, in units of 8 bytes from
 * the start of the chunk's rows.  On the way down, keys are present only if asked
 * for, and DEVICE_ROWS has only rows.  If duplicates are dropped, each row on the way
 * down is the first of a group: its key is present, and the group's end, which is the
 * number of rows in this group and those before it.
 */
typedef struct DeviceChunkDesc
{
	uint32		rows;
	uint32		words_at;		/* byte offset of the words in the chunk */
	uint32		rows_at;		/* byte offset of the rows in the chunk */
	uint32		row_bytes;
	uint32		ends_at;		/* byte offset of the groups' ends in the chunk */
} DeviceChunkDesc;

/*
 * What is to be sorted.  The backend writes it before it opens the slot.
 *
 * A job is a sort that was handed to the service.  Both sides see its slot.  The
 * backend's own state of a job is a DeviceJob (service.h), the device process's a
 * ProcessJob (process_internal.h).
 */
typedef struct DeviceJobSpec
{
	DeviceMode	mode;
	int32		key_width;		/* 32, 64 or 128 bits */
	int32		key_bits;		/* the low key_bits of a key define the order */

	/* Index of the library's algorithm; -1: the first that can sort this. */
	int32		algorithm;
	bool		no_other;		/* fail rather than use another algorithm */
	bool		want_keys;		/* DEVICE_KEYS: send the keys down too */
	bool		keys_only;		/* DEVICE_KEYS: there are no row ids */
	bool		distinct;		/* no two keys are equal */

	/*
	 * Send only the first row of those whose keys are equal from bit
	 * equal_bit on; want_keys is set.
	 */
	bool		drop;
	int32		equal_bit;
	bool		have_range;		/* keys lie between 0 and key_max */
	GpusortKey128 key_max;
	uint64		max_rows;		/* rows that fit the first allocation */
	uint64		max_row_bytes;	/* DEVICE_ROWS: bytes that fit it */
} DeviceJobSpec;

/* The narrowest DeviceJobSpec.key_width for keys of this number of bits. */
static inline int
device_key_width(int bits)
{
	return bits <= 32 ? 32 : bits <= 64 ? 64 : 128;
}

/*
 * Times of a job, in microseconds.  The device process writes them before the first
 * chunk comes down.
 */
typedef struct DeviceJobTimes
{
	double		sort_us;		/* kernels of the sort, by the device's clock */
	double		up_us;			/* first chunk up, by the device's clock */
	double		up_bytes;		/* bytes of these copies */
	double		down_us;		/* copies of the first chunk down */
	double		down_bytes;		/* bytes of these copies */
	char		algorithm[24];
} DeviceJobTimes;

/* Identifies a job to other backends. */
typedef struct DeviceJobName
{
	int			slot;
	uint32		word;			/* the slot's state word while the job is open */
	uint64		number;			/* DeviceSlot.number of the job */
} DeviceJobName;

typedef struct DeviceSlot
{
	/* written by the backend */
	pg_atomic_uint32 state;		/* generation and DeviceSlotState */
	struct
	{
		Latch	   *latch;
		int			pid;
		int			session;	/* pid of the backend, or a worker's leader */
	}			owner;
	int			device;			/* index into DeviceShared.devices */
	uint64		device_bytes;	/* memory of the device reserved for the job */
	int			nchunks;
	uint32		chunks[DEVICE_JOB_CHUNKS];	/* the job's chunks of the pool */
	DeviceJobSpec spec;
	volatile uint64 number;		/* serial number of the job */
	volatile int timeout_ms;	/* gpusort.device_timeout of the session */
	int			producers;		/* slots reserved for this job's producers */
	struct
	{
		bool		is_one;		/* its rows go into another slot's job */
		DeviceJobName into;		/* that job */
	}			producer;
	DeviceChunkDesc up[DEVICE_JOB_CHUNKS];
	pg_atomic_uint32 posted;
	pg_atomic_uint32 read;
	pg_atomic_uint32 command;	/* DeviceCommand */
	volatile int32 cancel;		/* GpusortProblem.cancel */

	/* requests for more space */
	struct
	{
		uint64		rows;		/* in rows ... */
		uint64		row_bytes;	/* ... and in bytes of rows */
		pg_atomic_uint32 requests;	/* their number */
	}			grow;

	/* written by the device process, in cache lines of their own */
	char		pad[PG_CACHE_LINE_SIZE];
	DeviceChunkDesc down[DEVICE_JOB_CHUNKS];
	pg_atomic_uint32 taken;
	pg_atomic_uint32 made;
	pg_atomic_uint32 status;	/* DeviceStatus */
	pg_atomic_uint32 grown;		/* number of requests that were answered */
	volatile bool grow_ok;		/* the answer to the last request */
	volatile uint64 allocated;	/* device memory of the job, bytes */
	volatile uint64 rows_down;	/* rows of the result; set before its chunks */
	volatile uint64 active_us;	/* the device's last work, device_now_us() */

	/* space that the rows of all producers need, if the job must grow */
	struct
	{
		volatile uint64 rows;
		volatile uint64 row_bytes;
	}			want;
	DeviceJobTimes times;
	GpusortError error;
} DeviceSlot;

/* ------------------------------------------------------------------------
 * The service
 * ------------------------------------------------------------------------
 */

typedef enum DeviceServiceState
{
	DEVICE_SERVICE_DOWN,		/* between two device processes */
	DEVICE_SERVICE_STARTING,
	DEVICE_SERVICE_READY,
	DEVICE_SERVICE_LEAVING,		/* the process ends after its last job */

	/* idle devices were released; a sort that asks starts a process */
	DEVICE_SERVICE_IDLE,
	DEVICE_SERVICE_OFF,			/* gpusort.device = off by reload */
	DEVICE_SERVICE_NONE			/* no usable device: see why_not and retry_us */
} DeviceServiceState;

/*
 * When gpusort.device changes or idle devices are released, the process waits this long
 * for its jobs before it ends.
 */
#define DEVICE_LEAVE_PATIENCE_MS	60000

/* A device that failed this number of times in a row is not used if there are others. */
#define DEVICE_MAX_FAILURES		3

/* A device in use. */
typedef struct DeviceEntry
{
	GpusortCosts costs;			/* built-in costs until the library reports them */
	int32		index;			/* CUDA's number */
	char		name[64];
	uint64		memory_total;
	volatile uint64 budget;		/* bytes for jobs; other programs change it */
	volatile uint64 kept;		/* free blocks kept for later jobs, bytes */
	uint64		last_used_us;	/* device_now_us() */
	volatile DeviceMeasured measured;

	/* version of measured; 0: none; odd: being written */
	volatile uint32 measurements;
} DeviceEntry;

#define DEVICE_MAX_ALGORITHMS	16

/*
 * Statistics of a device since the server's start or gpusort_stat_reset().  Backends
 * write "failed"; the device process writes the other fields.
 */
typedef struct DeviceCounters
{
	char		name[64];		/* the device's name; empty: never opened */
	pg_atomic_uint64 busy_us;	/* time with work or a driver call under way */
	pg_atomic_uint64 done;		/* jobs whose result came down */
	pg_atomic_uint64 failed;	/* jobs that failed, as seen by their owners */
	pg_atomic_uint64 bytes_up;
	pg_atomic_uint64 bytes_down;
} DeviceCounters;

/* A message of the device process for the server's log. */
typedef struct DeviceNote
{
	/* CUDA number of the failed device; -1: none */
	int			device;
	char		text[DEVICE_NOTE_SIZE];
} DeviceNote;

typedef struct DeviceShared
{
	int			staging_chunks; /* chunks of the pool */
	Size		chunk_size;		/* bytes */
	uint64		last_number;	/* number of the last job that was opened */

	pg_atomic_uint32 waiting;	/* backends that wait for room */

	/* written by the supervisor, except as noted */
	pg_atomic_uint32 generation;

	/* DeviceServiceState; the process sets READY and LEAVING */
	pg_atomic_uint32 state;
	struct
	{
		pg_atomic_uint32 pid;	/* 0: none, or it was given up */

		/* process that may use the pool until it has ended; 0: none */
		volatile int pool_pid;
		pg_atomic_uint32 restarts;	/* process starts after failures */
		volatile bool has_finished; /* a job; set by the process */
	}			process;

	/*
	 * Number of jobs in a row that ended with an error of the device, by
	 * CUDA's number.  The process counts, also when it crashes; the
	 * supervisor counts for a process that hangs.
	 */
	volatile uint32 failures[DEVICE_MAX];

	DeviceCounters counters[DEVICE_MAX];	/* by CUDA's number */

	/* release of idle devices; written by the supervisor, except as noted */
	Latch	   *volatile supervisor;	/* NULL: no process will be started */
	pg_atomic_uint32 asked;		/* set by backends: a sort needs a process */
	volatile bool leave;		/* the process must end after its jobs */
	volatile uint64 retry_us;	/* next start, if none is running; state NONE, 0: never */
	volatile double start_us;	/* duration of the last start; by the process */

	/* settings of the server */
	struct
	{
		volatile int idle_blocks_s; /* gpusort.device_idle_blocks */
		volatile int idle_context_s;	/* gpusort.device_idle_context */
		volatile bool learn;	/* gpusort.device_learn */

		/*
		 * gpusort.device_timeout.  The process hangs if it shows no sign of
		 * life for this time.  Copies and sorts take a small part of it.  But
		 * a call may have to compile the kernels for a device that is newer
		 * than the library, or to pin much memory.
		 */
		volatile int timeout_ms;
	}			settings;

	/* signs of life, written by the process */
	struct
	{
		pg_atomic_uint32 heartbeat; /* increases, unless a call does not return */
		volatile int hangs;		/* the process found that a device hangs */
		volatile int at_device; /* CUDA number of the current call; -1: none */
	}			life;

	/* written by the device process, valid while READY */
	int			ndevices;
	DeviceEntry devices[DEVICE_MAX];
	uint32		measurements;	/* version of the last measurement; even */
	volatile CpuMeasured cpu;	/* stays valid after the process ends */
	int			nalgorithms;
	char		algorithms[DEVICE_MAX_ALGORITHMS][24];	/* names */

	/* why there is no device process: device_set_absence() */
	struct
	{
		char		why_not[256];
		char		detail[256];	/* file names: for superusers only */
	}			absence;

	/*
	 * messages for the server's log: written by the process, logged by the
	 * supervisor
	 */
	struct
	{
		pg_atomic_uint32 written;	/* so far; n is notes[n % DEVICE_NOTES] */
		DeviceNote	notes[DEVICE_NOTES];
	}			log;

	/* wake-up of the device process */
	struct
	{
		pg_atomic_uint32 sleeping;
		sem_t		semaphore;
	}			wakeup;

	DeviceSlot	slots[DEVICE_SLOTS];
} DeviceShared;

/* The service's shared memory and the staging pool; NULL if there is no service. */
extern DeviceShared *device_shared;
extern char *device_staging;

/* Protects slots and chunks among backends. */
extern LWLock *device_lock;

/*
 * Where another module of the server finds these three variables: the module's symbols
 * are hidden.  The rendezvous variable DEVICE_VARIABLES points to the structure.
 */
#define DEVICE_VARIABLES "gpusort device variables"
typedef struct DeviceVariables
{
	DeviceShared **shared;
	char	  **staging;
	LWLock	  **lock;
} DeviceVariables;

/* The counters of a device in use.  device: index into DeviceShared.devices. */
static inline DeviceCounters *
device_counters(int device)
{
	return &device_shared->counters[device_shared->devices[device].index];
}

/* The slot's state word. */
static inline uint32
device_slot_read(const DeviceSlot *slot)
{
	return pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state);
}

/* Does the slot's job belong to the current device process? */
static inline bool
device_slot_is_current(const DeviceSlot *slot)
{
	uint32		word = device_slot_read(slot);

	return device_slot_state(word) != DEVICE_SLOT_FREE &&
		device_slot_generation(word) == pg_atomic_read_u32(&device_shared->generation);
}

/* Is this job still open? */
static inline bool
device_job_is_open(const DeviceJobName *name)
{
	const DeviceSlot *slot = &device_shared->slots[name->slot];

	if (device_slot_read(slot) != name->word)
		return false;
	pg_read_barrier();
	return slot->number == name->number;
}

/*
 * Bytes of device memory that count against the budget for a slot.  The memory of a
 * process that has ended is free, even if the backend has not noticed the end yet.  Its
 * slot and chunks become free when the backend notices the end.
 */
static inline uint64
device_slot_memory(const DeviceSlot *slot)
{
	return device_slot_is_current(slot) ? Max(slot->device_bytes, slot->allocated) : 0;
}

/* The chunk of the slot's ring at which a counter points. */
static inline char *
device_chunk(const DeviceSlot *slot, uint32 counter)
{
	return device_staging +
		(Size) slot->chunks[counter % slot->nchunks] * device_shared->chunk_size;
}

/* Alignment of the parts of a chunk. */
#define DEVICE_PART_ALIGN	256

/* Rounds up to where the next part of a chunk can begin. */
static inline uint32
device_part(uint32 bytes)
{
	return (bytes + DEVICE_PART_ALIGN - 1) & ~(uint32) (DEVICE_PART_ALIGN - 1);
}

/* DEVICE_KEYS: rows that fit into a chunk on the way up. */
static inline size_t
key_chunk_rows(const DeviceJobSpec *spec)
{
	Size		row = spec->key_width / 8 + (spec->keys_only ? 0 : sizeof(uint32));

	return (device_shared->chunk_size - DEVICE_PART_ALIGN) / row;
}

/* DEVICE_KEYS: rows of the result in each of its chunks but the last. */
static inline uint32
device_chunk_rows(const DeviceJobSpec *spec)
{
	Size		row = (spec->keys_only ? 0 : sizeof(uint32)) +
		(spec->want_keys ? spec->key_width / 8 : 0) + (spec->drop ? sizeof(uint32) : 0);

	return (uint32) ((device_shared->chunk_size - (spec->drop ? 2 : 1) * DEVICE_PART_ALIGN) / row);
}

/* Says why there is no device process.  Empty while one is READY. */
static inline void pg_attribute_printf(1, 2)
device_set_absence(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(device_shared->absence.why_not, sizeof(device_shared->absence.why_not), format, args);
	va_end(args);
	device_shared->absence.detail[0] = '\0';
}

/* ------------------------------------------------------------------------
 * Wake-ups, by any process
 * ------------------------------------------------------------------------
 */

/* Wakes the device process: a word of a slot has changed. */
static inline void
device_wake_process(void)
{
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->wakeup.sleeping) != 0 &&
		pg_atomic_exchange_u32(&device_shared->wakeup.sleeping, 0) != 0)
		sem_post(&device_shared->wakeup.semaphore);
}

/* Wakes the supervisor: a word that it reads has changed. */
static inline void
device_wake_supervisor(void)
{
	Latch	   *supervisor = device_shared->supervisor;

	if (supervisor != NULL)
		SetLatch(supervisor);
}

#endif							/* GPUSORT_SERVICE_PROTOCOL_H */
