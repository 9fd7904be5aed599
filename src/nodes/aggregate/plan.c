/*
 * plan.c
 *	  Replaces sorted Agg nodes of finished plans by GpuSort Aggregate nodes.
 *
 * Two steps, before and after the sorts below are replaced:
 *
 * 1. Aggregates that sort their input by themselves (percentile_cont() and its relatives in
 *	  all versions; DISTINCT and ORDER BY in calls up to PostgreSQL 15) get a Sort below the
 *	  Agg, or more keys for the Sort that is there.  The plan stays valid, because such an
 *	  aggregate may have sorted input.
 * 2. If the child of a sorted Agg is a GpuSort whose keys are the columns of the groups and
 *	  then those of the aggregates, a GpuSort Aggregate replaces the Agg.
 *
 * The sort must not change other results, nor be slower than what it replaces:
 *
 * - All aggregates that sort have one order, or the beginnings of one.
 * - Other aggregates do not depend on the order of their input, if step 1 changes it.
 * - A column of the sort may be an expression, which is then computed below it.  It must be
 *	 evaluated for all rows anyway, with the same effects.  Of several groups perhaps only
 *	 the first ones are read, so below a Sort that orders them it must not fail.
 * - The rows of a new sort are not much wider than the values that the aggregate would sort.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "compat.h"
#include "expression.h"
#include "nodes/aggregate/aggregate.h"
#include "nodes/base/plan_columns.h"
#include "nodes/base/plan_format.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/shared/shared.h"
#include "nodes/sort/sort_node.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "settings.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/*
 * Ids of the plan nodes that are added are the Agg's id plus one of these; see
 * PARTIAL_SORT_NODE_ID.
 */
#define AGGREGATE_SORT_NODE_ID		(1 << 29)
#define AGGREGATE_INPUT_NODE_ID		(1 << 28)

/* Bytes of columns besides the sort keys that the rows of a new sort may have. */
#define OTHER_COLUMNS_BYTES		40

/* A column by which aggregates have their input ordered. */
typedef struct OrderColumn
{
	Expr	   *expr;			/* refers to the Agg's child */
	Oid			sortop;
	Oid			eqop;
	Oid			collation;
	bool		nulls_first;
	bool		any_nulls;		/* NULLs may be first or last */
} OrderColumn;

/* The aggregates of an Agg. */
typedef struct Aggregates
{
	List	   *aggrefs;
	int			norder;
	OrderColumn *order;			/* the longest order of an aggregate */
	bool		sorts;			/* one that sorts by itself has no FILTER */
	bool		all_distinct;	/* all take each combination of the order columns once */
	const char *refusal;		/* NULL, or why the Agg stays */
} Aggregates;

/* ------------------------------------------------------------------------
 * Aggregates
 * ------------------------------------------------------------------------
 */

List *
aggregates_of(List *targetlist, List *qual)
{
	List	   *aggrefs = NIL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) list_concat_copy(targetlist, qual),
								PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS))
	{
		if (IsA(lfirst(lc), Aggref))
			aggrefs = list_append_unique(aggrefs, lfirst(lc));
	}
	return aggrefs;
}

int
aggregate_distinct_columns(const Aggref *aggref)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, aggref->aggdistinct)
		n += !IsA(get_sortgroupclause_expr(lfirst(lc), aggref->args), Const);
	return n;
}

/* Is the result the same for any order of the input?  Sums of floats are not. */
static bool
ignores_order(const Aggref *aggref)
{
	char	   *name;

	if (aggref->aggfnoid >= FirstGenbkiObjectId)
		return false;
	switch (aggref->aggfnoid)
	{
		case F_COUNT_:
		case F_COUNT_ANY:
		case F_SUM_INT2:
		case F_SUM_INT4:
		case F_SUM_INT8:
		case F_SUM_NUMERIC:
		case F_SUM_MONEY:
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
		case F_AVG_NUMERIC:
		case F_BOOL_AND:
		case F_BOOL_OR:
		case F_EVERY:
			return true;
		default:
			name = get_func_name(aggref->aggfnoid);
			return name != NULL && (strcmp(name, "min") == 0 || strcmp(name, "max") == 0);
	}
}

bool
aggregates_take_any_order(List *targetlist, List *qual)
{
	ListCell   *lc;

	foreach(lc, aggregates_of(targetlist, qual))
	{
		const Aggref *aggref = lfirst_node(Aggref, lc);

		/* PostgreSQL's ordered-set aggregates depend on the order of their sort keys only */
		if (!(aggref->aggkind == AGGKIND_ORDERED_SET ? ordered_set_is_known(aggref) : ignores_order(aggref)) ||
			contain_volatile_functions((Node *) aggref))
			return false;
	}
	return true;
}

/* The columns by which an aggregate has its input ordered; NULL: it does not sort. */
static OrderColumn *
order_of(const Aggref *aggref, int *n)
{
	List	   *clauses = aggref->aggdistinct != NIL ? aggref->aggdistinct : aggref->aggorder;
	OrderColumn *order = palloc0((list_length(clauses) + 1) * sizeof(OrderColumn));
	ListCell   *lc;

	*n = 0;
	if (aggref->aggkind == AGGKIND_ORDERED_SET)
	{
		SortGroupClause *clause = linitial_node(SortGroupClause, clauses);
		Expr	   *column = ordered_set_column(aggref);
		Oid			type = exprType((Node *) column);

		order->expr = column;
		order->sortop = clause->sortop;
		order->eqop = clause->eqop;
		if (column != linitial_node(TargetEntry, aggref->args)->expr)
		{
			/* the order of a cast's argument, in the same direction */
			Oid			opfamily;
			Oid			opcintype;
			bool		reverse;

			if (!compat_ordering_op(clause->sortop, &opfamily, &opcintype, &reverse))
				return NULL;
			get_sort_group_operators(type, true, true, true, &order->sortop, &order->eqop, NULL, NULL);
			if (reverse)
				get_sort_group_operators(type, false, true, true, NULL, &order->eqop, &order->sortop, NULL);
		}
		order->collation = exprCollation((Node *) column);
		order->nulls_first = order->any_nulls = true;
		*n = 1;
		return order;
	}
	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Expr	   *expr = get_sortgroupclause_tle(clause, aggref->args)->expr;
		OrderColumn *column = &order[*n];

		if (IsA(expr, Const))
			continue;
		column->expr = expr;
		column->sortop = clause->sortop;
		column->eqop = clause->eqop;
		column->collation = exprCollation((Node *) expr);
		column->nulls_first = clause->nulls_first;
		column->any_nulls = aggref->aggorder == NIL && ignores_order(aggref);
		(*n)++;
	}
	return *n > 0 ? order : NULL;
}

/* Makes one order of both; false if neither begins with the other. */
static bool
join_orders(Aggregates *all, OrderColumn *order, int n)
{
	int			both = Min(n, all->norder);

	for (int i = 0; i < both; i++)
	{
		OrderColumn *a = &all->order[i];
		OrderColumn *b = &order[i];

		if (!equal(a->expr, b->expr) || a->sortop != b->sortop || a->eqop != b->eqop)
			return false;
		if (!a->any_nulls && !b->any_nulls && a->nulls_first != b->nulls_first)
			return false;
		if (a->any_nulls && b->any_nulls)
			a->nulls_first = b->nulls_first = a->nulls_first || b->nulls_first;
		else if (a->any_nulls)
			*a = *b;
		else
			*b = *a;
	}
	if (n > all->norder)
	{
		all->norder = n;
		all->order = order;
	}
	return true;
}

static void
examine_aggregate(Aggregates *all, const Aggref *aggref)
{
	OrderColumn *order;
	int			n;

	if (aggref->aggkind == AGGKIND_HYPOTHETICAL ||
		(aggref->aggkind == AGGKIND_ORDERED_SET &&
		 (!ordered_set_is_known(aggref) || aggref->aggfilter != NULL)))
		all->refusal = "an ordered-set aggregate is unknown or has a FILTER";
	else if (list_length(all->aggrefs) > 1 && expr_is_loud((Node *) aggref->aggdirectargs))
		/* the final functions of earlier aggregates come first */
		all->refusal = "a fraction may fail";
	if (all->refusal != NULL)
		return;
	order = order_of(aggref, &n);
	if (aggref->aggdistinct == NIL || aggref->aggfilter != NULL)
		all->all_distinct = false;
	if (order == NULL)
	{
		if (aggref->aggdistinct != NIL || aggref->aggorder != NIL)
			all->refusal = "an aggregate sorts by a constant";
		return;
	}
	all->sorts |= aggref->aggfilter == NULL;
	if (!join_orders(all, order, n))
		all->refusal = "its aggregates have different orders";
}

/* Examines the aggregates of an Agg; its children do not matter. */
static void
examine_aggregates(const Agg *agg, Aggregates *all)
{
	ListCell   *lc;

	memset(all, 0, sizeof(*all));
	all->aggrefs = aggregates_of(agg->plan.targetlist, agg->plan.qual);
	all->all_distinct = all->aggrefs != NIL;
	if (agg->aggstrategy != AGG_PLAIN && agg->aggstrategy != AGG_SORTED)
		all->refusal = "it has a hash table";
	else if (agg->groupingSets != NIL || agg->chain != NIL)
		all->refusal = "it has grouping sets";
	else if (contain_subplans((Node *) agg->plan.targetlist) || contain_subplans((Node *) agg->plan.qual))
		all->refusal = "it has subplans";
	foreach(lc, all->aggrefs)
	{
		if (all->refusal == NULL)
			examine_aggregate(all, lfirst_node(Aggref, lc));
	}
	/* an aggregate that takes only a part of the order's values needs all combinations */
	foreach(lc, all->aggrefs)
		all->all_distinct &= aggregate_distinct_columns(lfirst_node(Aggref, lc)) == all->norder;
}

/* ------------------------------------------------------------------------
 * Step 1: a sort for aggregates that sort by themselves
 * ------------------------------------------------------------------------
 */

/* The child's columns that the Agg uses, and their numbers below the new sort. */
typedef struct InputColumns
{
	Plan	   *child;
	AttrNumber *map;			/* new number of each of the child's columns; 0:
								 * not used */
	List	   *computed;		/* expressions of the child's columns */
	int			ncolumns;		/* columns of the sort's input before the expressions */
} InputColumns;

static bool
mark_columns(Node *expr, void *context)
{
	InputColumns *input = context;

	if (expr == NULL)
		return false;
	if (IsA(expr, Var))
	{
		input->map[((Var *) expr)->varattno] = 1;
		return false;
	}
	/* what is computed below the sort is not used above it */
	if (list_member(input->computed, expr))
		return false;
	return expression_tree_walker(expr, mark_columns, context);
}

/* expression_tree_mutator: refers to the new columns. */
static Node *
renumber(Node *expr, void *context)
{
	const InputColumns *input = context;

	if (expr == NULL)
		return NULL;
	if (IsA(expr, Var))
	{
		Var		   *var = copyObject((Var *) expr);

		var->varattno = input->map[var->varattno];
		Assert(var->varattno > 0);
		return (Node *) var;
	}
	for (int i = 0; i < list_length(input->computed); i++)
	{
		Node	   *computed = list_nth(input->computed, i);

		if (equal(computed, expr))
			return (Node *) makeVar(OUTER_VAR, input->ncolumns + i + 1, exprType(expr), exprTypmod(expr),
									exprCollation(expr), 0);
	}
	return expression_tree_mutator(expr, renumber, context);
}

/* Would another place compute the same? */
static bool
expr_can_move(Node *expr)
{
	return !contain_volatile_functions(expr) && !contain_subplans(expr) && !expr_has_exec_param(expr);
}

/*
 * The order columns that are no columns of the child; false if one cannot be computed below.  A constant is not: the
 * target list may have an equal one outside of the aggregates, and a group without rows has no column for it.
 */
static bool
find_computed(const Aggregates *all, InputColumns *input)
{
	ListCell   *lc;

	for (int i = 0; i < all->norder; i++)
	{
		Expr	   *expr = all->order[i].expr;

		if (IsA(expr, Var))
			continue;
		if (!contain_var_clause((Node *) expr) || !expr_can_move((Node *) expr))
			return false;
		input->computed = lappend(input->computed, expr);
	}
	/* with a FILTER the expression is evaluated for some rows only */
	foreach(lc, all->aggrefs)
	{
		const Aggref *aggref = lfirst_node(Aggref, lc);
		OrderColumn *order;
		int			n;

		if (aggref->aggfilter == NULL)
			continue;
		order = order_of(aggref, &n);
		for (int i = 0; order != NULL && i < n; i++)
		{
			if (list_member(input->computed, order[i].expr))
				return false;
		}
	}
	return true;
}

/*
 * Can the plan's target list be replaced by another one?  An Agg or WindowAgg expects all its
 * functions there.
 */
static bool
target_list_is_free(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_CteScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			return true;
		default:
			return false;
	}
}

/* Appends expressions to a target list. */
static List *
append_computed(List *tlist, const List *exprs)
{
	ListCell   *lc;

	foreach(lc, exprs)
		tlist = lappend(tlist, makeTargetEntry(lfirst(lc), list_length(tlist) + 1, NULL, false));
	return tlist;
}

/* The child with the columns that are used, and the expressions. */
static Plan *
make_input(const Agg *agg, InputColumns *input)
{
	Plan	   *child = input->child;
	int			natts = list_length(child->targetlist);
	List	   *tlist = NIL;
	Node	   *moved = expr_expand_vars((Node *) input->computed, child->targetlist);
	bool		free = target_list_is_free(child) && expr_can_move(moved);
	Result	   *result;

	for (int i = 1; i <= natts; i++)
	{
		TargetEntry *tle = get_tle_by_resno(child->targetlist, i);
		TargetEntry *entry;

		if (input->map[i] == 0)
			continue;
		input->map[i] = ++input->ncolumns;
		entry = flatCopyTargetEntry(tle);
		if (!free)
			entry->expr = (Expr *) makeVarFromTargetEntry(OUTER_VAR, tle);
		entry->resno = input->ncolumns;
		tlist = lappend(tlist, entry);
	}
	if (input->ncolumns == natts && input->computed == NIL)
		return child;
	tlist = append_computed(tlist, free ? (List *) moved : copyObject(input->computed));
	if (free)
	{
		child->targetlist = tlist;
		return child;
	}
	result = makeNode(Result);
	result->plan.plan_node_id = agg->plan.plan_node_id + AGGREGATE_INPUT_NODE_ID;
	result->plan.targetlist = tlist;
	result->plan.lefttree = child;
	result->plan.startup_cost = child->startup_cost;
	/* the Agg's cost has the expressions */
	result->plan.total_cost = child->total_cost;
	result->plan.plan_rows = child->plan_rows;
	result->plan.parallel_safe = child->parallel_safe;
	result->plan.extParam = bms_copy(child->extParam);
	result->plan.allParam = bms_copy(child->allParam);
	compat_copy_disabled(&result->plan, child);
	return &result->plan;
}

static int
column_width(Node *expr)
{
	return get_typavgwidth(exprType(expr), exprTypmod(expr));
}

static bool
key_is_sortable(const OrderColumn *column)
{
	KeyColumn	key = {.sortop = column->sortop,.collation = column->collation,.nulls_first = column->nulls_first};
	const char *why;

	return key_type_lookup(&key, exprType((Node *) column->expr), &why) && key_orders_by_equality(&key);
}

/* A copy of an array of used bytes, with room for size bytes. */
static void *
enlarged(const void *array, Size used, Size size)
{
	void	   *larger = palloc(size);

	if (used > 0)
		memcpy(larger, array, used);
	return larger;
}

/* Gives a Sort the order columns from this one on as further keys. */
static void
sort_add_keys(Sort *sort, const Aggregates *all, int from, InputColumns *input)
{
	int			n = sort->numCols;
	int			more = n + all->norder - from;

	sort->sortColIdx = enlarged(sort->sortColIdx, n * sizeof(AttrNumber), more * sizeof(AttrNumber));
	sort->sortOperators = enlarged(sort->sortOperators, n * sizeof(Oid), more * sizeof(Oid));
	sort->collations = enlarged(sort->collations, n * sizeof(Oid), more * sizeof(Oid));
	sort->nullsFirst = enlarged(sort->nullsFirst, n * sizeof(bool), more * sizeof(bool));
	for (int i = from; i < all->norder; i++, n++)
	{
		const OrderColumn *column = &all->order[i];

		sort->sortColIdx[n] = ((Var *) renumber((Node *) column->expr, input))->varattno;
		sort->sortOperators[n] = column->sortop;
		sort->collations[n] = column->collation;
		sort->nullsFirst[n] = column->nulls_first;
	}
	sort->numCols = n;
}

/* A sort of all rows by the aggregates' order; NULL if it may be slower. */
static const char *
add_sort(Agg *agg, Aggregates *all, InputColumns *input)
{
	Plan	   *child = input->child;
	Sort	   *sort = makeNode(Sort);
	int			width = 0;
	Plan	   *below;
	ListCell   *lc;

	/* a sort below gives the rows an order that somebody may rely on */
	if (IsA(child, Sort) || IsA(child, IncrementalSort) || IsA(child, GatherMerge) || IsA(child, MergeAppend))
		return "its input is ordered";
	for (int i = 1; i <= list_length(child->targetlist); i++)
	{
		if (input->map[i] != 0)
			width += column_width((Node *) get_tle_by_resno(child->targetlist, i)->expr);
	}
	for (int i = 0; i < all->norder; i++)
	{
		if (IsA(all->order[i].expr, Var))
			width -= column_width((Node *) all->order[i].expr);
	}
	if (width > OTHER_COLUMNS_BYTES)
		return "the rows are much wider than the values to sort";

	below = make_input(agg, input);
	below->plan_width = 0;
	sort->plan.plan_node_id = agg->plan.plan_node_id + AGGREGATE_SORT_NODE_ID;
	foreach(lc, below->targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		below->plan_width += column_width((Node *) tle->expr);
		tle->expr = (Expr *) makeVarFromTargetEntry(OUTER_VAR, tle);
		sort->plan.targetlist = lappend(sort->plan.targetlist, tle);
	}
	sort->plan.lefttree = below;
	sort->plan.plan_rows = below->plan_rows;
	sort->plan.plan_width = below->plan_width;
	sort->plan.parallel_safe = below->parallel_safe;
	sort->plan.extParam = bms_copy(below->extParam);
	sort->plan.allParam = bms_copy(below->allParam);
	/* PostgreSQL does not count the sort inside the aggregate, which this one replaces */
	sort->plan.startup_cost = sort->plan.total_cost = below->total_cost;
	compat_copy_disabled(&sort->plan, below);
	sort_add_keys(sort, all, 0, input);
	agg->plan.targetlist = (List *) renumber((Node *) agg->plan.targetlist, input);
	agg->plan.qual = (List *) renumber((Node *) agg->plan.qual, input);
	agg->plan.lefttree = &sort->plan;
	return NULL;
}

/* The keys of a Sort, Gather Merge or GpuSort, as columns of its output; NULL: another node. */
static KeyColumn *
output_keys(const Plan *plan, int *n)
{
	const Sort *sort = (const Sort *) plan;
	const GatherMerge *merge = (const GatherMerge *) plan;
	bool		is_sort = IsA(plan, Sort);
	KeyColumn  *keys;

	if (gpusort_plan_is(plan))
	{
		keys = gpusort_plan_keys((const CustomScan *) plan, n);
		for (int i = 0; i < *n; i++)
			keys[i].attno = sort_output_column((const CustomScan *) plan, keys[i].attno);
		return keys;
	}
	if (!is_sort && !IsA(plan, GatherMerge))
		return NULL;
	*n = is_sort ? sort->numCols : merge->numCols;
	keys = palloc0(*n * sizeof(KeyColumn));
	for (int i = 0; i < *n; i++)
		keys[i] = is_sort ? PLAN_KEY_COLUMN(sort, i) : PLAN_KEY_COLUMN(merge, i);
	return keys;
}

/* The number of the group column that is this column of the child; -1: none. */
static int
group_column(const Agg *agg, AttrNumber attno)
{
	for (int i = 0; i < agg->numCols; i++)
	{
		if (agg->grpColIdx[i] == attno)
			return i;
	}
	return -1;
}

/* Are the first n keys the columns of the groups, and then those of the order?  Each orders by its equality. */
static bool
keys_lead(const Agg *agg, const Aggregates *all, const KeyColumn *keys, int n)
{
	for (int i = 0; i < n; i++)
	{
		const KeyColumn *key = &keys[i];
		const OrderColumn *column = i < agg->numCols ? NULL : &all->order[i - agg->numCols];

		/* a group may have two sections of one spelling each, or a value twice */
		if (!key_orders_by_equality(key))
			return false;
		if (column == NULL ? group_column(agg, key->attno) < 0 :
			(!IsA(column->expr, Var) || ((Var *) column->expr)->varattno != key->attno ||
			 key->sortop != column->sortop || key->collation != column->collation ||
			 (!column->any_nulls && key->nulls_first != column->nulls_first)))
			return false;
	}
	return true;
}

/* Is the child sorted by the group columns, and then by the columns of the aggregates' order? */
static bool
is_sorted(const Agg *agg, const Aggregates *all)
{
	int			nkeys;
	const KeyColumn *keys = output_keys(agg->plan.lefttree, &nkeys);
	int			n = agg->numCols + all->norder;

	return keys != NULL && nkeys >= n && keys_lead(agg, all, keys, n);
}

/* More keys for the Sort below, which orders the groups. */
static const char *
extend_sort(Agg *agg, Aggregates *all, InputColumns *input)
{
	Sort	   *sort = (Sort *) input->child;
	Plan	   *below = sort->plan.lefttree;
	int			ngroup = agg->numCols;
	int			n = list_length(sort->plan.targetlist);
	int			nbelow = list_length(below->targetlist);
	int			nkeys;
	const KeyColumn *keys = output_keys(input->child, &nkeys);
	Node	   *moved;
	ListCell   *lc;

	if (nkeys < ngroup || nkeys > ngroup + all->norder || !keys_lead(agg, all, keys, nkeys))
		return "the sort below has other keys";
	if (input->computed != NIL)
	{
		if (expr_is_loud((Node *) input->computed))
			return "an expression may fail for a group that is not read";
		/* the sort's columns are the child's, perhaps in another order */
		moved = expr_expand_vars((Node *) input->computed, sort->plan.targetlist);
		moved = expr_expand_vars(moved, below->targetlist);
		if (!target_list_is_free(below) || !expr_can_move(moved))
			return "an expression cannot be computed below the sort";
		below->targetlist = append_computed(below->targetlist, (List *) moved);
		for_each_from(lc, below->targetlist, nbelow)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, lc);

			sort->plan.targetlist = lappend(sort->plan.targetlist,
											makeTargetEntry((Expr *) makeVarFromTargetEntry(OUTER_VAR, tle),
															list_length(sort->plan.targetlist) + 1, NULL, false));
			below->plan_width += column_width((Node *) tle->expr);
			sort->plan.plan_width += column_width((Node *) tle->expr);
		}
	}
	for (int i = 1; i <= n; i++)
		input->map[i] = i;
	input->ncolumns = n;
	sort_add_keys(sort, all, sort->numCols - ngroup, input);
	agg->plan.targetlist = (List *) renumber((Node *) agg->plan.targetlist, input);
	agg->plan.qual = (List *) renumber((Node *) agg->plan.qual, input);
	return NULL;
}

/* Why one sort cannot serve all aggregates; NULL: it can. */
static const char *
order_refusal(const Aggregates *all)
{
	ListCell   *lc;

	if (all->refusal != NULL)
		return all->refusal;
	if (!all->sorts)
		return "each aggregate that sorts has a FILTER";
	foreach(lc, all->aggrefs)
	{
		const Aggref *aggref = lfirst_node(Aggref, lc);

		if ((aggref->aggdistinct == NIL && aggref->aggorder == NIL && !ignores_order(aggref)) ||
			contain_volatile_functions((Node *) aggref))
			return "an aggregate depends on the order of its input";
	}
	for (int i = 0; i < all->norder; i++)
	{
		if (!key_is_sortable(&all->order[i]))
			return "gpusort cannot sort a column, or not by its equality";
	}
	return NULL;
}

bool
aggregates_share_order(List *targetlist, List *qual, int width)
{
	Agg			agg = {.plan = {.targetlist = targetlist,.qual = qual},.aggstrategy = AGG_PLAIN};
	Aggregates	all;

	if (!gpusort_aggregates)
		return false;
	examine_aggregates(&agg, &all);
	for (int i = 0; i < all.norder; i++)
		width -= column_width((Node *) all.order[i].expr);
	return all.norder > 0 && width <= OTHER_COLUMNS_BYTES && order_refusal(&all) == NULL;
}

static const char *
sort_input(Agg *agg, Aggregates *all)
{
	InputColumns input = {.child = agg->plan.lefttree};
	const char *refusal = order_refusal(all);

	if (refusal != NULL)
		return refusal;
	if (agg->plan.lefttree->plan_rows < gpusort_min_rows)
		return "fewer rows are estimated than gpusort.min_rows";
	if (!find_computed(all, &input))
		return "an expression cannot be computed below the sort";
	input.map = palloc0((list_length(input.child->targetlist) + 1) * sizeof(AttrNumber));
	if (agg->aggstrategy == AGG_SORTED)
		return IsA(input.child, Sort) ? extend_sort(agg, all, &input) : "its input comes sorted";
	mark_columns((Node *) agg->plan.targetlist, &input);
	mark_columns((Node *) agg->plan.qual, &input);
	return add_sort(agg, all, &input);
}

void
sort_below_aggregate(Agg *agg)
{
	Aggregates	all;
	const char *refusal;

	if (!gpusort_aggregates || !enable_sort)
		return;
	examine_aggregates(agg, &all);
	if (all.norder == 0 || is_sorted(agg, &all))
		return;
	refusal = sort_input(agg, &all);
	if (refusal != NULL)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: the aggregate of plan node %d sorts by itself: %s",
								 agg->plan.plan_node_id, refusal)));
}

/* ------------------------------------------------------------------------
 * Step 2: the node
 * ------------------------------------------------------------------------
 */

/* Writes custom_private. */
static void
write_format(CustomScan *cscan, const Agg *agg, const Aggregates *all)
{
	Agg		   *inner = makeNode(Agg);
	List	   *order = NIL;
	bool		nulls_first = false;
	int			nkeys;

	*inner = *agg;
	inner->plan.lefttree = NULL;
	inner->plan.initPlan = NIL;
	for (int i = 0; i < all->norder; i++)
	{
		const OrderColumn *column = &all->order[i];

		order = lappend(order, list_make3_int(((Var *) column->expr)->varattno, column->eqop, column->collation));
	}
	if (all->norder > 0)
		nulls_first = output_keys(agg->plan.lefttree, &nkeys)[agg->numCols].nulls_first;
	cscan->custom_private = list_make3(inner, order, list_make1_int(nulls_first));
}

/* Lets the sort drop rows that no aggregate takes, if it compares them as the groups and aggregates do. */
static void
drop_untaken(const Agg *agg, const Aggregates *all, CustomScan *sort)
{
	int			n = agg->numCols + all->norder;
	int			nkeys;
	const KeyColumn *keys = output_keys(&sort->scan.plan, &nkeys);

	if (!all->all_distinct || sort->custom_exprs != NIL)
		return;
	for (int i = 0; i < n; i++)
	{
		Oid			equality = get_equality_op_for_ordering_op(keys[i].sortop, NULL);
		int			g = i < agg->numCols ? group_column(agg, keys[i].attno) : -1;

		if (i >= agg->numCols ? all->order[i - agg->numCols].eqop != equality :
			(g >= 0 && (agg->grpOperators[g] != equality || agg->grpCollations[g] != keys[i].collation)))
			return;
	}
	gpusort_plan_set_distinct(sort, n, 0);
	if (plan_above_partial_sorts(sort))
		gpusort_plan_set_distinct((CustomScan *) outerPlan(outerPlan(sort)), n, 0);
}

Plan *
replace_aggregate(Agg *agg)
{
	CustomScan *sort = (CustomScan *) agg->plan.lefttree;
	bool		shared = custom_plan_is(agg->plan.lefttree, &shared_sort_node);
	CustomScan *cscan;
	Aggregates	all;

	if (!gpusort_aggregates || (!gpusort_plan_is(agg->plan.lefttree) && !shared))
		return &agg->plan;
	examine_aggregates(agg, &all);
	if (all.refusal != NULL || (all.norder > 0 && !is_sorted(agg, &all)))
		return &agg->plan;

	cscan = custom_plan_make(&agg->plan, agg->plan.lefttree, copyObject(agg->plan.targetlist), &aggregate_node);
	cscan->scan.plan.qual = NIL;
	write_format(cscan, agg, &all);
	if (!shared)
		drop_untaken(agg, &all, sort);
	return &cscan->scan.plan;
}
