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

/* Returns a GpuSort Window for a WindowAgg of many rows whose functions it knows; otherwise the WindowAgg itself. */
extern Plan *replace_window(WindowAgg *window);

/* ------------------------------------------------------------------------
 * Format of a GpuSort Window in a finished plan
 *
 * Its columns are the child's, in its target list and qual as OUTER_VAR.  INDEX_VAR i is
 * the value of function i.  custom_exprs is the run condition.  custom_private has the WindowAgg,
 * without expressions, the list of WindowFuncs, and a list of an Agg with their aggregates in this
 * order, if there are any.
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
	WINDOW_CUME_DIST,

	/* read from rows */
	WINDOW_LAG,
	WINDOW_LEAD,
	WINDOW_FIRST_VALUE,
	WINDOW_LAST_VALUE,			/* of the frame */
	WINDOW_AGGREGATE			/* of the rows from the partition's first to the frame's last */
} WindowValue;

#define WINDOW_COUNTERS		WINDOW_NTILE

/* The row of lag() or lead() is at most this many rows away. */
#define WINDOW_MOST_DISTANCE	64

typedef struct WindowFunction
{
	WindowValue value;
	int			buckets;		/* of ntile() */
	AttrNumber	att;			/* column of the child: of all that read rows but aggregates */
	int			distance;		/* of lag() and lead(): this many rows away */
	const Const *missing;		/* their value if there is no such row; NULL: a NULL */
	WindowValue frame_end;		/* of last_value() and aggregates: the counter of a frame's rows */
} WindowFunction;

/* Reads a function of a WindowAgg.  False: the node does not know it. */
extern bool window_function_read(const WindowFunc *func, int frame_options, WindowFunction *function);

#endif							/* GPUSORT_NODES_WINDOW_WINDOW_H */
