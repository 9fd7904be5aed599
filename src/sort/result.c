/*
 * result.c
 *	  Results in memory: arrays of rids, or of keys.
 */
#include "postgres.h"

#include "key/key.h"
#include "sort/sort.h"
#include "sort/sort_internal.h"

void
result_once(SortResult *result)
{
	elog(ERROR, "gpusort: this sort's result can be read only once, forward");
}

void
result_holds_nothing(SortResult *result)
{
}

/* ------------------------------------------------------------------------
 * Results that are an array in memory: of rids of rows, or of sorted keys.
 * ------------------------------------------------------------------------
 */

/*
 * The number of the next row, either way, with a Sort's manners at the ends; false
 * if there is none.
 */
static bool
step(ArrayResult *array, bool forward, size_t *i)
{
	if (forward)
	{
		if (array->pos >= array->n)
		{
			array->eof = true;
			return false;
		}
		*i = array->pos++;
		return true;
	}

	if (array->pos == 0)
		return false;
	if (array->eof)
		array->eof = false;		/* the last row comes again */
	else
	{
		array->pos--;
		if (array->pos == 0)
			return false;
	}
	*i = array->pos - 1;
	return true;
}

void
result_array_rewind(SortResult *result)
{
	ArrayResult *array = (ArrayResult *) result;

	array->pos = array->mark_pos = 0;
	array->eof = array->mark_eof = false;
}

void
result_array_mark(SortResult *result)
{
	ArrayResult *array = (ArrayResult *) result;

	array->mark_pos = array->pos;
	array->mark_eof = array->eof;
}

void
result_array_restore(SortResult *result)
{
	ArrayResult *array = (ArrayResult *) result;

	array->pos = array->mark_pos;
	array->eof = array->mark_eof;
}

void
result_rows_ask(const MemoryResult *memory)
{
	size_t		pos = memory->array.pos;
	size_t		n = memory->array.n;
	size_t		to = Min(pos + 2 * RESULT_PREFETCH, n);

	/* rows of a small sort have not left the caches */
	if (n <= RESULT_PREFETCH)
		return;
	for (size_t i = pos == 0 ? 0 : pos + RESULT_PREFETCH; i < to; i++)
		row_prefetch(arena_at(&memory->arena, memory->rids[i]), memory->row_bytes);
}

bool
result_rows_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	MemoryResult *memory = (MemoryResult *) result;
	size_t		i;

	if (!step(&memory->array, forward, &i))
		return false;
	row_to_slot(slot, (MinimalTuple) arena_at(&memory->arena, memory->rids[i]));
	return true;
}

static bool
result_keys_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	KeysResult *keys = (KeysResult *) result;
	size_t		i;

	if (!step(&keys->array, forward, &i))
		return false;
	if (!key_reader_has(&keys->reader, i))
		key_reader_decode(&keys->reader, i, keys->array.n);
	key_reader_to_slot(&keys->reader, i, slot);
	return true;
}

static const ResultMethods rows_methods = {
	.kind = RESULT_ROWS,
	.next = result_rows_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.end = result_holds_nothing
};

static const ResultMethods keys_methods = {
	.kind = RESULT_KEYS,
	.next = result_keys_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.end = result_holds_nothing
};

static void
array_begin(ArrayResult *array, const ResultMethods *methods, SortEnv *env, size_t n)
{
	memset(array, 0, sizeof(*array));
	array->base.methods = methods;
	array->base.env = env;
	array->n = n;
}

SortResult *
result_rows_begin(MemoryResult *result, SortEnv *env, const Arena *arena, const Sorted *sorted)
{
	array_begin(&result->array, &rows_methods, env, sorted->n);
	result->rids = sorted->rids;
	result->row_bytes = result_row_bytes(arena, sorted->n);
	result->arena = *arena;
	return &result->array.base;
}

SortResult *
result_keys_begin(KeysResult *result, SortEnv *env, const KeyBuffer *keybuf, const Sorted *sorted)
{
	array_begin(&result->array, &keys_methods, env, sorted->n);
	key_reader_begin(&result->reader, env, keybuf, sorted);
	return &result->array.base;
}

/* ------------------------------------------------------------------------
 * Sorted keys that are the rows, decoded as they are read.
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
 * ------------------------------------------------------------------------
 */

bool
keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	int			bits = 0;

	if (nkeys > KEY_MAX_COLUMNS)
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
key_reader_begin(KeyReader *reader, SortEnv *env, const KeyBuffer *keybuf, const Sorted *sorted)
{
	if (env->decoded == NULL)
		env->decoded = MemoryContextAlloc(env->cxt, sizeof(DecodedKeys));
	reader->decoded = env->decoded;
	reader->start = reader->count = 0;
	reader->keybuf = keybuf;
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
		decode_words(reader->keybuf, &reader->layout, (const uint64 *) reader->keys + start, count,
					 KEY_READER_ROWS, decoded->values[0], decoded->isnull[0]);
	else
	{
		const SortRec128 *recs = (const SortRec128 *) reader->keys + start;

		for (int k = 0; k < count; k++)
			decode_key128(reader->keybuf, &reader->layout, (Key128) recs[k].hi << 64 | recs[k].lo,
						  KEY_READER_ROWS, &decoded->values[0][k], &decoded->isnull[0][k]);
	}
	reader->start = start;
	reader->count = count;
}
