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
#define GIVEN_ROOM		1024

GivenRows *
given_rows_create(void)
{
	GivenRows  *given = palloc0(sizeof(GivenRows));

	given->cxt = CurrentMemoryContext;
	return given;
}

static void
close_file(GivenRows *given)
{
	if (given->file == NULL)
		return;
	spill_close(given->file);
	if (given->run.extents != NULL)
		pfree(given->run.extents);
	given->file = NULL;
}

/* None that are equal to the last. */
static void
forget_last(GivenRows *given)
{
	given->nlast = 0;
	close_file(given);
	if (given->counts != NULL)
		pfree(given->counts);
	given->counts = NULL;
}

void
given_rows_reset(GivenRows *given)
{
	given->before = given->before_sum = given->left = 0;
	given->more = false;
	forget_last(given);
}

static void
reserve_last(GivenRows *given, size_t room)
{
	if (given->last == NULL)
		given->last = MemoryContextAllocHuge(given->cxt, room * sizeof(uint64));
	else if (room > given->room)
		given->last = repalloc_huge(given->last, room * sizeof(uint64));
	given->room = Max(room, given->room);
}

/* What is in memory goes to the file, but for the rest of an extent. */
static void
write_last(GivenRows *given)
{
	MemoryContext old = MemoryContextSwitchTo(given->cxt);
	size_t		step;
	size_t		at;

	if (given->file == NULL)
	{
		given->file = spill_open((Size) work_mem * 1024);
		memset(&given->run, 0, sizeof(given->run));
	}
	step = given->file->extent / sizeof(uint64);
	for (at = 0; at + step <= given->nlast; at += step)
		spill_write(given->file, &given->run, (const char *) (given->last + at),
					step * sizeof(uint64));
	given->nlast -= at;
	memmove(given->last, given->last + at, given->nlast * sizeof(uint64));
	MemoryContextSwitchTo(old);
}

/* ... and comes back. */
static void
read_last(GivenRows *given)
{
	size_t		step;

	if (given->file == NULL)
		return;
	step = given->file->extent / sizeof(uint64);
	for (uint32 i = 0; i < given->run.nextents; i++)
	{
		reserve_last(given, given->nlast + step);
		given->nlast += spill_read(given->file, &given->run, i, (char *) (given->last + given->nlast)) /
			sizeof(uint64);
		CHECK_FOR_INTERRUPTS();
	}
	close_file(given);
}

static void
add_last(GivenRows *given, uint64 sum)
{
	if (given->nlast == given->room)
	{
		if (2 * given->room * sizeof(uint64) > (Size) work_mem * 1024)
			write_last(given);
		if (given->nlast == given->room)
			reserve_last(given, Max(2 * given->room, GIVEN_ROOM));
	}
	given->last[given->nlast++] = sum;
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
begin_after(GivenRows *given, const GivenChunk *chunk)
{
	given->before = chunk->before;
	given->before_sum = chunk->before_sum;
	forget_last(given);
}

void
given_rows_note(GivenRows *given, TieBreak *tiebreak, const GivenChunk *chunk, bool more)
{
	uint32	   *at;
	uint32		end = 0;
	size_t		first;

	if (chunk->n == 0)
	{
		if (!given->more)
			begin_after(given, chunk);
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
	if (first > 0 || !given->more)
		begin_after(given, chunk);
	for (size_t i = 0; i < chunk->n; i++)
	{
		MinimalTuple row = (MinimalTuple) (chunk->rows + at[i]);
		uint64		sum = row_sum((const char *) row, row->t_len);

		if (i >= first)
			add_last(given, sum);
		else
		{
			given->before++;
			given->before_sum += sum;
		}
	}
	given->more = more;
	pfree(at);
}

void
given_rows_whole(GivenRows *given, uint64 rows, uint64 sum)
{
	given_rows_reset(given);
	given->before = rows;
	given->before_sum = sum;
}

void
given_rows_apart(GivenRows *given)
{
	given->more = false;
}

static int
by_value(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

void
given_rows_begin(GivenRows *given)
{
	size_t		n = 0;

	read_last(given);
	given->left = given->nlast;
	if (given->nlast == 0)
		return;
	qsort(given->last, given->nlast, sizeof(uint64), by_value);
	given->counts = MemoryContextAllocHuge(given->cxt, given->nlast * sizeof(uint64));
	for (size_t i = 0; i < given->nlast; i++)
	{
		if (i > 0 && given->last[i] == given->last[n - 1])
			given->counts[n - 1]++;
		else
		{
			given->last[n] = given->last[i];
			given->counts[n++] = 1;
		}
	}
	given->nlast = n;
}

bool
given_rows_was(GivenRows *given, MinimalTuple row)
{
	uint64		sum = row_sum((const char *) row, row->t_len);
	const uint64 *found;

	if (given->before > 0)
	{
		given->before_sum -= sum;
		if (--given->before == 0 && given->before_sum != 0)
			device_wrong_beginning();
		return true;
	}
	found = given->left == 0 ? NULL :
		bsearch(&sum, given->last, given->nlast, sizeof(uint64), by_value);
	if (found == NULL || given->counts[found - given->last] == 0)
		return false;
	given->counts[found - given->last]--;
	given->left--;
	return true;
}
