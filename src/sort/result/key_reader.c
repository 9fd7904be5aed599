/*
 * key_reader.c
 *	  Sorted keys that are the rows, decoded as they are read.
 *
 * SELECT k ... ORDER BY k, the inputs of DISTINCT, of GROUP BY and of many merge
 * joins have no column that is not a sort key, and the value of an integer, a
 * date or a time can be told from its image.  Then rows need not be kept at all:
 * keys are staged, packed without rids, sorted, and decoded as they are given
 * out.  There is no arena to fill and no row to fetch from a random place; equal
 * rows cannot be told apart, so any sort of them is stable.
 *
 * Floats are not decoded (-0 and NaN payloads would be lost), and the columns must
 * fit 128 bits at their natural width, so that the key is always exact: only kinds
 * with exact images are decodable.
 *
 * Memory policy: a few hundred decoded keys, kept for the next sort.
 */
#include "postgres.h"

#include "key/decode.h"
#include "sort/order.h"
#include "sort/result/key_reader.h"
#include "sort/sort_env.h"

bool
keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	int			bits = 0;

	if (nkeys > STAGE_MAX_COLUMNS)
		return false;
	for (int k = 0; k < nkeys; k++)
	{
		if (!key_decodable(keys[k].kind))
			return false;
		/* one bit more for a NULL */
		bits += key_wide(keys[k].kind) ? 65 : 33;
	}
	if (bits > 128)
		return false;

	for (int att = 0; att < desc->natts; att++)
	{
		bool		found = false;

		for (int k = 0; k < nkeys; k++)
			found |= (keys[k].attno == att + 1);
		if (!found)
			return false;
	}
	return true;
}

void
key_reader_begin(KeyReader *reader, SortEnv *env, const Stage *stage, const Sorted *sorted)
{
	if (env->decoded == NULL)
		env->decoded = MemoryContextAlloc(env->cxt, sizeof(DecodedKeys));
	reader->decoded = env->decoded;
	reader->start = reader->count = 0;
	reader->stage = stage;
	reader->keys = sorted->keys;
	reader->format = sorted->format;
	reader->layout = sorted->layout;
}

void
key_reader_decode(KeyReader *reader, size_t i, size_t n)
{
	/* these are where the reader goes, also backwards */
	size_t		start = i / KEY_READER_ROWS * KEY_READER_ROWS;
	int			count = (int) Min(KEY_READER_ROWS, n - start);
	DecodedKeys *decoded = reader->decoded;

	if (reader->format == SORT_REC_PACKED)
		decode_words(reader->stage, &reader->layout, (const uint64 *) reader->keys + start, count,
					 KEY_READER_ROWS, decoded->values[0], decoded->isnull[0]);
	else
	{
		const SortRec128 *recs = (const SortRec128 *) reader->keys + start;

		for (int k = 0; k < count; k++)
			decode_key128(reader->stage, &reader->layout, (Key128) recs[k].hi << 64 | recs[k].lo,
						  KEY_READER_ROWS, &decoded->values[0][k], &decoded->isnull[0][k]);
	}
	reader->start = start;
	reader->count = count;
}
