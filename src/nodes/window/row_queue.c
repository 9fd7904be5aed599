/*
 * row_queue.c
 *	  A queue of rows: the current one and some that follow it.
 *
 * lead() needs the row at a constant distance behind the current one.  If no other function needs
 * later rows, the queue has only the rows up to that one, whatever the partition's size.
 *
 * Memory policy: a slot with a copy of its row for each place of the queue.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/base/group_compare.h"
#include "nodes/window/row_queue.h"

typedef struct QueuedRow
{
	TupleTableSlot *slot;
	int64		partition;		/* a number that grows with each partition */
} QueuedRow;

struct RowQueue
{
	PlanState  *child;
	GroupColumns *columns;		/* with the values of the last partition's first row */
	int64		partition;		/* its number */
	TupleTableSlot *pending;	/* the child's row that is not in the queue yet; NULL: there are no more */
	int			places;
	int			first;			/* place of the current row */
	int			n;				/* rows in the queue, with the current one */
	QueuedRow	rows[FLEXIBLE_ARRAY_MEMBER];	/* in a circle */
};

RowQueue *
row_queue_create(PlanState *child, GroupColumns *columns, int ahead)
{
	RowQueue   *queue = palloc0(offsetof(RowQueue, rows) + (ahead + 1) * sizeof(QueuedRow));

	queue->child = child;
	queue->columns = columns;
	queue->places = ahead + 1;
	for (int i = 0; i < queue->places; i++)
		queue->rows[i].slot = ExecInitExtraTupleSlot(child->state, ExecGetResultType(child), &TTSOpsMinimalTuple);
	return queue;
}

static inline QueuedRow *
row_at(const RowQueue *queue, int distance)
{
	int			place = queue->first + distance;

	return unconstify(QueuedRow *, &queue->rows[place < queue->places ? place : place - queue->places]);
}

void
row_queue_begin(RowQueue *queue, TupleTableSlot *row)
{
	queue->pending = row;
	queue->first = queue->n = 0;
	queue->partition = 0;
}

/* Appends the pending row to the queue. */
static void
add_pending(RowQueue *queue)
{
	GroupColumns *columns = queue->columns;
	QueuedRow  *row = row_at(queue, queue->n++);

	if (queue->partition == 0 || !group_columns_same(columns, columns->n, queue->pending))
	{
		slot_getsomeattrs(queue->pending, columns->last_attno);
		group_columns_keep(columns, queue->pending, 0);
		queue->partition++;
	}
	row->partition = queue->partition;
	ExecCopySlot(row->slot, queue->pending);
	queue->pending = ExecProcNode(queue->child);
	if (TupIsNull(queue->pending))
		queue->pending = NULL;
}

TupleTableSlot *
row_queue_next(RowQueue *queue)
{
	if (queue->n > 0)
	{
		queue->first = queue->first + 1 < queue->places ? queue->first + 1 : 0;
		queue->n--;
	}
	while (queue->n < queue->places && queue->pending != NULL)
		add_pending(queue);
	return queue->n > 0 ? row_at(queue, 0)->slot : NULL;
}

TupleTableSlot *
row_queue_row(const RowQueue *queue, int distance)
{
	const QueuedRow *row = row_at(queue, distance);

	return distance < queue->n && row->partition == row_at(queue, 0)->partition ? row->slot : NULL;
}
