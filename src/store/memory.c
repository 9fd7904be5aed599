/*
 * memory.c
 *	  Memory of a sort: large regions on huge pages, kept for the next sort.
 *
 * A page fault costs about as much as sorting the rows on the page.  So regions
 * are aligned to and advised for huge pages (one fault for 2 MB instead of 512),
 * and the process keeps freed regions for the next sort.
 *
 * Memory policy: a process keeps at most work_mem and at most BULK_KEEP_MAX.  When
 * a sort maps new memory, kept regions are unmapped until used and kept memory
 * together do not exceed work_mem.  A transaction may have had a larger work_mem, so
 * what exceeds the session's is unmapped at its end.  DISCARD ALL unmaps all.  After
 * an index build the limit is maintenance_work_mem, until another sort begins or a
 * transaction without a build ends: a session that restores a dump builds many
 * indexes.  Kept regions are marked MADV_FREE: the kernel may reclaim their pages
 * without swapping; otherwise the next sort finds them mapped.  Requests below
 * BULK_THRESHOLD are palloc'd.
 *
 * Errors: a refused allocation raises ERRCODE_OUT_OF_MEMORY.  A reset callback of
 * the owner's memory context frees all memory of a BulkOwner, so an ERROR leaks
 * nothing.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "store/memory.h"
#include "tcop/utility.h"
#include "utils/memutils.h"

#define BULK_ALIGN			64
#define BULK_KEEP_MAX		((Size) 2 * 1024 * 1024 * 1024)
#define BULK_KEEP_SLOTS		128
#define BULK_HUGE_MIN		((Size) 8 * 1024 * 1024)

typedef struct Region
{
	void	   *ptr;
	Size		size;
} Region;

struct BulkOwner
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	Region	   *regions;
	int			nregions;
	int			capacity;
	Progress   *progress;		/* counts the owner's memory; or NULL */
};

/* Regions kept for the next sort of this process. */
static Region kept[BULK_KEEP_SLOTS];
static int	nkept = 0;
static Size kept_bytes = 0;

/* Bytes of all regions in use. */
static Size live_bytes = 0;

/* Was the last sort an index build of this transaction? */
static bool keep_for_builds = false;

static ProcessUtility_hook_type prev_utility_hook = NULL;

/* Used and kept memory together do not exceed this unless used memory does. */
static inline Size
map_limit(void)
{
	return (Size) (keep_for_builds ? Max(work_mem, maintenance_work_mem) : work_mem) * 1024;
}

static inline Size
keep_limit(void)
{
	return Min(map_limit(), BULK_KEEP_MAX);
}

/* Removes region i from the kept ones. */
static void
forget_kept(int i)
{
	kept_bytes -= kept[i].size;
	memmove(kept + i, kept + i + 1, (--nkept - i) * sizeof(Region));
}

/* Unmaps kept memory, the oldest first, down to limit bytes. */
static void
region_drop_kept(Size limit)
{
	while (kept_bytes > limit)
	{
		Size		size = Min(kept[0].size, TYPEALIGN(BULK_GRAIN, kept_bytes - limit));

		munmap((char *) kept[0].ptr + kept[0].size - size, size);
		kept[0].size -= size;
		kept_bytes -= size;
		if (kept[0].size == 0)
			forget_kept(0);
	}
}

/* Is trim_after_transaction() called when the transaction's memory is reset? */
static bool end_is_awaited = false;

static void
trim_after_transaction(void *arg)
{
	end_is_awaited = false;
	region_drop_kept(keep_limit());
	keep_for_builds = false;
}

/*
 * A transaction's own settings still hold when this is called.  They no longer hold
 * when the transaction's memory context is reset.
 */
static void
transaction_ends(XactEvent event, void *arg)
{
	static MemoryContextCallback callback = {.func = trim_after_transaction};

	if (end_is_awaited || kept_bytes + live_bytes == 0)
		return;
	MemoryContextRegisterResetCallback(TopTransactionContext, &callback);
	end_is_awaited = true;
}

static void
utility_hook(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
			 ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	/* the statement may free its own tree */
	bool		all = IsA(pstmt->utilityStmt, DiscardStmt) &&
		((DiscardStmt *) pstmt->utilityStmt)->target == DISCARD_ALL;

	if (prev_utility_hook != NULL)
		prev_utility_hook(pstmt, query, read_only, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params, env, dest, qc);
	if (all)
		region_drop_kept(0);
}

void
bulk_begin(bool index_build)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(transaction_ends, NULL);
		prev_utility_hook = ProcessUtility_hook;
		ProcessUtility_hook = utility_hook;
		registered = true;
	}
	keep_for_builds = index_build;
	region_drop_kept(keep_limit());
}

static void
region_give_back(Region r)
{
	live_bytes -= r.size;
	region_drop_kept(keep_limit());
	if (kept_bytes + r.size > keep_limit())
	{
		munmap(r.ptr, r.size);
		return;
	}
#ifdef MADV_FREE
	(void) madvise(r.ptr, r.size, MADV_FREE);
#endif
	/* join it with adjacent kept regions */
	for (int i = nkept - 1; i >= 0; i--)
	{
		char	   *ptr = kept[i].ptr;
		Size		size = kept[i].size;

		if (ptr + size != r.ptr && (char *) r.ptr + r.size != ptr)
			continue;
		r.ptr = Min(ptr, (char *) r.ptr);
		r.size += size;
		forget_kept(i);
	}
	if (nkept == BULK_KEEP_SLOTS)
	{
		munmap(r.ptr, r.size);
		return;
	}
	kept[nkept++] = r;
	kept_bytes += r.size;
}

/*
 * Takes size bytes of the smallest kept region that is large enough.  Of several the
 * most recently freed one is best: its pages are most likely still mapped.  The
 * remainder of the region stays kept; region_give_back() joins the pieces again.
 */
static bool
region_take_kept(Size size, Region *r)
{
	int			best = -1;

	for (int i = nkept - 1; i >= 0; i--)
	{
		if (kept[i].size >= size && (best < 0 || kept[i].size < kept[best].size))
			best = i;
	}
	if (best < 0)
		return false;
	r->ptr = kept[best].ptr;
	r->size = size;
	kept[best].ptr = (char *) kept[best].ptr + size;
	kept[best].size -= size;
	kept_bytes -= size;
	if (kept[best].size == 0)
		forget_kept(best);
	return true;
}

static void *
region_map(Size size)
{
	Size		padded = size + BULK_GRAIN;
	char	   *raw;
	char	   *ptr;

	raw = mmap(NULL, padded, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;

	/* trim to huge page boundaries */
	ptr = (char *) TYPEALIGN(BULK_GRAIN, raw);
	if (ptr > raw)
		munmap(raw, ptr - raw);
	if (raw + padded > ptr + size)
		munmap(ptr + size, (raw + padded) - (ptr + size));
	return ptr;
}

static Region
region_new(BulkOwner *owner, Size size)
{
	Region		r;

	/*
	 * make room in the list first: an ERROR must not leave a region without
	 * owner
	 */
	if (owner->nregions == owner->capacity)
	{
		int			capacity = Max(16, owner->capacity * 2);

		if (owner->regions == NULL)
			owner->regions = MemoryContextAlloc(owner->cxt, capacity * sizeof(Region));
		else
			owner->regions = repalloc(owner->regions, capacity * sizeof(Region));
		owner->capacity = capacity;
	}

	size = TYPEALIGN(BULK_GRAIN, size);
	if (!region_take_kept(size, &r))
	{
		Size		limit = map_limit();

		/* no kept region is large enough */
		region_drop_kept(limit - Min(limit, live_bytes + size));
		r.size = size;
		r.ptr = region_map(size);
		if (r.ptr == NULL && nkept > 0)
		{
			region_drop_kept(0);
			r.ptr = region_map(size);
		}
		if (r.ptr == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("Failed on request of size %zu for a sort.", size)));
	}
#ifdef MADV_HUGEPAGE
	/*
	 * small regions: the last huge page would be mostly unused; a kept region
	 * may be joined from small ones
	 */
	if (size >= BULK_HUGE_MIN)
		(void) madvise(r.ptr, size, MADV_HUGEPAGE);
#endif
	live_bytes += r.size;
	owner->regions[owner->nregions++] = r;
	return r;
}

static void
region_release(BulkOwner *owner, void *ptr)
{
	for (int i = owner->nregions - 1; i >= 0; i--)
	{
		if (owner->regions[i].ptr == ptr)
		{
			Region		r = owner->regions[i];

			owner->regions[i] = owner->regions[--owner->nregions];
			region_give_back(r);
			return;
		}
	}
	Assert(false);
}

static void
bulk_owner_release(void *arg)
{
	BulkOwner  *owner = arg;

	while (owner->nregions > 0)
		region_give_back(owner->regions[--owner->nregions]);
}

BulkOwner *
bulk_owner_create(MemoryContext cxt, Progress *progress)
{
	BulkOwner  *owner = MemoryContextAllocZero(cxt, sizeof(BulkOwner));

	owner->cxt = cxt;
	owner->progress = progress;
	owner->callback.func = bulk_owner_release;
	owner->callback.arg = owner;
	MemoryContextRegisterResetCallback(cxt, &owner->callback);
	return owner;
}

void
bulk_reserve(BulkOwner *owner, BulkBuf *buf, Size size, Size keep)
{
	BulkBuf		fresh;

	if (size <= buf->size)
	{
		buf->requested = Max(buf->requested, size);
		return;
	}
	if (keep == 0)
		bulk_free(owner, buf);

	if (size < BULK_THRESHOLD)
	{
		/* palloc aligns to 8 bytes, the kernels need cache lines */
		char	   *raw = MemoryContextAlloc(owner->cxt, size + BULK_ALIGN);

		fresh.ptr = (void *) TYPEALIGN(BULK_ALIGN, raw + 1);

		/*
		 * the byte before the memory stores the distance to the palloc'd
		 * chunk
		 */
		((uint8 *) fresh.ptr)[-1] = (uint8) ((char *) fresh.ptr - raw);
		fresh.size = size;
		fresh.mapped = false;
	}
	else
	{
		Region		r = region_new(owner, size);

		fresh.ptr = r.ptr;
		fresh.size = r.size;
		fresh.mapped = true;
	}
	fresh.requested = size;
	if (owner->progress != NULL)
		owner->progress->now->memory += fresh.size;
	if (keep > 0)
	{
		memcpy(fresh.ptr, buf->ptr, keep);
		bulk_free(owner, buf);
	}
	*buf = fresh;
}

void
bulk_free(BulkOwner *owner, BulkBuf *buf)
{
	if (buf->ptr == NULL)
		return;
	if (owner->progress != NULL)
		owner->progress->now->memory -= buf->size;
	if (buf->mapped)
		region_release(owner, buf->ptr);
	else
		pfree((char *) buf->ptr - ((uint8 *) buf->ptr)[-1]);
	buf->ptr = NULL;
	buf->size = buf->requested = 0;
}
