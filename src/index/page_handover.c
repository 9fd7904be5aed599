/*
 * page_handover.c
 *	  Finished pages of an index go from the leader of a build to its workers, which log
 *	  and write them.
 *
 * The leader lays out all pages, and so their contents and numbers do not depend on the
 * workers.  Logging, checksums and writing are more than half of its time; a worker does
 * them for a batch of pages while the leader goes on.  Each worker has slabs in shared
 * memory, each with room for a batch.  The leader copies a batch to an empty slab.  If
 * there is none, it writes the batch by itself, so it never waits for a worker before the
 * end.
 *
 * A worker writes its slabs whenever it waits for room in its ring, between two blocks of
 * rows, and after its last row.
 *
 * Files: blocks are written in any order, also behind the end of the file.  A file longer
 * than a segment has a trap: the process that writes the first block of a new segment also
 * writes zeroes to the last block of the segment before, if that is missing.  So the
 * leader waits until all slabs are empty before the first block of a new segment is
 * written, and fills the segment (pages.c).
 *
 * Memory policy: HANDOVER_SLABS slabs of PAGE_BATCH pages for each worker, in shared memory.
 *
 * Errors: a worker's error ends the statement in the leader, and so the file goes.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "parallel/parallel.h"
#include "port/atomics.h"
#include "storage/bufpage.h"
#include "storage/condition_variable.h"
#include "storage/smgr.h"

#if !COMPAT_BULK_WRITE

#define HANDOVER_SLABS	2

/* Pages that one worker writes; the leader fills empty slabs, the worker empties them. */
typedef struct PageSlab
{
	pg_atomic_uint32 full;
	bool		wal;			/* the pages are logged */
	int			n;
	BlockNumber blocks[PAGE_BATCH]; /* ascending */
	char		pad[PG_CACHE_LINE_SIZE];
} PageSlab;

struct PageHandover
{
	Exchange   *ex;				/* of this process: wakes workers */
	PageHandoverShared *shared;
	Relation	index;
	int			workers;		/* that write pages; 0 in a worker */
	int			next;			/* the slab that is tried next */
};

struct PageHandoverShared
{
	int			nslabs;			/* HANDOVER_SLABS of each worker */
	ConditionVariable emptied;	/* a slab is empty, for the leader */
	Size		pages_at;		/* offset of the first slab's pages */
	PageSlab	slabs[FLEXIBLE_ARRAY_MEMBER];
};

#define SLAB_BYTES	((Size) PAGE_BATCH * BLCKSZ)

static Size
head_bytes(int workers)
{
	return offsetof(PageHandoverShared, slabs) + workers * HANDOVER_SLABS * sizeof(PageSlab);
}

Size
page_handover_size(int workers)
{
	return head_bytes(workers) + BLCKSZ + workers * HANDOVER_SLABS * SLAB_BYTES;
}

void
page_handover_init(PageHandoverShared *shared, int workers)
{
	shared->nslabs = workers * HANDOVER_SLABS;
	shared->pages_at = (char *) TYPEALIGN(BLCKSZ, (char *) shared + head_bytes(workers)) - (char *) shared;
	ConditionVariableInit(&shared->emptied);
	for (int s = 0; s < shared->nslabs; s++)
		pg_atomic_init_u32(&shared->slabs[s].full, 0);
}

PageHandover *
page_handover_attach(PageHandoverShared *shared, struct Exchange *ex, Relation index, int workers)
{
	PageHandover *handover = palloc0(sizeof(PageHandover));

	handover->ex = ex;
	handover->shared = shared;
	handover->index = index;
	handover->workers = workers;
	return handover;
}

static char *
slab_page(PageHandoverShared *shared, int slab, int i)
{
	return (char *) shared + shared->pages_at + slab * SLAB_BYTES + (Size) i * BLCKSZ;
}

void
page_batch_write(Relation index, bool wal, int n, BlockNumber *blocks, char **pages)
{
	if (wal)
		compat_log_newpages(index, n, blocks, pages);
	for (int i = 0; i < n; i++)
	{
		PageSetChecksumInplace((Page) pages[i], blocks[i]);
		smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, blocks[i], pages[i], true);
	}
}

/* ------------------------------------------------------------------------
 * Leader
 * ------------------------------------------------------------------------
 */

bool
page_handover_put(PageHandover *handover, bool wal, int n, const BlockNumber *blocks, char **pages)
{
	PageHandoverShared *shared = handover->shared;
	int			nslabs = handover->workers * HANDOVER_SLABS;

	for (int tried = 0; tried < nslabs; tried++)
	{
		int			worker = handover->next % handover->workers;
		int			s = worker * HANDOVER_SLABS + handover->next / handover->workers;
		PageSlab   *slab = &shared->slabs[s];

		handover->next = (handover->next + 1) % nslabs;
		if (pg_atomic_read_u32(&slab->full) != 0)
			continue;
		/* pairs with the barrier before the slab was emptied */
		pg_memory_barrier();
		slab->wal = wal;
		slab->n = n;
		memcpy(slab->blocks, blocks, n * sizeof(BlockNumber));
		for (int i = 0; i < n; i++)
			memcpy(slab_page(shared, s, i), pages[i], BLCKSZ);
		pg_memory_barrier();
		pg_atomic_write_u32(&slab->full, 1);
		exchange_wake_writer(handover->ex, worker);
		return true;
	}
	return false;
}

static bool
all_empty(PageHandoverShared *shared)
{
	for (int s = 0; s < shared->nslabs; s++)
	{
		if (pg_atomic_read_u32(&shared->slabs[s].full) != 0)
			return false;
	}
	return true;
}

void
page_handover_wait(PageHandover *handover)
{
	ConditionVariablePrepareToSleep(&handover->shared->emptied);
	while (!all_empty(handover->shared))
		ConditionVariableSleep(&handover->shared->emptied, compat_wait_event("GpuSortExchange"));
	ConditionVariableCancelSleep();
	pg_memory_barrier();
}

/* ------------------------------------------------------------------------
 * Worker
 * ------------------------------------------------------------------------
 */

bool
page_handover_serve(void *arg)
{
	PageHandover *handover = arg;
	PageHandoverShared *shared = handover->shared;
	int			first = ParallelWorkerNumber * HANDOVER_SLABS;
	bool		served = false;

	for (int s = first; s < first + HANDOVER_SLABS; s++)
	{
		PageSlab   *slab = &shared->slabs[s];
		char	   *pages[PAGE_BATCH];

		if (pg_atomic_read_u32(&slab->full) == 0)
			continue;
		/* pairs with the barrier before the slab was filled */
		pg_memory_barrier();
		for (int i = 0; i < slab->n; i++)
			pages[i] = slab_page(shared, s, i);
		page_batch_write(handover->index, slab->wal, slab->n, slab->blocks, pages);
		pg_memory_barrier();
		pg_atomic_write_u32(&slab->full, 0);
		ConditionVariableSignal(&shared->emptied);
		served = true;
	}
	return served;
}

#else							/* COMPAT_BULK_WRITE */

/*
 * The server's bulk writes keep the file's length in one process, so only the leader
 * writes, and no slabs exist (workers.c).
 */

bool
page_handover_serve(void *arg)
{
	return false;
}

#endif							/* COMPAT_BULK_WRITE */
