/*
 * admission.c
 *	  Admission of jobs: free resources, queue, and availability of each GPU.
 *
 * A job gets all its resources when it begins: a slot, chunks of the staging pool, and a
 * part of a device's budget.  Backends that find no space wait in a queue in shared
 * memory, first come, first served.  A backend that comes while others wait for the same
 * devices waits behind them, even if its job would fit at once.  Otherwise a stream of
 * small sorts could starve a large one.  Devices that no backend ahead can use may be
 * taken by those behind.  No state is kept beside the slots and the queue: each request
 * computes the free resources from all slots, under the lock.
 *
 * A sort does not have to wait, because the CPU can do it.  patience_us is the time that
 * it may wait.  A sort that is expected to wait longer uses the CPU at once.  The expected
 * time follows from Little's law: memory becomes free at the rate of the memory in use
 * divided by the mean time for which a byte is held.  A job that is much older than
 * that belongs to a query whose rows are not being read, and counts as staying: its
 * resources are not expected to become free.  So do a backend's own jobs.  For an
 * algorithm that a user forces, only the own jobs count as staying, until the backend has
 * waited in vain.
 *
 * A session that holds a job does not wait for another one: an inner sort keeps its job
 * while its outer sort would wait, and sessions that wait for each other's jobs would
 * only lose time.  If there is no space at once, the CPU does the outer sort.  A
 * session is a backend with its parallel workers.
 *
 * No backend gets more than gpusort.device_share of a device.  A job that asks for more
 * memory does not wait in the queue, because it can finish with what it has.
 *
 * Wake-ups: a process that frees a slot sets the latch of the first backend in the queue,
 * without a lock, since it may be the device process.  That backend takes its resources or
 * not, and wakes the backends behind it for which there is space.
 *
 * On error: a backend leaves the queue in PG_CATCH when it is cancelled, and by
 * device_leave_queue() when it exits.
 */
#include "postgres.h"

#include <float.h>

#include "compat.h"
#include "miscadmin.h"
#include "service/service_internal.h"
#include "settings.h"
#include "storage/proc.h"

/* What a job asks for. */
typedef struct Request
{
	uint64		bytes;			/* memory of one device */
	int			want_chunks;	/* most chunks that it can use */

	/* devices that could hold the job: a bit per CUDA number */
	uint64		devices;
} Request;

/* Free resources. */
typedef struct Room
{
	uint64		memory[DEVICE_MAX]; /* bytes of each device's budget */
	int			slot;			/* a free slot, or -1 */
	int			slots;			/* number of free slots that are not reserved */
	int			chunks;			/* number of free chunks that are not reserved */
	uint8		taken[DEVICE_MAX_CHUNKS / BITS_PER_BYTE];	/* chunks in use */
} Room;

/* A job counts as staying after this multiple of the mean time, but not before STAYING_MIN_US. */
#define STAYING_HOLDS			8
#define STAYING_MIN_US			100000

/* Longest wait: bounds the cost of a lost wake-up. */
#define QUEUE_TIMEOUT_MS		200

/* This backend's sequence number in the queue; 0: it does not wait. */
static uint64 my_sequence = 0;

/* Has this backend waited for all its patience since its last admission? */
static bool waited_in_vain = false;

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
	return pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state) !=
		device_slot_word(0, DEVICE_SLOT_FREE);
}

static inline bool
is_open(const DeviceSlot *slot)
{
	return device_slot_state(pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state)) == DEVICE_SLOT_OPEN;
}

/* Is it a job of this backend? */
static inline bool
is_mine(const DeviceSlot *slot)
{
	return slot->owner.pid == MyProcPid && is_open(slot);
}

/* PID of this session: this process's, or as a parallel worker the leader's. */
static inline int
my_session(void)
{
	return MyProc->lockGroupLeader != NULL ? MyProc->lockGroupLeader->pid : MyProcPid;
}

/* Computes the free resources from all slots. */
static void
compute_room(Room *room)
{
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
		if (slot->producers > 0 && device_slot_is_current(slot) && is_open(slot))
			reserved += slot->producers;
	}
	room->slots -= Min(reserved, room->slots);
	room->chunks -= Min(reserved * DEVICE_MIN_CHUNKS, room->chunks);
}

/* Does this session have a job? */
static bool
session_has_job(void)
{
	int			session = my_session();

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (slot->owner.session == session && device_slot_is_current(slot) && is_open(slot))
			return true;
	}
	return false;
}

/* Bytes that this backend has on each device. */
static void
compute_my_memory(uint64 *mine)
{
	memset(mine, 0, DEVICE_MAX * sizeof(uint64));
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (is_mine(slot))
			mine[slot->device] += device_slot_memory(slot);
	}
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
devices_for(uint64 bytes)
{
	uint64		devices = 0;
	uint64		mine[DEVICE_MAX];

	compute_my_memory(mine);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (share_of(d) >= bytes + mine[d])
			devices |= device_bit(d);
	}
	return devices & gpusort_device_mask;
}

uint64
device_largest_job(int *devices)
{
	uint64		most = 0;
	uint64		mine[DEVICE_MAX];

	*devices = 0;
	LWLockAcquire(device_lock, LW_SHARED);
	compute_my_memory(mine);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((gpusort_device_mask & device_bit(d)) == 0)
			continue;
		(*devices)++;
		most = Max(most, share_of(d) - Min(share_of(d), mine[d]));
	}
	LWLockRelease(device_lock);
	return most;
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
		uint64		mine[DEVICE_MAX];
		Room		room;

		compute_room(&room);
		compute_my_memory(mine);
		fits = bytes <= has ||
			(room.memory[slot->device] >= bytes - has &&
			 share_of(slot->device) >= mine[slot->device] - has + bytes);
		if (fits)
			slot->device_bytes = bytes;
	}
	LWLockRelease(device_lock);
	return fits;
}

/* May this session use any device? */
static bool
any_device(void)
{
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((gpusort_device_mask & device_bit(d)) != 0)
			return true;
	}
	return false;
}

/*
 * Returns the device with the most free memory for a request, with "ahead" backends ahead
 * of it in the queue, or -1 and *why.
 */
static int
find_device(const Room *room, const Request *request, int ahead, DeviceState *why)
{
	uint64		claimed = 0;
	uint64		most = 0;
	int			best = -1;

	for (int i = 0; i < ahead; i++)
		claimed |= device_shared->queue.waiters[i].devices;
	/* keep a slot and chunks for each backend ahead */
	if (room->slots <= ahead || room->chunks < DEVICE_MIN_CHUNKS * (ahead + 1) ||
		(request->devices & ~claimed) == 0)
	{
		*why = request->devices == 0 ? DEVICE_STATE_FULL : DEVICE_STATE_BUSY;
		return -1;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((request->devices & ~claimed & device_bit(d)) != 0 &&
			room->memory[d] >= request->bytes && room->memory[d] > most)
		{
			best = d;
			most = room->memory[d];
		}
	}
	*why = best < 0 ? DEVICE_STATE_FULL : DEVICE_STATE_READY;
	return best;
}

/*
 * Takes up to "want" chunks, but no more than an eighth of the free chunks, so that
 * later jobs get some, too.
 */
static int
take_free_chunks(const Room *room, int want, int ahead, uint32 *chunks)
{
	int			left = room->chunks - DEVICE_MIN_CHUNKS * ahead;
	int			n = 0;

	want = Max(DEVICE_MIN_CHUNKS, Min(want, Min(DEVICE_JOB_CHUNKS, left / 8)));
	for (int c = 0; n < want; c++)
	{
		if ((room->taken[c / BITS_PER_BYTE] & (1 << (c % BITS_PER_BYTE))) == 0)
			chunks[n++] = (uint32) c;
	}
	return n;
}

/* ------------------------------------------------------------------------
 * Expected waiting time; under the lock
 * ------------------------------------------------------------------------
 */

/*
 * Expected time until "needed" units of a resource are free: for this job and for those
 * ahead of it.  The job alone needs "least" units.  "free" of "total" units are free now;
 * "staying" units are not expected to become free.  hold_us is the mean time for which a
 * unit is held.  DBL_MAX: there will never be enough.
 */
static double
time_until_free(double needed, double free, double total, double staying, double least,
				double hold_us)
{
	double		circulating = total - staying;

	if (circulating < least)
		return DBL_MAX;
	return needed <= free ? 0 : (needed - free) / circulating * hold_us;
}

/* Age in microseconds from which a job counts as staying. */
static double
queue_staying_us(void)
{
	return Max(STAYING_HOLDS * Max(device_shared->hold.job_us, device_shared->hold.byte_us), STAYING_MIN_US);
}

/*
 * Expected waiting time behind "ahead" backends.  DBL_MAX: there will never be space.
 * any_age: jobs of other backends do not count as staying, however old they are.
 */
static double
expected_wait_us(const Request *request, int ahead, bool any_age)
{
	double		hold_us = device_shared->hold.job_us;
	double		byte_hold_us = device_shared->hold.byte_us;
	double		staying_us = queue_staying_us();
	uint64		now = device_now_us();
	double		staying[DEVICE_MAX] = {0};
	int			staying_slots = 0;
	int			staying_chunks = 0;
	double		bytes = (double) request->bytes;
	int			ndevices = 0;
	double		memory_us = DBL_MAX;
	double		slot_us;
	double		chunk_us;
	Room		room;

	compute_room(&room);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (!is_in_use(slot) ||
			(!is_mine(slot) && (any_age || (double) (now - slot->opened_us) < staying_us)))
			continue;
		staying[slot->device] += (double) device_slot_memory(slot);
		staying_chunks += slot->nchunks;
		staying_slots++;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
		ndevices += (request->devices & device_bit(d)) != 0;
	/* the backends ahead are spread over the devices */
	for (int i = 0; i < ahead; i++)
	{
		if ((device_shared->queue.waiters[i].devices & request->devices) != 0)
			bytes += (double) device_shared->queue.waiters[i].bytes / Max(ndevices, 1);
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((request->devices & device_bit(d)) != 0)
			memory_us = Min(memory_us,
							time_until_free(bytes, (double) room.memory[d],
											(double) device_shared->devices[d].budget, staying[d],
											(double) request->bytes, byte_hold_us));
	}
	slot_us = time_until_free(ahead + 1, room.slots, DEVICE_SLOTS, staying_slots, 1, hold_us);
	chunk_us = time_until_free(DEVICE_MIN_CHUNKS * (ahead + 1), room.chunks,
							   device_shared->staging_chunks, staying_chunks, DEVICE_MIN_CHUNKS, hold_us);
	return Max(memory_us, Max(slot_us, chunk_us));
}

/*
 * Is it worth waiting at the end of the queue?  forced: however long, if there will be
 * space at all.  *expected_us is the expected time, or 0 if it was not computed.
 */
static bool
queue_worth_waiting(const Request *request, double patience_us, bool forced, double *expected_us)
{
	*expected_us = 0;
	if (patience_us <= 0 || request->devices == 0 || device_shared->queue.nwaiting == DEVICE_QUEUE)
		return false;
	*expected_us = expected_wait_us(request, device_shared->queue.nwaiting, forced);
	return forced ? *expected_us < DBL_MAX : *expected_us <= patience_us;
}

/* ------------------------------------------------------------------------
 * The queue; under the lock, unless noted
 * ------------------------------------------------------------------------
 */

/* Does this backend wait?  Needs no lock. */
static bool
queue_waiting(void)
{
	return my_sequence != 0;
}

uint32
queue_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = compat_wait_event("GpuSortQueue");
	return event;
}

/* Publishes the first backend of the queue, for device_wake_first(). */
static void
queue_changed(void)
{
	device_shared->queue.first = device_shared->queue.nwaiting > 0 ?
		device_shared->queue.waiters[0].latch : NULL;
}

/* This backend's index in the queue. */
static int
queue_place(void)
{
	int			place = 0;

	while (device_shared->queue.waiters[place].sequence_number != my_sequence)
	{
		place++;
		Assert(place < device_shared->queue.nwaiting);
	}
	return place;
}

/* Puts this backend at the end of the queue. */
static void
queue_enter(const Request *request)
{
	DeviceWaiter *waiter = &device_shared->queue.waiters[device_shared->queue.nwaiting++];

	my_sequence = ++device_shared->queue.last_sequence;
	waiter->since_us = device_now_us();
	waiter->sequence_number = my_sequence;
	waiter->latch = MyLatch;
	waiter->bytes = request->bytes;
	waiter->devices = request->devices;
	queue_changed();
}

/* Wakes those backends at this place of the queue and behind it for which there is space. */
static void
queue_wake_from(int place)
{
	Room		room;
	DeviceState why;

	if (place >= device_shared->queue.nwaiting)
		return;
	compute_room(&room);
	for (int i = place; i < device_shared->queue.nwaiting; i++)
	{
		const DeviceWaiter *waiter = &device_shared->queue.waiters[i];
		Request		request = {waiter->bytes, DEVICE_MIN_CHUNKS, waiter->devices};

		if (find_device(&room, &request, i, &why) >= 0)
			SetLatch(waiter->latch);
	}
}

/* Removes this backend from its place. */
static void
queue_leave(int place)
{
	device_shared->queue.waited++;
	device_shared->queue.waited_us += device_now_us() - device_shared->queue.waiters[place].since_us;
	device_shared->queue.nwaiting--;
	memmove(&device_shared->queue.waiters[place], &device_shared->queue.waiters[place + 1],
			(device_shared->queue.nwaiting - place) * sizeof(DeviceWaiter));
	my_sequence = 0;
	queue_changed();
	queue_wake_from(place);
}

void
device_leave_queue(void)
{
	if (my_sequence == 0)
		return;
	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	queue_leave(queue_place());
	LWLockRelease(device_lock);
}

/*
 * Does not wait for the lock: a backend may have been killed while it held the lock.
 * Without a wake-up, backends look again after QUEUE_TIMEOUT_MS.
 */
void
device_wake_queue(void)
{
	if (!LWLockConditionalAcquire(device_lock, LW_SHARED))
		return;
	for (int i = 0; i < device_shared->queue.nwaiting; i++)
		SetLatch(device_shared->queue.waiters[i].latch);
	LWLockRelease(device_lock);
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
		device_wake_first();
	}
	else
		device_wake_process();
}

/* Fills the free slot for a job on this device.  It is not open yet. */
static DeviceSlot *
fill_slot(const Room *room, const DeviceJobSpec *spec, int device, int want_chunks, int ahead)
{
	DeviceSlot *slot = &device_shared->slots[room->slot];

	slot->owner.latch = MyLatch;
	slot->owner.pid = MyProcPid;
	slot->owner.session = my_session();
	slot->opened_us = device_now_us();
	slot->device = device;
	slot->device_bytes = 0;
	slot->nchunks = take_free_chunks(room, want_chunks, ahead, slot->chunks);
	slot->spec = *spec;
	slot->number = ++device_shared->last_number;
	slot->timeout_ms = gpusort_device_timeout;
	slot->producer.is_one = false;
	slot->producers = 0;
	pg_atomic_write_u32(&slot->posted, 0);
	pg_atomic_write_u32(&slot->read, 0);
	pg_atomic_write_u32(&slot->taken, 0);
	pg_atomic_write_u32(&slot->made, 0);
	pg_atomic_write_u32(&slot->grow.requests, 0);
	pg_atomic_write_u32(&slot->grown, 0);
	pg_atomic_write_u32(&slot->command, DEVICE_LOAD);
	pg_atomic_write_u32(&slot->status, DEVICE_LOADING);
	slot->allocated = 0;
	slot->want.rows = slot->want.row_bytes = 0;
	slot->cancel = 0;
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

/* Tries once to open a slot, with "ahead" backends ahead in the queue.  Under the lock. */
static DeviceSlot *
try_open(const DeviceJobSpec *spec, const Request *request, int ahead,
		 uint32 *word, DeviceState *why)
{
	/* read the generation first: if the service ends meanwhile, the job fails */
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	DeviceSlot *slot;
	Room		room;
	int			device;

	pg_read_barrier();
	if (pg_atomic_read_u32(&device_shared->state) != DEVICE_SERVICE_READY)
	{
		*why = DEVICE_STATE_NONE;
		return NULL;
	}
	pg_read_barrier();
	compute_room(&room);
	device = find_device(&room, request, ahead, why);
	if (device < 0)
		return NULL;

	slot = fill_slot(&room, spec, device, request->want_chunks, ahead);
	slot->device_bytes = request->bytes;
	*word = device_slot_word(generation, DEVICE_SLOT_OPEN);
	waited_in_vain = false;
	return open_slot(slot, *word, why);
}

/* Waits in the queue for space, and leaves the queue. */
static DeviceSlot *
wait_for_room(const DeviceJobSpec *spec, const Request *request, double patience_us,
			  uint32 *word, DeviceState *why)
{
	uint64		start = device_now_us();

	for (;;)
	{
		double		left_us = patience_us - (double) (device_now_us() - start);
		DeviceSlot *slot;
		int			place;

		LWLockAcquire(device_lock, LW_EXCLUSIVE);
		place = queue_place();
		slot = try_open(spec, request, place, word, why);
		if (slot != NULL || *why == DEVICE_STATE_NONE || left_us <= 0)
		{
			queue_leave(place);
			LWLockRelease(device_lock);
			waited_in_vain = left_us <= 0 && slot == NULL;
			return slot;
		}
		queue_wake_from(place + 1);
		LWLockRelease(device_lock);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) Min(left_us / 1000 + 1, QUEUE_TIMEOUT_MS), queue_wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

DeviceSlot *
device_admit(const DeviceJobSpec *spec, uint64 device_bytes, int want_chunks,
			 double patience_us, uint32 *word, DeviceState *why)
{
	Request		request = {device_bytes, want_chunks, 0};
	bool		forced = gpusort_forced_algorithm() != NULL && !waited_in_vain;
	double		expected_us = 0;
	DeviceSlot *slot;

	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	request.devices = devices_for(device_bytes);
	slot = try_open(spec, &request, device_shared->queue.nwaiting, word, why);
	if (slot == NULL && !any_device())
		*why = DEVICE_STATE_NONE;
	if (slot == NULL && *why != DEVICE_STATE_NONE && !session_has_job() &&
		queue_worth_waiting(&request, patience_us, forced, &expected_us))
		queue_enter(&request);
	LWLockRelease(device_lock);
	if (!queue_waiting() && expected_us > patience_us)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: waiting for the device would take %.3g ms, more than the allowed %.3g ms",
								 expected_us / 1000, patience_us / 1000)));
	if (!queue_waiting())
		return slot;

	PG_TRY();
	{
		slot = wait_for_room(spec, &request, patience_us, word, why);
	}
	PG_CATCH();
	{
		device_leave_queue();
		PG_RE_THROW();
	}
	PG_END_TRY();
	return slot;
}

DeviceSlot *
device_admit_producer(const DeviceJobName *into, const DeviceJobSpec *spec, int want_chunks,
					  uint32 *word)
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
		slot = fill_slot(&room, spec, job->device, want_chunks, 0);
		slot->producer.is_one = true;
		slot->producer.into = *into;
		/* in the job's generation, so that the producer fails when its job does */
		*word = into->word;
		slot = open_slot(slot, *word, &why);
	}
	LWLockRelease(device_lock);
	return slot;
}

bool
device_reserve_producers(DeviceSlot *slot, int producers)
{
	Room		room;
	bool		fits;

	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	slot->producers = 0;
	compute_room(&room);
	/* leave enough for the backends in the queue */
	fits = room.slots >= producers + device_shared->queue.nwaiting &&
		room.chunks >= (producers + device_shared->queue.nwaiting) * DEVICE_MIN_CHUNKS;
	if (fits)
		slot->producers = producers;
	LWLockRelease(device_lock);
	if (producers == 0)
		device_wake_first();
	return fits;
}

/* ------------------------------------------------------------------------
 * Availability
 * ------------------------------------------------------------------------
 */

/*
 * Number of active jobs of other backends.  A job that lasts much longer than the mean
 * waits for its backend and does not use the device.  Under the lock.
 */
static double
count_others(int device)
{
	double		staying_us = queue_staying_us();
	uint64		now = device_now_us();
	int			others = 0;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		others += slot->device == device && slot->owner.pid != MyProcPid && !slot->producer.is_one &&
			device_slot_is_current(slot) &&
			(double) (now - slot->opened_us) < staying_us;
	}
	return others;
}

double
device_others(int device)
{
	double		others;

	LWLockAcquire(device_lock, LW_SHARED);
	others = count_others(device);
	LWLockRelease(device_lock);
	return others;
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
		availability->all_memory += memory;
		if (memory > availability->memory)
		{
			availability->device = d;
			availability->memory = memory;
		}
	}
	availability->others = count_others(availability->device);
	LWLockRelease(device_lock);
}

void
device_use_read(DeviceUse *use)
{
	memset(use, 0, sizeof(*use));
	LWLockAcquire(device_lock, LW_SHARED);
	use->waiting = device_shared->queue.nwaiting;
	use->waited = device_shared->queue.waited;
	use->waited_us = device_shared->queue.waited_us;
	for (int i = 0; i < device_shared->queue.nwaiting; i++)
		use->longest_wait_us = Max(use->longest_wait_us, device_now_us() - device_shared->queue.waiters[i].since_us);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		DeviceSlot *slot = &device_shared->slots[i];

		if (device_slot_state(pg_atomic_read_u32(&slot->state)) == DEVICE_SLOT_FREE)
			continue;
		use->jobs++;
		use->chunks += slot->nchunks;
		use->device_jobs[slot->device] += device_slot_is_current(slot) && !slot->producer.is_one;
		use->device_bytes[slot->device] += device_slot_memory(slot);
	}
	LWLockRelease(device_lock);
}
