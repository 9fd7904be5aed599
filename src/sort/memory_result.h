/*
 * memory_result.h
 *	  Results of rows and keys in memory.
 */
#ifndef GPUSORT_SORT_MEMORY_RESULT_H
#define GPUSORT_SORT_MEMORY_RESULT_H

#include "postgres.h"

#include "sort/memory_sort.h"
#include "sort/result.h"
#include "sort/sort_env.h"

/* Begins to decode the keys of a sort of keys without rows. */
extern void key_reader_begin(KeyReader *reader, SortEnv *env, const KeyBuffer *keybuf,
							 const Sorted *sorted);

/* A row of keys with TIDs. */
typedef union TidRow
{
	MinimalTupleData row;

	/* header and NULL bitmap, values with padding, and the writer's excess */
	char		room[MAXALIGN(SizeofMinimalTupleHeader + 8) + KEY_MAX_COLUMNS * 16 + 16];
} TidRow;

/* Makes the row of key i, which is decoded. */
static inline void
key_reader_tid_row(const KeyReader *reader, RowWriter *writer, size_t i, TidRow *to)
{
	Datum		values[KEY_MAX_COLUMNS];
	bool		isnull[KEY_MAX_COLUMNS];
	uint32		rid = reader->decoded->rids[i - reader->start];
	ItemPointerData tid;

	key_reader_row(reader, i, values, isnull);
	Assert(row_writer_room(writer, values, isnull) <= sizeof(*to));
	(void) row_writer_write(writer, values, isnull, to->room);
	tid_of_rid(rid, &tid);
	row_set_tid(to->room, &tid);
	if ((rid & TID_RID_DEAD) != 0)
		to->row.t_infomask2 |= ROW_DEAD;
}

/* Methods of results in arrays. */
extern bool result_keys_next(SortResult *result, bool forward, TupleTableSlot *slot);
extern void result_rows_peek(SortResult *result, uint64 i, TupleTableSlot *slot);
extern void result_keys_peek(SortResult *result, uint64 i, TupleTableSlot *slot);
extern uint64 result_array_skip(SortResult *result, uint64 rows);
extern void result_array_rewind(SortResult *result);
extern void result_array_mark(SortResult *result);
extern void result_array_restore(SortResult *result);

/* Begins a result of sorted keys. */
extern SortResult *result_keys_begin(KeysResult *result, SortEnv *env, const KeyBuffer *keybuf,
									 const Sorted *sorted);

#endif							/* GPUSORT_SORT_MEMORY_RESULT_H */
