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

#endif							/* GPUSORT_KEY_MAKER_H */
