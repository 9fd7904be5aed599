/*
 * admission.c
 *	  Admission of jobs: free space, queue, and availability of each GPU.
 *
 * Nothing is kept: who asks looks at all slots, under the lock.
 */
#include "postgres.h"

#include <float.h>

#include "compat.h"
#include "miscadmin.h"
#include "service/protocol.h"
#include "service/service.h"
#include "service/service_internal.h"
#include "settings.h"

static void
room_look(Room *room)
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

		if (!room_in_use(slot))
		{
			if (room->slots++ == 0)
				room->slot = i;
			continue;
		}
		/* after a restart the devices may be others, with other budgets */
		room->memory[slot->device] -= Min(room->memory[slot->device], device_slot_memory(slot));
		for (int c = 0; c < slot->nchunks; c++)
			room->taken[slot->chunks[c] / BITS_PER_BYTE] |= 1 << (slot->chunks[c] % BITS_PER_BYTE);
		room->chunks -= slot->nchunks;
		if (slot->producers > 0 && device_slot_is_current(slot) && room_is_open(slot))
			reserved += slot->producers;
	}
	room->slots -= Min(reserved, room->slots);
	room->chunks -= Min(reserved * DEVICE_MIN_CHUNKS, room->chunks);
}

/* Has this session a job? */
static bool
room_session_holds(void)
{
	int			session = room_session();

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (slot->session == session && device_slot_is_current(slot) && room_is_open(slot))
			return true;
	}
	return false;
}

/* What this backend has of each device. */
static void
look_at_mine(uint64 *mine)
{
	memset(mine, 0, DEVICE_MAX * sizeof(uint64));
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (room_is_mine(slot))
			mine[slot->device] += device_slot_memory(slot);
	}
}

/* What one backend may have of a device. */
static inline uint64
share_of(int device)
{
	return device_shared->devices[device].budget / 100 * gpusort_device_share;
}

/*
 * The devices on which so much fits, if the others had nothing of them.  What we have
 * stays while we ask.
 */
static uint64
room_devices_for(uint64 bytes)
{
	uint64		devices = 0;
	uint64		mine[DEVICE_MAX];

	look_at_mine(mine);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (share_of(d) >= bytes + mine[d])
			devices |= room_device_bit(d);
	}
	return devices & gpusort_device_mask;
}

uint64
device_largest_job(int *devices)
{
	uint64		most = 0;
	uint64		mine[DEVICE_MAX];

	*devices = 0;
	LWLockAcquire(device_shared->lock, LW_SHARED);
	look_at_mine(mine);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((gpusort_device_mask & room_device_bit(d)) == 0)
			continue;
		(*devices)++;
		most = Max(most, share_of(d) - Min(share_of(d), mine[d]));
	}
	LWLockRelease(device_shared->lock);
	return most;
}

bool
device_reserve(DeviceSlot *slot, uint64 bytes)
{
	bool		fits = false;

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_READY &&
		device_slot_is_current(slot))
	{
		uint64		has = device_slot_memory(slot);
		uint64		mine[DEVICE_MAX];
		Room		room;

		room_look(&room);
		look_at_mine(mine);
		fits = bytes <= has ||
			(room.memory[slot->device] >= bytes - has &&
			 share_of(slot->device) >= mine[slot->device] - has + bytes);
		if (fits)
			slot->device_bytes = bytes;
	}
	LWLockRelease(device_shared->lock);
	return fits;
}

/* Is there a device that we may use at all? */
static bool
room_any_device(void)
{
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((gpusort_device_mask & room_device_bit(d)) != 0)
			return true;
	}
	return false;
}

/*
 * Is there room for a request with so many others ahead?  The device with the
 * most memory left, or -1 and *why.
 */
static int
room_find(const Room *room, const Request *request, int ahead, DeviceState *why)
{
	uint64		claimed = 0;
	uint64		most = 0;
	int			best = -1;

	for (int i = 0; i < ahead; i++)
		claimed |= device_shared->queue[i].devices;
	/* a slot and chunks remain for each of those ahead */
	if (room->slots <= ahead || room->chunks < DEVICE_MIN_CHUNKS * (ahead + 1) ||
		(request->devices & ~claimed) == 0)
	{
		*why = request->devices == 0 ? DEVICE_STATE_FULL : DEVICE_STATE_BUSY;
		return -1;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((request->devices & ~claimed & room_device_bit(d)) != 0 &&
			room->memory[d] >= request->bytes && room->memory[d] > most)
		{
			best = d;
			most = room->memory[d];
		}
	}
	*why = best < 0 ? DEVICE_STATE_FULL : DEVICE_STATE_READY;
	return best;
}

/* Up to want chunks, no more than an eighth of what is free, that many get some. */
static int
room_take_chunks(const Room *room, int want, int ahead, uint32 *chunks)
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
 * Who waits for a device, and what there is to expect of it.
 *
 * admission.c says why they do, and for how long.
 * ------------------------------------------------------------------------
 */

/* A job that has lasted for this many mean times is taken to stay. */
#define STAYING_HOLDS			8
#define STAYING_MIN_US			100000

/* This backend's place in the queue; 0: none. */
static uint64 my_sequence = 0;

/* ------------------------------------------------------------------------
 * What waiting would cost; under the lock
 * ------------------------------------------------------------------------
 */

/*
 * Time until needed is free where free is now, of a total of which some stays.
 */
static double
time_for(double needed, double free, double total, double staying, double least,
		 double hold_us)
{
	double		turning = total - staying;

	if (turning < least)
		return DBL_MAX;
	return needed <= free ? 0 : (needed - free) / turning * hold_us;
}

/* A job that has lasted so long is taken to stay. */
static double
queue_staying_us(void)
{
	return Max(STAYING_HOLDS * Max(device_shared->hold_us, device_shared->byte_hold_us), STAYING_MIN_US);
}

/* DBL_MAX: there never will be room.  any_age: only our own jobs stay. */
static double
expected_wait_us(const Request *request, int ahead, bool any_age)
{
	double		hold_us = device_shared->hold_us;
	double		byte_hold_us = device_shared->byte_hold_us;
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

	room_look(&room);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (!room_in_use(slot) ||
			(!room_is_mine(slot) && (any_age || (double) (now - slot->opened_us) < staying_us)))
			continue;
		staying[slot->device] += (double) device_slot_memory(slot);
		staying_chunks += slot->nchunks;
		staying_slots++;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
		ndevices += (request->devices & room_device_bit(d)) != 0;
	/* those ahead share the devices */
	for (int i = 0; i < ahead; i++)
	{
		if ((device_shared->queue[i].devices & request->devices) != 0)
			bytes += (double) device_shared->queue[i].bytes / Max(ndevices, 1);
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((request->devices & room_device_bit(d)) != 0)
			memory_us = Min(memory_us,
							time_for(bytes, (double) room.memory[d],
									 (double) device_shared->devices[d].budget, staying[d],
									 (double) request->bytes, byte_hold_us));
	}
	slot_us = time_for(ahead + 1, room.slots, DEVICE_SLOTS, staying_slots, 1, hold_us);
	chunk_us = time_for(DEVICE_MIN_CHUNKS * (ahead + 1), room.chunks,
						device_shared->staging_chunks, staying_chunks, DEVICE_MIN_CHUNKS, hold_us);
	return Max(memory_us, Max(slot_us, chunk_us));
}

/*
 * Is it worth waiting, behind all who do?  forced: if there will ever be room it is.  If not,
 * *expected_us says why, if it is not 0.
 */
static bool
queue_worth_waiting(const Request *request, double patience_us, bool forced, double *expected_us)
{
	*expected_us = 0;
	if (patience_us <= 0 || request->devices == 0 || device_shared->nwaiting == DEVICE_QUEUE)
		return false;
	*expected_us = expected_wait_us(request, device_shared->nwaiting, forced);
	return forced ? *expected_us < DBL_MAX : *expected_us <= patience_us;
}

/* ------------------------------------------------------------------------
 * The queue
 * ------------------------------------------------------------------------
 */
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

static void
queue_changed(void)
{
	device_shared->first_waiting = device_shared->nwaiting > 0 ?
		device_shared->queue[0].latch : NULL;
}

static int
queue_place(void)
{
	int			place = 0;

	while (device_shared->queue[place].sequence_number != my_sequence)
	{
		place++;
		Assert(place < device_shared->nwaiting);
	}
	return place;
}

static void
queue_enter(const Request *request)
{
	DeviceWaiter *waiter = &device_shared->queue[device_shared->nwaiting++];

	my_sequence = ++device_shared->last_sequence;
	waiter->since_us = device_now_us();
	waiter->sequence_number = my_sequence;
	waiter->latch = MyLatch;
	waiter->bytes = request->bytes;
	waiter->devices = request->devices;
	queue_changed();
}

/* Wakes those from a place on for whom there is room. */
static void
queue_wake_from(int place)
{
	Room		room;
	DeviceState why;

	if (place >= device_shared->nwaiting)
		return;
	room_look(&room);
	for (int i = place; i < device_shared->nwaiting; i++)
	{
		const DeviceWaiter *waiter = &device_shared->queue[i];
		Request		request = {waiter->bytes, DEVICE_MIN_CHUNKS, waiter->devices};

		if (room_find(&room, &request, i, &why) >= 0)
			SetLatch(waiter->latch);
	}
}

/* This backend's way through it: how many are ahead is its place. */
static void
queue_leave(int place)
{
	device_shared->waited++;
	device_shared->waited_us += device_now_us() - device_shared->queue[place].since_us;
	device_shared->nwaiting--;
	memmove(&device_shared->queue[place], &device_shared->queue[place + 1],
			(device_shared->nwaiting - place) * sizeof(DeviceWaiter));
	my_sequence = 0;
	queue_changed();
	queue_wake_from(place);
}

void
device_leave_queue(void)
{
	if (my_sequence == 0)
		return;
	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	queue_leave(queue_place());
	LWLockRelease(device_shared->lock);
}

/*
 * Never waits: a backend may have been killed with the lock, and the server with it.
 * Whom nobody wakes looks by itself soon.
 */
void
device_wake_queue(void)
{
	if (!LWLockConditionalAcquire(device_shared->lock, LW_SHARED))
		return;
	for (int i = 0; i < device_shared->nwaiting; i++)
		SetLatch(device_shared->queue[i].latch);
	LWLockRelease(device_shared->lock);
}

void
device_wake_first(void)
{
	Latch	   *latch;

	pg_memory_barrier();
	latch = device_shared->first_waiting;
	if (latch != NULL)
		SetLatch(latch);
}

/* ------------------------------------------------------------------------
 * Who gets on the device, and who waits.
 *
 * A job gets all that it needs when it begins: a slot, some chunks of the staging
 * pool, and a part of a device's budget.  Those for whom there is no room wait in a
 * queue in shared memory, first come, first served: whoever comes while others wait
 * for the same devices waits behind them, also if it is small enough to fit at
 * once.  Otherwise a stream of small sorts would keep a large one waiting for
 * ever.  Devices that nobody ahead can use may be taken by those behind.
 *
 * A sort does not have to wait, because the CPU can do it.  So patience_us is what
 * waiting may cost, and one that must expect to wait longer goes to the CPU at
 * once.  What to expect follows from what jobs have lately held and how long
 * (Little's law): memory comes free at the rate of what is held divided by the mean
 * time for which a byte is held.  Jobs that are far older than that (of queries
 * that nobody reads on) are taken to stay, and our own (of this query) do stay.
 * For an algorithm that a user forces only the latter count, until a session has
 * waited in vain.
 *
 * A session that holds a job does not wait for another: an inner sort that streams keeps its job as long
 * as its outer sort waits, and sessions that wait for each other's jobs only lose time.  The outer sort is
 * the CPU's if there is no room at once.  A session is a backend with its parallel workers.
 *
 * No backend gets more than gpusort.device_share of a device; a job that asks for more
 * than it has is not put into the queue, since it can do with what it has.
 *
 * Wake-ups: whoever frees a slot sets the latch of the first in the queue, without
 * a lock, since it may be the device process; the first takes what it needs or
 * not, and wakes those behind it for whom there is room.
 *
 * On error: who waits leaves the queue, by PG_CATCH when it is cancelled, by
 * device_leave_queue() when it ends.
 * ------------------------------------------------------------------------
 */

/* A lost wake-up costs no more than this. */
#define QUEUE_TIMEOUT_MS		200

/* Since it last got in, it has waited for all its patience. */
static bool waited_in_vain = false;

void
device_close_slot(DeviceSlot *slot, uint32 generation)
{
	uint32		closing = device_slot_word(generation, DEVICE_SLOT_CLOSING);

	pg_atomic_write_u32(&slot->state, closing);
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->generation) != generation)
	{
		/* the supervisor may have been here before us, or may come after */
		(void) pg_atomic_compare_exchange_u32(&slot->state, &closing, 0);
		device_wake_first();
	}
	else
		device_wake_process();
}

/* The free slot, for a job on this device. */
static DeviceSlot *
fill_slot(const Room *room, const DeviceJobSpec *spec, int device, int want_chunks, int ahead)
{
	DeviceSlot *slot = &device_shared->slots[room->slot];

	slot->latch = MyLatch;
	slot->pid = MyProcPid;
	slot->session = room_session();
	slot->opened_us = device_now_us();
	slot->device = device;
	slot->device_bytes = 0;
	slot->nchunks = room_take_chunks(room, want_chunks, ahead, slot->chunks);
	slot->spec = *spec;
	slot->number = ++device_shared->last_number;
	slot->is_producer = false;
	slot->producers = 0;
	pg_atomic_write_u32(&slot->posted, 0);
	pg_atomic_write_u32(&slot->read, 0);
	pg_atomic_write_u32(&slot->taken, 0);
	pg_atomic_write_u32(&slot->made, 0);
	pg_atomic_write_u32(&slot->growths, 0);
	pg_atomic_write_u32(&slot->grown, 0);
	pg_atomic_write_u32(&slot->command, DEVICE_LOAD);
	pg_atomic_write_u32(&slot->status, DEVICE_LOADING);
	slot->allocated = 0;
	slot->want_rows = slot->want_row_bytes = 0;
	slot->cancel = 0;
	return slot;
}

/* The process sees it; NULL if that leaves. */
static DeviceSlot *
open_slot(DeviceSlot *slot, uint32 word, DeviceState *why)
{
	pg_write_barrier();
	pg_atomic_write_u32(&slot->state, word);
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_READY)
		return slot;
	/* it may not have seen us (process_idle.c) */
	device_close_slot(slot, word >> 2);
	*why = DEVICE_STATE_NONE;
	return NULL;
}

/* One attempt to open a slot, with so many others ahead. */
static DeviceSlot *
try_open(const DeviceJobSpec *spec, const Request *request, int ahead,
		 uint32 *word, DeviceState *why)
{
	/* the generation first: if the service ends meanwhile, the job is lost */
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
	room_look(&room);
	device = room_find(&room, request, ahead, why);
	if (device < 0)
		return NULL;

	slot = fill_slot(&room, spec, device, request->want_chunks, ahead);
	slot->device_bytes = request->bytes;
	*word = device_slot_word(generation, DEVICE_SLOT_OPEN);
	waited_in_vain = false;
	return open_slot(slot, *word, why);
}

void
device_wake_process(void)
{
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->sleeping) != 0 &&
		pg_atomic_exchange_u32(&device_shared->sleeping, 0) != 0)
		sem_post(&device_shared->wake);
}

/* Waits for room, in the queue, and leaves it. */
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

		LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
		place = queue_place();
		slot = try_open(spec, request, place, word, why);
		if (slot != NULL || *why == DEVICE_STATE_NONE || left_us <= 0)
		{
			queue_leave(place);
			LWLockRelease(device_shared->lock);
			waited_in_vain = left_us <= 0 && slot == NULL;
			return slot;
		}
		queue_wake_from(place + 1);
		LWLockRelease(device_shared->lock);
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

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	fault_admission(spec->fault);
	request.devices = room_devices_for(device_bytes);
	slot = try_open(spec, &request, device_shared->nwaiting, word, why);
	if (slot == NULL && !room_any_device())
		*why = DEVICE_STATE_NONE;
	if (slot == NULL && *why != DEVICE_STATE_NONE && !room_session_holds() &&
		queue_worth_waiting(&request, patience_us, forced, &expected_us))
		queue_enter(&request);
	LWLockRelease(device_shared->lock);
	if (!queue_waiting() && expected_us > patience_us)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: to wait for the device would take %.3g ms and may cost %.3g",
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

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	if (device_job_is_open(into) && device_slot_is_current(job) && job->producers > 0)
	{
		job->producers--;
		room_look(&room);
		if (room.slots == 0 || room.chunks < DEVICE_MIN_CHUNKS)
			elog(ERROR, "gpusort: there is no room for a feeder that was reserved");
		slot = fill_slot(&room, spec, job->device, want_chunks, 0);
		slot->is_producer = true;
		slot->into = *into;
		/* of the job's generation: if that is over, so is this */
		*word = into->word;
		slot = open_slot(slot, *word, &why);
	}
	LWLockRelease(device_shared->lock);
	return slot;
}

bool
device_reserve_producers(DeviceSlot *slot, int producers)
{
	Room		room;
	bool		fits;

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	slot->producers = 0;
	room_look(&room);
	/* those who wait come first */
	fits = room.slots >= producers + device_shared->nwaiting &&
		room.chunks >= (producers + device_shared->nwaiting) * DEVICE_MIN_CHUNKS;
	if (fits)
		slot->producers = producers;
	LWLockRelease(device_shared->lock);
	if (producers == 0)
		device_wake_first();
	return fits;
}

/* ------------------------------------------------------------------------
 * Which device a sort of this backend would get now, and what else goes on there.
 *
 * A job that lasts far longer than others do waits for its backend (a query that nobody
 * reads on), and is in nobody's way.
 * ------------------------------------------------------------------------
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

		others += slot->device == device && slot->pid != MyProcPid && !slot->is_producer &&
			device_slot_is_current(slot) &&
			(double) (now - slot->opened_us) < staying_us;
	}
	return others;
}

double
device_others(int device)
{
	double		others;

	LWLockAcquire(device_shared->lock, LW_SHARED);
	others = count_others(device);
	LWLockRelease(device_shared->lock);
	return others;
}

void
device_availability(DeviceAvailability *availability)
{
	Room		room;

	memset(availability, 0, sizeof(*availability));
	LWLockAcquire(device_shared->lock, LW_SHARED);
	room_look(&room);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		uint64		share = device_shared->devices[d].budget / 100 * gpusort_device_share;
		uint64		memory = Min(room.memory[d], share);

		if ((gpusort_device_mask & room_device_bit(d)) == 0)
			continue;
		availability->all_memory += memory;
		if (memory > availability->memory)
		{
			availability->device = d;
			availability->memory = memory;
		}
	}
	availability->others = count_others(availability->device);
	LWLockRelease(device_shared->lock);
}
