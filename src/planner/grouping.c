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
 * - a hash table in each worker, whose rows the workers may sort instead,
 * - a group, Unique or window above a Sort of the input in one process, or an aggregate of all
 *	 rows that sorts.  The Sort is replaced where it is, or put below the aggregate, so only a
 *	 parallel sort or partial groups are added.
 *
 * Other paths of PostgreSQL are no peers: nothing is added to compete with them.
 *
 * PostgreSQL's paths and their costs stay as they are.  gpusort.plan_grouping = off adds
 * nothing.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/nodeAgg.h"
#include "executor/nodeHash.h"
#include "nodes/aggregate/aggregate.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/fmgroids.h"
#include "utils/selfuncs.h"

/* Bytes of a bucket array for each entry of a hash table. */
#define BUCKET_BYTES	32

/*
 * Time that our sort saves for each row of a table scan, because it reads the table by page
 * (src/scan).  Measured were 27 ns without a filter, and 5 to 25 with one.  A row of another
 * node costs more than sort_cost.c counts.
 */
#define PAGE_SAVES_NS			20.0
#define FILTERED_PAGE_SAVES_NS	10.0
#define NODE_COSTS_NS			12.0

/* How much faster than a hash table in each worker sorts in the workers must be, beside the margin for one process. */
#define MARGIN_WORKERS	0.2

/* A grouping of a query. */
typedef struct Grouping
{
	PlannerInfo *root;
	RelOptInfo *input_rel;		/* NULL for a set operation */
	RelOptInfo *rel;
	const char *name;			/* for messages */
	Path	   *input;			/* whose rows are grouped */
	const Path *path;			/* PostgreSQL's cheapest path, the peer */
	double		groups;			/* the least number that is expected */
	double		most_groups;	/* PostgreSQL's estimate */
	double		possible_groups;	/* the same, at most the possible number */
	List	   *tlist;			/* that the grouping's clause refers to */
	int			transitions;	/* transition values of a group */
	AggClauseCosts costs;		/* of the aggregates */
	double		margin;
} Grouping;

/* ------------------------------------------------------------------------
 * Numbers of groups
 * ------------------------------------------------------------------------
 */

double
most_values(const Node *expr)
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
 * *possible: PostgreSQL's estimate, at most the possible number; may be NULL.
 */
static double
groups_at_least(PlannerInfo *root, List *clause, List *tlist, double rows, double estimate, double *possible)
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
	if (possible != NULL)
		*possible = estimate;
	return groups > 0 ? Min(estimate, groups) : estimate;
}

/* Sets the facts about the key columns: those of a clause that refers to the target. */
static void
count_keys(List *clause, const PathTarget *target, GroupFacts *facts)
{
	ListCell   *lc;

	facts->keys = list_length(clause);
	foreach(lc, target->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(target, foreach_current_index(lc));

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, clause) != NULL && type_is_varlena(exprType(lfirst(lc))))
			facts->varlena_keys++;
	}
}

/* ------------------------------------------------------------------------
 * The peer
 * ------------------------------------------------------------------------
 */

/* Fills the facts of a grouping of the input's rows, except those about keys. */
static void
group_facts(const Grouping *grouping, GroupFacts *facts)
{
	const Path *input = grouping->input;
	int			width = Min(grouping->path->pathtarget->width, input->pathtarget->width);

	memset(facts, 0, sizeof(*facts));
	facts->rows = input->rows;
	facts->groups = grouping->groups;
	facts->row_bytes = stored_row_bytes(input->pathtarget->width);
	facts->entry_bytes = BUCKET_BYTES +
		hash_agg_entry_size(grouping->transitions, width, grouping->costs.transitionSpace);
	facts->memory = get_hash_memory_limit();
	facts->aggregates = grouping->transitions > 0;
}

/* The path that a sort, or a node above a sort or hash table, reads; NULL for other nodes. */
static const Path *
path_input(const Path *path)
{
	if (COMPAT_IS_UNIQUE_PATH(path))
		return compat_unique_input(path);
	switch (nodeTag(path))
	{
		case T_ProjectionPath:
			return ((const ProjectionPath *) path)->subpath;
		case T_SortPath:
			return ((const SortPath *) path)->subpath;
		case T_AggPath:
			return ((const AggPath *) path)->subpath;
		case T_GroupPath:
			return ((const GroupPath *) path)->subpath;
		case T_WindowAggPath:
			return ((const WindowAggPath *) path)->subpath;
		default:
			return NULL;
	}
}

/* Predicted time of the transition functions. */
static double
transition_us(const Grouping *grouping)
{
	return us_of_cost(grouping->costs.transCost.startup + grouping->costs.transCost.per_tuple * grouping->input->rows);
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
 * Predicted time to group the input's rows by each of the rollups: by a hash table; by
 * comparing neighbours, where the Agg node sorts the rows for all but the first rollup
 * itself, with PostgreSQL's sort; or all rows as one group.
 */
static double
sets_us(const Grouping *grouping, List *rollups)
{
	double		rows = grouping->input->rows;
	bool		sorted = false;
	double		us = 0;
	ListCell   *lc;

	foreach(lc, rollups)
	{
		const RollupData *rollup = lfirst_node(RollupData, lc);
		GroupFacts	facts;

		group_facts(grouping, &facts);
		facts.groups = groups_at_least(grouping->root, rollup->groupClause, grouping->tlist, rows, rollup->numGroups,
									   NULL);
		count_keys(rollup->groupClause, grouping->path->pathtarget, &facts);
		if (rollup->is_hashed)
			us += hash_group_us(&facts);
		else if (rollup->groupClause != NIL)
		{
			us += sorted_group_us(&facts);
			if (sorted)
				us += us_of_cost(2 * cpu_operator_cost * rows * log2(Max(rows, 2)));
			sorted = true;
		}
		us += transition_us(grouping);
	}
	return us;
}

/* Fills the peer if the path is a hash table, or stands on a Sort, of the input's rows in one process. */
static bool
find_peer(const Grouping *grouping, Peer *peer)
{
	const Path *path = path_below_projection(grouping->path);
	const Path *below;
	GroupFacts	facts;

	peer->sort = false;
	if (IsA(path, GroupingSetsPath))
	{
		const GroupingSetsPath *sets = (const GroupingSetsPath *) path;

		if (sets_are_sorted(sets))
			return false;
		below = sets->subpath;
		peer->us = sets_us(grouping, sets->rollups);
	}
	else if (IsA(path, AggPath) && ((const AggPath *) path)->aggstrategy == AGG_HASHED)
	{
		const AggPath *agg = (const AggPath *) path;

		if (agg->aggsplit != AGGSPLIT_SIMPLE)
			return false;
		below = agg->subpath;
		group_facts(grouping, &facts);
		count_keys(agg->groupClause, path->pathtarget, &facts);
		peer->us = hash_group_us(&facts) + transition_us(grouping);
	}
	else
	{
		while (path != NULL && !IsA(path, SortPath))
			path = path_input(path);
		if (path == NULL)
			return false;
		below = path_input(path);
		peer->sort = true;
		peer->us = us_of_cost(path->total_cost - below->total_cost);
	}
	peer->own = path->total_cost - below->total_cost;
	return path_below_projection(below) == path_below_projection(grouping->input) && peer->own > 0;
}

/* ------------------------------------------------------------------------
 * Our paths
 * ------------------------------------------------------------------------
 */

/*
 * Time that our sort of the path's rows, which takes sort_us, saves by reading a table by page; negative: that it needs
 * to take them from another node.  Rows of a partial path are those of all participants, on the CPUs that they have.
 */
static double
reading_saves_us(const Path *path, double sort_us)
{
	int			workers = path->parallel_workers;
	double		rows = path->rows;
	double		row_ns;

	if (workers > 0)
		rows *= shares_of(workers) / sort_abreast(exchange_participants(workers, 0));
	path = path_below_projection(path);
	if (path->pathtype != T_SeqScan)
		return -rows * NODE_COSTS_NS / 1000;
	row_ns = path->parent->baserestrictinfo == NIL ? PAGE_SAVES_NS : FILTERED_PAGE_SAVES_NS;
	return Min(sort_us, rows * row_ns / 1000);
}

/* Finds our sort below the grouping, and its peer. */
static bool
find_sort_and_peer(const Grouping *grouping, SortOffer *sort, Peer *peer)
{
	double		saved_us;

	if (pathkeys_contained_in(sort->pathkeys, grouping->input->pathkeys) ||
		!find_peer(grouping, peer) ||
		!find_sort(grouping->root, grouping->rel, grouping->input_rel, grouping->input, sort) ||
		(!peer->sort && !sort_files_allowed(sort)))
		return false;
	if (!peer->sort)
		count_cached_runs(sort);
	sort->time.sort_us += sort->time.group_us;
	saved_us = reading_saves_us(sort->input, sort->time.sort_us);
	sort->own_us += sort->time.group_us - saved_us;
	/* a Sort that is replaced where it is reads by page, too */
	if (!peer->sort)
		sort->time.sort_us -= saved_us;
	return true;
}

/*
 * Is a path of ours faster than the peer, by the margin?  own_us: its time above its input.  If
 * it is, the margin is in the peer's cost, too.
 */
static bool
is_faster(const Grouping *grouping, double our_input_us, double own_us, Peer *peer)
{
	double		ours = our_input_us + grouping->margin * own_us;
	double		theirs = us_of_cost(grouping->input->total_cost) + peer->us;

	ereport(DEBUG1,
			(errmsg_internal("gpusort: %s: %.1f ms above our sort, %.1f ms else: %s", grouping->name, ours / 1000,
							 theirs / 1000, ours < theirs ? "a path is added" : "PostgreSQL's paths stay")));
	if (ours >= theirs)
		return false;
	peer->own *= grouping->margin;
	return true;
}

/*
 * Is our sort below the grouping faster than the peer?  group_us: predicted time of the
 * grouping above our sort.
 */
static bool
sort_is_faster(const Grouping *grouping, const SortOffer *sort, double group_us, Peer *peer)
{
	/* PostgreSQL's Sort is replaced where it is */
	if (peer->sort)
		return sort->parallel;
	return is_faster(grouping, sort->input_us, sort->own_us + group_us, peer);
}

/* Finds our sort below the grouping, if it is faster than the peer. */
static bool
find_faster_sort(const Grouping *grouping, SortOffer *sort, double group_us, Peer *peer)
{
	return find_sort_and_peer(grouping, sort, peer) && sort_is_faster(grouping, sort, group_us, peer);
}

/* Adds a path whose costs are set. */
static void
add_grouping_path(const Grouping *grouping, Path *path)
{
	if (!path_has_target(path, grouping->path->pathtarget))
		path = (Path *) create_projection_path(grouping->root, grouping->rel, path, grouping->path->pathtarget);
	add_path(grouping->rel, path);
}

/* Adds a path that returns rows while it reads its input, with the cost of its input and of this time. */
static void
add_above(const Grouping *grouping, Path *path, const Path *input, const Peer *peer, double group_us)
{
	path->startup_cost = input->startup_cost;
	path->total_cost = input->total_cost + peer_cost(peer, group_us);
	add_grouping_path(grouping, path);
}

/* The hash table of each worker with which the path begins, if our workers may sort instead; otherwise NULL. */
static const AggPath *
hashed_in_workers(const Grouping *grouping)
{
	const Path *path = grouping->path;

	while (path != NULL && !IsA(path, GatherPath) && !IsA(path, GatherMergePath))
		path = path_input(path);
	if (path == NULL || !gather_is_possible(grouping->root, grouping->rel, grouping->input_rel, grouping->input))
		return NULL;
	path = IsA(path, GatherPath) ? ((const GatherPath *) path)->subpath : ((const GatherMergePath *) path)->subpath;
	while (path != NULL && !IsA(path, AggPath))
		path = path_input(path);
	if (path == NULL || ((const AggPath *) path)->aggstrategy != AGG_HASHED ||
		((const AggPath *) path)->subpath->parent != grouping->input_rel)
		return NULL;
	return (const AggPath *) path;
}

/* The facts of a hash table in each worker: all rows and groups. */
static void
worker_facts(const Grouping *grouping, const AggPath *hashed, GroupFacts *facts)
{
	group_facts(grouping, facts);
	count_keys(hashed->groupClause, hashed->path.pathtarget, facts);
}

/*
 * Are sorted rows in the workers faster than their hash tables, by the margin?  own_us: the time of the sorts and of
 * what groups their rows.  If they are, fills the peer.
 */
static bool
workers_are_faster(const Grouping *grouping, const AggPath *hashed, const GroupFacts *facts, double own_us,
				   const AggClauseCosts *costs, Peer *peer)
{
	double		margin = grouping->margin + MARGIN_WORKERS;

	peer->sort = false;
	peer->own = margin * (hashed->path.total_cost - hashed->subpath->total_cost);
	peer->us = hash_in_workers_us(*facts, hashed->subpath, costs);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %s: %.1f ms above our sorts in workers, %.1f ms in hash tables",
							 grouping->name, margin * own_us / 1000, peer->us / 1000)));
	return margin * own_us < peer->us && temp_files_allowed(hashed->subpath->rows * facts->row_bytes);
}

/* Adds a Unique of these leading columns; replace_unique() lets our sort take its place. */
static void
add_unique_path(const Grouping *grouping, const SortOffer *sort, int columns, const Peer *peer)
{
	Path	   *input = sort_offer_path(grouping->root, grouping->rel, sort, peer);

	add_above(grouping, compat_create_unique_path(grouping->root, grouping->rel, input, columns,
												  grouping->most_groups), input, peer, 0);
}

/* DISTINCT: our parallel sort, in place of PostgreSQL's hash table in each worker. */
static void
offer_unique_in_workers(const Grouping *grouping, List *pathkeys, int columns)
{
	static const AggClauseCosts none = {0};
	const AggPath *hashed = hashed_in_workers(grouping);
	SortOffer	sort = {.pathkeys = pathkeys,.groups = grouping->groups};
	GroupFacts	facts;
	Peer		peer;

	if (hashed == NULL || !find_sort_in_workers(grouping->root, hashed->subpath, &sort))
		return;
	worker_facts(grouping, hashed, &facts);
	count_cached_runs(&sort);
	sort.time.sort_us -= reading_saves_us(hashed->subpath, sort.time.sort_us);
	if (!workers_are_faster(grouping, hashed, &facts, sort.time.sort_us + sort.time.rows_us, &none, &peer))
		return;
	add_unique_path(grouping, &sort, columns, &peer);
}

/* DISTINCT and UNION: our sort takes the place of Unique. */
static void
offer_unique(const Grouping *grouping, List *pathkeys, int columns)
{
	SortOffer	sort = {.pathkeys = pathkeys,.groups = grouping->groups};
	Peer		peer;

	if (find_faster_sort(grouping, &sort, 0, &peer))
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
 * Partial groups in workers, if they save a tenth of the time of the path that groups all rows
 * in the leader, above our sort.  group_us: the time of the grouping in that path.  True if a
 * path was added.
 */
static bool
offer_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, GroupFacts facts, double group_us,
					 const SortOffer *sort, Peer peer)
{
	PlannerInfo *root = grouping->root;
	PartialGroups partial;
	double		own_us;
	double		leader_us;
	Path	   *path;

	if (!gather_is_possible(root, grouping->rel, grouping->input_rel, grouping->input))
		return false;
	/* with more groups they save less */
	facts.groups = grouping->possible_groups;
	if (!find_partial_groups(root, grouping->rel, extra, &facts,
							 sort->parallel ? sort->input : linitial(grouping->input_rel->partial_pathlist),
							 sort->any_order, &partial))
		return false;
	partial.sort_us -= reading_saves_us(partial.input, partial.sort_us);
	own_us = partial.sort_us + partial.group_us + partial.merge.sort_us + partial.merge.rows_us + partial.final_us;
	leader_us = sort->own_us + (peer.sort ? 0 : sort->time.cached_us) + group_us;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: GROUP BY: %.1f ms with partial groups in %d workers, %.1f ms without",
							 (partial.input_us + own_us) / 1000, partial.input->parallel_workers,
							 (sort->input_us + leader_us) / 1000)));
	if (partial.input_us + own_us > WORKERS_MOST * (sort->input_us + leader_us))
		return false;
	if (!peer.sort)
	{
		partial.sort_us -= partial.cached_us;
		if (!is_faster(grouping, partial.input_us, own_us - partial.cached_us, &peer))
			return false;
	}
	path = partial_groups_path(root, grouping->rel, extra, &partial, compat_group_clause(root),
							   grouping->most_groups, &peer);
	add_above(grouping, path, ((AggPath *) path)->subpath, &peer, partial.final_us);
	return true;
}

/* Partial groups of sorted rows in workers, in place of PostgreSQL's hash table in each. */
static void
offer_sorted_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, bool any_order)
{
	PlannerInfo *root = grouping->root;
	const AggPath *hashed = hashed_in_workers(grouping);
	PartialGroups partial;
	GroupFacts	facts;
	Peer		peer = {0};
	Path	   *path;

	if (hashed == NULL)
		return;
	worker_facts(grouping, hashed, &facts);
	/* rows with numerics and texts gain little, and lose where their sorts exceed the CPU's caches */
	if (!find_partial_groups(root, grouping->rel, extra, &facts, hashed->subpath, any_order, &partial) ||
		!partial.keys_only)
		return;
	partial.sort_us -= partial.cached_us;
	partial.sort_us -= reading_saves_us(hashed->subpath, partial.sort_us);
	if (!workers_are_faster(grouping, hashed, &facts, partial.sort_us + partial.group_us, &extra->agg_partial_costs,
							&peer))
		return;
	path = partial_groups_path(root, grouping->rel, extra, &partial, compat_group_clause(root),
							   grouping->most_groups, &peer);
	add_above(grouping, path, ((AggPath *) path)->subpath, &peer, partial.final_us);
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
	RelOptInfo *rel = grouping->rel;
	List	   *having = (List *) extra->havingQual;
	List	   *clause = compat_group_clause(root);
	bool		aggregates = root->parse->hasAggs;
	SortOffer	sort = {.groups = aggregates ? 0 : grouping->groups};
	GroupFacts	facts;
	double		group_us = transition_us(grouping);
	Peer		peer;
	Path	   *input;
	Path	   *path;

	if (root->group_pathkeys == NIL || (extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return;
	sort.any_order = aggregates && aggregates_take_any_order(rel->reltarget->exprs, having);
	/* aggregates that sort take the order from the sort, too */
	sort.pathkeys = list_concat_unique_ptr(list_copy(root->group_pathkeys), aggregate_order(grouping, extra, 0));
	if (!find_sort_and_peer(grouping, &sort, &peer))
	{
		if (aggregates)
			offer_sorted_partial_groups(grouping, extra, sort.any_order);
		return;
	}
	if (aggregates)
	{
		group_facts(grouping, &facts);
		count_keys(clause, grouping->path->pathtarget, &facts);
		group_us = grouping_us(facts, facts.rows, facts.groups, &grouping->costs);
		if (offer_partial_groups(grouping, extra, facts, group_us, &sort, peer))
			return;
	}
	if (!sort_is_faster(grouping, &sort, group_us, &peer))
		return;
	input = sort_offer_path(root, rel, &sort, &peer);
	if (aggregates)
		path = (Path *) create_agg_path(root, rel, input, rel->reltarget, AGG_SORTED, AGGSPLIT_SIMPLE, clause,
										having, &grouping->costs, grouping->most_groups);
	else
		path = (Path *) create_group_path(root, rel, input, clause, having, grouping->most_groups);
	add_above(grouping, path, input, &peer, group_us);
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
	int			n = list_length(set->set);

	return n <= list_length(columns) && list_difference_int(set->set, list_truncate(list_copy(columns), n)) == NIL;
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
		List	   *indexes = NIL;

		for (int i = 0; i < list_length(set->set); i++)
			indexes = lappend_int(indexes, i);
		rollup->gsets = lappend(rollup->gsets, indexes);
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
	const GroupingSetsPath *like = (const GroupingSetsPath *) grouping->path;
	SortOffer	sort = {.pathkeys = root->group_pathkeys};
	GroupingSetsPath *path;
	List	   *rollups;
	bool		hashed;
	double		group_us;
	Peer		peer;

	if (!IsA(like, GroupingSetsPath) || root->group_pathkeys == NIL || (extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return;
	rollups = sorted_rollups(root, like->rollups, &hashed);
	if (rollups == NIL)
		return;
	group_us = sets_us(grouping, rollups);
	if (!find_faster_sort(grouping, &sort, group_us, &peer))
		return;
	path = makeNode(GroupingSetsPath);
	*path = *like;
	path->subpath = sort_offer_path(root, grouping->rel, &sort, &peer);
	path->aggstrategy = hashed ? AGG_MIXED : AGG_SORTED;
	path->rollups = rollups;
	path->path.pathkeys = list_length(rollups) == 1 ? root->group_pathkeys : NIL;
	path->path.parallel_safe = path->path.parallel_safe && path->subpath->parallel_safe;
	add_above(grouping, &path->path, path->subpath, &peer, group_us);
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
 * A copy of the path of one or more windows above our sort instead of the lowest Sort.  NULL
 * if other nodes are between the windows.
 */
static Path *
windows_above(const Path *path, const Path *lowest, Path *sorted)
{
	bool		is_sort = IsA(path, SortPath);
	Size		size = is_sort ? sizeof(SortPath) : sizeof(WindowAggPath);
	const Path *from;
	Path	   *to;
	Path	   *copy;

	check_stack_depth();
	if (path == lowest)
		return sorted;
	if (!is_sort && !IsA(path, WindowAggPath))
		return NULL;
	from = path_input(path);
	to = windows_above(from, lowest, sorted);
	if (to == NULL)
		return NULL;
	copy = memcpy(palloc(size), path, size);
	if (is_sort)
		((SortPath *) copy)->subpath = to;
	else
		((WindowAggPath *) copy)->subpath = to;
	copy->total_cost += to->total_cost - from->total_cost;
	copy->startup_cost += is_sort ? to->total_cost - from->total_cost : to->startup_cost - from->startup_cost;
	copy->parallel_safe = copy->parallel_safe && to->parallel_safe;
	return copy;
}

/* Window functions: the windows of PostgreSQL's path above our parallel sort. */
static void
offer_windows(Grouping *grouping)
{
	const Path *windows = grouping->path;
	const Path *lowest = NULL;
	SortOffer	sort = {0};
	Peer		peer;
	Path	   *ours;

	for (const Path *path = windows; path != NULL && path->parent != grouping->input_rel; path = path_input(path))
	{
		if (IsA(path, SortPath))
			lowest = path;
	}
	if (lowest == NULL)
		return;
	grouping->path = lowest;
	sort.pathkeys = lowest->pathkeys;
	if (!find_faster_sort(grouping, &sort, 0, &peer))
		return;
	ours = windows_above(windows, lowest, sort_offer_path(grouping->root, grouping->rel, &sort, &peer));
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
