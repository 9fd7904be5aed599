/*
 * block_sources.c
 *	  Where the blocks of a merge come from: other participants' rings, and one's own sort.
 *
 * Memory: of a ring none, of one's own sort a block and what block_writer.c has, in the
 * memory context in which they are made.
 */
#include "postgres.h"

#include "sort/parallel/block_sources.h"
#include "sort/parallel/block_writer.h"

typedef struct RingSource
{
	BlockSource base;
	Exchange   *ex;
	int			ring;
	int			reader;
	bool		had_one;
	ExchangeGone gone;
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
block_source_ring(Exchange *ex, int ring, int reader, ExchangeGone gone, void *gone_arg)
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
block_source_own(const SortSpec *spec, const KeyFrame *frame, SortResult *result)
{
	OwnSource  *own = palloc0(sizeof(OwnSource));
	char	   *block = palloc(ROW_BLOCK_SIZE + ROW_BLOCK_KEY_ALIGN);

	own->base.next = own_source_next;
	own->writer = block_writer_create(spec, frame);
	own->result = result;
	own->block = (RowBlock *) TYPEALIGN(ROW_BLOCK_KEY_ALIGN, block);
	return &own->base;
}
