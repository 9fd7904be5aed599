/*
 * column_read.h
 *	  Reads columns of tuples, for loops over rows.
 */
#ifndef GPUSORT_STORE_COLUMN_READ_H
#define GPUSORT_STORE_COLUMN_READ_H

#include "postgres.h"

#include "store/column_reader.h"
#include "store/tuple_walk_inline.h"

/*
 * Stores the columns of a tuple of len bytes.  Values passed by reference stay in the tuple.
 * Raises an error if a column lies outside the tuple.
 */
static pg_attribute_always_inline void
column_reader_read(const ColumnReader *reader, const HeapTupleHeaderData *tuple, Size len)
{
	WalkAt		at[WALK_MAX_STEPS];

	if (unlikely(!tuple_walk(reader->walk, tuple, len, at)))
	{
		column_reader_read_slowly(reader, tuple, len);
		return;
	}
	for (int i = 0; i < reader->n; i++)
	{
		const ReaderColumn *column = &reader->columns[i];

		*column->value = reader_column_load(column, at[column->step].begin + column->offset);
		*column->isnull = false;
	}
}

#endif							/* GPUSORT_STORE_COLUMN_READ_H */
