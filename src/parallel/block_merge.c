/*
 * block_merge.c
 *	  Merge of sorted streams of row blocks.
 *
 * Rows are given out where they lie.  They are merged some way ahead of those that are asked
 * for: of a row the caller then has to take a pointer.  Streams are merged in pairs, and
 * the pairs' rows again, so that every step chooses between two rows whose keys and
 * places lie side by side: it has no branch, copies the one that it chose, and its only wait is for
 * a key in the first cache.  (A tree of losers plays fewer matches where streams are many, but each
 * waits for the one before: of two streams a row took 7 ns so, and takes 2.)  No row is looked at,
 * but asked for, so that it is there when the caller looks: another processor wrote it.
 *
 * A stream gives its block back only when all rows from there have been asked for: a node is
 * asked for more when those that it gave are used up, and so are all that were made of them.
 *
 * Rows that are equal come in the order of their streams' numbers: what a parallel
 * plan promises of them is nothing.
 *
 * Memory: places and keys of the rows ahead in each node, and one row of each stream, if they
 * come in pieces.
 */
#include "postgres.h"

#include "key/key.h"
#include "miscadmin.h"
#include "parallel/parallel.h"
#include "store/row.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Places in a cache line. */
#define ROW_PLACES_A_LINE	(64 / sizeof(uint64))

/* A stream, or two nodes' rows as one. */
typedef struct MergeNode
{
	const char *items;			/* rows ahead, places and keys, */
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
	uint128		whole_key;

	char		space[MERGE_BATCH * (MERGE_KEY_AT + sizeof(uint128))];
} MergeNode;

/* A row in pieces, of which the first has come, is put together; false if its rest will not come. */
static bool
assemble_row(BlockMerge *merge, MergeNode *stream, const RowBlock *block)
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
		CHECK_FOR_INTERRUPTS();
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

/*
 * The memory of rows to come is asked for: each line of it where rows are short, for of many such requests
 * one that is made twice is waited for, too; else where they begin.
 */
static inline void
prefetch_rows(const MergeNode *stream)
{
	const RowPlace *places = stream->places;
	uint32		n = Min(stream->left, MERGE_BATCH);

	if (n == 0)
		return;
	if (places[n - 1] - places[0] < n * ROW_PLACES_A_LINE)
	{
		for (uint32 place = places[0]; place <= places[n - 1]; place += ROW_PLACES_A_LINE)
			__builtin_prefetch(stream->base + place * sizeof(uint64));
		return;
	}
	for (uint32 i = 0; i < n; i++)
		__builtin_prefetch(stream->base + places[i] * sizeof(uint64));
}

/* The stream's next block comes to hand; false at the end. */
static bool
stream_next_block(BlockMerge *merge, MergeNode *stream)
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
		memcpy(&stream->whole_key, stream->block_keys, merge->wide ? sizeof(uint128) : sizeof(uint64));
		stream->block_keys = (const char *) &stream->whole_key;
		stream->places = &first;
		stream->left = 1;
		if (!assemble_row(merge, stream, block))
			return false;
		stream->base = stream->whole;
	}
	prefetch_rows(stream);
	return true;
}

/* Where the halves of fewer steps meet is not worth finding. */
#define MERGE_MIN_HALVES	32

#define MERGE_KEY		uint64
#define MERGE(name)		narrow_##name
#include "parallel/block_merge_template.h"

#define MERGE_KEY		uint128
#define MERGE(name)		wide_##name
#include "parallel/block_merge_template.h"

/* The stream's next rows. */
static void
stream_more(BlockMerge *merge, MergeNode *stream)
{
	if (stream->left == 0 && !stream_next_block(merge, stream))
	{
		stream->ended = true;
		return;
	}
	stream->n = Min(stream->left, MERGE_BATCH);
	stream->items = stream->space;
	if (merge->wide)
		wide_take(stream);
	else
		narrow_take(stream);
	stream->places += stream->n;
	stream->left -= stream->n;
	prefetch_rows(stream);
}

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
block_merge_create(const SortSpec *spec, const CommonKeyRange *common_range, BlockSource **sources, int n)
{
	BlockMerge *merge = palloc0(sizeof(BlockMerge));
	KeyBuffer	   *keybuf = palloc0(sizeof(KeyBuffer));
	KeyLayout	layout;

	/* nothing is staged, but the layout is the writers' */
	keybuf_init(keybuf, spec->keys, spec->nkeys, true);
	key_layout(&layout, keybuf, common_range->ranges);
	merge->wide = block_key_bits(&layout) > 64;
	merge->item_bytes = MERGE_KEY_AT + (merge->wide ? sizeof(uint128) : sizeof(uint64));
	merge->exact = layout.exact;
	merge->tiebreak = tiebreak_create(CurrentMemoryContext,
									  bulk_owner_create(CurrentMemoryContext, NULL), spec->desc,
									  spec->keys, spec->nkeys);
	merge->cxt = CurrentMemoryContext;
	merge->root = n == 0 ? NULL : create_node(sources, n);
	pfree(keybuf);
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
	merge->next = root->items;
	merge->end = root->items + (Size) root->n * merge->item_bytes;
	merge->total += root->n;
	return root->n > 0;
}

/* ------------------------------------------------------------------------
 * Where the blocks of a merge come from: other participants' rings, and one's own sort.
 *
 * Memory: of a ring none, of one's own sort a block and what block_writer.c has, in the
 * memory context in which they are made.
 * ------------------------------------------------------------------------
 */

typedef struct RingSource
{
	BlockSource base;
	Exchange   *ex;
	int			ring;
	int			reader;
	bool		had_one;
	ExchangeWorkerGone gone;
	void	   *gone_arg;
} RingSource;

typedef struct OwnSource
{
	BlockSource base;
	BlockWriter *writer;
	SortResult *result;
	RowBlock   *block;
} OwnSource;

static RowBlock *
ring_source_next(BlockSource *source)
{
	RingSource *ring = (RingSource *) source;
	RowBlock   *block = exchange_next_block(ring->ex, ring->ring, ring->reader, ring->had_one,
											ring->gone, ring->gone_arg);

	ring->had_one = (block != NULL);
	source->stopped = exchange_stopped(ring->ex);
	return block;
}

BlockSource *
block_source_ring(Exchange *ex, int ring, int reader, ExchangeWorkerGone gone, void *gone_arg)
{
	RingSource *source = palloc0(sizeof(RingSource));

	source->base.next = ring_source_next;
	source->ex = ex;
	source->ring = ring;
	source->reader = reader;
	source->gone = gone;
	source->gone_arg = gone_arg;
	return &source->base;
}

static RowBlock *
own_source_next(BlockSource *source)
{
	OwnSource  *own = (OwnSource *) source;

	return block_writer_fill(own->writer, own->result, own->block) ? own->block : NULL;
}

BlockSource *
block_source_own(const SortSpec *spec, const CommonKeyRange *common_range, SortResult *result)
{
	OwnSource  *own = palloc0(sizeof(OwnSource));
	char	   *block = palloc(ROW_BLOCK_SIZE + ROW_BLOCK_KEY_ALIGN);

	own->base.next = own_source_next;
	own->writer = block_writer_create(spec, common_range);
	own->result = result;
	own->block = (RowBlock *) TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block);
	return &own->base;
}

/* ------------------------------------------------------------------------
 * A merge's rows into blocks again.
 *
 * Rows and keys are what came, in one order: nothing is made anew.  Keys are
 * collected beside the block until it is known where its rows end.
 *
 * Memory: one block's keys and places.
 * ------------------------------------------------------------------------
 */

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
