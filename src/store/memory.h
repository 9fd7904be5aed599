/*
 * memory.h
 *	  Memory for a sort: large, huge-page backed, kept for the next sort.
 */
#ifndef GPUSORT_STORE_MEMORY_H
#define GPUSORT_STORE_MEMORY_H

#include "postgres.h"

#include "monitor/progress.h"

/* Regions are multiples of this, so that huge pages can back them. */
#define BULK_GRAIN		((Size) 2 * 1024 * 1024)

/* Requests below this come from the memory context, not from the system. */
#define BULK_THRESHOLD	((Size) 1024 * 1024)

/* Owner of bulk memory: everything goes back when its memory context does. */
typedef struct BulkOwner BulkOwner;

/* One growing, contiguous allocation. */
typedef struct BulkBuf
{
	void	   *ptr;
	Size		size;			/* usable bytes */
	Size		asked;			/* of them, those that were asked for */
	bool		mapped;			/* a region, not palloc'd */
} BulkBuf;

/* progress: where what it has is counted; NULL: nowhere. */
extern BulkOwner *bulk_owner_create(MemoryContext cxt, Progress *progress);

/* The context that it lives in. */
extern MemoryContext bulk_owner_context(const BulkOwner *owner);

/*
 * Makes buf at least size bytes large; its first "keep" bytes survive (0: the old
 * memory is given back before).  New memory is not zeroed.  Regions are 64-byte aligned (in fact page aligned),
 * and so are palloc'd ones.
 */
extern void bulk_reserve(BulkOwner *owner, BulkBuf *buf, Size size, Size keep);
extern void bulk_free(BulkOwner *owner, BulkBuf *buf);

/* Memory kept for later sorts shrinks to what work_mem now allows. */
extern void bulk_trim(void);

#endif							/* GPUSORT_STORE_MEMORY_H */
