/*
 * alone.c
 *	  A plan that several processes were to share becomes one process's.
 *
 * A scan that is parallel-aware is like any other as long as it has no shared memory, which only a
 * Gather gives it; so it only loses the name.  A hash join whose table is to be built by all is
 * left as it is: its table's size was planned for their memory.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "plan/alone.h"
#include "plan/times.h"
#include "plan/weigh.h"

static bool
can_be_alone(const Plan *plan)
{
	List	   *children = plan_children(plan);
	bool		can = true;
	ListCell   *lc;

	check_stack_depth();
	if (plan->parallel_aware)
	{
		switch (nodeTag(plan))
		{
			case T_SeqScan:
			case T_IndexScan:
			case T_IndexOnlyScan:
			case T_BitmapHeapScan:
			case T_Append:
				break;
			default:
				can = false;
		}
	}
	foreach(lc, children)
		can = can && can_be_alone(lfirst(lc));
	list_free(children);
	return can;
}

/* Returns whether the plan's rows were to be shared. */
static bool
make_alone(Plan *plan, double shares)
{
	List	   *children = plan_children(plan);
	bool		shared = plan->parallel_aware;
	ListCell   *lc;

	plan->parallel_aware = false;
	foreach(lc, children)
		shared |= make_alone(lfirst(lc), shares);
	list_free(children);
	if (shared)
		plan->plan_rows = clamp_row_est(plan->plan_rows * shares);
	return shared;
}

bool
plan_make_alone(Plan *plan, int workers)
{
	if (!can_be_alone(plan))
		return false;
	(void) make_alone(plan, shares_of(workers));
	return true;
}
