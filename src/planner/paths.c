/*
 * paths.c
 *	  Sort paths for ORDER BY, serial and parallel, at the costs of our sorts.
 *
 * PostgreSQL compares a Sort with a Gather Merge above Sorts by the costs of its own
 * sort and of its tuple queues.  Our sorts are faster, and their parallel rows use no
 * queue, so PostgreSQL's choice may be wrong.  If an ORDER BY may be parallel, this
 * hook adds both paths again, at our costs (parallel/sort_cost.h), and add_path()
 * chooses.  sort_path.c makes the paths.  They are added only where replace.c will
 * replace their nodes in the finished plan.
 *
 * No path is added below a LIMIT that is not a constant: the number of rows is
 * unknown, and the Sort may stay (replace.c).
 */
#include "postgres.h"

#include "compat.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "parallel/sort_cost.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"

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

/* Is there no LIMIT, or a constant one, which becomes the sort's bound? */
static bool
limit_known(const Query *query)
{
	if (query->limitCount == NULL)
		return true;
	return query->limitOption == LIMIT_OPTION_COUNT && IsA(query->limitCount, Const) &&
		(query->limitOffset == NULL || IsA(query->limitOffset, Const));
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

	if (!gpusort_enable || !enable_sort || !enable_gathermerge || !rel->consider_parallel ||
		root->sort_pathkeys == NIL || input_rel->partial_pathlist == NIL ||
		!limit_known(root->parse))
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
