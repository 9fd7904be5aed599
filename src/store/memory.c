/*
 * memory.c
 *	  Memory of a sort: large regions on huge pages, kept for the next sort, and the arena.
 *
 * A page fault costs about as much as sorting the rows on the page.  So regions
 * are aligned to and advised for huge pages (one fault for 2 MB instead of 512),
 * and the process keeps freed regions for the next sort.
 *
 * Memory policy: a process keeps at most work_mem and at most BULK_KEEP_MAX.  When
 * a sort maps new memory, kept regions are unmapped until used and kept memory
 * together do not exceed work_mem.  From an index build to the next other sort the
 * limit is maintenance_work_mem: a session that restores a dump builds many
 * indexes.  Kept regions are marked MADV_FREE: the kernel may reclaim their pages
 * without swapping; otherwise the next sort finds them mapped.  Requests below
 * BULK_THRESHOLD are palloc'd.  The first chunk of an arena starts at 1 kB and
 * doubles, so a small sort uses little memory; all later chunks have 16 MB.  A row
 * larger than a chunk (a huge row) gets one region with consecutive chunk numbers.
 * A reset keeps all memory but that of huge rows.
 *
 * Errors: a refused allocation raises ERRCODE_OUT_OF_MEMORY.  A reset callback of
 * the owner's memory context frees all memory of a BulkOwner, so an ERROR leaks
 * nothing.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "store/store.h"
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

/* Was the last sort an index build? */
static bool keep_for_builds = false;

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

/* Unmaps kept memory above the limit. */
static void
trim(void)
{
	if (unlikely(kept_bytes > keep_limit()))
		region_drop_kept(keep_limit());
}

void
bulk_begin(bool index_build)
{
	keep_for_builds = index_build;
	trim();
}

static void
region_give_back(Region r)
{
	live_bytes -= r.size;
	trim();
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
#ifdef MADV_HUGEPAGE
	/* the region may be joined from regions below BULK_HUGE_MIN */
	if (size >= BULK_HUGE_MIN)
		(void) madvise(r->ptr, size, MADV_HUGEPAGE);
#endif
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
#ifdef MADV_HUGEPAGE
	/* small regions: the last huge page would be mostly unused */
	if (size >= BULK_HUGE_MIN)
		(void) madvise(ptr, size, MADV_HUGEPAGE);
#endif
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

MemoryContext
bulk_owner_context(const BulkOwner *owner)
{
	return owner->cxt;
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

/* ------------------------------------------------------------------------
 * Row arena
 * ------------------------------------------------------------------------
 */

#define ARENA_FIRST_SIZE	((Size) 1024)

static void
arena_grow_table(Arena *arena, BulkOwner *owner, uint32 need)
{
	MemoryContext cxt = owner->cxt;
	uint32		capacity = Max(8, arena->capacity);

	if (need <= arena->capacity)
		return;
	while (capacity < need)
		capacity *= 2;
	if (arena->capacity == 0)
	{
		arena->base = MemoryContextAlloc(cxt, capacity * sizeof(char *));
		arena->chunks = MemoryContextAllocZero(cxt, capacity * sizeof(ArenaChunk));
	}
	else
	{
		arena->base = repalloc(arena->base, capacity * sizeof(char *));
		arena->chunks = repalloc(arena->chunks, capacity * sizeof(ArenaChunk));
		memset(arena->chunks + arena->capacity, 0,
			   (capacity - arena->capacity) * sizeof(ArenaChunk));
	}
	arena->capacity = capacity;
}

/* Bytes of a chunk that rows can use; a rid addresses no more than ARENA_CHUNK_SIZE. */
static inline Size
chunk_usable(const ArenaChunk *chunk)
{
	return Min(chunk->buf.size, ARENA_CHUNK_SIZE) & ~(Size) (MAXIMUM_ALIGNOF - 1);
}

static void
arena_start_chunk(Arena *arena, uint32 chunk)
{
	arena->base[chunk] = arena->chunks[chunk].buf.ptr;
	arena->next = arena->base[chunk];
	arena->end = arena->next + chunk_usable(&arena->chunks[chunk]);
	arena->next_rid = chunk << ARENA_CHUNK_SHIFT;
	arena->nchunks = chunk + 1;
}

bool
arena_make_room(Arena *arena, BulkOwner *owner, Size size)
{
	uint32		span = (size + ARENA_CHUNK_SIZE - 1) / ARENA_CHUNK_SIZE;

	if (span > ARENA_MAX_CHUNKS - arena->nchunks)
		return false;

	/* grow the first chunk */
	if (arena->nchunks <= 1 && span == 1)
	{
		Size		used = arena->nchunks == 0 ? 0 : arena->next - arena->base[0];
		Size		want = used + size;

		arena_grow_table(arena, owner, 1);
		if (want <= ARENA_CHUNK_SIZE)
		{
			BulkBuf    *buf = &arena->chunks[0].buf;
			Size		grown = Max(ARENA_FIRST_SIZE, Max(want, buf->size * 2));

			if (grown >= BULK_THRESHOLD / 2)
				grown = ARENA_CHUNK_SIZE;
			bulk_reserve(owner, buf, grown, used);
			arena->nowned = Max(arena->nowned, 1);
			arena_start_chunk(arena, 0);
			arena->next += used;
			arena->next_rid += used >> ARENA_UNIT_SHIFT;
			return true;
		}
	}

	/*
	 * close the current chunk and start the next one, or several for a huge
	 * row
	 */
	if (arena->nchunks > 0)
		arena->closed += arena->next - arena->base[arena->nchunks - 1];
	arena_grow_table(arena, owner, arena->nchunks + span);
	if (span == 1)
	{
		uint32		chunk = arena->nchunks;

		bulk_reserve(owner, &arena->chunks[chunk].buf, ARENA_CHUNK_SIZE, 0);
		arena->nowned = Max(arena->nowned, chunk + 1);
		arena_start_chunk(arena, chunk);
	}
	else
	{
		uint32		chunk = arena->nchunks;
		char	   *base;

		/*
		 * these chunk numbers get one region: free the chunks that a reset
		 * kept
		 */
		for (uint32 i = chunk; i < Min(chunk + span, arena->nowned); i++)
			bulk_free(owner, &arena->chunks[i].buf);
		bulk_reserve(owner, &arena->chunks[chunk].buf, span * ARENA_CHUNK_SIZE, 0);
		base = arena->chunks[chunk].buf.ptr;
		for (uint32 i = 0; i < span; i++)
			arena->base[chunk + i] = base + i * ARENA_CHUNK_SIZE;
		arena->nowned = Max(arena->nowned, chunk + span);
		arena->nchunks = chunk + span;
		arena->next = base;
		arena->end = base + span * ARENA_CHUNK_SIZE;
		arena->next_rid = chunk << ARENA_CHUNK_SHIFT;
		/* arena_used() counts from the last chunk's base */
		arena->closed += (span - 1) * ARENA_CHUNK_SIZE;
	}
	return true;
}

void
arena_reset(Arena *arena, BulkOwner *owner)
{
	for (uint32 i = 0; i < arena->nowned; i++)
	{
		if (arena->chunks[i].buf.size > ARENA_CHUNK_SIZE)
			bulk_free(owner, &arena->chunks[i].buf);
	}
	arena->nchunks = 0;
	arena->closed = 0;
	arena->next = arena->end = NULL;
	arena->next_rid = 0;
	if (arena->nowned > 0 && arena->chunks[0].buf.ptr != NULL)
		arena_start_chunk(arena, 0);
}

void
arena_trim(Arena *arena, BulkOwner *owner)
{
	for (uint32 i = Max(arena->nchunks, 1); i < arena->nowned; i++)
		bulk_free(owner, &arena->chunks[i].buf);
	arena->nowned = Min(arena->nowned, Max(arena->nchunks, 1));
}

/*
 * Rows move down within the chunks of the arena.  A huge row prevents that, for its
 * region spans several chunk numbers.  Then all rows move to new chunks, and
 * arena_compact_passed() frees the old ones meanwhile.
 */
void
arena_compact_begin(Arena *arena, BulkOwner *owner, Arena *from)
{
	bool		huge = false;

	for (uint32 i = 0; i < arena->nchunks; i++)
		huge |= arena->chunks[i].buf.size > ARENA_CHUNK_SIZE;
	*from = *arena;
	if (huge)
		memset(arena, 0, sizeof(Arena));
	else
	{
		/*
		 * a copy of the table: the first chunk may be replaced by a larger
		 * one
		 */
		from->base = MemoryContextAlloc(owner->cxt,
										Max(arena->nchunks, 1) * sizeof(char *));
		memcpy(from->base, arena->base, arena->nchunks * sizeof(char *));
		from->chunks = NULL;
		arena_reset(arena, owner);
	}
}

void
arena_compact_passed(Arena *from, BulkOwner *owner, uint32 rid, uint32 *chunk)
{
	/* rows move down within the arena's own chunks */
	if (from->chunks == NULL)
		return;
	while (*chunk < rid >> ARENA_CHUNK_SHIFT)
	{
		BulkBuf    *buf = &from->chunks[*chunk].buf;
		uint32		span = Max(1, (buf->size + ARENA_CHUNK_SIZE - 1) / ARENA_CHUNK_SIZE);

		/* the last chunk of a huge row also has the rows that follow it */
		if (*chunk + span > rid >> ARENA_CHUNK_SHIFT)
			break;
		bulk_free(owner, buf);
		*chunk += span;
	}
}

void
arena_compact_end(Arena *arena, BulkOwner *owner, Arena *from)
{
	if (from->chunks != NULL)
	{
		arena_free(from, owner);
		pfree(from->chunks);
	}
	pfree(from->base);
	from->base = NULL;
}

void
arena_free(Arena *arena, BulkOwner *owner)
{
	for (uint32 i = 0; i < arena->nowned; i++)
		bulk_free(owner, &arena->chunks[i].buf);
	arena->nowned = 0;
	arena->nchunks = 0;
	arena->closed = 0;
	arena->next = arena->end = NULL;
	arena->next_rid = 0;
}
