/*
 * block_merge.c
 *	  Sorted streams of row blocks: sources for a merge, and merged rows in blocks again.
 *
 * A stream is the ring of another participant or this process's own sort.  The
 * merge reads the rows where they lie in their block; a block is freed when the
 * merge asks for the next one (merge_tree.c).
 *
 * Parallel plans promise no order for equal rows; those of an index build are ordered by
 * their TIDs.
 *
 * A refill writes merged rows to blocks again, for two-level merges.  It copies the
 * keys with the rows.
 *
 * Memory: the merge; one row of each stream that is longer than a block; a block
 * and a block writer for the own sort; a block's keys and places for a refill.
 */
#include "postgres.h"

#include "key/key.h"
#include "miscadmin.h"
#include "parallel/parallel.h"
#include "store/row.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Rows that a node of the merge merges at a time. */
#define BLOCK_MERGE_BATCH	128

/* A stream of blocks. */
struct BlockSource
{
	MergeSource base;

	/*
	 * Frees the previous block and returns the next.  NULL at the end of the
	 * stream, or if the exchange was stopped (stopped is set then).
	 */
	RowBlock   *(*next_block) (BlockSource *source);
	bool		stopped;

	/* set by block_merge_create() */
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	MemoryContext cxt;

	char	   *long_row;		/* last row longer than a block; or NULL */
	Size		long_row_size;	/* allocated size */
	uint128		long_row_key;
};

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
	rows->places = (const RowPlace *) (block->rows + block->places_at);
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

MergeTree *
block_merge_create(const SortSpec *spec, const CommonKeyRange *common_range, BlockSource **sources, int n)
{
	KeyBuffer  *keybuf = palloc0(sizeof(KeyBuffer));
	KeyLayout	layout;
	TieBreak   *tiebreak;
	MergeTree  *tree;
	bool		wide;

	/* the key buffer holds no rows; the layout equals that of the writers */
	keybuf_init(keybuf, spec->keys, spec->nkeys, true);
	key_layout(&layout, keybuf, common_range->ranges);
	wide = block_key_bits(&layout) > 64;
	tiebreak = tiebreak_create(CurrentMemoryContext, bulk_owner_create(CurrentMemoryContext, NULL),
							   spec->desc, spec->keys, spec->nkeys);
	for (int i = 0; i < n; i++)
	{
		sources[i]->base.next = next_block_rows;
		sources[i]->wide = wide;
		sources[i]->cxt = CurrentMemoryContext;
	}
	pfree(keybuf);
	tree = merge_tree_create((MergeSource **) sources, n, BLOCK_MERGE_BATCH, wide, layout.exact, tiebreak);
	tree->by_tid = spec->by_tid;
	merge_tree_set_distinct(tree, spec->distinct,
							distinct_test(distinct_columns(spec->keys, spec->distinct), &layout,
										  Min(layout.total_bits, 128)));
	return tree;
}

/* ------------------------------------------------------------------------
 * Sources of blocks
 * ------------------------------------------------------------------------
 */

/* A ring as a source. */
typedef struct RingSource
{
	BlockSource base;
	Exchange   *ex;
	int			ring;
	int			reader;
	bool		had_one;		/* the last block returned is not freed yet */
	ExchangeWorkerGone gone;
	void	   *gone_arg;
} RingSource;

/* This process's own sort as a source. */
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

	source->base.next_block = ring_source_next;
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

	own->base.next_block = own_source_next;
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
	MergeTree  *merge;
	bool		begun;

	/* the next row, in no block yet; NULL at the end */
	MinimalTuple row;
	Size		row_at;			/* bytes of it already written in pieces */
	Size		key_bytes;
	RowPlace	places[ROW_BLOCK_MAX_ROWS]; /* of the block being filled */

	/*
	 * Keys of the block being filled.  They are copied behind the rows when
	 * it is full.
	 */
	char		keys[FLEXIBLE_ARRAY_MEMBER];
};

BlockRefill *
block_refill_create(MergeTree *merge)
{
	Size		key_bytes = merge->wide ? sizeof(uint128) : sizeof(uint64);
	BlockRefill *refill = palloc(offsetof(BlockRefill, keys) + ROW_BLOCK_MAX_ROWS * key_bytes);

	refill->merge = merge;
	refill->begun = false;
	refill->row_at = 0;
	refill->key_bytes = key_bytes;
	return refill;
}

/* Copies the key of the merge's last row to keys[i]. */
static inline void
refill_put_key(const BlockRefill *refill, char *keys, uint32 i)
{
	const char *key = merge_tree_key(refill->merge);

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
		refill->row = merge_tree_next(refill->merge);
		refill->row_at = 0;
	}
}

bool
block_refill_fill(BlockRefill *refill, RowBlock *block)
{
	Size		bytes = 0;
	uint32		n = 0;

	if (!refill->begun)
		refill->row = merge_tree_next(refill->merge);
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
		refill->row = merge_tree_next(refill->merge);
	} while (refill->row != NULL);

	row_block_divide(block, n, bytes, refill->key_bytes, refill->places);
	memcpy(block->rows + block->keys_at, refill->keys, n * refill->key_bytes);
	return true;
}
