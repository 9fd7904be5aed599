/*
 * row_ids.c
 *	  The last rows of a full arena of 32 GB, for t/cpu/memory.pl.
 *
 * The arena is made by hand: it has the counters of a full one, but no memory before its
 * last rows.
 */
#include "postgres.h"

#include "fmgr.h"
#include "sort/sort_internal.h"

#define ROWS		4
#define ROW_SIZE	64

/*
 * last_rows_in_set(free_units int): is the last row's rid within the set of rids of an arena
 * in which this number of units is free behind the last row?
 */
PG_FUNCTION_INFO_V1(last_rows_in_set);
Datum
last_rows_in_set(PG_FUNCTION_ARGS)
{
	char		rows[ROWS * ROW_SIZE];
	Arena		arena = {.next = rows,.end = rows + sizeof(rows)};
	uint32		rid = 0;

	arena.next_rid = PG_UINT32_MAX - (ROWS * ROW_SIZE >> ARENA_UNIT_SHIFT) + 1 - PG_GETARG_INT32(0);
	for (int i = 0; i < ROWS; i++)
		rid = arena_take(&arena, ROW_SIZE);
	PG_RETURN_BOOL(rid / BITS_PER_BYTE < rid_set_bytes(arena.next_rid));
}
