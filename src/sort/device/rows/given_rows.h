/*
 * given_rows.h
 *	  Which rows a sort had given out when its device was lost.
 */
#ifndef GPUSORT_GIVEN_ROWS_H
#define GPUSORT_GIVEN_ROWS_H

#include "access/htup_details.h"
#include "key/tie/tiebreak.h"
#include "store/spillfile.h"

typedef struct GivenRows
{
	MemoryContext cxt;
	uint64		before;			/* rows that go before the last ones: */
	uint64		before_sum;		/* their row_sum()s */
	uint64	   *last;			/* row_sum()s of those, equal by their keys */
	size_t		nlast;
	size_t		room;
	SpillFile  *file;			/* more of them, when there are too many; NULL */
	SpillRun	run;			/* in the file */
	bool		more;			/* the next chunk begins with more of these */

	/* when they are looked for: last has each sum once, in order */
	uint64	   *counts;			/* rows with this sum that have not come again, */
	uint64		left;			/* all together */
} GivenRows;

/* The rows that one chunk of the result has given. */
typedef struct GivenChunk
{
	const char *rows;
	size_t		n;
	uint64		before;			/* rows of the chunks before it, */
	uint64		before_sum;		/* and their sum */
} GivenChunk;

/* Begins with none, in the current memory context. */
extern GivenRows *given_rows_create(void);
extern void given_rows_reset(GivenRows *given);

/*
 * The chunk has been given, and the next begins with a row equal to its last; or it is the
 * last of which rows were given.
 */
extern void given_rows_note(GivenRows *given, TieBreak *tiebreak, const GivenChunk *chunk, bool more);

/* ... with a row that is not. */
extern void given_rows_apart(GivenRows *given);

/* All that were given, with this sum, and no row to come is equal to one of them. */
extern void given_rows_whole(GivenRows *given, uint64 rows, uint64 sum);

/* The rows come once more, in order: */
extern void given_rows_begin(GivenRows *given);

/* was this one given?  An ERROR if what was given cannot be made to fit. */
extern bool given_rows_was(GivenRows *given, MinimalTuple row);

/* Are there any to come, in what follows? */
static inline bool
given_rows_left(const GivenRows *given)
{
	return given->before > 0 || given->left > 0;
}

#endif							/* GPUSORT_GIVEN_ROWS_H */
