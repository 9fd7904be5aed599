/*
 * column_reader.h
 *	  Column reader: stores the values of some columns where they are needed.
 */
#ifndef GPUSORT_STORE_COLUMN_READER_H
#define GPUSORT_STORE_COLUMN_READER_H

#include "postgres.h"

#include "store/tuple_walk.h"

typedef struct ReaderColumn
{
	/* set by the caller */
	AttrNumber	att;			/* from 0 */
	Datum	   *value;			/* where the value is stored */
	bool	   *isnull;

	/* set by column_reader_create() */
	int16		byval_len;		/* bytes of a type passed by value; 0: by
								 * reference */
	uint16		step;			/* the walk's step that has the column */
	int32		offset;			/* offset in the step */
} ReaderColumn;

typedef struct ColumnReader
{
	TupleWalk  *walk;
	int			n;
	ReaderColumn *columns;
} ColumnReader;

/*
 * Creates a reader of n columns of tuples of desc, in the current memory context; NULL if
 * a type is not supported.  The reader keeps the array.
 */
extern ColumnReader *column_reader_create(TupleDesc desc, ReaderColumn *columns, int n);

/* column_reader_read() for tuples that need a walk column by column. */
extern void column_reader_read_slowly(const ColumnReader *reader, const HeapTupleHeaderData *tuple, Size len);

/* The value of a column at this address, which is not NULL. */
static inline Datum
reader_column_load(const ReaderColumn *column, const char *from)
{
	switch (column->byval_len)
	{
		case 0:
			return PointerGetDatum(from);
		case 1:
			return CharGetDatum(*from);
		case 2:
			return Int16GetDatum(*(const int16 *) from);
		case 4:
			return Int32GetDatum(*(const int32 *) from);
		default:
			return *(const Datum *) from;
	}
}

/* The value of an integer, a date or a time of this size. */
static pg_attribute_always_inline int64
integer_of_datum(Datum value, int bytes)
{
	if (bytes == sizeof(int32))
		return DatumGetInt32(value);
	return bytes == sizeof(int64) ? DatumGetInt64(value) : DatumGetInt16(value);
}

#endif							/* GPUSORT_STORE_COLUMN_READER_H */
