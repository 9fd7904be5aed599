/*
 * admission.c
 *	  Admission of jobs: free resources and availability of each GPU.
 *
 * A job gets all its resources when it begins: a slot, chunks of the staging pool, and a
 * part of a device's budget.  If there is no room now, the sort uses the CPU.  No state is
 * kept beside the slots: each request computes the free resources from all slots, under
 * the lock.
 *
 * A job waits for room at most patience_us, which its caller sets: a sort that a user forces
 * onto a GPU waits, and a sort in parts whose next part has no job.  Others do not wait.  A
 * waiting job looks for room every ROOM_POLL_MS, and has no place in an order.  A session
 * that holds a job does not wait for another one: an inner sort keeps its job while its
 * outer sort would wait, and sessions that wait for each other's jobs would only lose time.
 * A session is a backend with its parallel workers.
 *
 * No backend gets more than gpusort.device_share of a device.  A job that asks for more
 * memory gets it at once or not at all, because it can finish with what it has.
 *
 * On error: a backend that is cancelled while it waits has no slot, and no longer counts as
 * waiting.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "service/service_internal.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/proc.h"

/* Resources, as the slots tell. */
typedef struct Room
{
	uint64		memory[DEVICE_MAX]; /* free bytes of each device's budget */
	uint64		mine[DEVICE_MAX];	/* bytes of this backend's open jobs */
	bool		session_has_job;
	int			slot;			/* a free slot, or -1 */
	int			slots;			/* number of free slots that are not reserved */
	int			chunks;			/* number of free chunks that are not reserved */
	uint8		taken[DEVICE_MAX_CHUNKS / BITS_PER_BYTE];	/* chunks in use */
} Room;

/* device_active_jobs(): a job is active for this time after the device's last work for it. */
#define ACTIVE_US			100000

/* Pause between two searches for room. */
#define ROOM_POLL_MS			5

/* ------------------------------------------------------------------------
 * Free resources; under the lock
 * ------------------------------------------------------------------------
 */

/* The bit of a device in masks. */
static inline uint64
device_bit(int device)
{
	return UINT64CONST(1) << device_shared->devices[device].index;
}

static inline bool
is_in_use(const DeviceSlot *slot)
{
	return device_slot_read(slot) != device_slot_word(0, DEVICE_SLOT_FREE);
}

/* PID of this session: this process's, or as a parallel worker the leader's. */
static inline int
my_session(void)
{
	return MyProc->lockGroupLeader != NULL ? MyProc->lockGroupLeader->pid : MyProcPid;
}

/* Computes the resources from all slots. */
static void
compute_room(Room *room)
{
	int			session = my_session();
	int			reserved = 0;

	memset(room, 0, sizeof(*room));
	room->slot = -1;
	room->chunks = device_shared->staging_chunks;
	for (int d = 0; d < device_shared->ndevices; d++)
		room->memory[d] = device_shared->devices[d].budget;
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (!is_in_use(slot))
		{
			if (room->slots++ == 0)
				room->slot = i;
			continue;
		}

		/* Min: after a restart of the service a budget may be smaller */
		room->memory[slot->device] -= Min(room->memory[slot->device], device_slot_memory(slot));
		for (int c = 0; c < slot->nchunks; c++)
			room->taken[slot->chunks[c] / BITS_PER_BYTE] |= 1 << (slot->chunks[c] % BITS_PER_BYTE);
		room->chunks -= slot->nchunks;
		if (device_slot_is_current(slot) && device_slot_state(device_slot_read(slot)) == DEVICE_SLOT_OPEN)
		{
			reserved += slot->producers;
			room->session_has_job |= slot->owner.session == session;
			if (slot->owner.pid == MyProcPid)
				room->mine[slot->device] += device_slot_memory(slot);
		}
	}
	room->slots -= Min(reserved, room->slots);
	room->chunks -= Min(reserved * DEVICE_MIN_CHUNKS, room->chunks);
}

/* Bytes that one backend may have on a device. */
static inline uint64
share_of(int device)
{
	return device_shared->devices[device].budget / 100 * gpusort_device_share;
}

/*
 * The devices that could hold this many bytes in addition to this backend's jobs, if no
 * other backend had a job.
 */
static uint64
devices_for(const Room *room, uint64 bytes)
{
	uint64		devices = 0;

	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (share_of(d) >= bytes + room->mine[d])
			devices |= device_bit(d);
	}
	return devices & gpusort_device_mask;
}

bool
device_reserve(DeviceSlot *slot, uint64 bytes)
{
	bool		fits = false;

	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_READY &&
		device_slot_is_current(slot))
	{
		uint64		has = device_slot_memory(slot);
		Room		room;

		compute_room(&room);
		fits = bytes <= has ||
			(room.memory[slot->device] >= bytes - has &&
			 share_of(slot->device) >= room.mine[slot->device] - has + bytes);
		if (fits)
			slot->device_bytes = bytes;
	}
	LWLockRelease(device_lock);
	return fits;
}

/* Returns the device with the most free memory for a job, or -1 and *why. */
static int
find_device(const Room *room, uint64 bytes, DeviceState *why)
{
	uint64		devices = devices_for(room, bytes);
	bool		wanted = false;
	uint64		most = 0;
	int			best = -1;

	if (devices != 0 && (room->slots == 0 || room->chunks < DEVICE_MIN_CHUNKS))
	{
		*why = DEVICE_STATE_BUSY;
		return -1;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		wanted |= (gpusort_device_mask & device_bit(d)) != 0;
		if ((devices & device_bit(d)) != 0 && room->memory[d] >= bytes && room->memory[d] > most)
		{
			best = d;
			most = room->memory[d];
		}
	}
	*why = !wanted ? DEVICE_STATE_NONE : best < 0 ? DEVICE_STATE_FULL : DEVICE_STATE_READY;
	return best;
}

/*
 * Takes the chunks that the job can use, but no more than an eighth of the free chunks, so
 * that later jobs get some, too.
 */
static int
take_free_chunks(const Room *room, const DeviceJobSpec *spec, uint32 *chunks)
{
	uint64		want = spec->mode == DEVICE_ROWS ? DEVICE_JOB_CHUNKS : spec->max_rows / key_chunk_rows(spec) + 1;
	int			n = 0;

	want = Max(DEVICE_MIN_CHUNKS, Min(want, Min(DEVICE_JOB_CHUNKS, room->chunks / 8)));
	for (int c = 0; n < (int) want; c++)
	{
		if ((room->taken[c / BITS_PER_BYTE] & (1 << (c % BITS_PER_BYTE))) == 0)
			chunks[n++] = (uint32) c;
	}
	return n;
}

/* ------------------------------------------------------------------------
 * Admission of a job
 * ------------------------------------------------------------------------
 */

void
device_close_slot(DeviceSlot *slot, uint32 generation)
{
	uint32		closing = device_slot_word(generation, DEVICE_SLOT_CLOSING);

	pg_atomic_write_u32(&slot->state, closing);
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->generation) != generation)
	{
		/* the supervisor may also free it, before or after us */
		(void) pg_atomic_compare_exchange_u32(&slot->state, &closing, 0);
	}
	else
		device_wake_process();
}

/*
 * Fills the free slot for a job on this device.  It is not open yet.  All counters and
 * states begin with 0.
 */
static DeviceSlot *
fill_slot(const Room *room, const DeviceJobSpec *spec, int device)
{
	DeviceSlot *slot = &device_shared->slots[room->slot];

	memset((char *) slot + sizeof(slot->state), 0, sizeof(*slot) - sizeof(slot->state));
	slot->owner.latch = MyLatch;
	slot->owner.pid = MyProcPid;
	slot->owner.session = my_session();
	slot->active_us = device_now_us();
	slot->device = device;
	slot->nchunks = take_free_chunks(room, spec, slot->chunks);
	slot->spec = *spec;
	slot->number = ++device_shared->last_number;
	slot->timeout_ms = gpusort_device_timeout;
	return slot;
}

/* Opens the slot for the device process.  NULL, and *why, if the process is leaving. */
static DeviceSlot *
open_slot(DeviceSlot *slot, uint32 word, DeviceState *why)
{
	pg_write_barrier();
	pg_atomic_write_u32(&slot->state, word);
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_READY)
		return slot;
	/* the process may not have seen the slot: see try_to_leave() in process.c */
	device_close_slot(slot, device_slot_generation(word));
	*why = DEVICE_STATE_NONE;
	return NULL;
}

/* Opens a slot if there is room now.  *room is computed unless *why is NONE. */
static DeviceSlot *
try_open(const DeviceJobSpec *spec, uint64 bytes, Room *room, uint32 *word, DeviceState *why)
{
	DeviceSlot *slot = NULL;
	uint32		generation;
	int			device;

	*why = DEVICE_STATE_NONE;
	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	/* read the generation first: if the service ends meanwhile, the job fails */
	generation = pg_atomic_read_u32(&device_shared->generation);
	pg_read_barrier();
	if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_READY)
	{
		pg_read_barrier();
		compute_room(room);
		device = find_device(room, bytes, why);
		if (device >= 0)
		{
			slot = fill_slot(room, spec, device);
			slot->device_bytes = bytes;
			*word = device_slot_word(generation, DEVICE_SLOT_OPEN);
			slot = open_slot(slot, *word, why);
		}
	}
	LWLockRelease(device_lock);
	return slot;
}

/* This backend no longer waits for room.  Also called when it ends by an ERROR, or exits. */
static void
end_wait(int code, Datum arg)
{
	pg_atomic_fetch_sub_u32(&device_shared->waiting, 1);
}

DeviceSlot *
device_admit(const DeviceJobSpec *spec, uint64 bytes, double patience_us, uint32 *word, DeviceState *why)
{
	/* the last wait of this session ended without room, and no job has found room since */
	static bool waited_in_vain = false;
	uint64		start = device_now_us();
	DeviceSlot *volatile slot;
	Room		room;

	slot = try_open(spec, bytes, &room, word, why);
	if (slot != NULL)
		waited_in_vain = false;
	if (slot != NULL || patience_us <= 0 || waited_in_vain || *why == DEVICE_STATE_NONE ||
		room.session_has_job || devices_for(&room, bytes) == 0)
		return slot;
	pg_atomic_fetch_add_u32(&device_shared->waiting, 1);
	PG_ENSURE_ERROR_CLEANUP(end_wait, (Datum) 0);
	{
		while (slot == NULL && *why != DEVICE_STATE_NONE && (double) (device_now_us() - start) < patience_us)
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ROOM_POLL_MS,
							 compat_wait_event("GpuSortRoom"));
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
			slot = try_open(spec, bytes, &room, word, why);
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_wait, (Datum) 0);
	end_wait(0, (Datum) 0);
	waited_in_vain = slot == NULL && *why != DEVICE_STATE_NONE;
	return slot;
}

DeviceSlot *
device_admit_producer(const DeviceJobName *into)
{
	DeviceSlot *job = &device_shared->slots[into->slot];
	DeviceSlot *slot = NULL;
	DeviceState why;
	Room		room;

	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	if (device_job_is_open(into) && device_slot_is_current(job) && job->producers > 0)
	{
		job->producers--;
		compute_room(&room);
		if (room.slots == 0 || room.chunks < DEVICE_MIN_CHUNKS)
			elog(ERROR, "gpusort: no space for a producer although it was reserved");
		slot = fill_slot(&room, &job->spec, job->device);
		slot->producer.is_one = true;
		slot->producer.into = *into;
		slot = open_slot(slot, into->word, &why);
	}
	LWLockRelease(device_lock);
	return slot;
}

bool
device_job_reserve_producers(DeviceJob *job, int producers, DeviceJobName *name)
{
	DeviceSlot *slot = job->slot;
	bool		fits;
	Room		room;

	if (slot == NULL)
		return false;
	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	slot->producers = 0;
	compute_room(&room);
	fits = room.slots >= producers && room.chunks >= producers * DEVICE_MIN_CHUNKS;
	if (fits)
		slot->producers = producers;
	LWLockRelease(device_lock);
	name->slot = (int) (slot - device_shared->slots);
	name->word = job->word;
	name->number = slot->number;
	return fits;
}

/* ------------------------------------------------------------------------
 * Availability
 * ------------------------------------------------------------------------
 */

int
device_active_jobs(int device)
{
	uint64		since = device_now_us() - ACTIVE_US;
	int			jobs = 0;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		jobs += slot->device == device && slot->owner.pid != MyProcPid && !slot->producer.is_one &&
			device_slot_is_current(slot) && slot->active_us >= since;
	}
	return jobs;
}

void
device_availability(DeviceAvailability *availability)
{
	Room		room;

	memset(availability, 0, sizeof(*availability));
	LWLockAcquire(device_lock, LW_SHARED);
	compute_room(&room);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		uint64		memory = Min(room.memory[d], share_of(d));

		if ((gpusort_device_mask & device_bit(d)) == 0)
			continue;
		availability->devices++;
		availability->all_memory += memory;
		availability->largest_job = Max(availability->largest_job, share_of(d) - Min(share_of(d), room.mine[d]));
		if (memory > availability->memory)
		{
			availability->device = d;
			availability->memory = memory;
		}
	}
	LWLockRelease(device_lock);
}

void
device_use_read(DeviceUse *use)
{
	memset(use, 0, sizeof(*use));
	LWLockAcquire(device_lock, LW_SHARED);
	use->waiting = (int) pg_atomic_read_u32(&device_shared->waiting);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		DeviceSlot *slot = &device_shared->slots[i];

		if (!is_in_use(slot))
			continue;
		use->jobs++;
		use->chunks += slot->nchunks;
		use->device_jobs[slot->device] += device_slot_is_current(slot) && !slot->producer.is_one;
		use->device_bytes[slot->device] += device_slot_memory(slot);
	}
	LWLockRelease(device_lock);
}
