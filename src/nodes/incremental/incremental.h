/*
 * incremental.h
 *	  The node GpuSort Incremental, for the planner.
 */
#ifndef GPUSORT_NODES_INCREMENTAL_INCREMENTAL_H
#define GPUSORT_NODES_INCREMENTAL_INCREMENTAL_H

#include "postgres.h"

#include "key/key.h"
#include "nodes/base/custom_node.h"
#include "nodes/plannodes.h"

/* Plan node "Custom Scan (GpuSort Incremental)". */
extern const NodeType incremental_node;

/* Makes the node, which has the abilities of an Incremental Sort.  limit may be NULL. */
extern Plan *incremental_plan_make(IncrementalSort *incremental, const KeyColumn *keys, Limit *limit);

#endif							/* GPUSORT_NODES_INCREMENTAL_INCREMENTAL_H */
