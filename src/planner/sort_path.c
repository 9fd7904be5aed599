/*
 * sort_path.c
 *	  Sort paths, serial and parallel, at the costs of our sorts.
 *
 * The paths are ordinary Sort and Gather Merge paths, whose nodes replace.c replaces
 * in the finished plan.  Only their costs are ours: parallel/sort_cost.c predicts the
 * time, and planner_internal.h converts it to the planner's units.
 *
 * PostgreSQL compares a Sort with a Gather Merge above Sorts by the costs of its own
 * sort and of its tuple queues.  Our sorts are faster, and their parallel rows use no
 * queue, so PostgreSQL's choice may be wrong.  If an ORDER BY may be parallel, the
 * planner's hook adds both paths again, at our costs, and add_path() chooses.  If it may
 * not, the sort of a table is added at our costs, because it competes with scans of
 * indexes, and with Incremental Sorts of their rows.  Paths are added only where
 * replace.c will replace their nodes in the finished plan.  No path is added below a
 * LIMIT that is not a constant: the number of rows is unknown, and the Sort may stay
 * (replace.c).
 *
 * A parallel path must save a tenth of the time, because that is the precision of the
 * prediction and the workers occupy CPUs.  PostgreSQL derives the number of workers
 * from the table's pages.  The maximum number is used if it saves a twentieth more,
 * unless the table sets parallel_workers.
 *
 * Paths lie in the planner's memory context.
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
#include "parser/parsetree.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* A column with at least this correlation counts as presorted. */
#define IN_ORDER			0.99

/* A column with this share of distinct values decides the order; later columns do not matter. */
#define NEARLY_UNIQUE		0.9

/* The maximum number of workers must cost at most this share of the default number's cost. */
#define MORE_WORKERS_MOST	0.95

const Path *
path_below_projection(const Path *path)
{
	return IsA(path, ProjectionPath) ? ((const ProjectionPath *) path)->subpath : path;
}

bool
path_gathers(const Path *path)
{
	path = path_below_projection(path);
	return IsA(path, GatherPath) || IsA(path, GatherMergePath);
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
	ListCell   *lc;

	if (!keys_are_decodable(keys, list_length(exprs)))
		return false;
	foreach(lc, target->exprs)
	{
		if (!list_member(exprs, lfirst(lc)))
			return false;
	}
	return true;
}

bool
sort_path_facts(PlannerInfo *root, const Path *input, List *pathkeys, SortCostFacts *facts)
{
	KeyColumn  *keys = palloc0(list_length(pathkeys) * sizeof(KeyColumn));
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
			!key_type_lookup(key, exprType((Node *) member->em_expr), &why))
			return false;
		exprs = lappend(exprs, member->em_expr);
	}
	if (facts->nkeys == 0)
		return false;
	facts->rows = input->rows;
	facts->row_bytes = stored_row_bytes(input->pathtarget->width);
	facts->in_order = is_presorted(root, input, exprs, keys);
	facts->keys_only = rows_are_keys(input->pathtarget, exprs, keys);
	list_free(exprs);
	return true;
}

/*
 * The part of a scan's cost that we save: we read a table in memory by page, and workers
 * share its pages.  PostgreSQL does not divide the cost of pages, because they may come
 * from one disk.  With a condition most of the time is spent on tuples, and the pages
 * count as PostgreSQL counts them.
 */
static Cost
scan_saves(const Path *path, double read_part)
{
	const RelOptInfo *rel;
	Cost		saves;

	path = path_below_projection(path);
	rel = path->parent;
	if (path->pathtype != T_SeqScan || rel->pages > (BlockNumber) effective_cache_size)
		return 0;
	saves = path->rows * cpu_tuple_cost * (1 - PAGES_ROW_PART);
	if (rel->baserestrictinfo == NIL)
		return saves + seq_page_cost * rel->pages * (1 - read_part);
	return saves + rel->tuples * Min(1, path->rows / rel->rows) * cpu_tuple_cost * PAGES_TUPLE_SAVES;
}

/* A path's cost if only the rows of the bound are fetched. */
static Cost
cost_spent(const Path *path, const SortCostFacts *facts)
{
	double		wanted = facts->bound > 0 ? Min(1, facts->bound / facts->rows) : 1;

	return path->startup_cost + (path->total_cost - path->startup_cost) * wanted;
}

/* Sets the cost of a sort of an input, with this number of processes per CPU. */
static void
set_sort_cost(Path *path, Cost input, const SortCost *cost, double oversubscription)
{
	path->startup_cost = input + cost_of_us(cost->sort_us) * oversubscription;
	path->total_cost = path->startup_cost + cost_of_us(cost->rows_us) * oversubscription;
}

Path *
sort_path_serial(PlannerInfo *root, RelOptInfo *rel, Path *input, List *pathkeys,
				 const SortCostFacts *facts)
{
	Path	   *path = (Path *) create_sort_path(root, rel, input, pathkeys,
												 facts->bound > 0 ? facts->bound : -1);
	SortCost	cost;

	sort_cost_serial(facts, &cost);
	set_sort_cost(path, input->total_cost, &cost, 1);
	return path;
}

/*
 * A parallel sort of a partial path.  serial_saves is added to its cost, because the
 * costs of the serial paths, with which add_path() compares it, contain it as well.
 */
static Path *
sort_with_workers(PlannerInfo *root, RelOptInfo *rel, Path *input, List *pathkeys,
				  const SortCostFacts *facts, Cost serial_saves)
{
	int			workers = input->parallel_workers;
	double		rows = facts->rows;
	double		shares = shares_of(workers);
	Cost		setup = cost_of_setup(workers);
	Cost		read;
	Path	   *sort;
	Path	   *path;
	SortCost	cost;

	sort_cost_parallel(facts, workers, parallel_leader_participation, &cost);
	read = (input->total_cost - scan_saves(input, PAGES_NEW_PART / shares)) * shares /
		sort_cost_concurrency(workers, parallel_leader_participation);

	sort = (Path *) create_sort_path(root, rel, input, pathkeys, facts->bound > 0 ? facts->bound : -1);
	path = (Path *) create_gather_merge_path(root, rel, sort, sort->pathtarget, pathkeys, NULL, &rows);
	set_sort_cost(sort, serial_saves + read, &cost, 1);
	path->startup_cost = setup + sort->startup_cost;
	path->total_cost = setup + sort->total_cost;
	return path;
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

Path *
sort_path_parallel(PlannerInfo *root, RelOptInfo *rel, Path *partial, const Path *serial,
				   List *pathkeys, const SortCostFacts *facts)
{
	Cost		saves = scan_saves(serial != NULL ? ((const SortPath *) serial)->subpath : partial,
								   PAGES_READ_PART);
	Cost		most = serial != NULL ? WORKERS_MOST * (cost_spent(serial, facts) - saves) : HUGE_VAL;
	Path	   *few = sort_with_workers(root, rel, partial, pathkeys, facts, saves);
	Path	   *many;

	most = Min(most, MORE_WORKERS_MOST * (cost_spent(few, facts) - saves));
	partial = with_all_workers(root, partial);
	if (partial != NULL)
	{
		many = sort_with_workers(root, rel, partial, pathkeys, facts, saves);
		if (cost_spent(many, facts) - saves <= most)
			return many;
	}
	if (serial != NULL && cost_spent(few, facts) - saves > WORKERS_MOST * (cost_spent(serial, facts) - saves))
		return NULL;
	return few;
}

Path *
sort_path_partial(PlannerInfo *root, RelOptInfo *rel, Path *partial, List *pathkeys, double groups)
{
	int			participants = partial->parallel_workers + (parallel_leader_participation ? 1 : 0);
	SortCostFacts facts;
	SortCost	cost;
	Path	   *path;

	if (!sort_path_facts(root, partial, pathkeys, &facts))
		return NULL;
	facts.groups = groups;
	sort_cost_participant(&facts, participants, &cost);
	path = (Path *) create_sort_path(root, rel, partial, pathkeys, -1);
	set_sort_cost(path, partial->total_cost, &cost, oversubscription_of(participants));
	return path;
}

Path *
sort_path_cheapest(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *input_rel, Path *input,
				   List *pathkeys, double groups)
{
	SortCostFacts facts;
	Path	   *serial;
	Path	   *parallel = NULL;
	Cost		saves;

	if (!enable_sort || input->rows < gpusort_min_rows ||
		!sort_path_facts(root, input, pathkeys, &facts))
		return NULL;
	facts.groups = groups;
	serial = sort_path_serial(root, rel, input, pathkeys, &facts);
	if (enable_gathermerge && rel->consider_parallel && input_rel != NULL &&
		input_rel->partial_pathlist != NIL && input->param_info == NULL && compat_gather_allowed(rel))
		parallel = sort_path_parallel(root, rel, linitial(input_rel->partial_pathlist), serial,
									  pathkeys, &facts);
	if (parallel != NULL)
		serial = parallel;

	/*
	 * The plans that are compared with this one read the same pages at
	 * PostgreSQL's cost, so only the rows count that are read by page.
	 */
	saves = Min(scan_saves(input, 1), serial->startup_cost);
	serial->startup_cost -= saves;
	serial->total_cost -= saves;
	return serial;
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

static create_upper_paths_hook_type prev_upper_paths_hook = NULL;

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

bool
limit_is_known(const Query *query)
{
	if (query->limitCount == NULL)
		return true;
	return query->limitOption == LIMIT_OPTION_COUNT && IsA(query->limitCount, Const) &&
		(query->limitOffset == NULL || IsA(query->limitOffset, Const));
}

/*
 * Adds a sort of a table that is scanned as a whole, if nothing is computed after the sort.
 * A scan cannot compute functions that return sets.  The scan gets a new path, because a
 * path of input_rel may have been freed.
 */
static void
offer_sort_of_table(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel)
{
	const PathTarget *target = root->upper_targets[UPPERREL_ORDERED];
	const RangeTblEntry *rte;
	SortCostFacts facts;
	Path	   *scan;

	if (!gpusort_plan_grouping || target == NULL || root->parse->hasTargetSRFs ||
		input_rel->reloptkind != RELOPT_BASEREL || input_rel->rtekind != RTE_RELATION ||
		input_rel->rows < Max(gpusort_min_rows, gpusort_plan_grouping_min_rows) ||
		!equal(target->exprs, input_rel->reltarget->exprs))
		return;
	rte = planner_rt_fetch(input_rel->relid, root);
	if (rte->relkind == RELKIND_FOREIGN_TABLE || rte->inh || rte->tablesample != NULL ||
		!bms_is_empty(input_rel->lateral_relids))
		return;
	scan = create_seqscan_path(root, input_rel, NULL, 0);
	if (!sort_path_facts(root, scan, root->sort_pathkeys, &facts))
		return;
	facts.bound = Max(root->limit_tuples, 0);
	add_path(rel, sort_path_serial(root, rel, scan, root->sort_pathkeys, &facts));
}

/* Adds our paths for an ORDER BY. */
static void
offer_sorts(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel)
{
	Path	   *input = input_rel->cheapest_total_path;
	Path	   *partial;
	PathTarget *target;
	SortCostFacts facts;
	Path	   *serial;
	Path	   *parallel;

	if (!gpusort_enable || !enable_sort || root->sort_pathkeys == NIL || !limit_is_known(root->parse))
		return;
	if (!enable_gathermerge || !rel->consider_parallel || input_rel->partial_pathlist == NIL)
	{
		offer_sort_of_table(root, input_rel, rel);
		return;
	}

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
		!sort_path_facts(root, input, root->sort_pathkeys, &facts))
		return;
	facts.bound = Max(root->limit_tuples, 0);
	/* rows that come from workers are sorted by the workers */
	serial = path_gathers(input) ? NULL :
		sort_path_serial(root, rel, input, root->sort_pathkeys, &facts);
	parallel = sort_path_parallel(root, rel, partial, serial, root->sort_pathkeys, &facts);
	if (serial != NULL)
		add_path(rel, serial);
	if (parallel != NULL)
		add_path(rel, parallel);
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
