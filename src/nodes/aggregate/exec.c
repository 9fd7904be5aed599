/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Aggregate)": sorted aggregation above a GpuSort.
 *
 * The child returns rows ordered by the columns of the groups, and within a group by the
 * columns by which aggregates sort: those of DISTINCT, of ORDER BY in the call, of WITHIN
 * GROUP.  So no aggregate needs a sort of its own.  A DISTINCT aggregate skips a value that
 * is equal to the one before; percentile_cont() and its relatives take the values at some
 * positions (ordered_set.c).
 *
 * The node contains PostgreSQL's own AggState, which ExecInitAgg() makes of the Agg that
 * this node replaces.  Of it the node uses the transition and final functions, their
 * initial values and memory contexts, the HAVING condition and the projection.  The loop over
 * the rows is this node's.  It differs from nodeAgg.c in three ways:
 *
 * - Transitions of common types are done in place (nodes/transition).
 * - A row is compared with its group's first row by columns (nodes/base/group_column.c).
 * - The first row of a group is not copied if the sort keeps its rows in memory.
 *
 * In parallel plans a node in the workers returns transition values, serialized if their type
 * is internal, and the node above the Gather combines them (AggSplit).
 *
 * Memory policy: transition values in the AggState's contexts, which are reset with each
 * group; the values of ordered sets see ordered_set.c.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/aggregate/aggregate.h"
#include "nodes/aggregate/ordered_set.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/group_compare.h"
#include "nodes/nodeFuncs.h"
#include "nodes/sort/sort_node.h"
#include "nodes/transition/advance.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

typedef struct AggregateState
{
	CustomScanState css;
	const Agg  *plan;			/* the replaced node */
	const List *order;			/* columns that order a group's rows */
	bool		nulls_first;	/* NULLs of the first of these come first */
	AggState   *agg;
	PlanState  *outer;
	int			ngroup;			/* columns of a group */
	GroupColumns *columns;		/* of a group, then those of the order that are compared */
	AttrNumber	last_attno;		/* last column of the child that is used */
	ColumnReader *reader;		/* reads the used columns; NULL: not possible */
	bool		evaluates;		/* expressions or functions need tmpcontext */
	AttrNumber	counted;		/* only DISTINCT values of this column are
								 * counted, in one group; 0: otherwise */
	int			ntransitions;
	Transition *transitions;
	OrderedSet *set;			/* NULL: no ordered-set aggregate */
	AttrNumber	set_attno;		/* sort column of the set; 0: none */
	bool		has_mode;		/* one of the set's aggregates is mode() */
	bool		only_wanted;	/* the set's wanted values are all that is needed */
	bool		first_row_used; /* the result has columns of the group's first row */
	char	   *row_copy;		/* the first row, if the sort does not keep it */
	Size		row_room;

	TakenRows	taken;
	TupleTableSlot *pending;	/* the next group's first row; NULL: none */
	bool		ended;			/* the child has no more rows */
	bool		returned;		/* without GROUP BY: the row was returned */
	double		filtered;		/* groups that failed HAVING */
} AggregateState;

/* ------------------------------------------------------------------------
 * Groups
 * ------------------------------------------------------------------------
 */

/* Takes a row's value into the ordered set. */
static void
take_set_value(AggregateState *node, const Transition *t, const TupleTableSlot *row, int first)
{
	if (t->kind == TRANSITION_ORDERED_SET && !row->tts_isnull[t->att - 1])
		ordered_set_add(node->set, row->tts_values[t->att - 1], first < 1);
}

/* Takes a row into the group.  first: the first order column that differs from the row before. */
static pg_attribute_always_inline void
take_row(AggregateState *node, TupleTableSlot *row, int first)
{
	if (node->evaluates)
	{
		ResetExprContext(node->agg->tmpcontext);
		node->agg->tmpcontext->ecxt_outertuple = row;
	}
	for (int i = 0; i < node->ntransitions; i++)
	{
		Transition *t = &node->transitions[i];

		if (unlikely(t->distinct > 0))
		{
			if (first < t->distinct)
				t->taken = false;
			else if (t->taken)
				continue;
		}
		if (unlikely(t->filter != NULL) && !ExecQual(t->filter, node->agg->tmpcontext))
			continue;
		t->taken = true;
		if (unlikely(t->kind >= TRANSITION_ORDERED_SET))
			take_set_value(node, t, row, first);
		else
			transition_advance(node->agg, t, row);
	}
}

/* Asks the child for its next row. */
static pg_noinline TupleTableSlot *
ask_child(AggregateState *node)
{
	TupleTableSlot *row = ExecProcNode(node->outer);

	if (TupIsNull(row))
	{
		node->ended = true;
		return NULL;
	}
	/* slots of other results have values, not rows */
	node->taken.more = node->reader != NULL && slot_minimal_tuple(row) != NULL;
	if (node->last_attno > 0)
		slot_getsomeattrs(row, node->last_attno);
	return row;
}

/* The child's next row, in which the used columns can be read; NULL at the end. */
static pg_attribute_always_inline TupleTableSlot *
aggregate_next_row(AggregateState *node)
{
	TakenRows  *taken = &node->taken;
	TupleTableSlot *slot;
	MinimalTuple row;

	if (!taken->more || (taken->next == taken->n && !sorted_input_take(node->outer, taken)))
		return ask_child(node);
	row = taken->rows[taken->next++];
	slot = node->outer->ps_ResultTupleSlot;
	row_to_slot(slot, row);

	/*
	 * the slot does not count these columns as deformed, because not all
	 * columns are
	 */
	column_reader_read(node->reader, (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET),
					   row->t_len + MINIMAL_TUPLE_OFFSET);
	if (unlikely(node->outer->instrument != NULL))
		node->outer->instrument->tuplecount++;
	return slot;
}

/* Skips at most this many following rows; returns how many. */
static int64
skip_rows(AggregateState *node, int64 rows)
{
	int64		taken = Min(rows, node->taken.n - node->taken.next);

	node->taken.next += taken;
	return taken + sorted_input_skip(node->outer, rows - taken);
}

/* Counts following values of a sort without duplicates, which skips their rows. */
static pg_noinline void
count_values(AggregateState *node)
{
	uint64		nulls;
	uint64		rows = sorted_input_skip_values(node->outer, node->counted, &nulls);

	for (int i = 0; i < node->ntransitions; i++)
		node->transitions[i].count += rows - nulls;
	if (node->outer->instrument != NULL)
		node->outer->instrument->tuplecount += rows;
}

/* Keeps the first row of a group for the projection. */
static void
keep_first_row(AggregateState *node, TupleTableSlot *row)
{
	TupleTableSlot *kept = node->agg->ss.ss_ScanTupleSlot;
	MinimalTuple tuple;

	if (!node->first_row_used)
		return;
	if (!TTS_IS_MINIMALTUPLE(kept) || TTS_SHOULDFREE(row) || (tuple = slot_minimal_tuple(row)) == NULL)
	{
		ExecCopySlot(kept, row);
		return;
	}
	/* for groups of one row a slot's own copy takes 6 % of the time of a sort on disk */
	if (!sorted_input_stays(node->outer))
	{
		if (tuple->t_len > node->row_room)
		{
			node->row_room = tuple->t_len + tuple->t_len / 2;
			if (node->row_copy != NULL)
				pfree(node->row_copy);
			node->row_copy = MemoryContextAlloc(node->css.ss.ps.state->es_query_cxt, node->row_room);
		}
		tuple = memcpy(node->row_copy, tuple, tuple->t_len);
	}
	row_to_slot(kept, tuple);
}

/* Takes the rows of a group that begins with this row. */
static void
take_group(AggregateState *node, TupleTableSlot *row)
{
	GroupColumns *columns = node->columns;
	int			ngroup = node->ngroup;
	int			ncolumns = columns->n;
	int			first = ngroup;

	if (node->set != NULL)
		ordered_set_begin_group(node->set, true, sorted_input_stays(node->outer));
	keep_first_row(node, row);
	group_columns_keep(columns, row, 0);
	node->pending = NULL;
	for (;;)
	{
		take_row(node, row, first - ngroup);
		if (unlikely(node->counted != 0) && node->taken.next == node->taken.n)
			count_values(node);
		row = aggregate_next_row(node);
		if (row == NULL)
			break;
		first = group_columns_first_difference(columns, ncolumns, row);
		if (first < ngroup)
		{
			node->pending = row;
			break;
		}
		group_columns_keep(columns, row, first);
	}
}

/*
 * The only group, if the number of its rows is known: the ordered set takes values at the wanted
 * positions only, and rows between them are skipped if nothing else is needed.  NULLs come first.
 */
static void
take_wanted_values(AggregateState *node, TupleTableSlot *row, uint64 rows)
{
	GroupColumns *columns = node->columns;
	uint64		nulls = 0;
	int			first = 0;

	ordered_set_begin_group(node->set, false, false);
	group_columns_keep(columns, row, 0);
	node->ended = true;
	for (bool found = false; row != NULL;)
	{
		int64		skips;

		if (row->tts_isnull[node->set_attno - 1])
			nulls++;
		else if (!found)
		{
			ordered_set_find_wanted(node->set, rows - nulls, node->agg->ss.ps.ps_ExprContext);
			found = true;
		}
		take_row(node, row, first);
		if (found && node->only_wanted)
		{
			skips = ordered_set_skips(node->set);
			if (skips < 0)
				return;
			ordered_set_skipped(node->set, skip_rows(node, skips));
		}
		row = aggregate_next_row(node);
		if (row == NULL)
			break;
		first = group_columns_first_difference(columns, columns->n, row);
		group_columns_keep(columns, row, first);
	}
	if (nulls == rows)
		ordered_set_find_wanted(node->set, 0, node->agg->ss.ps.ps_ExprContext);
	if (ordered_set_skips(node->set) >= 0)
		elog(ERROR, "gpusort: a sort returned fewer rows than it had taken");
}

/* Computes the final values of a group. */
static void
finalize(AggregateState *node)
{
	AggState   *agg = node->agg;
	ExprContext *econtext = agg->ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

	for (int i = 0; i < agg->numaggs; i++)
	{
		AggStatePerAgg peragg = &agg->peragg[i];
		bool	   *isnull = &econtext->ecxt_aggnulls[i];

		econtext->ecxt_aggvalues[i] = peragg->aggref->aggkind == AGGKIND_ORDERED_SET ?
			ordered_set_result(node->set, i, econtext, isnull) :
			transition_result(agg, i, &node->transitions[peragg->transno], isnull);
	}
	MemoryContextSwitchTo(old);
}

/* Is the number of the group's values known from the number of the sort's rows? */
static bool
count_is_known(AggregateState *node, uint64 *rows)
{
	return node->ngroup == 0 && node->set != NULL && node->nulls_first &&
		ordered_set_needs_positions(node->set, node->agg->ss.ps.ps_ExprContext) &&
		sorted_input_count(node->outer, rows);
}

/* Takes a group that begins with this row; NULL: a group without rows. */
static void
take_values(AggregateState *node, TupleTableSlot *row)
{
	ExprContext *econtext = node->agg->ss.ps.ps_ExprContext;
	uint64		rows;

	ResetExprContext(econtext);
	ReScanExprContext(node->agg->aggcontexts[0]);
	for (int i = 0; i < node->ntransitions; i++)
		transition_begin(node->agg, &node->transitions[i]);
	if (row != NULL && count_is_known(node, &rows))
	{
		take_wanted_values(node, row, rows);
		return;
	}
	if (row != NULL)
		take_group(node, row);
	else if (node->set != NULL)
		ordered_set_begin_group(node->set, false, false);
	if (node->set != NULL)
	{
		/* fractions may be columns of the group */
		econtext->ecxt_outertuple = node->agg->ss.ss_ScanTupleSlot;
		ordered_set_take_kept(node->set, econtext);
	}
}

static TupleTableSlot *
aggregate_exec(PlanState *pstate)
{
	AggregateState *node = (AggregateState *) pstate;
	AggState   *agg = node->agg;
	ExprContext *econtext = agg->ss.ps.ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *row = node->pending;

		CHECK_FOR_INTERRUPTS();
		if (row == NULL && !node->ended)
			row = aggregate_next_row(node);
		/* without GROUP BY there is one result, even of no rows */
		if (row == NULL && (node->plan->aggstrategy != AGG_PLAIN || node->returned))
			return ExecClearTuple(agg->ss.ps.ps_ResultTupleSlot);
		take_values(node, row);
		node->returned = true;
		econtext->ecxt_outertuple = agg->ss.ss_ScanTupleSlot;
		finalize(node);
		if (ExecQual(agg->ss.ps.qual, econtext))
			return ExecProject(agg->ss.ps.ps_ProjInfo);
		node->filtered++;
	}
}

/* ------------------------------------------------------------------------
 * Begin, end, rescan
 * ------------------------------------------------------------------------
 */

/* expression_tree_walker: does the expression have columns of a group's first row? */
static bool
has_group_columns(Node *expr, void *context)
{
	if (expr == NULL)
		return false;
	if (IsA(expr, Var))
		return true;
	if (IsA(expr, Aggref))
		return has_group_columns((Node *) ((Aggref *) expr)->aggdirectargs, context);
	return expression_tree_walker(expr, has_group_columns, context);
}

static void
init_transition(AggregateState *node, Transition *t, AggStatePerTrans trans)
{
	node->evaluates |= transition_init(node->agg, t, trans);
	t->distinct = aggregate_distinct_columns(trans->aggref);
	if (t->kind == TRANSITION_ORDERED_SET)
	{
		/* calls with and without a cast have transitions of their own */
		if (node->set_attno != 0)
			t->kind = TRANSITION_NONE;
		t->att = node->set_attno = linitial_int((const List *) linitial(node->order));
		return;
	}
	node->last_attno = Max(node->last_attno, t->att);
}

/* The columns that are compared: those of groups, then those by which a DISTINCT or mode() has its input. */
static void
init_columns(AggregateState *node)
{
	const Agg  *agg = node->plan;
	int			norder = node->has_mode ? 1 : 0;

	for (int i = 0; i < node->ntransitions; i++)
		norder = Max(norder, node->transitions[i].distinct);
	Assert(norder <= list_length(node->order));
	node->ngroup = agg->numCols;
	node->columns = group_columns_create(&node->css, node->ngroup + norder);
	for (int i = 0; i < node->ngroup; i++)
		group_columns_add(node->columns, agg->grpColIdx[i], agg->grpOperators[i], agg->grpCollations[i]);
	for (int i = 0; i < norder; i++)
	{
		const List *column = list_nth(node->order, i);

		group_columns_add(node->columns, linitial_int(column), lsecond_int(column), lthird_int(column));
	}
	node->last_attno = Max(node->last_attno, node->columns->last_attno);
}

/* The column whose DISTINCT values are counted, if there is one group and nothing else is computed; otherwise 0. */
static AttrNumber
counted_column(const AggregateState *node)
{
	AttrNumber	att = node->ntransitions > 0 ? node->transitions[0].att : 0;

	for (int i = 0; i < node->ntransitions; i++)
	{
		const Transition *t = &node->transitions[i];

		if (t->kind != TRANSITION_COUNT_VALUES || t->distinct != 1 || t->filter != NULL || t->att != att)
			return 0;
	}
	return node->ngroup == 0 && node->set == NULL ? att : 0;
}

/* Prepares to read the used columns of rows that are taken from the child, into its slot. */
static void
init_reader(AggregateState *node, TupleDesc desc)
{
	TupleTableSlot *slot = node->outer->ps_ResultTupleSlot;
	ReaderColumn *columns = palloc0(Max(1, desc->natts) * sizeof(ReaderColumn));
	Bitmapset  *used = NULL;
	int			n = 0;
	int			att = -1;

	for (int i = 0; i < node->columns->n; i++)
		used = bms_add_member(used, node->columns->columns[i].attno - 1);
	for (int i = 0; i < node->ntransitions; i++)
	{
		if (node->transitions[i].att != 0)
			used = bms_add_member(used, node->transitions[i].att - 1);
	}
	while ((att = bms_next_member(used, att)) >= 0)
		columns[n++] = (ReaderColumn)
	{
		.att = att,.value = &slot->tts_values[att],.isnull = &slot->tts_isnull[att]
	};
	node->reader = column_reader_create(desc, columns, n);
}

static void
aggregate_begin(CustomScanState *css, EState *estate, int eflags)
{
	AggregateState *node = (AggregateState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	Agg		   *plan = makeNode(Agg);
	AggState   *agg;
	TupleDesc	desc;

	node->plan = linitial_node(Agg, cscan->custom_private);
	node->order = lsecond(cscan->custom_private);
	node->nulls_first = linitial_int((const List *) lthird(cscan->custom_private));
	*plan = *node->plan;
	plan->plan.lefttree = outerPlan(cscan);
	node->agg = agg = ExecInitAgg(plan, estate, eflags);
	node->outer = outerPlanState(css) = outerPlanState(agg);
	desc = ExecGetResultType(node->outer);
	agg->curaggcontext = agg->aggcontexts[0];
	agg->current_set = 0;

	node->ntransitions = agg->numtrans;
	node->transitions = palloc0(agg->numtrans * sizeof(Transition));
	for (int i = 0; i < agg->numtrans; i++)
		init_transition(node, &node->transitions[i], &agg->pertrans[i]);
	/* aggregates that share a transition may differ: the transition has one aggregate's call */
	for (int i = 0; i < agg->numaggs; i++)
		node->has_mode |= agg->peragg[i].aggref->aggfnoid == F_MODE;
	init_columns(node);
	if (node->set_attno != 0)
	{
		node->last_attno = Max(node->last_attno, node->set_attno);
		node->set = ordered_set_create(agg, node->set_attno, desc,
									   node->has_mode ? &node->columns->columns[node->ngroup] : NULL);
	}
	node->only_wanted = node->set != NULL && !node->has_mode;
	for (int i = 0; i < agg->numtrans; i++)
		node->only_wanted &= node->transitions[i].kind >= TRANSITION_ORDERED_SET;
	node->counted = counted_column(node);
	init_reader(node, desc);
	node->first_row_used = has_group_columns((Node *) node->plan->plan.targetlist, NULL) ||
		has_group_columns((Node *) node->plan->plan.qual, NULL);
	css->ss.ps.ExecProcNode = aggregate_exec;
}

static void
aggregate_end(CustomScanState *css)
{
	AggregateState *node = (AggregateState *) css;

	if (node->set != NULL)
		ordered_set_end(node->set);
	/* ends the child, too */
	ExecEndAgg(node->agg);
}

static void
aggregate_rescan(CustomScanState *css)
{
	AggregateState *node = (AggregateState *) css;

	node->pending = NULL;
	node->taken.more = false;
	node->taken.next = node->taken.n = 0;
	node->ended = node->returned = false;
	ExecClearTuple(node->agg->ss.ss_ScanTupleSlot);
	ExecClearTuple(node->agg->ss.ps.ps_ResultTupleSlot);
	if (node->outer->chgParam == NULL)
		ExecReScan(node->outer);
}

static void
aggregate_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	AggregateState *node = (AggregateState *) css;
	const Agg  *agg = node->plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	bool		useprefix = (compat_explain_tables(es) > 1 || es->verbose);
	List	   *names = NIL;
	ListCell   *lc;

	if (agg->aggsplit != AGGSPLIT_SIMPLE)
		ExplainPropertyText("Partial Mode", DO_AGGSPLIT_SKIPFINAL(agg->aggsplit) ? "Partial" : "Finalize", es);
	explain_columns(css, "Group Key", agg->grpColIdx, agg->numCols, ancestors, es);
	foreach(lc, aggregates_of(agg->plan.targetlist, agg->plan.qual))
		names = lappend(names, deparse_expression(lfirst(lc), context, useprefix, true));
	if (names != NIL)
		ExplainPropertyList("Aggregates", names, es);
	explain_condition(css, "Filter", agg->plan.qual, ancestors, es);
	if (es->analyze && node->filtered > 0)
		ExplainPropertyFloat("Rows Removed by Filter", NULL, node->filtered, 0, es);
}

const NodeType aggregate_node = {
	.scan = {.CustomName = "GpuSort Aggregate",.CreateCustomScanState = custom_create_state},
	.exec = {
		.CustomName = "GpuSort Aggregate",
		.BeginCustomScan = aggregate_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = aggregate_end,
		.ReScanCustomScan = aggregate_rescan,
		.ExplainCustomScan = aggregate_explain
	},
	.state_size = sizeof(AggregateState)
};
