/*
 * plan_format.c
 *	  A GpuSort in a finished plan.
 *
 * Plans are copied, written and read: custom_private is lists of numbers, one for
 * each property of a key column, with an element per column; custom_exprs, which is
 * walked and fixed up with the plan, has the Limit's two expressions.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "node/gpusort_node.h"
#include "node/plan_format.h"
#include "nodes/pg_list.h"

typedef enum PlanList
{
	PLAN_ATTNO,
	PLAN_SORTOP,
	PLAN_COLLATION,
	PLAN_NULLS_FIRST,
	PLAN_DESCENDING,
	PLAN_KIND,
	PLAN_LISTS
} PlanList;

bool
gpusort_plan_is(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &gpusort_scan_methods;
}

void
gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit)
{
	List	   *lists[PLAN_LISTS] = {NIL};

	for (int i = 0; i < nkeys; i++)
	{
		lists[PLAN_ATTNO] = lappend_int(lists[PLAN_ATTNO], keys[i].attno);
		lists[PLAN_SORTOP] = lappend_oid(lists[PLAN_SORTOP], keys[i].sortop);
		lists[PLAN_COLLATION] = lappend_oid(lists[PLAN_COLLATION], keys[i].collation);
		lists[PLAN_NULLS_FIRST] = lappend_int(lists[PLAN_NULLS_FIRST], keys[i].nulls_first);
		lists[PLAN_DESCENDING] = lappend_int(lists[PLAN_DESCENDING], keys[i].descending);
		lists[PLAN_KIND] = lappend_int(lists[PLAN_KIND], keys[i].kind);
	}
	cscan->custom_private = NIL;
	for (int i = 0; i < PLAN_LISTS; i++)
		cscan->custom_private = lappend(cscan->custom_private, lists[i]);
	if (limit != NULL)
		cscan->custom_exprs = list_make2(limit->limitCount, limit->limitOffset);
}

KeyColumn *
gpusort_plan_keys(const CustomScan *cscan, int *nkeys)
{
	List	   *lists[PLAN_LISTS];
	KeyColumn  *keys;

	for (int i = 0; i < PLAN_LISTS; i++)
		lists[i] = list_nth(cscan->custom_private, i);
	*nkeys = list_length(lists[0]);
	keys = palloc(*nkeys * sizeof(KeyColumn));
	for (int i = 0; i < *nkeys; i++)
	{
		keys[i].attno = list_nth_int(lists[PLAN_ATTNO], i);
		keys[i].sortop = list_nth_oid(lists[PLAN_SORTOP], i);
		keys[i].collation = list_nth_oid(lists[PLAN_COLLATION], i);
		keys[i].nulls_first = list_nth_int(lists[PLAN_NULLS_FIRST], i);
		keys[i].descending = list_nth_int(lists[PLAN_DESCENDING], i);
		keys[i].kind = (KeyKind) list_nth_int(lists[PLAN_KIND], i);
	}
	return keys;
}

void
gpusort_plan_move_key(CustomScan *cscan, AttrNumber from, AttrNumber to)
{
	ListCell   *lc;

	foreach(lc, (List *) list_nth(cscan->custom_private, PLAN_ATTNO))
	{
		if (lfirst_int(lc) == from)
			lfirst_int(lc) = to;
	}
}

void
gpusort_plan_limit(const CustomScan *cscan, PlanState *parent, ExprState **count, ExprState **offset)
{
	*count = *offset = NULL;
	if (cscan->custom_exprs == NIL)
		return;
	*count = ExecInitExpr(linitial(cscan->custom_exprs), parent);
	*offset = ExecInitExpr(lsecond(cscan->custom_exprs), parent);
}
