/*
 * tiebreak_internal.h
 *	  State and functions that the files of tiebreak/ share.
 *
 * Layers, from the lowest: tiebreak.c compares rows; comparator_sort.c sorts the
 * values of one column; collated.c does so with less comparisons for strings and
 * repeated values; multikey.c sorts rows.  Functions are called downwards only.
 *
 * A column is sorted as an array of SortRec64.  rid is the row id; key is a word (an
 * unsigned number that orders as the rows do) or the value itself as a Datum; pad is
 * one of TiePad.
 */
#ifndef GPUSORT_TIEBREAK_TIEBREAK_INTERNAL_H
#define GPUSORT_TIEBREAK_TIEBREAK_INTERNAL_H

#include "postgres.h"

#include "kernel/sort_kernel.h"
#include "key/key.h"
#include "miscadmin.h"
#include "tiebreak/tie_break.h"
#include "utils/sortsupport.h"

/* Up to this number rows are sorted by insertion. */
#define TIE_INSERTION_MAX	8

/* Rows and values are prefetched this number of records ahead. */
#define TIE_PREFETCH		16

/* What a record's pad says of its value and that of the record before. */
typedef enum TiePad
{
	TIE_SAME_WORD,				/* same word; the values are not compared yet */

	/* different word; the values are not compared yet */
	TIE_NEW_WORD,
	TIE_GREATER,				/* the value is greater */
	TIE_EQUAL					/* the values are equal */
} TiePad;

/* A collation by which strings are presorted (collated.c). */
typedef struct TieCollation TieCollation;

/* A sort column. */
typedef struct TieColumn
{
	KeyColumn	key;
	bool		by_bytes;		/* values order as their bytes do */
	bool		exact;			/* normalized keys order as the values do */
	uint64		flip;			/* all bits set: descending; 0: ascending */
	SortSupport ssup;			/* comparator; NULL until needed */
	TieCollation *collation;	/* NULL until needed */

	/*
	 * each word of the normalized key, and its maker; of KEY_COMPARED, which has none, the
	 * abbreviated key, once it is known whether there is one
	 */
	KeyBufferColumn normkey[2];
	KeyMaker	makers[2];
	bool		abbreviation_known;
} TieColumn;

struct TieBreak
{
	MemoryContext cxt;
	BulkOwner  *owner;
	TupleDesc	desc;
	int			nkeys;
	const Arena *arena;			/* rows of the current sort */
	BulkBuf		recs;			/* records of the current sort */
	BulkBuf		scratch;		/* of tie_sort_words() and merges */
	BulkBuf		copies;			/* copied values of a block, comparator_sort.c */
	EqualRows	on_equal;		/* NULL: no interest */
	void	   *on_equal_arg;
	int			calls_left;		/* of on_equal */
	uint64		passed_rows;	/* of the last sort: rows, counted once a pass */

	/* of the last sort: bytes that prefix passes compared */
	uint64		passed_bytes;
	TieColumn	cols[FLEXIBLE_ARRAY_MEMBER];
};

/* The column's value in a row. */
static inline Datum
tie_value(const TieBreak *tb, const TieColumn *col, MinimalTuple row, bool *isnull)
{
	HeapTupleData tuple;

	tuple.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	tuple.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
	return heap_getattr(&tuple, col->key.attno, tb->desc, isnull);
}

static inline MinimalTuple
tie_row(const TieBreak *tb, uint32 rid)
{
	return (MinimalTuple) arena_at(tb->arena, rid);
}

/* Have two rows the same bytes?  Then they are equal in all columns. */
static inline bool
tie_same_bytes(MinimalTuple a, MinimalTuple b)
{
	Size		from = offsetof(MinimalTupleData, t_infomask2);

	return a->t_len == b->t_len && memcmp((char *) a + from, (char *) b + from, a->t_len - from) == 0;
}

static inline void
tie_prefetch(const TieBreak *tb, uint32 rid)
{
	const char *row = arena_at(tb->arena, rid);

	__builtin_prefetch(row);
	__builtin_prefetch(row + 64);
}

/* Prefetches the value of the record TIE_PREFETCH ahead of record i. */
static inline void
tie_prefetch_value(const SortRec64 *recs, size_t i, size_t n)
{
	if (i + TIE_PREFETCH < n)
		__builtin_prefetch(DatumGetPointer((Datum) recs[i + TIE_PREFETCH].key));
}

/* Scratch memory of a pass, until the next call. */
static inline void *
tie_scratch(TieBreak *tb, Size size)
{
	bulk_reserve(tb->owner, &tb->scratch, size, 0);
	return tb->scratch.ptr;
}

/*
 * Compares two values that are not NULL.  A comparison may detoast both values and take
 * milliseconds, so interrupts are checked before each one, as tuplesort.c does.
 */
static inline int
tie_compare(SortSupport ssup, Datum a, Datum b)
{
	CHECK_FOR_INTERRUPTS();
	return ApplySortComparator(a, false, b, false, ssup);
}

/* tiebreak.c */

/* The column's comparator. */
extern SortSupport tie_comparator(TieBreak *tb, TieColumn *col);

/* Compares two rows by the columns from this one on, then by rid. */
extern int	tie_compare_rows(TieBreak *tb, int from, uint32 a, uint32 b);

/*
 * Calls on_equal for equal rows among n sorted rows, which are equal in all columns before
 * column "from".
 */
extern void tie_find_equal(TieBreak *tb, int from, const SortRec64 *recs, size_t n);

/* comparator_sort.c */

/* Sorts records by their words; stable. */
extern void tie_sort_words(TieBreak *tb, SortRec64 *recs, size_t n);

/*
 * Sorts records by their words, puts the values back into their keys and sets the pads.
 * ssup: compares neighbours with unique words to find TIE_GREATER; NULL: no comparison.
 */
extern void tie_presort_words(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n, SortSupport ssup);

/* Puts records back in the order of their rids, before a sort that keeps it for equal values. */
extern void tie_restore_order(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * Sorts records by their values with the column's comparator; stable.  All pads but
 * the first are then TIE_GREATER or TIE_EQUAL.
 */
extern void tie_comparator_sort(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * If the values ascend or descend, puts the records in ascending order, sets the pads
 * as tie_comparator_sort() does and returns true.  Otherwise leaves the records as they
 * are, with all pads TIE_SAME_WORD, as they must be at first.  Stops at the first
 * value out of order.
 */
extern bool tie_presorted(SortSupport ssup, SortRec64 *recs, size_t n);

/*
 * Replaces the values of sorted records by their ranks; equal values have equal
 * ranks.  Compares only records whose pad is neither TIE_GREATER nor TIE_EQUAL with
 * the one before.  Returns false and keeps the values if one is out of order, or if
 * equal values are not in the order of their rids.  If ordered, the comparator has
 * sorted the records, and a contradiction of the comparator counts as greater.
 */
extern bool tie_rank(SortSupport ssup, SortRec64 *recs, size_t n, bool ordered);

/*
 * Fix-up pass: sorts values that are nearly in order; equal values get the order of
 * their rids.  Returns false if too many are out of place.
 */
extern bool tie_fix_up(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * Sorts records by the abbreviated keys of their values and replaces the values by
 * their ranks.  Returns false if the type has no abbreviated keys.
 */
extern bool tie_rank_abbreviated(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/* collated.c */

/* Replaces values by their ranks if there are few distinct ones; otherwise returns false. */
extern bool tie_rank_dictionary(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * Sorts strings by truncated strxfrm keys or primary weights, which leaves them
 * nearly in the order of the comparator, with equal strings of the same bytes in the
 * order of their rids.  Sets the pads.  Returns false if the collation does not allow it.
 */
extern bool tie_presort_collated(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

#endif							/* GPUSORT_TIEBREAK_TIEBREAK_INTERNAL_H */
