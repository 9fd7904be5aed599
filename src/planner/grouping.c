/*
 * grouping.c
 *	  DISTINCT, GROUP BY and UNION: paths above our sorts, which compete with PostgreSQL's hash
 *	  tables; parallel sorts below groups, windows and aggregates that sort.
 *
 * PostgreSQL's costs count operators: a row costs the same in a hash table of a kilobyte and
 * of a gigabyte, and its own Sort is slower than ours.  After PostgreSQL has made its paths,
 * this file compares the predicted times of its cheapest path, the peer, and of the same work
 * above our sort.  If ours is faster by a margin, it adds one path above an ordinary
 * Sort, above a Gather Merge of Sorts, or above a Gather Merge of partial groups
 * (partial_groups.c), at a cost in proportion to the peer's (planner_internal.h), and
 * add_path() chooses.  replace.c replaces the nodes in the finished plan.
 *
 * A peer is one of three:
 *
 * - a hash table that one process fills with the input's rows,
 * - a hash table in each worker; the workers may sort its rows instead, or the leader may group sorted rows, also in
 *	 place of a Sort and groups in each worker,
 * - a group, Unique or window above a Sort of the input in one process, or an aggregate of all
 *	 rows that sorts.  The Sort is replaced where it is, or put below the aggregate, so only a
 *	 parallel sort or partial groups are added.
 *
 * Rows of a table in the order of an index are no peer, but our sort of the table may cost less (sort_path.c).  Nothing
 * is added to compete with other paths of PostgreSQL.
 *
 * PostgreSQL's paths and their costs stay as they are.  gpusort.plan_grouping = off adds
 * nothing.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/aggregate/aggregate.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "planner/grouping.h"
#include "settings.h"
#include "utils/selfuncs.h"

/* Does a window without PARTITION BY end when its run condition is false? */
static bool
window_may_end_early(const Path *path)
{
	return IsA(path, WindowAggPath) && ((const WindowAggPath *) path)->winclause->partitionClause == NIL &&
		compat_has_run_condition((const WindowAggPath *) path);
}

/*
 * Does our sort of the input cost less than this path, which reads a table in the order of an index?  Fills the offer,
 * and a peer that converts times.
 */
static bool
sort_beats_index(const Grouping *grouping, const Path *path, SortOffer *sort, Peer *peer)
{
	Cost		cost = index_order_cost(grouping->root, path, grouping->input_rel);

	*peer = time_peer();
	return cost > 0 && !window_may_end_early(path_below_projection(grouping->path)) &&
		find_sort_below(grouping, false, sort) && sort_costs_less(sort, cost, grouping->name);
}

/* DISTINCT and UNION: our sort takes the place of Unique. */
static void
offer_unique(const Grouping *grouping, List *pathkeys, int columns)
{
	SortOffer	sort = {.pathkeys = pathkeys,.groups = grouping->groups};
	const Path *theirs = path_below_projection(grouping->path);
	Peer		peer;

	if ((COMPAT_IS_UNIQUE_PATH(theirs) && sort_beats_index(grouping, path_input(theirs), &sort, &peer)) ||
		find_faster_sort(grouping, &sort, 0, &peer))
		add_unique_path(grouping, &sort, columns, &peer);
	else if (grouping->input_rel != NULL)
		offer_unique_in_workers(grouping, pathkeys, columns);
}

/* SELECT DISTINCT */
static void
offer_distinct(Grouping *grouping)
{
	PlannerInfo *root = grouping->root;
	List	   *pathkeys = root->distinct_pathkeys;
	int			columns = list_length(pathkeys);

	if (columns == 0 || !grouping_is_sortable(compat_distinct_clause(root)))
		return;
	/* the ORDER BY's order contains that of DISTINCT, or the other way round */
	if (columns < list_length(root->sort_pathkeys))
		pathkeys = root->sort_pathkeys;
	offer_unique(grouping, pathkeys, columns);
}

/*
 * The order of the values that aggregates with DISTINCT, ORDER BY or WITHIN GROUP read, if one
 * sort below the node serves all of them.  NIL: it does not, or no aggregate sorts.  Columns
 * only, because a Gather Merge does not return what a sort below it computes.  width: see
 * aggregates_share_order().
 */
static List *
aggregate_order(const Grouping *grouping, const GroupPathExtraData *extra, int width)
{
	List	   *exprs = grouping->rel->reltarget->exprs;
	List	   *having = (List *) extra->havingQual;
	List	   *order = NIL;
	ListCell   *lc;

	if (grouping->root->numOrderedAggs == 0 || !aggregates_share_order(exprs, having, width))
		return NIL;
	foreach(lc, pull_var_clause((Node *) list_concat_copy(exprs, having), PVC_INCLUDE_AGGREGATES |
								PVC_INCLUDE_PLACEHOLDERS | PVC_RECURSE_WINDOWFUNCS))
	{
		const Aggref *aggref = lfirst(lc);
		List	   *clause;
		List	   *pathkeys;
		ListCell   *key;
		ListCell   *column;

		if (!IsA(aggref, Aggref))
			continue;
		clause = aggref->aggdistinct != NIL ? aggref->aggdistinct : aggref->aggorder;
		if (clause == NIL)
			continue;
		pathkeys = make_pathkeys_for_sortclauses(grouping->root, clause, aggref->args);
		if (list_length(pathkeys) != list_length(clause) ||
			(order != NIL && compare_pathkeys(order, pathkeys) != PATHKEYS_EQUAL))
			return NIL;
		/* not a column that is equal to this one */
		forboth(key, pathkeys, column, clause)
		{
			if (!equal(sorted_column(lfirst(key), grouping->input),
					   get_sortgroupclause_expr(lfirst(column), aggref->args)))
				return NIL;
		}
		order = pathkeys;
	}
	return order;
}

/* An aggregate of all rows that sorts: a parallel sort below it. */
static void
offer_aggregate(Grouping *grouping, const GroupPathExtraData *extra)
{
	PlannerInfo *root = grouping->root;
	RelOptInfo *rel = grouping->rel;
	const Path *path = path_below_projection(grouping->path);
	const Path *below;
	SortOffer	sort = {.pathkeys = aggregate_order(grouping, extra, grouping->input->pathtarget->width)};
	GroupFacts	facts;
	double		aggregate_us;
	Peer		peer;
	Path	   *input;
	Path	   *ours;

	if (sort.pathkeys == NIL || !IsA(path, AggPath) || ((const AggPath *) path)->aggstrategy != AGG_PLAIN)
		return;
	for (below = path_input(path); below != NULL && IsA(below, SortPath);)
		below = path_input(below);
	if (below == NULL || path_below_projection(below) != path_below_projection(grouping->input) ||
		pathkeys_contained_in(sort.pathkeys, grouping->input->pathkeys) ||
		!find_sort(root, rel, grouping->input_rel, grouping->input, &sort) || !sort.parallel)
		return;
	group_facts(grouping, &facts);
	aggregate_us = grouping_us(facts, facts.rows, 1, &grouping->costs);
	peer.own = path->total_cost - grouping->input->total_cost;
	peer.us = sort.serial_us + aggregate_us;
	input = sort_offer_path(root, rel, &sort, &peer);
	ours = (Path *) create_agg_path(root, rel, input, rel->reltarget, AGG_PLAIN, AGGSPLIT_SIMPLE, NIL,
									(List *) extra->havingQual, &grouping->costs, 1);
	ours->startup_cost = ours->total_cost = input->total_cost + peer_cost(&peer, aggregate_us);
	add_grouping_path(grouping, ours);
}

/* GROUP BY */
static void
offer_group(Grouping *grouping, const GroupPathExtraData *extra)
{
	PlannerInfo *root = grouping->root;
	List	   *having = (List *) extra->havingQual;
	bool		aggregates = root->parse->hasAggs;
	SortOffer	sort = {.groups = aggregates ? 0 : grouping->groups};
	GroupFacts	facts;
	double		group_us = 0;
	double		most_us;
	const Path *theirs;
	Peer		peer;
	bool		index;

	if (root->group_pathkeys == NIL || (extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return;
	sort.any_order = aggregates && aggregates_take_any_order(grouping->rel->reltarget->exprs, having);
	/* aggregates that sort take the order from the sort, too */
	sort.pathkeys = list_concat_unique_ptr(list_copy(root->group_pathkeys), aggregate_order(grouping, extra, 0));
	theirs = path_below_projection(grouping->path);
	index = !(IsA(theirs, AggPath) && ((const AggPath *) theirs)->aggstrategy == AGG_HASHED) &&
		sort_beats_index(grouping, path_input(theirs), &sort, &peer);
	if (!index && !find_sort_and_peer(grouping, &sort, &peer))
	{
		if (aggregates)
			offer_sorts_for_groups_in_workers(grouping, extra, sort.any_order);
		return;
	}
	if (aggregates)
	{
		group_facts(grouping, &facts);
		count_keys(compat_group_clause(root), grouping->path->pathtarget, &facts);
		group_us = grouping_us(facts, facts.rows, facts.groups, &grouping->costs);
		if (!index && offer_partial_groups(grouping, extra, facts, group_us, &sort, peer))
			return;
		/* with many more groups a hash table takes much longer, and sorted rows hardly do */
		most_us = grouping_us(facts, facts.rows, grouping->possible_groups, &grouping->costs);
		if (!index && sort_is_faster_in_mean(grouping, &sort, group_us, most_us, &peer))
			grouping->margin = 1;
	}
	if (index || sort_is_faster(grouping, &sort, group_us, &peer))
		add_sorted_groups(grouping, having, &sort, group_us, &peer);
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

/* UNION: a hash table of all rows may compute casts or a flag for an outer set operation. */
static void
offer_union(Grouping *grouping)
{
	const AggPath *agg = (const AggPath *) path_below_projection(grouping->path);
	List	   *pathkeys;

	if (!IsA(agg, AggPath) || agg->aggstrategy != AGG_HASHED || !grouping_is_sortable(agg->groupClause))
		return;
	grouping->input = agg->subpath;
	if (grouping->input->rows < gpusort_plan_grouping_min_rows)
		return;
	grouping->groups = different_rows(grouping->input);
	grouping->most_groups = agg->path.rows;
	pathkeys = make_pathkeys_for_sortclauses(grouping->root, agg->groupClause,
											 make_tlist_from_pathtarget(grouping->input->pathtarget));
	if (list_length(pathkeys) == list_length(agg->groupClause))
		offer_unique(grouping, pathkeys, list_length(pathkeys));
}

/*
 * A copy of the path of one or more windows above our sort instead of what the lowest one reads.  NULL
 * if other nodes are between the windows.
 */
static Path *
windows_above(const Path *path, const Path *read, Path *sorted)
{
	bool		is_sort = IsA(path, SortPath);
	Size		size = is_sort ? sizeof(SortPath) : sizeof(WindowAggPath);
	const Path *from;
	Path	   *to;
	Path	   *copy;

	check_stack_depth();
	if (path == read)
		return sorted;
	if (!is_sort && !IsA(path, WindowAggPath))
		return NULL;
	from = path_input(path);
	to = windows_above(from, read, sorted);
	if (to == NULL)
		return NULL;
	copy = memcpy(palloc(size), path, size);
	if (is_sort)
		((SortPath *) copy)->subpath = to;
	else
		((WindowAggPath *) copy)->subpath = to;
	copy->total_cost += to->total_cost - from->total_cost;
	copy->startup_cost += is_sort ? to->total_cost - from->total_cost : to->startup_cost - from->startup_cost;
	/* from 17 on a window begins when it has read a part of its rows */
	copy->startup_cost = Min(copy->startup_cost, copy->total_cost);
	copy->parallel_safe = copy->parallel_safe && to->parallel_safe;
	return copy;
}

/*
 * Window functions: the windows of PostgreSQL's path above our sort.  In place of a Sort only a parallel one is added.
 * Rows in the order of an index, with or without an Incremental Sort above them, compete with our sort of the cheapest
 * input, serial or parallel.
 */
static void
offer_windows(Grouping *grouping)
{
	const Path *windows = grouping->path;
	const Path *read = NULL;	/* what the lowest window reads */
	SortOffer	sort = {0};
	Peer		peer;
	Path	   *ours;

	for (const Path *path = windows; path != NULL && path->parent != grouping->input_rel; path = path_input(path))
	{
		if (IsA(path, WindowAggPath))
			read = path_input(path);
	}
	if (read == NULL)
		return;
	sort.pathkeys = read->pathkeys;
	if (!IsA(read, SortPath))
	{
		if (!sort_beats_index(grouping, read, &sort, &peer))
			return;
	}
	else
	{
		grouping->path = read;
		if (!find_faster_sort(grouping, &sort, 0, &peer))
			return;
	}
	ours = windows_above(windows, read, sort_offer_path(grouping->root, grouping->rel, &sort, &peer));
	if (ours != NULL)
		add_path(grouping->rel, ours);
}

/* ------------------------------------------------------------------------
 * The choice
 * ------------------------------------------------------------------------
 */

/* The number of groups that PostgreSQL estimates; 0 if the path does not have it. */
static double
number_of_groups(const Path *path)
{
	path = path_below_projection(path);
	if (IsA(path, AggPath))
		return ((const AggPath *) path)->numGroups;
	return IsA(path, GroupPath) || COMPAT_IS_UNIQUE_PATH(path) ? path->rows : 0;
}

void
offer_grouping(PlannerInfo *root, UpperRelationKind kind, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	Grouping	grouping = {.root = root,.input_rel = input_rel,.rel = rel};
	List	   *clause = NIL;

	/* the inputs of later steps may have been freed by add_path() */
	if (kind != UPPERREL_DISTINCT && kind != UPPERREL_GROUP_AGG && kind != UPPERREL_SETOP &&
		kind != UPPERREL_WINDOW)
		return;
	grouping.path = get_cheapest_path_for_pathkeys(rel->pathlist, NIL, NULL, TOTAL_COST, false);
	if (grouping.path == NULL || rel->reloptkind == RELOPT_OTHER_UPPER_REL)
		return;
	grouping.margin = offer_margin(root, input_rel != NULL ? input_rel->relids : NULL);
	if (kind == UPPERREL_SETOP)
	{
		grouping.name = "UNION";
		offer_union(&grouping);
		return;
	}
	grouping.input = input_rel->cheapest_total_path;
	if (grouping.input->rows < gpusort_plan_grouping_min_rows)
		return;
	if (kind == UPPERREL_WINDOW)
	{
		grouping.name = "windows";
		offer_windows(&grouping);
		return;
	}
	if (kind == UPPERREL_DISTINCT)
	{
		grouping.name = "DISTINCT";
		clause = compat_distinct_clause(root);
		grouping.tlist = root->parse->targetList;
	}
	else
	{
		grouping.name = "GROUP BY";
		clause = compat_group_clause(root);
		grouping.tlist = ((GroupPathExtraData *) extra)->targetList;
		if (root->parse->hasAggs)
		{
			grouping.transitions = list_length(root->aggtransinfos);
			get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &grouping.costs);
		}
		if (root->parse->groupingSets != NIL)
		{
			offer_sets(&grouping, extra);
			return;
		}
	}
	if (kind == UPPERREL_GROUP_AGG && root->parse->groupClause == NIL)
	{
		offer_aggregate(&grouping, extra);
		return;
	}
	grouping.most_groups = number_of_groups(grouping.path);
	if (clause == NIL || grouping.most_groups == 0)
		return;
	grouping.groups = groups_at_least(root, clause, grouping.tlist, grouping.input->rows, grouping.most_groups,
									  &grouping.possible_groups);
	if (kind == UPPERREL_DISTINCT)
		offer_distinct(&grouping);
	else
		offer_group(&grouping, extra);
}
