/*
 * device_keys.h
 *	  Key mode's two halves: up (device_keys.c) and down (device_keys_down.c).
 */
#ifndef GPUSORT_DEVICE_KEYS_H
#define GPUSORT_DEVICE_KEYS_H

#include "device/client.h"
#include "key/device_layout.h"
#include "sort/device_sort.h"

/* Keys that come back: device_check.c. */
typedef struct KeyCheck
{
	uint64		sum;			/* of those that are still to come */
	Key128		last;			/* that came */
} KeyCheck;

/* A sort whose keys are on the device. */
typedef struct DeviceKeys
{
	DeviceJob  *job;
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;		/* its ranges are only set where keys travel early */
	size_t		sent;			/* staged rows whose keys are up */
	size_t		per_chunk;
	KeyCheck	keys;
	uint64		ties;			/* as reported before */

	/* on the way back; device_check.c */
	BulkBuf		pending;		/* a bit for each rid that is still to come */
	uint32		max_rid;
	bool		keep;			/* chunks add up; otherwise each replaces the one
								 * before */
	size_t		down_per_chunk; /* rows */
	size_t		received;		/* rows */
	size_t		given;			/* of them, in chunks that were replaced */
} DeviceKeys;

/*
 * Takes the result: all of it, or if it may stream its first chunk.  False if the job
 * is lost, also for a wrong result.
 */
extern bool device_keys_receive(Sorter *sorter);

#endif							/* GPUSORT_DEVICE_KEYS_H */
