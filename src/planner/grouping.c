/*
 * grouping.c
 *	  DISTINCT, GROUP BY, grouping sets and set operations: sorted or hashed, by predicted
 *	  times; the sort below windows.
 *
 * PostgreSQL compares a hash-based path and a path above a Sort by costs that count
 * operators.  GpuSort is faster than these costs say, and hash tables that exceed the
 * CPU's caches are slower.  So after PostgreSQL has made its paths, this hook
 *
 * - raises the costs of hash-based paths to predicted times (hash_cost.c), and sets the
 *	 costs of sorts (sort_path.c),
 * - makes paths above a GpuSort again, because add_path() has usually dropped them: above
 *	 a serial sort, above a parallel sort, and above a sort in each worker, whose groups
 *	 are then merged and combined,
 * - and passes all paths to add_path(), which chooses.  add_path() keeps sorted paths
 *	 whose order the query needs further up, so such an order costs nothing more.
 *
 * The costs of a path's subpaths stay as PostgreSQL has set them, because several paths
 * may share them: EXPLAIN shows the new cost in the topmost node of the grouping only.
 *
 * A sorted path is made of ordinary Sort, Gather Merge, Agg, Group, Unique and SetOp
 * paths.  replace.c replaces the Sorts in the finished plan.
 *
 * gpusort.plan_grouping = off leaves the paths as PostgreSQL makes them.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/nodeAgg.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/fmgroids.h"
#include "utils/selfuncs.h"

/* Bytes of a bucket array for each entry of a hash table. */
#define BUCKET_BYTES	32

static create_upper_paths_hook_type prev_upper_paths_hook = NULL;

/* A grouping of a query. */
typedef struct Grouping
{
	PlannerInfo *root;
	RelOptInfo *input_rel;		/* NULL for a set operation */
	RelOptInfo *rel;
	const char *name;			/* for messages */
	bool		aggregates;		/* Agg paths have the query's aggregates */
	double		groups;			/* a better estimate than that of the paths; 0: none */
	List	   *tlist;			/* that grouping sets refer to */
	List	   *offers;			/* our paths */
} Grouping;

/* ------------------------------------------------------------------------
 * True costs: those that our models predict
 * ------------------------------------------------------------------------
 */

double
most_values(Node *expr)
{
	const OpExpr *op = (const OpExpr *) expr;
	const Const *divisor;

	if (exprType(expr) == BOOLOID)
		return 3;
	if (!IsA(expr, OpExpr) || list_length(op->args) != 2 || !IsA(lsecond(op->args), Const))
		return HUGE_VAL;
	divisor = lsecond_node(Const, op->args);
	if (divisor->constisnull)
		return HUGE_VAL;
	/* remainders of both signs, and NULL */
	switch (op->opfuncid)
	{
		case F_INT2MOD:
			return 2 * fabs((double) DatumGetInt16(divisor->constvalue));
		case F_INT4MOD:
			return 2 * fabs((double) DatumGetInt32(divisor->constvalue));
		case F_INT8MOD:
			return 2 * fabs((double) DatumGetInt64(divisor->constvalue));
		default:
			return HUGE_VAL;
	}
}

/*
 * The number of groups that the hash cost model assumes, at most PostgreSQL's estimate.
 *
 * For v % n PostgreSQL estimates as many values as v has.  For several columns it
 * multiplies the numbers of values, as if the columns were independent.  If they depend
 * on each other, there are far fewer groups, for which a hash table is faster.  So this
 * function takes the number of values of the column with most values, a lower bound.
 */
static double
groups_at_least(PlannerInfo *root, List *clause, List *tlist, double rows, double estimate)
{
	List	   *exprs = get_sortgrouplist_exprs(clause, tlist);
	double		most = 1;
	double		groups = 0;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		double		values = most_values(lfirst(lc));

		most *= values;
		if (list_length(exprs) > 1)
			groups = Max(groups, Min(values, estimate_num_groups(root, list_make1(lfirst(lc)), rows, NULL, NULL)));
	}
	estimate = Min(estimate, most);
	return groups > 0 ? Min(estimate, groups) : estimate;
}

/* raise_own_cost() that also lowers: the own cost becomes startup and total. */
static void
set_own_cost(CostChange *change, const Path *path, Cost input_startup, Cost input_total,
			 Cost startup, Cost total)
{
	add_change(change, startup - (path->startup_cost - input_startup),
			   total - (path->total_cost - input_total));
}

/* Sets the facts about the key columns: those of a clause that refers to the target. */
static void
count_keys(List *clause, const PathTarget *target, GroupFacts *facts)
{
	ListCell   *lc;
	ListCell   *expr;

	facts->keys = list_length(clause);
	foreach(lc, clause)
	{
		foreach(expr, target->exprs)
		{
			if (get_pathtarget_sortgroupref(target, foreach_current_index(expr)) ==
				lfirst_node(SortGroupClause, lc)->tleSortGroupRef)
			{
				if (type_is_varlena(exprType(lfirst(expr))))
					facts->varlena_keys++;
				break;
			}
		}
	}
}

/* Fills the facts of a grouping of the input's rows, except those about keys. */
static void
group_facts(const Path *input, const Path *path, double groups, int transitions, Size transition_space,
			GroupFacts *facts)
{
	int			width = Min(path->pathtarget->width, input->pathtarget->width);

	memset(facts, 0, sizeof(*facts));
	facts->rows = input->rows;
	facts->groups = groups;
	facts->row_bytes = stored_row_bytes(input->pathtarget->width);
	facts->entry_bytes = BUCKET_BYTES + hash_agg_entry_size(transitions, width, transition_space);
	facts->memory = get_hash_memory_limit();
	facts->aggregates = transitions > 0;
}

/* Will a GpuSort Aggregate stand in place of this sorted Agg? */
static bool
aggregate_node_likely(const Grouping *grouping, const AggPath *agg)
{
	const Path *input = path_below_projection(agg->subpath);
	SortCostFacts facts;

	return gpusort_aggregates && agg->aggsplit == AGGSPLIT_SIMPLE && IsA(input, SortPath) &&
		input->rows >= gpusort_min_rows &&
		sort_path_facts(grouping->root, ((const SortPath *) input)->subpath, input->pathkeys, &facts);
}

/* Adds the change of an Agg path's own cost; *change has the change of its input. */
static void
change_agg(const Grouping *grouping, const AggPath *agg, CostChange *change)
{
	const Path *input = agg->subpath;
	bool		aggregates = grouping->aggregates && grouping->root->parse->hasAggs;
	AggClauseCosts costs = {0};
	GroupFacts	facts;
	GroupCost	cost;
	Cost		trans;

	if (aggregates)
		get_agg_clause_costs(grouping->root, agg->aggsplit, &costs);
	trans = costs.transCost.startup + costs.transCost.per_tuple * input->rows;
	group_facts(input, &agg->path, grouping->groups > 0 ? grouping->groups : agg->numGroups,
				aggregates ? list_length(grouping->root->aggtransinfos) : 0, costs.transitionSpace, &facts);
	count_keys(agg->groupClause, agg->path.pathtarget, &facts);
	if (agg->aggstrategy == AGG_HASHED)
	{
		hash_group_cost(&facts, &cost);
		change->startup = change->total;
		/* PostgreSQL's cost is that of the groups that it estimates */
		if (facts.groups < agg->numGroups)
			set_own_cost(change, &agg->path, input->total_cost, input->total_cost,
						 trans + cost_of_us(cost.first_us), trans + cost_of_us(cost.all_us));
		else
			raise_own_cost(change, &agg->path, input->total_cost, input->total_cost,
						   trans + cost_of_us(cost.first_us), trans + cost_of_us(cost.all_us));
	}
	else if (agg->aggstrategy == AGG_SORTED)
	{
		if (aggregate_node_likely(grouping, agg))
		{
			/* in place of what PostgreSQL counts for comparing and returning rows */
			aggregate_node_cost(&facts, &cost);
			add_change(change, cost_of_us(cost.first_us),
					   cost_of_us(cost.all_us) - facts.keys * cpu_operator_cost * input->rows -
					   cpu_tuple_cost * agg->numGroups);
			return;
		}
		sorted_group_cost(&facts, &cost);
		raise_own_cost(change, &agg->path, input->startup_cost, input->total_cost,
					   cost_of_us(cost.first_us), trans + cost_of_us(cost.all_us));
	}
	else
		change->startup = change->total;
}

/* Will a GpuSort, serial or parallel, take the place of this Unique or Group node (distinct.c)? */
static bool
sort_takes_place(const Grouping *grouping, const Path *path, const Path *input)
{
	SortCostFacts facts;

	if (IsA(path, GroupPath) && ((const GroupPath *) path)->qual != NIL)
		return false;
	if (IsA(input, GatherMergePath))
		input = ((const GatherMergePath *) input)->subpath;
	return IsA(input, SortPath) && input->rows >= gpusort_min_rows &&
		sort_path_facts(grouping->root, ((const SortPath *) input)->subpath, input->pathkeys, &facts);
}

/*
 * The same for a path that compares neighbours by the first "keys" pathkeys of its input.
 * kept: rows to compare, if the input is a sort whose cost is that of dropping duplicates;
 * otherwise 0.
 */
static void
change_sorted(const Grouping *grouping, const Path *path, const Path *input, int keys, double kept,
			  CostChange *change)
{
	GroupFacts	facts;
	GroupCost	cost;
	ListCell   *lc;

	group_facts(input, path, path->rows, 0, 0, &facts);
	facts.keys = keys;
	foreach(lc, input->pathkeys)
	{
		const EquivalenceClass *class = lfirst_node(PathKey, lc)->pk_eclass;
		const EquivalenceMember *member = linitial(class->ec_members);

		if (foreach_current_index(lc) < keys && type_is_varlena(member->em_datatype))
			facts.varlena_keys++;
	}
	if (kept > 0)
	{
		facts.rows = facts.groups = Min(facts.rows, kept);
		sorted_group_cost(&facts, &cost);
		if (sort_takes_place(grouping, path, input))
			cost.all_us = 0;
		/* in place of what PostgreSQL counts for comparing all rows */
		add_change(change, 0, cost_of_us(cost.all_us) - keys * cpu_operator_cost * input->rows);
		return;
	}
	sorted_group_cost(&facts, &cost);
	if (sort_takes_place(grouping, path, input))
	{
		/* the sort compares rows with equal keys; no node compares all rows again */
		set_own_cost(change, path, input->startup_cost, input->total_cost,
					 cost_of_us(cost.first_us), cost_of_us(cost.first_us));
		return;
	}
	raise_own_cost(change, path, input->startup_cost, input->total_cost,
				   cost_of_us(cost.first_us), cost_of_us(cost.all_us));
}

/* Does the path read rows in the order of one of its rollups? */
static bool
sets_are_sorted(const GroupingSetsPath *path)
{
	ListCell   *lc;

	foreach(lc, path->rollups)
	{
		const RollupData *rollup = lfirst_node(RollupData, lc);

		if (!rollup->is_hashed && rollup->groupClause != NIL)
			return true;
	}
	return false;
}

/*
 * The cost of grouping an input's rows by each of the path's rollups: by a hash table; by
 * comparing neighbours, where the Agg node sorts the rows for all but the first rollup
 * itself, with PostgreSQL's sort; or all rows as one group.  Returns whether a rollup has
 * fewer groups than PostgreSQL estimates.
 */
static bool
sets_cost(const Grouping *grouping, const GroupingSetsPath *path, const Path *input, Cost *total)
{
	AggClauseCosts costs = {0};
	bool		aggregates = grouping->root->parse->hasAggs;
	bool		sorted = false;
	bool		fewer = false;
	ListCell   *lc;

	if (aggregates)
		get_agg_clause_costs(grouping->root, AGGSPLIT_SIMPLE, &costs);
	*total = path->path.rows * (cpu_tuple_cost + costs.finalCost.per_tuple);
	foreach(lc, path->rollups)
	{
		const RollupData *rollup = lfirst_node(RollupData, lc);
		double		groups = groups_at_least(grouping->root, rollup->groupClause, grouping->tlist, input->rows,
											 rollup->numGroups);
		GroupFacts	facts;
		GroupCost	cost = {0};

		group_facts(input, &path->path, groups, aggregates ? list_length(grouping->root->aggtransinfos) : 0,
					costs.transitionSpace, &facts);
		count_keys(rollup->groupClause, path->path.pathtarget, &facts);
		*total += costs.transCost.startup + costs.transCost.per_tuple * input->rows;
		if (rollup->is_hashed)
		{
			hash_group_cost(&facts, &cost);
			fewer |= groups < rollup->numGroups;
		}
		else if (rollup->groupClause != NIL)
		{
			sorted_group_cost(&facts, &cost);
			if (sorted)
				*total += 2 * cpu_operator_cost * input->rows * log2(Max(input->rows, 2));
			sorted = true;
		}
		*total += cost_of_us(cost.all_us);
	}
	return fewer;
}

/* Adds what a path of grouping sets lacks; change has the input's change. */
static void
change_sets(const Grouping *grouping, const GroupingSetsPath *path, CostChange *change)
{
	const Path *input = path->subpath;
	bool		sorted = sets_are_sorted(path);
	Cost		input_startup = sorted ? input->startup_cost : input->total_cost;
	Cost		total;
	bool		fewer = sets_cost(grouping, path, input, &total);

	if (!sorted)
		change->startup = change->total;
	if (fewer)
		set_own_cost(change, &path->path, input_startup, input->total_cost, sorted ? 0 : total, total);
	else
		raise_own_cost(change, &path->path, input_startup, input->total_cost, sorted ? 0 : total, total);
}

/* The same for a Sort, whose cost becomes ours, higher or lower. */
static void
change_sort(const Grouping *grouping, const SortPath *sort, CostChange *change)
{
	Path	   *input = sort->subpath;
	SortCostFacts facts;
	SortCost	cost;

	change->startup = change->total;
	if (input->rows < gpusort_min_rows ||
		!sort_path_facts(grouping->root, input, sort->path.pathkeys, &facts))
		return;
	sort_cost_serial(&facts, &cost);
	add_change(change, input->total_cost + cost_of_us(cost.sort_us) - sort->path.startup_cost,
			   input->total_cost + cost_of_us(cost.sort_us + cost.rows_us) - sort->path.total_cost);
}

/*
 * The greatest possible number of different rows of a subquery's scan, or of an Append's first
 * one; HUGE_VAL: no limit known.
 */
static double
most_rows(const Path *path)
{
	double		most = 1;
	ListCell   *lc;

	path = path_below_projection(path);
	if (IsA(path, AppendPath) && ((const AppendPath *) path)->subpaths != NIL)
		path = path_below_projection(linitial(((const AppendPath *) path)->subpaths));
	if (!IsA(path, SubqueryScanPath))
		return HUGE_VAL;
	foreach(lc, ((const SubqueryScanPath *) path)->subpath->pathtarget->exprs)
		most *= most_values(lfirst(lc));
	return most;
}

/* The change of a SetOp's own cost. */
static void
change_setop(const SetOpPath *setop, CostChange *change)
{
	bool		hashed = setop->strategy == SETOP_HASHED;
	Path	   *left;
	Path	   *right;
	Cost		startup;
	Cost		total;
	GroupFacts	facts;
	GroupCost	cost;

	compat_setop_inputs(setop, &left, &right);
	startup = left->startup_cost;
	total = left->total_cost;
	group_facts(left, &setop->path, hashed ? setop->numGroups : setop->path.rows, hashed ? 1 : 0, 0, &facts);
	if (right != NULL)
	{
		startup += right->startup_cost;
		total += right->total_cost;
		facts.rows += right->rows;
	}
	count_keys(compat_setop_clause(setop), setop->path.pathtarget, &facts);
	facts.setop = true;
	facts.groups = Min(facts.groups, most_rows(left));
	if (hashed)
	{
		startup = total;
		hash_group_cost(&facts, &cost);
	}
	else
		sorted_group_cost(&facts, &cost);
	raise_own_cost(change, &setop->path, startup, total, cost_of_us(cost.first_us), cost_of_us(cost.all_us));
}

/* The input of a node of the grouping; NULL for the grouping's input itself and its leaves. */
static Path *
path_input(const Grouping *grouping, const Path *path)
{
	if (grouping->input_rel != NULL && path->parent == grouping->input_rel)
		return NULL;
	if (COMPAT_IS_UNIQUE_PATH(path))
		return compat_unique_input(path);
	switch (nodeTag(path))
	{
		case T_ProjectionPath:
			return ((const ProjectionPath *) path)->subpath;
		case T_GatherPath:
			return ((const GatherPath *) path)->subpath;
		case T_GatherMergePath:
			return ((const GatherMergePath *) path)->subpath;
		case T_SortPath:
			return ((const SortPath *) path)->subpath;
		case T_AggPath:
			return ((const AggPath *) path)->subpath;
		case T_GroupPath:
			return ((const GroupPath *) path)->subpath;
		case T_GroupingSetsPath:
			return ((const GroupingSetsPath *) path)->subpath;
		case T_WindowAggPath:
			return ((const WindowAggPath *) path)->subpath;
		default:
			return NULL;
	}
}

/* The sum of the cost changes of a path's nodes, down to the grouping's input. */
static CostChange
cost_change(const Grouping *grouping, const Path *path)
{
	const Path *input = path_input(grouping, path);
	CostChange	change = {0};

	check_stack_depth();
	if (IsA(path, SetOpPath))
	{
		change_setop((const SetOpPath *) path, &change);
		return change;
	}
	if (input == NULL)
		return change;
	change = cost_change(grouping, input);
	if (IsA(path, AggPath))
		change_agg(grouping, (const AggPath *) path, &change);
	else if (IsA(path, GroupingSetsPath))
		change_sets(grouping, (const GroupingSetsPath *) path, &change);
	else if (IsA(path, SortPath))
		change_sort(grouping, (const SortPath *) path, &change);
	else if (IsA(path, GroupPath))
		change_sorted(grouping, path, input, list_length(((const GroupPath *) path)->groupClause), 0, &change);
	else if (COMPAT_IS_UNIQUE_PATH(path))
		change_sorted(grouping, path, input, compat_unique_keys(path), 0, &change);
	return change;
}

/* ------------------------------------------------------------------------
 * Our paths
 * ------------------------------------------------------------------------
 */

/*
 * Sets the true cost of a new path above an input that has its true cost.  kept: expected
 * rows of the input, if it is a sort that drops duplicates; otherwise 0.  Returns the path.
 */
static Path *
at_true_cost(const Grouping *grouping, Path *path, const Path *input, double kept)
{
	CostChange	change = {0};

	if (IsA(path, AggPath))
		change_agg(grouping, (const AggPath *) path, &change);
	else if (IsA(path, SetOpPath))
		change_setop((const SetOpPath *) path, &change);
	else
		change_sorted(grouping, path, input, COMPAT_IS_UNIQUE_PATH(path) ? compat_unique_keys(path) :
					  list_length(input->pathkeys), kept, &change);
	apply_change(path, &change);
	return path;
}

/* Adds a path to those that choose() passes to add_path(). */
static void
offer(Grouping *grouping, Path *path)
{
	grouping->offers = lappend(grouping->offers, path);
}

/* A Gather Merge of a partial path that is sorted by the pathkeys. */
static Path *
gather_sorted(PlannerInfo *root, RelOptInfo *rel, Path *partial, List *pathkeys)
{
	double		rows = partial->rows * partial->parallel_workers;

	return (Path *) create_gather_merge_path(root, rel, partial, partial->pathtarget, pathkeys, NULL, &rows);
}

/* The partial path of the input whose rows each worker may sort and group; NULL if there is none. */
static Path *
partial_to_group(const Grouping *grouping)
{
	const RelOptInfo *input_rel = grouping->input_rel;
	Path	   *partial;

	if (!grouping->rel->consider_parallel || !enable_gathermerge || input_rel->partial_pathlist == NIL ||
		!compat_gather_allowed(input_rel))
		return NULL;
	partial = linitial(input_rel->partial_pathlist);
	return partial->rows >= gpusort_min_rows ? partial : NULL;
}

/* SELECT DISTINCT */
static void
offer_distinct(Grouping *grouping, double groups)
{
	PlannerInfo *root = grouping->root;
	RelOptInfo *rel = grouping->rel;
	RelOptInfo *input_rel = grouping->input_rel;
	int			columns = list_length(root->distinct_pathkeys);
	List	   *pathkeys = root->distinct_pathkeys;
	List	   *clause = compat_distinct_clause(root);
	Path	   *partial;
	Path	   *path;
	double		partial_groups;

	if (columns == 0 || !grouping_is_sortable(clause))
		return;
	/* the ORDER BY's order contains that of DISTINCT, or the other way round */
	if (columns < list_length(root->sort_pathkeys))
		pathkeys = root->sort_pathkeys;
	/* a sort below drops the duplicates, if the rows come from one */
	if (pathkeys_contained_in(pathkeys, input_rel->cheapest_total_path->pathkeys))
		return;
	path = sort_path_cheapest(root, rel, input_rel, input_rel->cheapest_total_path, pathkeys, grouping->groups);
	if (path == NULL)
		return;
	offer(grouping, at_true_cost(grouping, compat_create_unique_path(root, rel, path, columns, groups), path,
								 grouping->groups));

	partial = partial_to_group(grouping);
	if (partial == NULL || root->parse->hasDistinctOn)
		return;
	partial_groups = estimate_num_groups(root, get_sortgrouplist_exprs(clause, root->parse->targetList),
										 partial->rows, NULL, NULL);
	partial = sort_path_partial(root, rel, partial, pathkeys, partial_groups);
	path = compat_create_unique_path(root, rel, partial, columns, partial_groups);
	partial = gather_sorted(root, rel, at_true_cost(grouping, path, partial, partial_groups), pathkeys);
	path = compat_create_unique_path(root, rel, partial, columns, groups);
	offer(grouping, at_true_cost(grouping, path, partial, 0));
}

/* An Agg or Group path above a sorted path. */
static Path *
group_sorted(const Grouping *grouping, RelOptInfo *rel, Path *sorted, AggSplit split, List *having,
			 const AggClauseCosts *costs, double groups)
{
	PlannerInfo *root = grouping->root;
	List	   *clause = compat_group_clause(root);
	Path	   *path;

	if (root->parse->hasAggs)
		path = (Path *) create_agg_path(root, rel, sorted, rel->reltarget, AGG_SORTED, split, clause, having,
										costs, groups);
	else
		path = (Path *) create_group_path(root, rel, sorted, clause, having, groups);
	return at_true_cost(grouping, path, sorted,
						!root->parse->hasAggs && split == AGGSPLIT_SIMPLE ? grouping->groups : 0);
}

/* GROUP BY */
static void
offer_group(Grouping *grouping, const GroupPathExtraData *extra, double groups)
{
	PlannerInfo *root = grouping->root;
	RelOptInfo *rel = grouping->rel;
	RelOptInfo *input_rel = grouping->input_rel;
	List	   *having = (List *) extra->havingQual;
	List	   *pathkeys = root->group_pathkeys;
	AggClauseCosts costs = {0};
	RelOptInfo *partial_rel;
	Path	   *partial;
	Path	   *path;
	double		partial_groups;

	if (pathkeys == NIL || (extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return;
	path = sort_path_cheapest(root, rel, input_rel, input_rel->cheapest_total_path, pathkeys,
							  root->parse->hasAggs ? 0 : grouping->groups);
	if (path == NULL)
		return;
	if (root->parse->hasAggs)
		get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &costs);
	offer(grouping, group_sorted(grouping, rel, path, AGGSPLIT_SIMPLE, having, &costs, groups));

	partial = partial_to_group(grouping);
	if (partial == NULL || (extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0 || !extra->partial_costs_set)
		return;
	partial_rel = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, rel->relids);
	if (partial_rel->reltarget == NULL || partial_rel->reltarget->exprs == NIL)
		return;
	partial_groups = estimate_num_groups(root, get_sortgrouplist_exprs(compat_group_clause(root), extra->targetList),
										 partial->rows, NULL, NULL);
	path = group_sorted(grouping, partial_rel, sort_path_partial(root, partial_rel, partial, pathkeys, 0),
						AGGSPLIT_INITIAL_SERIAL, NIL, &extra->agg_partial_costs, partial_groups);
	path = gather_sorted(root, partial_rel, path, pathkeys);
	offer(grouping, group_sorted(grouping, rel, path, AGGSPLIT_FINAL_DESERIAL, having, &extra->agg_final_costs,
								 groups));
}

/* The columns of the sort order that all grouping sets with sorted input share, as sort group references. */
static List *
sorted_columns(PlannerInfo *root)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, root->group_pathkeys)
	{
		int			ref = (int) lfirst_node(PathKey, lc)->pk_eclass->ec_sortref;

		/* the order of this column and those behind it cannot be told */
		if (ref == 0 || list_member_int(columns, ref))
			break;
		columns = lappend_int(columns, ref);
	}
	return columns;
}

/* Does a grouping set consist of leading columns? */
static bool
set_leads(const GroupingSetData *set, List *columns)
{
	ListCell   *lc;

	if (list_length(set->set) > list_length(columns))
		return false;
	foreach(lc, set->set)
	{
		for (int i = 0; list_nth_int(columns, i) != lfirst_int(lc);)
		{
			if (++i == list_length(set->set))
				return false;
		}
	}
	return true;
}

/* Descending by the number of columns */
static int
compare_sets(const ListCell *a, const ListCell *b)
{
	return list_length(lfirst_node(GroupingSetData, b)->set) - list_length(lfirst_node(GroupingSetData, a)->set);
}

/* The rollup of these sets of leading columns. */
static RollupData *
make_rollup(PlannerInfo *root, List *sets, List *columns)
{
	RollupData *rollup = makeNode(RollupData);
	int			most;
	ListCell   *lc;

	list_sort(sets, compare_sets);
	most = list_length(linitial_node(GroupingSetData, sets)->set);
	foreach(lc, columns)
	{
		if (foreach_current_index(lc) == most)
			break;
		rollup->groupClause = lappend(rollup->groupClause,
									  get_sortgroupref_clause(lfirst_int(lc), root->parse->groupClause));
	}
	foreach(lc, sets)
	{
		const GroupingSetData *set = lfirst_node(GroupingSetData, lc);
		List	   *places = NIL;

		for (int i = 0; i < list_length(set->set); i++)
			places = lappend_int(places, i);
		rollup->gsets = lappend(rollup->gsets, places);
		rollup->numGroups += set->numGroups;
	}
	rollup->gsets_data = sets;
	return rollup;
}

/*
 * Rollups with the sets of leading columns in one rollup, for which the input is sorted;
 * other sets remain as they are.  The hashed ones come first.  NIL if there is no such
 * rollup.
 */
static List *
sorted_rollups(PlannerInfo *root, List *rollups, bool *hashed)
{
	List	   *columns = sorted_columns(root);
	List	   *leading = NIL;
	List	   *hash_tables = NIL;
	List	   *other = NIL;
	ListCell   *lc;

	foreach(lc, rollups)
	{
		RollupData *rollup = lfirst_node(RollupData, lc);
		int			leads = 0;
		ListCell   *set;

		foreach(set, rollup->gsets_data)
			leads += set_leads(lfirst(set), columns) ? 1 : 0;
		if (leads == list_length(rollup->gsets_data))
			leading = list_concat(leading, rollup->gsets_data);
		else if (leads > 0 && !rollup->is_hashed)
			return NIL;
		else if (rollup->is_hashed)
			hash_tables = lappend(hash_tables, rollup);
		else
			other = lappend(other, rollup);
	}
	*hashed = hash_tables != NIL;
	if (leading == NIL)
		return NIL;
	leading = list_make1(make_rollup(root, leading, columns));
	if (linitial_node(RollupData, leading)->groupClause == NIL)
		return NIL;
	return list_concat(list_concat(hash_tables, leading), other);
}

/*
 * GROUPING SETS, ROLLUP and CUBE: the sets that are leading columns of one order, above our
 * sort.  The other sets are hashed, or sorted by the Agg node, as in PostgreSQL's path.
 */
static void
offer_sets(Grouping *grouping, const GroupPathExtraData *extra)
{
	PlannerInfo *root = grouping->root;
	const Path *like = linitial(grouping->rel->pathlist);
	GroupingSetsPath *path;
	List	   *rollups;
	bool		hashed;
	Path	   *sorted;
	Cost		total;

	if (!IsA(like, GroupingSetsPath) || root->group_pathkeys == NIL || (extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return;
	rollups = sorted_rollups(root, ((const GroupingSetsPath *) like)->rollups, &hashed);
	sorted = rollups == NIL ? NULL :
		sort_path_cheapest(root, grouping->rel, grouping->input_rel, grouping->input_rel->cheapest_total_path,
						   root->group_pathkeys, 0);
	if (sorted == NULL)
		return;
	path = makeNode(GroupingSetsPath);
	*path = *(const GroupingSetsPath *) like;
	path->subpath = sorted;
	path->aggstrategy = hashed ? AGG_MIXED : AGG_SORTED;
	path->rollups = rollups;
	path->path.pathkeys = list_length(rollups) == 1 ? root->group_pathkeys : NIL;
	path->path.parallel_safe = path->path.parallel_safe && sorted->parallel_safe;
	(void) sets_cost(grouping, path, sorted, &total);
	path->path.startup_cost = sorted->startup_cost;
	path->path.total_cost = sorted->total_cost + total;
	offer(grouping, &path->path);
}

/*
 * The number of different rows of a set operation's inputs.  PostgreSQL assumes that all
 * rows of a UNION are different.
 */
static double
different_rows(const Path *path)
{
	const PlannerInfo *subroot;
	double		groups = 0;
	ListCell   *lc;

	check_stack_depth();
	path = path_below_projection(path);
	if (IsA(path, AppendPath))
	{
		foreach(lc, ((const AppendPath *) path)->subpaths)
			groups += different_rows(lfirst(lc));
		return groups;
	}
	subroot = IsA(path, SubqueryScanPath) ? path->parent->subroot : NULL;
	if (subroot == NULL || subroot->parse->groupClause != NIL || subroot->parse->groupingSets != NIL ||
		subroot->parse->distinctClause != NIL || subroot->parse->hasAggs || subroot->parse->setOperations != NULL)
		return path->rows;
	return Min(path->rows, estimate_num_groups((PlannerInfo *) subroot,
											   get_tlist_exprs(subroot->parse->targetList, false),
											   path->rows, NULL, NULL));
}

/* The pathkeys of a set operation's columns. */
static List *
setop_pathkeys(PlannerInfo *root, List *clause, PathTarget *target)
{
	return make_pathkeys_for_sortclauses(root, clause, make_tlist_from_pathtarget(target));
}

/* UNION: Unique above our sort instead of a hash table; NULL if there is none. */
static Path *
sorted_union(Grouping *grouping, const AggPath *agg)
{
	PlannerInfo *root = grouping->root;
	const Path *path = &agg->path;
	List	   *pathkeys;
	Path	   *sorted = NULL;

	if (agg->subpath->rows < gpusort_plan_grouping_min_rows || !grouping_is_sortable(agg->groupClause))
		return NULL;
	pathkeys = setop_pathkeys(root, agg->groupClause, path->pathtarget);
	if (list_length(pathkeys) == list_length(agg->groupClause))
		sorted = sort_path_cheapest(root, path->parent, NULL, agg->subpath, pathkeys,
									different_rows(agg->subpath));
	if (sorted == NULL)
		return NULL;
	grouping->groups = different_rows(agg->subpath);
	return at_true_cost(grouping, compat_create_unique_path(root, path->parent, sorted, list_length(pathkeys),
															path->rows), sorted, grouping->groups);
}

/* INTERSECT, EXCEPT: a SetOp above our sorts instead of a hashed one; NULL if there is none. */
static Path *
sorted_setop(Grouping *grouping, const SetOpPath *setop)
{
	PlannerInfo *root = grouping->root;
	List	   *clause = compat_setop_clause(setop);
	Path	   *inputs[2];

	compat_setop_inputs(setop, &inputs[0], &inputs[1]);
	if (inputs[0]->rows + (inputs[1] != NULL ? inputs[1]->rows : 0) < gpusort_plan_grouping_min_rows ||
		!grouping_is_sortable(clause))
		return NULL;
	for (int i = 0; i < lengthof(inputs); i++)
	{
		Path	   *input = inputs[i];
		List	   *pathkeys;

		if (input == NULL)
			continue;
		pathkeys = setop_pathkeys(root, clause, input->pathtarget);
		if (!pathkeys_contained_in(pathkeys, input->pathkeys))
			inputs[i] = sort_path_cheapest(root, input->parent, NULL, input, pathkeys, 0);
		if (inputs[i] == NULL)
			return NULL;
	}
	return at_true_cost(grouping, compat_create_sorted_setop(root, setop, inputs[0], inputs[1]), inputs[0], 0);
}

/* UNION, INTERSECT and EXCEPT: a sorted path for each hashed path */
static void
offer_setop(Grouping *grouping)
{
	ListCell   *lc;

	foreach(lc, grouping->rel->pathlist)
	{
		const Path *path = lfirst(lc);
		Path	   *sorted = NULL;

		if (IsA(path, AggPath) && ((const AggPath *) path)->aggstrategy == AGG_HASHED)
			sorted = sorted_union(grouping, (const AggPath *) path);
		else if (IsA(path, SetOpPath) && ((const SetOpPath *) path)->strategy == SETOP_HASHED)
			sorted = sorted_setop(grouping, (const SetOpPath *) path);
		if (sorted != NULL)
			offer(grouping, sorted);
	}
}

/*
 * Sets the cost of copy, a copy of path above the input "to" instead of "from": the own
 * cost of path at true costs, and the cost of the new input.
 */
static void
move_above(const Grouping *grouping, const Path *path, const Path *from, Path *copy, const Path *to)
{
	CostChange	change = cost_change(grouping, path);
	CostChange	below = cost_change(grouping, from);
	bool		sort = IsA(path, SortPath);
	Cost		total = path->total_cost + change.total - (from->total_cost + below.total);
	Cost		startup = path->startup_cost + change.startup -
		(sort ? from->total_cost + below.total : from->startup_cost + below.startup);

	copy->startup_cost = startup + (sort ? to->total_cost : to->startup_cost);
	copy->total_cost = total + to->total_cost;
	copy->parallel_safe = path->parallel_safe && to->parallel_safe;
}

/*
 * A copy of the path of one or more windows.  The lowest window reads the sorted path.
 * NULL if other nodes are between the windows.
 */
static Path *
windows_above(const Grouping *grouping, const Path *path, Path *sorted)
{
	Path	   *from = path_input(grouping, path);
	Path	   *to = sorted;

	check_stack_depth();
	if (IsA(path, WindowAggPath))
	{
		WindowAggPath *copy;
		const Path *input = from;

		while (input != NULL && (IsA(input, SortPath) || IsA(input, IncrementalSortPath)))
			input = ((const SortPath *) input)->subpath;
		if (input == NULL)
			return NULL;
		if (input->parent != grouping->input_rel)
			to = windows_above(grouping, from, sorted);
		if (to == NULL)
			return NULL;
		copy = makeNode(WindowAggPath);
		*copy = *(const WindowAggPath *) path;
		copy->subpath = to;
		copy->path.pathkeys = to->pathkeys;
		move_above(grouping, path, from, &copy->path, to);
		return &copy->path;
	}
	if (IsA(path, SortPath))
	{
		SortPath   *copy;

		to = windows_above(grouping, from, sorted);
		if (to == NULL)
			return NULL;
		copy = makeNode(SortPath);
		*copy = *(const SortPath *) path;
		copy->subpath = to;
		move_above(grouping, path, from, &copy->path, to);
		return &copy->path;
	}
	return NULL;
}

/*
 * Window functions: the windows of PostgreSQL's path above our sort, serial or parallel.
 * PostgreSQL's cost of a WindowAgg is about the time of a GpuSort Window, so it stays.
 */
static void
offer_windows(Grouping *grouping)
{
	PlannerInfo *root = grouping->root;
	Path	   *path = linitial(grouping->rel->pathlist);
	Path	   *sorted;

	if (root->window_pathkeys == NIL)
		return;
	sorted = sort_path_cheapest(root, grouping->rel, grouping->input_rel,
								grouping->input_rel->cheapest_total_path, root->window_pathkeys, 0);
	path = sorted != NULL ? windows_above(grouping, path, sorted) : NULL;
	if (path != NULL)
		offer(grouping, path);
}

/* ------------------------------------------------------------------------
 * The choice
 * ------------------------------------------------------------------------
 */

/* Does a node of the path, down to the grouping's input, use a hash table? */
static bool
is_hashed(const Grouping *grouping, const Path *path)
{
	for (; path != NULL; path = path_input(grouping, path))
	{
		if ((IsA(path, AggPath) && ((const AggPath *) path)->aggstrategy == AGG_HASHED) ||
			(IsA(path, GroupingSetsPath) && !sets_are_sorted((const GroupingSetsPath *) path)) ||
			(IsA(path, SetOpPath) && ((const SetOpPath *) path)->strategy == SETOP_HASHED))
			return true;
	}
	return false;
}

/* The number of groups that PostgreSQL estimates; 0 if no path has it. */
static double
number_of_groups(const RelOptInfo *rel)
{
	double		groups = 0;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		const Path *path = path_below_projection(lfirst(lc));

		if (IsA(path, AggPath))
			groups = Max(groups, ((const AggPath *) path)->numGroups);
		else if (IsA(path, GroupPath) || COMPAT_IS_UNIQUE_PATH(path))
			groups = Max(groups, path->rows);
	}
	return groups;
}

static void
log_choice(const Grouping *grouping, List *paths)
{
	Cost		hashed = -1;
	Cost		sorted = -1;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);
		Cost	   *best = is_hashed(grouping, path) ? &hashed : &sorted;

		if (*best < 0 || path->total_cost < *best)
			*best = path->total_cost;
	}
	if (hashed >= 0 && sorted >= 0)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: %s is cheaper by %s: sorted %.0f, hashed %.0f", grouping->name,
								 sorted < hashed ? "sorting" : "hashing", sorted, hashed)));
}

static void
log_windows(const Grouping *grouping)
{
	const Path *ours = linitial(grouping->offers);
	const Path *path = linitial(grouping->rel->pathlist);
	Cost		cost = path->total_cost + cost_change(grouping, path).total;

	ereport(DEBUG1,
			(errmsg_internal("gpusort: windows are cheaper above %s: %.0f, else %.0f",
							 ours->total_cost <= cost ? "our sort" : "PostgreSQL's plan",
							 Min(ours->total_cost, cost), Max(ours->total_cost, cost))));
}

/* Changes the costs of PostgreSQL's paths to true costs, and lets add_path() choose among all. */
static void
choose(Grouping *grouping)
{
	RelOptInfo *rel = grouping->rel;
	List	   *paths = rel->pathlist;
	CostChange *changes = palloc(list_length(paths) * sizeof(CostChange));
	ListCell   *lc;

	foreach(lc, paths)
		changes[foreach_current_index(lc)] = cost_change(grouping, lfirst(lc));
	foreach(lc, paths)
		apply_change(lfirst(lc), &changes[foreach_current_index(lc)]);
	/* of two paths at the same cost add_path() keeps the first one */
	paths = list_concat_copy(grouping->offers, paths);
	if (message_level_is_interesting(DEBUG1))
		log_choice(grouping, paths);
	rel->pathlist = NIL;
	foreach(lc, paths)
		add_path(rel, lfirst(lc));
	list_free(paths);
	pfree(changes);
}

/* The hook's work for one upper relation. */
static void
plan_grouping(PlannerInfo *root, UpperRelationKind kind, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	Grouping	grouping = {.root = root,.input_rel = input_rel,.rel = rel};
	double		groups;

	if (!gpusort_enable || !gpusort_plan_grouping || !enable_sort || rel->pathlist == NIL ||
		rel->reloptkind == RELOPT_OTHER_UPPER_REL)
		return;
	/* the inputs of later steps may have been freed by add_path() */
	if (kind != UPPERREL_DISTINCT && kind != UPPERREL_GROUP_AGG && kind != UPPERREL_SETOP &&
		kind != UPPERREL_WINDOW)
		return;
	if (input_rel != NULL && input_rel->cheapest_total_path->rows < gpusort_plan_grouping_min_rows)
		return;
	groups = number_of_groups(rel);
	switch (kind)
	{
		case UPPERREL_DISTINCT:
			grouping.name = "DISTINCT";
			grouping.groups = groups_at_least(root, compat_distinct_clause(root), root->parse->targetList,
											  input_rel->cheapest_total_path->rows, groups);
			offer_distinct(&grouping, groups);
			break;
		case UPPERREL_GROUP_AGG:
			if (root->parse->groupingSets != NIL)
			{
				grouping.name = "grouping sets";
				grouping.tlist = ((GroupPathExtraData *) extra)->targetList;
				offer_sets(&grouping, extra);
				if (grouping.offers == NIL)
					return;
				break;
			}
			if (compat_group_clause(root) == NIL || groups == 0)
				return;
			grouping.name = "GROUP BY";
			grouping.aggregates = true;
			grouping.groups = groups_at_least(root, compat_group_clause(root),
											  ((GroupPathExtraData *) extra)->targetList,
											  input_rel->cheapest_total_path->rows, groups);
			offer_group(&grouping, extra, groups);
			break;
		case UPPERREL_SETOP:
			grouping.name = "set operation";
			offer_setop(&grouping);
			if (grouping.offers == NIL)
				return;
			break;
		case UPPERREL_WINDOW:
			offer_windows(&grouping);
			if (grouping.offers == NIL)
				return;
			log_windows(&grouping);
			break;
		default:
			return;
	}
	choose(&grouping);
}

static void
gpusort_grouping_paths(PlannerInfo *root, UpperRelationKind kind, RelOptInfo *input_rel,
					   RelOptInfo *output_rel, void *extra)
{
	if (prev_upper_paths_hook)
		prev_upper_paths_hook(root, kind, input_rel, output_rel, extra);
	plan_grouping(root, kind, input_rel, output_rel, extra);
}

void
gpusort_grouping_init(void)
{
	prev_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = gpusort_grouping_paths;
}
