/*
 * tiebreak.h
 *	  The order of rows whose keys do not tell it.
 */
#ifndef GPUSORT_TIEBREAK_TIEBREAK_H
#define GPUSORT_TIEBREAK_TIEBREAK_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "key/type/keytype.h"
#include "store/arena.h"

typedef struct TieBreak TieBreak;

/* Ready for the first comparison; comparators are looked up at that time. */
extern TieBreak *tiebreak_create(MemoryContext cxt, BulkOwner *owner, TupleDesc desc,
								 const KeyColumn *keys, int nkeys);

/* < 0, 0, > 0 as a sorts before, with or after b. */
extern int	tiebreak_compare(TieBreak *tb, MinimalTuple a, MinimalTuple b);

/* The same of the row in a slot and a stored one. */
extern int	tiebreak_compare_slot(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b);

/* The same by the columns behind the first. */
extern int	tiebreak_compare_slot_behind(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b);

/* The same of two values of the first column, which are not NULL. */
extern int	tiebreak_compare_first(TieBreak *tb, Datum a, Datum b);

/* A row's value in the first column. */
extern Datum tiebreak_first_value(const TieBreak *tb, MinimalTuple row, bool *isnull);

/* Orders n rids of rows of the arena whose keys are equal, and which ascend; stable. */
extern void tiebreak_sort(TieBreak *tb, const Arena *arena, uint32 *rids, size_t n);

/* Gives back the memory of large sorts. */
extern void tiebreak_release(TieBreak *tb);

#endif							/* GPUSORT_TIEBREAK_TIEBREAK_H */
