/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Window)": window functions that number rows.
 *
 * row_number(), rank(), dense_rank() and a running count(*) depend only on how many rows
 * and peer groups of the partition came before.  The child returns the rows in order, so
 * three counters suffice, and each row is passed on when it comes.  WindowAgg
 * stores the partition in a tuplestore, reads each row from it, and calls each function.
 *
 * ntile(), percent_rank(), cume_dist() and count(*) of other frames also depend on how many
 * rows follow in the partition or in the peer group.  A sort in memory can read its rows
 * out of turn: the number is found by exponential and binary search.  Otherwise the
 * partition's rows are stored until the next partition begins.
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
 * Memory policy: the compared columns of one row in the query's memory context; a partition's rows in a tuplestore of
 * work_mem.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/group_compare.h"
#include "nodes/sort/sort_node.h"
#include "nodes/window/window.h"
#include "utils/tuplestore.h"

/* Rows of a partition that are skipped one by one, before its end is searched. */
#define SKIP_ONE_BY_ONE		4

/* How the rows that follow are counted. */
typedef enum WindowAhead
{
	AHEAD_UNKNOWN,				/* there was no row yet */
	AHEAD_IN_SORT,				/* the sort reads them out of turn */
	AHEAD_STORED				/* the partition's rows are stored */
} WindowAhead;

typedef struct WindowState
{
	CustomScanState css;
	const WindowAgg *window;	/* the replaced node */
	int			nfunctions;
	WindowFunction *functions;
	GroupColumns *columns;		/* of the partition, then of the order if the functions
								 * depend on it */
	ExprState  *run_condition;	/* NULL: none */
	ExprState  *filter;			/* the node's qual; NULL: none */
	TupleTableSlot *values;		/* the functions' values */
	bool		begun;			/* there was a row */
	bool		evaluates;		/* there are expressions, which may read rows */

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

	/* functions that depend on following rows */
	bool		needs_ahead;	/* there is one */
	bool		needs_peers_end;	/* one depends on the last row of the peer group */
	WindowAhead ahead;
	TupleTableSlot *following;	/* a row that the sort read out of turn */

	/* of AHEAD_STORED */
	Tuplestorestate *store;		/* rows of the current partition; NULL until needed */
	TupleTableSlot *stored;		/* the current row */
	TupleTableSlot *stored_peer;	/* a row behind it */
	GroupColumns *store_columns;	/* of the partition, with the values of its first row */
	TupleTableSlot *pending;	/* the child's row that begins the next partition; NULL */
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

/* Does the row have the values of the first n columns? */
static bool
same_columns(GroupColumns *columns, int n, TupleTableSlot *row)
{
	slot_getsomeattrs(row, columns->last_attno);
	return group_columns_first_difference(columns, n, row) == n;
}

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
		if (!same_columns(node->columns, ncolumns, node->following))
			break;
		same = end + 1;
		step *= 2;
	}
	while (same < end)
	{
		int64		middle = same + (end - same) / 2;

		sorted_input_peek(outer, middle, node->following);
		if (same_columns(node->columns, ncolumns, node->following))
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

/* Stores the rows of the partition that begins with the pending row. */
static void
store_partition(WindowState *node)
{
	GroupColumns *columns = node->store_columns;
	TupleTableSlot *row = node->pending;
	int64		rows = 0;

	ExecClearTuple(node->stored);
	if (node->store == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);

		node->store = tuplestore_begin_heap(false, false, work_mem);
		/* the second pointer reads the rest of a peer group */
		(void) tuplestore_alloc_read_pointer(node->store, 0);
		MemoryContextSwitchTo(old);
	}
	else
		tuplestore_clear(node->store);
	slot_getsomeattrs(row, columns->last_attno);
	group_columns_keep(columns, row, 0);
	do
	{
		CHECK_FOR_INTERRUPTS();
		tuplestore_puttupleslot(node->store, row);
		rows++;
		row = ExecProcNode(outerPlanState(node));
	} while (!TupIsNull(row) && same_columns(columns, columns->n, row));
	node->pending = TupIsNull(row) ? NULL : row;
	node->counters[WINDOW_PARTITION_ROWS] = rows;
}

/* How many of the following stored rows are peers of the current row. */
static int64
count_stored_peers(WindowState *node)
{
	int64		rows = 0;

	tuplestore_copy_read_pointer(node->store, 0, 1);
	tuplestore_select_read_pointer(node->store, 1);
	while (tuplestore_gettupleslot(node->store, true, false, node->stored_peer) &&
		   same_columns(node->columns, node->columns->n, node->stored_peer))
	{
		CHECK_FOR_INTERRUPTS();
		rows++;
	}
	ExecClearTuple(node->stored_peer);
	tuplestore_select_read_pointer(node->store, 0);
	return rows;
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
		node->ahead = all && node->searches ? AHEAD_IN_SORT : AHEAD_STORED;
		if (node->ahead == AHEAD_IN_SORT)
			return row;
		node->pending = row;
	}
	else if (node->ahead == AHEAD_IN_SORT)
		return ExecProcNode(outerPlanState(node));
	else if (!node->skipping && tuplestore_gettupleslot(node->store, true, false, node->stored))
		return node->stored;
	if (node->pending == NULL)
		return NULL;
	store_partition(node);
	(void) tuplestore_gettupleslot(node->store, true, false, node->stored);
	return node->stored;
}

/* Sets the counters that depend on following rows.  The row begins a peer group. */
static void
count_ahead(WindowState *node, bool new_partition)
{
	int64	   *counters = node->counters;
	int64		rows = 0;		/* following rows of the partition */
	bool		all;

	if (node->ahead == AHEAD_IN_SORT)
	{
		if (new_partition)
			counters[WINDOW_PARTITION_ROWS] = 1 +
				count_same_ahead(node, sorted_input_ahead(outerPlanState(node), &all), node->window->partNumCols);
		rows = counters[WINDOW_PARTITION_ROWS] - counters[WINDOW_ROW_NUMBER];
	}
	if (node->needs_peers_end)
		counters[WINDOW_PEERS_END] = counters[WINDOW_ROW_NUMBER] +
			(node->ahead == AHEAD_IN_SORT ? count_same_ahead(node, rows, node->columns->n) : count_stored_peers(node));
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

static Datum
function_value(const WindowState *node, const WindowFunction *function)
{
	const int64 *counters = node->counters;
	int64		rows = counters[WINDOW_PARTITION_ROWS];

	switch (function->value)
	{
		case WINDOW_NTILE:
			return Int32GetDatum(ntile(node, function->buckets));
		case WINDOW_PERCENT_RANK:
			return Float8GetDatum(rows > 1 ? (float8) (counters[WINDOW_RANK] - 1) / (float8) (rows - 1) : 0);
		case WINDOW_CUME_DIST:
			return Float8GetDatum((float8) counters[WINDOW_PEERS_END] / (float8) rows);
		default:
			return Int64GetDatum(counters[function->value]);
	}
}

static pg_attribute_always_inline TupleTableSlot *
window_exec_as(PlanState *pstate, bool needs_ahead)
{
	WindowState *node = (WindowState *) pstate;
	const WindowFunction *functions = node->functions;
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
		for (int i = 0; i < node->nfunctions; i++)
			node->values->tts_values[i] = needs_ahead ? function_value(node, &functions[i]) :
				Int64GetDatum(node->counters[functions[i].value]);
		if (unlikely(node->nulls))
			set_nulls(node, true);
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
	return window_exec_as(pstate, false);
}

/* For functions that depend on following rows. */
static TupleTableSlot *
window_exec_with_ahead(PlanState *pstate)
{
	return window_exec_as(pstate, true);
}

/* Reads the functions, and sets what they depend on.  Do they depend on peer groups? */
static bool
init_functions(WindowState *node, const List *functions)
{
	bool		peers = false;

	node->nfunctions = list_length(functions) / 2;
	node->functions = palloc(node->nfunctions * sizeof(WindowFunction));

	for (int i = 0; i < node->nfunctions; i++)
	{
		WindowValue value = (WindowValue) list_nth_int(functions, 2 * i);

		node->functions[i].value = value;
		node->functions[i].buckets = list_nth_int(functions, 2 * i + 1);
		peers |= value != WINDOW_ROW_NUMBER && value != WINDOW_PARTITION_ROWS && value != WINDOW_NTILE;
		node->needs_ahead |= value > WINDOW_DENSE_RANK;
		node->needs_peers_end |= value == WINDOW_PEERS_END || value == WINDOW_CUME_DIST;
	}
	return peers;
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
	TupleDesc	desc;
	bool		peers;

	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	desc = ExecGetResultType(outerPlanState(css));

	node->window = linitial_node(WindowAgg, cscan->custom_private);
	peers = init_functions(node, lsecond(cscan->custom_private));
	node->columns = create_columns(node, peers ? node->window->ordNumCols : 0);
	node->following = ExecInitExtraTupleSlot(estate, desc, ExecGetResultSlotOps(outerPlanState(css), NULL));
	if (node->needs_ahead)
	{
		node->store_columns = create_columns(node, 0);
		node->stored = ExecInitExtraTupleSlot(estate, desc, &TTSOpsMinimalTuple);
		node->stored_peer = ExecInitExtraTupleSlot(estate, desc, &TTSOpsMinimalTuple);
		/* expressions read rows of the child and stored rows */
		css->ss.ps.outeropsset = true;
		css->ss.ps.outeropsfixed = false;
	}
	node->run_condition = ExecInitQual(cscan->custom_exprs, &css->ss.ps);
	node->filter = css->ss.ps.qual;
	node->evaluates = css->ss.ps.ps_ProjInfo != NULL || node->run_condition != NULL || node->filter != NULL;
	node->searches = sorted_input_groups(outerPlanState(node));
	/* jump() skips rows that were not taken */
	node->takes = !node->needs_ahead && node->run_condition == NULL &&
		sorted_input_compares(outerPlanState(node), node->columns);
	node->taken.compares = true;

	node->values = css->ss.ss_ScanTupleSlot;
	ExecStoreVirtualTuple(node->values);
	begin_rows(node);
	css->ss.ps.ExecProcNode = node->needs_ahead ? window_exec_with_ahead : window_exec;
}

static void
window_end(CustomScanState *css)
{
	WindowState *node = (WindowState *) css;

	if (node->store != NULL)
		tuplestore_end(node->store);
	ExecEndNode(outerPlanState(css));
}

static void
window_rescan(CustomScanState *css)
{
	WindowState *node = (WindowState *) css;
	PlanState  *outer = outerPlanState(css);

	begin_rows(node);
	node->pending = NULL;
	if (node->store != NULL)
	{
		ExecClearTuple(node->stored);
		tuplestore_clear(node->store);
	}
	ExecClearTuple(node->following);
	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* ------------------------------------------------------------------------
 * EXPLAIN
 * ------------------------------------------------------------------------
 */

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
		ExplainPropertyText("Following Rows", node->ahead == AHEAD_IN_SORT ? "read from sort" : "stored", es);
	if (es->analyze && node->jumped > 0)
		ExplainPropertyInteger("Rows Skipped", NULL, node->jumped, es);
}

/* ------------------------------------------------------------------------
 * The node
 * ------------------------------------------------------------------------
 */

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
