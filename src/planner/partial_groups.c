/*
 * partial_groups.c
 *	  GROUP BY in two steps: partial groups in the participants of a parallel plan, combined
 *	  in the leader.
 *
 * Each participant sorts its share of the rows and groups it.  Its partial groups, few rows
 * in place of many, are sorted streams that the leader's sort merges, and the node above it
 * combines the groups with equal keys.  Without this step the leader merges all rows, and
 * groups them one after another, while the participants wait.
 *
 * The nodes are those of PostgreSQL's own plan of this kind: Finalize GroupAggregate, Gather
 * Merge, Sort, Partial GroupAggregate, Sort.  The rooms of the nodes replace them.  The upper
 * Sort has sorted input: its nodes send blocks of rows where a Gather Merge reads tuple queues.  It
 * is left out where few groups are sent, for which that does not pay.
 *
 * Where many partial groups have the same group, the leader would combine them one after another.  Then a shared sort
 * (nodes/shared) divides them among the processes by ranges of keys, each process combines its own, and a Gather
 * returns the groups, in no order.
 *
 * PostgreSQL has made the partial target and the costs of the functions, because it
 * considers the same plan with its own Sort.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "compat.h"
#include "nodes/shared/shared.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "planner/planner_internal.h"
#include "settings.h"

/*
 * Time to serialize a transition value of type internal, to read it again, and to combine it.
 * PostgreSQL counts one operator for each.
 */
#define SERIALIZED_NS	300.0

/* Time to send a row by a tuple queue, and to receive it. */
#define QUEUE_ROW_NS	80.0

/* Time of a group in the sort above that an ORDER BY needs, if a Gather returns groups in no order. */
#define ORDER_GROUP_NS	60.0

/* Further time of a partial group that is merged by a worker, and again by the leader. */
#define TWO_LEVEL_NS	40.0

/*
 * A sort may spill if it would with this many times the mean share.  Measured shares reach 2.6 times the mean, mostly
 * 1.1 to 1.5; the memory that is counted for a row is up to a fifth too small (sort_cost.c).
 */
#define UNEQUAL_SHARE	1.5

/* The relation of PostgreSQL's partial groups; NULL: it makes none. */
static RelOptInfo *
find_partial_rel(PlannerInfo *root, const RelOptInfo *rel, const GroupPathExtraData *extra)
{
	ListCell   *lc;

	if ((extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0 || !extra->partial_costs_set)
		return NULL;
	foreach(lc, root->upper_rels[UPPERREL_PARTIAL_GROUP_AGG])
	{
		RelOptInfo *partial = lfirst_node(RelOptInfo, lc);

		if (bms_equal(partial->relids, rel->relids) && partial->consider_parallel)
			return partial;
	}
	return NULL;
}

int
internal_states(const PlannerInfo *root)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, root->aggtransinfos)
	{
		const AggTransInfo *trans = lfirst(lc);

		n += trans->aggtranstype == INTERNALOID;
	}
	return n;
}

double
grouping_us(GroupFacts facts, double rows, double groups, const AggClauseCosts *costs)
{
	facts.rows = rows;
	facts.groups = groups;
	return Max(0, us_of_cost(costs->transCost.startup + costs->transCost.per_tuple * rows) +
			   (gpusort_aggregates ? aggregate_node_us(&facts) : sorted_group_us(&facts)));
}

/* The participants of a parallel plan.  Each sorts or hashes a random share of the partial path's rows. */
typedef struct Shares
{
	int			n;				/* participants */
	double		rows;			/* of all participants */
	double		oversubscription;	/* participants for each that runs at a time */
} Shares;

static Shares
find_shares(const Path *input)
{
	int			n = exchange_participants(input->parallel_workers, 0);

	return (Shares) {
		.n = n,
		.rows = input->rows * shares_of(input->parallel_workers),
		.oversubscription = n / sort_abreast(n)
	};
}

/* The groups of a participant's share of the rows. */
static double
groups_of_share(const GroupFacts *groups, const Shares *shares)
{
	return groups->groups * (1 - pow(1 - 1.0 / shares->n, shares->rows / Max(groups->groups, 1)));
}

double
hash_in_workers_us(GroupFacts facts, const Path *input, const AggClauseCosts *costs)
{
	Shares		shares = find_shares(input);

	facts.rows = shares.rows / shares.n;
	facts.groups = groups_of_share(&facts, &shares);
	facts.processes = sort_abreast(shares.n);
	return (hash_group_us(&facts) + us_of_cost(costs->transCost.per_tuple * facts.rows)) * shares.oversubscription;
}

/* Time to combine partial groups of this size in all processes, and to return the groups. */
static double
divided_us(const PlannerInfo *root, const RelOptInfo *rel, const PartialGroups *offer, double row_bytes, double groups)
{
	int			processes = offer->input->parallel_workers + (parallel_leader_participation ? 1 : 0);
	double		group_ns = QUEUE_ROW_NS + QUEUE_ROW_NS / sort_abreast(processes);

	if (!rel->consider_parallel || !temp_files_allowed(offer->sent * row_bytes / processes))
		return HUGE_VAL;
	if (root->sort_pathkeys != NIL && pathkeys_contained_in(root->sort_pathkeys, root->group_pathkeys))
		group_ns += ORDER_GROUP_NS;
	return offer->merge.sort_us + groups * group_ns / 1000 +
		(sort_cost_share_us(offer->sent, row_bytes, processes, true) + offer->final_us) / sort_abreast(processes);
}

bool
find_partial_groups(PlannerInfo *root, RelOptInfo *rel, const GroupPathExtraData *extra, const GroupFacts *groups,
					Path *input, bool any_order, PartialGroups *offer)
{
	int			workers = input->parallel_workers;
	Shares		shares = find_shares(input);
	double		share = shares.rows / shares.n;
	SortCostFacts facts;
	SortCost	sort;

	memset(offer, 0, sizeof(*offer));
	offer->rel = find_partial_rel(root, rel, extra);
	if (offer->rel == NULL || share < gpusort_min_rows ||
		!sort_path_facts(root, input, root->group_pathkeys, any_order, &facts))
		return false;
	offer->input = input;
	offer->participants = shares.n;
	offer->groups = groups_of_share(groups, &shares);
	offer->input_us = setup_us(workers) + us_of_cost(input->total_cost) * shares_on_cpus(workers, 0);

	facts.rows = share;
	offer->share = facts;
	sort_cost_participant(&facts, shares.n, &sort);
	offer->sort_us = (sort.sort_us + sort.rows_us + sort.group_us) * shares.oversubscription;
	offer->cached_us = sort.cached_us * shares.oversubscription;
	offer->needs_disk = sort.needs_disk;
	offer->group_us = grouping_us(*groups, share, offer->groups, &extra->agg_partial_costs) * shares.oversubscription;

	facts.rows = offer->sent = offer->groups * shares.n;
	facts.row_bytes = stored_row_bytes(offer->rel->reltarget->width);
	facts.in_order = true;
	facts.nkeys = list_length(root->group_pathkeys);
	facts.keys_only = false;
	sort_cost_parallel(&facts, workers, &offer->merge);
	if (workers >= EXCHANGE_TWO_LEVEL_WORKERS)
		offer->merge.rows_us += facts.rows * TWO_LEVEL_NS / 1000;
	offer->final_us = grouping_us(*groups, facts.rows, groups->groups, &extra->agg_final_costs) +
		facts.rows * internal_states(root) * SERIALIZED_NS / 1000;
	offer->divided_us = divided_us(root, rel, offer, facts.row_bytes, groups->groups);
	return true;
}

bool
partial_sorts_may_spill(const PartialGroups *offer)
{
	SortCostFacts unequal = offer->share;
	SortCost	sort;

	unequal.rows *= UNEQUAL_SHARE;
	sort_cost_participant(&unequal, offer->participants, &sort);
	return sort.spills;
}

/* Adds the cost of a time to the input's. */
static void
set_cost(Path *path, const Path *input, const Peer *peer, double startup_us, double us)
{
	path->startup_cost = input->total_cost + peer_cost(peer, startup_us);
	path->total_cost = path->startup_cost + peer_cost(peer, us);
}

/* The path that merges the participants' groups, which come sorted. */
static Path *
gather_groups(PlannerInfo *root, const PartialGroups *offer, Path *below, const Peer *peer)
{
	double		rows = offer->sent;
	Path	   *path = (Path *) create_gather_merge_path(root, offer->rel, below, offer->rel->reltarget,
														 root->group_pathkeys, NULL, &rows);

	set_cost(path, below, peer, 0, offer->merge.rows_us);
	path->startup_cost += parallel_setup_cost;
	path->total_cost += parallel_setup_cost;
	return path;
}

/* The path that combines partial groups, which come sorted from each process, in all processes. */
static Path *
divided_groups_path(PlannerInfo *root, RelOptInfo *rel, const GroupPathExtraData *extra, const PartialGroups *offer,
					Path *sorted, List *clause, double groups, const Peer *combines)
{
	double		shares = shares_of(sorted->parallel_workers);
	Path	   *shared = shared_sort_path(sorted, offer->sent / shares, true);
	Path	   *combined = (Path *) create_agg_path(root, rel, shared, rel->reltarget, AGG_SORTED,
													AGGSPLIT_FINAL_DESERIAL, clause, (List *) extra->havingQual,
													&extra->agg_final_costs, clamp_row_est(groups / shares));
	Path	   *path = (Path *) create_gather_path(root, rel, combined, rel->reltarget, NULL, &groups);

	set_cost(combined, sorted, combines, 0, offer->divided_us - offer->merge.sort_us);
	path->startup_cost = sorted->total_cost + parallel_setup_cost;
	path->total_cost = combined->total_cost + parallel_setup_cost;
	return path;
}

Path *
partial_groups_path(PlannerInfo *root, RelOptInfo *rel, const GroupPathExtraData *extra, const PartialGroups *offer,
					List *clause, double groups, const Peer *peer, const Peer *combines)
{
	Path	   *sorted = (Path *) create_sort_path(root, offer->rel, offer->input, root->group_pathkeys, -1);
	Path	   *grouped;
	Path	   *again;
	Path	   *merged;
	Path	   *path;

	set_cost(sorted, offer->input, peer, offer->sort_us, 0);
	grouped = (Path *) create_agg_path(root, offer->rel, sorted, offer->rel->reltarget, AGG_SORTED,
									   AGGSPLIT_INITIAL_SERIAL, clause, NIL, &extra->agg_partial_costs, offer->groups);
	set_cost(grouped, sorted, peer, 0, offer->group_us);
	again = (Path *) create_sort_path(root, offer->rel, grouped, root->group_pathkeys, -1);
	set_cost(again, grouped, combines, offer->merge.sort_us, 0);
	if (offer->divided)
		return divided_groups_path(root, rel, extra, offer, again, clause, groups, combines);
	merged = gather_groups(root, offer, again, combines);
	/* without an exchange the Sort of sorted rows is of no use */
	if (!exchange_pays(grouped->total_cost, merged->rows, offer->input->parallel_workers, 0))
		merged = gather_groups(root, offer, grouped, combines);
	path = (Path *) create_agg_path(root, rel, merged, rel->reltarget, AGG_SORTED, AGGSPLIT_FINAL_DESERIAL, clause,
									(List *) extra->havingQual, &extra->agg_final_costs, groups);
	path->startup_cost = merged->startup_cost;
	path->total_cost = merged->total_cost + peer_cost(combines, offer->final_us);
	return path;
}
