/*
 * keys_only.h
 *	  Sorts whose rows are their keys.
 */
#ifndef GPUSORT_KEYS_ONLY_H
#define GPUSORT_KEYS_ONLY_H

#include "sort/sorter.h"

/* Can rows of this kind be made of their sort keys? */
extern bool keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys);

extern void keys_only_put(Sorter *sorter, TupleTableSlot *slot);

/* Sorts the staged keys into sorter->keys[0 .. n). */
extern void keys_only_sort(Sorter *sorter);

/* Writes them to a run, as rows. */
extern void keys_only_write_run(Sorter *sorter, RunWriter *writer);

/* Puts the i-th key's row into a virtual slot. */
extern void keys_only_to_slot(Sorter *sorter, size_t i, TupleTableSlot *slot);

/* The sum of the keys from that on, in a layout: device_check_sum(). */
extern uint64 keys_only_sum(Sorter *sorter, const KeyLayout *layout, size_t from);

/* Copies a stored row into a virtual slot. */
extern void keys_only_copy_row(Sorter *sorter, MinimalTuple row, TupleTableSlot *slot);

#endif							/* GPUSORT_KEYS_ONLY_H */
