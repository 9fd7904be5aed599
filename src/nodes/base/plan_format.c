/*
 * plan_format.c
 *	  Sort columns, LIMIT and duplicates in the plan nodes of sorts.
 *
 * Plan trees are copied, written and read.  So custom_private has lists of
 * numbers: a list for each property of a key column, with an element for each
 * column; then the number of distinct columns and of their values.  A GpuSort
 * Incremental adds the length of its prefix.  custom_exprs has the two expressions
 * of the Limit above, because PostgreSQL walks and fixes up these expressions with
 * the plan.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/base/plan_format.h"
#include "nodes/pg_list.h"

/* The lists of a key column's properties in custom_private. */
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
	cscan->custom_private = lappend(cscan->custom_private, list_make2_int(0, 0));
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
gpusort_plan_set_distinct(CustomScan *cscan, int distinct, double groups)
{
	List	   *list = list_nth(cscan->custom_private, PLAN_LISTS);

	/* rows that differ in fewer columns differ in these, too */
	if (linitial_int(list) > 0 && linitial_int(list) <= distinct)
		return;
	linitial_int(list) = distinct;
	lsecond_int(list) = (int) Min(groups, PG_INT32_MAX);
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
sort_plan_read(SortPlan *sort, CustomScanState *css)
{
	const CustomScan *cscan = (const CustomScan *) css->ss.ps.plan;
	const List *distinct = list_nth(cscan->custom_private, PLAN_LISTS);

	sort->keys = gpusort_plan_keys(cscan, &sort->nkeys);
	sort->distinct = linitial_int(distinct);
	sort->groups = lsecond_int(distinct);
	sort->limit_count = sort->limit_offset = NULL;
	if (cscan->custom_exprs == NIL)
		return;
	/* the executor passes a LIMIT to a Sort, but not to a custom node */
	sort->limit_count = ExecInitExpr(linitial(cscan->custom_exprs), &css->ss.ps);
	sort->limit_offset = ExecInitExpr(lsecond(cscan->custom_exprs), &css->ss.ps);
}

/* Invalid values count as no LIMIT; the Limit node reports the error. */
size_t
sort_plan_bound(const SortPlan *sort, const CustomScanState *css)
{
	ExprContext *econtext = css->ss.ps.ps_ExprContext;
	int64		count;
	int64		offset = 0;
	Datum		value;
	bool		isnull;

	if (sort->limit_count == NULL)
		return 0;
	value = ExecEvalExprSwitchContext(sort->limit_count, econtext, &isnull);
	if (isnull)
		return 0;
	count = DatumGetInt64(value);
	if (sort->limit_offset != NULL)
	{
		value = ExecEvalExprSwitchContext(sort->limit_offset, econtext, &isnull);
		offset = isnull ? 0 : DatumGetInt64(value);
	}
	if (count < 0 || offset < 0 || count > PG_INT32_MAX || offset > PG_INT32_MAX)
		return 0;
	/* for LIMIT 0 one row, because 0 would mean all rows */
	return Max(1, (size_t) (count + offset));
}
