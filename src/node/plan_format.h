/*
 * plan_format.h
 *	  A GpuSort in a finished plan: who makes one and who runs it agree here.
 */
#ifndef GPUSORT_PLAN_FORMAT_H
#define GPUSORT_PLAN_FORMAT_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

/* Is it a GpuSort?  Also one above Feeds. */
extern bool gpusort_plan_is(const Plan *plan);

/* Fills in what the node will need to know; limit may be NULL. */
extern void gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit);

/* The key columns, palloc'd, and how many there are. */
extern KeyColumn *gpusort_plan_keys(const CustomScan *cscan, int *nkeys);

/* Keys that are one column are another one. */
extern void gpusort_plan_move_key(CustomScan *cscan, AttrNumber from, AttrNumber to);

/* The LIMIT and OFFSET of the Limit above, to be evaluated by the node; NULL where there is none. */
extern void gpusort_plan_limit(const CustomScan *cscan, PlanState *parent, ExprState **count,
							   ExprState **offset);

#endif							/* GPUSORT_PLAN_FORMAT_H */
