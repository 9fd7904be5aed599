/*
 * window.h
 *	  The node GpuSort Window, for the planner.
 */
#ifndef GPUSORT_NODES_WINDOW_WINDOW_H
#define GPUSORT_NODES_WINDOW_WINDOW_H

#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/plannodes.h"

/* Plan node "Custom Scan (GpuSort Window)". */
extern const NodeType window_node;

/*
 * Returns a GpuSort Window for a WindowAgg whose child returns sorted rows and whose
 * functions only number them; otherwise the WindowAgg itself.
 */
extern Plan *replace_window(WindowAgg *window);

/* ------------------------------------------------------------------------
 * Format of a GpuSort Window in a finished plan
 *
 * Its columns are the child's, in its target list and qual as OUTER_VAR.  INDEX_VAR i is
 * the value of function i.  custom_exprs is the run condition.  custom_private has the WindowAgg,
 * without expressions, and a list of numbers, two for each function: WindowValue and buckets.
 * ------------------------------------------------------------------------
 */

/* What a window function returns for a row. */
typedef enum WindowValue
{
	/* counters, of type int8 */
	WINDOW_ROW_NUMBER,			/* rows of the partition up to this row */
	WINDOW_RANK,				/* row number of the first row of the peer group */
	WINDOW_DENSE_RANK,			/* peer groups of the partition up to its own */
	WINDOW_PEERS_END,			/* row number of the last row of the peer group */
	WINDOW_PARTITION_ROWS,		/* rows of the partition */

	/* computed of the counters */
	WINDOW_NTILE,
	WINDOW_PERCENT_RANK,
	WINDOW_CUME_DIST
} WindowValue;

#define WINDOW_COUNTERS		WINDOW_NTILE

typedef struct WindowFunction
{
	WindowValue value;
	int			buckets;		/* of ntile() */
} WindowFunction;

#endif							/* GPUSORT_NODES_WINDOW_WINDOW_H */
