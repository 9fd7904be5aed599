/*
 * memory.h
 *	  Large memory: regions on huge pages, kept for the next sort.
 */
#ifndef GPUSORT_STORE_MEMORY_H
#define GPUSORT_STORE_MEMORY_H

#include "postgres.h"

#include "monitor/progress.h"
#include "utils/memutils.h"

/* Regions are multiples of this, so that huge pages can back them. */
#define BULK_GRAIN		((Size) 2 * 1024 * 1024)

/* Smaller requests are palloc'd. */
#define BULK_THRESHOLD	((Size) 1024 * 1024)

/* Owner of bulk memory.  All its memory is freed when its memory context is reset. */
typedef struct BulkOwner BulkOwner;

/* One growing, contiguous allocation. */
typedef struct BulkBuf
{
	void	   *ptr;
	Size		size;			/* usable bytes */
	Size		requested;		/* largest size passed to bulk_reserve() */
	bool		mapped;			/* true: a mapped region; false: palloc'd */
} BulkBuf;

/* progress: counts the owner's memory; NULL if it is not counted. */
extern BulkOwner *bulk_owner_create(MemoryContext cxt, Progress *progress);

/*
 * Makes buf at least size bytes large and keeps its first "keep" bytes.  If keep is
 * 0, the old memory is freed first.  New memory is not zeroed.  The memory is aligned
 * to 64 bytes.
 */
extern void bulk_reserve(BulkOwner *owner, BulkBuf *buf, Size size, Size keep);
extern void bulk_free(BulkOwner *owner, BulkBuf *buf);

/*
 * Called when a sort begins: shrinks the memory that the process keeps to the current
 * work_mem, or to maintenance_work_mem if the sort is that of an index build.
 */
extern void bulk_begin(bool index_build);

#endif							/* GPUSORT_STORE_MEMORY_H */
