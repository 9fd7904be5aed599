/*
 * returned_rows.c
 *	  Which rows a sort had given out when its device was lost.
 *
 * A sort of many workers that is run again has the same rows, but equal ones come in another
 * order: which of them were given has to be known.  All rows before the last one given,
 * but those equal to it by their keys, were given, and are counted; of those equal to it
 * the content's sums are noted, and when such a row comes again it is passed over once
 * for each time that it was given.
 *
 * Nothing is done for a row.  Sums are taken of a chunk's last rows when the next chunk begins with
 * a row that is equal to them, which is seldom, or the rest is lost; the chunk is still there then.
 * Where the rows equal begin is found by halving, as they are in order.
 *
 * Where rows are settled (settle.c) nothing is noted: a device that is lost is noticed between two
 * groups of rows with equal keys, and equal rows are of one group.
 *
 * Memory: of given rows that are equal by their keys 8 bytes each, up to work_mem; more go to a
 * temporary file, and come back if the device is lost.
 */
#include "postgres.h"

#include "gpu/gpu.h"
#include "miscadmin.h"
#include "store/row.h"
#include "utils/memutils.h"

/* Room at first. */
#define RETURNED_ROOM		1024

ReturnedRows *
returned_rows_create(void)
{
	ReturnedRows  *returned = palloc0(sizeof(ReturnedRows));

	returned->cxt = CurrentMemoryContext;
	return returned;
}

static void
close_file(ReturnedRows *returned)
{
	if (returned->file == NULL)
		return;
	spill_close(returned->file);
	if (returned->run.extents != NULL)
		pfree(returned->run.extents);
	returned->file = NULL;
}

/* None that are equal to the last. */
static void
forget_last(ReturnedRows *returned)
{
	returned->nlast = 0;
	close_file(returned);
	if (returned->counts != NULL)
		pfree(returned->counts);
	returned->counts = NULL;
}

void
returned_rows_reset(ReturnedRows *returned)
{
	returned->before = returned->before_sum = returned->left = 0;
	returned->more = false;
	forget_last(returned);
}

static void
reserve_last(ReturnedRows *returned, size_t room)
{
	if (returned->last == NULL)
		returned->last = MemoryContextAllocHuge(returned->cxt, room * sizeof(uint64));
	else if (room > returned->room)
		returned->last = repalloc_huge(returned->last, room * sizeof(uint64));
	returned->room = Max(room, returned->room);
}

/* What is in memory goes to the file, but for the rest of an extent. */
static void
write_last(ReturnedRows *returned)
{
	MemoryContext old = MemoryContextSwitchTo(returned->cxt);
	size_t		step;
	size_t		at;

	if (returned->file == NULL)
	{
		returned->file = spill_open((Size) work_mem * 1024);
		memset(&returned->run, 0, sizeof(returned->run));
	}
	step = returned->file->extent / sizeof(uint64);
	for (at = 0; at + step <= returned->nlast; at += step)
		spill_write(returned->file, &returned->run, (const char *) (returned->last + at),
					step * sizeof(uint64));
	returned->nlast -= at;
	memmove(returned->last, returned->last + at, returned->nlast * sizeof(uint64));
	MemoryContextSwitchTo(old);
}

/* ... and comes back. */
static void
read_last(ReturnedRows *returned)
{
	size_t		step;

	if (returned->file == NULL)
		return;
	step = returned->file->extent / sizeof(uint64);
	for (uint32 i = 0; i < returned->run.nextents; i++)
	{
		reserve_last(returned, returned->nlast + step);
		returned->nlast += spill_read(returned->file, &returned->run, i, (char *) (returned->last + returned->nlast)) /
			sizeof(uint64);
		CHECK_FOR_INTERRUPTS();
	}
	close_file(returned);
}

static void
add_last(ReturnedRows *returned, uint64 sum)
{
	if (returned->nlast == returned->room)
	{
		if (2 * returned->room * sizeof(uint64) > (Size) work_mem * 1024)
			write_last(returned);
		if (returned->nlast == returned->room)
			reserve_last(returned, Max(2 * returned->room, RETURNED_ROOM));
	}
	returned->last[returned->nlast++] = sum;
}

/* The first of a chunk's rows that is equal to its last. */
static size_t
first_equal(TieBreak *tiebreak, const char *rows, const uint32 *at, size_t n)
{
	MinimalTuple last = (MinimalTuple) (rows + at[n - 1]);
	size_t		from = 0;
	size_t		to = n - 1;

	while (from < to)
	{
		size_t		mid = from + (to - from) / 2;

		if (tiebreak_compare(tiebreak, (MinimalTuple) (rows + at[mid]), last) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return to;
}

/* None of the chunks before this one has rows that are equal to what comes. */
static void
begin_after(ReturnedRows *returned, const ReturnedChunk *chunk)
{
	returned->before = chunk->before;
	returned->before_sum = chunk->before_sum;
	forget_last(returned);
}

void
returned_rows_note(ReturnedRows *returned, TieBreak *tiebreak, const ReturnedChunk *chunk, bool more)
{
	uint32	   *at;
	uint32		end = 0;
	size_t		first;

	if (chunk->n == 0)
	{
		if (!returned->more)
			begin_after(returned, chunk);
		return;
	}
	at = MemoryContextAllocHuge(CurrentMemoryContext, chunk->n * sizeof(uint32));
	for (size_t i = 0; i < chunk->n; i++)
	{
		at[i] = end;
		end += MAXALIGN(((MinimalTuple) (chunk->rows + end))->t_len);
	}
	first = first_equal(tiebreak, chunk->rows, at, chunk->n);
	/* all of it goes on with what the chunk before it ended with */
	if (first > 0 || !returned->more)
		begin_after(returned, chunk);
	for (size_t i = 0; i < chunk->n; i++)
	{
		MinimalTuple row = (MinimalTuple) (chunk->rows + at[i]);
		uint64		sum = row_sum((const char *) row, row->t_len);

		if (i >= first)
			add_last(returned, sum);
		else
		{
			returned->before++;
			returned->before_sum += sum;
		}
	}
	returned->more = more;
	pfree(at);
}

void
returned_rows_whole(ReturnedRows *returned, uint64 rows, uint64 sum)
{
	returned_rows_reset(returned);
	returned->before = rows;
	returned->before_sum = sum;
}

void
returned_rows_apart(ReturnedRows *returned)
{
	returned->more = false;
}

static int
by_value(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

void
returned_rows_begin(ReturnedRows *returned)
{
	size_t		n = 0;

	read_last(returned);
	returned->left = returned->nlast;
	if (returned->nlast == 0)
		return;
	qsort(returned->last, returned->nlast, sizeof(uint64), by_value);
	returned->counts = MemoryContextAllocHuge(returned->cxt, returned->nlast * sizeof(uint64));
	for (size_t i = 0; i < returned->nlast; i++)
	{
		if (i > 0 && returned->last[i] == returned->last[n - 1])
			returned->counts[n - 1]++;
		else
		{
			returned->last[n] = returned->last[i];
			returned->counts[n++] = 1;
		}
	}
	returned->nlast = n;
}

bool
returned_rows_was(ReturnedRows *returned, MinimalTuple row)
{
	uint64		sum = row_sum((const char *) row, row->t_len);
	const uint64 *found;

	if (returned->before > 0)
	{
		returned->before_sum -= sum;
		if (--returned->before == 0 && returned->before_sum != 0)
			sort_wrong_beginning();
		return true;
	}
	found = returned->left == 0 ? NULL :
		bsearch(&sum, returned->last, returned->nlast, sizeof(uint64), by_value);
	if (found == NULL || returned->counts[found - returned->last] == 0)
		return false;
	returned->counts[found - returned->last]--;
	returned->left--;
	return true;
}
