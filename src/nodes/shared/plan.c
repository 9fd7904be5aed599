/*
 * plan.c
 *	  Path and plan node of a shared sort.
 *
 * The path stands on an ordinary Sort path of a partial path, so the planner finds the sort's columns.  The plan
 * node takes the place of that Sort when the plan is made, not in the finished plan: if a Sort stayed there, for
 * example below a node of another extension, each process would return its own rows only.
 */
#include "postgres.h"

#include "key/key.h"
#include "nodes/nodeFuncs.h"
#include "nodes/shared/shared.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

/* CustomPathMethods.PlanCustomPath */
static Plan *
plan_shared_sort(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *plans)
{
	Sort	   *sort = linitial_node(Sort, plans);
	KeyColumn  *keys = palloc0(sort->numCols * sizeof(KeyColumn));
	CustomScan *cscan = custom_plan_make(&sort->plan, sort->plan.lefttree, copyObject(sort->plan.targetlist),
										 &shared_sort_node);

	/* unlike in a finished plan, target lists have the expressions themselves */
	cscan->scan.plan.targetlist = copyObject(sort->plan.targetlist);
	for (int i = 0; i < sort->numCols; i++)
	{
		const TargetEntry *tle = get_tle_by_resno(sort->plan.targetlist, sort->sortColIdx[i]);
		const char *why;

		keys[i] = PLAN_KEY_COLUMN(sort, i);
		if (!key_type_lookup(&keys[i], exprType((const Node *) tle->expr), &why))
			elog(ERROR, "key of a shared sort: %s", why);
	}
	gpusort_plan_fill(cscan, keys, sort->numCols, NULL);
	cscan->custom_private = list_concat(cscan->custom_private, path->custom_private);
	return &cscan->scan.plan;
}

bool
shared_sort_divides(const CustomScan *cscan)
{
	return list_length(cscan->custom_private) > 2;
}

static const CustomPathMethods shared_sort_path_methods = {
	.CustomName = "GpuSort Shared",
	.PlanCustomPath = plan_shared_sort
};

Path *
shared_sort_path(Path *sort, double rows, bool divided)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *sort;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.parallel_aware = true;
	/* a whole number: the workers read it from text, and size their filters by it */
	path->path.rows = clamp_row_est(rows);
	path->custom_paths = list_make1(sort);
	path->custom_private = divided ? list_make1(list_make1_int(true)) : NIL;
	path->methods = &shared_sort_path_methods;
	return &path->path;
}
