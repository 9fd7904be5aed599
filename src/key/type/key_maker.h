/*
 * key_maker.h
 *	  What a column's images are made with.
 */
#ifndef GPUSORT_KEY_MAKER_H
#define GPUSORT_KEY_MAKER_H

#include "postgres.h"

#include "key/type/keytype.h"

/* Of images of this kind, in memory of cxt: the column's, or that of its second word. */
extern KeyMaker key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind);

/*
 * What the images of this kind are made of: those of two processes compare if this is the same.
 * 0: nothing is known yet, or they always compare.
 */
extern uint64 key_maker_parts(KeyKind kind, KeyMaker maker);

#endif							/* GPUSORT_KEY_MAKER_H */
