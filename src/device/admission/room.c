/*
 * room.c
 *	  What is free of slots, chunks and device memory, and for whom.
 *
 * Nothing is kept: who asks looks at all slots, under the lock.
 */
#include "postgres.h"

#include "device/admission/room.h"
#include "settings.h"

void
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
		if (slot->feeders > 0 && device_slot_is_current(slot) && room_is_open(slot))
			reserved += slot->feeders;
	}
	room->slots -= Min(reserved, room->slots);
	room->chunks -= Min(reserved * DEVICE_MIN_CHUNKS, room->chunks);
}

bool
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
uint64
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
bool
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
int
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
int
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

