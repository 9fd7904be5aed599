/*
 * row_ties.c
 *	  Resolves ties among rows that come back from the device in key order.
 *
 * Keys that do not hold the whole value (of text, for example) may be equal for different
 * rows.  The device sorts by keys and is stable, so rows with equal keys are neighbours; they
 * form a group, and only groups need the comparator.  Each row carries a 16-bit mark, a hash
 * of its key (store/row_mark.h), so that no key is computed again on the host.  Two different keys
 * with the same mark form one group, which is correct: a group is ordered by all values.
 *
 * Most keys are unique.  The marks of the next LOOK_AHEAD rows are compared; rows whose mark
 * differs from the next one are single, and are returned directly.  A single row costs one
 * comparison of marks.  If the device reports too many rows for a chunk, the mark behind the
 * last real row is not a row's.  Therefore the last row of a chunk is checked before the
 * rows in front of it are returned.
 *
 * The rows of a group are copied, because the next chunk may continue it, and a chunk is
 * released when it has been read.
 *
 * Memory policy: copied rows and the arrays to order them are limited to 1/GROUP_PART of the
 * resolver's memory: work_mem or, where parts are merged, a part's share of half of it.  A
 * larger group goes to a nested sort, which has the remaining memory and may write runs.
 *
 * On error: copied rows and the nested sort are in the sort's memory context.  If the device
 * fails, no row of the group that is being gathered has been returned.
 */
#include "postgres.h"

#include "gpu/row_mode.h"
#include "gpu/rows_read.h"
#include "miscadmin.h"
#include "sort/sort.h"
#include "store/store.h"

/* Marks of this number of rows are compared before the first row is returned. */
#define LOOK_AHEAD		64

/* Bytes per row to order a group: rid, record and a kernel's scratch (tiebreak/multikey.c). */
#define GROUP_ROW		(sizeof(uint32) + 2 * sizeof(SortRec64))

/* A group may take 1/GROUP_PART of the memory; the nested sort has the remaining memory. */
#define GROUP_PART		4

/* State of the resolution of one job's ties. */
typedef struct TieResolver
{
	SortEnv    *env;
	Size		memory;			/* limit of groups and the nested sort */

	/* the group that is gathered or returned */
	uint16		mark;
	Arena		kept;			/* copied rows */
	uint32	   *rids;			/* of these rows */
	size_t		n;				/* number of rids */
	size_t		room;			/* capacity of rids */
	size_t		at;				/* the next rid to return */

	/* the nested sort of a group that is too large */
	Sorter	   *sorter;			/* NULL: none yet */
	bool		sorting;		/* the group is in the sorter */
	uint64		sorter_rows;
	uint64		sorter_sum;		/* sum of row_sum() */
	SortResult *result;			/* NULL: not sorted yet */
	TupleTableSlot *in;
	TupleTableSlot *out;
} TieResolver;

/* ------------------------------------------------------------------------
 * The nested sort of a large group
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

/* Moves the group's rows to the nested sort. */
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
		/* all rows of the group are returned, duplicates as well */
		spec.distinct = 0;
		resolver->sorter = sorter_create(&spec);
		resolver->in = MakeSingleTupleTableSlot(spec.desc, &TTSOpsMinimalTuple);
		resolver->out = MakeSingleTupleTableSlot(spec.desc, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	sorter_begin(resolver->sorter, &(SortBegin) {.rows_expected = resolver->n});
	resolver->sorting = true;
	resolver->sorter_rows = resolver->sorter_sum = 0;
	for (size_t i = 0; i < resolver->n; i++)
		put_to_sorter(resolver, (MinimalTuple) arena_at(&resolver->kept, resolver->rids[i]));
	resolver->n = 0;
	arena_free(&resolver->kept, env->bulk);
}

/* All rows of the nested sort were returned: adds its figures to the report, and ends it. */
static void
end_sorter(TieResolver *resolver)
{
	SortReport *report = &resolver->env->report;
	const SortReport *of_group = resolver->sorter->report;

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

/* Adds a row to the group: copies it to the arena or the nested sort. */
static void
copy_row(TieResolver *resolver, MinimalTuple row)
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
	if (resolver->n == resolver->room)
	{
		resolver->room = Max(2 * resolver->room, 1024);
		resolver->rids = resolver->rids == NULL ?
			MemoryContextAllocHuge(resolver->env->cxt, resolver->room * sizeof(uint32)) :
			repalloc_huge(resolver->rids, resolver->room * sizeof(uint32));
	}
	resolver->rids[resolver->n++] = rid;
}

/* Orders the group, which is complete.  False if it has no rows. */
static bool
close_group(TieResolver *resolver)
{
	SortEnv    *env = resolver->env;

	if (resolver->sorting)
	{
		env->report.ties += resolver->sorter_rows;
		resolver->result = sorter_perform(resolver->sorter, false);
		return true;
	}
	if (resolver->n > 1)
	{
		TieGroups	groups;

		tie_groups_begin(&groups, env->tiebreak, &resolver->kept, resolver->rids);
		tie_groups_add(&groups, 0, resolver->n);
		env->report.ties += tie_groups_end(&groups);
		sort_env_note_memory(env, arena_used(&resolver->kept) + resolver->n * GROUP_ROW);
	}
	return resolver->n > 0;
}

/*
 * Has the next row of the chunk this mark?  Also true if no row fits before the chunk's end:
 * then reading it fails.
 */
static inline bool
next_has_mark(const RowStream *stream, uint16 mark)
{
	return (Size) (stream->end - stream->next) < ROW_SUM_HEADER || row_mark(stream->next) == mark;
}

/*
 * Sets stream->left to the number of single rows that come next, at most LOOK_AHEAD.  Returns
 * the row behind them.
 */
static const char *
pass_single_rows(RowStream *stream)
{
	const char *row = stream->next;
	uint32		most = Min(stream->behind, LOOK_AHEAD + 1) - 1;
	uint32		n = 0;

	while (n < most && (Size) (stream->end - row) >= ROW_SUM_HEADER)
	{
		Size		size = MAXALIGN((Size) ((const MinimalTupleData *) row)->t_len);

		/* a wrong length ends the loop; reading the row fails */
		if (size + ROW_SUM_HEADER > (Size) (stream->end - row) || row_mark(row + size) == row_mark(row))
			break;
		row += size;
		n++;
	}
	stream->left = n;
	stream->behind -= n;
	return row;
}

/*
 * Checks a row whose mark was used, if it is the chunk's last row.  If it is wrong, the device
 * failed.
 */
static bool
check_last_row(DeviceRows *dev, RowStream *stream, const char *row)
{
	uint64		sum;

	if (likely(stream->behind != 1) || row_is_whole(row, stream->end - row, &dev->keys.secret, &sum))
		return true;
	stream->behind += stream->left;
	stream->left = 0;
	device_rows_fail(dev, ROW_NOT_FROM_INPUT);
	return false;
}

/* Adds the next row, and those of the chunk that follow with the same mark, to the group. */
static bool
gather_group(DeviceRows *dev, RowStream *stream)
{
	TieResolver *resolver = dev->resolver;

	do
	{
		MinimalTuple row;

		stream->left = 1;
		stream->behind--;
		row = device_rows_read(dev, stream);
		if (row == NULL)
			return false;
		copy_row(resolver, row);
	} while (stream->behind > 0 && next_has_mark(stream, resolver->mark));
	return true;
}

/*
 * Gets the next rows to return: single rows of the stream, or a group.  False at the end, and if
 * the device failed.
 */
static bool
next_rows_in_order(DeviceRows *dev, RowStream *stream)
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
		if (resolver->n == 0 && !resolver->sorting)
		{
			const char *behind = pass_single_rows(stream);

			if (stream->left > 0)
				return check_last_row(dev, stream, behind);
			resolver->mark = row_mark(stream->next);
		}
		else if (!next_has_mark(stream, resolver->mark))
			return check_last_row(dev, stream, stream->next) && close_group(resolver);
		if (!gather_group(dev, stream))
			return false;
	}
}

MinimalTuple
resolver_next(DeviceRows *dev, RowStream *stream)
{
	TieResolver *resolver = dev->resolver;

	if (resolver == NULL)
	{
		resolver = dev->resolver = MemoryContextAllocZero(dev->env->cxt, sizeof(TieResolver));
		resolver->env = dev->env;
		resolver->memory = dev->merged == 0 ? dev->env->limit : dev->env->limit / 2 / dev->merged;
	}
	for (;;)
	{
		if (resolver->at < resolver->n)
			return (MinimalTuple) arena_at(&resolver->kept, resolver->rids[resolver->at++]);
		if (resolver->result != NULL)
		{
			if (result_next(resolver->result, RESULT_PLAIN, true, resolver->out))
				return slot_minimal_tuple(resolver->out);
			end_sorter(resolver);
		}
		if (stream->left > 0)
			return device_rows_read(dev, stream);
		if (dev->failed || !next_rows_in_order(dev, stream))
			return NULL;
	}
}

uint64
resolver_unreturned(const DeviceRows *dev, uint64 *sum)
{
	const TieResolver *resolver = dev->resolver;

	*sum = 0;
	if (resolver == NULL)
		return 0;
	for (size_t i = resolver->at; i < resolver->n; i++)
	{
		const char *row = arena_at(&resolver->kept, resolver->rids[i]);

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
