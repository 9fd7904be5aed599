/*
 * top_rows.h
 *	  Bounded sorts by insertion: the wanted rows are kept in their order.
 */
#ifndef GPUSORT_TOP_ROWS_H
#define GPUSORT_TOP_ROWS_H

#include "postgres.h"

#include "sort/order.h"

/* Larger bounds are sorted in batches. */
#define TOP_ROWS_MAX	((size_t) 1 << 20)

/* Rows in a block of the order. */
#define TOP_BLOCK_ROWS	255

/* A row that is wanted. */
typedef struct TopRow
{
	uint64		key;			/* the first column's normalized key, if keys are used */
	Datum		value;			/* its value; of a type by reference, its offset in the row */
	uint32		rid;
	bool		null;			/* it is NULL */
} TopRow;

/* A part of the order: numbers of rows, one behind the other. */
typedef struct TopBlock
{
	uint32		n;				/* none of the order's blocks is empty */
	uint32		rows[TOP_BLOCK_ROWS];
} TopBlock;

/* A row that was stored, by its entry in TopRows.rows, which may have another row by now. */
typedef struct TopStored
{
	uint32		rid;
	uint32		row;
} TopStored;

typedef struct TopRows
{
	bool		on;				/* the sort's rows are here */
	SortEnv    *env;
	Batch	   *batch;			/* its arena has the rows; nothing is staged */
	size_t		bound;
	size_t		n;				/* rows, at most the bound */

	TopRow	   *rows;			/* in no order */
	size_t		capacity;		/* rows that arrays have room for; they grow up to the bound */
	TopBlock   *blocks;			/* of the order, and free ones */
	uint32	   *order;			/* numbers of blocks, from begin on in the sort's order */
	size_t		begin;
	size_t		nblocks;		/* in the order */
	uint32	   *free;			/* a stack of the other blocks' numbers */
	size_t		nfree;
	TopStored  *stored;			/* every row that the arena has, in the order of rids */
	size_t		nstored;
	Size		bytes;			/* of these arrays */

	bool		by_reference;	/* the first column's type is */
	bool		use_keys;		/* normalized keys of the first column are made */
	bool		keys_exact;		/* ... and equal ones are equal values */
	bool		at_front;		/* the last row became the first */
	size_t		at_ends;		/* rows that became the first or the last, while there were too few */
	bool		strings;		/* the first column's values are, and have a collation */
	uint32		compared;		/* keys, since use of them was last thought about, */
	uint32		tied;			/* and of them those that did not decide */
	int			useless;		/* how often in succession a better prefix was not found */
} TopRows;

/*
 * From so many bytes of rows on, a bounded sort gives up those that are not wanted when there are twice as
 * many as are wanted: memory costs more than that.
 */
#define BOUNDED_CUT_BYTES	((Size) 4 * 1024 * 1024)

typedef enum TopAnswer
{
	TOP_TAKEN,					/* the row is kept, or behind all that are wanted */
	TOP_FULL					/* the row is not taken: memory is full, or a batch does better */
} TopAnswer;

/* Begins a sort with a bound, if it is one that this is good for; otherwise top->on is false. */
extern void top_rows_begin(TopRows *top, SortEnv *env, Batch *batch);

/* A row in a slot whose key columns are deformed; or row i of a page, whose keys lie there. */
extern TopAnswer top_rows_put_slot(TopRows *top, TupleTableSlot *slot);
extern TopAnswer top_rows_put_page(TopRows *top, RowPage *page, int i, PageKeyPlaces where);

/* The last row's key, if there are as many rows as wanted and keys decide; otherwise false. */
extern bool top_rows_limit(const TopRows *top, uint64 *limit);

/* Stages the rows' keys.  Rows can be put no more, but top_rows_order() still has them. */
extern void top_rows_stage(TopRows *top);

/* The last row's rid. */
extern uint32 top_rows_last(const TopRows *top);

/* All rows in their order. */
extern void top_rows_order(TopRows *top, Sorted *sorted);

/* Ends the sort; the memory of a small one is kept. */
extern void top_rows_end(TopRows *top);

#endif							/* GPUSORT_TOP_ROWS_H */
