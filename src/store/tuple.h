/*
 * tuple.h
 *	  Walk: finds the columns of a heap tuple.  Column reader: stores the values of some
 *	  columns where they are needed.  Row pick: forms MinimalTuples from some columns.
 *
 * A walk is prepared once for the wanted columns of a table.  A step of it is a
 * varlena, or several adjacent columns of fixed width.  A tuple that has all columns
 * up to the last wanted one, and no NULL among them, takes these steps without tests
 * per column.  Other tuples are walked column by column.
 *
 * The columns of a row pick may come in any order.  It writes the bytes that a slot with
 * these values would be stored as.  Columns that are adjacent in the tuple and in the row,
 * with the same padding, form one piece and are copied at once.  The pieces are known in
 * advance for tuples whose varlenas are short and that have no NULL; other tuples are
 * copied column by column.
 *
 * Loops over rows call the functions of tuple_read.h.
 */
#ifndef GPUSORT_STORE_TUPLE_H
#define GPUSORT_STORE_TUPLE_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "compat.h"

/* A walk that needs more steps goes column by column. */
#define WALK_MAX_STEPS	64

typedef struct WalkStep
{
	/* bytes of columns of fixed width; 0: a varlena */
	int32		len;
	uint8		align;			/* alignment less one */
	bool		small;			/* the varlena must have the short format */
} WalkStep;

/* Begin and end of a step in a tuple. */
typedef struct WalkAt
{
	const char *begin;
	const char *end;
} WalkAt;

typedef struct WalkColumn
{
	int16		len;			/* -1: a varlena */
	uint8		align;			/* alignment less one */
	uint16		step;			/* the step that has the column */
	int32		offset;			/* offset in the step */
	const char *missing;		/* value in older tuples; NULL: SQL NULL */
} WalkColumn;

typedef struct TupleWalk
{
	int			natts;			/* columns up to the last wanted one */
	int			nsteps;			/* 0: walk column by column */
	Size		missing_len;	/* bytes of all missing values */
	WalkStep   *steps;
	WalkColumn *cols;
} TupleWalk;

/*
 * Creates a walk to the columns atts[] (from 0) of tuples of desc, in the current
 * memory context; NULL if a type is not supported.  If small, tuple_walk() accepts
 * only tuples that have the varlenas of these columns in the short format, which is
 * not aligned.
 */
extern TupleWalk *tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small);

extern void tuple_walk_free(TupleWalk *walk);

/*
 * Finds the columns of any tuple: where[] gets their addresses, NULL for an SQL NULL.
 * Raises an error if a column lies outside the tuple.
 */
extern void tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
							   const char **where);

/* Does the tuple have all columns of the walk, without a NULL? */
static inline bool
tuple_walk_plain(const TupleWalk *walk, const HeapTupleHeaderData *tuple)
{
	if (unlikely(HeapTupleHeaderGetNatts(tuple) < walk->natts))
		return false;
	if (likely((tuple->t_infomask & HEAP_HASNULL) == 0))
		return true;
	for (int byte = 0; byte < walk->natts / 8; byte++)
	{
		if (tuple->t_bits[byte] != 0xFF)
			return false;
	}
	return (~tuple->t_bits[walk->natts / 8] & ((1 << walk->natts % 8) - 1)) == 0;
}

/*
 * Takes the steps through a tuple of len bytes; false if the tuple needs a walk column by
 * column.  Pages and tuples are aligned, so padding follows from addresses.
 */
static inline bool
tuple_walk(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len, WalkAt *at)
{
	const char *p = (const char *) tuple + tuple->t_hoff;

	if (unlikely(walk->nsteps == 0 || !tuple_walk_plain(walk, tuple)))
		return false;
	for (int s = 0; s < walk->nsteps; s++)
	{
		const WalkStep *step = &walk->steps[s];

		if (step->len > 0)
		{
			p = (const char *) (((uintptr_t) p + step->align) & ~(uintptr_t) step->align);
			at[s].begin = p;
			p += step->len;
		}
		else if (likely(VARATT_IS_1B(p) && !VARATT_IS_1B_E(p)))
		{
			at[s].begin = p;
			p += VARSIZE_1B(p);
		}
		else
		{
			if (step->small)
				return false;
			if (!VARATT_NOT_PAD_BYTE(p))
				p = (const char *) (((uintptr_t) p + step->align) & ~(uintptr_t) step->align);
			at[s].begin = p;
			p += VARSIZE_ANY(p);
		}
		at[s].end = p;
	}
	/* a corrupt length must not lead outside the tuple */
	return likely(p <= (const char *) tuple + len);
}

/* ---- Column reader ---- */

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

/* The value at this address.  byval_len: bytes of a type passed by value; otherwise 0. */
static inline Datum
datum_at(const char *from, int byval_len)
{
	switch (byval_len)
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

/* ---- Row pick ---- */

typedef struct PickPiece
{
	uint16		step;			/* step in which the piece begins */
	uint16		last;			/* step in which the piece ends */
	int32		from;			/* bytes from the begin of the first step */
	int32		until;			/* bytes to the end of the last step */
	int32		len;			/* length if known in advance; otherwise 0 */
	uint8		align;			/* alignment in the row, less one */
} PickPiece;

typedef struct PickColumn
{
	AttrNumber	att;			/* column of the tuple, from 0 */
	bool		packable;		/* may have the short format */
} PickColumn;

typedef struct RowPick
{
	TupleWalk  *walk;
	int			npieces;
	int			ncols;
	int			times;			/* how often a column is taken at most */

	/* a row is at most times * (data of its tuple) + extra bytes */
	Size		extra;
	PickPiece  *pieces;
	PickColumn *cols;
	char		header[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(8);
} RowPick;

/*
 * Creates a pick of rows of rowdesc, whose i-th column is column atts[i] (from 0) of
 * tuples of desc, in the current memory context; NULL if it is not possible.
 */
extern RowPick *row_pick_create(TupleDesc desc, TupleDesc rowdesc, const AttrNumber *atts);

extern void row_pick_free(RowPick *pick);

/* row_pick() for tuples with NULLs, long varlenas or missing columns. */
extern Size row_pick_by_column(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len,
							   char *row);

#endif							/* GPUSORT_STORE_TUPLE_H */
