/*
 * block_merge.c
 *	  Sorted streams of row blocks: written to rings, merged, and written again.
 *
 * A worker writes its own sorted rows to the blocks of its ring, and the leader merges all
 * rings.  With many workers two of them also merge: each merges the rings of its group and its
 * own rows into its ring (exchange.c).  Such a refill copies rows and keys and makes nothing
 * new.
 *
 * A writer copies rows to the block first, in the order of the sort's result.  Then it makes
 * their keys from the copies, which are in the CPU cache: column by column, as for rows of a
 * heap page, and packed in the layout of all participants' rows.
 *
 * The merge reads the rows where they lie in their block; a block is freed when the merge asks
 * for the next one (merge_tree.c).  Parallel plans promise no order for equal rows; those of an
 * index build are ordered by their TIDs.
 *
 * Memory: a block's keys and places for a writer and for a refill; the merge; one row of each
 * stream that is longer than a block; a block for the own sort.  A worker's memory lies in a
 * context that is deleted when its ring has ended.
 *
 * On error: see exchange.c.
 */
#include "postgres.h"

#include "key/key.h"
#include "miscadmin.h"
#include "parallel/key_block.h"
#include "parallel/parallel.h"
#include "store/store.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Rows that a node of the merge merges at a time. */
#define BLOCK_MERGE_BATCH	128

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

/*
 * Completes a block that has n rows: sets the offsets of the keys, and stores the row
 * offsets.
 */
static inline void
row_block_divide(RowBlock *block, uint32 n, Size bytes, Size key_bytes, const RowPlace *places)
{
	block->n = n;
	block->bytes = bytes;
	block->whole = 0;
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, bytes);
	block->places_at = block->keys_at + n * key_bytes;
	memcpy(block->rows + block->places_at, places, n * sizeof(RowPlace));
}

/*
 * Writes the next piece of a row longer than a block, from byte *at on, and
 * advances *at; true if it was the last piece.  The first piece counts as the
 * block's row, and the caller adds the key at block->keys_at.
 */
static inline bool
row_block_put_piece(RowBlock *block, MinimalTuple row, Size *at)
{
	Size		size = MAXALIGN(row->t_len);

	block->n = *at == 0 ? 1 : 0;
	block->whole = size;
	block->bytes = Min(ROW_BLOCK_PIECE, size - *at);
	memcpy(block->rows, (const char *) row + *at, block->bytes);
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block->bytes);
	*at += block->bytes;
	return *at == size;
}

/* Width of keys in blocks of this layout. */
static inline int
block_key_bits(const KeyLayout *layout)
{
	return layout->total_bits <= 64 ? 64 : 128;
}

/* ------------------------------------------------------------------------
 * Writer: sorted rows into blocks, with keys in the common key range
 * ------------------------------------------------------------------------
 */

typedef struct BlockWriter
{
	BulkOwner  *bulk;
	KeyBuffer	keybuf;			/* keys of the block's rows */
	KeyWriter	keys;
	CommonKeyRange common_range;
	KeyLayout	layout;
	int			key_bits;		/* 64 or 128 */
	RowPage    *page;			/* working memory of keybuf_stored_rows() */
	TupleTableSlot *slot;		/* a row to be deformed */
	TupleTableSlot *row_slot;	/* the result's row */

	/* the result's next row, in no block yet; or NULL */
	MinimalTuple pending;
	Size		pending_at;		/* bytes of it already written in pieces */
	RowPlace	places[ROW_BLOCK_MAX_ROWS];
} BlockWriter;

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

/*
 * Creates a writer for sorted rows of spec, in the current memory context.
 * common_range contains the keys of all rows that will be merged.
 */
static BlockWriter *
block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range)
{
	BlockWriter *writer = palloc0(sizeof(BlockWriter));

	writer->bulk = bulk_owner_create(CurrentMemoryContext, NULL);
	writer->common_range = *common_range;
	keybuf_init(&writer->keybuf, spec->keys, spec->nkeys, true);
	keybuf_writer_init(&writer->keys, CurrentMemoryContext, writer->bulk, &writer->keybuf, spec->keys);
	keybuf_begin(&writer->keybuf);
	common_range_apply(common_range, &writer->keybuf);
	keybuf_reserve(&writer->keybuf, writer->bulk, ROW_BLOCK_MAX_ROWS);
	key_layout(&writer->layout, &writer->keybuf, common_range->ranges);
	writer->key_bits = block_key_bits(&writer->layout);
	writer->page = palloc0(sizeof(RowPage));
	row_page_init_stored(writer->page, spec->desc, &writer->keybuf);
	writer->slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	writer->row_slot = MakeSingleTupleTableSlot(spec->desc, &TTSOpsMinimalTuple);
	return writer;
}

/* Writes the keys of the block's rows, or of the row that the block has a piece of. */
static void
write_block_keys(BlockWriter *writer, RowBlock *block, const char *rows)
{
	keybuf_reset(&writer->keybuf);
	keybuf_stored_rows(&writer->keybuf, &writer->keys, writer->slot, writer->page, rows, block->n);
	/* keys outside the range would not compare with other participants' keys */
	if (!common_range_holds(&writer->common_range, &writer->keybuf))
		elog(ERROR, "key outside the common key range of a parallel sort");
	pack_keys(&writer->keybuf, &writer->layout, writer->key_bits, 0, block->n,
			  block->rows + block->keys_at);
}

/* Writes the next piece of a row longer than a block; the first piece has its key. */
static void
write_piece(BlockWriter *writer, RowBlock *block)
{
	bool		last = row_block_put_piece(block, writer->pending, &writer->pending_at);

	if (block->n > 0)
		write_block_keys(writer, block, (const char *) writer->pending);
	if (last)
		writer->pending = NULL;
}

/* Sets pending to the result's next row. */
static pg_attribute_always_inline void
next_pending(BlockWriter *writer, SortResult *result, ResultKind kind)
{
	TupleTableSlot *slot = writer->row_slot;

	writer->pending = result_next(result, kind, true, slot) ? slot_minimal_tuple(slot) : NULL;
	writer->pending_at = 0;
}

/* block_writer_fill() for a constant kind of result. */
static pg_attribute_always_inline bool
fill_block(BlockWriter *writer, SortResult *result, ResultKind kind, RowBlock *block)
{
	Size		key_bytes = writer->key_bits / 8;
	Size		bytes = 0;
	uint32		n = 0;

	if (writer->pending == NULL)
		next_pending(writer, result, kind);
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
		next_pending(writer, result, kind);
	} while (writer->pending != NULL);

	row_block_divide(block, n, bytes, key_bytes, writer->places);
	write_block_keys(writer, block, block->rows);
	return true;
}

/* Fills a block with the result's next rows; false if there are none. */
static bool
block_writer_fill(BlockWriter *writer, SortResult *result, RowBlock *block)
{
	if (result->methods->kind == RESULT_ROWS)
		return fill_block(writer, result, RESULT_ROWS, block);
	return fill_block(writer, result, RESULT_PLAIN, block);
}

/* Writes the sorted rows of this process to blocks. */
typedef struct OwnWriter
{
	SortResult *result;
	BlockWriter *rows;			/* NULL: the blocks have keys alone */
	KeyTaker   *keys;
} OwnWriter;

/* Initializes a writer, in the current memory context. */
static void
own_writer_init(OwnWriter *own, const SortSpec *spec, const CommonKeyRange *common_range, SortResult *result)
{
	own->result = result;
	own->rows = NULL;
	own->keys = NULL;
	if (sends_keys(spec))
		own->keys = key_block_taker(spec, common_range, result);
	else
		own->rows = block_writer_create(spec, common_range);
}

/* Fills a block with the next rows; false if there are none. */
static bool
own_writer_fill(OwnWriter *own, RowBlock *block)
{
	return own->keys != NULL ? key_block_fill(own->keys, block) :
		block_writer_fill(own->rows, own->result, block);
}

/* ------------------------------------------------------------------------
 * Merge of streams
 * ------------------------------------------------------------------------
 */

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
	bool		keys_only;		/* blocks have keys alone */
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

MergeTree *
block_merge_create(const SortSpec *spec, const CommonKeyRange *common_range, BlockSource **sources, int n)
{
	KeyBuffer  *keybuf = palloc0(sizeof(KeyBuffer));
	KeyLayout	layout;
	TieBreak   *tiebreak;
	MergeTree  *merge;
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
		sources[i]->keys_only = sends_keys(spec);
		sources[i]->cxt = CurrentMemoryContext;
	}
	pfree(keybuf);
	merge = merge_tree_create((MergeSource **) sources, n, BLOCK_MERGE_BATCH, spec, &layout, tiebreak);
	if (sends_keys(spec))
		key_block_make_rows(merge, spec, common_range);
	return merge;
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
	OwnWriter	writer;
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

/* A worker's ring, read by reader (a ring or EXCHANGE_LEADER); gone as in exchange_next_block(). */
static BlockSource *
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

	return own_writer_fill(&own->writer, own->block) ? own->block : NULL;
}

BlockSource *
block_source_own(const SortSpec *spec, const CommonKeyRange *common_range, SortResult *result)
{
	OwnSource  *own = palloc0(sizeof(OwnSource));
	char	   *block = palloc(ROW_BLOCK_SIZE + ROW_BLOCK_KEY_ALIGN);

	own->base.next_block = own_source_next;
	own_writer_init(&own->writer, spec, common_range, result);
	own->block = (RowBlock *) TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block);
	return &own->base;
}

/* ------------------------------------------------------------------------
 * Refill
 * ------------------------------------------------------------------------
 */

/* Writes merged rows to blocks again: copies rows and keys, and makes nothing new. */
typedef struct BlockRefill
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
} BlockRefill;

/* Creates a refill of a merge that has returned no row, in the current memory context. */
static BlockRefill *
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

/* Fills a block with the merge's next rows and their keys; false if there are none. */
static bool
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

/* ------------------------------------------------------------------------
 * Both ends of the rings
 * ------------------------------------------------------------------------
 */

/* Writes the worker's own rows to its ring. */
static void
write_own(Exchange *ex, int ring, const SortSpec *spec, SortResult *own, ExchangeServe serve, void *arg)
{
	OwnWriter	writer;
	RowBlock   *block;

	own_writer_init(&writer, spec, exchange_common_range(ex, spec->keys, spec->nkeys), own);
	while ((block = exchange_block_to_write(ex, ring, serve, arg)) != NULL && own_writer_fill(&writer, block))
	{
		exchange_block_written(ex, ring);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Merges n other rings and the worker's own rows into its ring.  Returns the number of
 * duplicates that were dropped.
 */
static uint64
write_merged(Exchange *ex, int ring, const SortSpec *spec, SortResult *own, const int *rings, int n,
			 ExchangeServe serve, void *arg)
{
	const CommonKeyRange *common_range = exchange_common_range(ex, spec->keys, spec->nkeys);
	BlockSource **sources = palloc((n + 1) * sizeof(BlockSource *));
	MergeTree  *merge;
	BlockRefill *refill;
	RowBlock   *block;
	int			nsources = 0;

	if (own != NULL)
		sources[nsources++] = block_source_own(spec, common_range, own);
	for (int i = 0; i < n; i++)
		sources[nsources++] = block_source_ring(ex, rings[i], ring, NULL, NULL);
	merge = block_merge_create(spec, common_range, sources, nsources);
	refill = block_refill_create(merge);
	while ((block = exchange_block_to_write(ex, ring, serve, arg)) != NULL &&
		   (sends_keys(spec) ? key_block_refill(merge, block) : block_refill_fill(refill, block)))
	{
		exchange_block_written(ex, ring);
		CHECK_FOR_INTERRUPTS();
	}
	return merge->dropped;
}

uint64
exchange_write_ring(Exchange *ex, int ring, const SortSpec *spec, SortResult *own, ExchangeServe serve,
					void *arg)
{
	uint64		dropped = 0;

	/* a worker without rows may have to merge other rings */
	if (exchange_wait_all(ex))
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort blocks",
												  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		int		   *rings = palloc(ex->nrings * sizeof(int));
		int			n = exchange_rings_of(ex, ring, rings);

		if (n > 0)
			dropped = write_merged(ex, ring, spec, own, rings, n, serve, arg);
		else if (own != NULL)
			write_own(ex, ring, spec, own, serve, arg);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
	exchange_end_ring(ex, ring);
	return dropped;
}

int
exchange_open_streams(Exchange *ex, int rings, ExchangeWorkerGone gone, void *arg, BlockSource **sources)
{
	int			n = 0;

	for (int r = 0; r < rings; r++)
	{
		/* had_one is false, so the stream returns this block again as its first one */
		if (exchange_next_block(ex, r, EXCHANGE_LEADER, false, gone, arg) != NULL)
			sources[n++] = block_source_ring(ex, r, EXCHANGE_LEADER, gone, arg);
	}
	return n;
}
