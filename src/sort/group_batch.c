/*
 * group_batch.c
 *	  Sorts rows of many small groups, which come group by group.
 *
 * A sorter would spend more time on beginning and ending than on the few rows of a small
 * group.  Here the rows of several groups share an arena and an array of row ids.  The
 * rows of a group are rows with equal keys, namely the columns by which the input is
 * ordered, so a tiebreak sorts each group by the columns behind them.  A group of one row
 * is stored and returned, and its sort columns are not read.
 *
 * Memory policy: the owner limits the rows by group_batch_bytes().  The memory of small
 * batches is kept until group_batch_destroy().
 */
#include "postgres.h"

#include "settings.h"
#include "sort/sort.h"
#include "sort/sort_internal.h"
#include "utils/memutils.h"

struct GroupBatch
{
	MemoryContext cxt;
	BulkOwner  *bulk;
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Arena		arena;
	MemoryResult result;
	TieGroups	groups;
	size_t		last;			/* first row of the last group */
	size_t		n;				/* rows */
	uint32		rids[GROUP_BATCH_ROWS];
	bool		begins[GROUP_BATCH_ROWS];	/* the row is the first of its
											 * group; by place */
};

GroupBatch *
group_batch_create(TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort groups",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	GroupBatch *batch = palloc0(sizeof(GroupBatch));

	batch->cxt = cxt;
	batch->bulk = bulk_owner_create(cxt, NULL);
	batch->writer = row_writer_create(desc);
	batch->tiebreak = tiebreak_create(cxt, batch->bulk, desc, keys, nkeys);
	MemoryContextSwitchTo(old);
	group_batch_reset(batch);
	return batch;
}

void
group_batch_destroy(GroupBatch *batch)
{
	MemoryContextDelete(batch->cxt);
}

void
group_batch_reset(GroupBatch *batch)
{
	if (unlikely(batch->arena.nowned > 1))
		arena_free(&batch->arena, batch->bulk);
	else
		arena_reset(&batch->arena, batch->bulk);
	batch->n = batch->last = 0;
	tie_groups_begin(&batch->groups, batch->tiebreak, &batch->arena, batch->rids);
}

void
group_batch_put(GroupBatch *batch, TupleTableSlot *slot, bool new_group)
{
	size_t		n = batch->n;

	Assert(n < GROUP_BATCH_ROWS);
	if (unlikely(!row_store(batch->writer, &batch->arena, batch->bulk, slot, &batch->rids[n])))
		elog(ERROR, "rows of a group batch do not fit its arena");
	batch->begins[n] = new_group;
	if (new_group)
		batch->last = n;
	else
		tie_groups_equal(&batch->groups, n);
	batch->n++;
}

size_t
group_batch_rows(const GroupBatch *batch)
{
	return batch->n;
}

size_t
group_batch_last(const GroupBatch *batch)
{
	return batch->last;
}

Size
group_batch_bytes(const GroupBatch *batch)
{
	return arena_used(&batch->arena);
}

void
group_batch_row(const GroupBatch *batch, size_t i, TupleTableSlot *slot)
{
	row_to_slot(slot, (MinimalTuple) arena_at(&batch->arena, batch->rids[i]));
}

/* gpusort.verify: raises an error unless rows of a group are in order, equal rows as they came. */
static void
verify_groups(const GroupBatch *batch, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		uint32		a = batch->rids[i - 1];
		uint32		b = batch->rids[i];
		int			cmp;

		if (batch->begins[i])
			continue;
		cmp = tiebreak_compare(batch->tiebreak, (MinimalTuple) arena_at(&batch->arena, a),
							   (MinimalTuple) arena_at(&batch->arena, b));
		if (cmp > 0 || (cmp == 0 && a >= b))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("gpusort: rows of a group are out of order")));
	}
}

SortResult *
group_batch_sort(GroupBatch *batch, bool last_too)
{
	Sorted		sorted = {.rids = batch->rids,.n = last_too ? batch->n : batch->last};

	/* a group of one row is not among the groups */
	if (!last_too && batch->groups.last.start == batch->last)
		batch->groups.last.end = 0;
	(void) tie_groups_end(&batch->groups);
	if (gpusort_verify)
		verify_groups(batch, sorted.n);
	return result_rows_begin(&batch->result, NULL, &batch->arena, &sorted);
}
