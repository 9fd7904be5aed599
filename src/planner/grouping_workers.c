/*
 * grouping_workers.c
 *	  DISTINCT and GROUP BY in the workers of a parallel plan: sorts, and groups of sorted rows, which take the place
 *	  of groups in the leader, or of PostgreSQL's hash table in each worker; and groups in the leader, where
 *	  few rows have the same group.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/tlist.h"
#include "planner/grouping.h"
#include "utils/selfuncs.h"

/* How much faster than a hash table in each worker sorts in the workers must be, beside the margin for one process. */
#define MARGIN_WORKERS	0.2

/* Further margin if these hash tables stay in the CPU's caches and the sorts move rows. */
#define MARGIN_CACHED	0.3

/*
 * Groups of all rows in the leader must take at most this share of the time of partial groups of sorted rows, and a
 * partial group must have at most this number of rows on average.
 */
#define LEADER_MOST		0.8
#define LEADER_ROWS		10

/*
 * Time of a row for a transition value of type internal, for which PostgreSQL counts one operator.  The sum of a
 * numeric takes 48 ns more than the sum of a float8; other aggregates take less.
 */
#define INTERNAL_ROW_NS 40.0

/* PostgreSQL's partial groups in each worker, with which a path begins. */
typedef struct WorkerGroups
{
	const AggPath *agg;
	Path	   *input;			/* below a hash table or Sort of each worker */
	bool		hashed;
} WorkerGroups;

/* Finds these, if a Gather of ours may take their place. */
static bool
find_groups_in_workers(const Grouping *grouping, WorkerGroups *theirs)
{
	const Path *path = grouping->path;

	while (path != NULL && !IsA(path, GatherPath) && !IsA(path, GatherMergePath))
		path = path_input(path);
	if (path == NULL || !gather_is_possible(grouping->root, grouping->rel, grouping->input_rel, grouping->input))
		return false;
	path = IsA(path, GatherPath) ? ((const GatherPath *) path)->subpath : ((const GatherMergePath *) path)->subpath;
	while (path != NULL && !IsA(path, AggPath))
		path = path_input(path);
	if (path == NULL)
		return false;
	theirs->agg = (const AggPath *) path;
	theirs->input = theirs->agg->subpath;
	theirs->hashed = theirs->agg->aggstrategy == AGG_HASHED;
	if (!theirs->hashed)
	{
		if (!IsA(theirs->input, SortPath))
			return false;
		theirs->input = ((SortPath *) theirs->input)->subpath;
	}
	return theirs->input->parent == grouping->input_rel;
}

/* The facts of these groups: all rows and groups. */
static void
worker_facts(const Grouping *grouping, const WorkerGroups *theirs, GroupFacts *facts)
{
	group_facts(grouping, facts);
	count_keys(theirs->agg->groupClause, theirs->agg->path.pathtarget, facts);
}

/* Do aggregates read values of varying length, or has the input of the hash tables such columns besides the group's? */
static bool
reads_varlena_values(const WorkerGroups *theirs)
{
	const PathTarget *target = theirs->input->pathtarget;
	ListCell   *lc;

	foreach(lc, theirs->agg->path.pathtarget->exprs)
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
			!is_group_column(theirs->agg->groupClause, target, foreach_current_index(lc)))
			return true;
	}
	return false;
}

/*
 * Are sorted rows in the workers faster than their hash tables, by the grouping's margin and a further one?  own_us:
 * the time of the sorts and of what groups their rows, less what reading by page saves.  If they are, fills the peer.
 */
static bool
workers_are_faster(const Grouping *grouping, const WorkerGroups *theirs, const GroupFacts *facts, double own_us,
				   const AggClauseCosts *costs, double further_margin, Peer *peer)
{
	double		margin = grouping->margin + further_margin;

	peer->sort = false;
	peer->own = margin * (theirs->agg->path.total_cost - theirs->input->total_cost);
	peer->us = hash_in_workers_us(*facts, theirs->input, costs);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %s: %.1f ms above our sorts in workers, %.1f ms in hash tables",
							 grouping->name, margin * own_us / 1000, peer->us / 1000)));
	return margin * own_us < peer->us && temp_files_allowed(theirs->input->rows * facts->row_bytes);
}

void
offer_unique_in_workers(const Grouping *grouping, List *pathkeys, int columns)
{
	static const AggClauseCosts none = {0};
	SortOffer	sort = {.pathkeys = pathkeys,.groups = grouping->groups};
	WorkerGroups theirs;
	GroupFacts	facts;
	Peer		peer;

	if (!find_groups_in_workers(grouping, &theirs) || !theirs.hashed ||
		!find_sort_in_workers(grouping->root, theirs.input, &sort))
		return;
	worker_facts(grouping, &theirs, &facts);
	facts.quiet = sort.time.needs_disk;
	count_cached_runs(&sort);
	sort.time.sort_us -= reading_saves_us(theirs.input, sort.time.sort_us);
	if (!workers_are_faster(grouping, &theirs, &facts, sort.time.sort_us + sort.time.rows_us, &none, MARGIN_WORKERS,
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
	own_us = partial.sort_us + partial.group_us + combining_us(&partial);
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
 * Does the expected number of groups come from a column or expression that has statistics or is unique?  PostgreSQL
 * assumes as many values of date_trunc('day', t) as t has.
 */
static bool
groups_are_known(const Grouping *grouping)
{
	PlannerInfo *root = grouping->root;
	ListCell   *lc;

	foreach(lc, get_sortgrouplist_exprs(compat_group_clause(root), grouping->tlist))
	{
		VariableStatData var;
		bool		known;

		examine_variable(root, lfirst(lc), 0, &var);
		known = HeapTupleIsValid(var.statsTuple) || var.isunique;
		ReleaseVariableStats(var);
		if (known && grouping->groups <=
			estimate_num_groups(root, list_make1(lfirst(lc)), grouping->input->rows, NULL, NULL))
			return true;
	}
	return false;
}

/*
 * Offers our sort, whose rows the leader groups, in place of PostgreSQL's groups in workers and of what combines them.
 * If groups have few rows, the leader combines nearly as many partial groups as it would take rows, and transition
 * values may have to be serialized.
 *
 * The groups in the leader must be faster than PostgreSQL's plan and than partial groups of sorted rows, both for the
 * least number of groups, for which partial groups take least time.  False if they are not.
 */
static bool
offer_groups_in_leader(const Grouping *grouping, const GroupPathExtraData *extra, const WorkerGroups *theirs,
					   GroupFacts facts, const PartialGroups *partial, bool any_order)
{
	Grouping	in_leader = *grouping;
	SortOffer	sort = {.pathkeys = grouping->root->group_pathkeys,.any_order = any_order};
	double		transitions_us = facts.rows * internal_states(grouping->root) * INTERNAL_ROW_NS / 1000;
	double		in_workers_us = transitions_us / sort_abreast(partial->participants);
	/* PostgreSQL does not divide the costs of pages between workers */
	double		input_us = Min(partial->input_us, us_of_cost(grouping->input->total_cost));
	double		group_us = grouping_us(facts, facts.rows, facts.groups, &grouping->costs) + transitions_us;
	double		partial_us = input_us + partial->sort_us + partial->group_us + combining_us(partial) + in_workers_us;
	double		own_us;
	Peer		peer = {0};

	if (partial->sent * LEADER_ROWS < facts.rows || !groups_are_known(grouping) ||
		!find_sort_below(grouping, false, &sort))
		return false;
	own_us = sort.own_us + group_us;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: GROUP BY: %.1f ms in the leader, %.1f ms with partial groups in %d workers",
							 (sort.input_us + own_us) / 1000, partial_us / 1000, theirs->input->parallel_workers)));
	if (sort.input_us + own_us > LEADER_MOST * partial_us)
		return false;

	facts.quiet = sort.time.needs_disk;
	peer.own = grouping->path->total_cost - theirs->input->total_cost;
	peer.us = in_workers_us + combining_us(partial);
	peer.us += theirs->hashed ? hash_in_workers_us(facts, theirs->input, &extra->agg_partial_costs) :
		partial->sort_us + partial->group_us;
	in_leader.margin += MARGIN_WORKERS;
	/* add_path() would refuse a path of higher cost, and sorted partial groups may still be offered */
	if (sort.input->total_cost + (sort.parallel ? parallel_setup_cost : 0) +
		in_leader.margin * peer_cost(&peer, own_us) >= grouping->path->total_cost ||
		!is_faster(&in_leader, sort.input_us, own_us, input_us, &peer))
		return false;
	add_sorted_groups(&in_leader, (List *) extra->havingQual, &sort, group_us, &peer);
	return true;
}

/* Offers partial groups of sorted rows in place of PostgreSQL's hash tables. */
static void
offer_sorted_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, const WorkerGroups *theirs,
							const GroupFacts *facts, PartialGroups *partial)
{
	double		margin = MARGIN_WORKERS;
	/* groups of either kind are combined in about the same time */
	Peer		combines = {
		.own = Max(0, grouping->path->total_cost - theirs->agg->path.total_cost - parallel_setup_cost),
		.us = combining_us(partial)
	};
	Peer		peer;
	Path	   *path;

	if (!partial->share.keys_only &&
		!hash_exceeds_caches(Min(partial->groups * facts->entry_bytes, facts->memory) * partial->participants))
	{
		/* with hash tables in the caches, sorts may lose if they write runs or aggregates read texts or numerics */
		if (partial_sorts_may_spill(partial) || reads_varlena_values(theirs))
			return;
		margin += MARGIN_CACHED;
	}
	if (!workers_are_faster(grouping, theirs, facts, partial->sort_us + partial->group_us, &extra->agg_partial_costs,
							margin, &peer))
		return;
	path = partial_groups_path(grouping->root, grouping->rel, extra, partial, compat_group_clause(grouping->root),
							   grouping->most_groups, &peer, &combines);
	add_above(grouping, path, ((AggPath *) path)->subpath, &combines, partial->final_us);
}

void
offer_sorts_for_groups_in_workers(const Grouping *grouping, const GroupPathExtraData *extra, bool any_order)
{
	WorkerGroups theirs;
	PartialGroups partial;
	GroupFacts	facts;

	if (!find_groups_in_workers(grouping, &theirs))
		return;
	worker_facts(grouping, &theirs, &facts);
	if (!find_partial_groups(grouping->root, grouping->rel, extra, &facts, theirs.input, any_order, &partial))
		return;
	count_savings(&partial);
	if (offer_groups_in_leader(grouping, extra, &theirs, facts, &partial, any_order) || !theirs.hashed)
		return;
	facts.quiet = partial.needs_disk;
	offer_sorted_partial_groups(grouping, extra, &theirs, &facts, &partial);
}
