/*
 * returned_rows.c
 *	  Notes which rows a sort has returned, in case its device fails.
 *
 * The sort is then run again without the device.  A sort by one process is stable, so the
 * same rows come first: their number and the sum of their checksums are noted.
 *
 * A parallel sort has the same rows, but equal rows may come in another order, so their
 * number alone does not tell which have been returned.  Rows that sort before the last
 * returned row have all been returned; their number and sum are noted.  Of the rows equal
 * to it (the last group) the checksum of each returned row is noted.  When a row with that
 * checksum comes again, it is skipped, once for each time that it was returned.
 *
 * Returning a row needs no note.  A chunk's last rows are noted when the next chunk begins
 * with an equal row, or when the device has failed; the chunk is still held then.  Binary
 * search finds the first row of the last group, because the chunk is in order.
 *
 * Where ties are resolved on the host (row_ties.c) only the number and the sum are noted:
 * a failure is noticed between two groups of equal keys, and equal rows are in one group.
 *
 * Memory policy: 8 bytes for each returned row of the last group, up to work_mem.  More
 * are written to a temporary file, and read back if the device fails.
 */
#include "postgres.h"

#include "kernel/rec.h"
#include "miscadmin.h"
#include "sort/returned_rows.h"
#include "sort/run.h"
#include "store/store.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Initial capacity of ReturnedRows.last. */
#define RETURNED_ROOM		1024

void
sort_wrong_beginning(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("GPU returned a wrong sort result after rows had been returned"),
			 errhint("Set gpusort.verify to on to check results before their first row is returned, "
					 "or gpusort.device to off.")));
}

static void
close_file(ReturnedRows *returned)
{
	if (returned->file == NULL)
		return;
	BufFileClose(returned->file);
	returned->file = NULL;
	returned->nfile = 0;
}

/* Makes the last group empty. */
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
	returned->before = returned->before_sum = returned->pending = 0;
	returned->more = returned->by_number = false;
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

/* Moves the checksums in memory to the file. */
static void
write_last(ReturnedRows *returned)
{
	if (returned->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(returned->cxt);

		returned->file = BufFileCreateTemp(false);
		MemoryContextSwitchTo(old);
	}
	BufFileWrite(returned->file, returned->last, returned->nlast * sizeof(uint64));
	returned->nfile += returned->nlast;
	returned->nlast = 0;
}

/* Reads the file's checksums back into memory. */
static void
read_last(ReturnedRows *returned)
{
	Size		bytes = returned->nfile * sizeof(uint64);

	if (returned->file == NULL)
		return;
	reserve_last(returned, returned->nlast + returned->nfile);
	if (BufFileSeek(returned->file, 0, 0, SEEK_SET) != 0 ||
		BufFileRead(returned->file, returned->last + returned->nlast, bytes) != bytes)
		run_is_corrupt();
	returned->nlast += returned->nfile;
	close_file(returned);
}

static void
add_last(ReturnedRows *returned, uint64 sum)
{
	if (returned->nlast == returned->room)
	{
		if (2 * returned->room * sizeof(uint64) > (Size) work_mem * 1024)
			write_last(returned);
		else
			reserve_last(returned, Max(2 * returned->room, RETURNED_ROOM));
	}
	returned->last[returned->nlast++] = sum;
}

/* The first row of the chunk that is equal to its last row. */
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

/* The last group begins in this chunk: all rows of the chunks before sort before it. */
static void
begin_group(ReturnedRows *returned, const ReturnedChunk *chunk)
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
			begin_group(returned, chunk);
		return;
	}
	at = MemoryContextAllocHuge(CurrentMemoryContext, chunk->n * sizeof(uint32));
	for (size_t i = 0; i < chunk->n; i++)
	{
		at[i] = end;
		end += MAXALIGN(((MinimalTuple) (chunk->rows + end))->t_len);
	}
	first = first_equal(tiebreak, chunk->rows, at, chunk->n);
	/* otherwise the whole chunk continues the last group */
	if (first > 0 || !returned->more)
		begin_group(returned, chunk);
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
returned_rows_begin(ReturnedRows *returned)
{
	size_t		n = 0;

	read_last(returned);
	returned->pending = returned->nlast;
	if (returned->nlast == 0)
		return;
	qsort(returned->last, returned->nlast, sizeof(uint64), compare_uint64);
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
returned_rows_skip(ReturnedRows *returned, MinimalTuple row)
{
	uint64		sum = row_sum((const char *) row, row->t_len);
	const uint64 *found;

	if (returned->before > 0)
	{
		returned->before_sum -= sum;
		if (--returned->before == 0 && returned->before_sum != 0 && !returned->by_number)
			sort_wrong_beginning();
		return true;
	}
	found = returned->pending == 0 ? NULL :
		bsearch(&sum, returned->last, returned->nlast, sizeof(uint64), compare_uint64);
	if (found == NULL || returned->counts[found - returned->last] == 0)
		return false;
	returned->counts[found - returned->last]--;
	returned->pending--;
	return true;
}
