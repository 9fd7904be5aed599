/*
 * key_column.h
 *	  Key columns: the SQL types that can be sort keys, the key kind of each, and key makers,
 *	  the state of the functions that make normalized keys.
 */
#ifndef GPUSORT_KEY_KEY_COLUMN_H
#define GPUSORT_KEY_KEY_COLUMN_H

#include "postgres.h"

#include "access/attnum.h"
#include "key/type/traits.h"

struct SortSupportData;

/* One column of the ORDER BY. */
typedef struct KeyColumn
{
	AttrNumber	attno;			/* column of the sort's input, from 1 */
	Oid			sortop;			/* ordering operator */
	Oid			collation;
	bool		nulls_first;
	bool		descending;
	KeyKind		kind;
} KeyColumn;

/*
 * Sets the kind and direction of key, whose ordering operator and collation are
 * set.  Returns false and a reason in *why if the operator is not a btree ordering
 * operator, has no comparison function, or lacks a collation.
 */
extern bool key_type_lookup(KeyColumn *key, Oid type, const char **why);

/*
 * Does the column sort strings by a collation?  If so, *kind is the kind of the
 * operator's type, which tells how its strings are stored.
 */
extern bool key_sorts_strings(const KeyColumn *key, KeyKind *kind);

/*
 * Does the order of the column's strings mostly follow an order of characters of UTF-8?  The order
 * of a collation does, and the order of citext, whose values have the format of text.
 */
extern bool key_sorts_by_letters(const KeyColumn *key);

/*
 * Are two values equal in the sort's order exactly if the equality operator of the order's operator class finds them
 * equal?  If not, equal values need not be neighbours in the sorted rows.  With a nondeterministic collation only the
 * default operator classes of strings are known to agree.  Two that do not: ~<~ compares bytes, while the
 * equality operator of its class follows the collation; citext compares by the collation, and its equality
 * operator compares bytes.
 */
extern bool key_orders_by_equality(const KeyColumn *key);

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

#endif							/* GPUSORT_KEY_KEY_COLUMN_H */
