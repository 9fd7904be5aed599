/*
 * paths.c
 *	  Sort paths for ORDER BY, serial and parallel, at the costs of our sorts.
 *
 * PostgreSQL compares a Sort with a Gather Merge above Sorts by the costs of its own
 * sort and of its tuple queues.  Our sorts are faster, and their parallel rows use no
 * queue, so PostgreSQL's choice may be wrong.  If an ORDER BY may be parallel, this
 * hook adds both paths again, at our costs (parallel/sort_cost.h), and add_path()
 * chooses.  The paths are ordinary Sort and Gather Merge paths.  replace.c replaces
 * their nodes in the finished plan, so they are added only where it will do so.
 *
 * No path is added below a LIMIT that is not a constant: the number of rows is
 * unknown, and the Sort may stay (replace.c).
 *
 * A parallel path must save a tenth of the time, because that is the precision of the
 * prediction and the workers occupy CPUs.  PostgreSQL derives the number of workers
 * from the table's pages.  The maximum number is used if it saves a twentieth more,
 * unless the table sets parallel_workers.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parallel/sort_cost.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "sort/sort_internal.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* A column with at least this correlation counts as presorted. */
#define IN_ORDER			0.99

/* A column with this share of distinct values decides the order; later columns do not matter. */
#define NEARLY_UNIQUE		0.9

/* The maximum number of workers must cost at most this share of the default number's cost. */
#define MORE_WORKERS_MOST	0.95

/*
 * add_path() may free a path for one that costs 1 % more.  Several such steps add up to
 * at most this.
 */
#define ADD_PATH_FUZZ	1.05

static create_upper_paths_hook_type prev_upper_paths_hook = NULL;

/*
 * The clauses of the ORDER BY that root->sort_pathkeys contains: without columns that
 * are constant or that an earlier clause names.  NIL if they cannot be determined.
 */
static List *
sort_clauses(PlannerInfo *root)
{
	List	   *clauses = NIL;
	List	   *pathkeys = NIL;
	ListCell   *lc;

	foreach(lc, root->parse->sortClause)
	{
		List	   *more = lappend(list_copy(clauses), lfirst(lc));
		List	   *keys = make_pathkeys_for_sortclauses(root, more, root->processed_tlist);

		if (list_length(keys) == list_length(pathkeys))
			continue;
		clauses = more;
		pathkeys = keys;
	}
	return compare_pathkeys(pathkeys, root->sort_pathkeys) == PATHKEYS_EQUAL ? clauses : NIL;
}

/* Sets the key columns of the clauses; false if we cannot sort by one of them. */
static bool
sort_keys(PlannerInfo *root, List *clauses, SortCostFacts *facts)
{
	KeyColumn  *keys = palloc0(list_length(clauses) * sizeof(KeyColumn));
	ListCell   *lc;

	facts->keys = keys;
	facts->nkeys = 0;
	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = get_sortgroupclause_expr(clause, root->processed_tlist);
		KeyColumn  *key = &keys[facts->nkeys++];
		const char *why;

		key->sortop = clause->sortop;
		key->collation = exprCollation(expr);
		key->nulls_first = clause->nulls_first;
		if (!key_type_lookup(key, exprType(expr), &why))
			return false;
	}
	return facts->nkeys > 0;
}

static const Path *
without_projection(const Path *path)
{
	return IsA(path, ProjectionPath) ? ((const ProjectionPath *) path)->subpath : path;
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
 * Are a table's rows presorted by the keys, ascending or descending?  Every key must
 * be, up to the first one that is nearly unique.
 */
static bool
is_presorted(PlannerInfo *root, const Path *input, List *clauses, const KeyColumn *keys)
{
	int			order = 0;
	bool		unique = false;
	ListCell   *lc;

	if (without_projection(input)->pathtype != T_SeqScan)
		return false;
	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		const KeyColumn *key = &keys[foreach_current_index(lc)];
		VariableStatData var;
		bool		isdefault;
		int			own;

		examine_variable(root, get_sortgroupclause_expr(clause, root->processed_tlist), 0, &var);
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

/*
 * The part of a scan's cost that we save: we read a whole table in memory by page, and
 * workers share its pages.  PostgreSQL does not divide the cost of pages, because they
 * may come from one disk.
 */
static Cost
scan_saves(const Path *path, double read_part)
{
	const RelOptInfo *rel;

	path = without_projection(path);
	rel = path->parent;
	if (path->pathtype != T_SeqScan || rel->baserestrictinfo != NIL ||
		rel->pages > (BlockNumber) effective_cache_size)
		return 0;
	return path->rows * cpu_tuple_cost * (1 - PAGES_ROW_PART) +
		seq_page_cost * rel->pages * (1 - read_part);
}

/* Is this path a sort of the input? */
static bool
sorts(const Path *path, const Path *input)
{
	path = without_projection(path);
	return (IsA(path, SortPath) || IsA(path, IncrementalSortPath)) &&
		((const SortPath *) path)->subpath == input;
}

/*
 * Does the input's cheapest path still exist?  A sorted path was added to rel itself,
 * and add_path() may have freed it.  It exists
 *
 * - if rel has a sort of it, because then it was not sorted, or
 * - if every path of rel costs more than it does.  Its cost is unknown without reading
 *	 it, but it is at most that of a Gather of the partial path, which competed with it.
 *	 That holds because the caller has checked, by the partial path's target, that
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

/* The sort's cost if only the wanted rows are fetched. */
static Cost
cost_spent(const SortCostFacts *facts, const SortCost *cost)
{
	double		wanted = facts->bound > 0 ? Min(1, facts->bound / facts->rows) : 1;

	return cost_of_us(cost->sort_us + cost->rows_us * wanted);
}

/* Adds a serial sort; returns its cost for the wanted rows. */
static Cost
offer_serial(PlannerInfo *root, RelOptInfo *rel, const SortCostFacts *facts, Path *input)
{
	Path	   *path = (Path *) create_sort_path(root, rel, input, root->sort_pathkeys,
												 root->limit_tuples);
	SortCost	cost;

	sort_cost_serial(facts, &cost);
	path->startup_cost = input->total_cost + cost_of_us(cost.sort_us);
	path->total_cost = path->startup_cost + cost_of_us(cost.rows_us);
	add_path(rel, path);
	return input->total_cost + cost_spent(facts, &cost);
}

/*
 * Adds a parallel sort of a partial path if it costs at most this much; returns its
 * cost.  serial_saves is added to the path's cost, because the serial paths' costs
 * contain it, too.
 */
static Cost
offer_workers(PlannerInfo *root, RelOptInfo *rel, const SortCostFacts *facts, Path *input,
			  Cost serial_saves, Cost most)
{
	int			workers = input->parallel_workers;
	double		rows = facts->rows;
	double		shares = shares_of(workers);
	Cost		setup = cost_of_setup(workers);
	Cost		read;
	Cost		spent;
	Path	   *sort;
	Path	   *path;
	SortCost	cost;

	sort_cost_parallel(facts, workers, parallel_leader_participation, &cost);
	read = (input->total_cost - scan_saves(input, PAGES_NEW_PART / shares)) * shares /
		sort_cost_concurrency(workers, parallel_leader_participation);
	spent = setup + read + cost_spent(facts, &cost);
	if (spent > most)
		return spent;

	sort = (Path *) create_sort_path(root, rel, input, root->sort_pathkeys, root->limit_tuples);
	path = (Path *) create_gather_merge_path(root, rel, sort, sort->pathtarget,
											 root->sort_pathkeys, NULL, &rows);
	sort->startup_cost = serial_saves + read + cost_of_us(cost.sort_us);
	sort->total_cost = sort->startup_cost + cost_of_us(cost.rows_us);
	path->startup_cost = setup + sort->startup_cost;
	path->total_cost = setup + sort->total_cost;
	add_path(rel, path);
	return spent;
}

/* A table scan with the maximum number of workers; NULL if it has them, or is no such scan. */
static Path *
with_all_workers(PlannerInfo *root, Path *partial)
{
	int			workers = (int) sort_abreast(Min(max_parallel_workers_per_gather, max_parallel_workers));
	const Path *scan = without_projection(partial);
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

/* Is this path a Gather or Gather Merge? */
static bool
gathers(const Path *path)
{
	path = without_projection(path);
	return IsA(path, GatherPath) || IsA(path, GatherMergePath);
}

/* Is there no LIMIT, or a constant one, which becomes the sort's bound? */
static bool
limit_known(const Query *query)
{
	if (query->limitCount == NULL)
		return true;
	return query->limitOption == LIMIT_OPTION_COUNT && IsA(query->limitCount, Const) &&
		(query->limitOffset == NULL || IsA(query->limitOffset, Const));
}

static void
offer_sorts(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel)
{
	Path	   *input = input_rel->cheapest_total_path;
	Path	   *partial;
	PathTarget *target;
	List	   *clauses;
	SortCostFacts facts;
	Cost		serial = HUGE_VAL;
	Cost		saves;
	Cost		most;

	if (!gpusort_enable || !enable_sort || !enable_gathermerge || !rel->consider_parallel ||
		root->sort_pathkeys == NIL || input_rel->partial_pathlist == NIL ||
		!limit_known(root->parse))
		return;

	/*
	 * Nothing may be computed after the sort, because it would move below the Gather
	 * Merge.  Set operations have no target.  input is read only after
	 * input_remains(), because it may have been freed.
	 */
	partial = linitial(input_rel->partial_pathlist);
	target = root->upper_targets[UPPERREL_ORDERED];
	if (target == NULL || partial->rows < gpusort_min_rows ||
		!equal(target->exprs, partial->pathtarget->exprs) ||
		!input_remains(input_rel, rel, partial) ||
		!equal(target->exprs, input->pathtarget->exprs) ||
		pathkeys_contained_in(root->sort_pathkeys, input->pathkeys) ||
		pathkeys_contained_in(root->sort_pathkeys, partial->pathkeys))
		return;
	clauses = sort_clauses(root);
	if (!sort_keys(root, clauses, &facts))
		return;
	facts.rows = input->rows;
	facts.bound = Max(root->limit_tuples, 0);
	facts.row_bytes = MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(input->pathtarget->width);
	facts.in_order = is_presorted(root, partial, clauses, facts.keys);
	/* if the rows come from workers, the workers sort them */
	if (gathers(input))
		input = partial;
	else
		serial = offer_serial(root, rel, &facts, input);
	saves = scan_saves(input, PAGES_READ_PART);
	most = WORKERS_MOST * (serial - saves);
	most = Min(most, MORE_WORKERS_MOST * offer_workers(root, rel, &facts, partial, saves, most));
	partial = with_all_workers(root, partial);
	if (partial != NULL)
		(void) offer_workers(root, rel, &facts, partial, saves, most);
}

static void
gpusort_upper_paths(PlannerInfo *root, UpperRelationKind kind, RelOptInfo *input_rel,
					RelOptInfo *output_rel, void *extra)
{
	if (prev_upper_paths_hook)
		prev_upper_paths_hook(root, kind, input_rel, output_rel, extra);
	if (kind == UPPERREL_ORDERED)
		offer_sorts(root, input_rel, output_rel);
}

void
gpusort_ordered_init(void)
{
	prev_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = gpusort_upper_paths;
}
