/*
 * block_merge.c
 *	  K-way merge of sorted streams of row blocks.
 *
 * The merge is a binary tree of two-way merges.  Each node merges a batch of rows
 * ahead and holds them as items, a row's address followed by its key.  A step
 * compares two adjacent keys and copies one item without a branch; it waits only
 * for keys in the first-level cache.  A tournament tree needs fewer comparisons
 * with many streams, but each waits for the one before.
 *
 * Rows are returned where they lie.  The merge does not read them, except to
 * compare equal keys, but prefetches them for the caller: another CPU wrote them.
 *
 * A stream frees its block only when a node asks it for rows beyond the block.  A
 * node asks for more rows when all its rows are used, and so are the rows that
 * the nodes above made of them.
 *
 * Equal rows are returned in the order of their streams; parallel plans promise
 * no order for them.
 *
 * The sources of a merge are rings of other participants and this process's own
 * sort.  A refill writes merged rows to blocks again, for two-level merges: it
 * copies rows and keys and makes nothing new.
 *
 * Memory: a batch of items in each node; one row of each stream that is longer
 * than a block; a block and a block writer for the own sort; a block's keys and
 * places for a refill.
 */
#include "postgres.h"

#include "key/key.h"
#include "miscadmin.h"
#include "parallel/parallel.h"
#include "store/row.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Units of RowPlace in a cache line. */
#define ROW_PLACES_PER_LINE	(64 / sizeof(uint64))

/* Steps below which a batch is not merged as two halves. */
#define MERGE_MIN_HALVES	32

/* A node of the tree: a leaf reads a stream, an inner node merges a and b. */
typedef struct MergeNode
{
	const char *items;			/* rows merged ahead */
	uint32		n;				/* number of items */
	bool		ended;			/* no more rows will come */
	struct MergeNode *a;		/* NULL in a leaf */
	struct MergeNode *b;

	/* position in the current block of a leaf */
	BlockSource *source;
	const char *base;			/* start of the block's rows */
	const RowPlace *places;		/* place of the next row */
	const char *block_keys;		/* key of the next row */
	uint32		remaining;		/* rows of the block that are no items yet */
	char	   *long_row;		/* palloc'd: the last row longer than a block;
								 * or NULL */
	Size		long_row_size;	/* allocated size */
	uint128		long_row_key;

	char		space[MERGE_BATCH * (MERGE_KEY_AT + sizeof(uint128))];	/* of items */
} MergeNode;

/* Assembles a row from its pieces, the first in block; false if the exchange was stopped. */
static bool
assemble_row(BlockMerge *merge, MergeNode *stream, const RowBlock *block)
{
	Size		size = block->whole;
	Size		at = 0;

	if (stream->long_row_size < size)
	{
		if (stream->long_row != NULL)
			pfree(stream->long_row);
		stream->long_row = MemoryContextAllocHuge(merge->cxt, size);
		stream->long_row_size = size;
	}
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		memcpy(stream->long_row + at, block->rows, block->bytes);
		at += block->bytes;
		if (at >= size)
			break;
		block = stream->source->next(stream->source);
		if (block == NULL && stream->source->stopped)
			return false;
		if (block == NULL)
			elog(ERROR, "incomplete row in a parallel sort");
	}
	return true;
}

/*
 * Prefetches the next batch of rows: every cache line of short rows, so that no
 * line is requested twice, but only the first line of longer rows.
 */
static inline void
prefetch_rows(const MergeNode *stream)
{
	const RowPlace *places = stream->places;
	uint32		n = Min(stream->remaining, MERGE_BATCH);

	if (n == 0)
		return;
	if (places[n - 1] - places[0] < n * ROW_PLACES_PER_LINE)
	{
		for (uint32 place = places[0]; place <= places[n - 1]; place += ROW_PLACES_PER_LINE)
			__builtin_prefetch(stream->base + place * sizeof(uint64));
		return;
	}
	for (uint32 i = 0; i < n; i++)
		__builtin_prefetch(stream->base + places[i] * sizeof(uint64));
}

/* Gets the stream's next block; false at the end. */
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
	stream->remaining = block->n;
	if (unlikely(block->whole > 0))
	{
		memcpy(&stream->long_row_key, stream->block_keys, merge->wide ? sizeof(uint128) : sizeof(uint64));
		stream->block_keys = (const char *) &stream->long_row_key;
		stream->places = &first;
		stream->remaining = 1;
		if (!assemble_row(merge, stream, block))
			return false;
		stream->base = stream->long_row;
	}
	prefetch_rows(stream);
	return true;
}

#define MERGE_KEY		uint64
#define MERGE(name)		narrow_##name
#include "parallel/block_merge_template.h"

#define MERGE_KEY		uint128
#define MERGE(name)		wide_##name
#include "parallel/block_merge_template.h"

/* Makes items of the stream's next rows. */
static void
stream_more(BlockMerge *merge, MergeNode *stream)
{
	if (stream->remaining == 0 && !stream_next_block(merge, stream))
	{
		stream->ended = true;
		return;
	}
	stream->n = Min(stream->remaining, MERGE_BATCH);
	stream->items = stream->space;
	if (merge->wide)
		wide_take(stream);
	else
		narrow_take(stream);
	stream->places += stream->n;
	stream->remaining -= stream->n;
	prefetch_rows(stream);
}

/* Refills a node whose items are used up; sets ended at the end. */
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

/* Builds the tree for these streams, in the current memory context. */
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
	KeyBuffer  *keybuf = palloc0(sizeof(KeyBuffer));
	KeyLayout	layout;

	/* the key buffer holds no rows: it gives the layout that the writers have */
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
 * Sources of blocks
 * ------------------------------------------------------------------------
 */

typedef struct RingSource
{
	BlockSource base;
	Exchange   *ex;
	int			ring;
	int			reader;
	bool		had_one;		/* next() has returned a block that is not
								 * freed */
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
 * Refill
 * ------------------------------------------------------------------------
 */

struct BlockRefill
{
	BlockMerge *merge;
	bool		begun;
	MinimalTuple row;			/* the next row, in no block yet; NULL at the
								 * end */
	Size		row_at;			/* bytes of it already written in pieces */
	Size		key_bytes;
	RowPlace	places[ROW_BLOCK_MAX_ROWS]; /* of the block being filled */
	char		keys[FLEXIBLE_ARRAY_MEMBER];	/* of the block being filled:
												 * their place is known when
												 * it is full */
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
refill_put_key(const BlockRefill *refill, char *keys, uint32 i)
{
	const char *key = block_merge_key(refill->merge);

	if (refill->key_bytes == sizeof(uint64))
		memcpy(keys + i * sizeof(uint64), key, sizeof(uint64));
	else
		memcpy(keys + i * sizeof(uint128), key, sizeof(uint128));
}

/* Writes the next piece of a row longer than a block; the first piece has its key. */
static void
fill_piece(BlockRefill *refill, RowBlock *block)
{
	bool		last = row_block_put_piece(block, refill->row, &refill->row_at);

	if (block->n > 0)
		refill_put_key(refill, block->rows + block->keys_at, 0);
	if (last)
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
		refill_put_key(refill, refill->keys, n);
		refill->places[n] = bytes / sizeof(uint64);
		bytes += size;
		n++;
		refill->row = block_merge_next(refill->merge);
	} while (refill->row != NULL);

	row_block_divide(block, n, bytes, refill->key_bytes, refill->places);
	memcpy(block->rows + block->keys_at, refill->keys, n * refill->key_bytes);
	return true;
}
