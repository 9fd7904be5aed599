/*
 * plan_format.c
 *	  Sort columns, LIMIT and duplicates in the plan nodes of sorts.
 *
 * Plan trees are copied, written and read.  So custom_private has lists of numbers: a list of
 * such lists, one for each key column; then the number of distinct columns and of their values.
 * A GpuSort Incremental adds the length of its prefix.  custom_exprs has the two expressions
 * of the Limit above, because PostgreSQL walks and fixes up these expressions with the plan.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/base/plan_format.h"
#include "nodes/pg_list.h"

void
gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit)
{
	List	   *columns = NIL;

	for (int i = 0; i < nkeys; i++)
	{
		const KeyColumn *key = &keys[i];
		List	   *column = list_make5_int(key->attno, key->sortop, key->collation, key->nulls_first, key->descending);

		columns = lappend(columns, lappend_int(column, key->kind));
	}
	cscan->custom_private = list_make2(columns, list_make2_int(0, 0));
	if (limit != NULL)
		cscan->custom_exprs = list_make2(limit->limitCount, limit->limitOffset);
}

KeyColumn *
gpusort_plan_keys(const CustomScan *cscan, int *nkeys)
{
	const List *columns = linitial(cscan->custom_private);
	KeyColumn  *keys = palloc(list_length(columns) * sizeof(KeyColumn));

	*nkeys = list_length(columns);
	for (int i = 0; i < *nkeys; i++)
	{
		const List *column = list_nth(columns, i);

		keys[i].attno = list_nth_int(column, 0);
		keys[i].sortop = list_nth_int(column, 1);
		keys[i].collation = list_nth_int(column, 2);
		keys[i].nulls_first = list_nth_int(column, 3);
		keys[i].descending = list_nth_int(column, 4);
		keys[i].kind = (KeyKind) list_nth_int(column, 5);
	}
	return keys;
}

void
gpusort_plan_set_distinct(CustomScan *cscan, int distinct, double groups)
{
	List	   *list = lsecond(cscan->custom_private);

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

	foreach(lc, (List *) linitial(cscan->custom_private))
	{
		List	   *column = lfirst(lc);

		if (linitial_int(column) == from)
			linitial_int(column) = to;
	}
}

void
sort_plan_read(SortPlan *sort, CustomScanState *css)
{
	const CustomScan *cscan = (const CustomScan *) css->ss.ps.plan;
	const List *distinct = lsecond(cscan->custom_private);

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
