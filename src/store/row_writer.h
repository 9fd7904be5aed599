/*
 * row_writer.h
 *	  Row writer: forms MinimalTuples from a slot's values.
 *
 * Writes the bytes that heap_form_minimal_tuple() would write.  The properties of the
 * columns are looked up once.  If enough room is available, each varlena is measured
 * when it is written, which takes half as many instructions as measuring the row
 * first.
 */
#ifndef GPUSORT_STORE_ROW_WRITER_H
#define GPUSORT_STORE_ROW_WRITER_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"

typedef enum WriterKind
{
	WRITER_1,					/* by value, 1, 2, 4 or 8 bytes */
	WRITER_2,
	WRITER_4,
	WRITER_8,
	WRITER_FIXED,				/* by reference, of fixed width */
	WRITER_VARLENA,
	WRITER_CSTRING
} WriterKind;

typedef struct WriterColumn
{
	uint8		kind;			/* WriterKind */
	uint8		align;			/* alignment less one */
	bool		packable;		/* may have the short format */
	int16		len;			/* attlen */
} WriterColumn;

typedef struct RowWriter
{
	TupleDesc	desc;			/* descriptor of the rows */
	TupleDesc	same_layout;	/* other descriptor, same layout of rows */
	int			natts;
	int			nvarying;		/* columns without fixed width */
	Size		room;			/* fixed-width columns, header and padding */
	WriterColumn *cols;
	AttrNumber *varying;		/* columns without fixed width, from 0 */
	MemoryContext cxt;
	/* header of a row without NULLs, except length and infomask */
	char		head[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} RowWriter;

/* Creates a writer of rows of desc in the current memory context. */
extern RowWriter *row_writer_create(TupleDesc desc);

/* Changes the writer to another descriptor. */
extern void row_writer_adapt(RowWriter *writer, TupleDesc desc);

/* Upper bound of the bytes that row_writer_write() writes. */
extern Size row_writer_room(const RowWriter *writer, const Datum *values, const bool *isnull);

/* Raises an error if the row is too large for heap_form_minimal_tuple(). */
extern void row_writer_check(const RowWriter *writer, Datum *values, bool *isnull);

/* Writes the row; returns its MAXALIGN'ed size. */
extern Size row_writer_write(const RowWriter *writer, const Datum *values, const bool *isnull,
							 char *row);

/*
 * Writes the row without measuring it first.  Returns 0 if it may need more than room
 * bytes, or has a value that must be flattened.
 */
extern Size row_writer_try(const RowWriter *writer, const Datum *values, const bool *isnull,
						   char *row, Size room);

#endif							/* GPUSORT_STORE_ROW_WRITER_H */
