/*
 * job.h
 *	  What jobs of both modes share: the decision for a GPU, the report, keys in memory.
 */
#ifndef GPUSORT_GPU_JOB_H
#define GPUSORT_GPU_JOB_H

#include "cost/cost.h"
#include "gpu/device_layout.h"
#include "gpu/gpu.h"
#include "key/key.h"
#include "store/store.h"

/* ------------------------------------------------------------------------
 * gpu_route.c: whether a sort uses a GPU, and what EXPLAIN and the progress view show of it
 * ------------------------------------------------------------------------
 */

/*
 * Is a GPU the best choice?  Both functions set *facts.  If true, *decision has the GPU's
 * algorithm; otherwise facts->device and facts->gpu.why_not are the reason.
 *
 * device_route_keys: for the keys (and rids) of all rows, in this layout.
 * device_route_rows: for whole rows.
 */
extern bool device_route_keys(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
							  RouteFacts *facts, RouteDecision *decision);
extern bool device_route_rows(const SortEnv *env, const Batch *batch, const DeviceLayout *dl, double rows,
							  RouteFacts *facts, RouteDecision *decision);

/*
 * Chooses the GPU's algorithm for the rows of a parallel sort, before the first one comes.
 * The caller has already decided for the GPU.  False if there is no suitable algorithm.
 */
extern bool device_route_producer(const SortEnv *env, const KeyBuffer *keybuf, const DeviceLayout *dl,
								  double rows, RouteFacts *facts, RouteDecision *decision);

/* Updates the progress view after the job was opened, or has grown to *spec. */
extern void device_show_job(SortEnv *env, DeviceJob *job, const RouteDecision *decision,
							const DeviceJobSpec *spec);

/* Closes the job.  wait: until its resources are free, for a limited time. */
extern void device_close_job(SortEnv *env, DeviceJob *job, bool wait);

/*
 * Reports a job, whose first chunk has come back, for EXPLAIN, and teaches the cost model.
 * rows: the number of rows that EXPLAIN shows for it.  at_once: all rows were known when the
 * job was opened, so its time also teaches the cost of the hand-over.
 */
extern void device_report_job(SortEnv *env, const DeviceJob *job, const RouteFacts *facts,
							  const RouteDecision *decision, uint64 rows, bool at_once);

/* Adds the job, a part of the sort, to the report of its device. */
extern void device_report_part(SortEnv *env, const DeviceJob *job);

/* Counts a failure of the device.  This sort does not try a device again. */
extern void device_note_failure(SortEnv *env, const Algorithm *algorithm);

/* ------------------------------------------------------------------------
 * Keys of a job in memory: their places and checksums
 * ------------------------------------------------------------------------
 */

/* Runs LOOP(type), a loop over an array of keys of this width. */
#define BY_KEY_WIDTH(width, LOOP) \
	do { \
		if ((width) == 32) \
			LOOP(uint32); \
		else if ((width) == 64) \
			LOOP(uint64); \
		else \
			LOOP(Key128); \
	} while (0)

/*
 * A key's part of a checksum.  It must not be linear in the key: otherwise keys 1, 2, 3 and
 * 2, 2, 2 would have the same checksum.
 */
static inline uint64
key_hash(const JobSecret *secret, uint64 key)
{
	uint64		hash = job_secret_mix(secret, key);

	return hash ^ hash >> 32;
}

static inline uint64
key_hash128(const JobSecret *secret, Key128 key)
{
	uint64		hash = job_secret_mix(secret, (uint64) key) + (uint64) (key >> 64) * secret->high_factor;

	return hash ^ hash >> 32;
}

/* Key i of an array of keys. */
static inline Key128
device_key_at(const char *keys, int width, size_t i)
{
	if (width == 32)
		return ((const uint32 *) keys)[i];
	if (width == 64)
		return ((const uint64 *) keys)[i];
	return ((const Key128 *) keys)[i];
}

#endif							/* GPUSORT_GPU_JOB_H */
