/*
 * batch.c
 *	  A batch: rows in an arena, and their key buffer.
 *
 * Memory policy: the rows, the arrays of the key buffer, and the arrays that sorting
 * will need are counted.  The key buffer grows with its rows, not by the planner's
 * estimate.  Regions are rounded up to 2 MB, regions of rows to 16 MB; only the part in
 * use is counted.  A small batch keeps its memory for the next execution of the node.
 * A large batch returns its regions.  Palloc'd records and scratch of a batch that was
 * spilled serve the next one, whose limit counts them.
 *
 * An index build must fit where PostgreSQL's does.  So its batch economizes once memory is
 * exhausted: the key buffer is freed when its records are packed, before there is scratch.
 */
#include "postgres.h"

#include "kernel/sort_kernel.h"
#include "miscadmin.h"
#include "settings.h"
#include "sort/batch.h"
#include "sort/distinct.h"
#include "sort/sort_env.h"

/* A batch that economizes grows until less than 1/LAST_PARTS of its memory is free. */
#define LAST_PARTS	(4 * MEMORY_PARTS)

/*
 * Bytes per row that sorting takes in addition to the key buffer: records, and scratch of
 * slightly more than the same size.  Keys of more than 64 bits are sorted by packed
 * records first.  If they are then sorted whole, the key buffer is freed
 * before, unless it is needed afterwards (order_rows()).  Inexact keys may all be equal:
 * to sort their ties by further words takes memory in addition to the packed records.
 */
static Size
sort_cost(const KeyBuffer *keybuf, bool keeps_keys)
{
	int			natural = (keybuf->row_bytes - (keybuf->keys_only ? 0 : (int) sizeof(uint32))) * 8;
	Size		words = 2 * sizeof(uint64) + 3;
	Size		rec = natural <= 64 ? sizeof(SortRec64) : sizeof(SortRec128);

	if (keybuf->keys_only)
		return natural <= 64 ? words : 2 * rec;
	if (!keybuf->exact)
		words = sizeof(uint64) + 2 * sizeof(SortRec64);
	if (natural <= 32)
		return words;
	return Max(words, keeps_keys ? 2 * rec : Max(rec, 2 * rec - Min(2 * rec, (Size) keybuf->row_bytes)));
}

bool
batch_economize(Batch *batch)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	int			natural = (keybuf->row_bytes - (int) sizeof(uint32)) * 8;
	/* records and scratch, or row ids and passes over ties */
	Size		freed = natural <= 32 && keybuf->exact ? 2 * sizeof(uint64) + 3 :
		sizeof(uint64) + 2 * sizeof(SortRec64);
	Size		cost = Max(keybuf->row_bytes + sizeof(uint64), freed);

	if (batch->freed_cost > 0 || cost >= batch->key_cost)
		return false;
	batch->sort_cost = sizeof(uint64);
	batch->freed_cost = freed;
	batch->key_cost = cost;
	return batch_taken(batch) <= batch->limit;
}

void
batch_begin(Batch *batch, Size limit, bool bounded, bool keeps_keys, double rows_expected)
{
	batch->limit = limit;
	batch->sort_cost = sort_cost(&batch->keybuf, keeps_keys);
	batch->freed_cost = batch->kept = 0;
	batch->key_cost = batch->keybuf.row_bytes + batch->sort_cost;
	/* kernels count records in 32 bits */
	batch->max_rows = gpusort_run_rows > 0 ? (size_t) gpusort_run_rows : PG_UINT32_MAX - 1;
	/* a sixteenth more, to avoid another step if the estimate is slightly low */
	batch->expected = bounded || rows_expected <= SORT_SMALL_ROWS ? 0 :
		(size_t) (Min(rows_expected, PG_UINT32_MAX) * (1 + 1.0 / 16));
	keybuf_begin(&batch->keybuf);
}

bool
batch_key_room(Batch *batch, BulkOwner *owner, size_t rows)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	size_t		n = keybuf->n;
	Size		taken = batch_taken(batch);
	Size		row = batch->key_cost + (n > 0 ? arena_used(&batch->arena) / n : 0);
	size_t		most = n + (batch->limit - Min(taken, batch->limit)) / row;

	most = Min(most, batch->max_rows);
	/* growing in smaller steps would cost more than sorting the batch */
	if (n + rows > batch->max_rows ||
		(n > 0 && most < n + rows + n / (batch->freed_cost > 0 ? LAST_PARTS : MEMORY_PARTS)))
		return false;
	keybuf_grow(keybuf, owner, n + rows, batch->expected, most);
	return true;
}

void
batch_reset(Batch *batch, BulkOwner *owner)
{
	arena_reset(&batch->arena, owner);
	keybuf_reset(&batch->keybuf);
}

void
batch_free(Batch *batch, BulkOwner *owner)
{
	arena_free(&batch->arena, owner);
	keybuf_free(&batch->keybuf, owner);
}

void
batch_free_keys(Batch *batch, BulkOwner *owner)
{
	if (batch->keybuf.capacity > SORT_SMALL_ROWS)
		keybuf_free(&batch->keybuf, owner);
}

void
batch_trim(Batch *batch, BulkOwner *owner)
{
	if (batch->arena.nowned > 1 || arena_used(&batch->arena) > SORT_SMALL_ROWS * 64)
		arena_free(&batch->arena, owner);
	else
		arena_reset(&batch->arena, owner);
	batch_free_keys(batch, owner);
}

/* ------------------------------------------------------------------------
 * Keys of the rows of a heap page
 * ------------------------------------------------------------------------
 */

/* Finds the keys of a tuple whose key columns have no fixed offset. */
static inline void
walk_keys(const RowPage *page, int i, PageKeyPointers where)
{
	const TupleWalk *walk = page->keys.walk;
	WalkAt		at[WALK_MAX_STEPS];
	const char *cols[MaxTupleAttributeNumber];

	if (likely(tuple_walk(walk, page->tuples[i], page->lens[i], at)))
	{
		for (int c = 0; c < page->keys.ncols; c++)
		{
			const WalkColumn *col = &walk->cols[page->keys.att[c]];

			where[c][i] = at[col->step].begin + col->offset;
		}
		return;
	}
	tuple_walk_columns(walk, page->tuples[i], page->lens[i], cols);
	for (int c = 0; c < page->keys.ncols; c++)
		where[c][i] = cols[page->keys.att[c]];
}

/*
 * row_page_keys_to_buffer().  asks: no rows are written that would prefetch the next page.  To prefetch it at once, and
 * not row by row, makes keys of rows of 500 bytes take 1.5 times as long.
 */
static pg_attribute_always_inline void
put_page_keys(RowPage *page, int first, KeyBuffer *keybuf, const KeyWriter *writer, size_t at, bool asks)
{
	const char *data[MaxHeapTuplesPerPage];
	PageKeyPointers where;
	int			i;

	for (i = first; i < page->n && page_keys_fixed(&page->keys, page->tuples[i]); i++)
	{
		if (asks)
			page_ahead_ask(&page->ahead, i);
		data[i] = row_page_data(page, i);
	}
	if (likely(i == page->n))
	{
		page_keys_to_buffer(&page->keys, keybuf, writer, at, data + first, i - first);
		return;
	}
	for (i = first; i < page->n; i++)
	{
		if (asks)
			page_ahead_ask(&page->ahead, i);
		walk_keys(page, i, where);
	}
	for (int c = 0; c < keybuf->ncols; c++)
		page_keys_column_to_buffer(&page->keys, keybuf, writer, c, at, where[c] + first, page->n - first);
}

void
row_page_find_keys(const RowPage *page, int first, PageKeyPointers where)
{
	for (int i = first; i < page->n; i++)
	{
		page_ahead_ask(&page->ahead, i);
		if (page_keys_fixed(&page->keys, page->tuples[i]))
		{
			for (int c = 0; c < page->keys.ncols; c++)
				where[c][i] = row_page_data(page, i) + page->keys.offset[c];
		}
		else
			walk_keys(page, i, where);
	}
}

void
row_page_keys_to_buffer(RowPage *page, int first, KeyBuffer *keybuf, const KeyWriter *writer, size_t at)
{
	put_page_keys(page, first, keybuf, writer, at, false);
}

/* ------------------------------------------------------------------------
 * Pages of rows
 * ------------------------------------------------------------------------
 */

bool
batch_put_page(Batch *batch, const KeyWriter *keys, RowPage *page)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	Arena	   *arena = &batch->arena;

	if (batch_taken_with(batch, page->n, page->bytes) > batch->limit ||
		!arena_has_rids(arena, page->bytes))
		return false;
	if (keybuf->n + page->n > keybuf->capacity && !batch_key_room(batch, keys->owner, page->n))
		return false;
	row_page_keys_to_buffer(page, 0, keybuf, keys, keybuf->n);
	for (int i = 0; i < page->n; i++)
	{
		(void) arena_reserve(arena, keys->owner, row_page_room(page, i));
		keybuf->rids[keybuf->n + i] = arena_take(arena, row_page_write(page, i, arena->next));
	}
	keybuf_count(keybuf, page->n);
	return true;
}

bool
batch_put_page_row(Batch *batch, const KeyWriter *keys, RowPage *page, int i, PageKeyPointers where)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	Arena	   *arena = &batch->arena;

	if (unlikely(keybuf->n == keybuf->capacity) && !batch_key_room(batch, keys->owner, 1))
		return false;
	if (unlikely(!arena_reserve(arena, keys->owner, row_page_room(page, i))))
		return false;
	for (int c = 0; c < keybuf->ncols; c++)
		page_keys_column_to_buffer(&page->keys, keybuf, keys, c, keybuf->n, &where[c][i], 1);
	keybuf->rids[keybuf->n] = arena_take(arena, row_page_write(page, i, arena->next));
	keybuf_count(keybuf, 1);
	return true;
}

bool
batch_put_page_keys(Batch *batch, const KeyWriter *keys, RowPage *page, int first)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	int			rows = page->n - first;

	if (batch_taken_with(batch, rows, 0) > batch->limit)
		return false;
	if (keybuf->n + rows > keybuf->capacity && !batch_key_room(batch, keys->owner, rows))
		return false;
	put_page_keys(page, first, keybuf, keys, keybuf->n, true);
	if (!keybuf->keys_only)
	{
		uint32	   *rids = keybuf->rids + keybuf->n;

		/* rows of a page that is put directly are live */
		for (int i = 0; i < rows; i++)
			rids[i] = tid_rid(&page->tids[first + i], false);
	}
	keybuf_count(keybuf, rows);
	return true;
}

void
batch_keep(Batch *batch, BulkOwner *owner, const uint32 *rids, size_t n)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	Size		set_size = rid_set_bytes(batch->arena.next_rid);
	BulkBuf		set = {0};
	size_t		kept = 0;
	uint32		passed = 0;
	Arena		from;

	Assert(n > 0);
	bulk_reserve(owner, &set, set_size, 0);
	memset(set.ptr, 0, set_size);
	for (size_t i = 0; i < n; i++)
		position_set_add(set.ptr, rids[i]);

	arena_compact_begin(&batch->arena, owner, &from);
	keybuf_keep_begin(keybuf);
	for (size_t i = 0; i < keybuf->n; i++)
	{
		MinimalTuple row;
		uint32		rid;
		char	   *to;

		CHECK_FOR_INTERRUPTS();
		if (!position_set_has(set.ptr, keybuf->rids[i]))
			continue;
		row = (MinimalTuple) arena_at(&from, keybuf->rids[i]);
		to = arena_alloc(&batch->arena, owner, MAXALIGN(row->t_len), &rid);
		if (to == NULL)
			elog(ERROR, "the rows that a sort keeps do not fit its arena");
		memmove(to, row, MAXALIGN(row->t_len));
		arena_compact_passed(&from, owner, keybuf->rids[i], &passed);
		keybuf_keep(keybuf, i, kept++, rid);
	}
	keybuf_keep_end(keybuf, kept);
	arena_compact_end(&batch->arena, owner, &from);
	bulk_free(owner, &set);
	Assert(kept == n);
}

/* ------------------------------------------------------------------------
 * Keys of stored rows
 * ------------------------------------------------------------------------
 */

/* RowPage.row */
static TupleTableSlot *
stored_row(RowPage *page, int i)
{
	row_to_slot(page->stored_slot, (MinimalTuple) ((char *) page->tuples[i] + MINIMAL_TUPLE_OFFSET));
	return page->stored_slot;
}

void
row_page_init_stored(RowPage *page, TupleDesc desc, const KeyBuffer *keybuf)
{
	AttrNumber *atts = palloc(desc->natts * sizeof(AttrNumber));

	for (int att = 0; att < desc->natts; att++)
		atts[att] = att;
	page->whole = page->direct = true;
	page->row = stored_row;
	page_keys_init(&page->keys, keybuf, desc, atts);
	pfree(atts);
}

void
row_page_free_stored(RowPage *page)
{
	if (page->keys.walk != NULL)
		tuple_walk_free(page->keys.walk);
	pfree(page);
}

void
keybuf_stored_page(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, RowPage *page,
				   MinimalTuple row)
{
	if (unlikely(page->n == 0))
	{
		keybuf_stored_row(keybuf, keys, slot, row, 0);
		ExecClearTuple(slot);
		return;
	}
	row_page_keys_to_buffer(page, 0, keybuf, keys, keybuf->n);
	keybuf->n += page->n;
}

void
keybuf_stored_rows(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, RowPage *page,
				   const char *rows, size_t n)
{
	size_t		end = keybuf->n + n;

	while (keybuf->n < end)
	{
		const char *next = rows;

		page->n = 0;
		while (keybuf->n + page->n < end && row_page_put_stored(page, (MinimalTuple) next))
			next += MAXALIGN(((MinimalTuple) next)->t_len);
		keybuf_stored_page(keybuf, keys, slot, page, (MinimalTuple) rows);
		rows = page->n > 0 ? next : rows + MAXALIGN(((MinimalTuple) rows)->t_len);
	}
}
