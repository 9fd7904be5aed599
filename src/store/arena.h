/*
 * arena.h
 *	  Row arena: memory for rows, addressed by 32-bit row ids (rids).
 *
 * Rows lie in chunks of 16 MB.  A rid counts 8-byte units: its upper bits are
 * the chunk number, its lower bits the offset within the chunk.  32 bits
 * address 32 GB, so no table of row offsets is needed.  Rids ascend in input
 * order, so sorting by key and then by rid is stable.
 *
 * A chunk contains no pointers, so it can be moved, shared between processes or
 * copied to a device.  The arena does not store its BulkOwner: functions that
 * allocate or free memory take it as an argument.
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

typedef struct Arena
{
	char	   *next;			/* address of the next row */
	char	   *end;			/* end of the current chunk */
	uint32		next_rid;		/* rid of the next row */

	char	  **base;			/* address of each chunk */
	BulkBuf    *chunks;			/* empty for the later chunks of a huge row */
	uint32		nchunks;		/* chunks in use */

	/* chunks with memory; >= nchunks after a reset */
	uint32		nowned;
	uint32		capacity;		/* entries of base and chunks */
	Size		closed;			/* bytes in chunks before the current one */
	bool		chunks_sorted;	/* the rows of each chunk are in the sort's order, as those of a run */
} Arena;

/* Removes all rows and keeps the memory. */
extern void arena_reset(Arena *arena, BulkOwner *owner);

/* Makes room for a row of size bytes; false if no rids remain. */
extern bool arena_make_room(Arena *arena, BulkOwner *owner, Size size);

/* Frees chunks without rows. */
extern void arena_trim(Arena *arena, BulkOwner *owner);

/*
 * Compaction.  arena_compact_begin() removes all rows from the arena; *from still
 * addresses them.  The caller then allocates the rows to keep again, in the order of
 * their rids, and copies each from *from.  A copy never overwrites a later row.
 * arena_compact_end() drops *from.
 */
extern void arena_compact_begin(Arena *arena, BulkOwner *owner, Arena *from);

/*
 * Frees the chunks of *from that only have rows before rid.  The caller no longer
 * needs these rows.  *chunk is the first chunk that is not freed yet; 0 at first.
 */
extern void arena_compact_passed(Arena *from, BulkOwner *owner, uint32 rid, uint32 *chunk);

extern void arena_compact_end(Arena *arena, BulkOwner *owner, Arena *from);

/* Frees all memory but the chunk tables. */
extern void arena_free(Arena *arena, BulkOwner *owner);

/* Do rids remain for size more bytes of rows?  No row may be huge. */
static inline bool
arena_has_rids(const Arena *arena, Size size)
{
	return arena->nchunks + size / ARENA_CHUNK_SIZE + 1 < ARENA_MAX_CHUNKS;
}

/* Bytes of all rows. */
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

/* Adds the row of size bytes (MAXALIGN'ed) at arena->next; returns its rid. */
static inline uint32
arena_take(Arena *arena, Size size)
{
	uint32		rid = arena->next_rid;

	Assert(size == MAXALIGN(size) && size <= (Size) (arena->end - arena->next));
	arena->next += size;
	arena->next_rid += size >> ARENA_UNIT_SHIFT;
	return rid;
}

#endif							/* GPUSORT_STORE_ARENA_H */
