/*
 * page_handover.c
 *	  Finished pages of an index go from the leader of a build to its workers, which log
 *	  and write them.
 *
 * The leader lays out all pages, and so their contents and numbers do not depend on the
 * workers.  Logging, checksums and writing are more than half of its time; a worker does
 * them for an extent of pages while the leader goes on.  Each worker has slabs in shared
 * memory, each with room for an extent.  The leader takes an empty slab and lays out the
 * pages of an extent there.  If there is none, it uses its own memory and writes the extent
 * by itself, so it never waits for a worker before the end.
 *
 * A worker writes its slabs whenever it waits for room in its ring, between two blocks of
 * rows, and after its last row.
 *
 * Files: extents are written in any order, also behind the end of the file.  Pages that come
 * late leave holes, which only the leader writes.  PostgreSQL takes a segment of a file that
 * is not full for the end of the relation.  So the leader waits until all slabs are written
 * before the first extent of a new segment, and fills the segment (pages.c).
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
#include "storage/condition_variable.h"

#define HANDOVER_SLABS	2

typedef enum SlabState
{
	SLAB_EMPTY,
	SLAB_TAKEN,					/* the leader fills it */
	SLAB_GIVEN,					/* the worker writes it */
} SlabState;

/* Pages that one worker writes; the leader fills empty slabs, the worker empties them. */
typedef struct PageSlab
{
	pg_atomic_uint32 state;
	bool		wal;			/* the pages are logged */
	int			n;
	BlockNumber first;			/* block of the first page */
	char		pad[PG_CACHE_LINE_SIZE];
} PageSlab;

struct PageHandover
{
	Exchange   *ex;				/* of this process: wakes workers */
	PageHandoverShared *shared;
	IndexFile  *file;			/* in a worker */
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
		pg_atomic_init_u32(&shared->slabs[s].state, SLAB_EMPTY);
}

PageHandover *
page_handover_attach(PageHandoverShared *shared, struct Exchange *ex, Relation index, int workers)
{
	PageHandover *handover = palloc0(sizeof(PageHandover));

	handover->ex = ex;
	handover->shared = shared;
	if (workers == 0)
		handover->file = index_file_open(index, false);
	handover->workers = workers;
	return handover;
}

static char *
slab_pages(PageHandoverShared *shared, int slab)
{
	return (char *) shared + shared->pages_at + slab * SLAB_BYTES;
}

/* ------------------------------------------------------------------------
 * Leader
 * ------------------------------------------------------------------------
 */

char *
page_handover_take(PageHandover *handover)
{
	PageHandoverShared *shared = handover->shared;
	int			nslabs = handover->workers * HANDOVER_SLABS;

	for (int tried = 0; tried < nslabs; tried++)
	{
		/* one slab of each worker after another */
		int			s = handover->next % handover->workers * HANDOVER_SLABS + handover->next / handover->workers;
		PageSlab   *slab = &shared->slabs[s];

		handover->next = (handover->next + 1) % nslabs;
		if (pg_atomic_read_u32(&slab->state) != SLAB_EMPTY)
			continue;
		/* pairs with the barrier before the slab was emptied */
		pg_memory_barrier();
		pg_atomic_write_u32(&slab->state, SLAB_TAKEN);
		return slab_pages(shared, s);
	}
	return NULL;
}

bool
page_handover_give(PageHandover *handover, bool wal, const char *pages, BlockNumber first, int n)
{
	PageHandoverShared *shared = handover->shared;
	Size		at = (uintptr_t) pages - (uintptr_t) slab_pages(shared, 0);
	int			s;
	PageSlab   *slab;

	if (at >= shared->nslabs * SLAB_BYTES)
		return false;
	s = at / SLAB_BYTES;
	slab = &shared->slabs[s];
	Assert(pg_atomic_read_u32(&slab->state) == SLAB_TAKEN);
	slab->wal = wal;
	slab->first = first;
	slab->n = n;
	pg_memory_barrier();
	pg_atomic_write_u32(&slab->state, SLAB_GIVEN);
	exchange_wake_writer(handover->ex, s / HANDOVER_SLABS);
	return true;
}

static bool
all_written(PageHandoverShared *shared)
{
	for (int s = 0; s < shared->nslabs; s++)
	{
		if (pg_atomic_read_u32(&shared->slabs[s].state) == SLAB_GIVEN)
			return false;
	}
	return true;
}

void
page_handover_wait(PageHandover *handover)
{
	ConditionVariablePrepareToSleep(&handover->shared->emptied);
	while (!all_written(handover->shared))
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
		BlockNumber blocks[PAGE_BATCH];

		if (pg_atomic_read_u32(&slab->state) != SLAB_GIVEN)
			continue;
		/* pairs with the barrier before the slab was given */
		pg_memory_barrier();
		for (int i = 0; i < slab->n; i++)
			blocks[i] = slab->first + i;
		index_file_write(handover->file, slab->wal, slab->n, blocks, slab_pages(shared, s), true);
		pg_memory_barrier();
		pg_atomic_write_u32(&slab->state, SLAB_EMPTY);
		ConditionVariableSignal(&shared->emptied);
		served = true;
	}
	return served;
}
