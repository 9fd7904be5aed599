/*
 * arena_reserve.h
 *	  Makes room for a row in an arena, for loops over rows.
 */
#ifndef GPUSORT_STORE_ARENA_RESERVE_H
#define GPUSORT_STORE_ARENA_RESERVE_H

#include "postgres.h"

#include "store/arena.h"

/* Makes size bytes available at arena->next; false if the arena is full. */
static inline bool
arena_reserve(Arena *arena, BulkOwner *owner, Size size)
{
	return likely(size <= (Size) (arena->end - arena->next)) || arena_make_room(arena, owner, size);
}

/* Allocates a row of size bytes (MAXALIGN'ed); NULL if the arena is full. */
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

#endif							/* GPUSORT_STORE_ARENA_RESERVE_H */
