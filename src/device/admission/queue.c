/*
 * queue.c
 *	  Who waits for a device, and what there is to expect of it.
 *
 * admission.c says why they do, and for how long.
 */
#include "postgres.h"

#include <float.h>

#include "compat.h"
#include "device/admission/queue.h"
#include "device/clock.h"
#include "miscadmin.h"

/* A job that has lasted for this many mean times is taken to stay. */
#define STAYING_HOLDS			8
#define STAYING_MIN_US			100000

/* This backend's place in the queue; 0: none. */
static uint64 my_ticket = 0;

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

double
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

bool
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
bool
queue_waiting(void)
{
	return my_ticket != 0;
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

int
queue_place(void)
{
	int			place = 0;

	while (device_shared->queue[place].ticket != my_ticket)
	{
		place++;
		Assert(place < device_shared->nwaiting);
	}
	return place;
}

void
queue_enter(const Request *request)
{
	DeviceWaiter *waiter = &device_shared->queue[device_shared->nwaiting++];

	my_ticket = ++device_shared->last_ticket;
	waiter->since_us = device_now_us();
	waiter->ticket = my_ticket;
	waiter->latch = MyLatch;
	waiter->bytes = request->bytes;
	waiter->devices = request->devices;
	queue_changed();
}

void
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

void
queue_leave(int place)
{
	device_shared->waited++;
	device_shared->waited_us += device_now_us() - device_shared->queue[place].since_us;
	device_shared->nwaiting--;
	memmove(&device_shared->queue[place], &device_shared->queue[place + 1],
			(device_shared->nwaiting - place) * sizeof(DeviceWaiter));
	my_ticket = 0;
	queue_changed();
	queue_wake_from(place);
}

void
device_leave_queue(void)
{
	if (my_ticket == 0)
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
