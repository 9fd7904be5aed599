/*
 * arena.c
 *	  The arena: rows of a sort in chunks, found by row id.
 *
 * Memory policy: the first chunk starts at 1 kB and doubles, so a small sort uses little
 * memory; all later chunks have 16 MB.  A row larger than a chunk (a huge row) gets one
 * region with consecutive chunk numbers.  A reset keeps all memory except the chunks of
 * huge rows.
 */
#include "postgres.h"

#include "store/arena.h"
#include "utils/memutils.h"

#define ARENA_FIRST_SIZE	((Size) 1024)

static void
arena_grow_table(Arena *arena, BulkOwner *owner, uint32 need)
{
	MemoryContext cxt = GetMemoryChunkContext(owner);
	uint32		capacity = Max(8, arena->capacity);

	if (need <= arena->capacity)
		return;
	while (capacity < need)
		capacity *= 2;
	if (arena->capacity == 0)
	{
		arena->base = MemoryContextAlloc(cxt, capacity * sizeof(char *));
		arena->chunks = MemoryContextAllocZero(cxt, capacity * sizeof(BulkBuf));
	}
	else
	{
		arena->base = repalloc(arena->base, capacity * sizeof(char *));
		arena->chunks = repalloc(arena->chunks, capacity * sizeof(BulkBuf));
		memset(arena->chunks + arena->capacity, 0,
			   (capacity - arena->capacity) * sizeof(BulkBuf));
	}
	arena->capacity = capacity;
}

static void
arena_start_chunk(Arena *arena, uint32 chunk)
{
	arena->base[chunk] = arena->chunks[chunk].ptr;
	arena->next = arena->base[chunk];
	/* a rid addresses no more than ARENA_CHUNK_SIZE */
	arena->end = arena->next + MAXALIGN_DOWN(Min(arena->chunks[chunk].size, ARENA_CHUNK_SIZE));
	arena->next_rid = chunk << ARENA_CHUNK_SHIFT;
	arena->nchunks = chunk + 1;
}

bool
arena_make_room(Arena *arena, BulkOwner *owner, Size size)
{
	uint32		span = (size + ARENA_CHUNK_SIZE - 1) / ARENA_CHUNK_SIZE;
	uint32		chunk;

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
			BulkBuf    *buf = &arena->chunks[0];
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
	chunk = arena->nchunks;
	arena_grow_table(arena, owner, chunk + span);
	/* a huge row's chunk numbers get one region: free the chunks that a reset kept */
	if (span > 1)
	{
		for (uint32 i = chunk; i < Min(chunk + span, arena->nowned); i++)
			bulk_free(owner, &arena->chunks[i]);
	}
	bulk_reserve(owner, &arena->chunks[chunk], span * ARENA_CHUNK_SIZE, 0);
	arena->nowned = Max(arena->nowned, chunk + span);
	arena_start_chunk(arena, chunk);
	for (uint32 i = 1; i < span; i++)
		arena->base[chunk + i] = arena->base[chunk] + i * ARENA_CHUNK_SIZE;
	arena->nchunks = chunk + span;
	arena->end = arena->next + span * ARENA_CHUNK_SIZE;
	/* arena_used() counts from the last chunk's base */
	arena->closed += (span - 1) * ARENA_CHUNK_SIZE;
	return true;
}

void
arena_reset(Arena *arena, BulkOwner *owner)
{
	for (uint32 i = 0; i < arena->nowned; i++)
	{
		if (arena->chunks[i].size > ARENA_CHUNK_SIZE)
			bulk_free(owner, &arena->chunks[i]);
	}
	arena->nchunks = 0;
	arena->closed = 0;
	arena->next = arena->end = NULL;
	arena->next_rid = 0;
	if (arena->nowned > 0 && arena->chunks[0].ptr != NULL)
		arena_start_chunk(arena, 0);
}

void
arena_trim(Arena *arena, BulkOwner *owner)
{
	for (uint32 i = Max(arena->nchunks, 1); i < arena->nowned; i++)
		bulk_free(owner, &arena->chunks[i]);
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
		huge |= arena->chunks[i].size > ARENA_CHUNK_SIZE;
	*from = *arena;
	if (huge)
		memset(arena, 0, sizeof(Arena));
	else
	{
		/*
		 * a copy of the table: the first chunk may be replaced by a larger
		 * one
		 */
		from->base = MemoryContextAlloc(GetMemoryChunkContext(owner),
										Max(arena->nchunks, 1) * sizeof(char *));
		/* an empty arena has no table */
		if (arena->nchunks > 0)
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
		BulkBuf    *buf = &from->chunks[*chunk];
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
		bulk_free(owner, &arena->chunks[i]);
	arena->nowned = 0;
	arena_reset(arena, owner);
}
