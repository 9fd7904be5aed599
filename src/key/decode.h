/*
 * decode.h
 *	  A packed key back into its columns.
 */
#ifndef GPUSORT_DECODE_H
#define GPUSORT_DECODE_H

#include "postgres.h"

#include "key/pack.h"

/* Is a column's value known from its image?  Not a float's: -0 and NaNs. */
extern bool key_decodable(KeyKind kind);

/* The datum that key_image() made this image of. */
static inline Datum
key_datum(KeyKind kind, uint64 flip, uint64 image)
{
	image ^= flip;
	switch (kind)
	{
		case KEY_INT4:
			return Int32GetDatum((int32) ((uint32) image ^ IMAGE_SIGN32));
		case KEY_INT8:
			return Int64GetDatum((int64) (image ^ IMAGE_SIGN64));
		case KEY_INT2:
			return Int16GetDatum((int16) (int32) ((uint32) image ^ IMAGE_SIGN32));
		case KEY_UINT4:
			/* signed, as fetch_att() would: datums are also compared as words */
			return Int32GetDatum((int32) (uint32) image);
		case KEY_UINT8:
			return CharGetDatum((char) (uint8) image);
		case KEY_FLOAT4:
		case KEY_FLOAT8:
			break;
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
