/*
 * admission.c
 *	  Who gets on the device, and who waits.
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
 */
#include "postgres.h"

#include "device/admission/admission.h"
#include "device/admission/queue.h"
#include "device/clock.h"
#include "device/fault.h"
#include "miscadmin.h"
#include "settings.h"

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
	slot->feeds = false;
	slot->feeders = 0;
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
device_admit_feeder(const DeviceJobName *into, const DeviceJobSpec *spec, int want_chunks,
					uint32 *word)
{
	DeviceSlot *job = &device_shared->slots[into->slot];
	DeviceSlot *slot = NULL;
	DeviceState why;
	Room		room;

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	if (device_job_is_open(into) && device_slot_is_current(job) && job->feeders > 0)
	{
		job->feeders--;
		room_look(&room);
		if (room.slots == 0 || room.chunks < DEVICE_MIN_CHUNKS)
			elog(ERROR, "gpusort: there is no room for a feeder that was reserved");
		slot = fill_slot(&room, spec, job->device, want_chunks, 0);
		slot->feeds = true;
		slot->into = *into;
		/* of the job's generation: if that is over, so is this */
		*word = into->word;
		slot = open_slot(slot, *word, &why);
	}
	LWLockRelease(device_shared->lock);
	return slot;
}

bool
device_reserve_feeders(DeviceSlot *slot, int feeders)
{
	Room		room;
	bool		fits;

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	slot->feeders = 0;
	room_look(&room);
	/* those who wait come first */
	fits = room.slots >= feeders + device_shared->nwaiting &&
		room.chunks >= (feeders + device_shared->nwaiting) * DEVICE_MIN_CHUNKS;
	if (fits)
		slot->feeders = feeders;
	LWLockRelease(device_shared->lock);
	if (feeders == 0)
		device_wake_first();
	return fits;
}
