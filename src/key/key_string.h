/*
 * key_string.h
 *	  Strings: text, varchar, char(n), name, bytea.
 */
#ifndef GPUSORT_KEY_KEY_STRING_H
#define GPUSORT_KEY_KEY_STRING_H

#include "postgres.h"

#include "compat.h"
#include "key/key_buffer.h"

/* The bytes of a string value. */
typedef struct KeyString
{
	const char *p;
	size_t		len;
} KeyString;

/* Is the value compressed or stored out of line? */
static inline bool
string_is_toasted(KeyKind kind, Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);

	return kind != KEY_NAME && (VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p));
}

/* The bytes of a value that is not toasted, without the trailing blanks of char(n). */
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

/* The normalized key of a string of a column with this prefix; direction not applied. */
static inline uint64
string_normkey_behind(KeyKind kind, const BytesPrefix *prefix, KeyString s, bool *inexact)
{
	/* the string's zero byte looks like padding */
	if (kind == KEY_BYTEA && s.len > 0 && s.p[s.len - 1] == '\0')
		*inexact = true;
	return bytes_normkey(prefix, s.p, s.len, inexact);
}

/* Does the value begin with its column's prefix? */
extern bool string_has_prefix(const KeyBufferColumn *col, Datum value);

/* Converts a range behind a prefix of from bytes to one behind a prefix of to bytes. */
extern void string_shift_range(const KeyBufferColumn *col, int from, int to, KeyRange *range);

/* Name of the C library's locale of this collation, palloc'd; NULL for other providers. */
extern char *collation_libc_locale(Oid collation);

#endif							/* GPUSORT_KEY_KEY_STRING_H */
