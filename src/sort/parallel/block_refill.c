/*
 * block_refill.c
 *	  A merge's rows into blocks again.
 *
 * Rows and keys are what came, in one order: nothing is made anew.  Keys are
 * collected beside the block until it is known where its rows end.
 *
 * Memory: one block's keys and places.
 */
#include "postgres.h"

#include "sort/parallel/block_refill.h"
#include "store/row.h"

struct BlockRefill
{
	BlockMerge *merge;
	bool		begun;
	MinimalTuple row;			/* the next, which no block has yet */
	Size		row_at;			/* bytes of it that are written: it goes in pieces */
	Size		key_bytes;
	RowPlace	places[ROW_BLOCK_MAX_ROWS];
	char		keys[FLEXIBLE_ARRAY_MEMBER];
};

BlockRefill *
block_refill_create(BlockMerge *merge)
{
	Size		key_bytes = merge->wide ? sizeof(uint128) : sizeof(uint64);
	BlockRefill *refill = palloc(offsetof(BlockRefill, keys) + ROW_BLOCK_MAX_ROWS * key_bytes);

	refill->merge = merge;
	refill->begun = false;
	refill->row_at = 0;
	refill->key_bytes = key_bytes;
	return refill;
}

static inline void
put_key(const BlockRefill *refill, char *keys, uint32 i)
{
	const char *key = block_merge_key(refill->merge);

	if (refill->key_bytes == sizeof(uint64))
		memcpy(keys + i * sizeof(uint64), key, sizeof(uint64));
	else
		memcpy(keys + i * sizeof(uint128), key, sizeof(uint128));
}

/* The next piece of a row that is larger than a block; the first has its key. */
static void
fill_piece(BlockRefill *refill, RowBlock *block)
{
	Size		whole = MAXALIGN(refill->row->t_len);

	block->n = refill->row_at == 0 ? 1 : 0;
	block->whole = whole;
	block->bytes = Min(ROW_BLOCK_PIECE, whole - refill->row_at);
	memcpy(block->rows, (const char *) refill->row + refill->row_at, block->bytes);
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block->bytes);
	if (block->n > 0)
		put_key(refill, block->rows + block->keys_at, 0);
	refill->row_at += block->bytes;
	if (refill->row_at == whole)
	{
		refill->row = block_merge_next(refill->merge);
		refill->row_at = 0;
	}
}

bool
block_refill_fill(BlockRefill *refill, RowBlock *block)
{
	Size		bytes = 0;
	uint32		n = 0;

	if (!refill->begun)
		refill->row = block_merge_next(refill->merge);
	refill->begun = true;
	if (refill->row == NULL)
		return false;
	if (!row_block_has_room(MAXALIGN(refill->row->t_len), 1, refill->key_bytes))
	{
		fill_piece(refill, block);
		return true;
	}

	do
	{
		Size		size = MAXALIGN(refill->row->t_len);

		if (!row_block_has_room(bytes + size, n + 1, refill->key_bytes))
			break;
		row_copy(block->rows + bytes, (const char *) refill->row, refill->row->t_len);
		put_key(refill, refill->keys, n);
		refill->places[n] = bytes / sizeof(uint64);
		bytes += size;
		n++;
		refill->row = block_merge_next(refill->merge);
	} while (refill->row != NULL);

	row_block_divide(block, n, bytes, refill->key_bytes, refill->places);
	memcpy(block->rows + block->keys_at, refill->keys, n * refill->key_bytes);
	return true;
}
