/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Window)": window functions of rows in order.
 *
 * row_number(), rank(), dense_rank() and a running count(*) depend only on how many rows
 * and peer groups of the partition came before.  The child returns the rows in order: a
 * GpuSort, or any other node, as an index scan.  So three counters suffice, and each row is
 * passed on when it comes.  WindowAgg stores the partition in a tuplestore, reads each row
 * from it, and calls each function.
 *
 * lag() and first_value() return values of earlier rows; the node keeps these values.  An aggregate
 * takes the rows from the partition's first to the frame's last.  Each row advances its transition
 * value (nodes/transition); PostgreSQL's own AggState has its functions.
 *
 * Other functions depend on following rows: ntile(), percent_rank(), cume_dist() and lead(), and
 * count(*), last_value() and aggregates if the frame ends with the last peer, as it does by default,
 * or with the partition.  A sort in memory can read its rows out of turn: exponential and binary
 * search find the last row.  Otherwise the rows of the peer group, or of the partition, are stored
 * until the next one begins (stored_rows.c).  If lead() alone depends on following rows, a queue has
 * the rows up to the farthest that it reads (row_queue.c).
 *
 * A row belongs to a new partition or peer group if a column differs from that of the
 * row before.  Many rows are taken from a sort at once, and the sort's keys tell the first
 * column that differs.  Then the compared columns are not read, and a node without
 * expressions reads no rows.  Where the keys do not tell, the columns are compared
 * (group_column.c).
 *
 * The child's row is the outer tuple of the node's expressions, and the values of the
 * functions are its scan tuple: custom_scan_tlist has a column for each function.  The
 * child's columns are therefore not copied.
 *
 * If the run condition (rn <= 3) of the topmost window fails for a row, it fails for the
 * following rows of the partition.  They are skipped; without partitions the node has
 * ended.  Where the sort can read rows out of turn, the partition's end is found by the same
 * search, and the rows before it are not read.  A lower window returns them, with NULLs for
 * its functions, as WindowAgg does.
 *
 * Memory policy: the compared columns of one row, and the values of lag(), first_value() and last_value(), in the
 * query's memory context; stored rows in a tuplestore of work_mem; transition values in the AggState's context, which
 * is reset with each partition.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/group_compare.h"
#include "nodes/sort/sort_node.h"
#include "nodes/transition/advance.h"
#include "nodes/window/row_queue.h"
#include "nodes/window/stored_rows.h"
#include "nodes/window/window.h"

/* Rows of a partition that are skipped one by one, before its end is searched. */
#define SKIP_ONE_BY_ONE		4

/* How the rows that follow are counted. */
typedef enum WindowAhead
{
	AHEAD_UNKNOWN,				/* there was no row yet */
	AHEAD_IN_SORT,				/* the sort reads them out of turn */
	AHEAD_STORED,				/* the rows of the partition or peer group are stored */
	AHEAD_QUEUED				/* some following rows are in a queue */
} WindowAhead;

static const char *const ahead_names[] = {
	[AHEAD_IN_SORT] = "read from sort",
	[AHEAD_STORED] = "stored",
	[AHEAD_QUEUED] = "queued"
};

/* A function, and the values of other rows. */
typedef struct FunctionState
{
	WindowFunction function;

	/* of lag(), first_value() and last_value(): the last values, in a circle */
	GroupColumn *kept;
	int			nkept;
	int			next;			/* the place of the next row's value, which has the oldest one */

	/* of lead() */
	TupleTableSlot *peeked;		/* the row that it reads from the sort */
	StoredReader *reader;		/* of stored rows */

	int64		kept_number;	/* of last_value(): the row number of the kept value */
	int			aggno;			/* of an aggregate */
} FunctionState;

/* The aggregates of the rows from the partition's first to the frame's last. */
typedef struct WindowAggregates
{
	AggState   *agg;			/* NULL: there are none */
	Transition *transitions;
	AttrNumber	last_attno;		/* last column that they read */
	bool		evaluates;		/* they use agg->tmpcontext */
	WindowValue frame_end;		/* the counter of the rows of a frame */
	int64		rows;			/* rows of the partition that were taken */
} WindowAggregates;

typedef struct WindowState
{
	CustomScanState css;
	const WindowAgg *window;	/* the replaced node */
	int			nfunctions;
	FunctionState *functions;
	AttrNumber	kept_attno;		/* last column of kept values; 0: none are kept */
	GroupColumns *columns;		/* of the partition, then of the order if the functions
								 * depend on it */
	ExprState  *run_condition;	/* NULL: none */
	ExprState  *filter;			/* the node's qual; NULL: none */
	TupleTableSlot *values;		/* the functions' values */
	bool		begun;			/* there was a row */
	bool		evaluates;		/* there are expressions or functions, which may read rows */

	bool		takes;			/* the child is a sort whose first columns are the compared ones */
	TakenRows	taken;
	bool		kept;			/* columns[] have the values of the last row */
	bool		searches;		/* rows of a partition or peer group all follow each other */

	/* the run condition has failed for a row of the partition */
	bool		skipping;		/* of the topmost window */
	bool		nulls;			/* of a lower one, whose functions then return NULL */
	int64		skipped;		/* rows of the partition skipped one by one */
	int64		jumped;			/* rows of all partitions that were not read */
	bool		ended;			/* no more rows will be returned */
	int64		counters[WINDOW_COUNTERS];	/* of the current row */

	WindowAggregates aggregates;

	/* functions that depend on following rows */
	bool		needs_peers_end;	/* one depends on the last row of the peer group */
	bool		needs_partition;	/* one depends on the last row of the partition */
	WindowAhead ahead;
	TupleTableSlot *following;	/* a row that the sort read out of turn */
	RowQueue   *queue;			/* if all of them are lead(); otherwise NULL */
	StoredRows *stored;			/* if some are others; otherwise NULL */
	StoredReader *peers;		/* reads peers of the current row among them */
} WindowState;

/* ------------------------------------------------------------------------
 * Comparing a row with the row before
 * ------------------------------------------------------------------------
 */

/*
 * Number of the first compared column in which the child's row differs from the row
 * before; the number of columns if there is none.  Keeps the row's values.
 */
static pg_attribute_always_inline int
first_difference(WindowState *node, TupleTableSlot *row)
{
	GroupColumns *columns = node->columns;
	int			first = 0;

	slot_getsomeattrs(row, columns->last_attno);
	if (likely(node->begun))
		first = group_columns_first_difference(columns, columns->n, row);
	group_columns_keep(columns, row, first);
	return first;
}

/* Keeps the compared columns of the last row, unless they are kept.  The row was taken. */
static void
keep_last_taken(WindowState *node)
{
	TupleTableSlot *row = outerPlanState(node)->ps_ResultTupleSlot;

	if (node->kept)
		return;
	row_to_slot(row, node->taken.rows[node->taken.next - 1]);
	slot_getsomeattrs(row, node->columns->last_attno);
	group_columns_keep(node->columns, row, 0);
	node->kept = true;
}

/* Takes the next rows of the sort; false if the next row must be asked for. */
static pg_noinline bool
take_rows(WindowState *node)
{
	keep_last_taken(node);
	return node->begun && sorted_input_take(outerPlanState(node), &node->taken);
}

/*
 * The next row.  Sets *first to the first compared column in which this row differs from the row before.  If the node
 * has no expressions, the slot may have an older row.
 */
static pg_attribute_always_inline TupleTableSlot *
next_compared_row(WindowState *node, int *first)
{
	PlanState  *outer = outerPlanState(node);
	TakenRows  *taken = &node->taken;
	TupleTableSlot *row = outer->ps_ResultTupleSlot;
	bool		compare;

	if (taken->next == taken->n && !(taken->more && take_rows(node)))
	{
		row = ExecProcNode(outer);
		if (!TupIsNull(row))
			*first = first_difference(node, row);
		return row;
	}
	if (unlikely(outer->instrument != NULL))
		outer->instrument->tuplecount++;
	*first = Min(taken->equal[taken->next] & ~EQUAL_COLUMNS_LEAST, node->columns->n);
	compare = *first < node->columns->n && (taken->equal[taken->next] & EQUAL_COLUMNS_LEAST) != 0;
	if (compare)
		keep_last_taken(node);
	if (compare || node->evaluates)
		row_to_slot(row, taken->rows[taken->next]);
	taken->next++;
	if (compare)
		*first = first_difference(node, row);
	node->kept = compare;
	return row;
}

/* ------------------------------------------------------------------------
 * Rows that follow
 * ------------------------------------------------------------------------
 */

/*
 * How many of the next "rows" rows of the sort agree with the current row in the first
 * ncolumns columns.  These rows come before all others, because the sort orders by the columns.
 */
static int64
count_same_ahead(WindowState *node, int64 rows, int ncolumns)
{
	PlanState  *outer = outerPlanState(node);
	int64		same = 0;		/* the rows before this one agree */
	int64		step = 1;
	int64		end;			/* this row does not agree, or is the end */

	if (ncolumns == 0)
		return rows;
	for (;;)
	{
		end = same + step - 1;
		if (end >= rows)
		{
			end = rows;
			break;
		}
		sorted_input_peek(outer, end, node->following);
		if (!group_columns_same(node->columns, ncolumns, node->following))
			break;
		same = end + 1;
		step *= 2;
	}
	while (same < end)
	{
		int64		middle = same + (end - same) / 2;

		sorted_input_peek(outer, middle, node->following);
		if (group_columns_same(node->columns, ncolumns, node->following))
			same = middle + 1;
		else
			end = middle;
	}
	return same;
}

/* Skips the following rows of the partition that the sort can look up without returning them. */
static void
jump(WindowState *node)
{
	bool		all;
	int64		rows = sorted_input_ahead(outerPlanState(node), &all);

	if (rows > 0)
	{
		rows = count_same_ahead(node, rows, node->window->partNumCols);
		node->jumped += sorted_input_skip(outerPlanState(node), rows);
	}
}

/* How many of the following stored rows are peers of the current row. */
static int64
count_stored_peers(WindowState *node)
{
	GroupColumns *columns = node->columns;
	TupleTableSlot *row;
	int64		rows = 0;

	/* if the node stores peer groups, all are */
	if (!node->needs_partition)
		return stored_rows_count(node->stored) - 1;
	stored_reader_begin(node->peers, 1);
	while ((row = stored_reader_next(node->peers)) != NULL && group_columns_same(columns, columns->n, row))
	{
		CHECK_FOR_INTERRUPTS();
		rows++;
	}
	stored_reader_rest(node->peers);
	return rows;
}

/* Begins to queue or store rows, with this row of the child or with none. */
static void
begin_ahead(WindowState *node, TupleTableSlot *row)
{
	if (node->queue != NULL)
		row_queue_begin(node->queue, row);
	if (node->stored != NULL)
		stored_rows_begin(node->stored, row);
}

/* The next row, for functions that depend on following rows. */
static TupleTableSlot *
next_row_with_ahead(WindowState *node)
{
	if (!node->begun)
	{
		TupleTableSlot *row = ExecProcNode(outerPlanState(node));
		bool		all;

		if (TupIsNull(row))
			return row;
		(void) sorted_input_ahead(outerPlanState(node), &all);
		node->ahead = all && node->searches ? AHEAD_IN_SORT : node->queue != NULL ? AHEAD_QUEUED : AHEAD_STORED;
		if (node->ahead == AHEAD_IN_SORT)
			return row;
		begin_ahead(node, row);
	}
	else if (node->ahead == AHEAD_IN_SORT)
		return ExecProcNode(outerPlanState(node));
	return node->ahead == AHEAD_QUEUED ? row_queue_next(node->queue) : stored_rows_next(node->stored, node->skipping);
}

/* Sets the counters that depend on following rows.  The row begins a peer group. */
static void
count_ahead(WindowState *node, bool new_partition)
{
	int64	   *counters = node->counters;
	int64		row = counters[WINDOW_ROW_NUMBER];
	bool		all;

	if (node->ahead == AHEAD_IN_SORT)
	{
		int64		rows = sorted_input_ahead(outerPlanState(node), &all);

		if (node->needs_partition && new_partition)
			counters[WINDOW_PARTITION_ROWS] = 1 + count_same_ahead(node, rows, node->window->partNumCols);
		if (node->needs_partition)
			rows = counters[WINDOW_PARTITION_ROWS] - row;
		if (node->needs_peers_end)
			counters[WINDOW_PEERS_END] = row + count_same_ahead(node, rows, node->columns->n);
	}
	if (node->ahead != AHEAD_STORED)
		return;
	if (node->needs_partition && new_partition)
		counters[WINDOW_PARTITION_ROWS] = stored_rows_count(node->stored);
	if (node->needs_peers_end)
		counters[WINDOW_PEERS_END] = row + count_stored_peers(node);
}

/* ------------------------------------------------------------------------
 * Values of other rows
 * ------------------------------------------------------------------------
 */

/* Keeps the current row's values for lag() and first_value(). */
static void
keep_values(WindowState *node, TupleTableSlot *row)
{
	bool		first = node->counters[WINDOW_ROW_NUMBER] == 1;

	slot_getsomeattrs(row, node->kept_attno);
	for (int i = 0; i < node->nfunctions; i++)
	{
		FunctionState *f = &node->functions[i];

		if (f->nkept == 0 || f->function.value == WINDOW_LAST_VALUE ||
			(f->function.value == WINDOW_FIRST_VALUE && !first))
			continue;
		group_column_keep(&f->kept[f->next], row, node->columns->cxt);
		f->next = f->next + 1 < f->nkept ? f->next + 1 : 0;
	}
}

/* The row before or behind the current one is not in the partition. */
static Datum
absent_value(const FunctionState *f, bool *isnull)
{
	*isnull = f->function.missing == NULL || f->function.missing->constisnull;
	return *isnull ? (Datum) 0 : f->function.missing->constvalue;
}

static Datum
lag(const WindowState *node, const FunctionState *f, bool *isnull)
{
	/* as many values are kept as there are rows from that one to this one */
	const GroupColumn *value = &f->kept[f->next];

	if (node->counters[WINDOW_ROW_NUMBER] <= f->function.distance)
		return absent_value(f, isnull);
	*isnull = value->isnull;
	return value->value;
}

/* The reader's next row, which the counters say there is. */
static TupleTableSlot *
next_stored(StoredReader *reader)
{
	TupleTableSlot *row = stored_reader_next(reader);

	if (row == NULL)
		elog(ERROR, "gpusort: a stored row is missing");
	return row;
}

static Datum
lead(WindowState *node, const FunctionState *f, TupleTableSlot *row, bool *isnull)
{
	int64		number = node->counters[WINDOW_ROW_NUMBER];
	int			distance = f->function.distance;

	if (node->ahead == AHEAD_QUEUED)
	{
		row = row_queue_row(node->queue, distance);
		return row != NULL ? slot_getattr(row, f->function.att, isnull) : absent_value(f, isnull);
	}
	if (number + distance > node->counters[WINDOW_PARTITION_ROWS])
		return absent_value(f, isnull);
	if (distance == 0)
		return slot_getattr(row, f->function.att, isnull);
	if (node->ahead == AHEAD_IN_SORT)
	{
		sorted_input_peek(outerPlanState(node), distance - 1, f->peeked);
		return slot_getattr(f->peeked, f->function.att, isnull);
	}
	if (number == 1)
		stored_reader_begin(f->reader, distance);
	row = next_stored(f->reader);
	stored_reader_rest(f->reader);
	return slot_getattr(row, f->function.att, isnull);
}

/* The value of the frame's last row, which is the current one or one behind it, unless it is kept. */
static Datum
last_value(WindowState *node, FunctionState *f, TupleTableSlot *row, bool *isnull)
{
	int64		number = node->counters[WINDOW_ROW_NUMBER];
	int64		last = node->counters[f->function.frame_end];

	if (number == 1 || f->kept_number != last)
	{
		if (last > number && node->ahead == AHEAD_IN_SORT)
			sorted_input_peek(outerPlanState(node), last - number - 1, row = f->peeked);
		else if (last > number)
		{
			stored_reader_begin(node->peers, last - number);
			row = next_stored(node->peers);
			stored_reader_rest(node->peers);
		}
		slot_getsomeattrs(row, f->function.att);
		group_column_keep(f->kept, row, node->columns->cxt);
		f->kept_number = last;
	}
	*isnull = f->kept->isnull;
	return f->kept->value;
}

/* Takes a row into the aggregates. */
static void
aggregate_row(const WindowAggregates *aggregates, TupleTableSlot *row)
{
	AggState   *agg = aggregates->agg;

	if (aggregates->last_attno > 0)
		slot_getsomeattrs(row, aggregates->last_attno);
	if (aggregates->evaluates)
	{
		ResetExprContext(agg->tmpcontext);
		agg->tmpcontext->ecxt_outertuple = row;
	}
	for (int i = 0; i < agg->numtrans; i++)
	{
		Transition *t = &aggregates->transitions[i];

		if (t->filter == NULL || ExecQual(t->filter, agg->tmpcontext))
			transition_advance(agg, t, row);
	}
}

/* Takes this many rows behind the current one into the aggregates. */
static void
aggregate_following(WindowState *node, int64 rows)
{
	if (node->ahead == AHEAD_STORED && rows > 0)
		stored_reader_begin(node->peers, 1);
	for (int64 i = 0; i < rows; i++)
	{
		TupleTableSlot *row = node->following;

		CHECK_FOR_INTERRUPTS();
		if (node->ahead == AHEAD_STORED)
			row = next_stored(node->peers);
		else
			sorted_input_peek(outerPlanState(node), i, row);
		aggregate_row(&node->aggregates, row);
	}
	if (node->ahead == AHEAD_STORED)
		stored_reader_rest(node->peers);
}

/* Computes the aggregates of the current row's frame, unless the frame of the row before has the same end. */
static void
aggregate_frame(WindowState *node, TupleTableSlot *row)
{
	WindowAggregates *aggregates = &node->aggregates;
	AggState   *agg = aggregates->agg;
	ExprContext *econtext = agg->ss.ps.ps_ExprContext;
	int64		number = node->counters[WINDOW_ROW_NUMBER];
	int64		end = node->counters[aggregates->frame_end];
	MemoryContext old;

	if (number == 1)
	{
		ReScanExprContext(agg->aggcontexts[0]);
		for (int i = 0; i < agg->numtrans; i++)
			transition_begin(agg, &aggregates->transitions[i]);
		aggregates->rows = 0;
	}
	if (aggregates->rows == end)
		return;
	Assert(aggregates->rows == number - 1);
	aggregate_row(aggregates, row);
	aggregate_following(node, end - number);
	aggregates->rows = end;
	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (int i = 0; i < agg->numaggs; i++)
		econtext->ecxt_aggvalues[i] = transition_result(agg, i, &aggregates->transitions[i],
														&econtext->ecxt_aggnulls[i]);
	MemoryContextSwitchTo(old);
}

/* ------------------------------------------------------------------------
 * Returning rows
 * ------------------------------------------------------------------------
 */

/* Lets the functions return NULL, or not. */
static void
set_nulls(WindowState *node, bool nulls)
{
	memset(node->values->tts_isnull, nulls, node->nfunctions * sizeof(bool));
}

/* Advances the counters to the child's row, which differs from the row before first in this column. */
static pg_attribute_always_inline void
count_row(WindowState *node, int first, bool needs_ahead)
{
	int64	   *counters = node->counters;

	if (unlikely(!node->begun) || first < node->window->partNumCols)
	{
		counters[WINDOW_ROW_NUMBER] = counters[WINDOW_RANK] = counters[WINDOW_DENSE_RANK] = 1;
		node->begun = true;
		node->skipping = false;
		if (unlikely(node->nulls))
			set_nulls(node, node->nulls = false);
		if (needs_ahead)
			count_ahead(node, true);
		return;
	}
	counters[WINDOW_ROW_NUMBER]++;
	if (first < node->columns->n)
	{
		counters[WINDOW_RANK] = counters[WINDOW_ROW_NUMBER];
		counters[WINDOW_DENSE_RANK]++;
		if (needs_ahead)
			count_ahead(node, false);
	}
}

/* The bucket of the current row: the first buckets have one row more if not all can be alike. */
static int32
ntile(const WindowState *node, int64 buckets)
{
	int64		before = node->counters[WINDOW_ROW_NUMBER] - 1;
	int64		size = node->counters[WINDOW_PARTITION_ROWS] / buckets;
	int64		larger = node->counters[WINDOW_PARTITION_ROWS] % buckets;

	if (before < larger * (size + 1))
		return before / (size + 1) + 1;
	return larger + (before - larger * (size + 1)) / size + 1;
}

/* The value of a function for the current row. */
static Datum
function_value(WindowState *node, FunctionState *f, TupleTableSlot *row, bool *isnull)
{
	const int64 *counters = node->counters;
	int64		rows = counters[WINDOW_PARTITION_ROWS];
	const ExprContext *aggregates;

	*isnull = false;
	switch (f->function.value)
	{
		case WINDOW_NTILE:
			return Int32GetDatum(ntile(node, f->function.buckets));
		case WINDOW_PERCENT_RANK:
			return Float8GetDatum(rows > 1 ? (float8) (counters[WINDOW_RANK] - 1) / (float8) (rows - 1) : 0);
		case WINDOW_CUME_DIST:
			return Float8GetDatum((float8) counters[WINDOW_PEERS_END] / (float8) rows);
		case WINDOW_LAG:
			return lag(node, f, isnull);
		case WINDOW_LEAD:
			return lead(node, f, row, isnull);
		case WINDOW_FIRST_VALUE:
			*isnull = f->kept->isnull;
			return f->kept->value;
		case WINDOW_LAST_VALUE:
			return last_value(node, f, row, isnull);
		case WINDOW_AGGREGATE:
			aggregates = node->aggregates.agg->ss.ps.ps_ExprContext;
			*isnull = aggregates->ecxt_aggnulls[f->aggno];
			return aggregates->ecxt_aggvalues[f->aggno];
		default:
			return Int64GetDatum(counters[f->function.value]);
	}
}

/* Computes the values of all functions for the current row. */
static void
set_values(WindowState *node, TupleTableSlot *row)
{
	if (node->kept_attno > 0)
		keep_values(node, row);
	if (node->aggregates.agg != NULL)
		aggregate_frame(node, row);
	for (int i = 0; i < node->nfunctions; i++)
		node->values->tts_values[i] = function_value(node, &node->functions[i], row, &node->values->tts_isnull[i]);
}

static pg_attribute_always_inline TupleTableSlot *
window_exec_as(PlanState *pstate, bool needs_ahead, bool only_counts)
{
	WindowState *node = (WindowState *) pstate;
	ExprContext *econtext = pstate->ps_ExprContext;

	while (!node->ended)
	{
		TupleTableSlot *row;
		TupleTableSlot *result;
		int			first = 0;

		CHECK_FOR_INTERRUPTS();
		if (node->evaluates)
			ResetExprContext(econtext);
		row = needs_ahead ? next_row_with_ahead(node) : next_compared_row(node, &first);
		if (TupIsNull(row))
		{
			node->ended = true;
			break;
		}
		if (needs_ahead)
			first = first_difference(node, row);
		count_row(node, first, needs_ahead);
		if (node->skipping)
		{
			if (++node->skipped >= SKIP_ONE_BY_ONE && node->searches)
				jump(node);
			continue;
		}
		if (unlikely(node->nulls))
			set_nulls(node, true);
		else if (!only_counts)
			set_values(node, row);
		else
		{
			for (int i = 0; i < node->nfunctions; i++)
				node->values->tts_values[i] = Int64GetDatum(node->counters[node->functions[i].function.value]);
		}
		econtext->ecxt_outertuple = row;
		econtext->ecxt_scantuple = node->values;

		/*
		 * a row that fails a condition is projected first, as in WindowAgg: its
		 * expressions may raise errors or have effects
		 */
		result = pstate->ps_ProjInfo == NULL ? node->values : ExecProject(pstate->ps_ProjInfo);
		if (!node->nulls && !ExecQual(node->run_condition, econtext))
		{
			if (!node->window->topWindow)
			{
				/* the windows above need these rows */
				node->nulls = true;
				return result;
			}
			node->skipping = true;
			node->skipped = 0;
			node->ended = node->window->partNumCols == 0;
			continue;
		}
		if (!ExecQual(node->filter, econtext))
		{
			InstrCountFiltered1(node, 1);
			continue;
		}
		return result;
	}
	return ExecClearTuple(pstate->ps_ResultTupleSlot);
}

static TupleTableSlot *
window_exec(PlanState *pstate)
{
	return window_exec_as(pstate, false, false);
}

/* For functions that are counters of the rows before. */
static TupleTableSlot *
window_exec_only_counts(PlanState *pstate)
{
	return window_exec_as(pstate, false, true);
}

/* For functions that depend on following rows. */
static TupleTableSlot *
window_exec_with_ahead(PlanState *pstate)
{
	return window_exec_as(pstate, true, false);
}

/* ------------------------------------------------------------------------
 * Begin, end, rescan
 * ------------------------------------------------------------------------
 */

/* What the functions of a window need, for window_begin(). */
typedef struct WindowNeeds
{
	bool		peers;			/* where peer groups begin */
	bool		only_counts;	/* nothing but counters of the rows before */
	bool		only_leads;		/* no following rows but those of lead() */
	int			farthest;		/* the greatest distance of a lead() */
} WindowNeeds;

/* Notes on which rows a function depends. */
static void
note_dependence(WindowState *node, WindowNeeds *needs, const WindowFunction *function)
{
	bool		has_end = function->value == WINDOW_AGGREGATE || function->value == WINDOW_LAST_VALUE;
	WindowValue value = has_end ? function->frame_end : function->value;

	needs->peers |= value == WINDOW_RANK || value == WINDOW_DENSE_RANK || value == WINDOW_PEERS_END ||
		value == WINDOW_PERCENT_RANK || value == WINDOW_CUME_DIST;
	node->needs_peers_end |= value == WINDOW_PEERS_END || value == WINDOW_CUME_DIST;
	node->needs_partition |= value == WINDOW_PARTITION_ROWS || value == WINDOW_NTILE || value == WINDOW_PERCENT_RANK ||
		value == WINDOW_CUME_DIST || value == WINDOW_LEAD;
	needs->only_leads &= value <= WINDOW_DENSE_RANK || value >= WINDOW_LAG;
	if (value == WINDOW_LEAD)
		needs->farthest = Max(needs->farthest, function->distance);
	needs->only_counts &= function->value <= WINDOW_DENSE_RANK;
}

/* Reads the functions. */
static WindowNeeds
init_functions(WindowState *node, const List *funcs)
{
	WindowNeeds needs = {.only_counts = true,.only_leads = true};
	int			naggs = 0;
	ListCell   *lc;

	node->nfunctions = list_length(funcs);
	node->functions = palloc0(node->nfunctions * sizeof(FunctionState));
	foreach(lc, funcs)
	{
		FunctionState *f = &node->functions[foreach_current_index(lc)];

		if (!window_function_read(lfirst_node(WindowFunc, lc), node->window->frameOptions, &f->function))
			elog(ERROR, "gpusort: unknown window function");
		note_dependence(node, &needs, &f->function);
		if (f->function.value == WINDOW_AGGREGATE)
		{
			f->aggno = naggs++;
			node->aggregates.frame_end = f->function.frame_end;
		}
	}
	return needs;
}

/* Prepares the functions that read rows of the child. */
static void
init_values(WindowState *node, TupleDesc desc)
{
	for (int i = 0; i < node->nfunctions; i++)
	{
		FunctionState *f = &node->functions[i];
		WindowValue value = f->function.value;

		if (value == WINDOW_LEAD || value == WINDOW_LAST_VALUE)
			f->peeked = ExecInitExtraTupleSlot(node->css.ss.ps.state, desc, node->following->tts_ops);
		if (value == WINDOW_LEAD && node->stored != NULL)
			f->reader = stored_rows_add_reader(node->stored);
		if (value != WINDOW_LAG && value != WINDOW_FIRST_VALUE && value != WINDOW_LAST_VALUE)
			continue;
		f->nkept = value == WINDOW_LAG ? f->function.distance + 1 : 1;
		f->kept = palloc0(f->nkept * sizeof(GroupColumn));
		for (int k = 0; k < f->nkept; k++)
			group_column_init(&f->kept[k], desc, f->function.att);
		node->kept_attno = Max(node->kept_attno, f->function.att);
	}
}

/* Prepares the aggregates.  Their AggState also initializes the node's child. */
static void
init_aggregates(WindowState *node, const Agg *plan, int eflags)
{
	WindowAggregates *aggregates = &node->aggregates;
	Agg		   *copy = makeNode(Agg);
	AggState   *agg;

	*copy = *plan;
	copy->plan.lefttree = outerPlan(node->css.ss.ps.plan);
	aggregates->agg = agg = ExecInitAgg(copy, node->css.ss.ps.state, eflags);
	agg->curaggcontext = agg->aggcontexts[0];
	agg->current_set = 0;
	/* expressions read rows of the child and stored rows */
	agg->ss.ps.outeropsfixed = false;
	aggregates->transitions = palloc0(agg->numtrans * sizeof(Transition));
	for (int i = 0; i < agg->numtrans; i++)
	{
		Transition *t = &aggregates->transitions[i];

		aggregates->evaluates |= transition_init(agg, t, &agg->pertrans[i]);
		aggregates->last_attno = Max(aggregates->last_attno, t->att);
	}
}

/* The columns of the partition, and those of the order if norder is their number. */
static GroupColumns *
create_columns(const WindowState *node, int norder)
{
	const WindowAgg *window = node->window;
	GroupColumns *columns = group_columns_create(&node->css, window->partNumCols + norder);

	for (int i = 0; i < window->partNumCols; i++)
		group_columns_add(columns, window->partColIdx[i], window->partOperators[i], window->partCollations[i]);
	for (int i = 0; i < norder; i++)
		group_columns_add(columns, window->ordColIdx[i], window->ordOperators[i], window->ordCollations[i]);
	return columns;
}

/* No row was read. */
static void
begin_rows(WindowState *node)
{
	node->begun = node->skipping = node->ended = node->nulls = false;
	set_nulls(node, false);
	node->taken.more = node->takes;
	node->taken.next = node->taken.n = 0;
	node->kept = true;
}

static void
window_begin(CustomScanState *css, EState *estate, int eflags)
{
	WindowState *node = (WindowState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	const List *aggregates = lthird(cscan->custom_private);
	PlanState  *child;
	TupleDesc	desc;
	WindowNeeds needs;
	bool		needs_ahead;
	int			norder;

	if (aggregates != NIL)
		init_aggregates(node, linitial_node(Agg, aggregates), eflags);
	child = aggregates != NIL ? outerPlanState(node->aggregates.agg) : ExecInitNode(outerPlan(cscan), estate, eflags);
	outerPlanState(css) = child;
	desc = ExecGetResultType(child);

	node->window = linitial_node(WindowAgg, cscan->custom_private);
	needs = init_functions(node, lsecond(cscan->custom_private));
	needs_ahead = node->needs_peers_end || node->needs_partition;
	norder = needs.peers ? node->window->ordNumCols : 0;
	node->columns = create_columns(node, norder);
	node->following = ExecInitExtraTupleSlot(estate, desc, ExecGetResultSlotOps(child, NULL));
	if (needs_ahead)
	{
		GroupColumns *columns = create_columns(node, node->needs_partition ? 0 : norder);

		if (needs.only_leads)
			node->queue = row_queue_create(child, columns, needs.farthest);
		else
		{
			node->stored = stored_rows_create(child, columns);
			node->peers = stored_rows_add_reader(node->stored);
		}
		/* expressions read rows of the child and stored rows */
		css->ss.ps.outeropsset = true;
		css->ss.ps.outeropsfixed = false;
	}
	init_values(node, desc);
	node->run_condition = ExecInitQual(cscan->custom_exprs, &css->ss.ps);
	node->filter = css->ss.ps.qual;
	node->evaluates = css->ss.ps.ps_ProjInfo != NULL || node->run_condition != NULL || node->filter != NULL ||
		node->kept_attno > 0 || aggregates != NIL;
	node->searches = sorted_input_groups(child);
	/* jump() skips rows that were not taken */
	node->takes = !needs_ahead && node->run_condition == NULL &&
		sorted_input_compares(child, node->columns);
	node->taken.compares = true;

	node->values = css->ss.ss_ScanTupleSlot;
	ExecStoreVirtualTuple(node->values);
	begin_rows(node);
	css->ss.ps.ExecProcNode = needs_ahead ? window_exec_with_ahead :
		needs.only_counts ? window_exec_only_counts : window_exec;
}

static void
window_end(CustomScanState *css)
{
	WindowState *node = (WindowState *) css;

	if (node->stored != NULL)
		stored_rows_end(node->stored);
	/* ends the child, too */
	if (node->aggregates.agg != NULL)
		ExecEndAgg(node->aggregates.agg);
	else
		ExecEndNode(outerPlanState(css));
}

static void
window_rescan(CustomScanState *css)
{
	WindowState *node = (WindowState *) css;
	PlanState  *outer = outerPlanState(css);

	begin_rows(node);
	begin_ahead(node, NULL);
	ExecClearTuple(node->following);
	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

static void
window_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	WindowState *node = (WindowState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	const WindowAgg *window = node->window;
	List	   *functions = NIL;
	ListCell   *lc;

	foreach(lc, cscan->custom_scan_tlist)
		functions = lappend(functions, lfirst_node(TargetEntry, lc)->resname);
	ExplainPropertyList("Window Functions", functions, es);
	explain_columns(css, "Partition Key", window->partColIdx, window->partNumCols, ancestors, es);
	explain_columns(css, "Order Key", window->ordColIdx, window->ordNumCols, ancestors, es);
	explain_condition(css, "Run Condition", cscan->custom_exprs, ancestors, es);
	if (es->analyze && node->ahead != AHEAD_UNKNOWN)
		ExplainPropertyText("Following Rows", ahead_names[node->ahead], es);
	if (es->analyze && node->jumped > 0)
		ExplainPropertyInteger("Rows Skipped", NULL, node->jumped, es);
}

const NodeType window_node = {
	.scan = {.CustomName = "GpuSort Window",.CreateCustomScanState = custom_create_state},
	.exec = {
		.CustomName = "GpuSort Window",
		.BeginCustomScan = window_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = window_end,
		.ReScanCustomScan = window_rescan,
		.ExplainCustomScan = window_explain
	},
	.state_size = sizeof(WindowState)
};
