/*
 * outlook.c
 *	  Which device a sort of this backend would get now, and what else goes on there.
 *
 * A job that lasts far longer than others do waits for its backend (a query that nobody
 * reads on), and is in nobody's way.
 */
#include "postgres.h"

#include "device/admission/outlook.h"
#include "device/admission/queue.h"
#include "device/admission/room.h"
#include "device/clock.h"
#include "settings.h"

static double
count_others(int device)
{
	double		staying_us = queue_staying_us();
	uint64		now = device_now_us();
	int			others = 0;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const DeviceSlot *slot = &device_shared->slots[i];

		others += slot->device == device && slot->pid != MyProcPid && !slot->feeds && device_slot_is_current(slot) &&
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
device_outlook(DeviceOutlook *outlook)
{
	Room		room;

	memset(outlook, 0, sizeof(*outlook));
	LWLockAcquire(device_shared->lock, LW_SHARED);
	room_look(&room);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		uint64		share = device_shared->devices[d].budget / 100 * gpusort_device_share;
		uint64		memory = Min(room.memory[d], share);

		if ((gpusort_device_mask & room_device_bit(d)) == 0)
			continue;
		outlook->all_memory += memory;
		if (memory > outlook->memory)
		{
			outlook->device = d;
			outlook->memory = memory;
		}
	}
	outlook->others = count_others(outlook->device);
	LWLockRelease(device_shared->lock);
}
