/*
 * top_rows.h
 *	  Bounded sort by insertion.
 */
#ifndef GPUSORT_SORT_TOP_ROWS_H
#define GPUSORT_SORT_TOP_ROWS_H

#include "postgres.h"

#include "sort/memory_sort.h"

/* Larger bounds are sorted in batches. */
#define TOP_ROWS_MAX	((size_t) 1 << 20)

/* Row numbers in a block of the order. */
#define TOP_BLOCK_ROWS	255

/* One of the first rows so far.  Its index in TopRows.rows is its number. */
typedef struct TopRow
{
	/* normalized key of the first column, if used */
	uint64		key;

	/*
	 * The first column.  If it is passed by reference: its offset in the row.
	 */
	Datum		value;
	uint32		rid;
	bool		null;			/* the first column is NULL */
} TopRow;

/* A block of the order: row numbers in sort order. */
typedef struct TopBlock
{
	uint32		n;				/* not 0 for a block of the order */
	uint32		rows[TOP_BLOCK_ROWS];
} TopBlock;

/* A row in the arena.  If rows[row].rid differs from rid, the row has been dropped. */
typedef struct TopStored
{
	uint32		rid;
	uint32		row;			/* number of the row when it was stored */
} TopStored;

typedef struct TopRows
{
	bool		on;				/* the rows are here and not in the key buffer */
	SortEnv    *env;
	Batch	   *batch;			/* arena with the rows; empty key buffer */
	size_t		bound;
	size_t		n;				/* rows, at most bound */

	TopRow	   *rows;			/* in no order */
	size_t		capacity;		/* rows that fit the arrays; at most bound */
	TopBlock   *blocks;			/* blocks of the order, and free blocks */
	uint32	   *order;			/* block numbers at [begin, begin + nblocks) */
	size_t		begin;
	size_t		nblocks;
	uint32	   *free;			/* stack of the numbers of free blocks */
	size_t		nfree;
	TopStored  *stored;			/* all rows in the arena, ordered by row id */
	size_t		nstored;
	Size		bytes;			/* size of the arrays */

	bool		by_reference;	/* the first column is by reference */
	bool		use_keys;		/* compare normalized keys of the first column */
	bool		keys_exact;		/* equal normalized keys mean equal values */
	bool		at_front;		/* the previous row became the first */

	uint32		compared;		/* comparisons since decide_use_of_keys() */
	uint32		tied;			/* comparisons of equal keys among them */
	int			useless;		/* consecutive prefixes that did not help */
} TopRows;

/*
 * Bytes of rows from which on a bounded sort drops unwanted rows as soon as it has twice
 * the wanted number: touching more memory would cost more than dropping.
 */
#define BOUNDED_CUT_BYTES	((Size) 4 * 1024 * 1024)

typedef enum TopAnswer
{
	TOP_TAKEN,					/* stored, or dropped as not wanted */

	/* not taken: no memory */
	TOP_FULL
} TopAnswer;

/* Does insertion suit this sort when it has more rows than wanted? */
extern bool top_rows_suit(const SortEnv *env, const KeyBuffer *keybuf);

/* Begins insertion with the first env->bound rows of a sorted batch; the others are dropped. */
extern void top_rows_begin(TopRows *top, SortEnv *env, Batch *batch, const uint32 *rids);

/* Takes a row in a slot whose key columns are deformed, or row i of a page with its keys. */
extern TopAnswer top_rows_put_slot(TopRows *top, TupleTableSlot *slot);
extern TopAnswer top_rows_put_page(TopRows *top, RowPage *page, int i, PageKeyPointers where);

/*
 * The normalized key of the last wanted row.  False while there are fewer rows than
 * wanted, if keys are not used, or if it is NULL.
 */
extern bool top_rows_limit(const TopRows *top, uint64 *limit);

/*
 * Writes the keys of the rows to the batch's key buffer.  No more rows can be put, but
 * top_rows_order() still works.
 */
extern void top_rows_buffer_keys(TopRows *top);

/* Row id of the last row in sort order. */
extern uint32 top_rows_last(const TopRows *top);

/* All rows in sort order. */
extern void top_rows_order(TopRows *top, Sorted *sorted);

/* Ends the sort; keeps the memory of a small one. */
extern void top_rows_end(TopRows *top);

#endif							/* GPUSORT_SORT_TOP_ROWS_H */
