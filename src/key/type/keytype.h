/*
 * keytype.h
 *	  Which SQL types can be sort keys, and how a column of each is encoded.
 */
#ifndef GPUSORT_KEY_TYPE_KEYTYPE_H
#define GPUSORT_KEY_TYPE_KEYTYPE_H

#include "postgres.h"

#include "access/attnum.h"
#include "key/type/traits.h"

/* One column of the ORDER BY. */
typedef struct KeyColumn
{
	AttrNumber	attno;			/* in the sort's input, from 1 */
	Oid			sortop;
	Oid			collation;
	bool		nulls_first;
	bool		descending;
	KeyKind		kind;
} KeyColumn;

/*
 * Encoding for a column of this type by its ordering operator and collation, which
 * key has: sets its kind and direction.  False, and the reason in *why, if the
 * operator is not a btree ordering, or does not say how to order.
 */
extern bool key_type_lookup(KeyColumn *key, Oid type, const char **why);

/*
 * Is the column's order one of strings by their collation?  Then *kind is how strings of
 * the operator's type lie.
 */
extern bool key_sorts_strings(const KeyColumn *key, KeyKind *kind);

#endif							/* GPUSORT_KEY_TYPE_KEYTYPE_H */
