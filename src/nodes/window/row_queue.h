/*
 * row_queue.h
 *	  A queue of rows: the current one and some that follow it.
 */
#ifndef GPUSORT_NODES_WINDOW_ROW_QUEUE_H
#define GPUSORT_NODES_WINDOW_ROW_QUEUE_H

#include "postgres.h"

#include "nodes/base/group_column.h"
#include "nodes/execnodes.h"

typedef struct RowQueue RowQueue;

/* Up to "ahead" rows behind the current one.  The columns are those of a partition. */
extern RowQueue *row_queue_create(PlanState *child, GroupColumns *columns, int ahead);

/* Begins with this row of the child, or, after a rescan of the child, with none. */
extern void row_queue_begin(RowQueue *queue, TupleTableSlot *row);

/* The next row becomes the current one.  NULL: there are no more. */
extern TupleTableSlot *row_queue_next(RowQueue *queue);

/* The row this far behind the current one; NULL: it is not in the current one's partition. */
extern TupleTableSlot *row_queue_row(const RowQueue *queue, int distance);

#endif							/* GPUSORT_NODES_WINDOW_ROW_QUEUE_H */
