/*
 * keytype.h
 *	  Which SQL types can be sort keys, and how a column of each is encoded.
 */
#ifndef GPUSORT_KEYTYPE_H
#define GPUSORT_KEYTYPE_H

#include "postgres.h"

#include "access/attnum.h"

/* How a datum becomes an image.  Stored in plans: append only. */
typedef enum KeyKind
{
	KEY_UINT8,					/* bool, "char" */
	KEY_INT2,
	KEY_INT4,					/* int4, date */
	KEY_UINT4,					/* oid */
	KEY_FLOAT4,
	KEY_INT8,					/* int8, money, time, timestamp, timestamptz */
	KEY_FLOAT8
} KeyKind;

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
 * Encoding for an ordering operator.  False, and the reason in *why, if the
 * operator is not one of the default btree ordering of a type we know.
 */
extern bool key_type_lookup(Oid sortop, KeyKind *kind, bool *descending,
							const char **why);

#endif							/* GPUSORT_KEYTYPE_H */
