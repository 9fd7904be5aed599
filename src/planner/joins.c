/*
 * joins.c
 *	  Merge joins of our sorts, which compete with PostgreSQL's hash joins.
 *
 * PostgreSQL makes a merge join of two Sorts only if it is cheap at the costs of its own
 * Sort.  Its costs of a hash join ignore the CPU's caches.  After PostgreSQL has made the paths
 * of a join of two relations, this file compares the predicted times of its hash join, the
 * peer, and of a merge join of the relations' cheapest paths, sorted by us.  If ours is faster
 * by a margin, it adds the merge join at a cost in proportion to the peer's
 * (planner_internal.h), and add_path() chooses.  Nodes above the join use its order without
 * further cost.
 *
 * Nothing is added, and little is computed,
 *
 * - if the hash table lies in the CPU's inner caches,
 * - if the hash join runs in workers; also not for a join of some, not all, of the query's
 *	 relations that PostgreSQL may run in workers, because one process would then run what
 *	 lies above,
 * - for joins that need a parameter of another relation, and those of a relation that is made
 *	 unique: a semijoin by merging is the same.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/hashjoin.h"
#include "executor/nodeHash.h"
#include "nodes/join/join.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "planner/planner_internal.h"
#include "settings.h"

/* Bytes of a bucket array for each row of a hash table. */
#define BUCKET_BYTES	12

/* ------------------------------------------------------------------------
 * The peer
 * ------------------------------------------------------------------------
 */

/* The cheapest hash join of these relations in one process; NULL: there is none. */
static const HashPath *
find_hash_join(const RelOptInfo *joinrel, const RelOptInfo *outerrel, const RelOptInfo *innerrel)
{
	const HashPath *found = NULL;
	ListCell   *lc;

	foreach(lc, joinrel->pathlist)
	{
		const HashPath *path = lfirst(lc);

		if (IsA(path, HashPath) && path->jpath.path.param_info == NULL &&
			path->jpath.outerjoinpath->parent == outerrel && path->jpath.innerjoinpath->parent == innerrel &&
			(found == NULL || path->jpath.path.total_cost < found->jpath.path.total_cost))
			found = path;
	}
	return found;
}

/* Fills the facts of a join by these clauses. */
static void
join_facts(const Path *outer, const Path *inner, List *clauses, JoinFacts *facts)
{
	ListCell   *lc;

	memset(facts, 0, sizeof(*facts));
	facts->outer_rows = outer->rows;
	facts->inner_rows = inner->rows;
	facts->outer_bytes = stored_row_bytes(outer->pathtarget->width);
	facts->inner_bytes = stored_row_bytes(inner->pathtarget->width);
	facts->table_row_bytes = facts->inner_bytes + HJTUPLE_OVERHEAD + BUCKET_BYTES;
	facts->memory = get_hash_memory_limit();
	facts->keys = list_length(clauses);
	foreach(lc, clauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (type_is_varlena(exprType(get_leftop(rinfo->clause))))
			facts->varlena_keys++;
	}
}

/* Predicted time of a join's output rows, which the models of joins do not include. */
static double
output_us(const Path *path)
{
	return us_of_cost(path->rows * (cpu_tuple_cost + path->pathtarget->cost.per_tuple));
}

/* Fills the peer.  False if the hash table lies in the CPU's inner caches. */
static bool
find_hash_peer(const HashPath *path, Peer *peer)
{
	const Path *outer = path->jpath.outerjoinpath;
	const Path *inner = path->jpath.innerjoinpath;
	JoinFacts	facts;

	join_facts(outer, inner, path->path_hashclauses, &facts);
	if (!hash_join_exceeds_cache(&facts))
		return false;
	peer->own = path->jpath.path.total_cost - outer->total_cost - inner->total_cost;
	peer->us = hash_join_us(&facts) + output_us(&path->jpath.path);
	return peer->own > 0;
}

/* ------------------------------------------------------------------------
 * Merge joins
 * ------------------------------------------------------------------------
 */

/* Can these relations be joined by a merge join of these clauses? */
static bool
can_merge(RelOptInfo *joinrel, JoinType jointype, const JoinPathExtraData *extra)
{
	ListCell   *lc;

	if (!enable_mergejoin || !compat_mergejoin_allowed(joinrel) || extra->mergeclause_list == NIL)
		return false;
	switch (jointype)
	{
		case JOIN_INNER:
		case JOIN_LEFT:
		case JOIN_SEMI:
		case JOIN_ANTI:
			return true;
		case JOIN_RIGHT:
		case JOIN_FULL:

			/* PostgreSQL requires that all of the join's own clauses are merge clauses */
			foreach(lc, extra->restrictlist)
			{
				RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

				if (!RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids) &&
					!list_member_ptr(extra->mergeclause_list, rinfo))
					return false;
			}
			return true;
		default:
			return false;
	}
}

/* Two relations that are joined, and the orders of both sides of a merge join. */
typedef struct MergeOrder
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	RelOptInfo *outerrel;
	RelOptInfo *innerrel;
	JoinType	jointype;
	JoinPathExtraData *extra;
	List	   *clauses;		/* in the order of the keys */
	List	   *outer_keys;
	List	   *inner_keys;
} MergeOrder;

/* Fills the orders.  False if a merge join cannot compare all of the clauses. */
static bool
merge_order(MergeOrder *order)
{
	List	   *clauses = order->extra->mergeclause_list;

	order->outer_keys = select_outer_pathkeys_for_merge(order->root, clauses, order->joinrel);
	order->clauses = find_mergeclauses_for_outer_pathkeys(order->root, order->outer_keys, clauses);
	if (list_length(order->clauses) != list_length(clauses))
		return false;
	order->inner_keys = make_inner_pathkeys_for_merge(order->root, order->clauses, order->outer_keys);
	return true;
}

/* One side of a merge join: our sort, unless the relation's cheapest path has the order. */
typedef struct Side
{
	Path	   *path;
	SortOffer	sort;
	bool		sorted;			/* the path has the order */
} Side;

static bool
find_side(const MergeOrder *order, RelOptInfo *rel, List *pathkeys, Side *side)
{
	side->path = rel->cheapest_total_path;
	side->sort = (SortOffer) {.pathkeys = pathkeys};
	side->sorted = pathkeys_contained_in(pathkeys, side->path->pathkeys);
	return side->sorted || find_sort(order->root, rel, NULL, side->path, &side->sort);
}

static Path *
side_path(const MergeOrder *order, const Side *side, const Peer *peer)
{
	return side->sorted ? side->path : sort_offer_path(order->root, side->path->parent, &side->sort, peer);
}

/* Adds a merge join of our sorts, if it is faster than the hash join. */
static void
offer_merge_join(const MergeOrder *order, const Peer *hashed)
{
	List	   *pathkeys = build_join_pathkeys(order->root, order->joinrel, order->jointype, order->outer_keys);
	double		margin = offer_margin(order->root, order->joinrel->relids);
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
	Path	   *path;

	if (!find_side(order, order->outerrel, order->outer_keys, &outer) ||
		!find_side(order, order->innerrel, order->inner_keys, &inner) || (outer.sorted && inner.sorted))
		return;
	/* sorts alone that take longer need no path */
	ours = outer.sort.own_us + inner.sort.own_us;
	if (margin * ours >= peer.us)
		return;
	outer_path = side_path(order, &outer, &peer);
	inner_path = side_path(order, &inner, &peer);
	path = compat_create_mergejoin_path(order->root, order->joinrel, order->jointype, order->extra, outer_path,
										inner_path, pathkeys, order->clauses, &outer_read, &inner_read);
	Assert(path_has_target(path, order->joinrel->reltarget));
	join_facts(outer.path, inner.path, order->clauses, &facts);
	facts.node = gpusort_merge_joins && merge_join_has_node(order->jointype);

	/*
	 * A unique inner row is compared again without being read again.  The rows
	 * of other joins than inner ones do not tell how often rows match.
	 */
	inner_again = order->jointype == JOIN_INNER && !order->extra->inner_unique ?
		Max(0, path->rows - inner_read) : 0;
	merge_us = merge_join_us(&facts, outer_read, inner_read, inner_again) + output_us(path);
	ours = margin * (ours + merge_us);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: join: %.1f ms above our sorts, %.1f ms hashed: %s", ours / 1000,
							 peer.us / 1000, ours < peer.us ? "a path is added" : "PostgreSQL's paths stay")));
	if (ours >= peer.us)
		return;
	path->startup_cost = outer_path->startup_cost + inner_path->startup_cost;
	path->total_cost = outer_path->total_cost + inner_path->total_cost + peer_cost(&peer, merge_us);
	add_path(order->joinrel, path);
}

/* Will workers run what lies above this join, if PostgreSQL so decides? */
static bool
workers_above(const PlannerInfo *root, const RelOptInfo *joinrel)
{
	return joinrel->partial_pathlist != NIL && !bms_is_subset(root->all_baserels, joinrel->relids);
}

void
offer_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		   JoinType jointype, JoinPathExtraData *extra)
{
	const Path *outer = outerrel->cheapest_total_path;
	const Path *inner = innerrel->cheapest_total_path;
	MergeOrder	order = {.root = root,.joinrel = joinrel,.outerrel = outerrel,.innerrel = innerrel,
	.jointype = jointype,.extra = extra};
	const HashPath *hashed;
	Peer		peer;

	if (outer == NULL || inner == NULL ||
		Max(outer->rows, inner->rows) < gpusort_plan_grouping_min_rows ||
		outer->param_info != NULL || inner->param_info != NULL || workers_above(root, joinrel))
		return;
	hashed = find_hash_join(joinrel, outerrel, innerrel);
	if (hashed != NULL && find_hash_peer(hashed, &peer) && can_merge(joinrel, jointype, extra) && merge_order(&order))
		offer_merge_join(&order, &peer);
}
