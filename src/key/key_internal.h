/*
 * key_internal.h
 *	  How normalized keys of each type are made.
 */
#ifndef GPUSORT_KEY_KEY_INTERNAL_H
#define GPUSORT_KEY_KEY_INTERNAL_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "utils/sortsupport.h"

/* Of images of this kind, in memory of cxt: the column's, or that of its second word. */
extern KeyMaker key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind);

/*
 * What the images of this kind are made of: those of two processes compare if this is the same.
 * 0: nothing is known yet, or they always compare.
 */
extern uint64 key_maker_part_type(KeyKind kind, KeyMaker maker);

/* ------------------------------------------------------------------------
 * How a collation compares strings.
 * ------------------------------------------------------------------------
 */

extern bool collation_by_bytes(Oid collation);

/*
 * Does its order of strings follow one of single characters, by and large, and are only
 * strings of the same bytes equal in it?
 */
extern bool collation_by_letters(Oid collation);

/* The name of the C library's locale that it is, palloc'd; NULL if it is none. */
extern char *collation_libc_locale(Oid collation);

/* ------------------------------------------------------------------------
 * Keys that a type abbreviates itself, or only compares.
 * ------------------------------------------------------------------------
 */

/* KEY_ABBREVIATED if the type abbreviates such a column's values, otherwise KEY_COMPARED. */
extern KeyKind abbreviated_kind(const KeyColumn *key);

/* The comparator of a column, with its abbreviation if wanted, in memory of cxt. */
extern SortSupport abbreviated_support(MemoryContext cxt, const KeyColumn *key, bool abbreviate);

/* ------------------------------------------------------------------------
 * Keys that are of enum types.
 * ------------------------------------------------------------------------
 */

typedef struct EnumOrder EnumOrder;

/* What is known of a sort's type: nothing, until the first value comes. */
extern EnumOrder *enum_order_create(MemoryContext cxt);

/* ------------------------------------------------------------------------
 * Keys that are of types made of others: arrays, ranges, multiranges and rows.
 * ------------------------------------------------------------------------
 */

typedef struct FirstPart FirstPart;

#endif							/* GPUSORT_KEY_KEY_INTERNAL_H */
