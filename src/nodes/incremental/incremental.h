/*
 * incremental.h
 *	  The node GpuSort Incremental, for the planner.
 */
#ifndef GPUSORT_NODES_INCREMENTAL_INCREMENTAL_H
#define GPUSORT_NODES_INCREMENTAL_INCREMENTAL_H

#include "postgres.h"

#include "key/key.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/* Plan node "Custom Scan (GpuSort Incremental)". */
extern const CustomScanMethods incremental_scan_methods;

/*
 * gpusort_plan_fill() for a GpuSort Incremental, whose child's rows are ordered by the
 * first nprefix key columns; and that number.
 */
extern void incremental_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, int nprefix,
								  Limit *limit);
extern int	incremental_plan_prefix(const CustomScan *cscan);

/* Makes the node, which has the abilities of an Incremental Sort.  limit may be NULL. */
extern Plan *incremental_plan_make(IncrementalSort *incremental, const KeyColumn *keys, Limit *limit);

#endif							/* GPUSORT_NODES_INCREMENTAL_INCREMENTAL_H */
