/*
 * strings.h
 *	  Keys that are strings of bytes: text, varchar, char(n), name, bytea.
 */
#ifndef GPUSORT_STRINGS_H
#define GPUSORT_STRINGS_H

#include "postgres.h"

#include "compat.h"
#include "key/stage.h"

/* Where a value's bytes lie. */
typedef struct KeyString
{
	const char *p;
	size_t		len;
} KeyString;

/* Is this value stored elsewhere, or compressed? */
static inline bool
string_is_toasted(KeyKind kind, Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);

	return kind != KEY_NAME && (VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p));
}

/* The bytes of a value that is not. */
static inline KeyString
string_of(KeyKind kind, Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);
	KeyString	s;

	if (kind == KEY_NAME)
	{
		s.p = p;
		s.len = strnlen(p, NAMEDATALEN);
		return s;
	}
	s.p = VARDATA_ANY(p);
	s.len = VARSIZE_ANY_EXHDR(p);
	if (kind == KEY_BPCHAR)
	{
		while (s.len > 0 && s.p[s.len - 1] == ' ')
			s.len--;
	}
	return s;
}

/* Has the value its column's prefix, which is not longer than BYTES_PREFIX_MAX? */
extern bool string_has_prefix(const StageColumn *col, Datum value);

/*
 * Row i's value has not the prefix of its column, or may not have: shortens the
 * prefix and moves the images of rows [0, i).  The row's image is returned.
 */
extern uint64 string_stage(Stage *stage, StageColumn *col, size_t i, Datum value, bool *inexact);

/* What is known of a column behind a prefix of from bytes, for one of to bytes. */
extern void string_shift_range(const StageColumn *col, int from, int to, KeyRange *range);

/*
 * A frozen prefix is given up, if there may be strings without it: they are anywhere before or
 * behind those that have it.
 */
extern void string_give_up_prefix(const StageColumn *col, KeyRange *range, BytesPrefix *prefix);

#endif							/* GPUSORT_STRINGS_H */
