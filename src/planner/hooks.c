/*
 * hooks.c
 *	  The planner's hooks: after PostgreSQL has made its paths, ours are added; in the finished
 *	  plan our nodes take the place of others.
 *
 * Another extension's planner hook may keep the plan that it returns.  So such a plan is copied
 * before it is changed.
 */
#include "postgres.h"

#include "compat.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "planner/planner.h"
#include "planner/planner_internal.h"
#include "settings.h"

static planner_hook_type prev_planner_hook = NULL;
static create_upper_paths_hook_type prev_upper_paths_hook = NULL;
static set_join_pathlist_hook_type prev_join_pathlist_hook = NULL;

static PlannedStmt *
gpusort_planner(COMPAT_PLANNER_PARAMS)
{
	PlannedStmt *stmt;

	if (prev_planner_hook)
		stmt = prev_planner_hook(COMPAT_PLANNER_ARGS);
	else
		stmt = standard_planner(COMPAT_PLANNER_ARGS);

	if (gpusort_enable)
	{
		if (prev_planner_hook)
			stmt = copyObject(stmt);
		replace_plans(stmt, (cursorOptions & CURSOR_OPT_SCROLL) != 0);
	}
	return stmt;
}

static void
gpusort_upper_paths(PlannerInfo *root, UpperRelationKind kind, RelOptInfo *input_rel, RelOptInfo *output_rel,
					void *extra)
{
	if (prev_upper_paths_hook)
		prev_upper_paths_hook(root, kind, input_rel, output_rel, extra);
	if (!gpusort_enable || !enable_sort)
		return;
	if (kind == UPPERREL_ORDERED)
		offer_sorts(root, input_rel, output_rel);
	else if (gpusort_plan_grouping)
		offer_grouping(root, kind, input_rel, output_rel, extra);
}

static void
gpusort_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
				   JoinType jointype, JoinPathExtraData *extra)
{
	if (prev_join_pathlist_hook)
		prev_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);
	if (gpusort_enable && gpusort_plan_grouping && enable_sort)
		offer_join(root, joinrel, outerrel, innerrel, jointype, extra);
}

void
gpusort_planner_init(void)
{
	prev_planner_hook = planner_hook;
	planner_hook = gpusort_planner;
	prev_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = gpusort_upper_paths;
	prev_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = gpusort_join_paths;
}
