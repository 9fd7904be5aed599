/*
 * replace.c
 *	  Sort nodes of finished plans become GpuSort nodes.
 *
 * The finished plan is rewritten instead of paths being offered: one mechanism
 * then covers every Sort of every kind of statement, the planner's own decisions
 * (which rest on a Sort's abilities) stay as they are, and our node has a Sort's
 * abilities.  The node's output is its input, so its target list refers to
 * custom_scan_tlist one to one, and that to the child as the Sort's own did.
 *
 * A LIMIT is passed to a Sort by the executor in a way that does not reach a
 * custom node.  The walk therefore carries the Limit down through the same nodes
 * that the executor lets it pass, and the node evaluates its expressions itself.
 * That is once more than the Limit does, and maybe later: it must not be noticed,
 * so only constants, Params and what is immutable and built in may be in them.
 * A Param stays as it is until the Limit is told to begin anew.  Where that is not
 * so, or the Limit's bound would come to a parallel worker otherwise than by our own
 * sort of many workers (parallel.c), the stock node stays: a sort without the bound
 * could be far slower.
 *
 * A finished plan that another hook hands us may be its own, to be handed out
 * again: it is copied before it is changed.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "compat.h"
#include "executor/gpusort_executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/planmain.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/lsyscache.h"

static planner_hook_type prev_planner_hook = NULL;

/* What stands above a node. */
typedef struct Above
{
	Limit	   *limit;			/* bounds the node's output; or NULL */
	bool		gather;			/* ... from another process */
	bool		rewind;			/* the node's rows may be wanted again, or backwards */
	bool		order;			/* a node that wants its rows in order: no ORDER BY's */
	List	   *rtable;
} Above;

static Plan *replace_walk(Plan *plan, Above above);

static void plan_drop_duplicates(PlannedStmt *stmt);
static Plan *parallel_from_gather_merge(GatherMerge *merge, Sort *sort, const KeyColumn *keys,
										Limit *limit);
static bool rows_as_they_are(const Plan *gather);
static bool parallel_possible(const Gather *gather);
static Plan *parallel_from_gather(Sort *sort, Gather *gather, const KeyColumn *keys, Limit *limit);

static void
replace_list(List *plans, Above above)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = replace_walk(lfirst(lc), above);
}

/* A function that says something, or not always the same. */
static bool
function_noticeable(Oid func, void *context)
{
	return func >= FirstGenbkiObjectId || func_volatile(func) != PROVOLATILE_IMMUTABLE;
}

/* expression_tree_walker: true if it is noticed that this was evaluated, or when. */
static bool
limit_expr_noticeable(Node *expr, void *context)
{
	if (expr == NULL)
		return false;
	switch (nodeTag(expr))
	{
		case T_MinMaxExpr:
			if (((MinMaxExpr *) expr)->minmaxtype >= FirstGenbkiObjectId)
				return true;
			break;
		case T_Const:
		case T_Param:
		case T_List:
		case T_FuncExpr:
		case T_OpExpr:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_CoalesceExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
			break;
		default:
			return true;
	}
	return check_functions_in_node(expr, function_noticeable, context) ||
		expression_tree_walker(expr, limit_expr_noticeable, context);
}

/* The reason why this Sort must stay, or NULL; keys[] is filled in. */
static const char *
sort_refusal(Sort *sort, Above above, KeyColumn *keys)
{
	if (sort->plan.plan_rows < gpusort_min_rows)
		return "fewer rows are estimated than gpusort.min_rows";

	if (above.limit != NULL)
	{
		if (above.gather)
			return "a LIMIT would have to reach a parallel worker";
		if (limit_expr_noticeable(above.limit->limitCount, NULL) ||
			limit_expr_noticeable(above.limit->limitOffset, NULL))
			return "the LIMIT above it may change or have effects";
	}

	for (int i = 0; i < sort->numCols; i++)
	{
		TargetEntry *tle = get_tle_by_resno(sort->plan.targetlist, sort->sortColIdx[i]);
		const char *why;

		keys[i].attno = sort->sortColIdx[i];
		keys[i].sortop = sort->sortOperators[i];
		keys[i].collation = sort->collations[i];
		keys[i].nulls_first = sort->nullsFirst[i];
		if (!key_type_lookup(&keys[i], exprType((Node *) tle->expr), &why))
			return psprintf("sort key %d: %s", i + 1, why);
	}
	return NULL;
}

/*
 * A CustomScan with costs, rows, parameters and child of a node, whose output is its
 * input, to which the entries of the list refer.
 */
static CustomScan *
plan_scan_of_input(const Plan *like, List *input)
{
	CustomScan *cscan = makeNode(CustomScan);
	List	   *tlist = NIL;
	ListCell   *lc;

	/* costs, rows, parameters, initplans and all else */
	cscan->scan.plan = *like;
	cscan->scan.plan.type = T_CustomScan;

	foreach(lc, input)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(INDEX_VAR, tle);
		tlist = lappend(tlist, tle);
	}
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = input;
	return cscan;
}

static Plan *
make_gpusort(Sort *sort, const KeyColumn *keys, Limit *limit)
{
	CustomScan *cscan = plan_scan_of_input(&sort->plan, sort->plan.targetlist);

	cscan->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN | CUSTOMPATH_SUPPORT_MARK_RESTORE;
	compat_count_disabled(cscan);
	cscan->methods = &gpusort_scan_methods;
	gpusort_plan_fill(cscan, keys, sort->numCols, limit);
	return (Plan *) cscan;
}

static void
log_refusal(const Sort *sort, const char *refusal)
{
	ereport(DEBUG1,
			(errmsg_internal("gpusort: the Sort of plan node %d stays: %s",
							 sort->plan.plan_node_id, refusal)));
}

/* Is the sort one for workers, who share this plan's rows? */
static bool
together_pays(const Sort *sort, const Plan *partial, int workers, const KeyColumn *keys, Above above)
{
	return above.limit != NULL ||
		sort_workers_pay(above.rtable, partial, workers, keys, sort->numCols, !above.order);
}

static Plan *
replace_sort(Sort *sort, Above above)
{
	KeyColumn  *keys = palloc(sort->numCols * sizeof(KeyColumn));
	Plan	   *child = sort->plan.lefttree;
	const char *refusal = sort_refusal(sort, above, keys);

	if (refusal != NULL)
	{
		log_refusal(sort, refusal);
		return &sort->plan;
	}
	if (IsA(child, Gather) && !above.rewind && parallel_possible((Gather *) child))
	{
		Gather	   *gather = (Gather *) child;

		if (gather->num_workers > 0 &&
			together_pays(sort, gather->plan.lefttree, gather->num_workers, keys, above))
			return parallel_from_gather(sort, gather, keys, above.limit);
		gather->num_workers = 0;
	}
	return make_gpusort(sort, keys, above.limit);
}

/* A Gather or Gather Merge, of so many workers, below which sorts have been replaced. */
static Plan *
replace_workers(Plan *gather, int *workers, Above above)
{
	if (!workers_pay(above.rtable, gather, *workers))
		*workers = 0;
	return gather;
}

/* A Gather Merge whose child has been replaced, but for this Sort. */
static Plan *
replace_gather_merge(GatherMerge *merge, Sort *sort, Above above)
{
	KeyColumn  *keys = palloc(sort->numCols * sizeof(KeyColumn));
	const char *refusal = sort_refusal(sort, above, keys);

	if (refusal != NULL)
	{
		log_refusal(sort, refusal);
		return replace_workers(&merge->plan, &merge->num_workers, above);
	}
	if (together_pays(sort, sort->plan.lefttree, merge->num_workers, keys, above))
		return parallel_from_gather_merge(merge, sort, keys, above.limit);
	/* there is nothing to merge, and nothing to gather */
	if (rows_as_they_are(&merge->plan) && plan_make_serial(sort->plan.lefttree, merge->num_workers))
	{
		Plan	   *serial = make_gpusort(sort, keys, NULL);

		apply_tlist_labeling(serial->targetlist, merge->plan.targetlist);
		serial->plan_rows = merge->plan.plan_rows;
		serial->initPlan = merge->plan.initPlan;
		serial->extParam = merge->plan.extParam;
		serial->allParam = merge->plan.allParam;
		return serial;
	}
	merge->num_workers = 0;
	merge->plan.lefttree = make_gpusort(sort, keys, NULL);
	return &merge->plan;
}

static Plan *
replace_walk(Plan *plan, Above above)
{
	Above		none = {.rtable = above.rtable};
	Above		rows;

	if (plan == NULL)
		return NULL;
	check_stack_depth();
	rows = none;
	rows.rewind = above.rewind;

	switch (nodeTag(plan))
	{
		case T_Limit:
			{
				Limit	   *limit = (Limit *) plan;
				Above		below = rows;

				if (limit->limitCount != NULL &&
					limit->limitOption != LIMIT_OPTION_WITH_TIES)
					below.limit = limit;
				plan->lefttree = replace_walk(plan->lefttree, below);
				return plan;
			}
		case T_Result:
			plan->lefttree = replace_walk(plan->lefttree, above);
			return plan;
		case T_SubqueryScan:
			{
				SubqueryScan *sub = (SubqueryScan *) plan;

				sub->subplan = replace_walk(sub->subplan,
											plan->qual == NIL ? above : rows);
				return plan;
			}
		case T_Append:
			replace_list(((Append *) plan)->appendplans, above);
			return plan;
		case T_MergeAppend:
			replace_list(((MergeAppend *) plan)->mergeplans, above);
			return plan;
		case T_GatherMerge:
			if (IsA(plan->lefttree, Sort))
			{
				Sort	   *sort = (Sort *) plan->lefttree;

				sort->plan.lefttree = replace_walk(sort->plan.lefttree, none);
				return replace_gather_merge((GatherMerge *) plan, sort, above);
			}
			above.gather = true;
			plan->lefttree = replace_walk(plan->lefttree, above);
			return replace_workers(plan, &((GatherMerge *) plan)->num_workers, above);
		case T_Gather:
			above.gather = true;
			plan->lefttree = replace_walk(plan->lefttree, above);
			if (((Gather *) plan)->single_copy)
				return plan;
			return replace_workers(plan, &((Gather *) plan)->num_workers, above);
		case T_Sort:
			plan->lefttree = replace_walk(plan->lefttree, none);
			return replace_sort((Sort *) plan, above);
		case T_Material:
		case T_Hash:
			/* they keep the rows */
			plan->lefttree = replace_walk(plan->lefttree, none);
			return plan;
		case T_NestLoop:
		case T_MergeJoin:
			rows.order = IsA(plan, MergeJoin);
			plan->lefttree = replace_walk(plan->lefttree, rows);
			rows.rewind = true;
			plan->righttree = replace_walk(plan->righttree, rows);
			return plan;
		case T_CustomScan:
			/* somebody else's node: it may know its children by their kind */
			return plan;
		default:
			/* an Agg's chain of grouping sets is not walked: it is never run */
			rows.order = IsA(plan, WindowAgg) || IsA(plan, Agg) || IsA(plan, Group) || IsA(plan, Unique);
			plan->lefttree = replace_walk(plan->lefttree, rows);
			plan->righttree = replace_walk(plan->righttree, rows);
			return plan;
	}
}

static void
replace_plans(PlannedStmt *stmt, bool scroll)
{
	Above		above = {.rewind = scroll, .rtable = stmt->rtable};
	ListCell   *lc;

	stmt->planTree = replace_walk(stmt->planTree, above);
	plan_drop_duplicates(stmt);
	foreach(lc, stmt->subplans)
	{
		above.rewind = bms_is_member(foreach_current_index(lc) + 1, stmt->rewindPlanIDs);
		lfirst(lc) = replace_walk(lfirst(lc), above);
	}
}

static PlannedStmt *
gpusort_planner(COMPAT_PLANNER_PARAMS)
{
	PlannedStmt *stmt;

	if (prev_planner_hook)
		stmt = prev_planner_hook(COMPAT_PLANNER_ARGS);
	else
		stmt = standard_planner(COMPAT_PLANNER_ARGS);

	if (gpusort_enable)
	{
		if (prev_planner_hook)
			stmt = copyObject(stmt);
		replace_plans(stmt, (cursorOptions & CURSOR_OPT_SCROLL) != 0);
	}
	return stmt;
}

void
gpusort_planner_init(void)
{
	prev_planner_hook = planner_hook;
	planner_hook = gpusort_planner;
}

/* ------------------------------------------------------------------------
 * Columns that a statement sorts by and does not return.
 *
 * SELECT id, t ... ORDER BY t COLLATE "C" has three columns: the planner lets what is
 * below the sort make t once more under the other collation, and the executor drops it from
 * each row that the statement returns.  The two are the same bytes, so the GpuSort on top
 * of a plan sorts by the one that is returned, and the other is made no more: rows are
 * shorter by it, and often are whole tuples then, and none has to be made without it.
 *
 * Only of columns that differ in nothing but collation or type modifier, so that EXPLAIN
 * shows the same key; and only where a sort, maybe below a LIMIT, is all that knows them.
 * ------------------------------------------------------------------------
 */

/* The column that is the same but for its collation, of the n first; 0 if there is none. */
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

/* Does the sort's column i come from the child's column i? */
static bool
from_same_place(const CustomScan *sort, int i)
{
	const Var  *var = (Var *) list_nth_node(TargetEntry, sort->custom_scan_tlist, i)->expr;

	return IsA(var, Var) && var->varno == OUTER_VAR && var->varattno == i + 1;
}

/* Sorts have been replaced: the one on top is left without columns that it has twice. */
static void
plan_drop_duplicates(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;
	Plan	   *plan = top;
	CustomScan *sort;
	Plan	   *child;
	int			n = list_length(top->targetlist);
	int			left = n;

	/* LIMIT ... WITH TIES compares columns, rows that are locked have more to them */
	if (stmt->commandType != CMD_SELECT || stmt->rowMarks != NIL)
		return;
	if (IsA(plan, Limit) && ((Limit *) plan)->uniqNumCols == 0)
		plan = plan->lefttree;
	sort = (CustomScan *) plan;
	if (!gpusort_plan_is(plan) || plan_above_partial_sorts(sort))
		return;
	child = plan->lefttree;
	if (IsA(child, CustomScan) || IsA(child, ForeignScan) || !is_projection_capable_plan(child) ||
		list_length(plan->targetlist) != n || list_length(child->targetlist) != n)
		return;

	for (int i = 0; i < n; i++)
	{
		if (!from_same_place(sort, i))
			return;
	}
	for (; left > 1 && list_nth_node(TargetEntry, top->targetlist, left - 1)->resjunk; left--)
	{
		AttrNumber	duplicate = find_duplicate(child->targetlist, left - 1,
									 list_nth_node(TargetEntry, child->targetlist, left - 1));

		if (duplicate == 0)
			break;
		gpusort_plan_move_key(sort, left, duplicate);
	}
	if (left == n)
		return;
	top->targetlist = list_truncate(top->targetlist, left);
	plan->targetlist = list_truncate(plan->targetlist, left);
	sort->custom_scan_tlist = list_truncate(sort->custom_scan_tlist, left);
	child->targetlist = list_truncate(child->targetlist, left);
}

/* ------------------------------------------------------------------------
 * Sorts of parallel plans become one sort of many workers.
 *
 *		Gather Merge            Sort                 GpuSort
 *		  -> Sort         or      -> Gather    :       -> Gather
 *		       -> partial              -> partial           -> GpuSort Feed
 *		                                                         -> partial
 *
 * The Feeds sort, each in its process, and the node on top merges what they have
 * sorted; no row goes through the Gather.  The Gather's output is its input, so that all
 * target lists but the upper one refer to the one below one to one.
 *
 * The new node gives its rows once, forward, as a Gather Merge does.  A Sort can do
 * more; where that may be asked for it stays one (replace.c).
 * ------------------------------------------------------------------------
 */

/* OUTER_VAR is INDEX_VAR from now on: what was the child's output is the scan's. */
static Node *
outer_to_index(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == OUTER_VAR)
	{
		Var		   *var = copyObject((Var *) node);

		var->varno = INDEX_VAR;
		return (Node *) var;
	}
	return expression_tree_mutator(node, outer_to_index, context);
}

/* A Feed in place of a Sort, above a partial plan; input refers to the plan's output. */
static Plan *
make_partial_sort(const Plan *sort, List *input, Plan *partial, const KeyColumn *keys, int nkeys)
{
	CustomScan *partial_node = plan_scan_of_input(sort, input);

	partial_node->scan.plan.plan_node_id = sort->plan_node_id + PARTIAL_SORT_NODE_ID;
	partial_node->scan.plan.lefttree = partial;
	partial_node->scan.plan.parallel_aware = true;
	partial_node->scan.plan.parallel_safe = true;
	/* a Sort above the Gather has initplans of its own */
	partial_node->scan.plan.initPlan = NIL;
	partial_node->scan.plan.plan_rows = partial->plan_rows;
	partial_node->scan.plan.extParam = partial->extParam;
	partial_node->scan.plan.allParam = partial->allParam;
	compat_count_disabled(partial_node);
	partial_node->methods = &partial_sort_scan_methods;
	gpusort_plan_fill(partial_node, keys, nkeys, NULL);
	return &partial_node->scan.plan;
}

/*
 * In place of Gather Merge above Sort: a GpuSort above a Gather of Feeds.  limit, which
 * may be NULL, bounds the rows wanted.
 */
static Plan *
parallel_from_gather_merge(GatherMerge *merge, Sort *sort, const KeyColumn *keys, Limit *limit)
{
	List	   *input = sort->plan.targetlist;
	CustomScan *top = plan_scan_of_input(&merge->plan, input);
	Gather	   *gather = makeNode(Gather);

	gather->plan = merge->plan;
	gather->plan.type = T_Gather;
	gather->plan.plan_node_id = sort->plan.plan_node_id;
	gather->plan.targetlist = copyObject(input);
	gather->plan.initPlan = NIL;	/* they are the upper node's */
	gather->plan.lefttree = make_partial_sort(&sort->plan, copyObject(input), sort->plan.lefttree,
									  keys, sort->numCols);
	gather->num_workers = merge->num_workers;
	gather->rescan_param = merge->rescan_param;
	gather->initParam = merge->initParam;

	/* it may compute something of the rows */
	top->scan.plan.targetlist =
		(List *) outer_to_index((Node *) merge->plan.targetlist, NULL);
	top->scan.plan.lefttree = &gather->plan;
	compat_count_disabled(top);
	top->methods = &gpusort_scan_methods;
	gpusort_plan_fill(top, keys, sort->numCols, limit);
	return &top->scan.plan;
}

/* Does a Gather or Gather Merge give rows as they come from below? */
static bool
rows_as_they_are(const Plan *gather)
{
	ListCell   *lc;
	ListCell   *below;

	if (list_length(gather->targetlist) != list_length(gather->lefttree->targetlist))
		return false;
	forboth(lc, gather->targetlist, below, gather->lefttree->targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (IsA(var, Const) && equal(var, lfirst_node(TargetEntry, below)->expr))
			continue;
		if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno != tle->resno)
			return false;
	}
	return true;
}

static bool
parallel_possible(const Gather *gather)
{
	return !gather->single_copy && !gather->invisible && rows_as_they_are(&gather->plan);
}

/* The same in place of Sort above Gather, of which this is true. */
static Plan *
parallel_from_gather(Sort *sort, Gather *gather, const KeyColumn *keys, Limit *limit)
{
	CustomScan *top = plan_scan_of_input(&sort->plan, sort->plan.targetlist);

	gather->plan.lefttree = make_partial_sort(&sort->plan, copyObject(gather->plan.targetlist),
									  gather->plan.lefttree, keys, sort->numCols);
	compat_count_disabled(top);
	top->methods = &gpusort_scan_methods;
	gpusort_plan_fill(top, keys, sort->numCols, limit);
	return &top->scan.plan;
}
