/*
 * block_merge.c
 *	  Merge of sorted streams of row blocks.
 *
 * The merge reads the rows where they lie in their block; a block is freed when the merge asks
 * for the next one (merge_tree.c).  Parallel plans promise no order for equal rows; those of an
 * index build are ordered by their TIDs.
 *
 * Memory: one row of each stream that is longer than a block; a block for the own sort.
 */
#include "postgres.h"

#include "block/block_internal.h"
#include "key/key.h"
#include "miscadmin.h"
#include "store/store.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Rows that a node of the merge merges at a time. */
#define BLOCK_MERGE_BATCH	128

/* Assembles a row from its pieces, the first in block; false if the exchange was stopped. */
static bool
assemble_row(BlockSource *source, const RowBlock *block)
{
	Size		size = block->whole;
	Size		at = 0;

	if (source->long_row_size < size)
	{
		if (source->long_row != NULL)
			pfree(source->long_row);
		source->long_row = MemoryContextAllocHuge(source->cxt, size);
		source->long_row_size = size;
	}
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		memcpy(source->long_row + at, block->rows, block->bytes);
		at += block->bytes;
		if (at >= size)
			break;
		block = source->next_block(source);
		if (block == NULL && source->stopped)
			return false;
		if (block == NULL)
			elog(ERROR, "incomplete row in a parallel sort");
	}
	return true;
}

/* Gets the rows of the stream's next block; false at the end. */
static bool
next_block_rows(MergeSource *base, MergeRows *rows)
{
	static const RowPlace first = 0;
	BlockSource *source = (BlockSource *) base;
	RowBlock   *block = source->next_block(source);

	if (block == NULL)
		return false;
	rows->base = block->rows;
	rows->keys = block->rows + block->keys_at;
	rows->places = source->keys_only ? NULL : (const RowPlace *) (block->rows + block->places_at);
	rows->n = block->n;
	if (unlikely(block->whole > 0))
	{
		memcpy(&source->long_row_key, rows->keys, source->wide ? sizeof(uint128) : sizeof(uint64));
		rows->keys = &source->long_row_key;
		rows->places = &first;
		rows->n = 1;
		if (!assemble_row(source, block))
		{
			rows->n = 0;
			return false;
		}
		rows->base = source->long_row;
	}
	return true;
}

void
block_source_begin(BlockSource *source, const SortSpec *spec, bool wide)
{
	source->base.next = next_block_rows;
	source->wide = wide;
	source->keys_only = sends_keys(spec);
	source->cxt = CurrentMemoryContext;
}

MergeTree *
block_merge_create(const SortSpec *spec, const CommonKeyRange *common_range, BlockSource **sources, int n)
{
	KeyLayout	layout;
	TieBreak   *tiebreak;
	MergeTree  *merge;

	key_block_layout(spec, common_range, &layout);
	tiebreak = tiebreak_create(CurrentMemoryContext, bulk_owner_create(CurrentMemoryContext, NULL),
							   spec->desc, spec->keys, spec->nkeys);
	for (int i = 0; i < n; i++)
		block_source_begin(sources[i], spec, block_key_bits(&layout) > 64);
	merge = merge_tree_create((MergeSource **) sources, n, BLOCK_MERGE_BATCH, spec, &layout, tiebreak);
	if (sends_keys(spec))
		key_block_make_rows(merge, spec, common_range);
	return merge;
}

/* ------------------------------------------------------------------------
 * This process's own sort
 * ------------------------------------------------------------------------
 */

/* This process's own sort as a source. */
typedef struct OwnSource
{
	BlockSource base;
	BlockWriter *writer;
	RowBlock   *block;
} OwnSource;

static RowBlock *
own_source_next(BlockSource *source)
{
	OwnSource  *own = (OwnSource *) source;

	return block_writer_fill(own->writer, own->block) ? own->block : NULL;
}

BlockSource *
block_source_own(const SortSpec *spec, const CommonKeyRange *common_range, SortResult *result)
{
	OwnSource  *own = palloc0(sizeof(OwnSource));
	char	   *block = palloc(ROW_BLOCK_SIZE + ROW_BLOCK_KEY_ALIGN);

	own->base.next_block = own_source_next;
	own->writer = block_writer_create(spec, common_range, result, NULL);
	own->block = (RowBlock *) TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block);
	return &own->base;
}
