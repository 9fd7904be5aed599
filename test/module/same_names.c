/*
 * same_names.c
 *	  Functions that have the names of functions of gpusort, for t/server/symbols.pl.
 *
 * The server's libraries share one space of names.  A library that is loaded after this
 * one would call these functions in place of its own, if it exported them.
 */
#include "postgres.h"

extern void arena_reset(void *arena, void *owner);
extern void bulk_reserve(void *owner, void *buf, Size size, Size keep);

void
arena_reset(void *arena, void *owner)
{
	elog(PANIC, "arena_reset() of another library");
}

void
bulk_reserve(void *owner, void *buf, Size size, Size keep)
{
	elog(PANIC, "bulk_reserve() of another library");
}
