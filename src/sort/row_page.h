/*
 * row_page.h
 *	  RowPage: the rows of one heap page, which a sort takes together.
 *
 * A scan by page fills it.  The rows are tuples on the page and stay there until the
 * sort has taken them.
 */
#ifndef GPUSORT_SORT_ROW_PAGE_H
#define GPUSORT_SORT_ROW_PAGE_H

#include "postgres.h"

#include "access/htup_details.h"
#include "key/key.h"
#include "store/store.h"

typedef struct RowPage RowPage;

/* The next page, whose memory is prefetched while rows of this page are taken. */
typedef struct PageAhead
{
	const char *page;			/* next page, not pinned; NULL: not known */
	int			step;			/* bytes to prefetch per row; 0: none */
	int			skip;			/* number of following pages without prefetch */
} PageAhead;

struct RowPage
{
	/* set once for all pages */
	bool		whole;			/* rows are the unchanged tuples */
	RowPick    *pick;			/* makes rows from some columns; or NULL */
	PageKeys	keys;

	/* Returns row i in a slot, valid until the next call. */
	TupleTableSlot *(*row) (RowPage *page, int i);
	TupleTableSlot *stored_slot;	/* of MinimalTuples, for a page of stored rows whose row() is called */

	/* set for each page */
	int			n;				/* rows */
	bool		direct;			/* row_page_write() can be used */
	Size		bytes;			/* space for all rows of a direct page */
	PageAhead	ahead;
	const ItemPointerData *tids;	/* the rows get these TIDs; NULL: no TIDs */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
};

/* Addresses of the keys of a page's rows, by column; NULL for an SQL NULL. */
typedef const char *PageKeyPointers[KEY_MAX_COLUMNS][MaxHeapTuplesPerPage];

/* Finds the keys of rows [first, page->n). */
extern void row_page_find_keys(const RowPage *page, int first, PageKeyPointers where);

/*
 * Writes the keys of rows [first, page->n) to the key buffer, from entry at on.  The
 * buffer has room.  Does not advance keybuf->n.
 */
extern void row_page_keys_to_buffer(RowPage *page, int first, KeyBuffer *keybuf, const KeyWriter *writer, size_t at);

/*
 * Makes the zeroed page one of stored rows, which cannot have a row if its keys have no walk.
 * Allocates in the current memory context.
 */
extern void row_page_init_stored(RowPage *page, TupleDesc desc, const KeyBuffer *keybuf);

extern void row_page_free_stored(RowPage *page);

/* Adds a row to a page of stored rows.  False if the page is full, or cannot have the row. */
static inline bool
row_page_put_stored(RowPage *page, MinimalTuple row)
{
	Size		len = row->t_len + MINIMAL_TUPLE_OFFSET;

	/* lens has 16 bits */
	if (unlikely(page->n == MaxHeapTuplesPerPage || len > PG_UINT16_MAX || page->keys.walk == NULL))
		return false;
	page->tuples[page->n] = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
	page->lens[page->n++] = len;
	return true;
}

/*
 * Prefetches row i's share of the next page: prefetching the page at once would stall.
 * It goes to the second-level cache, which can have more loads in flight.  Always inline,
 * because the compiler takes a function of prefetches for one without effect.
 */
static pg_attribute_always_inline void
page_ahead_ask(const PageAhead *ahead, int i)
{
	const char *from = ahead->page + i * ahead->step;

	for (int at = 0; at < ahead->step; at += 64)
		__builtin_prefetch(from + at, 0, 2);
}

/* Address of the first column of row i. */
static inline const char *
row_page_data(const RowPage *page, int i)
{
	return (const char *) page->tuples[i] + page->tuples[i]->t_hoff;
}

/* Upper bound of the bytes that row i of a direct page takes. */
static inline Size
row_page_room(const RowPage *page, int i)
{
	return page->whole ? MAXALIGN(page->lens[i] - MINIMAL_TUPLE_OFFSET) :
		row_pick_room(page->pick, page->tuples[i], page->lens[i]);
}

/* Writes row i of a direct page as a MinimalTuple; returns its size, MAXALIGN'ed. */
static inline Size
row_page_write(const RowPage *page, int i, char *row)
{
	Size		size;

	page_ahead_ask(&page->ahead, i);
	if (page->whole)
		size = row_copy(row, (const char *) page->tuples[i] + MINIMAL_TUPLE_OFFSET,
						(Size) page->lens[i] - MINIMAL_TUPLE_OFFSET);
	else
		size = row_pick(page->pick, page->tuples[i], page->lens[i], row);
	if (unlikely(page->tids != NULL))
		row_set_tid(row, &page->tids[i]);
	return size;
}

/* Adds the keys of a stored row to the key buffer.  The row is in the slot afterwards. */
static inline void
keybuf_stored_row(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, MinimalTuple row,
				  uint32 rid)
{
	row_to_slot(slot, row);
	slot_getsomeattrs(slot, keybuf->last_att);
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, rid);
}

/*
 * Adds the keys of a page of stored rows to the key buffer, which has room.  If the page
 * is empty, adds the keys of one row, which is deformed in the slot.
 */
extern void keybuf_stored_page(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, RowPage *page,
							   MinimalTuple row);

/*
 * Adds the keys of n rows that follow each other, MAXALIGN'ed.  The key buffer has room for
 * them.  page is working memory.
 */
extern void keybuf_stored_rows(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, RowPage *page,
							   const char *rows, size_t n);

#endif							/* GPUSORT_SORT_ROW_PAGE_H */
