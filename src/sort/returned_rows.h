/*
 * returned_rows.h
 *	  Rows that a sort has returned before its device failed.
 */
#ifndef GPUSORT_SORT_RETURNED_ROWS_H
#define GPUSORT_SORT_RETURNED_ROWS_H

#include "postgres.h"

#include "storage/buffile.h"
#include "tiebreak/tiebreak.h"

/*
 * The last group is the rows that are equal by their keys to the last returned row.  All
 * rows that sort before it have been returned; of the group, some have.
 */
typedef struct ReturnedRows
{
	MemoryContext cxt;

	/*
	 * Returned rows before the last group, and the sum of their row_sum().
	 * Where equal rows come in the same order again, these are all returned
	 * rows: set after returned_rows_reset().
	 */
	uint64		before;
	uint64		before_sum;
	uint64	   *last;			/* row_sum() of each of its returned rows */
	size_t		nlast;
	size_t		room;			/* capacity of last */
	BufFile    *file;			/* part of last beyond work_mem; or NULL */
	size_t		nfile;			/* elements in the file */

	/*
	 * Duplicates were dropped, and another row of the same value may come
	 * again: only the number of rows counts.
	 */
	bool		by_number;

	/* the next chunk begins within the last group */
	bool		more;

	/*
	 * After returned_rows_begin(), last has each sum once, in ascending
	 * order.
	 */
	uint64	   *counts;			/* per element of last: rows still to come */
	uint64		pending;		/* sum of counts */
} ReturnedRows;

/* A chunk of the result, as far as its rows have been returned. */
typedef struct ReturnedChunk
{
	const char *rows;
	size_t		n;
	uint64		before;			/* rows of the chunks before this one */
	uint64		before_sum;		/* sum of their row_sum() */
} ReturnedChunk;

/* Makes the set empty.  The owner zeroes a new one, and sets its cxt. */
extern void returned_rows_reset(ReturnedRows *returned);

/*
 * Notes the rows of a chunk that were returned.  more: the next chunk begins with a row
 * equal to the chunk's last.  Called if more is true, or if no chunk follows because the
 * device failed; otherwise the caller sets returned->more to false.
 */
extern void returned_rows_note(ReturnedRows *returned, TieBreak *tiebreak, const ReturnedChunk *chunk,
							   bool more);

/* To be called before the rows come again, in order. */
extern void returned_rows_begin(ReturnedRows *returned);

/*
 * Is the row one that was returned?  Then it counts as having come again.  An ERROR if the
 * first rows are not those that were returned.
 */
extern bool returned_rows_skip(ReturnedRows *returned, MinimalTuple row);

/* Are there returned rows that have not come again? */
static inline bool
returned_rows_pending(const ReturnedRows *returned)
{
	return returned->before > 0 || returned->pending > 0;
}

/* Raises the error that the rows returned before a failure were wrong. */
pg_noreturn extern void sort_wrong_beginning(void);

#endif							/* GPUSORT_SORT_RETURNED_ROWS_H */
