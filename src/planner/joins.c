/*
 * joins.c
 *	  Hash joins at predicted times, and merge joins of GpuSorts.
 *
 * PostgreSQL makes a merge join of two Sorts only if it is cheap at the costs of its own
 * Sort.  Its costs of a hash join ignore the size of a hash table that fits memory.  So
 * after PostgreSQL has made the paths of a join of two relations, this hook
 *
 * - raises the costs of the hash joins to their true costs (hash_cost.c), and those of
 *	 joins with a relation that a hash table makes unique for a semijoin,
 * - makes a merge join of the relations' cheapest paths, each sorted by us (serially or
 *	 in parallel, sort_path.c) unless a path in order costs less, and one that the
 *	 participants of a parallel plan share,
 *
 * and add_path() chooses among these paths and those of earlier pairs of relations that
 * make the same joined relation.  Nodes above the join use its order without further cost.
 *
 * A hash join whose table lies in the CPU's inner caches keeps PostgreSQL's cost, so that
 * PostgreSQL chooses between it and a nested loop as it does without us.  The model
 * predicts more.  Since a merge join must be compared with hash joins by time, its cost is
 * the predicted one less that difference.
 *
 * The hook does not change joins that need a parameter of another relation, and makes no
 * merge join of a relation that is made unique: a semijoin by merging is the same.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/hashjoin.h"
#include "executor/nodeAgg.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/*
 * A merge join is charged this share more than predicted for sorting and merging.  The
 * predictions have errors of this size, so a merge join must be clearly cheaper than the
 * hash join.  Both have the cost of the inputs, whose errors do not matter.
 */
#define SORTED_JOIN_MORE	0.2

/* add_path() takes costs for the same up to the first factor; the second one is more. */
#define SAME_COST			1.01
#define MORE_COST			1.02

/* Bytes of a bucket array for each row of a hash table, and for each group. */
#define BUCKET_BYTES	12
#define GROUP_BUCKET_BYTES	32

static set_join_pathlist_hook_type prev_join_pathlist_hook = NULL;

/* ------------------------------------------------------------------------
 * What is kept of relations while joins are planned
 *
 * It lies in the relation's memory context and is forgotten with it: in the planner's
 * context, or in GEQO's context of one join order.
 * ------------------------------------------------------------------------
 */

/* Two relations and how they were joined. */
typedef struct JoinPair
{
	RelOptInfo *outer;
	RelOptInfo *inner;
	JoinType	jointype;
} JoinPair;

/*
 * A merge join of our sorts, at its predicted cost.  Compared with a hash join it costs "less"
 * than that.
 */
typedef struct SortedJoin
{
	Path	   *path;			/* NULL: there is none */
	Cost		less;
} SortedJoin;

static const SortedJoin no_join = {NULL, 0};

/* The cheapest hash join: by PostgreSQL's costs, and by true costs.  Negative: there is none. */
typedef struct HashBest
{
	Cost		own;
	Cost		predicted;
} HashBest;

typedef struct KeptPaths
{
	RelOptInfo *rel;			/* the hash key */

	/* our sorts of its cheapest path, one for each order */
	List	   *sorts;

	/* of a joined relation */
	List	   *pairs;			/* JoinPairs whose paths are kept */
	RelOptInfo *paths;			/* PostgreSQL's, by add_path(); or NULL */
	HashBest	hashed;			/* of these paths */
	HashBest	partial_hashed; /* of its partial paths */
	List	   *sorted;			/* our joins, as SortedJoins */
	List	   *partial_sorted;
} KeptPaths;

/* The kept paths of the relations in one memory context. */
typedef struct KeptTable
{
	MemoryContext cxt;
	HTAB	   *relations;
	struct KeptTable *next;
	MemoryContextCallback callback;
} KeptTable;

static KeptTable *kept_tables = NULL;

static void
kept_forget(void *table)
{
	KeptTable **link = &kept_tables;

	while (*link != table)
		link = &(*link)->next;
	*link = (*link)->next;
}

/* The table of a memory context, made if there is none. */
static KeptTable *
kept_table(MemoryContext cxt)
{
	HASHCTL		ctl = {.keysize = sizeof(RelOptInfo *),.entrysize = sizeof(KeptPaths),.hcxt = cxt};
	KeptTable  *table;

	for (table = kept_tables; table != NULL; table = table->next)
	{
		if (table->cxt == cxt)
			return table;
	}
	table = MemoryContextAllocZero(cxt, sizeof(KeptTable));
	table->cxt = cxt;
	table->relations = hash_create("gpusort join paths", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	table->next = kept_tables;
	kept_tables = table;
	table->callback.func = kept_forget;
	table->callback.arg = table;
	MemoryContextRegisterResetCallback(cxt, &table->callback);
	return table;
}

/* What is kept of a relation. */
static KeptPaths *
kept_paths(RelOptInfo *rel)
{
	KeptTable  *table = kept_table(GetMemoryChunkContext(rel));
	KeptPaths  *kept;
	bool		found;

	kept = hash_search(table->relations, &rel, HASH_ENTER, &found);
	if (!found)
	{
		kept->sorts = NIL;
		kept->pairs = kept->sorted = kept->partial_sorted = NIL;
		kept->hashed.own = kept->hashed.predicted = -1;
		kept->partial_hashed = kept->hashed;
		kept->paths = NULL;
	}
	return kept;
}

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

/* The cost of a join's output rows, which the models do not include. */
static Cost
output_cost(const Path *path)
{
	return path->rows * (cpu_tuple_cost + path->pathtarget->cost.per_tuple);
}

/* Raises the path's cost to its true cost. */
static void
raise_hash_join(HashPath *path)
{
	const Path *outer = path->jpath.outerjoinpath;
	const Path *inner = path->jpath.innerjoinpath;
	CostChange	change = {0};
	JoinFacts	facts;
	GroupCost	cost;
	double		large;

	join_facts(outer, inner, path->path_hashclauses, &facts);

	/* the participants of a parallel hash join share one table in the memory of all */
	if (path->jpath.path.parallel_aware)
	{
		facts.table_rows = path->inner_rows_total;
		facts.memory *= path->jpath.path.parallel_workers + 1;
	}
	hash_join_cost(&facts, &cost);
	raise_own_cost(&change, &path->jpath.path, outer->startup_cost + inner->total_cost,
				   outer->total_cost + inner->total_cost, cost_of_us(cost.first_us),
				   cost_of_us(cost.all_us) + output_cost(&path->jpath.path));
	large = hash_join_exceeds_cache(&facts);
	change.startup *= large;
	change.total *= large;
	apply_change(&path->jpath.path, &change);
}

/*
 * Adds what the hash table lacks that makes a join's input unique for a semijoin, to the
 * join's cost.
 */
static void
raise_hashed_unique(Path *join, const Path *input)
{
	List	   *columns;
	const Path *rows = compat_hashed_unique(path_below_projection(input), &columns);
	CostChange	change = {0};
	GroupFacts	facts = {0};
	GroupCost	cost;
	ListCell   *lc;

	if (rows == NULL)
		return;
	facts.rows = rows->rows;
	facts.groups = input->rows;
	facts.row_bytes = stored_row_bytes(rows->pathtarget->width);
	facts.entry_bytes = GROUP_BUCKET_BYTES + hash_agg_entry_size(0, rows->pathtarget->width, 0);
	facts.memory = get_hash_memory_limit();
	facts.keys = list_length(columns);
	foreach(lc, columns)
	{
		if (type_is_varlena(exprType(lfirst(lc))))
			facts.varlena_keys++;
	}
	hash_group_cost(&facts, &cost);
	raise_own_cost(&change, input, rows->total_cost, rows->total_cost, cost_of_us(cost.first_us),
				   cost_of_us(cost.all_us));
	/* the table is built before the first row */
	change.startup = change.total;
	apply_change(join, &change);
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

/*
 * How much more our model predicts than PostgreSQL for a hash join of the smaller side,
 * less what raise_hash_join() adds to its cost.
 */
static Cost
hash_join_excess(const JoinFacts *facts)
{
	JoinFacts	hashed = *facts;
	GroupCost	cost;
	Cost		clauses = facts->keys * cpu_operator_cost;

	if (facts->outer_rows < facts->inner_rows)
	{
		hashed.outer_rows = facts->inner_rows;
		hashed.inner_rows = hashed.table_rows = facts->outer_rows;
		hashed.table_row_bytes += facts->outer_bytes - facts->inner_bytes;
	}
	hash_join_cost(&hashed, &cost);

	/*
	 * PostgreSQL assumes that half of a bucket is compared; a bucket has one
	 * row
	 */
	return Max(0, cost_of_us(cost.all_us) - hashed.inner_rows * (clauses + cpu_tuple_cost) -
			   hashed.outer_rows * clauses * 1.5) * (1 - hash_join_exceeds_cache(&hashed));
}

/* The part of a path's cost if a merge join reads these rows. */
static Cost
cost_to_read(const Path *path, double rows)
{
	return path->startup_cost + (path->total_cost - path->startup_cost) * Min(1, rows / path->rows);
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

/* A merge join of paths in order. */
static SortedJoin
merge_join_path(const MergeOrder *order, Path *outer, Path *inner)
{
	List	   *pathkeys = build_join_pathkeys(order->root, order->joinrel, order->jointype, order->outer_keys);
	CostChange	change = {0};
	JoinFacts	facts;
	double		outer_read;
	double		inner_read;
	double		inner_again;
	Cost		more;
	Path	   *path;
	SortedJoin	join;

	path = compat_create_mergejoin_path(order->root, order->joinrel, order->jointype, order->extra, outer, inner,
										pathkeys, order->clauses, &outer_read, &inner_read);
	join_facts(outer, inner, order->clauses, &facts);
	facts.node = gpusort_merge_joins && merge_join_has_node(order->jointype);

	/*
	 * A unique inner row is compared again without being read again.  The rows
	 * of other joins than inner ones do not tell how often rows match.
	 */
	inner_again = order->jointype == JOIN_INNER && !order->extra->inner_unique ?
		Max(0, path->rows - inner_read) : 0;
	raise_own_cost(&change, path, path->startup_cost, cost_to_read(outer, outer_read) + cost_to_read(inner, inner_read),
				   0, cost_of_us(merge_join_us(&facts, outer_read, inner_read, inner_again)) + output_cost(path));
	apply_change(path, &change);
	more = SORTED_JOIN_MORE * Max(0, path->total_cost - order->outerrel->cheapest_total_path->total_cost -
								  order->innerrel->cheapest_total_path->total_cost);
	path->startup_cost += more;
	path->total_cost += more;
	join.path = path;
	join.less = Min(hash_join_excess(&facts), path->startup_cost);
	return join;
}

/*
 * Our sort of the relation's cheapest path, which is made once for all joins.  NULL if we
 * cannot sort it.
 */
static Path *
our_sort(PlannerInfo *root, RelOptInfo *rel, List *pathkeys)
{
	KeptPaths  *kept = kept_paths(rel);
	MemoryContext old;
	Path	   *path;
	ListCell   *lc;

	foreach(lc, kept->sorts)
	{
		path = lfirst(lc);
		if (compare_pathkeys(path->pathkeys, pathkeys) == PATHKEYS_EQUAL)
			return path;
	}
	/* in GEQO the relation may outlive the memory of this join order */
	old = MemoryContextSwitchTo(GetMemoryChunkContext(rel));
	path = sort_path_cheapest(root, rel, rel, rel->cheapest_total_path, list_copy(pathkeys), 0);
	if (path != NULL)
		kept->sorts = lappend(kept->sorts, path);
	MemoryContextSwitchTo(old);
	return path;
}

/* The relation's cheapest path in this order: an ordered path, or our sort.  May be NULL. */
static Path *
sorted_side(PlannerInfo *root, RelOptInfo *rel, List *pathkeys)
{
	Path	   *sorted = our_sort(root, rel, pathkeys);
	Path	   *ordered = get_cheapest_path_for_pathkeys(rel->pathlist, pathkeys, NULL, TOTAL_COST, false);

	if (sorted == NULL || (ordered != NULL && ordered->total_cost <= sorted->total_cost))
		return ordered;
	return sorted;
}

/* A merge join of the relations that sorts at least one relation. */
static SortedJoin
merge_join(const MergeOrder *order)
{
	Path	   *outer = sorted_side(order->root, order->outerrel, order->outer_keys);
	Path	   *inner = outer != NULL ? sorted_side(order->root, order->innerrel, order->inner_keys) : NULL;

	if (inner == NULL || (list_member_ptr(order->outerrel->pathlist, outer) &&
						  list_member_ptr(order->innerrel->pathlist, inner)))
		return no_join;
	return merge_join_path(order, outer, inner);
}

/*
 * A merge join below a Gather: each participant sorts its share of the outer relation, and
 * the whole inner relation.
 */
static SortedJoin
partial_merge_join(const MergeOrder *order)
{
	Path	   *inner = order->innerrel->cheapest_total_path;
	Path	   *outer;

	if (!order->joinrel->consider_parallel || !bms_is_empty(order->joinrel->lateral_relids) ||
		(order->jointype != JOIN_INNER && order->jointype != JOIN_LEFT && order->jointype != JOIN_SEMI &&
		 order->jointype != JOIN_ANTI) || order->outerrel->partial_pathlist == NIL)
		return no_join;
	if (!inner->parallel_safe)
		inner = get_cheapest_parallel_safe_total_inner(order->innerrel->pathlist);
	outer = linitial(order->outerrel->partial_pathlist);
	if (inner == NULL || outer->rows < gpusort_min_rows)
		return no_join;
	outer = sort_path_partial(order->root, order->outerrel, outer, order->outer_keys, 0);
	inner = sort_path_cheapest(order->root, order->innerrel, NULL, inner, order->inner_keys, 0);
	return outer != NULL && inner != NULL ? merge_join_path(order, outer, inner) : no_join;
}

/* ------------------------------------------------------------------------
 * The paths of all pairs
 *
 * PostgreSQL makes the paths of a joined relation for one pair of relations after the
 * other, and calls the hook after each pair.  The hash joins of a later pair enter
 * add_path() at PostgreSQL's costs, and there remove paths that cost less than their
 * true costs.  So copies of the paths of all pairs are kept, at true costs, and the
 * relation's list is made anew from them after each pair.  After the last pair it is the
 * same in whatever order the pairs came.
 * ------------------------------------------------------------------------
 */

/* Size of a join's path; 0: a path of another kind. */
static Size
join_path_size(const Path *path)
{
	switch (nodeTag(path))
	{
		case T_NestPath:
			return sizeof(NestPath);
		case T_MergePath:
			return sizeof(MergePath);
		case T_HashPath:
			return sizeof(HashPath);
		default:
			return 0;
	}
}

/* A copy for add_path(), which may free the path that it gets. */
static Path *
copy_join_path(const Path *path)
{
	Size		size = join_path_size(path);

	Assert(size > 0);
	return memcpy(palloc(size), path, size);
}

static bool
is_of_pair(const Path *path, const JoinPair *pair)
{
	const JoinPath *join = (const JoinPath *) path;

	return join_path_size(path) > 0 && join->jointype == pair->jointype &&
		join->outerjoinpath->parent == pair->outer && join->innerjoinpath->parent == pair->inner;
}

/* The lesser of two costs, of which the first one is negative if there is none. */
static Cost
least(Cost a, Cost b)
{
	return a < 0 ? b : Min(a, b);
}

/*
 * Removes the joins of kept pairs from a list of paths.  Returns the joins of the last
 * pair, which are new, at their true costs.
 */
static List *
take_joins(const KeptPaths *kept, List **paths, HashBest *hashed)
{
	List	   *taken = NIL;
	ListCell   *lc;
	ListCell   *pair;

	foreach(lc, *paths)
	{
		Path	   *path = lfirst(lc);

		foreach(pair, kept->pairs)
		{
			if (is_of_pair(path, lfirst(pair)))
				break;
		}
		if (pair == NULL)
			continue;
		if (lnext(kept->pairs, pair) == NULL)
		{
			Cost		own = path->total_cost;

			if (IsA(path, HashPath))
				raise_hash_join((HashPath *) path);
			raise_hashed_unique(path, ((const JoinPath *) path)->outerjoinpath);
			raise_hashed_unique(path, ((const JoinPath *) path)->innerjoinpath);
			if (IsA(path, HashPath) && path->param_info == NULL)
			{
				hashed->own = least(hashed->own, own);
				hashed->predicted = least(hashed->predicted, path->total_cost);
			}
			taken = lappend(taken, path);
		}
		*paths = foreach_delete_current(*paths, lc);
	}
	return taken;
}

/* The least cost of the paths without a parameter; negative if there is no such path. */
static Cost
least_cost(List *paths)
{
	Cost		best = -1;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (path->param_info == NULL)
			best = least(best, path->total_cost);
	}
	return best;
}

/* Does the join sort by us?  A Sort of PostgreSQL may become a GpuSort, too. */
static bool
sorts_inputs(const Path *path)
{
	const MergePath *merge = (const MergePath *) path;

	return IsA(path, MergePath) &&
		(merge->outersortkeys != NIL || merge->innersortkeys != NIL ||
		 IsA(path_below_projection(merge->jpath.outerjoinpath), SortPath) ||
		 IsA(path_below_projection(merge->jpath.innerjoinpath), SortPath));
}

/*
 * A hash join that is cheaper than a nested loop, or than a merge join of indexes, by
 * PostgreSQL's costs stays cheaper when its cost is raised.  PostgreSQL's costs of those do not
 * include caches either.
 */
static void
keep_behind_hash_join(List *paths, const HashBest *hashed)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);
		CostChange	change = {0};

		if (hashed->own < 0 || IsA(path, HashPath) || sorts_inputs(path) || path->param_info != NULL ||
			path->total_cost <= hashed->own * SAME_COST)
			continue;
		change.total = hashed->predicted * MORE_COST - path->total_cost;
		if (change.total > 0)
			apply_change(path, &change);
	}
}

/* Adds one of our joins to a list, unless another one with its order is cheaper in any case. */
static List *
add_sorted_join(List *joins, const SortedJoin *new)
{
	ListCell   *lc;
	SortedJoin *copy;

	if (new->path == NULL)
		return joins;
	foreach(lc, joins)
	{
		const SortedJoin *old = lfirst(lc);
		bool		costs_more = old->path->total_cost > new->path->total_cost;
		bool		reduced_more = old->path->total_cost - old->less > new->path->total_cost - new->less;

		if (compare_pathkeys(old->path->pathkeys, new->path->pathkeys) != PATHKEYS_EQUAL ||
			costs_more != reduced_more)
			continue;
		if (!costs_more)
			return joins;
		joins = foreach_delete_current(joins, lc);
	}
	copy = palloc(sizeof(SortedJoin));
	*copy = *new;
	return lappend(joins, copy);
}

/*
 * Copies of our joins.  Their cost is reduced if PostgreSQL's best join is a hash join, whose
 * cost is not raised to the predicted one either.
 */
static List *
sorted_joins_to_offer(const List *joins, List *paths, const HashBest *hashed)
{
	bool		reduce = hashed->predicted >= 0 && hashed->predicted <= least_cost(paths);
	List	   *offered = NIL;
	ListCell   *lc;

	foreach(lc, joins)
	{
		const SortedJoin *join = lfirst(lc);
		Path	   *path = copy_join_path(join->path);

		if (reduce)
		{
			path->startup_cost -= join->less;
			path->total_cost -= join->less;
		}
		offered = lappend(offered, path);
	}
	return offered;
}

static void
log_join(Cost sorted, Cost best)
{
	if (best >= 0)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: join is cheaper by %s: sorted %.0f, else %.0f",
								 sorted < best ? "sorting" : "hashing", sorted, best)));
}

/* Keeps the new paths of the last pair and ours, and makes the relation's lists anew. */
static void
offer_all(KeptPaths *kept, RelOptInfo *joinrel, const SortedJoin *merged, const SortedJoin *partial_merged)
{
	List	   *paths = take_joins(kept, &joinrel->pathlist, &kept->hashed);
	List	   *partial = take_joins(kept, &joinrel->partial_pathlist, &kept->partial_hashed);
	List	   *ours;
	ListCell   *lc;

	/* before add_path() compares them */
	keep_behind_hash_join(list_concat_copy(paths, kept->paths->pathlist), &kept->hashed);
	keep_behind_hash_join(list_concat_copy(partial, kept->paths->partial_pathlist), &kept->partial_hashed);
	foreach(lc, paths)
		add_path(kept->paths, lfirst(lc));
	foreach(lc, partial)
		add_partial_path(kept->paths, lfirst(lc));

	kept->sorted = add_sorted_join(kept->sorted, merged);
	kept->partial_sorted = add_sorted_join(kept->partial_sorted, partial_merged);
	ours = sorted_joins_to_offer(kept->sorted, kept->paths->pathlist, &kept->hashed);
	if (ours != NIL && message_level_is_interesting(DEBUG1))
		log_join(least_cost(ours), least_cost(kept->paths->pathlist));

	foreach(lc, kept->paths->pathlist)
		add_path(joinrel, copy_join_path(lfirst(lc)));
	foreach(lc, kept->paths->partial_pathlist)
		add_partial_path(joinrel, copy_join_path(lfirst(lc)));
	foreach(lc, ours)
		add_path(joinrel, lfirst(lc));
	foreach(lc, sorted_joins_to_offer(kept->partial_sorted, kept->paths->partial_pathlist, &kept->partial_hashed))
		add_partial_path(joinrel, lfirst(lc));
}

/* The hook's work for one pair of relations. */
static void
plan_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType jointype, JoinPathExtraData *extra)
{
	const Path *outer = outerrel->cheapest_total_path;
	const Path *inner = innerrel->cheapest_total_path;
	MergeOrder	order = {.root = root,.joinrel = joinrel,.outerrel = outerrel,.innerrel = innerrel,
	.jointype = jointype,.extra = extra};
	KeptPaths  *kept;
	JoinPair   *pair;
	SortedJoin	merged = {0};
	SortedJoin	partial_merged = {0};

	if (!gpusort_enable || !gpusort_plan_grouping || !enable_sort || outer == NULL || inner == NULL ||
		Max(outer->rows, inner->rows) < gpusort_plan_grouping_min_rows)
		return;
	if (outer->param_info == NULL && inner->param_info == NULL && can_merge(joinrel, jointype, extra) &&
		merge_order(&order))
	{
		merged = merge_join(&order);
		partial_merged = partial_merge_join(&order);
	}

	kept = kept_paths(joinrel);
	if (kept->paths == NULL)
	{
		kept->paths = makeNode(RelOptInfo);
		kept->paths->consider_startup = joinrel->consider_startup;
		kept->paths->consider_param_startup = joinrel->consider_param_startup;
		kept->paths->consider_parallel = joinrel->consider_parallel;
	}
	pair = palloc(sizeof(JoinPair));
	pair->outer = outerrel;
	pair->inner = innerrel;
	pair->jointype = compat_plain_jointype(jointype);
	kept->pairs = lappend(kept->pairs, pair);
	offer_all(kept, joinrel, &merged, &partial_merged);
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
