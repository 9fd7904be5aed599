/*
 * sort_path.c
 *	  Sort paths of ours, serial and parallel, which compete with PostgreSQL's.
 *
 * The paths are ordinary Sort and Gather Merge paths, whose nodes replace.c replaces
 * in the finished plan.  parallel/sort_cost.c predicts their times.  They cost what
 * PostgreSQL's path costs for the same work, in the ratio of the predicted times
 * (planner_internal.h), and add_path() chooses.
 *
 * PostgreSQL compares a Sort with a Gather Merge above Sorts by the costs of its own
 * sort and of its tuple queues.  The rows of our parallel sorts use no queue, so a parallel
 * sort may be faster where PostgreSQL plans one process.  Such a path is added for an ORDER
 * BY, because nothing of the query comes above it that workers could do.  Where PostgreSQL
 * reads a plain table in the order of an index, with or without an Incremental Sort, the
 * sort of the table is added, serial or parallel.  No path is added below a LIMIT that is
 * not a constant: the number of rows is unknown, and the Sort may stay (replace.c).
 *
 * A parallel path must save a tenth of the time, because that is the precision of the
 * predictions.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "parallel/parallel.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* A column with at least this correlation counts as presorted. */
#define IN_ORDER			0.99

/* A column with this share of distinct values decides the order; later columns do not matter. */
#define NEARLY_UNIQUE		0.9

/*
 * How much faster than its peer a path must be predicted to be: in any case, and further for
 * each join below it and each subquery, whose numbers of rows may be wrong, and if only some
 * of its rows may be wanted.
 */
#define MARGIN_LEAST		1.2
#define MARGIN_JOIN			0.2
#define MARGIN_LIMIT		0.3

/* The maximum number of workers must take at most this share of the default number's time. */
#define MORE_WORKERS_MOST	0.95

/* Rows of a Gather for each of its workers from which an exchange of sorted blocks pays. */
#define EXCHANGE_ROWS_WORKER	2000

/* Time that such an exchange saves for a row, which would pass through a tuple queue and the Gather Merge. */
#define EXCHANGE_SAVES_US		0.15

const Path *
path_below_projection(const Path *path)
{
	return IsA(path, ProjectionPath) ? ((const ProjectionPath *) path)->subpath : path;
}

/* Is this path a Gather or Gather Merge? */
static bool
path_gathers(const Path *path)
{
	path = path_below_projection(path);
	return IsA(path, GatherPath) || IsA(path, GatherMergePath);
}

double
offer_margin(PlannerInfo *root, Relids relids)
{
	double		margin = MARGIN_LEAST;
	int			relid = -1;

	while ((relid = bms_next_member(relids, relid)) >= 0)
	{
		const RelOptInfo *rel = root->simple_rel_array[relid];

		if (rel == NULL)
			continue;
		margin += MARGIN_JOIN;
		if (rel->rtekind != RTE_RELATION)
			margin += MARGIN_JOIN;
	}
	/* one relation is no join */
	if (!bms_is_empty(relids))
		margin -= MARGIN_JOIN;
	if (root->tuple_fraction > 0)
		margin += MARGIN_LIMIT;
	return margin;
}

/* The member of a pathkey's class that belongs to these relations; otherwise any member. */
static EquivalenceMember *
pathkey_member(const PathKey *pathkey, Relids relids)
{
	EquivalenceMember *found = NULL;
	ListCell   *lc;

	foreach(lc, pathkey->pk_eclass->ec_members)
	{
		EquivalenceMember *member = lfirst(lc);

		if (member->em_is_const)
			continue;
		if (!bms_is_empty(member->em_relids) && bms_is_subset(member->em_relids, relids))
			return member;
		if (found == NULL)
			found = member;
	}
	return found;
}

/* The physical order of a column, by its statistics: 1 ascending, -1 descending, 0 neither. */
static int
physical_order(const VariableStatData *var)
{
	AttStatsSlot slot;
	int			order = 0;

	if (!HeapTupleIsValid(var->statsTuple) ||
		!get_attstatsslot(&slot, var->statsTuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						  ATTSTATSSLOT_NUMBERS))
		return 0;
	if (slot.nnumbers == 1 && fabs(slot.numbers[0]) > IN_ORDER)
		order = slot.numbers[0] > 0 ? 1 : -1;
	free_attstatsslot(&slot);
	return order;
}

/*
 * Are a table's rows presorted by the keys, ascending or descending?  Each key column
 * must have that physical order, up to the first column that is nearly unique.
 */
static bool
is_presorted(PlannerInfo *root, const Path *input, List *exprs, const KeyColumn *keys)
{
	int			order = 0;
	bool		unique = false;
	ListCell   *lc;

	if (path_below_projection(input)->pathtype != T_SeqScan)
		return false;
	foreach(lc, exprs)
	{
		const KeyColumn *key = &keys[foreach_current_index(lc)];
		VariableStatData var;
		bool		isdefault;
		int			own;

		examine_variable(root, lfirst(lc), 0, &var);
		own = key->descending ? -physical_order(&var) : physical_order(&var);
		unique = var.rel != NULL &&
			get_variable_numdistinct(&var, &isdefault) >= NEARLY_UNIQUE * var.rel->tuples;
		ReleaseVariableStats(var);
		if (own == 0 || (order != 0 && own != order))
			return false;
		if (unique)
			break;
		order = own;
	}
	return true;
}

/* Are the rows their keys, which a serial sort keeps in place of the rows? */
static bool
rows_are_keys(const PathTarget *target, List *exprs, const KeyColumn *keys)
{
	return keys_only_possible(NULL, keys, list_length(exprs)) && list_difference(target->exprs, exprs) == NIL;
}

/*
 * Carried columns.  If the values of all columns can be made from normalized keys, and nobody depends on the
 * order of rows with equal sort keys, the other columns become the last keys.  Then the sort has no rows: it
 * moves keys of 8 or 16 bytes, needs half the memory, and returns keys in memory order, where it would read each row
 * from a random place.
 */
int
carry_columns(List *columns, KeyColumn *keys, int n)
{
	int			all = n;
	ListCell   *lc;

	foreach(lc, columns)
	{
		Oid			type = exprType(lfirst(lc));
		KeyColumn	key = {.attno = foreach_current_index(lc) + 1,.collation = exprCollation(lfirst(lc))};
		bool		is_key = false;
		const char *why;

		for (int i = 0; i < n; i++)
			is_key |= keys[i].attno == key.attno;
		if (is_key)
			continue;
		get_sort_group_operators(type, false, false, false, &key.sortop, NULL, NULL, NULL);
		if (!OidIsValid(key.sortop) || !key_type_lookup(&key, type, &why))
			return n;
		keys[all++] = key;
	}
	return keys_only_possible(NULL, keys, all) ? all : n;
}

/* The number of the column, from 1; 0: none is this expression. */
static AttrNumber
column_number(List *columns, const Expr *expr)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (equal(lfirst(lc), expr))
			return foreach_current_index(lc) + 1;
	}
	return 0;
}

bool
sort_path_facts(PlannerInfo *root, const Path *input, List *pathkeys, bool any_order, SortCostFacts *facts)
{
	List	   *columns = input->pathtarget->exprs;
	KeyColumn  *keys = palloc0((list_length(pathkeys) + list_length(columns)) * sizeof(KeyColumn));
	List	   *exprs = NIL;
	ListCell   *lc;

	memset(facts, 0, sizeof(*facts));
	facts->keys = keys;
	foreach(lc, pathkeys)
	{
		const PathKey *pathkey = lfirst_node(PathKey, lc);
		EquivalenceMember *member = pathkey_member(pathkey, input->parent->relids);
		KeyColumn  *key = &keys[facts->nkeys++];
		const char *why;

		if (member == NULL)
			return false;
		key->sortop = compat_pathkey_operator(pathkey, member->em_datatype);
		key->collation = pathkey->pk_eclass->ec_collation;
		key->nulls_first = pathkey->pk_nulls_first;
		if (!OidIsValid(key->sortop) ||
			!key_type_lookup(key, exprType((Node *) member->em_expr), &why) ||
			!key_orders_by_equality(key))
			return false;
		exprs = lappend(exprs, member->em_expr);
		if (any_order)
			key->attno = column_number(columns, member->em_expr);
	}
	if (facts->nkeys == 0)
		return false;
	facts->rows = input->rows;
	facts->row_bytes = stored_row_bytes(input->pathtarget->width);
	facts->in_order = is_presorted(root, input, exprs, keys);
	facts->keys_only = rows_are_keys(input->pathtarget, exprs, keys);
	if (any_order)
		facts->nkeys = carry_columns(columns, keys, facts->nkeys);
	if (facts->nkeys > list_length(exprs))
	{
		/* rows of a group are not in the order of carried columns */
		facts->in_order = false;
		facts->keys_only = true;
	}
	list_free(exprs);
	return true;
}

const Expr *
sorted_column(const PathKey *pathkey, const Path *path)
{
	ListCell   *lc;

	if (pathkey->pk_eclass->ec_has_volatile)
		return NULL;
	foreach(lc, path->pathtarget->exprs)
	{
		if (find_ec_member_matching_expr(pathkey->pk_eclass, lfirst(lc), path->parent->relids) != NULL)
			return lfirst(lc);
	}
	return NULL;
}

/*
 * May workers sort the path's rows below a node of this relation?  If they may not run what the
 * relation computes, the keys must not be computed for the sort.
 */
static bool
workers_may_sort(const RelOptInfo *rel, List *pathkeys, const Path *path)
{
	ListCell   *lc;

	if (rel->consider_parallel)
		return true;
	foreach(lc, pathkeys)
	{
		if (sorted_column(lfirst(lc), path) == NULL)
			return false;
	}
	return true;
}

/* Sets the predicted times of an offer whose sort takes this time. */
static void
set_times(SortOffer *offer, const SortCostFacts *facts, double input_us)
{
	double		wanted = offer->bound > 0 ? Min(1, offer->bound / facts->rows) : 1;

	offer->input_us = input_us;
	offer->own_us = offer->time.sort_us + offer->time.rows_us * wanted;
}

/*
 * Sets the offer to a parallel sort of a partial path, unless its participants would not exchange
 * their rows.  facts has the rows of all participants.
 */
static void
offer_parallel(SortOffer *offer, Path *partial, const SortCostFacts *facts)
{
	int			workers = partial->parallel_workers;

	offer->parallel = exchange_pays(partial->total_cost, facts->rows, workers, offer->bound);
	offer->input = partial;
	sort_cost_parallel(facts, workers, &offer->time);
	/* PostgreSQL divides the rows of a partial path as if each participant had a CPU */
	set_times(offer, facts,
			  setup_us(workers) + us_of_cost(partial->total_cost) * shares_on_cpus(workers, offer->bound));
}

/*
 * The same path with the maximum number of workers; NULL if it has that number, or is
 * not a table scan whose number may change.
 */
static Path *
with_all_workers(PlannerInfo *root, Path *partial)
{
	int			workers = (int) sort_abreast(Min(max_parallel_workers_per_gather, max_parallel_workers));
	const Path *scan = path_below_projection(partial);
	Path	   *more;

	if (!IsA(scan, Path) || scan->pathtype != T_SeqScan || scan->param_info != NULL ||
		scan->parent->rel_parallel_workers != -1 || scan->parallel_workers >= workers)
		return NULL;
	more = makeNode(Path);
	*more = *scan;
	more->parallel_workers = workers;
	cost_seqscan(more, root, scan->parent, NULL);
	if (scan == partial)
		return more;
	return (Path *) create_projection_path(root, partial->parent, more, partial->pathtarget);
}

/* Does the second offer take at most this share of the first one's time? */
static bool
saves(const SortOffer *offer, const SortOffer *other, double most)
{
	return other->input_us + other->own_us <= most * (offer->input_us + offer->own_us);
}

/*
 * May this query have a Gather that PostgreSQL does not plan?  In a subquery it takes the workers
 * from the queries around it, which cannot run in workers then, unless these queries read nothing
 * but this subquery.  PostgreSQL plans the subqueries of expressions and of WITH before it makes
 * the relations of the query around them.
 */
static bool
may_add_gather(const PlannerInfo *root)
{
	for (const PlannerInfo *parent = root->parent_root; parent != NULL; parent = parent->parent_root)
	{
		const RangeTblEntry *rte;
		int			relid;

		if (parent->simple_rel_array == NULL || !bms_get_singleton_member(parent->all_baserels, &relid))
			return false;
		rte = parent->simple_rte_array[relid];
		if (rte->rtekind != RTE_SUBQUERY || rte->inh)
			return false;
	}
	return true;
}

bool
gather_is_possible(PlannerInfo *root, const RelOptInfo *rel, const RelOptInfo *input_rel, const Path *input)
{
	return !path_gathers(input) && enable_gathermerge && input_rel != NULL && input_rel->partial_pathlist != NIL &&
		input->param_info == NULL && compat_gather_allowed(rel) && may_add_gather(root);
}

bool
find_sort(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *input_rel, Path *input, SortOffer *offer)
{
	SortCostFacts facts;
	SortOffer	parallel;
	SortOffer	more;
	Path	   *partial;

	if (!enable_sort || input->rows < gpusort_min_rows ||
		!sort_path_facts(root, input, offer->pathkeys, offer->any_order, &facts))
		return false;
	facts.groups = offer->groups;
	facts.bound = offer->bound;
	offer->input = input;
	offer->parallel = false;
	offer->keys_only = facts.keys_only;
	/* the rows of a Gather are sorted by its participants */
	if (path_gathers(input))
		sort_cost_parallel(&facts, ((const GatherPath *) path_below_projection(input))->subpath->parallel_workers,
						   &offer->time);
	else if (offer->participants > 1)
		sort_cost_participant(&facts, offer->participants, &offer->time);
	else
		sort_cost_serial(&facts, &offer->time);
	set_times(offer, &facts, us_of_cost(input->total_cost));
	offer->serial_us = offer->own_us;
	if (!gather_is_possible(root, rel, input_rel, input) ||
		!workers_may_sort(rel, offer->pathkeys, linitial(input_rel->partial_pathlist)))
		return true;

	partial = linitial(input_rel->partial_pathlist);
	parallel = more = *offer;
	offer_parallel(&parallel, partial, &facts);
	partial = with_all_workers(root, partial);
	if (partial != NULL)
	{
		offer_parallel(&more, partial, &facts);
		if (more.parallel && (!parallel.parallel || saves(&parallel, &more, MORE_WORKERS_MOST)))
			parallel = more;
	}
	if (parallel.parallel && saves(offer, &parallel, WORKERS_MOST))
		*offer = parallel;
	return true;
}

void
count_cached_runs(SortOffer *offer)
{
	if (offer->bound > 0)
		return;
	offer->time.sort_us -= offer->time.cached_us / 2;
	offer->time.rows_us -= offer->time.cached_us / 2;
	offer->own_us -= offer->time.cached_us;
}

bool
find_sort_in_workers(PlannerInfo *root, Path *partial, SortOffer *offer)
{
	SortCostFacts facts;

	if (!enable_sort || partial->rows < gpusort_min_rows ||
		!sort_path_facts(root, partial, offer->pathkeys, offer->any_order, &facts))
		return false;
	facts.rows = partial->rows * shares_of(partial->parallel_workers);
	facts.groups = offer->groups;
	offer->keys_only = facts.keys_only;
	offer_parallel(offer, partial, &facts);
	return offer->parallel;
}

bool
sort_files_allowed(const SortOffer *offer)
{
	int			width = offer->input->pathtarget->width;

	return !offer->time.spills ||
		temp_files_allowed(offer->input->rows * (offer->keys_only ? width : stored_row_bytes(width)));
}

Path *
sort_offer_path(PlannerInfo *root, RelOptInfo *rel, const SortOffer *offer, const Peer *peer)
{
	/* workers may run the sort even if they may not run what rel computes */
	Path	   *sort = (Path *) create_sort_path(root, offer->parallel ? offer->input->parent : rel, offer->input,
												 offer->pathkeys, offer->bound > 0 ? offer->bound : -1);
	Cost		below = offer->input->total_cost;
	double		rows;
	Path	   *path;

	sort->startup_cost = below + peer_cost(peer, offer->time.sort_us);
	sort->total_cost = sort->startup_cost + peer_cost(peer, offer->time.rows_us);
	if (!offer->parallel)
		return sort;
	rows = offer->input->rows * shares_of(offer->input->parallel_workers);
	path = (Path *) create_gather_merge_path(root, rel, sort, sort->pathtarget, offer->pathkeys, NULL, &rows);
	path->startup_cost = sort->startup_cost + parallel_setup_cost;
	path->total_cost = sort->total_cost + parallel_setup_cost;
	return path;
}

/*
 * The blocks of a few rows cost more memory than the tuple queues cost time.  A LIMIT lets the
 * participants share their cutoffs.  If the leader may take rows but only merges, the exchange must
 * save more than the leader's share of the input.  Without a cost of starting workers the answer is
 * always yes.
 */
bool
exchange_pays(Cost input, double rows, int workers, double bound)
{
	if (workers <= 0 || parallel_setup_cost == 0)
		return workers > 0;
	if (bound == 0 && rows < (double) workers * EXCHANGE_ROWS_WORKER)
		return false;
	if (bound > 0)
		rows = Min(rows, bound);
	return !parallel_leader_participation || exchange_participants(workers, bound) > workers ||
		rows * EXCHANGE_SAVES_US >= us_of_cost(input) / (workers + 1);
}

/* ------------------------------------------------------------------------
 * Tables that PostgreSQL reads in the order of an index
 * ------------------------------------------------------------------------
 */

/* Is the path an index scan, or does it merge or append index scans of partitions? */
static bool
scans_indexes(const Path *path)
{
	const List *subpaths;
	ListCell   *lc;

	check_stack_depth();
	path = path_below_projection(path);
	if (IsA(path, MergeAppendPath))
		subpaths = ((const MergeAppendPath *) path)->subpaths;
	else if (IsA(path, AppendPath))
		subpaths = ((const AppendPath *) path)->subpaths;
	else
		return IsA(path, IndexPath);
	foreach(lc, subpaths)
	{
		if (!scans_indexes(lfirst(lc)))
			return false;
	}
	return true;
}

/* expression_tree_walker: does a query have a LIMIT, or ask for the existence of a row? */
static bool
reads_first_rows(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubLink) && ((const SubLink *) node)->subLinkType == EXISTS_SUBLINK)
		return true;
	if (IsA(node, Query))
		return ((const Query *) node)->limitCount != NULL ||
			query_tree_walker((Query *) node, reads_first_rows, context, 0);
	return expression_tree_walker(node, reads_first_rows, context);
}

/*
 * May only the first rows of this query be read, for a reason that its own planner does not see?  If the query around a
 * subquery joins, sorts or groups, the subquery's tuple_fraction is 0, also below a LIMIT or in a cursor.  A query of
 * WITH is planned before the queries that read it.
 */
static bool
may_end_early(const PlannerInfo *root)
{
	for (const PlannerInfo *parent = root->parent_root; parent != NULL; parent = parent->parent_root)
	{
		if (parent->parse->limitCount != NULL || parent->tuple_fraction > 0 ||
			(parent->simple_rel_array == NULL && reads_first_rows((Node *) parent->parse, NULL)))
			return true;
	}
	return false;
}

Cost
index_order_cost(const PlannerInfo *root, const Path *path, const RelOptInfo *table)
{
	const Path *scan;

	if (path == NULL || table->reloptkind != RELOPT_BASEREL || table->rtekind != RTE_RELATION)
		return 0;
	scan = path = path_below_projection(path);
	if (IsA(path, IncrementalSortPath))
		scan = ((const IncrementalSortPath *) path)->spath.subpath;
	if (scan->parent != table || scan->pathkeys == NIL || !scans_indexes(scan) || may_end_early(root))
		return 0;
	return (scan->total_cost + path->total_cost) / 2;
}

bool
sort_costs_less(const SortOffer *offer, Cost index_cost, const char *name)
{
	Peer		peer = time_peer();
	Cost		cost = peer_cost(&peer, offer->input_us + offer->own_us);
	bool		less = cost < index_cost && compat_disabled_nodes(offer->input) == 0;

	ereport(DEBUG1,
			(errmsg_internal("gpusort: %s: cost %.0f of our sort, %.0f in the order of an index: %s", name, cost,
							 index_cost, less ? "a path is added" : "PostgreSQL's paths stay")));
	return less;
}

/* ------------------------------------------------------------------------
 * Paths for ORDER BY
 * ------------------------------------------------------------------------
 */

/*
 * add_path() may free a path for one that costs 1 % more.  Several such steps add up to
 * at most this.
 */
#define ADD_PATH_FUZZ	1.05

/* Is this path a sort of the input? */
static bool
sorts(const Path *path, const Path *input)
{
	path = path_below_projection(path);
	return (IsA(path, SortPath) || IsA(path, IncrementalSortPath)) &&
		((const SortPath *) path)->subpath == input;
}

/*
 * Does the input's cheapest path still exist?  A sorted path was added to rel itself,
 * and add_path() may have freed it.  It exists
 *
 * - if rel has a sort of it, because then it was not sorted and not added to rel, or
 * - if every path of rel costs more than it does.  Its cost cannot be read, because it
 *	 may have been freed.  But it is at most the cost of a Gather of the partial path,
 *	 which competed with it: the caller has checked, by the partial path's target, that
 *	 nothing is computed above the input.
 */
static bool
input_remains(const RelOptInfo *input_rel, const RelOptInfo *rel, const Path *partial)
{
	double		rows = Max(input_rel->rows, partial->rows * shares_of(partial->parallel_workers));
	Cost		most = partial->total_cost + parallel_setup_cost + parallel_tuple_cost * rows;
	bool		costlier = !IS_UPPER_REL(input_rel) && compat_gather_allowed(input_rel) &&
		compat_disabled_nodes(partial) == 0;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		const Path *path = lfirst(lc);

		if (sorts(path, input_rel->cheapest_total_path))
			return true;
		costlier = costlier && path->total_cost > most * ADD_PATH_FUZZ;
	}
	return costlier;
}

/* Is there no LIMIT, or a constant one, which becomes the sort's bound? */
static bool
limit_is_known(const Query *query)
{
	if (query->limitCount == NULL)
		return true;
	return query->limitOption == LIMIT_OPTION_COUNT && limit_is_constant(query->limitCount, query->limitOffset);
}

/*
 * If PostgreSQL's path reads a plain table in the order of an index, our sort of the table competes with it, unless
 * something is computed after the sort.  A scan cannot compute functions that return sets.  The scan gets a new path,
 * because a path of input_rel may have been freed.  True if a path was added.
 */
static bool
offer_sort_of_table(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel, SortOffer offer)
{
	const PathTarget *target = root->upper_targets[UPPERREL_ORDERED];
	const Path *path = get_cheapest_path_for_pathkeys(rel->pathlist, NIL, NULL, TOTAL_COST, false);
	const RangeTblEntry *rte;
	Peer		peer = time_peer();
	Cost		most;

	if (!gpusort_plan_grouping || target == NULL || root->parse->hasTargetSRFs ||
		input_rel->rows < Max(gpusort_min_rows, gpusort_plan_grouping_min_rows))
		return false;
	most = index_order_cost(root, path, input_rel);
	if (most == 0 || !equal(target->exprs, input_rel->reltarget->exprs))
		return false;
	/* an index-only scan reads no row at a random place, so the ratio of the costs is that of the times */
	if (path_below_projection(path)->pathtype == T_IndexOnlyScan)
		most /= MARGIN_LEAST;
	rte = planner_rt_fetch(input_rel->relid, root);
	if (rte->relkind == RELKIND_FOREIGN_TABLE || rte->inh || rte->tablesample != NULL ||
		!bms_is_empty(input_rel->lateral_relids) ||
		!find_sort(root, rel, rel->consider_parallel ? input_rel : NULL, create_seqscan_path(root, input_rel, NULL, 0),
				   &offer) ||
		!sort_costs_less(&offer, most, "ORDER BY"))
		return false;
	add_path(rel, sort_offer_path(root, rel, &offer, &peer));
	return true;
}

void
offer_sorts(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel)
{
	Path	   *input = input_rel->cheapest_total_path;
	Path	   *partial;
	PathTarget *target = root->upper_targets[UPPERREL_ORDERED];
	SortOffer	offer = {.pathkeys = root->sort_pathkeys,.bound = Max(root->limit_tuples, 0)};
	Peer		peer = time_peer();

	if (root->sort_pathkeys == NIL || !limit_is_known(root->parse))
		return;
	if (offer_sort_of_table(root, input_rel, rel, offer) || !enable_gathermerge || !rel->consider_parallel ||
		input_rel->partial_pathlist == NIL)
		return;

	/*
	 * Nothing may be computed after the sort, because it would move below the
	 * Gather Merge.  Set operations have no target.  input is read only after
	 * input_remains(), because it may have been freed.
	 */
	partial = linitial(input_rel->partial_pathlist);
	target = root->upper_targets[UPPERREL_ORDERED];
	if (target == NULL || partial->rows < gpusort_min_rows ||
		!equal(target->exprs, partial->pathtarget->exprs) ||
		!input_remains(input_rel, rel, partial) ||
		!equal(target->exprs, input->pathtarget->exprs) ||
		pathkeys_contained_in(root->sort_pathkeys, input->pathkeys) ||
		pathkeys_contained_in(root->sort_pathkeys, partial->pathkeys) ||
		!find_sort(root, rel, input_rel, input, &offer))
		return;
	if (offer.parallel)
		add_path(rel, sort_offer_path(root, rel, &offer, &peer));
}
