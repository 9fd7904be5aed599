/*
 * grouping_peer.c
 *	  Compares our sort below a grouping with the work of PostgreSQL's path, its peer.
 *
 * grouping.c tells which paths are peers.  This file predicts the times of both and adds a path of ours
 * at a cost in proportion to the peer's (planner_internal.h).
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/nodeAgg.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "planner/grouping.h"
#include "utils/fmgroids.h"
#include "utils/selfuncs.h"

/* Bytes of a bucket array for each entry of a hash table. */
#define BUCKET_BYTES	32

/*
 * Time that our sort saves for each row of a table scan, because it reads the table by page
 * (src/scan).  Measured were 25 to 27 ns without a filter, and 5 to 25 with one.  A row of another
 * node costs more than sort_cost.c counts.
 */
#define PAGE_SAVES_NS			25.0
#define FILTERED_PAGE_SAVES_NS	10.0
#define NODE_COSTS_NS			12.0

/* ------------------------------------------------------------------------
 * Numbers of groups
 * ------------------------------------------------------------------------
 */

/* PostgreSQL limits its estimate for several columns of a table to a tenth of the rows, less what rounding takes. */
#define LIMITED_SHARE	0.099

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

double
groups_at_least(PlannerInfo *root, List *clause, List *tlist, double rows, double estimate, double *possible)
{
	List	   *exprs = get_sortgrouplist_exprs(clause, tlist);
	double		most = 1;
	double		independent = 1;
	double		groups = 0;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		double		values = most_values(lfirst(lc));

		most *= values;
		if (list_length(exprs) > 1)
		{
			values = Min(values, estimate_num_groups(root, list_make1(lfirst(lc)), rows, NULL, NULL));
			/* a thousand times as many as rows: one row a group */
			independent = Min(independent * values, 1000 * rows);
			groups = Max(groups, values);
		}
	}
	estimate = Max(1, Min(estimate, most));
	if (possible != NULL)
	{
		*possible = estimate;
		/* groups of independent columns among this number of rows */
		if (groups > 0 && estimate >= LIMITED_SHARE * rows)
			*possible = Max(estimate, independent * -expm1(-rows / independent));
	}
	return groups > 0 ? Min(estimate, groups) : estimate;
}

bool
is_group_column(List *clause, const PathTarget *target, int column)
{
	Index		ref = get_pathtarget_sortgroupref(target, column);

	return ref != 0 && get_sortgroupref_clause_noerr(ref, clause) != NULL;
}

void
count_keys(List *clause, const PathTarget *target, GroupFacts *facts)
{
	ListCell   *lc;

	facts->keys = list_length(clause);
	foreach(lc, target->exprs)
	{
		if (type_is_varlena(exprType(lfirst(lc))) && is_group_column(clause, target, foreach_current_index(lc)))
			facts->varlena_keys++;
	}
}

/* ------------------------------------------------------------------------
 * The peer
 * ------------------------------------------------------------------------
 */

void
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
	facts->quiet = grouping->quiet;
}

const Path *
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

double
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

double
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

double
reading_saves_us(const Path *path, double sort_us)
{
	int			workers = path->parallel_workers;
	double		rows = path->rows;
	double		row_ns;

	if (workers > 0)
		rows *= shares_on_cpus(workers, 0);
	path = path_below_projection(path);
	if (path->pathtype != T_SeqScan)
		return -rows * NODE_COSTS_NS / 1000;
	row_ns = path->parent->baserestrictinfo == NIL ? PAGE_SAVES_NS : FILTERED_PAGE_SAVES_NS;
	return Min(sort_us, rows * row_ns / 1000);
}

bool
find_sort_below(const Grouping *grouping, bool replaces, SortOffer *sort)
{
	double		saved_us;

	if (pathkeys_contained_in(sort->pathkeys, grouping->input->pathkeys) ||
		!find_sort(grouping->root, grouping->rel, grouping->input_rel, grouping->input, sort) ||
		(!replaces && !sort_files_allowed(sort)))
		return false;
	if (!replaces)
		count_cached_runs(sort);
	sort->time.sort_us += sort->time.group_us;
	saved_us = reading_saves_us(sort->input, sort->time.sort_us);
	sort->own_us += sort->time.group_us - saved_us;
	/* a Sort that is replaced where it is reads by page, too */
	if (!replaces)
		sort->time.sort_us -= saved_us;
	return true;
}

bool
find_sort_and_peer(const Grouping *grouping, SortOffer *sort, Peer *peer)
{
	Grouping	quiet = *grouping;

	if (!find_peer(grouping, peer) || !find_sort_below(grouping, peer->sort, sort))
		return false;
	/* runs that may wait for a disk are compared with a table on a quiet machine */
	quiet.quiet = true;
	if (sort->time.needs_disk)
		(void) find_peer(&quiet, peer);
	return true;
}

bool
is_faster(const Grouping *grouping, double our_input_us, double own_us, double their_input_us, Peer *peer)
{
	double		ours = our_input_us + grouping->margin * own_us;
	double		theirs = their_input_us + peer->us;

	ereport(DEBUG1,
			(errmsg_internal("gpusort: %s: %.1f ms above our sort, %.1f ms else: %s", grouping->name, ours / 1000,
							 theirs / 1000, ours < theirs ? "a path is added" : "PostgreSQL's paths stay")));
	if (ours >= theirs)
		return false;
	peer->own *= grouping->margin;
	return true;
}

bool
sort_is_faster_in_mean(const Grouping *grouping, const SortOffer *sort, double group_us, double most_group_us,
					   const Peer *peer)
{
	Grouping	most = *grouping;
	Peer		most_peer;
	double		input_us = us_of_cost(grouping->input->total_cost);
	double		ours = sort->input_us + grouping->margin * (sort->own_us + group_us);
	double		most_ours = sort->input_us + grouping->margin * (sort->own_us + most_group_us);

	most.groups = grouping->possible_groups;
	most.quiet = sort->time.needs_disk;
	return most.groups > grouping->groups && !peer->sort && find_peer(&most, &most_peer) &&
		ours * most_ours < (input_us + peer->us) * (input_us + most_peer.us);
}

bool
sort_is_faster(const Grouping *grouping, const SortOffer *sort, double group_us, Peer *peer)
{
	/* PostgreSQL's Sort is replaced where it is */
	if (peer->sort)
		return sort->parallel;
	return is_faster(grouping, sort->input_us, sort->own_us + group_us, us_of_cost(grouping->input->total_cost), peer);
}

bool
find_faster_sort(const Grouping *grouping, SortOffer *sort, double group_us, Peer *peer)
{
	return find_sort_and_peer(grouping, sort, peer) && sort_is_faster(grouping, sort, group_us, peer);
}

void
add_grouping_path(const Grouping *grouping, Path *path)
{
	if (!path_has_target(path, grouping->path->pathtarget))
		path = (Path *) create_projection_path(grouping->root, grouping->rel, path, grouping->path->pathtarget);
	add_path(grouping->rel, path);
}

void
add_above(const Grouping *grouping, Path *path, const Path *input, const Peer *peer, double group_us)
{
	path->startup_cost = input->startup_cost;
	path->total_cost = input->total_cost + peer_cost(peer, group_us);
	add_grouping_path(grouping, path);
}

void
add_sorted_groups(const Grouping *grouping, List *having, const SortOffer *sort, double group_us, const Peer *peer)
{
	PlannerInfo *root = grouping->root;
	List	   *clause = compat_group_clause(root);
	Path	   *input = sort_offer_path(root, grouping->rel, sort, peer);
	Path	   *path;

	if (root->parse->hasAggs)
		path = (Path *) create_agg_path(root, grouping->rel, input, grouping->rel->reltarget, AGG_SORTED,
										AGGSPLIT_SIMPLE, clause, having, &grouping->costs, grouping->most_groups);
	else
		path = (Path *) create_group_path(root, grouping->rel, input, clause, having, grouping->most_groups);
	add_above(grouping, path, input, peer, group_us);
}

void
add_unique_path(const Grouping *grouping, const SortOffer *sort, int columns, const Peer *peer)
{
	Path	   *input = sort_offer_path(grouping->root, grouping->rel, sort, peer);

	add_above(grouping, compat_create_unique_path(grouping->root, grouping->rel, input, columns,
												  grouping->most_groups), input, peer, 0);
}
