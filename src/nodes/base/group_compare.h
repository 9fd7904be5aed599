/*
 * group_compare.h
 *	  Comparing and keeping the values of group columns, for loops over rows.
 */
#ifndef GPUSORT_NODES_BASE_GROUP_COMPARE_H
#define GPUSORT_NODES_BASE_GROUP_COMPARE_H

#include "postgres.h"

#include "nodes/base/group_column.h"

/* Has the value, which is passed by value, the bits of the kept one? */
static pg_attribute_always_inline bool
group_column_same_bits(const GroupColumn *column, Datum value)
{
	return (((uint64) column->value ^ (uint64) value) & column->bits) == 0;
}

/* Is the row's value in this column the kept one?  The slot is deformed. */
static pg_attribute_always_inline bool
group_column_equals(GroupColumns *columns, int i, const TupleTableSlot *row)
{
	const GroupColumn *column = &columns->columns[i];
	Datum		value = row->tts_values[column->attno - 1];

	if (unlikely(row->tts_isnull[column->attno - 1] || column->isnull))
		return row->tts_isnull[column->attno - 1] && column->isnull;
	if (likely(column->typbyval))
	{
		if (group_column_same_bits(column, value))
			return true;
		if (column->bytes_decide)
			return false;
	}
	return group_column_compare(columns, i, value);
}

/* Keeps the row's value of a column, which its slot may forget.  The slot is deformed. */
static pg_attribute_always_inline void
group_column_keep(GroupColumn *column, const TupleTableSlot *row, MemoryContext cxt)
{
	column->isnull = row->tts_isnull[column->attno - 1];
	if (column->isnull)
		return;
	if (column->typbyval)
		column->value = row->tts_values[column->attno - 1];
	else
		group_column_keep_by_reference(column, row->tts_values[column->attno - 1], cxt);
}

/* Keeps the row's values of columns from this one on. */
static pg_attribute_always_inline void
group_columns_keep(GroupColumns *columns, const TupleTableSlot *row, int from)
{
	int			n = columns->n;

	for (int i = from; i < n; i++)
		group_column_keep(&columns->columns[i], row, columns->cxt);
}

/*
 * Number of the first of n columns in which the row differs from the kept values; n if there
 * is none.  The slot is deformed.
 */
static pg_attribute_always_inline int
group_columns_first_difference(GroupColumns *columns, int n, const TupleTableSlot *row)
{
	int			first = 0;

	while (first < n && group_column_equals(columns, first, row))
		first++;
	return first;
}

/* Does the row have the kept values of the first n columns? */
static inline bool
group_columns_same(GroupColumns *columns, int n, TupleTableSlot *row)
{
	slot_getsomeattrs(row, columns->last_attno);
	return group_columns_first_difference(columns, n, row) == n;
}

#endif							/* GPUSORT_NODES_BASE_GROUP_COMPARE_H */
