/*
 * key_internal.h
 *	  Key makers and collations, for key/ and the tie-break.
 */
#ifndef GPUSORT_KEY_KEY_INTERNAL_H
#define GPUSORT_KEY_KEY_INTERNAL_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "utils/sortsupport.h"

/* Makes the key maker of a column, or of its second word, in cxt. */
extern KeyMaker key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind);

/*
 * Type and collation of the first parts that the key maker has seen (key_nested()
 * kinds).  Normalized keys of two processes compare only if these are the same.  0: no
 * value has been seen, or the kind has no parts.
 */
extern uint64 key_maker_part_type(KeyKind kind, KeyMaker maker);

/* ------------------------------------------------------------------------
 * Collations
 * ------------------------------------------------------------------------
 */

/* Does the collation compare strings by their bytes? */
extern bool collation_by_bytes(Oid collation);

/*
 * Does the order of strings mostly follow an order of characters, and are strings equal
 * only if their bytes are?
 */
extern bool collation_by_letters(Oid collation);

/* Name of the C library's locale of this collation, palloc'd; NULL for other providers. */
extern char *collation_libc_locale(Oid collation);

/* ------------------------------------------------------------------------
 * Abbreviated keys
 * ------------------------------------------------------------------------
 */

/* KEY_ABBREVIATED if the column's sort support has abbreviated keys, else KEY_COMPARED. */
extern KeyKind abbreviated_kind(const KeyColumn *key);

/* Sort support of a column in cxt, with abbreviated keys if abbreviate. */
extern SortSupport abbreviated_support(MemoryContext cxt, const KeyColumn *key, bool abbreviate);

/* ------------------------------------------------------------------------
 * State of key makers
 * ------------------------------------------------------------------------
 */

typedef struct EnumOrder EnumOrder;

/* The positions of an enum's values, which are read when the first value arrives. */
extern EnumOrder *enum_order_create(MemoryContext cxt);

/* What keytype.c knows of the first parts of arrays, ranges and rows. */
typedef struct FirstPart FirstPart;

#endif							/* GPUSORT_KEY_KEY_INTERNAL_H */
