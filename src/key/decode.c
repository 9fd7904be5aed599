/*
 * decode.c
 *	  A packed key back into its columns: for sorts whose rows are their keys.
 */
#include "postgres.h"

#include "key/decode.h"

#define DECODE_LOOP(kind, image, type, from_datum, make, back) \
		case kind: \
			for (int i = 0; i < count; i++) \
				values[i] = back((((words[i] >> shift) & mask) + base) ^ flip); \
			break;
#define NO_DECODE_LOOP(kind, ...) \
		case kind: pg_unreachable();

/* The values of a column whose lowest bit is at shift; NULLs are yet to be told. */
static void
decode_column(const StageColumn *col, const LayoutColumn *lc, int shift,
			  const uint64 *words, int count, Datum *values)
{
	const uint64 mask = lc->bits < 64 ? (UINT64CONST(1) << lc->bits) - 1 : PG_UINT64_MAX;
	const uint64 base = lc->base - lc->add;
	const uint64 flip = col->flip;

	switch (col->kind)
	{
		KEY_KINDS(DECODE_LOOP, NO_DECODE_LOOP, NO_DECODE_LOOP)
	}
}

void
decode_words(const Stage *stage, const KeyLayout *layout, const uint64 *words, int count,
			 int stride, Datum *values, bool *isnull)
{
	int			shift = 0;

	for (int c = layout->ncols - 1; c >= 0; c--)
	{
		const StageColumn *col = &stage->cols[c];
		const LayoutColumn *lc = &layout->cols[c];

		if (lc->bits == 0)
		{
			/* one value: no bit of the key tells it, and shift may be 64 */
			Datum		value = decode_value(col, lc, 0, isnull + c * stride);

			for (int i = 0; i < count; i++)
			{
				values[c * stride + i] = value;
				isnull[c * stride + i] = isnull[c * stride];
			}
			continue;
		}
		decode_column(col, lc, shift, words, count, values + c * stride);
		if (!col->range.has_null)
			memset(isnull + c * stride, 0, count * sizeof(bool));
		else
		{
			for (int i = 0; i < count; i++)
				(void) decode_value(col, lc,
									lc->bits < 64 ? (words[i] >> shift) & ((UINT64CONST(1) << lc->bits) - 1) :
									words[i], &isnull[c * stride + i]);
		}
		shift += lc->bits;
	}
}

void
decode_key128(const Stage *stage, const KeyLayout *layout, Key128 key, int stride,
			  Datum *values, bool *isnull)
{
	for (int c = layout->ncols - 1; c >= 0; c--)
	{
		const StageColumn *col = &stage->cols[c];
		const LayoutColumn *lc = &layout->cols[c];
		Key128		value = key & (((Key128) 1 << lc->bits) - 1);

		key >>= lc->bits;
		values[c * stride] = decode_value(col, lc, value, &isnull[c * stride]);
	}
}
