/*
 * tiebreak_internal.h
 *	  What the tie-break's files share: columns, and their values in stored rows.
 */
#ifndef GPUSORT_TIEBREAK_TIEBREAK_INTERNAL_H
#define GPUSORT_TIEBREAK_TIEBREAK_INTERNAL_H

#include "postgres.h"

#include "kernel/sort_kernel.h"
#include "key/key.h"
#include "miscadmin.h"
#include "tiebreak/tiebreak.h"
#include "utils/sortsupport.h"

/* Rows up to this number are sorted by insertion. */
#define TIE_INSERTION_MAX	8

/* A few rows with strings from this length on are sorted in passes all the same. */
#define TIE_LONG_STRING		1024

/* Rows whose memory is asked for so far ahead of their turn. */
#define TIE_PREFETCH		16

typedef struct TieHints TieHints;
typedef struct TieLetters TieLetters;

/* A record's pad, of records in the order of words: what is known of the one before. */
#define TIE_SAME_WORD	0
#define TIE_OTHER_WORD	1		/* its value may be any all the same */
#define TIE_BEHIND		2		/* its value is smaller */
#define TIE_EQUAL		3		/* its value is equal */

/* How a key column tells two rows apart. */
typedef struct TieColumn
{
	AttrNumber	attno;
	KeyKind		kind;
	bool		by_bytes;
	bool		exact;			/* images tell */
	bool		nulls_first;
	uint64		flip;
	SortSupport ssup;			/* NULL until needed */
	TieHints   *hints;			/* likewise */
	KeyBufferColumn *abbreviated;	/* likewise */
	KeyMaker	abbreviator;	/* makes its images */
	KeyBufferColumn normkey[2];		/* the kind and direction of each word, */
	KeyMaker	makers[2];		/* and what it is made with */
} TieColumn;

struct TieBreak
{
	MemoryContext cxt;
	BulkOwner  *owner;
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	const Arena *arena;			/* of the sort in progress */
	BulkBuf		recs;
	BulkBuf		scratch;		/* a kernel's */
	BulkBuf		copies;			/* tie_merge.c: values of a block */
	uint64		passed_rows;	/* of the last sort: rows, counted once for each pass */
	uint64		passed_bytes;	/* likewise: bytes that prefix passes compared */
	TieColumn	cols[FLEXIBLE_ARRAY_MEMBER];
};

/* The column's value in a row. */
static inline Datum
tie_value(const TieBreak *tb, const TieColumn *col, MinimalTuple row, bool *isnull)
{
	HeapTupleData tuple;

	tuple.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	tuple.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
	return heap_getattr(&tuple, col->attno, tb->desc, isnull);
}

static inline MinimalTuple
tie_row(const TieBreak *tb, uint32 rid)
{
	return (MinimalTuple) arena_at(tb->arena, rid);
}

static inline void
tie_prefetch(const TieBreak *tb, uint32 rid)
{
	const char *row = arena_at(tb->arena, rid);

	__builtin_prefetch(row);
	__builtin_prefetch(row + 64);
}

/* The same of a value that is not in its record. */
static inline void
tie_prefetch_value(const SortRec64 *recs, size_t i, size_t n)
{
	if (i + TIE_PREFETCH < n)
		__builtin_prefetch(DatumGetPointer((Datum) recs[i + TIE_PREFETCH].key));
}

/*
 * Compares two values that are not NULL.  A comparison may detoast both and take milliseconds, so
 * interrupts are checked before each one, as tuplesort.c does.
 */
static inline int
tie_compare(SortSupport ssup, Datum a, Datum b)
{
	CHECK_FOR_INTERRUPTS();
	return ApplySortComparator(a, false, b, false, ssup);
}

/* The column's string in a row; false if there is none at hand: NULL, or toasted. */
static inline bool
tie_string(const TieBreak *tb, const TieColumn *col, uint32 rid, KeyString *s)
{
	bool		isnull;
	Datum		value = tie_value(tb, col, tie_row(tb, rid), &isnull);

	if (isnull || string_is_toasted(col->kind, value))
		return false;
	*s = string_of(col->kind, value);
	return true;
}

/*
 * Has the row a string, in a column from this one on, that is too long to be compared
 * several times?
 */
static inline bool
tie_has_long_string(const TieBreak *tb, int from, uint32 rid)
{
	if (likely(tie_row(tb, rid)->t_len < TIE_LONG_STRING))
		return false;
	for (int k = from; k < tb->nkeys; k++)
	{
		KeyString	s;

		if (tb->cols[k].by_bytes && tie_string(tb, &tb->cols[k], rid, &s) && s.len >= TIE_LONG_STRING)
			return true;
	}
	return false;
}

/* tiebreak.c: the column's comparator. */
extern SortSupport tie_comparator(TieBreak *tb, TieColumn *col);

/* The order of two rows equal in the columns before from, and of their rids. */
extern int	tie_compare_rows(TieBreak *tb, int from, uint32 a, uint32 b);

/* tie_rounds.c: n records with rids of rows whose keys are equal. */
extern void tie_multikey(TieBreak *tb, SortRec64 *recs, size_t n);

/* Records by their words; stable. */
extern void tie_sort_words(TieBreak *tb, SortRec64 *recs, size_t n);

/* tie_merge_sort() in the rounds' own memory. */
extern void tie_compare_sort(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * tie_dictionary.c: records' values become their ranks, if few are different;
 * otherwise false.
 */
extern bool tie_dictionary(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * tie_hints.c: records' values nearly in their order, the equal ones in their records', and
 * pads; false if there is no knowing.
 */
extern bool tie_hints(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * tie_abbreviated.c: records' values become their ranks, with the help of what the type
 * makes to abbreviate them; false if it makes nothing.
 */
extern bool tie_abbreviated(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n);

/*
 * Records that have words for keys in the order of these, with their values again, and
 * pads: BEHIND only if a comparator is given.
 */
extern void tie_order_words(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n,
							SortSupport ssup);

/*
 * tie_repair.c: puts values that are nearly in order, the equal ones in their records',
 * wholly so; false if too many are out of place.  The scratch has room for an eighth of
 * them twice.
 */
extern bool tie_repair(TieBreak *tb, TieColumn *col, SortRec64 *recs, SortRec64 *scratch, size_t n);

/*
 * tie_merge.c: sorts records whose keys are Datums of the column by its comparator, stable.
 * Afterwards every pad but the first is TIE_BEHIND or TIE_EQUAL.
 */
extern void tie_merge_sort(TieBreak *tb, TieColumn *col, SortRec64 *recs, SortRec64 *scratch, size_t n);

/*
 * If the records are in ascending or descending order, puts them in ascending order, with
 * pads as of tie_merge_sort(), and returns true.  Otherwise the records are left as they
 * were, and all pads must be TIE_SAME_WORD before.  Stops at the first value out of order.
 */
extern bool tie_presorted(SortSupport ssup, SortRec64 *recs, size_t n);

/*
 * The values become their ranks, equal ones for equal values.  Only records whose pads are
 * neither TIE_BEHIND nor TIE_EQUAL are compared with the record before them.  False, and no
 * value is changed, if they are not in order; unless the comparator itself has ordered them.
 */
extern bool tie_rank(SortSupport ssup, SortRec64 *recs, size_t n, bool ordered);

#endif							/* GPUSORT_TIEBREAK_TIEBREAK_INTERNAL_H */
