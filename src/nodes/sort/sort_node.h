/*
 * sort_node.h
 *	  The node GpuSort, for the planner and for the nodes above it.
 */
#ifndef GPUSORT_NODES_SORT_SORT_NODE_H
#define GPUSORT_NODES_SORT_SORT_NODE_H

#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "sort/sort.h"

/* Plan node "Custom Scan (GpuSort)". */
extern const CustomScanMethods gpusort_scan_methods;

/* Prepares the slots of such nodes, when the library is loaded. */
extern void gpusort_node_init(void);

/* Is this a GpuSort, serial or parallel? */
extern bool gpusort_plan_is(const Plan *plan);

/* Is this GpuSort parallel, that is, above a Gather of partial sorts? */
extern bool plan_above_partial_sorts(const CustomScan *cscan);

/* ------------------------------------------------------------------------
 * What a node above asks: it reads sorted rows in other ways than one after the other
 * ------------------------------------------------------------------------
 */

/*
 * The number of rows that a plan node returns, after it was asked for the first one.  False
 * if it is not known: the node is no serial GpuSort, or drops rows.
 */
extern bool gpusort_count_rows(PlanState *ps, uint64 *rows);

/* Skips at most this many following rows of such a node; returns how many. */
extern uint64 gpusort_skip_rows(PlanState *ps, uint64 rows);

/*
 * The number of following rows that gpusort_peek() can read; 0 for other nodes.  Sets *all if
 * no other rows follow them.
 */
extern uint64 gpusort_rows_ahead(PlanState *ps, bool *all);

/*
 * Puts following row i, one of those, into a slot of the kind that the node returns; 0 is the
 * next row.  The node's next row stays the same.
 */
extern void gpusort_peek(PlanState *ps, uint64 i, TupleTableSlot *slot);

/*
 * Returns at most RESULT_TAKE following rows of such a node at once: puts their addresses
 * into rows[] and returns their number.  They stay there until the next row is asked for.
 * 0: ask the node for the next row.  *more: later calls may return rows.
 */
extern int	gpusort_next_rows(PlanState *ps, MinimalTuple *rows, bool *more);

/* Do the rows of this node stay where they are until it is rescanned or ended? */
extern bool gpusort_rows_stay(PlanState *ps);

/*
 * The sorted rows of such a node, if all of them can be read in any order:
 * a row that was returned is at pos - 1, and the row at pos is returned next.  Otherwise NULL.
 * It stays until the node is rescanned or ended.
 */
extern ArrayResult *gpusort_array_result(PlanState *ps);

#endif							/* GPUSORT_NODES_SORT_SORT_NODE_H */
