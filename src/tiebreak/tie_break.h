/*
 * tie_break.h
 *	  Resolves ties: orders rows whose normalized keys are equal or inexact.
 */
#ifndef GPUSORT_TIEBREAK_TIE_BREAK_H
#define GPUSORT_TIEBREAK_TIE_BREAK_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "key/key.h"
#include "store/store.h"

typedef struct TieBreak TieBreak;

/* What is done with two rows that are equal in all sort columns; a has the lower rid. */
typedef void (*EqualRows) (void *arg, MinimalTuple a, MinimalTuple b);

/* A batch does so this number of times at most: rows that may be equal, as those with NULLs, may be many. */
#define EQUAL_ROWS_MAX	1024

/* Comparators are looked up when they are first needed. */
extern TieBreak *tiebreak_create(MemoryContext cxt, BulkOwner *owner, TupleDesc desc,
								 const KeyColumn *keys, int nkeys);

/* Compares two rows by all sort columns: < 0, 0, > 0 as a sorts before, with or after b. */
extern int	tiebreak_compare(TieBreak *tb, MinimalTuple a, MinimalTuple b);

/* Are two rows equal in the first ncols sort columns? */
extern bool tiebreak_equal(TieBreak *tb, int ncols, MinimalTuple a, MinimalTuple b);

/* Compares the row in a slot with a stored row. */
extern int	tiebreak_compare_slot(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b);

/* Compares two values of the first sort column, which are not NULL. */
extern int	tiebreak_compare_first(TieBreak *tb, Datum a, Datum b);

/* A row's value in the first sort column; undefined if it is NULL. */
extern Datum tiebreak_first_value(const TieBreak *tb, MinimalTuple row);

/* ------------------------------------------------------------------------
 * Groups of rows with equal keys
 *
 * A caller writes the rids of rows in the order of their keys, with ascending rids where
 * keys are equal, and names the rows whose key equals that of the row before.  Each group
 * of such rows is ordered by the values.  Equal rows keep the order of their rids.
 * ------------------------------------------------------------------------
 */

/* Groups that wait until their rows have been prefetched. */
#define TIE_QUEUE_SIZE		32

/* Rows [start, end) of TieGroups.rids. */
typedef struct TieRows
{
	size_t		start;
	size_t		end;
} TieRows;

typedef struct TieGroups
{
	TieBreak   *tb;
	const Arena *arena;			/* has the rows */
	uint32	   *rids;
	TieRows		last;			/* last group, may continue; or empty */
	uint64		rows;			/* rows of all complete groups */
	int			nqueued;
	TieRows		queue[TIE_QUEUE_SIZE];
} TieGroups;

extern void tie_groups_begin(TieGroups *groups, TieBreak *tb, const Arena *arena, uint32 *rids);

/* The last group, which is not empty, is complete. */
extern void tie_groups_close(TieGroups *groups);

/* All rows are written: orders the groups that are left.  Returns the rows of all groups. */
extern uint64 tie_groups_end(TieGroups *groups);

/*
 * Lets the sorts of groups call this with the first two equal rows without ROW_DEAD, once for
 * each value, up to EQUAL_ROWS_MAX times; NULL: no longer.
 */
extern void tiebreak_on_equal(TieBreak *tb, EqualRows on_equal, void *arg);

/* Frees the memory of large sorts. */
extern void tiebreak_release(TieBreak *tb);

#endif							/* GPUSORT_TIEBREAK_TIE_BREAK_H */
