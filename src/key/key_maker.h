/*
 * key_maker.h
 *	  Key makers: state of the functions that make normalized keys.
 */
#ifndef GPUSORT_KEY_KEY_MAKER_H
#define GPUSORT_KEY_KEY_MAKER_H

#include "postgres.h"

#include "key/key_column.h"

struct SortSupportData;

/* Makes the key maker of a column, or of its second word, in cxt. */
extern KeyMaker key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind);

/*
 * Type and collation of the first parts that the key maker has seen (nested
 * kinds).  Normalized keys of two processes compare only if these are the same.  0: no
 * value has been seen, or the kind has no parts.
 */
extern uint64 key_maker_part_type(KeyKind kind, KeyMaker maker);

/* KEY_ABBREVIATED if the column's sort support has abbreviated keys, else KEY_COMPARED. */
extern KeyKind abbreviated_kind(const KeyColumn *key);

/* Sort support of a column in cxt, with abbreviated keys if abbreviate. */
extern struct SortSupportData *abbreviated_support(MemoryContext cxt, const KeyColumn *key, bool abbreviate);

#endif							/* GPUSORT_KEY_KEY_MAKER_H */
