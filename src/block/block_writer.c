/*
 * block_writer.c
 *	  Sorted rows are written to row blocks.
 *
 * A writer copies rows to the block first, in the order of the sort's result.  Then it makes
 * their keys from the copies, which are in the CPU cache: column by column, as for rows of a
 * heap page, and packed in the layout of all participants' rows.  Merged rows have their keys.
 *
 * Memory: a block's keys and places, in the memory context in which the writer was created.
 */
#include "postgres.h"

#include "block/block_internal.h"
#include "key/key.h"
#include "store/store.h"

/* Most bytes of a piece of a row. */
#define ROW_BLOCK_PIECE		(ROW_BLOCK_ROOM - 3 * ROW_BLOCK_KEY_ALIGN)

/* Most rows of a block: a row has at least 16 bytes, a key at least 8. */
#define ROW_BLOCK_MAX_ROWS	(ROW_BLOCK_ROOM / (16 + sizeof(uint64) + sizeof(RowPlace)))

/* Do n rows with keys of key_bytes each, and bytes in all, fit a block? */
static inline bool
row_block_has_room(Size bytes, Size n, Size key_bytes)
{
	return bytes + n * (key_bytes + sizeof(RowPlace)) <= ROW_BLOCK_ROOM - ROW_BLOCK_KEY_ALIGN;
}

/* Where a writer's rows come from; a constant in its loops. */
typedef enum RowOrigin
{
	FROM_RESULT_ROWS,			/* a result of kind RESULT_ROWS */
	FROM_RESULT,				/* any other result */
	FROM_MERGE
} RowOrigin;

struct BlockWriter
{
	bool		keys_only;		/* blocks have keys alone */
	SortResult *result;			/* the rows; NULL: they come from the merge */
	MergeTree  *merge;
	KeyTaker   *taker;			/* gives the result's keys, if blocks have keys alone */

	/* the next row, in no block yet; NULL at the end */
	MinimalTuple row;
	Size		row_at;			/* bytes of it already written in pieces */
	Size		key_bytes;
	RowPlace	places[ROW_BLOCK_MAX_ROWS]; /* of the block being filled */

	/* of a merge: keys of the rows in the block; a full block gets them behind its rows */
	char	   *merged_keys;

	/* of a result: makes the keys of a block's rows */
	BulkOwner  *bulk;
	KeyBuffer	keybuf;
	KeyWriter	keys;
	CommonKeyRange common_range;
	KeyLayout	layout;
	RowPage    *page;			/* working memory of keybuf_stored_rows() */
	TupleTableSlot *slot;		/* a row to be deformed */
	TupleTableSlot *row_slot;	/* the result's row */
};

/* Sets and freezes the prefixes of a new key buffer. */
static void
common_range_apply(const CommonKeyRange *common_range, KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		if (keybuf->cols[c].by_bytes && common_range->ranges[c].min <= common_range->ranges[c].max)
			keybuf->cols[c].prefix = common_range->prefixes[c];
	}
	keybuf_freeze(keybuf);
}

/* Do all buffered rows lie in the common key range? */
static bool
common_range_holds(const CommonKeyRange *common_range, const KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyRange *have = &keybuf->cols[c].range;
		const KeyRange *known = &common_range->ranges[c];

		if (have->min <= have->max &&
			(have->min < known->min || have->max > known->max ||
			 (have->inexact && !known->inexact) ||
			 (keybuf->cols[c].computed &&
			  ((have->set & ~known->set) != 0 || (known->common & ~have->common) != 0))))
			return false;
		if (have->has_null && !known->has_null)
			return false;
	}
	return true;
}

/* Prepares to make the keys of a result's rows. */
static void
init_keys_of_result(BlockWriter *writer, const SortSpec *spec, const CommonKeyRange *common_range)
{
	writer->bulk = bulk_owner_create(CurrentMemoryContext, NULL);
	writer->common_range = *common_range;
	keybuf_init(&writer->keybuf, spec->keys, spec->nkeys, true);
	keybuf_writer_init(&writer->keys, CurrentMemoryContext, writer->bulk, &writer->keybuf, spec->keys);
	keybuf_begin(&writer->keybuf);
	common_range_apply(common_range, &writer->keybuf);
	keybuf_reserve(&writer->keybuf, writer->bulk, ROW_BLOCK_MAX_ROWS);
	key_layout(&writer->layout, &writer->keybuf, common_range->ranges);
	writer->key_bytes = block_key_bits(&writer->layout) / 8;
	writer->page = palloc0(sizeof(RowPage));
	row_page_init_stored(writer->page, spec->desc, &writer->keybuf);
	writer->slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	writer->row_slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
}

/* Writes the keys of the block's rows, or of the row that the block has a piece of. */
static void
write_result_keys(BlockWriter *writer, RowBlock *block, const char *rows)
{
	keybuf_reset(&writer->keybuf);
	keybuf_stored_rows(&writer->keybuf, &writer->keys, writer->slot, writer->page, rows, block->n);
	/* keys outside the range would not compare with other participants' keys */
	if (!common_range_holds(&writer->common_range, &writer->keybuf))
		elog(ERROR, "key outside the common key range of a parallel sort");
	pack_keys(&writer->keybuf, &writer->layout, writer->key_bytes * 8, 0, block->n,
			  block->rows + block->keys_at);
}

/* Copies the key of the merge's last row to keys[i]. */
static inline void
put_merged_key(const BlockWriter *writer, char *keys, uint32 i)
{
	const char *key = merge_tree_key(writer->merge);

	if (writer->key_bytes == sizeof(uint64))
		memcpy(keys + i * sizeof(uint64), key, sizeof(uint64));
	else
		memcpy(keys + i * sizeof(uint128), key, sizeof(uint128));
}

static pg_attribute_always_inline void
next_row_to_write(BlockWriter *writer, RowOrigin from)
{
	TupleTableSlot *slot = writer->row_slot;

	if (from == FROM_MERGE)
		writer->row = merge_tree_next(writer->merge);
	else if (result_next(writer->result, from == FROM_RESULT_ROWS ? RESULT_ROWS : RESULT_PLAIN, true, slot))
		writer->row = slot_minimal_tuple(slot);
	else
		writer->row = NULL;
}

/* Writes the next piece of a row longer than a block.  The first piece counts as the block's row, and has its key. */
static void
write_piece(BlockWriter *writer, RowBlock *block, RowOrigin from)
{
	Size		size = MAXALIGN(writer->row->t_len);

	block->n = writer->row_at == 0 ? 1 : 0;
	block->whole = size;
	block->bytes = Min(ROW_BLOCK_PIECE, size - writer->row_at);
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block->bytes);
	memcpy(block->rows, (const char *) writer->row + writer->row_at, block->bytes);
	writer->row_at += block->bytes;
	block->size = offsetof(RowBlock, rows) + block->keys_at + (block->n > 0 ? writer->key_bytes : 0);
	if (block->n > 0 && from == FROM_MERGE)
		put_merged_key(writer, block->rows + block->keys_at, 0);
	else if (block->n > 0)
		write_result_keys(writer, block, (const char *) writer->row);
	if (writer->row_at == size)
	{
		next_row_to_write(writer, from);
		writer->row_at = 0;
	}
}

/* Fills a block with the next rows and their keys; false if there are none. */
static pg_attribute_always_inline bool
fill_rows(BlockWriter *writer, RowBlock *block, RowOrigin from)
{
	Size		key_bytes = writer->key_bytes;
	Size		bytes = 0;
	uint32		n = 0;

	if (writer->row == NULL)
		return false;
	if (!row_block_has_room(MAXALIGN(writer->row->t_len), 1, key_bytes))
	{
		write_piece(writer, block, from);
		return true;
	}

	do
	{
		Size		size = MAXALIGN(writer->row->t_len);

		if (!row_block_has_room(bytes + size, n + 1, key_bytes))
			break;
		row_copy(block->rows + bytes, (const char *) writer->row, writer->row->t_len);
		if (from == FROM_MERGE)
			put_merged_key(writer, writer->merged_keys, n);
		writer->places[n++] = bytes / sizeof(uint64);
		bytes += size;
		next_row_to_write(writer, from);
	} while (writer->row != NULL);

	block->n = n;
	block->bytes = bytes;
	block->whole = 0;
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, bytes);
	block->places_at = block->keys_at + n * key_bytes;
	block->size = offsetof(RowBlock, rows) + block->places_at + n * sizeof(RowPlace);
	memcpy(block->rows + block->places_at, writer->places, n * sizeof(RowPlace));
	if (from == FROM_MERGE)
		memcpy(block->rows + block->keys_at, writer->merged_keys, n * key_bytes);
	else
		write_result_keys(writer, block, block->rows);
	return true;
}

BlockWriter *
block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range, SortResult *result, MergeTree *merge)
{
	BlockWriter *writer = palloc0(sizeof(BlockWriter));

	writer->keys_only = sends_keys(spec);
	writer->result = result;
	writer->merge = merge;
	if (writer->keys_only)
	{
		if (result != NULL)
		{
			key_block_layout(spec, common_range, &writer->layout);
			writer->key_bytes = block_key_bits(&writer->layout) / 8;
			writer->taker = key_taker_create(result, &writer->layout);
		}
		return writer;
	}
	if (result == NULL)
	{
		writer->key_bytes = merge->wide ? sizeof(uint128) : sizeof(uint64);
		writer->merged_keys = palloc(ROW_BLOCK_MAX_ROWS * writer->key_bytes);
		next_row_to_write(writer, FROM_MERGE);
		return writer;
	}
	init_keys_of_result(writer, spec, common_range);
	next_row_to_write(writer, FROM_RESULT);
	return writer;
}

bool
block_writer_fill(BlockWriter *writer, RowBlock *block)
{
	if (writer->keys_only && writer->result != NULL)
		return key_block_fill(writer->taker, writer->key_bytes, block);
	if (writer->keys_only)
		return key_block_refill(writer->merge, block);
	if (writer->result == NULL)
		return fill_rows(writer, block, FROM_MERGE);
	if (writer->result->methods->kind == RESULT_ROWS)
		return fill_rows(writer, block, FROM_RESULT_ROWS);
	return fill_rows(writer, block, FROM_RESULT);
}
