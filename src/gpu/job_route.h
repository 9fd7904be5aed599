/*
 * job_route.h
 *	  Whether a sort uses a GPU, and what EXPLAIN and the progress view show of it.
 */
#ifndef GPUSORT_GPU_JOB_ROUTE_H
#define GPUSORT_GPU_JOB_ROUTE_H

#include "gpu/gpu.h"

/*
 * Is a GPU the best choice?  Both functions set *facts.  If true, *decision has the GPU's
 * algorithm; otherwise facts->device and facts->gpu.why_not are the reason.
 *
 * device_route_keys: for the keys (and rids) of n rows in this layout and width; the key
 * buffer has some or all of the rows.  key_range is the number of possible keys, 0 if it is
 * not known.  device_route_rows: for whole rows.
 */
extern bool device_route_keys(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
							  int key_width, uint64 key_range, size_t n, RouteFacts *facts,
							  RouteDecision *decision);
extern bool device_route_rows(const SortEnv *env, const Batch *batch, const KeyLayout *layout,
							  int key_width, double rows, RouteFacts *facts,
							  RouteDecision *decision);

/*
 * Chooses the GPU's algorithm for the rows of a parallel sort, before the first one comes.
 * The caller has already decided for the GPU.  False if there is no suitable algorithm.
 */
extern bool device_route_producer(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
								  int key_width, double rows, RouteFacts *facts,
								  RouteDecision *decision);

/* Expected number of rows of the sort, without those that have left the key buffer. */
extern double device_rows_expected(const SortEnv *env, const KeyBuffer *keybuf);

/* Do the buffered keys look presorted, ascending or descending? */
extern bool device_keys_ordered(const KeyBuffer *keybuf, const KeyLayout *layout);

/* Updates the progress view after the job was opened, or has grown. */
extern void device_show_job(SortEnv *env, const RouteDecision *decision, const DeviceJobSpec *spec);

/*
 * Reports a job, whose first chunk has come back, for EXPLAIN, and teaches the cost model.
 * rows are those of the sort or part that the report shows; at_once: all of them were known
 * when the job was opened.
 */
extern void device_report_job(SortEnv *env, const DeviceJob *job, const RouteFacts *facts,
							  const RouteDecision *decision, uint64 rows, bool at_once);

/* Adds a part of this number of rows to the report of the job's device. */
extern void device_report_part(SortEnv *env, const DeviceJob *job, uint64 rows);

/* Logs and counts a failure of the device.  This sort does not try a device again. */
extern void device_note_failure(SortEnv *env, const Algorithm *algorithm, const char *why);

#endif							/* GPUSORT_GPU_JOB_ROUTE_H */
