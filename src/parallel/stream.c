/*
 * stream.c
 *	  Both ends of the rings: a worker writes its ring, the leader opens all.
 *
 * A worker writes its own sorted rows.  If there are many workers, two also merge:
 * each merges the rings of its half and its own rows into its ring (exchange.c).
 *
 * Memory: that of the block writer and of the merge, in a context that is deleted
 * when the ring has ended.
 *
 * On error: see exchange.c.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "parallel/parallel.h"
#include "utils/memutils.h"

/* Writes the worker's own rows to its ring. */
static void
write_own(Exchange *ex, int ring, const SortSpec *spec, SortResult *own, ExchangeServe serve, void *arg)
{
	BlockWriter *writer = block_writer_create(spec, exchange_common_range(ex, spec->keys, spec->nkeys));
	RowBlock   *block;

	while ((block = exchange_block_to_write(ex, ring, serve, arg)) != NULL && block_writer_fill(writer, own, block))
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
	while ((block = exchange_block_to_write(ex, ring, serve, arg)) != NULL && block_refill_fill(refill, block))
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
