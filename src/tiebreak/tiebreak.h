/*
 * tiebreak.h
 *	  Resolves ties: orders rows whose normalized keys are equal or inexact.
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

/* Comparators are looked up when they are first needed. */
extern TieBreak *tiebreak_create(MemoryContext cxt, BulkOwner *owner, TupleDesc desc,
								 const KeyColumn *keys, int nkeys);

/* Compares two rows by all sort columns: < 0, 0, > 0 as a sorts before, with or after b. */
extern int	tiebreak_compare(TieBreak *tb, MinimalTuple a, MinimalTuple b);

/* Compares the row in a slot with a stored row. */
extern int	tiebreak_compare_slot(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b);

/* Compares the row in a slot with a stored row, without the first sort column. */
extern int	tiebreak_compare_slot_behind(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b);

/* Compares two values of the first sort column, which are not NULL. */
extern int	tiebreak_compare_first(TieBreak *tb, Datum a, Datum b);

/* A row's value in the first sort column. */
extern Datum tiebreak_first_value(const TieBreak *tb, MinimalTuple row, bool *isnull);

/* Sorts n rows of the arena, which have equal keys and ascending rids; stable. */
extern void tiebreak_sort(TieBreak *tb, const Arena *arena, uint32 *rids, size_t n);

/* Frees the memory of large sorts. */
extern void tiebreak_release(TieBreak *tb);

#endif							/* GPUSORT_TIEBREAK_TIEBREAK_H */
