/*
 * block_merge.c
 *	  Merge of sorted streams of rows that come in blocks with their keys.
 *
 * Rows are given out where they lie: a stream goes on to its next row, and maybe
 * gives its block back, only when the merge is asked for the row after.  A row is
 * found by the length of the one before it, and its key beside that one's, so that
 * a step of a stream is two loads from places that are read in sequence.
 *
 * Rows that are equal come in the order of their streams' numbers: what a parallel
 * plan promises of them is nothing.
 *
 * Memory: one row of each stream, if they come in pieces.
 */
#include "postgres.h"

#include "key/pack.h"
#include "sort/parallel/block_merge.h"
#include "sort/parallel/block_writer.h"
#include "utils/memutils.h"

/* Bytes ahead of a stream's rows that are asked for: another processor wrote them. */
#define MERGE_AHEAD		256

/* A row in pieces, of which the first has come, is put together. */
static void
assemble(BlockMerge *merge, BlockStream *stream, const RowBlock *block)
{
	Size		whole = block->whole;
	Size		at = 0;

	if (stream->whole_size < whole)
	{
		if (stream->whole != NULL)
			pfree(stream->whole);
		stream->whole = MemoryContextAllocHuge(merge->cxt, whole);
		stream->whole_size = whole;
	}
	for (;;)
	{
		memcpy(stream->whole + at, block->rows, block->bytes);
		at += block->bytes;
		if (at >= whole)
			break;
		block = stream->source->next(stream->source);
		if (block == NULL)
			elog(ERROR, "a row of a parallel sort is not complete");
	}
	stream->next = stream->whole;
}

/* The stream's next block; returns its first row's key. */
static pg_noinline MergeKey
next_block(BlockMerge *merge, BlockStream *stream)
{
	RowBlock   *block = stream->source->next(stream->source);
	MergeKey	key;

	if (block == NULL)
	{
		stream->row = NULL;
		stream->left = 0;
		return MERGE_KEY_END;
	}
	stream->keys = block->rows + block->keys_at;
	stream->left = block->n;
	stream->next = block->rows;
	key = merge->wide ? *(const uint128 *) stream->keys : *(const uint64 *) stream->keys;
	if (unlikely(block->whole > 0))
		assemble(merge, stream, block);
	stream->row = stream->next;
	stream->next += MAXALIGN(((MinimalTuple) stream->row)->t_len);
	stream->left--;
	stream->keys += merge->wide ? sizeof(uint128) : sizeof(uint64);
	return key;
}

static pg_attribute_always_inline MergeKey
advance(BlockMerge *merge, int s, bool wide)
{
	BlockStream *stream = &merge->streams[s];
	MergeKey	key;

	if (unlikely(stream->left == 0))
		return next_block(merge, stream);
	if (wide)
	{
		key = *(const uint128 *) stream->keys;
		stream->keys += sizeof(uint128);
	}
	else
	{
		key = *(const uint64 *) stream->keys;
		stream->keys += sizeof(uint64);
	}
	stream->row = stream->next;
	__builtin_prefetch(stream->row + MERGE_AHEAD);
	stream->next += MAXALIGN(((MinimalTuple) stream->row)->t_len);
	stream->left--;
	return key;
}

static MergeKey
advance_narrow(void *arg, int s)
{
	return advance(arg, s, false);
}

static MergeKey
advance_wide(void *arg, int s)
{
	return advance(arg, s, true);
}

/* Does stream a's row go before stream b's, whose key is the same? */
static pg_noinline bool
equal_before(void *arg, int a, int b)
{
	BlockMerge *merge = arg;
	MinimalTuple row_a = (MinimalTuple) merge->streams[a].row;
	MinimalTuple row_b = (MinimalTuple) merge->streams[b].row;

	if (row_a == NULL || row_b == NULL)
		return row_a != NULL || (row_b == NULL && a < b);
	if (!merge->exact)
	{
		int			cmp = tiebreak_compare(merge->tiebreak, row_a, row_b);

		if (cmp != 0)
			return cmp < 0;
	}
	return a < b;
}

BlockMerge *
block_merge_create(const SortSpec *spec, const KeyFrame *frame, BlockSource **sources, int n)
{
	BlockMerge *merge = palloc0(offsetof(BlockMerge, streams) + n * sizeof(BlockStream));
	Stage	   *stage = palloc0(sizeof(Stage));
	KeyLayout	layout;

	/* nothing is staged, but the layout is the writers' */
	stage_init(stage, NULL, CurrentMemoryContext, spec->keys, spec->nkeys, true);
	key_layout(&layout, stage, frame->ranges);
	merge->wide = block_key_bits(&layout) > 64;
	merge->exact = layout.exact;
	merge->tiebreak = tiebreak_create(CurrentMemoryContext,
									  bulk_owner_create(CurrentMemoryContext, NULL), spec->desc, spec->keys, spec->nkeys);
	merge->cxt = CurrentMemoryContext;
	merge->n = n;
	for (int s = 0; s < n; s++)
		merge->streams[s].source = sources[s];
	pfree(stage);
	return merge;
}

static inline MinimalTuple
winner_row(const BlockMerge *merge)
{
	return (MinimalTuple) merge->streams[merge->tree.winner.source].row;
}

MinimalTuple
block_merge_first(BlockMerge *merge)
{
	if (merge->n == 0)
		return NULL;
	loser_tree_begin(&merge->tree, merge->n, merge->wide ? advance_wide : advance_narrow,
					 equal_before, merge);
	return winner_row(merge);
}

MinimalTuple
block_merge_next(BlockMerge *merge)
{
	if (merge->wide)
		loser_tree_next(&merge->tree, advance_wide, equal_before, merge);
	else
		loser_tree_next(&merge->tree, advance_narrow, equal_before, merge);
	return winner_row(merge);
}
