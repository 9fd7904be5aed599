/*
 * given_rows.c
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
 * Memory: of given rows that are equal by their keys 16 bytes each; they are less than the
 * rows would be.  Equal contents share theirs when there are many.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/device/device_check.h"
#include "sort/device/given_rows.h"
#include "store/row_sum.h"
#include "utils/memutils.h"

/* Room at first, and rows up to which equal contents are kept apart. */
#define GIVEN_ROOM		1024

GivenRows *
given_rows_create(void)
{
	GivenRows  *given = palloc0(sizeof(GivenRows));

	given->cxt = CurrentMemoryContext;
	return given;
}

void
given_rows_reset(GivenRows *given)
{
	given->before = given->before_sum = given->left = 0;
	given->nlast = 0;
	given->more = false;
}

static int
by_sum(const void *a, const void *b)
{
	uint64		x = ((const GivenRow *) a)->sum;
	uint64		y = ((const GivenRow *) b)->sum;

	return (x > y) - (x < y);
}

/* In the sums' order, equal ones together. */
static void
unite(GivenRows *given)
{
	size_t		n = 0;

	if (given->nlast == 0)
		return;
	qsort(given->last, given->nlast, sizeof(GivenRow), by_sum);
	for (size_t i = 1; i < given->nlast; i++)
	{
		if (given->last[i].sum == given->last[n].sum)
			given->last[n].count += given->last[i].count;
		else
			given->last[++n] = given->last[i];
	}
	given->nlast = n + 1;
}

static void
add_last(GivenRows *given, uint64 sum)
{
	if (given->nlast == given->room)
	{
		unite(given);
		if (given->last == NULL)
		{
			given->room = GIVEN_ROOM;
			given->last = MemoryContextAlloc(given->cxt, given->room * sizeof(GivenRow));
		}
		else if (given->nlast > given->room / 2)
		{
			given->room *= 2;
			given->last = repalloc_huge(given->last, given->room * sizeof(GivenRow));
		}
	}
	given->last[given->nlast].sum = sum;
	given->last[given->nlast++].count = 1;
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
	given->nlast = 0;
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
given_rows_apart(GivenRows *given)
{
	given->more = false;
}

void
given_rows_begin(GivenRows *given)
{
	unite(given);
	given->left = 0;
	for (size_t i = 0; i < given->nlast; i++)
		given->left += given->last[i].count;
}

bool
given_rows_was(GivenRows *given, MinimalTuple row)
{
	GivenRow	key = {row_sum((const char *) row, row->t_len), 0};
	GivenRow   *found;

	if (given->before > 0)
	{
		given->before_sum -= key.sum;
		if (--given->before == 0 && given->before_sum != 0)
			device_wrong_beginning();
		return true;
	}
	found = given->left == 0 ? NULL :
		bsearch(&key, given->last, given->nlast, sizeof(GivenRow), by_sum);
	if (found == NULL || found->count == 0)
		return false;
	found->count--;
	given->left--;
	return true;
}
