/*
 * room.h
 *	  What is free of slots, chunks and device memory, and for whom.
 *
 * All but device_reserve() and device_largest_job() is asked under the lock.
 */
#ifndef GPUSORT_ROOM_H
#define GPUSORT_ROOM_H

#include "device/protocol.h"
#include "device/state.h"
#include "miscadmin.h"
#include "storage/proc.h"

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

static inline uint64
room_device_bit(int device)
{
	return UINT64CONST(1) << device_shared->devices[device].index;
}

static inline bool
room_in_use(const DeviceSlot *slot)
{
	return pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state) !=
		device_slot_word(0, DEVICE_SLOT_FREE);
}

/* One that is closing is as good as gone. */
static inline bool
room_is_open(const DeviceSlot *slot)
{
	return device_slot_state(pg_atomic_read_u32((pg_atomic_uint32 *) &slot->state)) == DEVICE_SLOT_OPEN;
}

/* This backend's job? */
static inline bool
room_is_mine(const DeviceSlot *slot)
{
	return slot->pid == MyProcPid && room_is_open(slot);
}

/* Who we are: this process, or as a parallel worker the leader. */
static inline int
room_session(void)
{
	return MyProc->lockGroupLeader != NULL ? MyProc->lockGroupLeader->pid : MyProcPid;
}

/* Has this session a job? */
extern bool room_session_holds(void);

extern void room_look(Room *room);

/* The devices that could hold so much of ours, and whether there is any that we may use. */
extern uint64 room_devices_for(uint64 bytes);
extern bool room_any_device(void);

/*
 * Is there room for a request with so many others ahead?  The device with the
 * most memory left, or -1 and *why.
 */
extern int	room_find(const Room *room, const Request *request, int ahead, DeviceState *why);

/* Up to want chunks, no more than an eighth of what is free, that many get some. */
extern int	room_take_chunks(const Room *room, int want, int ahead, uint32 *chunks);

/*
 * Bytes of the largest job that a device would take of this backend, beside what it has, if
 * the others had nothing; and on how many devices it may have jobs.  Takes the lock.
 */
extern uint64 device_largest_job(int *devices);

/*
 * The job in the slot shall have so much of its device's memory; false if there is not
 * so much left for it.  What it has can be given back at any time, by the backend.
 */
extern bool device_reserve(DeviceSlot *slot, uint64 bytes);

#endif							/* GPUSORT_ROOM_H */
