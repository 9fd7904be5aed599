/*
 * batch.h
 *	  Rows and their staged keys: what one sort, or one run of it, is made of.
 *
 * A batch has one writer.  Rows are named by rids, keys by their place, and what
 * has been seen of the keys' ranges is noted with them, so that a batch means
 * something to whoever can map its memory.  Nothing points out of it: whose that memory is and
 * what images are made with its writer brings along (StageWriter).  Of a sort whose rows are
 * their keys it holds keys alone.
 *
 * Memory: what rows and the stage's arrays take, and what sorting will take, is counted
 * row by row (batch_taken); keeping it below a limit is the sink's business.
 */
#ifndef GPUSORT_BATCH_H
#define GPUSORT_BATCH_H

#include "postgres.h"

#include "key/stage.h"
#include "sort/row_page.h"
#include "store/arena.h"
#include "store/row.h"

typedef struct Batch
{
	Arena		arena;
	Stage		stage;			/* has the ranges, too */
	Size		limit;			/* bytes that it and sorting it may take */
	Size		sort_cost;		/* of them, per row, what is not staged */
	size_t		max_rows;		/* to stage and sort at once */
	size_t		expected;		/* to come; 0: a few */
} Batch;

extern void batch_init(Batch *batch, const KeyColumn *keys, int nkeys, bool keys_only);

/* Before the rows of a sort. */
extern void batch_begin(Batch *batch, Size limit, bool bounded, double rows_expected);

/*
 * Room in the stage for some more rows; false if the rows that are there have to
 * be sorted before.
 */
extern bool batch_stage_room(Batch *batch, BulkOwner *owner, size_t rows);

/* Forgets the rows, keeps the memory. */
extern void batch_reset(Batch *batch, BulkOwner *owner);

/* Gives all memory back. */
extern void batch_free(Batch *batch, BulkOwner *owner);

/* Forgets the rows; keeps what a small sort needs, gives a large one's memory back. */
extern void batch_trim(Batch *batch, BulkOwner *owner);

/* Gives up the staged keys of a large sort. */
extern void batch_free_keys(Batch *batch, BulkOwner *owner);

/* Takes all rows of a direct page; false, and none, if they may go beyond the limit. */
extern bool batch_put_page(Batch *batch, const StageWriter *keys, RowPage *page);

/* Takes row i of a direct page, whose keys lie there; false if there is no room. */
extern bool batch_put_page_row(Batch *batch, const StageWriter *keys, RowPage *page, int i,
							   PageKeyPlaces where);

/* Takes the keys of the page's rows from first on; likewise. */
extern bool batch_put_page_keys(Batch *batch, const StageWriter *keys, RowPage *page, int first);

/* The memory that is taken, and that sorting what is there will take. */
static inline Size
batch_taken(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->stage.bytes + batch->stage.n * batch->sort_cost;
}

/* What rows and keys take now. */
static inline Size
batch_held(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->stage.bytes;
}

/* Bytes per row to stage and sort its key. */
static inline Size
batch_key_cost(const Batch *batch)
{
	return batch->stage.row_bytes + batch->sort_cost;
}

/* Takes the slot's row, whose key columns are deformed; false if there is no room. */
static inline bool
batch_put_row(Batch *batch, const StageWriter *keys, RowWriter *writer, TupleTableSlot *slot)
{
	Stage	   *stage = &batch->stage;
	uint32		rid;

	if (unlikely(stage->n == stage->capacity) && !batch_stage_room(batch, keys->owner, 1))
		return false;
	if (unlikely(!row_store(writer, &batch->arena, keys->owner, slot, &rid)))
		return false;
	stage_row(stage, keys, slot->tts_values, slot->tts_isnull, rid);
	return true;
}

/* Takes its keys alone; likewise. */
static inline bool
batch_put_key(Batch *batch, const StageWriter *keys, TupleTableSlot *slot)
{
	Stage	   *stage = &batch->stage;

	if (unlikely(stage->n == stage->capacity) && !batch_stage_room(batch, keys->owner, 1))
		return false;
	stage_row(stage, keys, slot->tts_values, slot->tts_isnull, 0);
	return true;
}

#endif							/* GPUSORT_BATCH_H */
