/*
 * device_keys.h
 *	  Key mode: keys and rids go to a device, rids come back in order.
 */
#ifndef GPUSORT_DEVICE_KEYS_H
#define GPUSORT_DEVICE_KEYS_H

#include "device/client/key_chunks.h"
#include "key/device_layout.h"
#include "sort/device/device_route.h"
#include "sort/order.h"
#include "store/secret.h"

/* Why a sort did not go there. */
typedef struct DeviceRefusal
{
	DeviceState device;
	const char *why_not;
} DeviceRefusal;

/* Where the run of equal keys that is not settled yet begins, and its key. */
typedef struct TieRun
{
	size_t		start;
	Key128		key;
} TieRun;

/* Keys that come back: device_check.c. */
typedef struct KeyCheck
{
	JobSecret	secret;			/* of this sort; set before a job is opened */
	uint64		sum;			/* of those that are still to come */
	Key128		last;			/* that came */
} KeyCheck;

/* A batch whose keys are on the device. */
typedef struct DeviceKeys
{
	SortEnv    *env;
	Batch	   *batch;
	DeviceJob  *job;			/* NULL in parts */
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;		/* its ranges are only set where keys travel early */
	size_t		sent;			/* staged rows whose keys are up */
	size_t		per_chunk;
	KeyCheck	keys;
	struct DeviceParts *parts;	/* the jobs, if there are several (device_parts.c); NULL */
	bool		at_once;		/* all were there when the job was opened */

	/* on the way back; device_check.c */
	bool		lost;			/* what is still to come cannot be had, */
	char		why[128];		/* for this reason */
	BulkBuf		pending;		/* a bit for each rid that is still to come */
	uint32		max_rid;
	bool		keep;			/* chunks add up; otherwise each replaces the one
								 * before */
	size_t		down_per_chunk; /* rows */
	size_t		received;		/* rows */
	size_t		given;			/* of them, in chunks that were replaced */
	uint64		ties;			/* rows in settled runs of equal keys */
	TieRun		run;
} DeviceKeys;

/* Staged rows from which on it is worth asking whether keys shall go ahead; SIZE_MAX: never. */
extern size_t device_keys_after(const SortEnv *env, const Stage *stage);

/* Opens a job for keys that go ahead of others to come; NULL if that is not to be. */
extern DeviceKeys *device_keys_open_early(SortEnv *env, Batch *batch);

/* Room on the device for so many keys; some more, if they are still coming. */
extern bool device_keys_room(DeviceKeys *dk, size_t n, bool more);

/* Sends the next n staged rows' keys, no more than a chunk's worth. */
extern bool device_keys_send(DeviceKeys *dk, size_t n);

/* As order_batch(), if the route goes to the device and gets through; false, and *refusal, if not. */
extern bool device_keys_sort(SortEnv *env, Batch *batch, DeviceKeys *early,
							 const KeyLayout *layout, bool may_stream, Sorted *sorted,
							 DeviceKeys **streaming, DeviceRefusal *refusal);
extern void device_keys_end(DeviceKeys *dk);

/* Gives the device back; what the check knows stays. */
extern void device_keys_close(DeviceKeys *dk);

/* The result cannot be had from the device. */
extern void device_keys_lose(DeviceKeys *dk, const char *why);

/* What a job of this sort did, for EXPLAIN; its first chunk is here. */
extern void device_keys_report(DeviceKeys *dk, const DeviceJob *job);

/*
 * result_device_keys.c: takes the result: all of it, or if it may stream its first
 * chunk, and then *streams holds.  False if the job is lost, also for a wrong result.
 */
extern bool device_keys_receive(DeviceKeys *dk, bool may_stream, Sorted *sorted, bool *streams);

#endif							/* GPUSORT_DEVICE_KEYS_H */
