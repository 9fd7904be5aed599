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

/* Methods of results in arrays. */
extern bool result_keys_next(SortResult *result, bool forward, TupleTableSlot *slot);
extern void result_keys_peek(SortResult *result, uint64 i, TupleTableSlot *slot);
extern uint64 result_array_skip(SortResult *result, uint64 rows);
extern void result_array_rewind(SortResult *result);
extern void result_array_mark(SortResult *result);
extern void result_array_restore(SortResult *result);

/* Begins a result of sorted keys. */
extern SortResult *result_keys_begin(KeysResult *result, SortEnv *env, const KeyBuffer *keybuf,
									 const Sorted *sorted);

#endif							/* GPUSORT_SORT_MEMORY_RESULT_H */
