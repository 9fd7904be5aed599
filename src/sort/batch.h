/*
 * batch.h
 *	  Batch: the rows of one in-memory sort or one run, and their key buffer.
 *
 * A batch has one writer.  Rows are named by row ids.  Memory and key functions belong to
 * the writer (KeyWriter), not to the batch.  In a sort of keys without rows the arena is
 * empty.
 *
 * The memory that rows and keys take, and that sorting them will take, is counted row by
 * row (batch_taken()).  The sink keeps it below the limit.
 */
#ifndef GPUSORT_SORT_BATCH_H
#define GPUSORT_SORT_BATCH_H

#include "postgres.h"

#include "key/key.h"
#include "sort/row_page.h"
#include "store/store.h"

typedef struct Batch
{
	Arena		arena;
	KeyBuffer	keybuf;
	Size		limit;			/* bytes for the batch and for sorting it */
	Size		sort_cost;		/* further bytes per row for sorting */
	Size		freed_cost;		/* bytes per row for sorting without the key buffer; 0: it stays */
	Size		key_cost;		/* bytes per row to buffer and sort its key */
	Size		kept;			/* bytes that sorting has kept from the batch before */
	size_t		max_rows;		/* most rows that one sort can take */
	size_t		expected;		/* rows expected; 0: up to SORT_SMALL_ROWS */
} Batch;

/* Begins a sort; the key buffer was initialized.  keeps_keys: it is needed after the batch was sorted. */
extern void batch_begin(Batch *batch, Size limit, bool bounded, bool keeps_keys, double rows_expected);

/*
 * Memory is exhausted: the batch will be sorted in less, without its key buffer.  False if
 * it has no more room than before.
 */
extern bool batch_economize(Batch *batch);

/* Keeps the n rows with these row ids, in their order in the arena, and drops all others. */
extern void batch_keep(Batch *batch, BulkOwner *owner, const uint32 *rids, size_t n);

/*
 * Makes room in the key buffer for further rows.  False if the limit is reached: the
 * buffered rows must be sorted first.
 */
extern bool batch_key_room(Batch *batch, BulkOwner *owner, size_t rows);

/* Forgets the rows, keeps the memory. */
extern void batch_reset(Batch *batch, BulkOwner *owner);

/* Frees all memory. */
extern void batch_free(Batch *batch, BulkOwner *owner);

/* Forgets the rows.  Frees the memory of a large batch; keeps that of a small one. */
extern void batch_trim(Batch *batch, BulkOwner *owner);

/* Frees the key buffer of a large batch. */
extern void batch_free_keys(Batch *batch, BulkOwner *owner);

/* Takes all rows of a direct page; false, without effect, if they may exceed the limit. */
extern bool batch_put_page(Batch *batch, const KeyWriter *keys, RowPage *page);

/* Takes the keys of the page's rows from first on.  False if they may exceed the limit. */
extern bool batch_put_page_keys(Batch *batch, const KeyWriter *keys, RowPage *page, int first);

/* Takes row i of a direct page; where has its keys.  False if there is no room. */
extern bool batch_put_page_row(Batch *batch, const KeyWriter *keys, RowPage *page, int i,
							   PageKeyPointers where);

/* Bytes that the batch takes with further rows, and that sorting its rows will take. */
static inline Size
batch_taken_with(const Batch *batch, size_t rows, Size bytes)
{
	size_t		n = batch->keybuf.n + rows;

	return arena_used(&batch->arena) + bytes +
		Max(batch->keybuf.bytes + Max(n * batch->sort_cost, batch->kept), n * batch->freed_cost);
}

static inline Size
batch_taken(const Batch *batch)
{
	return batch_taken_with(batch, 0, 0);
}

/* Bytes that rows and keys take. */
static inline Size
batch_held(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->keybuf.bytes;
}

#endif							/* GPUSORT_SORT_BATCH_H */
