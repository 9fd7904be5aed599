/*
 * admission.c
 *	  Who gets on the device, and who waits: slots, chunks, device memory.
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
 * No backend gets more than gpusort.device_share of a device; a job that asks for more
 * than it has is not put into the queue, since it can do with what it has.
 *
 * Wake-ups: whoever frees a slot sets the latch of the first in the queue, without
 * a lock, since it may be the device process; the first takes what it needs or
 * not, and wakes those behind it for whom there is room.
 *
 * On error: who waits leaves the queue, by PG_CATCH when it is cancelled, by
 * device_leave_queue() when it ends.
 */
#include "postgres.h"

#include <float.h>

#include "compat.h"
#include "device/admission.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "settings.h"
#include "utils/wait_event.h"

/* A lost wake-up costs no more than this. */
#define QUEUE_TIMEOUT_MS		200

/* A job that has lasted for this many mean times is taken to stay. */
#define STAYING_HOLDS			8
#define STAYING_MIN_US			100000

/* What a job asks for. */
typedef struct Request
{
	uint64		bytes;			/* of one device's memory */
	int			want_chunks;
	uint64		devices;		/* a bit per CUDA number: those that could hold it */
} Request;

/* What is free. */
typedef struct Room
{
	uint64		memory[DEVICE_MAX];
	int			slot;			/* a free one, or -1 */
	int			slots;
	int			chunks;
	uint8		taken[DEVICE_MAX_CHUNKS / BITS_PER_BYTE];
} Room;

/* This backend's place in the queue; 0: none. */
static uint64 my_ticket = 0;

/* Since it last got in, it has waited for all its patience. */
static bool waited_in_vain = false;

uint64
device_now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

static inline uint64
device_bit(int device)
{
	return UINT64CONST(1) << device_shared->devices[device].index;
}

static inline bool
in_use(const DeviceSlot *slot)
{
	return pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state) !=
		device_slot_word(0, DEVICE_SLOT_FREE);
}

/* ------------------------------------------------------------------------
 * Room; under the lock
 * ------------------------------------------------------------------------
 */
static void
look_around(Room *room)
{
	memset(room, 0, sizeof(*room));
	room->slot = -1;
	room->chunks = device_shared->staging_chunks;
	for (int d = 0; d < device_shared->ndevices; d++)
		room->memory[d] = device_shared->devices[d].budget;
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (!in_use(slot))
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
	}
}

/* What this backend has of each device. */
static void
look_at_mine(uint64 *mine)
{
	memset(mine, 0, DEVICE_MAX * sizeof(uint64));
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (in_use(slot) && slot->pid == MyProcPid)
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
devices_for(uint64 bytes)
{
	uint64		devices = 0;
	uint64		mine[DEVICE_MAX];

	look_at_mine(mine);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (share_of(d) >= bytes + mine[d])
			devices |= device_bit(d);
	}
	return devices & gpusort_device_mask;
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

		look_around(&room);
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

/*
 * Is there room for a request with so many others ahead?  The device with the
 * most memory left, or -1 and *why.
 */
static int
find_room(const Room *room, const Request *request, int ahead, RouteDevice *why)
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
		*why = request->devices == 0 ? ROUTE_DEVICE_FULL : ROUTE_DEVICE_BUSY;
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
	*why = best < 0 ? ROUTE_DEVICE_FULL : ROUTE_DEVICE_READY;
	return best;
}

/* Up to want chunks, no more than an eighth of what is free, that many get some. */
static int
take_chunks(const Room *room, int want, int ahead, uint32 *chunks)
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

/* One attempt to open a slot, with so many others ahead. */
static DeviceSlot *
try_open(const DeviceJobSpec *spec, const Request *request, int ahead,
		 uint32 *word, RouteDevice *why)
{
	/* the generation first: if the service ends meanwhile, the job is lost */
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	DeviceSlot *slot;
	Room		room;
	int			device;

	pg_read_barrier();
	if (pg_atomic_read_u32(&device_shared->state) != DEVICE_SERVICE_READY)
	{
		*why = ROUTE_DEVICE_NONE;
		return NULL;
	}
	pg_read_barrier();
	look_around(&room);
	device = find_room(&room, request, ahead, why);
	if (device < 0)
		return NULL;

	slot = &device_shared->slots[room.slot];
	slot->latch = MyLatch;
	slot->pid = MyProcPid;
	slot->opened_us = device_now_us();
	slot->device = device;
	slot->device_bytes = request->bytes;
	slot->nchunks = take_chunks(&room, request->want_chunks, ahead, slot->chunks);
	slot->spec = *spec;
	pg_atomic_write_u32(&slot->posted, 0);
	pg_atomic_write_u32(&slot->read, 0);
	pg_atomic_write_u32(&slot->taken, 0);
	pg_atomic_write_u32(&slot->made, 0);
	pg_atomic_write_u32(&slot->growths, 0);
	pg_atomic_write_u32(&slot->grown, 0);
	pg_atomic_write_u32(&slot->command, DEVICE_LOAD);
	pg_atomic_write_u32(&slot->status, DEVICE_LOADING);
	slot->allocated = 0;
	slot->cancel = 0;
	waited_in_vain = false;
	*word = device_slot_word(generation, DEVICE_SLOT_OPEN);
	pg_write_barrier();
	pg_atomic_write_u32(&slot->state, *word);
	pg_memory_barrier();
	if (pg_atomic_read_u32(&device_shared->state) != DEVICE_SERVICE_READY)
	{
		/* the process leaves, and may not have seen us (process_idle.c) */
		device_close_slot(slot, generation);
		*why = ROUTE_DEVICE_NONE;
		return NULL;
	}
	return slot;
}

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

/* DBL_MAX: there never will be room.  any_age: only our own jobs stay. */
static double
expected_wait_us(const Request *request, int ahead, bool any_age)
{
	double		hold_us = device_shared->hold_us;
	double		byte_hold_us = device_shared->byte_hold_us;
	double		staying_us = Max(STAYING_HOLDS * Max(hold_us, byte_hold_us), STAYING_MIN_US);
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

	look_around(&room);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		if (!in_use(slot) ||
			(slot->pid != MyProcPid && (any_age || (double) (now - slot->opened_us) < staying_us)))
			continue;
		staying[slot->device] += (double) device_slot_memory(slot);
		staying_chunks += slot->nchunks;
		staying_slots++;
	}
	for (int d = 0; d < device_shared->ndevices; d++)
		ndevices += (request->devices & device_bit(d)) != 0;
	/* those ahead share the devices */
	for (int i = 0; i < ahead; i++)
	{
		if ((device_shared->queue[i].devices & request->devices) != 0)
			bytes += (double) device_shared->queue[i].bytes / Max(ndevices, 1);
	}
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if ((request->devices & device_bit(d)) != 0)
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

/* *expected_us says why not, if that is the reason. */
static bool
worth_waiting(const Request *request, double patience_us, double *expected_us)
{
	bool		forced = gpusort_forced_algorithm() != NULL && !waited_in_vain;

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
static uint32
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

/* Our place; under the lock. */
static int
place_in_queue(void)
{
	int			place = 0;

	while (device_shared->queue[place].ticket != my_ticket)
	{
		place++;
		Assert(place < device_shared->nwaiting);
	}
	return place;
}

static void
enter_queue(const Request *request)
{
	DeviceWaiter *waiter = &device_shared->queue[device_shared->nwaiting++];

	my_ticket = ++device_shared->last_ticket;
	waiter->ticket = my_ticket;
	waiter->latch = MyLatch;
	waiter->bytes = request->bytes;
	waiter->devices = request->devices;
	queue_changed();
}

/* Those from a place on for whom there is room; under the lock. */
static void
wake_from(int place)
{
	Room		room;
	RouteDevice why;

	if (place >= device_shared->nwaiting)
		return;
	look_around(&room);
	for (int i = place; i < device_shared->nwaiting; i++)
	{
		const DeviceWaiter *waiter = &device_shared->queue[i];
		Request		request = {waiter->bytes, DEVICE_MIN_CHUNKS, waiter->devices};

		if (find_room(&room, &request, i, &why) >= 0)
			SetLatch(waiter->latch);
	}
}

/* Takes us out; under the lock. */
static void
leave_place(int place)
{
	device_shared->nwaiting--;
	memmove(&device_shared->queue[place], &device_shared->queue[place + 1],
			(device_shared->nwaiting - place) * sizeof(DeviceWaiter));
	my_ticket = 0;
	queue_changed();
	wake_from(place);
}

void
device_leave_queue(void)
{
	if (my_ticket == 0)
		return;
	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	leave_place(place_in_queue());
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
			  uint32 *word, RouteDevice *why)
{
	uint64		start = device_now_us();

	for (;;)
	{
		double		left_us = patience_us - (double) (device_now_us() - start);
		DeviceSlot *slot;
		int			place;

		LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
		place = place_in_queue();
		slot = try_open(spec, request, place, word, why);
		if (slot != NULL || *why == ROUTE_DEVICE_NONE || left_us <= 0)
		{
			leave_place(place);
			LWLockRelease(device_shared->lock);
			waited_in_vain = left_us <= 0 && slot == NULL;
			return slot;
		}
		wake_from(place + 1);
		LWLockRelease(device_shared->lock);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) Min(left_us / 1000 + 1, QUEUE_TIMEOUT_MS), queue_wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* A test's order: until we are killed. */
pg_noreturn static void
hold_lock(void)
{
	pgstat_report_wait_start(queue_wait_event());
	for (;;)
		pg_usleep(1000000L);
}

/* Is there a device that we may use at all? */
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

DeviceSlot *
device_admit(const DeviceJobSpec *spec, uint64 device_bytes, int want_chunks,
			 double patience_us, uint32 *word, RouteDevice *why)
{
	Request		request = {device_bytes, want_chunks, 0};
	double		expected_us = 0;
	DeviceSlot *slot;

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	if (spec->fault == DEVICE_FAULT_HOLD_LOCK)
		hold_lock();
	request.devices = devices_for(device_bytes);
	slot = try_open(spec, &request, device_shared->nwaiting, word, why);
	if (slot == NULL && !any_device())
		*why = ROUTE_DEVICE_NONE;
	if (slot == NULL && *why != ROUTE_DEVICE_NONE &&
		worth_waiting(&request, patience_us, &expected_us))
		enter_queue(&request);
	LWLockRelease(device_shared->lock);
	if (my_ticket == 0 && expected_us > patience_us)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: to wait for the device would take %.3g ms and may cost %.3g",
								 expected_us / 1000, patience_us / 1000)));
	if (my_ticket == 0)
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
