/*
 * row_writer.h
 *	  Rows made of a slot's values.
 *
 * What heap_form_minimal_tuple() makes, byte for byte, for one kind of row after
 * another: what the columns' types say is asked once.  Where there is plenty of room the row
 * is not measured beforehand, but each varlena when its turn comes: that is half as many
 * instructions.
 */
#ifndef GPUSORT_ROW_WRITER_H
#define GPUSORT_ROW_WRITER_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"

typedef enum WriterKind
{
	WRITER_1,					/* by value, so many bytes */
	WRITER_2,
	WRITER_4,
	WRITER_8,
	WRITER_FIXED,				/* by reference, of fixed width */
	WRITER_VARLENA,
	WRITER_CSTRING
} WriterKind;

typedef struct WriterColumn
{
	uint8		kind;
	uint8		align;			/* less one */
	bool		packable;		/* goes into the short format if it fits */
	int16		len;
} WriterColumn;

typedef struct RowWriter
{
	TupleDesc	desc;			/* the rows' */
	TupleDesc	alike;			/* another that is none for storing them */
	int			natts;
	int			nvaried;		/* columns of no fixed width */
	Size		room;			/* for the others, the header and all padding */
	WriterColumn *cols;
	AttrNumber *varied;			/* from 0 */
	MemoryContext cxt;
	/* a row without NULLs begins with it, but for its length and which kinds of values it has */
	char		head[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} RowWriter;

/* A writer of rows of desc, in the current memory context. */
extern RowWriter *row_writer_create(TupleDesc desc);

/* Makes it one of rows of another desc. */
extern void row_writer_adapt(RowWriter *writer, TupleDesc desc);

/* Room for such a row: at least what row_writer_write() will write. */
extern Size row_writer_room(const RowWriter *writer, const Datum *values, const bool *isnull);

/* An error if heap_form_minimal_tuple() would not make a row so large. */
extern void row_writer_check(const RowWriter *writer, Datum *values, bool *isnull);

/* Writes the row; returns how many bytes it takes, MAXALIGN'ed. */
extern Size row_writer_write(const RowWriter *writer, const Datum *values, const bool *isnull,
							 char *row);

/*
 * The same in one pass, for a row that was not measured: 0 if it may need more than room bytes, or
 * has a value that has to be flattened.
 */
extern Size row_writer_try(const RowWriter *writer, const Datum *values, const bool *isnull,
						   char *row, Size room);

#endif							/* GPUSORT_ROW_WRITER_H */
