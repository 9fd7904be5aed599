/*
 * process_idle.c
 *	  What no job uses is given back: memory soon, contexts later.
 *
 * A GPU is seldom a database's alone.  Freed blocks are kept for the next job,
 * because it costs more to get them than to sort; when a device has had no job for
 * gpusort.device_idle_blocks they go.  A context takes some hundred megabytes, too,
 * and nothing less than the end of its process is sure to give all of it back: so when
 * there was no job for gpusort.device_idle_context, or gpusort.device was changed by a
 * reload, the process ends, and the supervisor starts another when a sort asks.
 *
 * A backend that opens a job at that moment and the process that leaves each
 * say so first and look at the other then: either the process sees the job and stays,
 * or the backend sees that it leaves.  Both may be; that is a job for the CPU.
 */
#include "postgres.h"

#include <unistd.h>

#include "device/clock.h"
#include "device/service/service.h"

/* Jobs' memory, and that of other programs, is looked at so often, if anything happens. */
#define LOOK_EVERY_US		20000

void
device_read_memory(const DeviceApi *api, int device)
{
	GpusortMemory memory;

	if (!process_memory_trylock(device))
		return;
	device_shared->at_device = device_shared->devices[device].index;
	api->cuda->device_memory(api->contexts[device], 1, &memory);
	device_shared->at_device = -1;
	process_memory_unlock(device);
	device_shared->devices[device].budget = memory.budget;
	device_shared->devices[device].kept = memory.kept;
}

/* Counts each device's jobs; those that wait for their backends count too. */
static int
count_jobs(int *jobs)
{
	int			all = 0;

	memset(jobs, 0, DEVICE_MAX * sizeof(int));
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		if (device_slot_is_current(&device_shared->slots[i]))
		{
			jobs[device_shared->slots[i].device]++;
			all++;
		}
	}
	return all;
}

/* Ends the process if it has no job, and none comes. */
static void
try_to_leave(void)
{
	static uint64 leaving_since = 0;
	uint64		now = device_now_us();
	int			jobs[DEVICE_MAX];

	if (leaving_since == 0)
		leaving_since = now;
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_LEAVING);
	pg_memory_barrier();
	if (count_jobs(jobs) == 0 ||
		now - leaving_since > (uint64) DEVICE_LEAVE_PATIENCE_MS * 1000)
		_exit(DEVICE_EXIT_IDLE);
	if (device_shared->leave)
		return;
	leaving_since = 0;
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_READY);
}

static inline bool
idle_for(uint64 since, uint64 now, int seconds)
{
	return seconds > 0 && now > since && now - since >= (uint64) seconds * 1000000;
}

void
device_process_house(const DeviceApi *api)
{
	static uint64 last_look = 0;
	uint64		now = device_now_us();
	uint64		last_used = 0;
	int			jobs[DEVICE_MAX];
	int			all;

	if (now - last_look < LOOK_EVERY_US)
		return;
	last_look = now;
	all = count_jobs(jobs);
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		DeviceEntry *entry = &device_shared->devices[d];

		if (jobs[d] > 0)
			entry->last_used_us = now;
		else if (entry->kept > 0 &&
				 idle_for(entry->last_used_us, now, device_shared->idle_blocks_s) &&
				 process_memory_trylock(d))
		{
			device_shared->at_device = entry->index;
			api->cuda->device_trim(api->contexts[d]);
			device_shared->at_device = -1;
			process_memory_unlock(d);
		}
		last_used = Max(last_used, entry->last_used_us);
		device_read_memory(api, d);
	}
	if (device_shared->leave ||
		pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_LEAVING ||
		(all == 0 && idle_for(last_used, now, device_shared->idle_context_s)))
		try_to_leave();
}
