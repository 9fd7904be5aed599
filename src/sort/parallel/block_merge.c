/*
 * block_merge.c
 *	  Merge of sorted streams of rows that come in blocks with their keys.
 *
 * Rows are given out where they lie.  They are merged some way ahead of those that are asked
 * for: of a row the caller then has to take a pointer.  Streams are merged in pairs, and
 * the pairs' rows again, so that every step chooses between two rows whose keys and
 * places lie in arrays: it has no branch, its only wait is for a key in the first cache.  (A tree of
 * losers plays fewer matches where streams are many, but each waits for the one before: of two
 * streams a row took 7 ns so, and takes 3.)  No row is looked at, but asked for, so that
 * it is there when the caller looks: another processor wrote it.
 *
 * A stream gives its block back only when all rows from there have been asked for: a node is
 * asked for more when those that it gave are used up, and so are all that were made of them.
 *
 * Rows that are equal come in the order of their streams' numbers: what a parallel
 * plan promises of them is nothing.
 *
 * Memory: pointers and keys of the rows ahead in each node, and one row of each stream, if they
 * come in pieces.
 */
#include "postgres.h"

#include "key/pack.h"
#include "key/tie/tiebreak.h"
#include "sort/parallel/block_merge.h"
#include "sort/parallel/block_writer.h"
#include "utils/memutils.h"

/* A stream, or two nodes' rows as one. */
typedef struct MergeNode
{
	const char *keys;			/* rows ahead: their keys, */
	const MinimalTuple *rows;
	uint32		n;				/* and how many */
	bool		ended;			/* no more will come */
	struct MergeNode *a;		/* NULL: a stream */
	struct MergeNode *b;

	/* of a stream, where its block is read */
	BlockSource *source;
	const char *base;
	const RowPlace *places;
	const char *block_keys;
	uint32		left;			/* rows from there */
	char	   *whole;			/* palloc'd: a row that came in pieces, */
	Size		whole_size;

	MinimalTuple row_space[MERGE_BATCH];
	uint128		key_space[MERGE_BATCH];
} MergeNode;

/* A row in pieces, of which the first has come, is put together; false if its rest will not come. */
static bool
assemble(BlockMerge *merge, MergeNode *stream, const RowBlock *block)
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
	return true;
}

/* The places of rows to come are asked for. */
static inline void
prefetch_rows(const MergeNode *stream)
{
	for (uint32 i = 0; i < Min(stream->left, MERGE_BATCH); i++)
		__builtin_prefetch(stream->base + stream->places[i] * sizeof(uint64));
}

/* The stream's next block comes to hand; false at the end. */
static bool
next_block(BlockMerge *merge, MergeNode *stream)
{
	static const RowPlace first = 0;
	RowBlock   *block = stream->source->next(stream->source);

	if (block == NULL)
		return false;
	stream->base = block->rows;
	stream->block_keys = block->rows + block->keys_at;
	stream->places = (const RowPlace *) (block->rows + block->places_at);
	stream->left = block->n;
	if (unlikely(block->whole > 0))
	{
		memcpy(stream->key_space, stream->block_keys, merge->wide ? sizeof(uint128) : sizeof(uint64));
		stream->block_keys = (const char *) stream->key_space;
		stream->places = &first;
		stream->left = 1;
		if (!assemble(merge, stream, block))
			return false;
		stream->base = stream->whole;
	}
	prefetch_rows(stream);
	return true;
}

/* The stream's next rows. */
static void
stream_more(BlockMerge *merge, MergeNode *stream)
{
	if (stream->left == 0 && !next_block(merge, stream))
	{
		stream->ended = true;
		return;
	}
	stream->n = Min(stream->left, MERGE_BATCH);
	for (uint32 i = 0; i < stream->n; i++)
		stream->row_space[i] = (MinimalTuple) (stream->base + stream->places[i] * sizeof(uint64));
	stream->rows = stream->row_space;
	stream->keys = stream->block_keys;
	stream->block_keys += stream->n * (merge->wide ? sizeof(uint128) : sizeof(uint64));
	stream->places += stream->n;
	stream->left -= stream->n;
	prefetch_rows(stream);
}

#define MERGE_KEY		uint64
#define MERGE(name)		narrow_##name
#include "sort/parallel/block_merge_template.h"

#define MERGE_KEY		uint128
#define MERGE(name)		wide_##name
#include "sort/parallel/block_merge_template.h"

/* The node, which has none left, gets its next rows: none at the end. */
static void
node_more(BlockMerge *merge, MergeNode *node)
{
	MergeNode  *a = node->a;
	MergeNode  *b = node->b;

	if (a == NULL)
	{
		stream_more(merge, node);
		return;
	}
	if (a->n == 0 && !a->ended)
		node_more(merge, a);
	if (b->n == 0 && !b->ended)
		node_more(merge, b);
	if (merge->wide)
		wide_merge(merge, node);
	else
		narrow_merge(merge, node);
	node->ended = (node->n == 0);
}

/* A node of these streams. */
static MergeNode *
create_node(BlockSource **sources, int n)
{
	MergeNode  *node = palloc0(sizeof(MergeNode));

	if (n == 1)
		node->source = sources[0];
	else
	{
		node->a = create_node(sources, n / 2);
		node->b = create_node(sources + n / 2, n - n / 2);
	}
	return node;
}

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
	merge->root = n == 0 ? NULL : create_node(sources, n);
	pfree(stage);
	return merge;
}

bool
block_merge_more(BlockMerge *merge)
{
	MergeNode  *root = merge->root;

	if (root == NULL || root->ended)
		return false;
	root->n = 0;
	node_more(merge, root);
	merge->at = 0;
	merge->n = root->n;
	merge->rows = root->rows;
	merge->keys = root->keys;
	merge->total += merge->n;
	return merge->n > 0;
}
