/*
 * key_taker.h
 *	  KeyTaker: takes the keys of a sort of keys without rows, in another layout.
 */
#ifndef GPUSORT_SORT_KEY_TAKER_H
#define GPUSORT_SORT_KEY_TAKER_H

#include "postgres.h"

#include "sort/result.h"

typedef struct KeyTaker KeyTaker;

/*
 * Creates a taker for a result that has take_keys(), in the current memory context.  The layout
 * has room for all values of the result.
 */
extern KeyTaker *key_taker_create(SortResult *result, const KeyLayout *layout);

/*
 * Writes the following keys that fit this number of bytes: uint64 if the layout has up to 64 bits,
 * otherwise Key128.  Returns how many; 0 at the end.
 */
extern size_t key_taker_take(KeyTaker *taker, void *keys, Size bytes);

#endif							/* GPUSORT_SORT_KEY_TAKER_H */
