/*
 * paths.c
 *	  ORDER BY: one process or many workers, by what our sorts cost.
 *
 * PostgreSQL weighs a Sort against a Gather Merge above Sorts by what its own cost,
 * the Gather Merge by every row's way through a queue.  Ours cost a tenth of that, and
 * their rows take no queue, so that either choice may be wrong.  Where an ORDER BY may be
 * parallel both paths are therefore offered once more, at our costs (sort_cost.h); which
 * of them all is cheapest add_path() says.  They are paths of PostgreSQL's own, and
 * become ours with any other Sort when the plan is finished (replace.c): so they are only
 * offered where nothing will be against that.
 *
 * Nothing is offered below a LIMIT that is no constant: how many rows it wants is not
 * known, and the Sort may stay one (replace.c).
 *
 * Workers are taken if they promise to save a tenth of the time: the promise is no better than
 * that, and they keep all processors busy for it.  How many there are PostgreSQL says by the
 * table's pages alone, as if they were only to be read: as many as are allowed are taken if they
 * promise a twentieth more, unless the table says how many it wants.
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

/* A column that correlates so with its place in the table comes in order, but for a few rows. */
#define IN_ORDER			0.99

/* Of a table's rows, those that differ in a column, so that the columns behind it decide little. */
#define NEARLY_UNIQUE		0.9

/* Of the cost with as many workers as a table's pages ask for, that more of them may take. */
#define MORE_WORKERS_MOST	0.95

/*
 * A path that costs a hundredth more is as good as another to add_path(), which may then free the
 * other: so much may some of them, one after the other, add.
 */
#define ADD_PATH_FUZZ	1.05

static create_upper_paths_hook_type prev_upper_paths_hook = NULL;

/*
 * The clauses of the ORDER BY that the sort compares, as root->sort_pathkeys has them: without columns
 * that are equal in all rows or that an earlier clause names.  NIL if they cannot be told.
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

/* Their key columns; false if there is one that we cannot sort by. */
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

/* How a column's values lie in its table, as far as statistics know: in order 1, in reverse -1, otherwise 0. */
static int
order_of(const VariableStatData *var)
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
 * Do a table's rows lie in order of the keys, or in reverse?  Each key must, up to one that
 * nearly all rows differ in: of rows that are equal by all keys before it, a key that does not
 * lie so decides.
 */
static bool
lie_in_order(PlannerInfo *root, const Path *input, List *clauses, const KeyColumn *keys)
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
		own = key->descending ? -order_of(&var) : order_of(&var);
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
 * What a path's cost contains that will not be spent.  A whole table in memory is
 * taken by pages; and of one that workers share, each reads only its part, which
 * PostgreSQL does not reckon with, as the pages might all come from one disk.
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

/* Does it sort the input? */
static bool
sorts(const Path *path, const Path *input)
{
	path = without_projection(path);
	return (IsA(path, SortPath) || IsA(path, IncrementalSortPath)) &&
		((const SortPath *) path)->subpath == input;
}

/*
 * Is the input's cheapest path still there, to be looked at?  If it was in order it was itself
 * offered for rel, and add_path() frees a path that another is as good as.  It was not if there
 * is a sort of it; nor if each path that there is costs more than it does: its cost is no more
 * than that of a Gather of the partial path, which was offered beside it.  That holds if nothing is
 * computed above the input, for which its path would have been changed and its cost with it: so
 * the caller has seen by the partial path, of the same target, that nothing is.
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

/* What of the sort is spent if no more rows are fetched than are wanted. */
static Cost
cost_spent(const SortCostFacts *facts, const SortCost *cost)
{
	double		wanted = facts->bound > 0 ? Min(1, facts->bound / facts->rows) : 1;

	return cost_of_us(cost->sort_us + cost->rows_us * wanted);
}

/* A sort in this process; returns what is spent with it. */
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
 * The same by workers, each of which runs the path, and the leader, if at most so much is spent;
 * returns what is.  alone_saves is what a single process's cost has too much: so has this.
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

	/* who has one processor should allow no workers */
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

/* A whole table's scan by as many workers as are allowed; NULL if it has no fewer, or is something else. */
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

/* Do its rows come from workers? */
static bool
gathers(const Path *path)
{
	path = without_projection(path);
	return IsA(path, GatherPath) || IsA(path, GatherMergePath);
}

/* There is no LIMIT, or one that will be the sort's bound. */
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
	 * What is computed after the sort would come below the Gather Merge.  Set operations have no
	 * target.  The input is not to be looked at before it is known to remain.
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
	facts.in_order = lie_in_order(root, partial, clauses, facts.keys);
	/* if workers bring the rows they may as well sort them */
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
gpusort_upper_paths(PlannerInfo *root, UpperRelationKind keybuf, RelOptInfo *input_rel,
					RelOptInfo *output_rel, void *extra)
{
	if (prev_upper_paths_hook)
		prev_upper_paths_hook(root, keybuf, input_rel, output_rel, extra);
	if (keybuf == UPPERREL_ORDERED)
		offer_sorts(root, input_rel, output_rel);
}

void
gpusort_ordered_init(void)
{
	prev_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = gpusort_upper_paths;
}
