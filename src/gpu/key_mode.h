/*
 * key_mode.h
 *	  Key mode: keys and rids go to a device, and rids come back in order.
 */
#ifndef GPUSORT_GPU_KEY_MODE_H
#define GPUSORT_GPU_KEY_MODE_H

#include "gpu/device_layout.h"
#include "gpu/gpu.h"

/* A batch whose keys are on the device. */
typedef struct DeviceKeys
{
	SortEnv    *env;
	Batch	   *batch;
	DeviceJob  *job;			/* of a sort in parts, the one that is read */
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	KeyLayout	layout;
	KeyCheck	keys;
	struct DeviceParts *parts;	/* several jobs (key_parts.c); NULL: one */

	/* on the way down */
	bool		failed;			/* no more of the result can be read */
	bool		no_room;		/* ... as the devices have no room for a part */
	BulkBuf		pending;		/* bitmap: rids that have not come back yet */
	Sorted	   *sorted;			/* the result */
	size_t		received;		/* rows that came back */
	size_t		job_first;		/* ... of the jobs before dk->job */
	Key128		last_key;		/* of the last row that came back */
	TieGroups	groups;			/* of rows with equal keys */
} DeviceKeys;

/* The rids that are checked together with their keys; NULL: keys are checked alone. */
static inline const uint32 *
device_pair_rids(const SortEnv *env, const uint32 *rids)
{
	return env->spec.gpu_verified ? rids : NULL;
}

/* ------------------------------------------------------------------------
 * key_parts.c: keys that exceed one job or one GPU
 * ------------------------------------------------------------------------
 */

/*
 * No device had room for the job that dk describes: opens the first job of a sort in parts.
 * False if there is no room, or no gain over the CPU.
 */
extern bool device_parts_begin(DeviceKeys *dk, double patience_us);

/* Splits the keys and sends the first parts. */
extern void device_parts_send(DeviceKeys *dk);

/*
 * Sets dk->job to the job that has the next rows.  If it is NULL they need none, and are in
 * *chunk.  False at the end, and if dk->failed is set.
 */
extern bool device_parts_next(DeviceKeys *dk, KeyChunk *chunk);

/* Memory of the split keys; 0 if dk->parts is NULL. */
extern Size device_parts_bytes(const DeviceKeys *dk);

/* Closes all jobs, frees the split keys, and sets dk->parts to NULL. */
extern void device_parts_end(DeviceKeys *dk);

/* ------------------------------------------------------------------------
 * check.c: checks of rids that a device returns
 * ------------------------------------------------------------------------
 */

/* Bytes of the batch, its result and the bitmap of rids. */
extern Size device_check_bytes(const SortEnv *env, const Batch *batch);

/* Sets the bitmap to the rids of all buffered rows. */
extern void device_check_begin(DeviceKeys *dk);

/* Checks n rids that came back: each must be that of a row, and come for the first time. */
extern bool device_check_rids(DeviceKeys *dk, const uint32 *rids, size_t n);

#endif							/* GPUSORT_GPU_KEY_MODE_H */
