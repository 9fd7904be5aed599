/*
 * jit_costs.c
 *	  Decides about JIT compilation by PostgreSQL's costs.
 *
 * standard_planner() compiles a plan whose total cost exceeds jit_above_cost.  Users set
 * that threshold for PostgreSQL's costs.  The costs that grouping.c, joins.c and shards.c
 * raise are higher than PostgreSQL's, although the plan takes as long as before.
 * So a plan would be compiled that PostgreSQL runs without compilation, and would lose
 * the time of compilation.
 *
 * While a statement is planned, each rise of a path's cost is noted.  Afterwards the
 * rises of the paths that became nodes of the plan are subtracted from the plan's total
 * cost, and the thresholds are applied again.  A node is recognized by its startup cost
 * and total cost: a path keeps its startup cost when it becomes a node, and its total
 * cost grows only by the expressions of the target list.
 *
 * A rise on the inner side of a nested loop, or in a subplan, is subtracted once, although
 * the plan's total cost contains it once for each execution.  Then the remaining cost is
 * too high, and the plan may be compiled as it would be without this file.
 *
 * Memory policy: one array for each statement that is being planned, in the memory
 * context of the planner's caller.  Nothing is noted if JIT is off.  Errors: the array of
 * the outer statement is restored by the planner's hook.
 */
#include "postgres.h"

#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "planner/planner_internal.h"
#include "utils/memutils.h"

/* Entries of the first array. */
#define RISES_FIRST	16

/* The costs of a path after its rise, and how much of its total cost is the rise. */
typedef struct Rise
{
	Cost		startup;
	Cost		total;
	Cost		rise;
} Rise;

struct CostRises
{
	MemoryContext cxt;			/* of the array */
	Rise	   *rises;
	int			used;			/* entries in use */
	int			room;			/* entries allocated */
};

/* Rises of the statement that is being planned; NULL if none are noted. */
static CostRises *noted = NULL;

CostRises *
cost_rises_begin(CostRises **outer)
{
	CostRises  *rises = NULL;

	*outer = noted;
	if (jit_enabled && jit_above_cost >= 0)
	{
		rises = palloc0(sizeof(CostRises));
		rises->cxt = CurrentMemoryContext;
	}
	noted = rises;
	return rises;
}

void
cost_rises_end(CostRises *outer)
{
	noted = outer;
}

void
apply_change(Path *path, const CostChange *change)
{
	path->startup_cost += change->startup;
	path->total_cost += change->total;

	if (noted == NULL || change->total <= 0)
		return;
	if (noted->rises == NULL)
	{
		noted->room = RISES_FIRST;
		noted->rises = MemoryContextAlloc(noted->cxt, noted->room * sizeof(Rise));
	}
	else if (noted->used == noted->room)
	{
		noted->room *= 2;
		noted->rises = repalloc_huge(noted->rises, noted->room * sizeof(Rise));
	}
	noted->rises[noted->used++] = (Rise)
	{
		.startup = path->startup_cost,.total = path->total_cost,.rise = change->total
	};
}

/* Can a path that was raised become such a node? */
static bool
may_be_raised(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Agg:
		case T_Group:
		case T_Unique:
		case T_SetOp:
		case T_WindowAgg:
		case T_HashJoin:
		case T_MergeJoin:
		case T_Gather:
		case T_GatherMerge:
		case T_Sort:
		case T_IncrementalSort:
		case T_MergeAppend:
		case T_Result:
			return true;
		default:
			return false;
	}
}

/*
 * The rise of a node's own path; 0 if there is none.  The rise is removed from the array,
 * and so are those of equal paths, so that a node above with the same costs finds none.
 */
static Cost
take_rise(CostRises *rises, const Plan *plan)
{
	Cost		rise = 0;
	Cost		total = 0;

	for (int i = 0; i < rises->used; i++)
	{
		Rise	   *noted_rise = &rises->rises[i];

		if (noted_rise->rise == 0 || noted_rise->startup != plan->startup_cost || noted_rise->total > plan->total_cost)
			continue;
		if (noted_rise->total > total)
		{
			total = noted_rise->total;
			rise = noted_rise->rise;
		}
	}
	for (int i = 0; rise > 0 && i < rises->used; i++)
	{
		if (rises->rises[i].startup == plan->startup_cost && rises->rises[i].total == total)
			rises->rises[i].rise = 0;
	}
	return rise;
}

static Cost rises_of_list(CostRises *rises, List *plans);

/* The sum of the rises of a plan's nodes. */
static Cost
rises_of_plan(CostRises *rises, const Plan *plan)
{
	Cost		sum;

	if (plan == NULL)
		return 0;
	check_stack_depth();
	sum = rises_of_plan(rises, plan->lefttree) + rises_of_plan(rises, plan->righttree);
	switch (nodeTag(plan))
	{
		case T_Append:
			sum += rises_of_list(rises, ((const Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			sum += rises_of_list(rises, ((const MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			sum += rises_of_plan(rises, ((const SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			sum += rises_of_list(rises, ((const CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
	return may_be_raised(plan) ? sum + take_rise(rises, plan) : sum;
}

static Cost
rises_of_list(CostRises *rises, List *plans)
{
	Cost		sum = 0;
	ListCell   *lc;

	foreach(lc, plans)
		sum += rises_of_plan(rises, lfirst(lc));
	return sum;
}

void
jit_by_own_costs(PlannedStmt *stmt, CostRises *rises)
{
	Cost		total;

	if (rises == NULL || rises->used == 0 || (stmt->jitFlags & PGJIT_PERFORM) == 0)
		return;
	total = stmt->planTree->total_cost - rises_of_plan(rises, stmt->planTree) - rises_of_list(rises, stmt->subplans);
	if (total <= jit_above_cost)
		stmt->jitFlags = PGJIT_NONE;
	if (jit_optimize_above_cost < 0 || total <= jit_optimize_above_cost)
		stmt->jitFlags &= ~PGJIT_OPT3;
	if (jit_inline_above_cost < 0 || total <= jit_inline_above_cost)
		stmt->jitFlags &= ~PGJIT_INLINE;
}
