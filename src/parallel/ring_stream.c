/*
 * ring_stream.c
 *	  Both ends of the rings: workers write sorted blocks, the leader opens the streams that it merges.
 *
 * A worker writes its own sorted rows to the blocks of its ring, and the leader merges all
 * rings.  With many workers two of them also merge: each merges the rings of its group and its
 * own rows into its ring (exchange.c).
 *
 * Memory: a worker's writer and merge lie in a context that is deleted when its ring has ended.
 *
 * On error: see exchange.c.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "parallel/parallel.h"
#include "utils/memutils.h"

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

/* A merge of the worker's own rows, which may be NULL, with the rings that it reads; NULL: it reads none. */
static MergeTree *
merge_rings(Exchange *ex, int ring, const SortSpec *spec, const CommonKeyRange *common_range, SortResult *own)
{
	BlockSource **sources = palloc((ex->nrings + 1) * sizeof(BlockSource *));
	int			nown = own != NULL ? 1 : 0;
	int			n = nown;

	for (int r = 0; r < ex->nrings; r++)
	{
		if (ex->rings[r].reader == ring)
			sources[n++] = block_source_ring(ex, r, ring, NULL, NULL);
	}
	if (n == nown)
		return NULL;
	if (own != NULL)
		sources[0] = block_source_own(spec, common_range, own);
	return block_merge_create(spec, common_range, sources, n);
}

/* Writes the ring; returns the number of duplicates that a merge with other rings dropped. */
static uint64
write_blocks(Exchange *ex, int ring, const SortSpec *spec, SortResult *own, ExchangeServe serve, void *arg)
{
	const CommonKeyRange *common_range = exchange_common_range(ex, spec->keys, spec->nkeys);
	MergeTree  *merge = merge_rings(ex, ring, spec, common_range, own);
	BlockWriter *writer;
	RowBlock   *block;

	if (merge == NULL && own == NULL)
		return 0;
	writer = block_writer_create(spec, common_range, merge != NULL ? NULL : own, merge);
	while ((block = exchange_block_to_write(ex, ring, serve, arg)) != NULL && block_writer_fill(writer, block))
	{
		exchange_block_written(ex, ring);
		CHECK_FOR_INTERRUPTS();
	}
	return merge != NULL ? merge->dropped : 0;
}

uint64
exchange_write_ring(Exchange *ex, int ring, const SortSpec *spec, SortResult *own, ExchangeServe serve,
					void *arg)
{
	uint64		dropped = 0;

	/* a worker without rows may have to merge other rings */
	if (exchange_wait_all(ex, NULL, NULL))
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort blocks",
												  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);

		dropped = write_blocks(ex, ring, spec, own, serve, arg);
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
