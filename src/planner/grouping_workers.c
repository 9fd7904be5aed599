/*
 * grouping_workers.c
 *	  DISTINCT and GROUP BY in the workers of a parallel plan: sorts, and groups of sorted rows, which take the place
 *	  of groups in the leader, or of PostgreSQL's hash table in each worker; and groups in the leader, where workers
 *	  would save less time than the leader needs to combine their groups.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/tlist.h"
#include "planner/grouping.h"

/* How much faster than a hash table in each worker sorts in the workers must be, beside the margin for one process. */
#define MARGIN_WORKERS	0.2

/* Further margin if these hash tables stay in the CPU's caches and the sorts move rows. */
#define MARGIN_CACHED	0.3

/* Groups of all rows in the leader must take at most this share of the time of partial groups of sorted rows. */
#define LEADER_MOST		0.8

/*
 * Time of a row for a transition value of type internal, for which PostgreSQL counts one operator: the sum of a
 * numeric takes 48 ns more than that of a float8.
 */
#define INTERNAL_ROW_NS 40.0

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

/* Do aggregates read values of varying length, or has the input of the hash tables such columns besides the group's? */
static bool
reads_varlena_values(const AggPath *hashed)
{
	const PathTarget *target = hashed->subpath->pathtarget;
	ListCell   *lc;

	foreach(lc, hashed->path.pathtarget->exprs)
	{
		const Aggref *aggref = lfirst(lc);
		ListCell   *arg;

		if (!IsA(aggref, Aggref))
			continue;
		foreach(arg, aggref->args)
		{
			if (type_is_varlena(exprType((Node *) lfirst_node(TargetEntry, arg)->expr)))
				return true;
		}
	}
	foreach(lc, target->exprs)
	{
		if (type_is_varlena(exprType(lfirst(lc))) &&
			!is_group_column(hashed->groupClause, target, foreach_current_index(lc)))
			return true;
	}
	return false;
}

/*
 * Are sorted rows in the workers faster than their hash tables, by the grouping's margin and a further one?  own_us:
 * the time of the sorts and of what groups their rows, less what reading by page saves.  If they are, fills the peer.
 */
static bool
workers_are_faster(const Grouping *grouping, const AggPath *hashed, const GroupFacts *facts, double own_us,
				   const AggClauseCosts *costs, double further_margin, Peer *peer)
{
	double		margin = grouping->margin + further_margin;

	peer->sort = false;
	peer->own = margin * (hashed->path.total_cost - hashed->subpath->total_cost);
	peer->us = hash_in_workers_us(*facts, hashed->subpath, costs);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %s: %.1f ms above our sorts in workers, %.1f ms in hash tables",
							 grouping->name, margin * own_us / 1000, peer->us / 1000)));
	return margin * own_us < peer->us && temp_files_allowed(hashed->subpath->rows * facts->row_bytes);
}

void
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
	facts.quiet = sort.time.needs_disk;
	count_cached_runs(&sort);
	sort.time.sort_us -= reading_saves_us(hashed->subpath, sort.time.sort_us);
	if (!workers_are_faster(grouping, hashed, &facts, sort.time.sort_us + sort.time.rows_us, &none, MARGIN_WORKERS,
							&peer))
		return;
	add_unique_path(grouping, &sort, columns, &peer);
}

bool
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
	own_us = partial_groups_us(&partial) - partial.input_us;
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
		if (!is_faster(grouping, partial.input_us, own_us - partial.cached_us,
					   us_of_cost(grouping->input->total_cost), &peer))
			return false;
	}
	path = partial_groups_path(root, grouping->rel, extra, &partial, compat_group_clause(root),
							   grouping->most_groups, &peer, &peer);
	add_above(grouping, path, ((AggPath *) path)->subpath, &peer, partial.final_us);
	return true;
}

/* Takes what the sorts save beside hash tables off their time: runs in the cache, and reading by page. */
static void
count_savings(PartialGroups *partial)
{
	partial->sort_us -= partial->cached_us;
	partial->sort_us -= reading_saves_us(partial->input, partial->sort_us);
}

/*
 * Offers our sort, whose rows the leader groups, in place of PostgreSQL's hash tables in the workers and of what
 * combines their groups.  Many groups of few rows, whose transition values are serialized, are combined in more time
 * than the workers save.
 *
 * They must be faster than the hash tables if there are as few groups as may be, and than partial groups of sorted rows
 * if there are as many.  False if they are not.  partial: such partial groups, as few as may be.
 */
static bool
offer_groups_in_leader(Grouping grouping, const GroupPathExtraData *extra, const AggPath *hashed, GroupFacts facts,
					   const PartialGroups *partial, bool any_order)
{
	SortOffer	sort = {.pathkeys = grouping.root->group_pathkeys,.any_order = any_order};
	double		group_us = grouping_us(facts, facts.rows, facts.groups, &grouping.costs);
	GroupFacts	most = facts;
	PartialGroups many;
	double		rows_us = facts.rows * internal_states(grouping.root) * INTERNAL_ROW_NS / 1000;
	double		rows_in_workers_us = rows_us / sort_abreast(partial->participants);
	double		leader_us;
	double		workers_us;
	Peer		peer = {.own = grouping.path->total_cost - hashed->subpath->total_cost};

	most.groups = grouping.possible_groups;
	if (!find_sort_below(&grouping, false, &sort) ||
		!find_partial_groups(grouping.root, grouping.rel, extra, &most, partial->input, any_order, &many))
		return false;
	count_savings(&many);
	/* PostgreSQL does not divide the costs of pages between workers */
	many.input_us = Min(many.input_us, us_of_cost(grouping.input->total_cost));
	leader_us = sort.own_us + group_us + rows_us;
	workers_us = partial_groups_us(&many) + rows_in_workers_us;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: GROUP BY: %.1f ms above our sort, %.1f ms with partial groups in %d workers",
							 (sort.input_us + leader_us) / 1000, workers_us / 1000, partial->input->parallel_workers)));
	if (sort.input_us + leader_us > LEADER_MOST * workers_us)
		return false;
	facts.quiet = sort.time.needs_disk;
	peer.us = hash_in_workers_us(facts, hashed->subpath, &extra->agg_partial_costs) + rows_in_workers_us +
		combining_us(partial);
	grouping.margin += MARGIN_WORKERS;
	if (!is_faster(&grouping, sort.input_us, leader_us, many.input_us, &peer) ||
		sort.input->total_cost + peer_cost(&peer, leader_us) >= grouping.path->total_cost)
		return false;
	add_sorted_groups(&grouping, (List *) extra->havingQual, &sort, group_us + rows_us, &peer);
	return true;
}

/* Offers partial groups of sorted rows in place of PostgreSQL's hash tables. */
static void
offer_sorted_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, const AggPath *hashed,
							const GroupFacts *facts, PartialGroups *partial)
{
	PlannerInfo *root = grouping->root;
	double		margin = MARGIN_WORKERS;
	Peer		peer;
	Peer		combines;
	Path	   *path;

	if (!partial->share.keys_only &&
		!hash_exceeds_caches(Min(partial->groups * facts->entry_bytes, facts->memory) * partial->participants))
	{
		/* with hash tables in the caches, sorts may lose if they write runs or aggregates read texts or numerics */
		if (partial_sorts_may_spill(partial) || reads_varlena_values(hashed))
			return;
		margin += MARGIN_CACHED;
	}
	if (!workers_are_faster(grouping, hashed, facts, partial->sort_us + partial->group_us, &extra->agg_partial_costs,
							margin, &peer))
		return;
	/* groups of either kind are combined in the same time */
	combines.own = Max(0, grouping->path->total_cost - hashed->path.total_cost - parallel_setup_cost);
	combines.us = combining_us(partial);
	path = partial_groups_path(root, grouping->rel, extra, partial, compat_group_clause(root), grouping->most_groups,
							   &peer, &combines);
	add_above(grouping, path, ((AggPath *) path)->subpath, &combines, partial->final_us);
}

void
offer_sorts_for_hash_in_workers(const Grouping *grouping, const GroupPathExtraData *extra, bool any_order)
{
	const AggPath *hashed = hashed_in_workers(grouping);
	PartialGroups partial;
	GroupFacts	facts;

	if (hashed == NULL)
		return;
	worker_facts(grouping, hashed, &facts);
	if (!find_partial_groups(grouping->root, grouping->rel, extra, &facts, hashed->subpath, any_order, &partial))
		return;
	count_savings(&partial);
	if (offer_groups_in_leader(*grouping, extra, hashed, facts, &partial, any_order))
		return;
	facts.quiet = partial.needs_disk;
	offer_sorted_partial_groups(grouping, extra, hashed, &facts, &partial);
}
