/*
 * distinct_filter.c
 *	  Drops duplicates of rows that come in sort order.
 */
#include "postgres.h"

#include "nodes/base/distinct_filter.h"
#include "nodes/base/group_compare.h"
#include "utils/memutils.h"

DistinctFilter *
distinct_filter_create(const CustomScanState *css, const SortPlan *sort)
{
	MemoryContext old = MemoryContextSwitchTo(css->ss.ps.state->es_query_cxt);
	DistinctFilter *filter = palloc0(sizeof(DistinctFilter));

	filter->columns = group_columns_create(css, sort->distinct);
	group_columns_add_keys(filter->columns, sort->keys, sort->distinct);
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
	GroupColumns *columns = filter->columns;

	slot_getsomeattrs(row, columns->last_attno);
	if (filter->begun && group_columns_first_difference(columns, columns->n, row) == columns->n)
	{
		filter->dropped++;
		return false;
	}
	group_columns_keep(columns, row, 0);
	filter->begun = true;
	return true;
}
