/*
 * distinct_filter.c
 *	  Drops duplicates of rows that come in sort order.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "nodes/base/distinct_filter.h"
#include "nodes/base/group_compare.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

DistinctFilter *
distinct_filter_create(const CustomScanState *css, const SortPlan *sort)
{
	TupleDesc	desc = ExecGetResultType(outerPlanState(css));
	MemoryContext old = MemoryContextSwitchTo(css->ss.ps.state->es_query_cxt);
	DistinctFilter *filter = palloc0(offsetof(DistinctFilter, columns) + sort->distinct * sizeof(GroupColumn));

	filter->cxt = CurrentMemoryContext;
	filter->scratch = AllocSetContextCreate(CurrentMemoryContext, "GpuSort duplicates", ALLOCSET_SMALL_SIZES);
	filter->ncolumns = sort->distinct;
	for (int i = 0; i < sort->distinct; i++)
	{
		const KeyColumn *key = &sort->keys[i];
		Oid			equality = get_equality_op_for_ordering_op(key->sortop, NULL);

		if (!OidIsValid(equality))
			elog(ERROR, "missing equality operator for ordering operator %u", key->sortop);
		group_column_init(&filter->columns[i], key->attno, equality, key->collation, desc);
		filter->last_attno = Max(filter->last_attno, key->attno);
	}
	MemoryContextSwitchTo(old);
	return filter;
}

void
distinct_filter_reset(DistinctFilter *filter)
{
	filter->begun = false;
	filter->dropped = 0;
}

bool
distinct_filter_pass(DistinctFilter *filter, TupleTableSlot *row)
{
	slot_getsomeattrs(row, filter->last_attno);
	if (filter->begun &&
		group_columns_first_difference(filter->columns, filter->ncolumns, row, filter->scratch) == filter->ncolumns)
	{
		filter->dropped++;
		return false;
	}
	for (int i = 0; i < filter->ncolumns; i++)
		group_column_keep(&filter->columns[i], row, filter->cxt);
	filter->begun = true;
	return true;
}
