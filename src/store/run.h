/*
 * run.h
 *	  Sorted runs in temporary files.
 *
 * A run is a sequence of MinimalTuples, each padded to 8 bytes; its key is not
 * stored, for it is cheap to make again from a row that is being read anyway.
 */
#ifndef GPUSORT_RUN_H
#define GPUSORT_RUN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "utils/logtape.h"

/* Reads a run forward through a buffer, many rows at a time. */
typedef struct RunReader
{
	LogicalTape *tape;
	char	   *buf;
	Size		buf_size;
	bool		own_buf;		/* palloc'd for a row larger than the one given */
	Size		pos;			/* next row, from buf */
	Size		len;			/* bytes in buf */
	bool		at_end;			/* the tape has no more */
} RunReader;

extern void run_write_row(LogicalTape *tape, MinimalTuple row);

/* The run is complete: flushes it and frees what writing it took. */
extern void run_write_end(LogicalTape *tape);

/* Reads a complete run through the caller's buffer (MAXALIGN'ed, >= BLCKSZ). */
extern void run_reader_open(RunReader *reader, LogicalTape *tape, char *buf, Size buf_size);

/* The next row, valid until the next call; NULL at the end. */
extern MinimalTuple run_reader_next(RunReader *reader);

/* Frees the tape's blocks. */
extern void run_reader_close(RunReader *reader);

/*
 * The sorted result on one tape that can be read both ways: each row is
 * followed by its length, the last one by an end mark.
 */
typedef struct ResultTape
{
	LogicalTape *tape;
	MinimalTuple row;			/* the row last read, palloc'd */
	Size		row_size;
	long		mark_block;
	int			mark_offset;
	bool		mark_eof;
	bool		eof;
} ResultTape;

extern void result_tape_write(LogicalTape *tape, MinimalTuple row);

/* All rows are written: ends the tape and readies it for reading. */
extern void result_tape_open(ResultTape *result, LogicalTape *tape);
extern MinimalTuple result_tape_next(ResultTape *result, bool forward);
extern void result_tape_rewind(ResultTape *result);
extern void result_tape_mark(ResultTape *result);
extern void result_tape_restore(ResultTape *result);

#endif							/* GPUSORT_RUN_H */
