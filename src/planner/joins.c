/*
 * joins.c
 *	  Hash joins at true costs, and merge joins of our sorts.
 *
 * PostgreSQL makes a merge join of two Sorts only if it looks cheap at the costs of its
 * own Sort, and takes a hash table's size for irrelevant as long as it fits in memory.
 * So when PostgreSQL has made the paths of two relations' join, this hook
 *
 * - raises the costs of the hash joins to their true costs (hash_cost.c),
 * - adds a merge join of the relations' cheapest paths, each sorted by us (serially or
 *	 in parallel, sort_path.c) unless a path in order costs less,
 *
 * and add_path() chooses.  The join's order counts as free for what is above it.
 *
 * A join that must have a parameter of another relation, and the inner join of a
 * relation that is made unique for a semijoin, are left as they are.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/hashjoin.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "planner/hash_cost.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/*
 * A merge join of our sorts is offered if it costs at most this share of the best other path:
 * the models err by as much where both are close.
 */
#define SORTED_JOIN_MOST	0.9

/* Bytes of a bucket array for each row of a hash table. */
#define BUCKET_BYTES	12

static set_join_pathlist_hook_type prev_join_pathlist_hook = NULL;

/* ------------------------------------------------------------------------
 * Hash joins
 * ------------------------------------------------------------------------
 */

/* Fills the facts of a join by these clauses. */
static void
join_facts(const Path *outer, const Path *inner, List *clauses, JoinFacts *facts)
{
	ListCell   *lc;

	memset(facts, 0, sizeof(*facts));
	facts->outer_rows = outer->rows;
	facts->inner_rows = inner->rows;
	facts->table_rows = inner->rows;
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

/* The cost of a join's rows, which the models leave out. */
static Cost
output_cost(const Path *path)
{
	return path->rows * (cpu_tuple_cost + path->pathtarget->cost.per_tuple);
}

static void
raise_hash_join(HashPath *path)
{
	const Path *outer = path->jpath.outerjoinpath;
	const Path *inner = path->jpath.innerjoinpath;
	CostChange	change = {0};
	JoinFacts	facts;
	GroupCost	cost;

	join_facts(outer, inner, path->path_hashclauses, &facts);

	/*
	 * the participants of a parallel hash join share a table, and their
	 * memory
	 */
	if (path->jpath.path.parallel_aware)
	{
		facts.table_rows = path->inner_rows_total;
		facts.memory *= path->jpath.path.parallel_workers + 1;
	}
	hash_join_cost(&facts, &cost);
	raise_own_cost(&change, &path->jpath.path, outer->startup_cost + inner->total_cost,
				   outer->total_cost + inner->total_cost, cost_of_us(cost.first_us),
				   cost_of_us(cost.all_us) + output_cost(&path->jpath.path));
	apply_change(&path->jpath.path, &change);
}

/*
 * Takes the hash joins of this call out of a list of paths, at their true costs.  Those
 * of other pairs of relations, and of another kind of join, have theirs already.
 */
static List *
take_hash_joins(List **paths, const RelOptInfo *outerrel, const RelOptInfo *innerrel, JoinType jointype)
{
	List	   *taken = NIL;
	ListCell   *lc;

	foreach(lc, *paths)
	{
		HashPath   *path = lfirst(lc);

		if (!IsA(path, HashPath) || path->jpath.jointype != jointype ||
			path->jpath.outerjoinpath->parent != outerrel || path->jpath.innerjoinpath->parent != innerrel)
			continue;
		raise_hash_join(path);
		taken = lappend(taken, path);
		*paths = foreach_delete_current(*paths, lc);
	}
	return taken;
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
			/* all of the join's own clauses must be merged by */
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

/* The relation's cheapest path in this order: one that is in order, or sorted by us; may be NULL. */
static Path *
sorted_side(PlannerInfo *root, RelOptInfo *rel, List *pathkeys)
{
	Path	   *sorted = sort_path_cheapest(root, rel, rel, rel->cheapest_total_path, pathkeys);
	Path	   *ordered = get_cheapest_path_for_pathkeys(rel->pathlist, pathkeys, NULL, TOTAL_COST, false);

	if (sorted == NULL || (ordered != NULL && ordered->total_cost <= sorted->total_cost))
		return ordered;
	return sorted;
}

/* A merge join of the relations, at least one of them sorted by us; NULL if there is none. */
static Path *
merge_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		   JoinType jointype, JoinPathExtraData *extra)
{
	List	   *outer_keys;
	List	   *inner_keys;
	List	   *clauses;
	List	   *order;
	Path	   *outer;
	Path	   *inner;
	Path	   *path;
	CostChange	change = {0};
	JoinFacts	facts;

	outer_keys = select_outer_pathkeys_for_merge(root, extra->mergeclause_list, joinrel);
	clauses = find_mergeclauses_for_outer_pathkeys(root, outer_keys, extra->mergeclause_list);
	if (list_length(clauses) != list_length(extra->mergeclause_list))
		return NULL;
	inner_keys = make_inner_pathkeys_for_merge(root, clauses, outer_keys);
	outer = sorted_side(root, outerrel, outer_keys);
	inner = outer != NULL ? sorted_side(root, innerrel, inner_keys) : NULL;
	if (inner == NULL || (list_member_ptr(outerrel->pathlist, outer) && list_member_ptr(innerrel->pathlist, inner)))
		return NULL;
	order = build_join_pathkeys(root, joinrel, jointype, outer_keys);
	path = compat_create_mergejoin_path(root, joinrel, jointype, extra, outer, inner, order, clauses);

	join_facts(outer, inner, clauses, &facts);
	raise_own_cost(&change, path, path->startup_cost, outer->total_cost + inner->total_cost, 0,
				   cost_of_us(merge_join_us(&facts)) + output_cost(path));
	apply_change(path, &change);
	return path;
}

/* ------------------------------------------------------------------------
 * Paths that are offered again
 *
 * PostgreSQL makes the paths of a relation's pairs one after the other, and calls the
 * hook after each pair.  The hash joins of a later pair enter add_path() at PostgreSQL's
 * costs, and there remove paths that cost less than their true costs.  So the paths of
 * earlier pairs are kept, and offered again after each pair.
 *
 * The table lies in the planner's memory context and is forgotten with it.  GEQO frees
 * joined relations while it works; there nothing is kept.
 * ------------------------------------------------------------------------
 */

typedef struct KeptPaths
{
	RelOptInfo *joinrel;		/* the hash key */
	List	   *paths;
	List	   *partial;
} KeptPaths;

static HTAB *kept_table = NULL;
static PlannerGlobal *kept_owner = NULL;	/* the planner run of kept_table */

static void
kept_forget(void *owner)
{
	if (kept_owner == owner)
	{
		kept_owner = NULL;
		kept_table = NULL;
	}
}

/* The kept paths of a relation; NULL if none can be kept. */
static KeptPaths *
kept_paths(PlannerInfo *root, RelOptInfo *joinrel)
{
	KeptPaths  *kept;
	bool		found;

	if (root->join_rel_level == NULL)
		return NULL;
	if (kept_owner != root->glob)
	{
		HASHCTL		ctl = {.keysize = sizeof(RelOptInfo *),.entrysize = sizeof(KeptPaths),
		.hcxt = root->planner_cxt};
		MemoryContextCallback *callback = MemoryContextAlloc(root->planner_cxt, sizeof(MemoryContextCallback));

		kept_table = hash_create("gpusort join paths", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		callback->func = kept_forget;
		callback->arg = root->glob;
		MemoryContextRegisterResetCallback(root->planner_cxt, callback);
		kept_owner = root->glob;
	}
	kept = hash_search(kept_table, &joinrel, HASH_ENTER, &found);
	if (!found)
	{
		kept->paths = NIL;
		kept->partial = NIL;
	}
	return kept;
}

/* A copy of a hash or merge join's path: add_path() may free the path that it gets. */
static Path *
copy_join_path(const Path *path)
{
	Size		size = IsA(path, HashPath) ? sizeof(HashPath) : sizeof(MergePath);

	Assert(IsA(path, HashPath) || IsA(path, MergePath));
	return memcpy(palloc(size), path, size);
}

/* Offers these paths, and again those that were kept. */
static void
add_join_paths(PlannerInfo *root, RelOptInfo *joinrel, List *paths, List *partial)
{
	KeptPaths  *kept = kept_paths(root, joinrel);
	ListCell   *lc;

	if (kept != NULL)
	{
		foreach(lc, kept->paths)
			add_path(joinrel, copy_join_path(lfirst(lc)));
		foreach(lc, kept->partial)
			add_partial_path(joinrel, copy_join_path(lfirst(lc)));
		foreach(lc, paths)
			kept->paths = lappend(kept->paths, copy_join_path(lfirst(lc)));
		foreach(lc, partial)
			kept->partial = lappend(kept->partial, copy_join_path(lfirst(lc)));
	}
	foreach(lc, paths)
		add_path(joinrel, lfirst(lc));
	foreach(lc, partial)
		add_partial_path(joinrel, lfirst(lc));
}

/* The least cost of these paths; negative if there is none. */
static Cost
least_cost(List *paths)
{
	Cost		best = -1;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (best < 0 || path->total_cost < best)
			best = path->total_cost;
	}
	return best;
}

static void
plan_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType jointype, JoinPathExtraData *extra)
{
	const Path *outer = outerrel->cheapest_total_path;
	const Path *inner = innerrel->cheapest_total_path;
	List	   *hashed;
	List	   *partial;
	Path	   *merged = NULL;
	Cost		best;

	if (!gpusort_enable || !gpusort_plan_grouping || !enable_sort || outer == NULL || inner == NULL ||
		Max(outer->rows, inner->rows) < gpusort_plan_grouping_min_rows)
		return;
	hashed = take_hash_joins(&joinrel->pathlist, outerrel, innerrel, compat_plain_jointype(jointype));
	partial = take_hash_joins(&joinrel->partial_pathlist, outerrel, innerrel, compat_plain_jointype(jointype));
	if (outer->param_info == NULL && inner->param_info == NULL && can_merge(joinrel, jointype, extra))
		merged = merge_join(root, joinrel, outerrel, innerrel, jointype, extra);
	/* the paths of earlier pairs have their true costs */
	best = least_cost(list_concat_copy(hashed, joinrel->pathlist));
	if (merged != NULL && best >= 0)
	{
		bool		sorts = merged->total_cost < best * SORTED_JOIN_MOST;

		ereport(DEBUG1,
				(errmsg_internal("gpusort: join is cheaper by %s: sorted %.0f, else %.0f",
								 sorts ? "sorting" : "hashing", merged->total_cost, best)));
		if (!sorts)
			merged = NULL;
	}

	add_join_paths(root, joinrel, merged != NULL ? lappend(hashed, merged) : hashed, partial);
}

static void
gpusort_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
				   JoinType jointype, JoinPathExtraData *extra)
{
	if (prev_join_pathlist_hook)
		prev_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);
	plan_join(root, joinrel, outerrel, innerrel, jointype, extra);
}

void
gpusort_joins_init(void)
{
	prev_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = gpusort_join_paths;
}
