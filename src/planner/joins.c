/*
 * joins.c
 *	  Merge joins of our sorts, which compete with PostgreSQL's hash joins.
 *
 * PostgreSQL makes a merge join of two Sorts only if it is cheap at the costs of its own
 * Sort.  Its costs of a hash join ignore the CPU's caches.  After PostgreSQL has made the paths
 * of a join of two relations, this file compares the predicted times of its hash join, the
 * peer, and of a merge join of the same inputs, sorted by us.  If ours is faster by a margin,
 * it adds the merge join at a cost in proportion to the peer's (planner_internal.h), and
 * add_path() chooses.  Nodes above the join use its order without further cost.
 *
 * This is done for the hash join of one process, and for the one in workers.  In our join in
 * workers each process sorts its share of the outer rows, and the processes sort the inner side
 * together (nodes/shared).  The rows come from all workers, as the hash join's do, so what lies
 * above, and its costs, are the same for both.  A merge join of parallel sorts would have to be
 * compared together with what lies above it, which then runs in the leader.
 *
 * The times are those of all processes together, because how many run at once is the same for
 * both joins.  What processes wait for each other's use of memory is not counted for either.
 *
 * Nothing is added, and little is computed,
 *
 * - if the hash table lies in the CPU's inner caches,
 * - in one process, for a join of some, not all, of the query's relations that PostgreSQL may
 *	 run in workers, because one process would then run what lies above,
 * - in one process, for a join whose rows workers may group, if the join in workers is predicted
 *	 to end earlier,
 * - for joins that need a parameter of another relation, and those of a relation that is made
 *	 unique: a semijoin by merging is the same,
 * - in workers, for right and full joins: each process would return the rows without a match,
 * - in workers, if they cannot divide the inner side,
 * - in workers, if only the first rows are wanted: up to PostgreSQL 18 a partial path takes the
 *	 place of a costlier one that would return them earlier.
 */
#include "postgres.h"

#include <math.h>

#include "compat.h"
#include "executor/hashjoin.h"
#include "executor/nodeHash.h"
#include "nodes/join/join.h"
#include "nodes/nodeFuncs.h"
#include "nodes/shared/shared.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "planner/planner_internal.h"
#include "settings.h"

/* Bytes of a hash table for each row, beside the row: its header and the bucket array. */
#define TABLE_ROW_BYTES		(HJTUPLE_OVERHEAD + 12)

/* ------------------------------------------------------------------------
 * The peer
 * ------------------------------------------------------------------------
 */

/* Two relations that are joined. */
typedef struct Joined
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	RelOptInfo *outerrel;
	RelOptInfo *innerrel;
	JoinType	jointype;
	JoinPathExtraData *extra;

	/* the orders of both sides of a merge join */
	List	   *clauses;		/* in the order of the keys */
	List	   *outer_keys;
	List	   *inner_keys;

	/* the inputs of our join, in workers partial ones */
	Path	   *outer;
	Path	   *inner;
	bool		shared;			/* all processes sort the inner one together */
	double		inner_shares;	/* the number of the processes' shares of it; without workers 1 */
	double		inner_rows;		/* all inner rows, which each process joins */

	double		inner_us;		/* predicted time to read it; 0: the peer reads the same */

	/* the processes, and the number of their shares of the outer rows; without workers 1 */
	int			participants;
	double		shares;
} Joined;

/* The cheapest hash join among the paths, of these relations or, if they are NULL, of any; NULL: there is none. */
static const HashPath *
find_hash_join(const List *paths, const RelOptInfo *outerrel, const RelOptInfo *innerrel)
{
	const HashPath *found = NULL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const HashPath *path = lfirst(lc);

		if (IsA(path, HashPath) && path->jpath.path.param_info == NULL &&
			(outerrel == NULL || path->jpath.outerjoinpath->parent == outerrel) &&
			(innerrel == NULL || path->jpath.innerjoinpath->parent == innerrel) &&
			(found == NULL || path->jpath.path.total_cost < found->jpath.path.total_cost))
			found = path;
	}
	return found;
}

/* Fills the facts of the join by these clauses, for all of its processes. */
static void
join_facts(const Joined *join, List *clauses, JoinFacts *facts)
{
	ListCell   *lc;

	memset(facts, 0, sizeof(*facts));
	facts->outer_rows = join->outer->rows * join->shares;
	facts->inner_rows = join->inner_rows * join->participants;
	facts->outer_bytes = stored_row_bytes(join->outer->pathtarget->width);
	facts->inner_bytes = stored_row_bytes(join->inner->pathtarget->width);
	facts->table_bytes = join->inner_rows * (facts->inner_bytes + TABLE_ROW_BYTES);
	facts->memory = get_hash_memory_limit();
	facts->keys = list_length(clauses);
	foreach(lc, clauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (type_is_varlena(exprType(get_leftop(rinfo->clause))))
			facts->varlena_keys++;
	}
}

/* Predicted time of all output rows, which the models of joins do not include. */
static double
output_us(const Joined *join, const Path *path)
{
	return us_of_cost(join->shares * path->rows * (cpu_tuple_cost + path->pathtarget->cost.per_tuple));
}

/*
 * Fills the peer.  False if our join cannot be faster: the hash table lies in the CPU's inner
 * caches.  The processes of a Parallel Hash build one table together.  With private tables each
 * process reads the whole inner side.
 */
static bool
find_hash_peer(Joined *join, const HashPath *path, Peer *peer)
{
	const Path *inner = path->jpath.innerjoinpath;
	bool		together = path->jpath.path.parallel_aware;
	JoinFacts	facts;
	bool		exceeds;
	double		hash_us;

	join_facts(join, path->path_hashclauses, &facts);
	exceeds = hash_exceeds_caches(facts.table_bytes);
	peer->own = path->jpath.path.total_cost - join->outer->total_cost;
	if (together)
	{
		facts.inner_rows = join->inner_rows;
		facts.memory *= join->participants;
	}
	hash_us = hash_join_us(&facts);
	if (together && join->jointype == JOIN_INNER)
	{
		/* the table may have the outer rows as well */
		JoinFacts	other = facts;

		other.outer_rows = facts.inner_rows;
		other.outer_bytes = facts.inner_bytes;
		other.inner_rows = facts.outer_rows;
		other.inner_bytes = facts.outer_bytes;
		other.table_bytes = facts.outer_rows * (facts.outer_bytes + TABLE_ROW_BYTES);
		hash_us = Min(hash_us, hash_join_us(&other));
	}
	peer->us = output_us(join, &path->jpath.path) + hash_us;
	if (inner == join->inner)
		peer->own -= inner->total_cost;
	else
	{
		join->inner_us = us_of_cost(join->inner->total_cost) * join->inner_shares;
		peer->us += us_of_cost(inner->total_cost) * join->participants;
	}
	return exceeds && peer->own > 0;
}

/* Sets the outer input and the processes of the join to those of this hash join. */
static void
take_outer(Joined *join, const HashPath *hashed)
{
	int			workers = hashed->jpath.path.parallel_workers;

	join->outer = hashed->jpath.outerjoinpath;
	join->participants = workers > 0 ? workers + parallel_leader_participation : 1;
	join->shares = workers > 0 ? shares_of(workers) : 1;
	join->inner_us = 0;
}

/* May workers group the rows of the join? */
static bool
workers_may_group(const PlannerInfo *root)
{
	const Query *parse = root->parse;

	if (parse->groupingSets != NIL)
		return false;
	return parse->hasAggs ? !root->hasNonPartialAggs && !root->hasNonSerialAggs :
		parse->groupClause != NIL || parse->distinctClause != NIL;
}

/*
 * Predicted time by the clock of the join in workers with its inputs, if they may also group its
 * rows; otherwise HUGE_VAL.
 */
static double
join_in_workers_us(const Joined *join)
{
	const List *paths = join->joinrel->partial_pathlist;
	const HashPath *hashed;
	const Path *cheapest;
	Joined		in_workers = *join;
	bool		together;
	double		inner_reads;
	double		us;
	Peer		peer;

	if (paths == NIL || !workers_may_group(join->root))
		return HUGE_VAL;
	hashed = find_hash_join(paths, NULL, NULL);
	cheapest = hashed != NULL ? &hashed->jpath.path : linitial(paths);
	if (hashed == NULL)
		/* as after our merge join has taken the place of the hash join */
		us = us_of_cost(cheapest->total_cost * shares_of(cheapest->parallel_workers));
	else
	{
		take_outer(&in_workers, hashed);
		together = hashed->jpath.path.parallel_aware;
		in_workers.jointype = hashed->jpath.jointype;
		in_workers.inner = hashed->jpath.innerjoinpath;
		in_workers.inner_rows = in_workers.inner->rows * (together ? in_workers.shares : 1);
		inner_reads = together ? in_workers.shares : in_workers.participants;
		(void) find_hash_peer(&in_workers, hashed, &peer);
		us = peer.us + us_of_cost(in_workers.outer->total_cost * in_workers.shares +
								  in_workers.inner->total_cost * inner_reads);
	}
	return setup_us(cheapest->parallel_workers) +
		us / sort_abreast(cheapest->parallel_workers + parallel_leader_participation);
}

/* ------------------------------------------------------------------------
 * Merge joins
 * ------------------------------------------------------------------------
 */

/* Can these relations be joined by a merge join of these clauses? */
static bool
can_merge(const Joined *join, int workers)
{
	ListCell   *lc;

	if (!enable_mergejoin || !compat_mergejoin_allowed(join->extra) || join->extra->mergeclause_list == NIL)
		return false;
	switch (join->jointype)
	{
		case JOIN_INNER:
		case JOIN_LEFT:
		case JOIN_SEMI:
		case JOIN_ANTI:
			return true;
		case JOIN_RIGHT:
		case JOIN_FULL:
			if (workers > 0)
				return false;

			/* PostgreSQL requires that all of the join's own clauses are merge clauses */
			foreach(lc, join->extra->restrictlist)
			{
				RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

				if (!RINFO_IS_PUSHED_DOWN(rinfo, join->joinrel->relids) &&
					!list_member_ptr(join->extra->mergeclause_list, rinfo))
					return false;
			}
			return true;
		default:
			return false;
	}
}

/* Fills the orders.  False if a merge join cannot compare all of the clauses. */
static bool
find_orders(Joined *join)
{
	List	   *clauses = join->extra->mergeclause_list;

	join->outer_keys = select_outer_pathkeys_for_merge(join->root, clauses, join->joinrel);
	join->clauses = find_mergeclauses_for_outer_pathkeys(join->root, join->outer_keys, clauses);
	if (list_length(join->clauses) != list_length(clauses))
		return false;
	join->inner_keys = make_inner_pathkeys_for_merge(join->root, join->clauses, join->outer_keys);
	return true;
}

/* One side of a merge join: our sort, unless the path has the order. */
typedef struct Side
{
	Path	   *path;
	SortOffer	sort;
	bool		sorted;			/* the path has the order */
} Side;

/* shares: number of sorts of the path's number of rows; shared: the processes sort all rows together */
static bool
find_side(const Joined *join, Path *path, List *pathkeys, double shares, bool shared, Side *side)
{
	SortOffer  *sort = &side->sort;

	side->path = path;
	*sort = (SortOffer) {.pathkeys = pathkeys,.participants = join->participants};
	side->sorted = !shared && pathkeys_contained_in(pathkeys, path->pathkeys);
	if (side->sorted)
		return true;
	if (!find_sort(join->root, path->parent, NULL, path, sort))
		return false;
	count_cached_runs(sort);
	sort->time.sort_us *= shares;
	sort->time.rows_us *= shares;
	sort->own_us *= shares;
	if (shared)
	{
		double		bytes = sort->keys_only ? 0 : stored_row_bytes(path->pathtarget->width);
		double		share_us = sort_cost_share_us(join->inner_rows, bytes, join->participants, false);

		sort->time.sort_us += share_us;
		sort->own_us += share_us;
	}
	return true;
}

static Path *
side_path(const Joined *join, const Side *side, const Peer *peer)
{
	return side->sorted ? side->path : sort_offer_path(join->root, side->path->parent, &side->sort, peer);
}

static Path *
inner_side_path(const Joined *join, const Side *side, const Peer *peer)
{
	Path	   *path = side_path(join, side, peer);

	return join->shared ? shared_sort_path(path, join->inner_rows, false) : path;
}

/* May each process write its share of this side to files? */
static bool
files_allowed(const Joined *join, const Side *side, bool shared)
{
	/* a shared sort writes each row twice */
	if (shared)
		return temp_files_allowed(2 * join->inner_rows * stored_row_bytes(side->path->pathtarget->width) /
								  join->participants);
	return side->sorted || sort_files_allowed(&side->sort);
}

/* Adds a merge join of our sorts, if it is faster than the hash join. */
static void
offer_merge_join(const Joined *join, const Peer *hashed)
{
	List	   *pathkeys = build_join_pathkeys(join->root, join->joinrel, join->jointype, join->outer_keys);
	double		margin = offer_margin(join->root, join->joinrel->relids);
	/* the margin is in the cost, too */
	Peer		peer = {.own = hashed->own * margin,.us = hashed->us};
	Side		outer;
	Side		inner;
	Path	   *outer_path;
	Path	   *inner_path;
	JoinFacts	facts;
	double		outer_read;
	double		inner_read;
	double		inner_again;
	double		merge_us;
	double		ours;
	double		most_us;
	Cost		inner_read_cost;
	Path	   *path;

	if (!find_side(join, join->outer, join->outer_keys, join->shares, false, &outer) ||
		!find_side(join, join->inner, join->inner_keys, join->inner_shares, join->shared, &inner) ||
		(outer.sorted && inner.sorted) ||
		!files_allowed(join, &outer, false) || !files_allowed(join, &inner, join->shared))
		return;
	/* sorts alone that take longer need no path */
	ours = join->inner_us + outer.sort.own_us + inner.sort.own_us;
	if (margin * ours >= peer.us)
		return;
	outer_path = side_path(join, &outer, &peer);
	inner_path = inner_side_path(join, &inner, &peer);
	path = compat_create_mergejoin_path(join->root, join->joinrel, join->jointype, join->extra, outer_path,
										inner_path, pathkeys, join->clauses, &outer_read, &inner_read);
	Assert(path_has_target(path, join->joinrel->reltarget));
	join_facts(join, join->clauses, &facts);
	facts.node = gpusort_merge_joins && merge_join_has_node(join->jointype);

	/*
	 * A unique inner row is compared again without being read again.  The rows
	 * of other joins than inner ones do not tell how often rows match.
	 */
	inner_again = join->jointype == JOIN_INNER && !join->extra->inner_unique ?
		Max(0, path->rows * join->shares - inner_read) : 0;
	merge_us = merge_join_us(&facts, outer_read * join->shares, inner_read * join->participants, inner_again) +
		output_us(join, path);
	ours = margin * (ours + merge_us);
	most_us = peer.us;
	/* a join in one process ends what workers do above it */
	if (!join->shared)
		most_us = Min(most_us, join_in_workers_us(join) -
					  us_of_cost(join->outer->total_cost + join->inner->total_cost));
	ereport(DEBUG1,
			(errmsg_internal("gpusort: join: %.1f ms above our sorts, %.1f ms hashed: %s", ours / 1000,
							 most_us / 1000, ours < most_us ? "a path is added" : "PostgreSQL's paths stay")));
	if (ours >= most_us)
		return;
	/* if the peer reads another inner path, reading ours costs what this time costs the peer */
	inner_read_cost = join->inner_us > 0 ? peer_cost(&peer, join->inner_us) - join->inner->total_cost : 0;
	/* a sorted inner side may cost more to read than that is */
	path->startup_cost = outer_path->startup_cost + Max(0, inner_path->startup_cost + inner_read_cost);
	path->total_cost = outer_path->total_cost + inner_path->total_cost + inner_read_cost + peer_cost(&peer, merge_us);
	path->total_cost = Max(path->total_cost, inner_path->startup_cost);
	if (path->parallel_workers > 0)
		add_partial_path(join->joinrel, path);
	else
		add_path(join->joinrel, path);
}

/* Sets the inner input of our join beside this hash join, in workers or not.  False: there is none. */
static bool
choose_inner(Joined *join, const HashPath *hashed, int workers)
{
	join->shared = workers > 0;
	join->inner = hashed->jpath.innerjoinpath;
	/* PostgreSQL's Merge Join would mark rows, which a shared sort cannot do */
	if (join->shared && (!gpusort_merge_joins || !merge_join_has_node(join->jointype) ||
						 join->innerrel->partial_pathlist == NIL))
		return false;
	if (join->shared && !hashed->jpath.path.parallel_aware)
		join->inner = linitial(join->innerrel->partial_pathlist);
	join->inner_shares = join->shared ? shares_of(join->inner->parallel_workers) : 1;
	join->inner_rows = join->inner->rows * join->inner_shares;
	return true;
}

/* Offers a merge join beside the cheapest hash join of these paths. */
static void
offer_beside(Joined *join, const List *paths)
{
	const HashPath *hashed = find_hash_join(paths, join->outerrel, join->innerrel);
	int			workers;
	Peer		peer;

	if (hashed == NULL)
		return;
	workers = hashed->jpath.path.parallel_workers;
	take_outer(join, hashed);
	if (choose_inner(join, hashed, workers) && find_hash_peer(join, hashed, &peer) && can_merge(join, workers) &&
		find_orders(join))
		offer_merge_join(join, &peer);
}

/* Will workers run what lies above this join, if PostgreSQL so decides? */
static bool
workers_above(const PlannerInfo *root, const RelOptInfo *joinrel)
{
	return joinrel->partial_pathlist != NIL && !bms_is_subset(root->all_baserels, joinrel->relids);
}

/* Does the query want the first rows of its joins only?  It neither sorts nor groups them. */
static bool
wants_first_rows(const PlannerInfo *root)
{
	return root->tuple_fraction > 0 && root->query_pathkeys == NIL && !root->parse->hasAggs &&
		root->parse->groupClause == NIL;
}

void
offer_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		   JoinType jointype, JoinPathExtraData *extra)
{
	const Path *outer = outerrel->cheapest_total_path;
	const Path *inner = innerrel->cheapest_total_path;
	Joined		join = {.root = root,.joinrel = joinrel,.outerrel = outerrel,.innerrel = innerrel,
	.jointype = jointype,.extra = extra};

	if (outer == NULL || inner == NULL ||
		Max(outer->rows, inner->rows) < gpusort_plan_grouping_min_rows ||
		outer->param_info != NULL || inner->param_info != NULL)
		return;
	if (!workers_above(root, joinrel))
		offer_beside(&join, joinrel->pathlist);
	if (!wants_first_rows(root))
		offer_beside(&join, joinrel->partial_pathlist);
}
