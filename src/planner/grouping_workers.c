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
 * Groups of all rows in the leader must take at most this share of the time of partial groups of sorted rows that the
 * leader combines, if the number of groups is known, and a partial group must have at most this number of rows on
 * average.
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
 * the time of the sorts and of what groups their rows, less what reading by page saves, and what combines the groups
 * saves.  If they are, fills the peer.
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

/*
 * Groups by several columns may be as few as the values of one of them, or as many as those of independent columns.
 * Is one plan at most this share of another's time, in the geometric mean of both numbers of groups?
 */
static bool
is_share_of(double least, double most, double share, double other_least, double other_most)
{
	return least * most <= share * share * other_least * other_most;
}

/* Decides whether partial groups are combined in all processes.  They differ in the number of groups. */
static void
choose_division(PartialGroups *least, PartialGroups *most)
{
	least->divided = most->divided = is_share_of(least->divided_us, most->divided_us, WORKERS_MOST,
												 gathered_us(least), gathered_us(most));
}

bool
offer_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, GroupFacts facts, double group_us,
					 const SortOffer *sort, Peer peer)
{
	PlannerInfo *root = grouping->root;
	Path	   *input;
	PartialGroups least;
	PartialGroups most;
	double		least_us;
	double		most_us;
	double		leader_us;
	double		own_us;

	if (!gather_is_possible(root, grouping->rel, grouping->input_rel, grouping->input))
		return false;
	input = sort->parallel ? sort->input : linitial(grouping->input_rel->partial_pathlist);
	if (!find_partial_groups(root, grouping->rel, extra, &facts, input, sort->any_order, &least))
		return false;
	facts.groups = grouping->possible_groups;
	if (!find_partial_groups(root, grouping->rel, extra, &facts, input, sort->any_order, &most))
		return false;
	choose_division(&least, &most);
	most.sort_us -= reading_saves_us(most.input, most.sort_us);
	own_us = most.sort_us + most.group_us + combining_us(&most);
	most_us = most.input_us + own_us;
	least_us = most.input_us + most.sort_us + least.group_us + combining_us(&least);
	leader_us = sort->input_us + sort->own_us + (peer.sort ? 0 : sort->time.cached_us) + group_us;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: GROUP BY: %.1f to %.1f ms with partial groups in %d workers, %.1f ms without",
							 least_us / 1000, most_us / 1000, most.input->parallel_workers, leader_us / 1000)));
	/* with more groups they save less */
	if (!is_share_of(least_us, most_us, WORKERS_MOST, leader_us, leader_us))
		return false;
	if (!peer.sort)
	{
		most.sort_us -= most.cached_us;
		if (!is_faster(grouping, most.input_us, own_us - most.cached_us, us_of_cost(grouping->input->total_cost),
					   &peer))
			return false;
	}
	add_grouping_path(grouping, partial_groups_path(root, grouping->rel, extra, &most, compat_group_clause(root),
													grouping->most_groups, &peer, &peer));
	return true;
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

/* Plans in workers and in the leader, for one of the numbers of groups. */
typedef struct GroupTimes
{
	PartialGroups partial;		/* of sorted rows */
	/* predicted times, with reading the input */
	double		gathered_us;	/* of these partial groups, combined in the leader */
	double		combined_us;	/* the same as the plan combines them */
	double		theirs_us;		/* of PostgreSQL's plan */
	double		theirs_own_us;	/* without reading the input */
	double		leader_us;		/* of our sort, whose rows the leader groups */
	double		leader_own_us;
	double		group_us;		/* of the leader's groups */
} GroupTimes;

/*
 * Predicts the times of partial groups of sorted rows.  facts: of all rows and groups.  False if there are no such
 * groups.
 */
static bool
find_partial_times(const Grouping *grouping, const GroupPathExtraData *extra, const WorkerGroups *theirs,
				   const GroupFacts *facts, bool any_order, GroupTimes *times)
{
	PartialGroups *partial = &times->partial;

	if (!find_partial_groups(grouping->root, grouping->rel, extra, facts, theirs->input, any_order, partial))
		return false;
	/* what sorts save beside hash tables: runs in the cache, and reading by page */
	partial->sort_us -= partial->cached_us;
	partial->sort_us -= reading_saves_us(partial->input, partial->sort_us);
	return true;
}

/* Predicts the other times. */
static void
compare_with_leader(const Grouping *grouping, const GroupPathExtraData *extra, const WorkerGroups *theirs,
					GroupFacts facts, const SortOffer *sort, GroupTimes *times)
{
	const PartialGroups *partial = &times->partial;
	double		transitions_us = facts.rows * internal_states(grouping->root) * INTERNAL_ROW_NS / 1000;
	double		workers_us = transitions_us / sort_abreast(partial->participants);
	double		sorted_us = partial->sort_us + partial->group_us;
	/* PostgreSQL does not divide the costs of pages between workers */
	double		input_us = Min(partial->input_us, us_of_cost(grouping->input->total_cost));

	facts.quiet = sort->time.needs_disk;
	times->group_us = grouping_us(facts, facts.rows, facts.groups, &grouping->costs) + transitions_us;
	times->leader_own_us = sort->own_us + times->group_us;
	times->leader_us = sort->input_us + times->leader_own_us;
	times->gathered_us = input_us + sorted_us + workers_us + gathered_us(partial);
	times->combined_us = times->gathered_us - gathered_us(partial) + combining_us(partial);
	times->theirs_own_us = workers_us + gathered_us(partial) +
		(theirs->hashed ? hash_in_workers_us(facts, theirs->input, &extra->agg_partial_costs) : sorted_us);
	times->theirs_us = input_us + times->theirs_own_us;
}

/*
 * Offers our sort, whose rows the leader groups, in place of PostgreSQL's groups in workers and of what combines them.
 * If groups have few rows, the leader combines nearly as many partial groups as it would take rows, and transition
 * values may have to be serialized.
 *
 * The number of groups hardly matters to the leader's groups of sorted rows, but much to all others.  So these must be
 * faster than partial groups of sorted rows, also divided ones, in the mean of both numbers, faster than PostgreSQL's
 * plan by the margin for the greater one, and not slower for the least.  False if they are not.
 */
static bool
offer_groups_in_leader(const Grouping *grouping, const GroupPathExtraData *extra, const WorkerGroups *theirs,
					   GroupFacts facts, bool any_order, GroupTimes *least, GroupTimes *most)
{
	Grouping	in_leader = *grouping;
	SortOffer	sort = {.pathkeys = grouping->root->group_pathkeys,.any_order = any_order};
	GroupFacts	expected = facts;
	Peer		peer = {0};

	expected.groups = grouping->possible_groups;
	if (most->partial.sent * LEADER_ROWS < facts.rows || !groups_are_known(grouping) ||
		!find_sort_below(grouping, false, &sort))
		return false;
	compare_with_leader(grouping, extra, theirs, facts, &sort, least);
	compare_with_leader(grouping, extra, theirs, expected, &sort, most);
	in_leader.margin += MARGIN_WORKERS;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: GROUP BY: %.1f to %.1f ms in the leader, %.1f to %.1f ms with partial groups "
							 "in %d workers, %.1f to %.1f ms by PostgreSQL's plan",
							 least->leader_us / 1000, most->leader_us / 1000, least->combined_us / 1000,
							 most->combined_us / 1000, theirs->input->parallel_workers, least->theirs_us / 1000,
							 most->theirs_us / 1000)));
	if (!is_share_of(least->leader_us, most->leader_us, expected.groups > facts.groups ? 1 : LEADER_MOST,
					 least->gathered_us, most->gathered_us) ||
		!is_share_of(least->leader_us, most->leader_us, 1, least->combined_us, most->combined_us) ||
		least->leader_us >= least->theirs_us ||
		sort.input_us + in_leader.margin * most->leader_own_us >= most->theirs_us)
		return false;

	peer.own = grouping->path->total_cost - theirs->input->total_cost;
	peer.us = most->theirs_own_us;
	/* add_path() would refuse a path of higher cost, and sorted partial groups may still be offered */
	if (sort.input->total_cost + (sort.parallel ? parallel_setup_cost : 0) +
		peer_cost(&peer, in_leader.margin * most->leader_own_us) >= grouping->path->total_cost)
		return false;
	peer.own *= in_leader.margin;
	add_sorted_groups(&in_leader, (List *) extra->havingQual, &sort, most->group_us, &peer);
	return true;
}

/*
 * Offers partial groups of sorted rows in place of PostgreSQL's hash tables, or of what combines its groups.  They must
 * be faster for the least number of groups.  What combines them is planned for the greater number, whose costs
 * PostgreSQL's path has.
 */
static void
offer_sorted_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, const WorkerGroups *theirs,
							const GroupFacts *facts, const PartialGroups *least, const PartialGroups *most)
{
	double		margin = MARGIN_WORKERS;
	double		own_us = least->sort_us + least->group_us;
	/* partial groups of either kind are combined in the leader in about the same time */
	Peer		combines = {
		.own = Max(0, grouping->path->total_cost - theirs->agg->path.total_cost - parallel_setup_cost),
		.us = gathered_us(most)
	};
	PartialGroups offer = *most;
	/* a Sort of PostgreSQL's plan is replaced where it is */
	Peer		peer = {.own = theirs->agg->path.total_cost - theirs->input->total_cost,.us = own_us};

	if (theirs->hashed && !least->share.keys_only &&
		!hash_exceeds_caches(Min(least->groups * facts->entry_bytes, facts->memory) * least->participants))
	{
		/* with hash tables in the caches, sorts may lose if they write runs or aggregates read texts or numerics */
		if (partial_sorts_may_spill(least) || reads_varlena_values(theirs))
			return;
		margin += MARGIN_CACHED;
	}
	offer.sort_us = least->sort_us;
	offer.group_us = least->group_us;
	own_us -= gathered_us(least) - combining_us(least);
	if (!theirs->hashed ||
		workers_are_faster(grouping, theirs, facts, own_us, &extra->agg_partial_costs, margin, &peer))
		add_grouping_path(grouping, partial_groups_path(grouping->root, grouping->rel, extra, &offer,
														compat_group_clause(grouping->root), grouping->most_groups,
														&peer, &combines));
}

void
offer_sorts_for_groups_in_workers(const Grouping *grouping, const GroupPathExtraData *extra, bool any_order)
{
	WorkerGroups theirs;
	GroupTimes	least;
	GroupTimes	most;
	GroupFacts	facts;
	GroupFacts	expected;

	if (!find_groups_in_workers(grouping, &theirs))
		return;
	worker_facts(grouping, &theirs, &facts);
	expected = facts;
	expected.groups = grouping->possible_groups;
	if (!find_partial_times(grouping, extra, &theirs, &facts, any_order, &least) ||
		!find_partial_times(grouping, extra, &theirs, &expected, any_order, &most))
		return;
	choose_division(&least.partial, &most.partial);
	if (offer_groups_in_leader(grouping, extra, &theirs, facts, any_order, &least, &most) ||
		!(theirs.hashed || least.partial.divided))
		return;
	facts.quiet = least.partial.needs_disk;
	offer_sorted_partial_groups(grouping, extra, &theirs, &facts, &least.partial, &most.partial);
}
