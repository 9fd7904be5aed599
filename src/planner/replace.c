/*
 * replace.c
 *	  Replaces the Sort nodes of finished plans by GpuSort nodes, and Incremental Sort nodes
 *	  by GpuSort Incremental nodes.
 *
 * Rewriting the finished plan covers every Sort of every kind of statement and keeps
 * the planner's decisions, which rely on the abilities of a Sort; a GpuSort has the
 * same abilities.  The rooms of the nodes make the new nodes; here is the walk, and what
 * decides.
 *
 * The executor passes a LIMIT's bound to a Sort, but not to a custom node.  The walk
 * therefore carries the Limit down through the same nodes as ExecSetTupleBound(), and
 * the GpuSort evaluates the Limit's expressions itself.  This second evaluation must
 * have no effects, so the expressions may consist only of constants, Params and
 * immutable built-in functions.  A Param keeps its value until the Limit is rescanned.
 * The Sort stays if the expressions contain anything else: a sort without the bound could
 * be far slower.  It also stays in a parallel worker if they contain the result of another
 * plan node, because the worker would not be sent it.
 */
#include "postgres.h"

#include <math.h>

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "compat.h"
#include "expression.h"
#include "miscadmin.h"
#include "nodes/aggregate/aggregate.h"
#include "nodes/base/plan_columns.h"
#include "nodes/base/plan_format.h"
#include "nodes/incremental/incremental.h"
#include "nodes/join/join.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "nodes/shared/shared.h"
#include "nodes/sort/sort_node.h"
#include "nodes/window/window.h"
#include "optimizer/planmain.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/lsyscache.h"

/* What the ancestors of a node in the plan mean for it. */
typedef struct NodeContext
{
	Limit	   *limit;			/* Limit that bounds the node; or NULL */
	bool		gather;			/* a Gather separates limit from the node */
	bool		rewind;			/* the node may be rescanned or read backwards */
	bool		any_order;		/* rows with equal sort keys may come in any order */
} NodeContext;

/* Is a second call of the function observable?  Only built-in functions are trusted. */
static bool
function_has_effects(Oid func, void *context)
{
	return func >= FirstGenbkiObjectId || func_volatile(func) != PROVOLATILE_IMMUTABLE;
}

/* The reason why this Sort must stay, or NULL.  Fills keys[]. */
static const char *
sort_refusal(const Sort *sort, NodeContext context, KeyColumn *keys)
{
	if (sort->plan.plan_rows < gpusort_min_rows)
		return "fewer rows are estimated than gpusort.min_rows";

	if (context.limit != NULL)
	{
		if (context.gather &&
			(expr_has_exec_param(context.limit->limitCount) || expr_has_exec_param(context.limit->limitOffset)))
			return "the LIMIT above it is not known to parallel workers";
		if (expr_has_refused(context.limit->limitCount, function_has_effects) ||
			expr_has_refused(context.limit->limitOffset, function_has_effects))
			return "the LIMIT above it may change or have effects";
	}

	for (int i = 0; i < sort->numCols; i++)
	{
		const TargetEntry *tle = get_tle_by_resno(sort->plan.targetlist, sort->sortColIdx[i]);
		const char *why;

		keys[i] = PLAN_KEY_COLUMN(sort, i);
		if (!key_type_lookup(&keys[i], exprType((Node *) tle->expr), &why))
			return psprintf("sort key %d: %s", i + 1, why);
	}
	return NULL;
}

/* ------------------------------------------------------------------------
 * Duplicate columns
 *
 * SELECT id, t ... ORDER BY t COLLATE "C" sorts three columns: the planner adds t a
 * second time, with the other collation, as a junk column that the executor removes from
 * each returned row.  Both have the same bytes.  The GpuSort at the top of a plan
 * therefore sorts by the returned column, and the duplicate column is dropped.  Rows
 * become shorter, are often whole heap tuples, and need no junk filter.
 *
 * The columns may differ only in collation and type modifier, so that EXPLAIN shows the
 * same key.  Only the sort and a Limit above it may use the duplicate column.
 * ------------------------------------------------------------------------
 */

/* Number of the column, among the first n, that tle duplicates; 0: none. */
static AttrNumber
find_duplicate(List *tlist, int n, const TargetEntry *tle)
{
	Node	   *expr = (Node *) tle->expr;

	while (IsA(expr, RelabelType))
		expr = (Node *) ((RelabelType *) expr)->arg;
	if (!IsA(expr, Var) || exprType(expr) != exprType((Node *) tle->expr))
		return 0;
	for (int i = 0; i < n; i++)
	{
		if (equal(list_nth_node(TargetEntry, tlist, i)->expr, expr))
			return i + 1;
	}
	return 0;
}

/* Is the sort's column i the child's column i? */
static bool
is_same_column(const CustomScan *sort, int i)
{
	const Var  *var = (Var *) list_nth_node(TargetEntry, sort->custom_scan_tlist, i)->expr;

	return IsA(var, Var) && var->varno == OUTER_VAR && var->varattno == i + 1;
}

/* Can trailing columns of the plan's target list be dropped? */
static bool
has_free_columns(Plan *plan)
{
	if (IsA(plan, CustomScan))
		return custom_plan_is(plan, &join_node);
	return !IsA(plan, ForeignScan) && is_projection_capable_plan(plan);
}

/* Drops duplicate columns of the GpuSort at the top of the plan. */
static void
plan_drop_duplicates(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;
	Plan	   *plan = top;
	CustomScan *sort;
	Plan	   *child;
	int			n = list_length(top->targetlist);
	int			kept = n;

	/* LIMIT ... WITH TIES compares columns; locked rows have junk columns of their own */
	if (stmt->commandType != CMD_SELECT || stmt->rowMarks != NIL)
		return;
	if (IsA(plan, Limit) && ((Limit *) plan)->uniqNumCols == 0)
		plan = plan->lefttree;
	sort = (CustomScan *) plan;
	if (!gpusort_plan_is(plan) || plan_above_partial_sorts(sort))
		return;
	child = plan->lefttree;
	if (!has_free_columns(child) || list_length(plan->targetlist) != n || list_length(child->targetlist) != n)
		return;

	for (int i = 0; i < n; i++)
	{
		if (!is_same_column(sort, i))
			return;
	}
	for (; kept > 1 && list_nth_node(TargetEntry, top->targetlist, kept - 1)->resjunk; kept--)
	{
		AttrNumber	duplicate = find_duplicate(child->targetlist, kept - 1,
											   list_nth_node(TargetEntry, child->targetlist, kept - 1));

		if (duplicate == 0)
			break;
		gpusort_plan_move_key(sort, kept, duplicate);
	}
	if (kept == n)
		return;
	top->targetlist = list_truncate(top->targetlist, kept);
	plan->targetlist = list_truncate(plan->targetlist, kept);
	sort->custom_scan_tlist = list_truncate(sort->custom_scan_tlist, kept);
	child->targetlist = list_truncate(child->targetlist, kept);
}

/*
 * Drops the columns that nobody reads from a GpuSort Window at the top of the plan: those of its
 * order, which the executor would compute and then remove from each row.
 */
static void
plan_drop_junk(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;
	int			kept = list_length(top->targetlist);

	if (stmt->commandType != CMD_SELECT || stmt->rowMarks != NIL || !custom_plan_is(top, &window_node))
		return;
	for (; kept > 1; kept--)
	{
		const TargetEntry *tle = list_nth_node(TargetEntry, top->targetlist, kept - 1);

		if (!tle->resjunk || !IsA(strip_implicit_coercions((Node *) tle->expr), Var))
			break;
	}
	top->targetlist = list_truncate(top->targetlist, kept);
}

/* ------------------------------------------------------------------------
 * Carried columns (sort_path.c)
 *
 * Aggregates whose results do not depend on the order of their input allow them in the sort below them, and
 * in the sorts below joins below them.
 * ------------------------------------------------------------------------
 */

static void
carry_in_shared_sort(CustomScan *sort)
{
	int			n;
	KeyColumn  *keys = gpusort_plan_keys(sort, &n);

	keys = repalloc(keys, (n + list_length(sort->custom_scan_tlist)) * sizeof(KeyColumn));
	n = carry_columns(get_tlist_exprs(sort->custom_scan_tlist, true), keys, n);
	gpusort_plan_fill(sort, keys, n, NULL);
}

/* ------------------------------------------------------------------------
 * The walk through a plan
 * ------------------------------------------------------------------------
 */

/* The sort's keys, with carried columns; NULL if it must stay. */
static KeyColumn *
replaceable_keys(const Sort *sort, NodeContext context, int *nkeys)
{
	KeyColumn  *keys = palloc((sort->numCols + list_length(sort->plan.targetlist)) * sizeof(KeyColumn));
	const char *refusal = sort_refusal(sort, context, keys);

	*nkeys = sort->numCols;
	if (refusal == NULL)
	{
		if (context.any_order)
			*nkeys = carry_columns(get_tlist_exprs(sort->plan.targetlist, true), keys, sort->numCols);
		return keys;
	}
	ereport(DEBUG1,
			(errmsg_internal("gpusort: the Sort of plan node %d stays: %s", sort->plan.plan_node_id, refusal)));
	return NULL;
}

/* Rows that a Limit, or NULL, wants of the node below it; 0: all; infinite: only the executor knows. */
static double
limit_bound(const Limit *limit)
{
	const Const *count;
	const Const *offset;

	if (limit == NULL)
		return 0;
	if (!limit_is_constant(limit->limitCount, limit->limitOffset))
		return HUGE_VAL;
	count = (const Const *) limit->limitCount;
	offset = (const Const *) limit->limitOffset;
	if (count->constisnull)
		return 0;
	return Max(1, (double) DatumGetInt64(count->constvalue) +
			   (offset == NULL || offset->constisnull ? 0 : DatumGetInt64(offset->constvalue)));
}

static Plan *
replace_sort(Sort *sort, NodeContext context)
{
	int			nkeys;
	KeyColumn  *keys = replaceable_keys(sort, context, &nkeys);
	Plan	   *child = sort->plan.lefttree;

	if (keys == NULL)
		return &sort->plan;
	if (IsA(child, Gather) && !context.rewind && parallel_sort_possible((Gather *) child))
	{
		Gather	   *gather = (Gather *) child;

		if (exchange_pays(gather->plan.lefttree->total_cost, sort->plan.plan_rows, gather->num_workers,
						  limit_bound(context.limit)))
			return parallel_sort_from_gather(sort, gather, keys, nkeys, context.limit);
	}
	return sort_plan_make(sort, keys, nkeys, context.limit);
}

static Plan *
replace_incremental_sort(IncrementalSort *incremental, NodeContext context)
{
	int			nkeys;
	KeyColumn  *keys;

	context.any_order = false;
	keys = replaceable_keys(&incremental->sort, context, &nkeys);
	/* rows that are equal in the prefix are not sorted by it again */
	for (int i = 0; keys != NULL && i < incremental->nPresortedCols; i++)
	{
		if (!key_orders_by_equality(&keys[i]))
			return &incremental->sort.plan;
	}
	return keys != NULL ? incremental_plan_make(incremental, keys, context.limit) : &incremental->sort.plan;
}

/* Replaces a Gather Merge and the Sort below it.  The Sort's subplan is replaced already. */
static Plan *
replace_gather_merge(GatherMerge *merge, Sort *sort, NodeContext context)
{
	int			nkeys;
	KeyColumn  *keys = replaceable_keys(sort, context, &nkeys);

	if (keys == NULL)
		return &merge->plan;
	if (exchange_pays(sort->plan.lefttree->total_cost, merge->plan.plan_rows, merge->num_workers,
					  limit_bound(context.limit)))
		return parallel_sort_from_gather_merge(merge, sort, keys, nkeys, context.limit);
	/* workers can evaluate constants */
	if (context.limit != NULL && !limit_is_constant(context.limit->limitCount, context.limit->limitOffset))
		context.limit = NULL;
	merge->plan.lefttree = sort_plan_make(sort, keys, nkeys, context.limit);
	return &merge->plan;
}

static Plan *replace_walk(Plan *plan, NodeContext context);

static void
replace_list(List *plans, NodeContext context)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = replace_walk(lfirst(lc), context);
}

/* Replaces a node and the nodes below it. */
static Plan *
replace_node(Plan *plan, NodeContext context)
{
	NodeContext none = {.any_order = context.any_order};
	NodeContext rows = {.rewind = context.rewind,.any_order = context.any_order};

	switch (nodeTag(plan))
	{
		case T_Limit:
			{
				Limit	   *limit = (Limit *) plan;
				NodeContext below = {.rewind = context.rewind};

				if (limit->limitCount != NULL &&
					limit->limitOption != LIMIT_OPTION_WITH_TIES)
					below.limit = limit;
				plan->lefttree = replace_walk(plan->lefttree, below);
				return plan;
			}
		case T_Result:
			plan->lefttree = replace_walk(plan->lefttree, context);
			return plan;
		case T_SubqueryScan:
			{
				SubqueryScan *sub = (SubqueryScan *) plan;

				sub->subplan = replace_walk(sub->subplan,
											plan->qual == NIL ? context : rows);
				return plan;
			}
		case T_Append:
			replace_list(((Append *) plan)->appendplans, context);
			return plan;
		case T_MergeAppend:
			replace_list(((MergeAppend *) plan)->mergeplans, context);
			return plan;
		case T_GatherMerge:
			if (IsA(plan->lefttree, Sort))
			{
				Sort	   *sort = (Sort *) plan->lefttree;

				sort->plan.lefttree = replace_walk(sort->plan.lefttree, none);
				return replace_gather_merge((GatherMerge *) plan, sort, context);
			}
			pg_fallthrough;
		case T_Gather:
			context.gather = true;
			plan->lefttree = replace_walk(plan->lefttree, context);
			return plan;
		case T_Sort:
			plan->lefttree = replace_walk(plan->lefttree, none);
			return replace_sort((Sort *) plan, context);
		case T_IncrementalSort:
			/* a rescan reads the child again */
			plan->lefttree = replace_walk(plan->lefttree, rows);
			return replace_incremental_sort((IncrementalSort *) plan, context);
		case T_Material:
		case T_Hash:
			/* these nodes keep the rows, so no node below is rewound */
			plan->lefttree = replace_walk(plan->lefttree, none);
			return plan;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			plan->lefttree = replace_walk(plan->lefttree, rows);
			rows.rewind = true;
			plan->righttree = replace_walk(plan->righttree, rows);
			return IsA(plan, MergeJoin) ? replace_merge_join((MergeJoin *) plan, context.rewind) : plan;
		case T_CustomScan:
			/* a node of another extension may depend on the types of its children */
			if (custom_plan_is(plan, &shared_sort_node))
			{
				plan->lefttree = replace_walk(plan->lefttree, none);
				if (context.any_order && !shared_sort_divides((const CustomScan *) plan))
					carry_in_shared_sort((CustomScan *) plan);
			}
			return plan;
		default:

			rows.any_order = IsA(plan, Agg) && aggregates_take_any_order(plan->targetlist, plan->qual);
			/* skip an Agg's chain, which only describes its grouping sets */
			if (IsA(plan, Agg))
				sort_below_aggregate((Agg *) plan);
			else if (IsA(plan, Unique))
				drop_partial_unique((Unique *) plan);
			plan->lefttree = replace_walk(plan->lefttree, rows);
			plan->righttree = replace_walk(plan->righttree, rows);
			if (IsA(plan, Unique) || IsA(plan, Group))
				return replace_unique(plan);
			if (IsA(plan, Agg))
				return replace_aggregate((Agg *) plan);
			return IsA(plan, WindowAgg) ? replace_window((WindowAgg *) plan) : plan;
	}
}

static Plan *
replace_walk(Plan *plan, NodeContext context)
{
	if (plan == NULL)
		return NULL;
	check_stack_depth();
#ifdef USE_ASSERT_CHECKING
	{
		PlanOutput	output = plan_output(plan);

		plan = replace_node(plan, context);
		check_plan_output(&output, plan);
		return plan;
	}
#else
	return replace_node(plan, context);
#endif
}

void
replace_plans(PlannedStmt *stmt, bool scroll)
{
	NodeContext context = {.rewind = scroll};
	ListCell   *lc;

	stmt->planTree = replace_walk(stmt->planTree, context);
	plan_drop_duplicates(stmt);
	plan_drop_junk(stmt);
	foreach(lc, stmt->subplans)
	{
		context.rewind = bms_is_member(foreach_current_index(lc) + 1, stmt->rewindPlanIDs);
		lfirst(lc) = replace_walk(lfirst(lc), context);
	}
}
