/*
 * block_writer.c
 *	  Sorted rows into blocks, with keys in the common key range.
 *
 * Rows are copied to the block first, in the order of the sort's result.  Then
 * their keys are made from the copies, which are in the CPU cache: column by
 * column, as for rows of a heap page, and packed in the layout of all
 * participants' rows.
 *
 * Memory: one block's keys and places.
 */
#include "postgres.h"

#include "key/key.h"
#include "parallel/parallel.h"
#include "store/row.h"

struct BlockWriter
{
	BulkOwner  *bulk;
	KeyBuffer	keybuf;			/* keys of the block's rows */
	KeyWriter	keys;
	CommonKeyRange common_range;
	KeyLayout	layout;
	int			key_bits;		/* 64 or 128 */
	RowPage    *page;			/* working memory of keybuf_rows() */
	TupleTableSlot *slot;		/* a row to be deformed */
	TupleTableSlot *row_slot;	/* the result's row */

	/* the result's next row, in no block yet; or NULL */
	MinimalTuple pending;
	Size		pending_at;		/* bytes of it already written in pieces */
	RowPlace	places[ROW_BLOCK_MAX_ROWS];
};

BlockWriter *
block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range)
{
	BlockWriter *writer = palloc0(sizeof(BlockWriter));

	writer->bulk = bulk_owner_create(CurrentMemoryContext, NULL);
	writer->common_range = *common_range;
	keybuf_init(&writer->keybuf, spec->keys, spec->nkeys, true);
	keybuf_writer_init(&writer->keys, CurrentMemoryContext, writer->bulk, &writer->keybuf, spec->keys);
	keybuf_begin(&writer->keybuf);
	common_range_apply(common_range, &writer->keybuf);
	keybuf_reserve(&writer->keybuf, writer->bulk, ROW_BLOCK_MAX_ROWS);
	key_layout(&writer->layout, &writer->keybuf, common_range->ranges);
	writer->key_bits = block_key_bits(&writer->layout);
	writer->page = row_page_create_stored(spec->desc, &writer->keybuf);
	writer->slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	writer->row_slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	return writer;
}

/* Puts the keys of n consecutive rows into the key buffer. */
static void
keybuf_rows(BlockWriter *writer, const char *row, int n)
{
	KeyBuffer  *keybuf = &writer->keybuf;
	RowPage    *page = writer->page;

	keybuf_reset(keybuf);
	while (keybuf->n < n)
	{
		const char *next = row;

		page->n = 0;
		while (keybuf->n + page->n < n && row_page_put_stored(page, (MinimalTuple) next))
			next += MAXALIGN(((MinimalTuple) next)->t_len);
		keybuf_stored_page(keybuf, &writer->keys, writer->slot, page, (MinimalTuple) row);
		row = page->n > 0 ? next : row + MAXALIGN(((MinimalTuple) row)->t_len);
	}
}

/* Writes the keys of the block's rows, or of the row that the block has a piece of. */
static void
write_block_keys(BlockWriter *writer, RowBlock *block, const char *rows)
{
	keybuf_rows(writer, rows, block->n);
	/* keys outside the range would not compare with other participants' keys */
	if (!common_range_holds(&writer->common_range, &writer->keybuf))
		elog(ERROR, "key outside the common key range of a parallel sort");
	pack_keys(&writer->keybuf, &writer->layout, writer->key_bits, 0, block->n,
			  block->rows + block->keys_at);
}

/* Writes the next piece of a row longer than a block; the first piece has its key. */
static void
write_piece(BlockWriter *writer, RowBlock *block)
{
	bool		last = row_block_put_piece(block, writer->pending, &writer->pending_at);

	if (block->n > 0)
		write_block_keys(writer, block, (const char *) writer->pending);
	if (last)
		writer->pending = NULL;
}

/* Sets pending to the result's next row. */
static pg_attribute_always_inline void
next_pending(BlockWriter *writer, SortResult *result, ResultKind kind)
{
	TupleTableSlot *slot = writer->row_slot;

	writer->pending = result_next(result, kind, true, slot) ?
		((MinimalTupleTableSlot *) slot)->mintuple : NULL;
	writer->pending_at = 0;
}

/* block_writer_fill() for a constant kind of result. */
static pg_attribute_always_inline bool
fill_block(BlockWriter *writer, SortResult *result, ResultKind kind, RowBlock *block)
{
	Size		key_bytes = writer->key_bits / 8;
	Size		bytes = 0;
	uint32		n = 0;

	if (writer->pending == NULL)
		next_pending(writer, result, kind);
	if (writer->pending == NULL)
		return false;
	if (!row_block_has_room(MAXALIGN(writer->pending->t_len), 1, key_bytes))
	{
		write_piece(writer, block);
		return true;
	}

	do
	{
		Size		size = MAXALIGN(writer->pending->t_len);

		if (!row_block_has_room(bytes + size, n + 1, key_bytes))
			break;
		row_copy(block->rows + bytes, (const char *) writer->pending, writer->pending->t_len);
		writer->places[n++] = bytes / sizeof(uint64);
		bytes += size;
		next_pending(writer, result, kind);
	} while (writer->pending != NULL);

	row_block_divide(block, n, bytes, key_bytes, writer->places);
	write_block_keys(writer, block, block->rows);
	return true;
}

bool
block_writer_fill(BlockWriter *writer, SortResult *result, RowBlock *block)
{
	if (result->methods->kind == RESULT_ROWS)
		return fill_block(writer, result, RESULT_ROWS, block);
	return fill_block(writer, result, RESULT_PLAIN, block);
}
