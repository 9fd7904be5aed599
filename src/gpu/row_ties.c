/*
 * row_ties.c
 *	  Rows that come back in the order of their keys, put into that of their values.
 *
 * Keys of text and of whatever else 128 bits do not hold say "before" and "after" truly, but
 * "equal" only as far as they go.  A device sorts by them and keeps the order of arrival
 * among equal ones, so rows whose keys are equal are neighbours, and only those are to be
 * settled: a group.  Which they are their marks tell (store/row_mark.h), so that no key is
 * made again; that of two keys with the same mark one group is made is no matter, for a group is
 * ordered by all of its rows' values.
 *
 * Of most texts nearly every row is alone.  Some marks ahead are looked at, and so many rows as are
 * alone are given by whoever reads the stream, as of any chunk: a row costs one comparison of
 * two marks.  A chunk that is said to have a row too many would have its last one taken for alone, so
 * what is said to be the last is looked at as a whole before.  A group is ordered by the tie-break:
 * where it lies, if it lies in one chunk; otherwise its rows are kept, since chunks go back when they
 * have been read.  The last row of a chunk always is, for the next may have its equals.
 *
 * Memory policy: kept rows and what ordering them takes are a quarter of the memory that there
 * is, which is work_mem, or where several parts are merged their share of its half.  A group that is
 * larger goes to a sort of its own, which has the rest and writes runs if it must.
 *
 * On error: kept rows and that sort are in the sort's memory context.  When rows are lost with the
 * device all rows of the group that was being gathered are still to be given.
 */
#include "postgres.h"

#include "gpu/gpu_internal.h"
#include "miscadmin.h"
#include "sort/sort.h"
#include "store/row.h"

/* Rows whose marks are looked at before they are given: some lines of the cache. */
#define LOOK_AHEAD		64

/* What ordering a row of a group takes: its rid, a record and a kernel's scratch (tie_rounds.c). */
#define GROUP_ROW		(sizeof(uint32) + 2 * sizeof(SortRec64))

/* The part of the memory for a group; the rest is for the sort that a larger one goes to. */
#define GROUP_PART		4

typedef struct TieResolver
{
	SortEnv    *env;
	Size		memory;

	/* the group that is gathered, or given out */
	uint16		mark;
	bool		open;			/* its rows are kept: chunks to come may have more of it */
	const Arena *from;			/* where its rows lie: one of these two */
	Arena		kept;
	Arena		chunk;			/* to be read alone */
	char	   *chunk_base;
	uint32	   *rids;
	size_t		n;
	size_t		room;
	size_t		at;				/* the next to be given */

	/* one that is too large */
	Sorter	   *sorter;			/* NULL: never wanted */
	bool		sorting;		/* it has the group, */
	uint64		sorter_rows;	/* so many rows */
	uint64		sorter_sum;		/* with this row_sum() */
	SortResult *result;			/* in order; NULL: not yet */
	TupleTableSlot *in;
	TupleTableSlot *out;
} TieResolver;

static TieResolver *
resolver_create(const DeviceRows *dev)
{
	SortEnv    *env = dev->env;
	TieResolver *resolver = MemoryContextAllocZero(env->cxt, sizeof(TieResolver));

	resolver->env = env;
	resolver->memory = dev->merged == 0 ? env->limit : env->limit / 2 / dev->merged;
	resolver->chunk.base = &resolver->chunk_base;
	return resolver;
}

/* ------------------------------------------------------------------------
 * A group that is too large
 * ------------------------------------------------------------------------
 */
static void
put_to_sorter(TieResolver *resolver, MinimalTuple row)
{
	row_to_slot(resolver->in, row);
	sorter_put(resolver->sorter, resolver->in);
	resolver->sorter_rows++;
	resolver->sorter_sum += row_sum((const char *) row, row->t_len);
}

/* The group's rows move to the sort. */
static void
begin_sorter(TieResolver *resolver)
{
	SortEnv    *env = resolver->env;

	if (resolver->sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(env->cxt);
		SortSpec	spec = env->spec;

		spec.memory = resolver->memory - resolver->memory / GROUP_PART;
		spec.within = &env->progress;
		resolver->sorter = sorter_create(&spec);
		resolver->in = MakeSingleTupleTableSlot(spec.desc, &TTSOpsMinimalTuple);
		resolver->out = MakeSingleTupleTableSlot(spec.desc, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	sorter_begin(resolver->sorter, 0, resolver->n);
	resolver->sorting = true;
	resolver->sorter_rows = resolver->sorter_sum = 0;
	for (size_t i = 0; i < resolver->n; i++)
		put_to_sorter(resolver, (MinimalTuple) arena_at(&resolver->kept, resolver->rids[i]));
	resolver->n = 0;
	arena_free(&resolver->kept, env->bulk);
}

static void
end_sorter(TieResolver *resolver)
{
	SortReport *report = &resolver->env->report;
	const SortReport *of_group = sorter_report(resolver->sorter);

	report->memory_peak = Max(report->memory_peak, of_group->memory_peak);
	report->disk_bytes = Max(report->disk_bytes, of_group->disk_bytes);
	report->runs += of_group->runs;
	ExecClearTuple(resolver->in);
	ExecClearTuple(resolver->out);
	sorter_end(resolver->sorter);
	resolver->sorting = false;
	resolver->result = NULL;
}

/* ------------------------------------------------------------------------
 * A group
 * ------------------------------------------------------------------------
 */
static void
add_rid(TieResolver *resolver, uint32 rid)
{
	if (resolver->n == resolver->room)
	{
		resolver->room = Max(2 * resolver->room, 1024);
		resolver->rids = resolver->rids == NULL ?
			MemoryContextAllocHuge(resolver->env->cxt, resolver->room * sizeof(uint32)) :
			repalloc_huge(resolver->rids, resolver->room * sizeof(uint32));
	}
	resolver->rids[resolver->n++] = rid;
}

/* A row whose chunk goes back is kept. */
static void
keep_row(TieResolver *resolver, MinimalTuple row)
{
	Size		size = MAXALIGN(row->t_len);
	char	   *copy = NULL;
	uint32		rid;

	if (!resolver->sorting && resolver->n > 0 &&
		arena_used(&resolver->kept) + size + (resolver->n + 1) * GROUP_ROW > resolver->memory / GROUP_PART)
		begin_sorter(resolver);
	if (!resolver->sorting)
	{
		copy = arena_alloc(&resolver->kept, resolver->env->bulk, size, &rid);
		if (copy == NULL)
			begin_sorter(resolver);
	}
	if (copy == NULL)
	{
		put_to_sorter(resolver, row);
		return;
	}
	memcpy(copy, row, row->t_len);
	add_rid(resolver, rid);
}

/* The group may go on in the next chunk: its rows, all of this one, are kept. */
static void
keep_group(TieResolver *resolver)
{
	size_t		n = resolver->n;

	Assert(!resolver->open);
	resolver->open = true;
	resolver->from = &resolver->kept;
	resolver->n = 0;
	for (size_t i = 0; i < n; i++)
	{
		uint32		rid = resolver->rids[i];

		keep_row(resolver, (MinimalTuple) arena_at(&resolver->chunk, rid));
	}
}

/* The group is complete: puts it in order.  False if there is none. */
static bool
close_group(TieResolver *resolver)
{
	SortEnv    *env = resolver->env;

	resolver->open = false;
	if (resolver->sorting)
	{
		env->report.ties += resolver->sorter_rows;
		resolver->result = sorter_perform(resolver->sorter, false);
		return true;
	}
	if (resolver->n > 1)
	{
		env->report.ties += resolver->n;
		tiebreak_sort(env->tiebreak, resolver->from, resolver->rids, resolver->n);
		sort_env_note_memory(env, arena_used(&resolver->kept) + resolver->n * GROUP_ROW);
	}
	return resolver->n > 0;
}

/* ------------------------------------------------------------------------
 * Gathering
 * ------------------------------------------------------------------------
 */

/* Has the next row of the chunk this mark?  If there is no room for a row, it is not one that came. */
static inline bool
next_has_mark(const RowStream *stream, uint16 mark)
{
	return (Size) (stream->end - stream->next) < ROW_SUM_HEADER || row_mark(stream->next) == mark;
}

/*
 * Lets as many of the rows that come next be given as have not the mark of the one behind them, as far
 * as one looks.  Returns the one behind those.
 */
static const char *
pass_serial(RowStream *stream)
{
	const char *row = stream->next;
	uint32		most = Min(stream->behind, LOOK_AHEAD + 1) - 1;
	uint32		n = 0;

	while (n < most && (Size) (stream->end - row) >= ROW_SUM_HEADER)
	{
		Size		size = MAXALIGN((Size) ((const MinimalTupleData *) row)->t_len);

		/* whoever reads it will find that it is none */
		if (size + ROW_SUM_HEADER > (Size) (stream->end - row) || row_mark(row + size) == row_mark(row))
			break;
		row += size;
		n++;
	}
	stream->left = n;
	stream->behind -= n;
	return row;
}

/* A row whose mark has been believed: if it is the chunk's last, is it one?  The rows are lost if not. */
static bool
last_is_row(DeviceRows *dev, RowStream *stream, const char *row)
{
	uint64		sum;

	if (likely(stream->behind != 1) || row_is_whole(row, stream->end - row, &dev->secret, &sum))
		return true;
	stream->behind += stream->left;
	stream->left = 0;
	device_job_fail(dev->job, ROW_NOT_FROM_INPUT);
	device_rows_fail(dev);
	return false;
}

/* Gathers the rows from the next on that have its mark, as far as the chunk goes; false if they are lost. */
static bool
gather(DeviceRows *dev, RowStream *stream)
{
	TieResolver *resolver = dev->resolver;

	if (!resolver->open)
	{
		resolver->mark = row_mark(stream->next);
		resolver->from = &resolver->chunk;
		resolver->chunk_base = stream->end - device_shared->chunk_size;
	}
	do
	{
		MinimalTuple row;

		stream->left = 1;
		stream->behind--;
		row = device_rows_read(dev, stream);
		if (row == NULL)
			return false;
		if (resolver->open)
			keep_row(resolver, row);
		else
			add_rid(resolver, (uint32) (((char *) row - resolver->chunk_base) >> ARENA_UNIT_SHIFT));
	} while (stream->behind > 0 && next_has_mark(stream, resolver->mark));
	return true;
}

/*
 * Gets the next rows to be given: of the stream some that are alone, or a group.  False at the
 * end, and if rows are lost.
 */
static bool
next_rows(DeviceRows *dev, RowStream *stream)
{
	TieResolver *resolver = dev->resolver;

	resolver->n = resolver->at = 0;
	arena_reset(&resolver->kept, dev->env->bulk);
	for (;;)
	{
		if (stream->behind == 0)
		{
			CHECK_FOR_INTERRUPTS();
			if (device_rows_next_chunk(dev, stream))
				continue;
			return !dev->failed && close_group(resolver);
		}
		if (resolver->open)
		{
			if (!next_has_mark(stream, resolver->mark))
				return last_is_row(dev, stream, stream->next) && close_group(resolver);
		}
		else
		{
			const char *behind = pass_serial(stream);

			if (stream->left > 0)
				return last_is_row(dev, stream, behind);
		}
		if (!gather(dev, stream))
			return false;
		if (stream->behind > 0)
			return last_is_row(dev, stream, stream->next) && close_group(resolver);
		if (!resolver->open)
			keep_group(resolver);
	}
}

MinimalTuple
resolver_next(DeviceRows *dev, RowStream *stream)
{
	TieResolver *resolver = dev->resolver;

	if (resolver == NULL)
		resolver = dev->resolver = resolver_create(dev);
	for (;;)
	{
		if (resolver->at < resolver->n)
			return (MinimalTuple) arena_at(resolver->from, resolver->rids[resolver->at++]);
		if (resolver->result != NULL)
		{
			if (result_next(resolver->result, RESULT_PLAIN, true, resolver->out))
				return ((MinimalTupleTableSlot *) resolver->out)->mintuple;
			end_sorter(resolver);
		}
		if (stream->left > 0)
			return device_rows_read(dev, stream);
		if (dev->failed || !next_rows(dev, stream))
			return NULL;
	}
}

uint64
resolver_waiting(const DeviceRows *dev, uint64 *sum)
{
	const TieResolver *resolver = dev->resolver;

	*sum = 0;
	if (resolver == NULL)
		return 0;
	for (size_t i = resolver->at; i < resolver->n; i++)
	{
		const char *row = arena_at(resolver->from, resolver->rids[i]);

		*sum += row_sum(row, ((const MinimalTupleData *) row)->t_len);
	}
	if (!resolver->sorting)
		return resolver->n - resolver->at;
	*sum += resolver->sorter_sum;
	return resolver->sorter_rows + resolver->n - resolver->at;
}

void
resolver_end(DeviceRows *dev)
{
	TieResolver *resolver = dev->resolver;

	if (resolver == NULL)
		return;
	if (resolver->sorter != NULL)
	{
		ExecDropSingleTupleTableSlot(resolver->in);
		ExecDropSingleTupleTableSlot(resolver->out);
		sorter_destroy(resolver->sorter);
	}
	arena_free(&resolver->kept, dev->env->bulk);
	if (resolver->rids != NULL)
		pfree(resolver->rids);
	pfree(resolver);
	dev->resolver = NULL;
}
