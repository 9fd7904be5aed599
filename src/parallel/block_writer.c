/*
 * block_writer.c
 *	  A sort's rows into blocks, with keys that mean the same in every process.
 *
 * The rows are copied first, in the order in which the sort gives them out; their
 * keys are then taken from the copies, which are in the cache, column by column
 * as those of a page are (page_keys.h), and packed under the layout of all
 * participants' rows.  A row whose keys do not lie at fixed places is deformed.
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
	KeyBuffer		keybuf;			/* keys of the block's rows */
	KeyWriter keys;
	CommonKeyRange	common_range;
	KeyLayout	layout;
	int			key_bits;		/* 64 or 128 */
	PageKeys	page_keys;
	TupleTableSlot *slot;		/* a row to be deformed */
	TupleTableSlot *row_slot;	/* the sorter's */
	MinimalTuple pending;		/* the sorter gave it, no block has it yet */
	Size		pending_at;		/* bytes of it that are written: it comes in pieces */
	const char *data[ROW_BLOCK_MAX_ROWS];	/* the rows' columns */
	RowPlace	places[ROW_BLOCK_MAX_ROWS];
};

BlockWriter *
block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range)
{
	BlockWriter *writer = palloc0(sizeof(BlockWriter));
	AttrNumber *atts = palloc(spec->desc->natts * sizeof(AttrNumber));

	writer->bulk = bulk_owner_create(CurrentMemoryContext, NULL);
	writer->common_range = *common_range;
	keybuf_init(&writer->keybuf, spec->keys, spec->nkeys, true);
	keybuf_writer_init(&writer->keys, CurrentMemoryContext, writer->bulk, &writer->keybuf, spec->keys);
	keybuf_begin(&writer->keybuf);
	common_range_apply(common_range, &writer->keybuf);
	keybuf_reserve(&writer->keybuf, writer->bulk, ROW_BLOCK_MAX_ROWS);
	key_layout(&writer->layout, &writer->keybuf, common_range->ranges);
	writer->key_bits = block_key_bits(&writer->layout);
	for (int att = 0; att < spec->desc->natts; att++)
		atts[att] = att;
	page_keys_init(&writer->page_keys, &writer->keybuf, spec->desc, atts);
	writer->slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	writer->row_slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	pfree(atts);
	return writer;
}

static inline HeapTupleHeader
row_header(const char *row)
{
	return (HeapTupleHeader) (row - MINIMAL_TUPLE_OFFSET);
}

/* Stages the keys of n rows that lie one behind the other, each padded. */
static void
keybuf_rows(BlockWriter *writer, const char *row, int n)
{
	KeyBuffer	   *keybuf = &writer->keybuf;
	TupleTableSlot *slot = writer->slot;
	const char *next = row;
	int			i;

	keybuf_reset(keybuf);
	for (i = 0; i < n && page_keys_fixed(&writer->page_keys, row_header(next)); i++)
	{
		writer->data[i] = (const char *) row_header(next) + row_header(next)->t_hoff;
		next += MAXALIGN(((MinimalTuple) next)->t_len);
	}
	if (likely(i == n))
	{
		page_keys_to_buffer(&writer->page_keys, keybuf, &writer->keys, 0, writer->data, n);
		keybuf->n = n;
		return;
	}
	for (i = 0; i < n; i++)
	{
		row_to_slot(slot, (MinimalTuple) row);
		slot_getsomeattrs(slot, keybuf->last_att);
		keybuf_row(keybuf, &writer->keys, slot->tts_values, slot->tts_isnull, 0);
		row += MAXALIGN(((MinimalTuple) row)->t_len);
	}
}

/* The keys of the block's rows, or of one that it has only a piece of. */
static void
write_keys(BlockWriter *writer, RowBlock *block, const char *rows)
{
	keybuf_rows(writer, rows, block->n);
	/* or keys would not compare */
	if (!common_range_holds(&writer->common_range, &writer->keybuf))
		elog(ERROR, "a key lies outside of the common key range of a parallel sort");
	pack_keys(&writer->keybuf, &writer->layout, writer->key_bits, 0, block->n,
			  block->rows + block->keys_at);
}

/* The next piece of a row that is larger than a block; the first has its key. */
static void
write_piece(BlockWriter *writer, RowBlock *block)
{
	const char *row = (const char *) writer->pending;
	Size		whole = MAXALIGN(writer->pending->t_len);

	block->n = writer->pending_at == 0 ? 1 : 0;
	block->whole = whole;
	block->bytes = Min(ROW_BLOCK_PIECE, whole - writer->pending_at);
	memcpy(block->rows, row + writer->pending_at, block->bytes);
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block->bytes);
	if (block->n > 0)
		write_keys(writer, block, row);
	writer->pending_at += block->bytes;
	if (writer->pending_at == whole)
		writer->pending = NULL;
}

/* The result's next row becomes the one that is pending. */
static pg_attribute_always_inline void
next_row(BlockWriter *writer, SortResult *result, ResultKind kind)
{
	TupleTableSlot *slot = writer->row_slot;

	writer->pending = result_next(result, kind, true, slot) ?
		((MinimalTupleTableSlot *) slot)->mintuple : NULL;
	writer->pending_at = 0;
}

static pg_attribute_always_inline bool
fill(BlockWriter *writer, SortResult *result, ResultKind kind, RowBlock *block)
{
	Size		key_bytes = writer->key_bits / 8;
	Size		bytes = 0;
	uint32		n = 0;

	if (writer->pending == NULL)
		next_row(writer, result, kind);
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
		next_row(writer, result, kind);
	} while (writer->pending != NULL);

	row_block_divide(block, n, bytes, key_bytes, writer->places);
	write_keys(writer, block, block->rows);
	return true;
}

bool
block_writer_fill(BlockWriter *writer, SortResult *result, RowBlock *block)
{
	if (result->methods->kind == RESULT_ROWS)
		return fill(writer, result, RESULT_ROWS, block);
	return fill(writer, result, RESULT_PLAIN, block);
}
