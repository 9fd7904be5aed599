/*
 * device_route.h
 *	  Does a device pay for this sort?
 */
#ifndef GPUSORT_DEVICE_ROUTE_H
#define GPUSORT_DEVICE_ROUTE_H

#include "postgres.h"

#include "device/client/client.h"
#include "key/pack.h"
#include "sort/batch.h"
#include "sort/sort_env.h"

/* A sort that was told to go to the device waits for room there at most so long. */
#define DEVICE_FORCED_PATIENCE_US	1e7

/*
 * device_route_keys: for n rows with keys like the staged ones, whose keys (and
 * rids) would travel in this layout and width.  device_route_rows: the same for
 * the rows themselves.  Both set *facts; if true *decision is a GPU's algorithm, and
 * device_route_job tells the device process of it.  facts->device and
 * facts->gpu.why_not say why not.
 */
extern bool device_route_keys(const SortEnv *env, const Stage *stage, const KeyLayout *layout,
							  int key_width, uint64 key_range, size_t n, RouteFacts *facts,
							  RouteDecision *decision);
extern bool device_route_rows(const SortEnv *env, const Batch *batch, const KeyLayout *layout,
							  int key_width, double rows, RouteFacts *facts,
							  RouteDecision *decision);

/*
 * The same where nothing is known but how many rows are expected, and that a device shall have them:
 * false if it has no algorithm for them, or another is set.
 */
extern bool device_route_feed(const SortEnv *env, const Stage *stage, const KeyLayout *layout,
							  int key_width, double rows, RouteFacts *facts,
							  RouteDecision *decision);
extern void device_route_job(const RouteFacts *facts, const RouteDecision *decision,
							 DeviceJobSpec *spec);

/* The job has been opened, or has grown: for others to see. */
extern void device_show_job(SortEnv *env, const RouteDecision *decision, const DeviceJobSpec *spec);

/* What a job's device did, with so many rows, for EXPLAIN; its first chunk is here. */
extern void device_report_part(SortEnv *env, const DeviceJob *job, uint64 rows);

/* How many the staged rows and those after them will be. */
extern double device_rows_expected(const SortEnv *env, const Stage *stage);

/* Do the staged keys look as if they were in order already? */
extern bool device_keys_ordered(const Stage *stage, const KeyLayout *layout);

/* The device failed this sort: logged, counted, not tried again. */
extern void device_note_failure(SortEnv *env, const Algorithm *algorithm, const char *why);

#endif							/* GPUSORT_DEVICE_ROUTE_H */
