/*
 * block_merge.c
 *	  Merge of sorted streams of rows that come in blocks with their keys.
 *
 * Rows are given out where they lie.  They are merged some way ahead of those that are asked
 * for, in one tight loop: of a row the caller then has to take a pointer.  A stream
 * gives its block back only when all rows from there have been asked for.  A row is
 * found by the length of the one before it, and its key beside that one's, so that
 * a step of a stream is two loads from places that are read in sequence.
 *
 * Rows that are equal come in the order of their streams' numbers: what a parallel
 * plan promises of them is nothing.
 *
 * Memory: pointers and keys of the rows ahead, and one row of each stream, if they
 * come in pieces.
 */
#include "postgres.h"

#include "key/pack.h"
#include "key/tie/tiebreak.h"
#include "sort/parallel/block_merge.h"
#include "sort/parallel/block_writer.h"
#include "utils/memutils.h"

/* Bytes ahead of a stream's rows that are asked for: another processor wrote them. */
#define MERGE_AHEAD		256

/* A stream, and where it is. */
typedef struct BlockStream
{
	BlockSource *source;
	char	   *row;			/* the current row; NULL: at the end */
	char	   *next;			/* the next, of left in the block */
	const char *keys;			/* its key */
	uint32		left;
	char	   *whole;			/* palloc'd: a row that came in pieces, */
	Size		whole_size;
	uint128		whole_key;		/* and its key */
} BlockStream;

/* A row in pieces, of which the first has come, is put together; false if its rest will not come. */
static bool
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
		if (block == NULL && stream->source->stopped)
			return false;
		if (block == NULL)
			elog(ERROR, "a row of a parallel sort is not complete");
	}
	stream->next = stream->whole;
	return true;
}

/* The stream's next block comes to hand; false at the end. */
static bool
next_block(BlockMerge *merge, BlockStream *stream)
{
	RowBlock   *block = stream->source->next(stream->source);

	stream->row = NULL;
	stream->left = 0;
	if (block == NULL)
		return false;
	stream->keys = block->rows + block->keys_at;
	stream->next = block->rows;
	if (unlikely(block->whole > 0))
	{
		memcpy(&stream->whole_key, stream->keys, merge->wide ? sizeof(uint128) : sizeof(uint64));
		stream->keys = (const char *) &stream->whole_key;
		if (!assemble(merge, stream, block))
			return false;
		stream->left = 1;
	}
	else
		stream->left = block->n;
	return true;
}

/* Does stream a's row go before stream b's, whose key is the same? */
static pg_noinline bool
equal_before(BlockMerge *merge, int a, int b)
{
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

#define MERGE_KEY		uint64
#define MERGE(name)		narrow_##name
#include "sort/parallel/block_merge_template.h"

#define MERGE_KEY		uint128
#define MERGE(name)		wide_##name
#include "sort/parallel/block_merge_template.h"

BlockMerge *
block_merge_create(const SortSpec *spec, const KeyFrame *frame, BlockSource **sources, int n)
{
	BlockMerge *merge = palloc0(sizeof(BlockMerge));
	Stage	   *stage = palloc0(sizeof(Stage));
	KeyLayout	layout;

	/* nothing is staged, but the layout is the writers' */
	stage_init(stage, spec->keys, spec->nkeys, true);
	key_layout(&layout, stage, frame->ranges);
	merge->wide = block_key_bits(&layout) > 64;
	merge->exact = layout.exact;
	merge->tiebreak = tiebreak_create(CurrentMemoryContext,
									  bulk_owner_create(CurrentMemoryContext, NULL), spec->desc,
									  spec->keys, spec->nkeys);
	merge->cxt = CurrentMemoryContext;
	merge->keys = palloc(MERGE_BATCH * (merge->wide ? sizeof(uint128) : sizeof(uint64)));
	merge->nstreams = n;
	merge->streams = palloc0(n * sizeof(BlockStream));
	for (int s = 0; s < n; s++)
		merge->streams[s].source = sources[s];
	pfree(stage);
	return merge;
}

bool
block_merge_more(BlockMerge *merge)
{
	if (merge->nstreams == 0)
		return false;
	if (merge->wide)
		wide_more(merge);
	else
		narrow_more(merge);
	merge->total += merge->n;
	return merge->n > 0;
}
