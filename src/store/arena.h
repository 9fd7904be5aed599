/*
 * arena.h
 *	  Rows by rid.
 *
 * Rows lie in chunks of 16 MB that are found by index.  A rid counts 8-byte
 * units: its upper bits are the chunk, its lower bits the place in it.  32 bits
 * address 32 GB, no table of row offsets is needed, and rids ascend in the order
 * in which rows came, which is what makes "key, then rid" the stable order.
 * There are no pointers inside a chunk, so chunks may be moved, shared between
 * processes or copied to a device.  Nor does the arena say whose its memory is: the one
 * writer brings the owner along where the arena may grow or shrink.
 */
#ifndef GPUSORT_STORE_ARENA_H
#define GPUSORT_STORE_ARENA_H

#include "postgres.h"

#include "store/memory.h"

#define ARENA_UNIT_SHIFT	3	/* a rid counts 8-byte units */
#define ARENA_CHUNK_SHIFT	21	/* units in a chunk */
#define ARENA_CHUNK_UNITS	((uint32) 1 << ARENA_CHUNK_SHIFT)
#define ARENA_CHUNK_SIZE	((Size) ARENA_CHUNK_UNITS << ARENA_UNIT_SHIFT)
#define ARENA_MAX_CHUNKS	((uint32) 1 << (32 - ARENA_CHUNK_SHIFT))

typedef struct ArenaChunk
{
	BulkBuf		buf;			/* empty in the later chunks of a huge row */
} ArenaChunk;

typedef struct Arena
{
	/* the row to come goes here */
	char	   *next;
	char	   *end;
	uint32		next_rid;

	char	  **base;			/* address of each chunk */
	ArenaChunk *chunks;
	uint32		nchunks;		/* chunks in use */
	uint32		nowned;			/* chunks with memory; >= nchunks after a reset */
	uint32		capacity;
	Size		closed;			/* bytes in chunks before the current one */
} Arena;

/* Forgets all rows, keeps the memory. */
extern void arena_reset(Arena *arena, BulkOwner *owner);

/* Makes room for a row of size bytes; false if 32 bits of rid cannot name it. */
extern bool arena_make_room(Arena *arena, BulkOwner *owner, Size size);

/* Gives back chunks that have no rows. */
extern void arena_trim(Arena *arena, BulkOwner *owner);

/*
 * Some rows stay: forgets all rows, but *from remembers where they are.  Those to
 * stay are then allocated again in the order of their rids and moved (they never
 * go where a later one still is), and arena_compact_end() forgets the others.
 */
extern void arena_compact_begin(Arena *arena, BulkOwner *owner, Arena *from);

/*
 * Rows before this one have been moved or are not wanted: gives back chunks that have no others.
 * *chunk is 0 at first: the chunks before it have been given back.
 */
extern void arena_compact_passed(Arena *from, BulkOwner *owner, uint32 rid, uint32 *chunk);

extern void arena_compact_end(Arena *arena, BulkOwner *owner, Arena *from);

/* Gives back everything. */
extern void arena_free(Arena *arena, BulkOwner *owner);

/* Are there rids for rows of so many bytes, none of them huge? */
static inline bool
arena_has_rids(const Arena *arena, Size size)
{
	return arena->nchunks + size / ARENA_CHUNK_SIZE + 1 < ARENA_MAX_CHUNKS;
}

/* Bytes of rows. */
static inline Size
arena_used(const Arena *arena)
{
	return arena->closed +
		(arena->nchunks == 0 ? 0 : arena->next - arena->base[arena->nchunks - 1]);
}

static inline char *
arena_at(const Arena *arena, uint32 rid)
{
	return arena->base[rid >> ARENA_CHUNK_SHIFT] +
		((Size) (rid & (ARENA_CHUNK_UNITS - 1)) << ARENA_UNIT_SHIFT);
}

/* Room for a row of at most size bytes, at arena->next; false if the arena is full. */
static inline bool
arena_reserve(Arena *arena, BulkOwner *owner, Size size)
{
	return likely(size <= (Size) (arena->end - arena->next)) || arena_make_room(arena, owner, size);
}

/* Takes the size bytes (MAXALIGN'ed by the caller) that the row has; returns its rid. */
static inline uint32
arena_take(Arena *arena, Size size)
{
	uint32		rid = arena->next_rid;

	Assert(size == MAXALIGN(size) && size <= (Size) (arena->end - arena->next));
	arena->next += size;
	arena->next_rid += size >> ARENA_UNIT_SHIFT;
	return rid;
}

/* A row of size bytes (MAXALIGN'ed by the caller) and its rid; NULL if the arena is full. */
static inline char *
arena_alloc(Arena *arena, BulkOwner *owner, Size size, uint32 *rid)
{
	char	   *row;

	if (unlikely(!arena_reserve(arena, owner, size)))
		return NULL;
	row = arena->next;
	*rid = arena_take(arena, size);
	return row;
}

#endif							/* GPUSORT_STORE_ARENA_H */
