/*
 * decode.c
 *	  A packed key back into its columns: for sorts whose rows are their keys.
 */
#include "postgres.h"

#include "key/decode.h"

bool
key_decodable(KeyKind kind)
{
	return kind != KEY_FLOAT4 && kind != KEY_FLOAT8;
}

void
decode_key128(const Stage *stage, const KeyLayout *layout, Key128 key,
			  Datum *values, bool *isnull)
{
	for (int c = layout->ncols - 1; c >= 0; c--)
	{
		const StageColumn *col = &stage->cols[c];
		const LayoutColumn *lc = &layout->cols[c];
		Key128		value = key & (((Key128) 1 << lc->bits) - 1);

		key >>= lc->bits;
		values[col->att] = decode_value(col, lc, value, &isnull[col->att]);
	}
}
