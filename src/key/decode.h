/*
 * decode.h
 *	  A packed key back into its columns.
 */
#ifndef GPUSORT_DECODE_H
#define GPUSORT_DECODE_H

#include "postgres.h"

#include "key/pack.h"

/* The datum of a decodable kind that key_image() made this image of. */
static inline Datum
key_datum(KeyKind kind, uint64 flip, uint64 bits)
{
	switch (kind)
	{
#define VALUE_DATUM(kind, image, type, from_datum, make, back)	case kind: return back(bits ^ flip);
#define NO_DATUM(kind, ...)	case kind: break;
		KEY_KINDS(VALUE_DATUM, NO_DATUM, NO_DATUM)
	}
	pg_unreachable();
}

/* One column's value out of the key's lowest bits, where the column stands. */
static inline Datum
decode_value(const StageColumn *col, const LayoutColumn *lc, Key128 value, bool *isnull)
{
	*isnull = col->range.has_null && (lc->bits == 0 || value == lc->null_value);
	if (*isnull)
		return (Datum) 0;
	return key_datum(col->kind, col->flip, (uint64) value - lc->add + lc->base);
}

/*
 * The columns of count keys that are right-aligned in words: column c of key i
 * goes to values[c * stride + i] and isnull[c * stride + i].
 */
extern void decode_words(const Stage *stage, const KeyLayout *layout, const uint64 *words,
						 int count, int stride, Datum *values, bool *isnull);

/* All columns of a key of 128 bits: column c goes to values[c * stride]. */
extern void decode_key128(const Stage *stage, const KeyLayout *layout, Key128 key,
						  int stride, Datum *values, bool *isnull);

#endif							/* GPUSORT_DECODE_H */
