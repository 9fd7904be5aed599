/*
 * result.c
 *	  Results in memory: arrays of row ids, or of sorted keys.
 *
 * If every output column is a sort key of a decodable type, a sort needs no rows: keys
 * are buffered without row ids, sorted, and decoded when they are returned.  Such are
 * SELECT k ... ORDER BY k, and the inputs of DISTINCT, GROUP BY and many merge joins.
 * No arena is filled and no row is fetched at random.  Equal rows are identical, so any
 * order of them is stable.  Keys of an index build have row ids, which are TIDs
 * (SortSpec.rids_are_tids).
 *
 * Floats are not decoded, because -0 and NaN payloads would be lost.  All columns at
 * their natural width must fit 128 bits, so that the key is always exact.
 *
 * Memory policy: KEY_READER_ROWS decoded keys, kept for the next sort.
 */
#include "postgres.h"

#include "key/key.h"
#include "sort/memory_result.h"

/* A row is prefetched this many rows before it is looked at out of turn. */
#define PEEK_PREFETCH	8

void
result_once(SortResult *result)
{
	elog(ERROR, "gpusort: this sort's result can be read only once, forward");
}

/* ------------------------------------------------------------------------
 * Arrays
 * ------------------------------------------------------------------------
 */

/*
 * Moves to the next row in a direction.  False if there is none.  At the ends it
 * behaves as tuplesort_gettuple_common() does.
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
		array->eof = false;		/* returns the last row again */
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

uint64
result_array_skip(SortResult *result, uint64 rows)
{
	ArrayResult *array = (ArrayResult *) result;

	rows = Min(rows, array->n - array->pos);
	array->pos += rows;
	return rows;
}

static uint64
array_ahead(SortResult *result, bool *all)
{
	ArrayResult *array = (ArrayResult *) result;

	*all = true;
	return array->n - array->pos;
}

void
result_rows_peek(SortResult *result, uint64 i, TupleTableSlot *slot)
{
	MemoryResult *memory = (MemoryResult *) result;
	size_t		pos = memory->array.pos + i;

	/* a node may look at the rows one after another */
	if (pos + PEEK_PREFETCH < memory->array.n)
		row_prefetch(arena_at(&memory->arena, memory->rids[pos + PEEK_PREFETCH]), memory->row_bytes);
	row_to_slot(slot, (MinimalTuple) arena_at(&memory->arena, memory->rids[pos]));
}

void
result_rows_prefetch(const MemoryResult *memory)
{
	size_t		pos = memory->array.pos;
	size_t		n = memory->array.n;
	size_t		to = Min(pos + 2 * RESULT_PREFETCH, n);

	/* rows of a small sort are still cached */
	if (n <= RESULT_PREFETCH)
		return;
	for (size_t i = pos == 0 ? 0 : pos + RESULT_PREFETCH; i < to; i++)
		row_prefetch(arena_at(&memory->arena, memory->rids[i]), memory->row_bytes);
}

static bool
rows_next(SortResult *result, bool forward, TupleTableSlot *slot)
{
	MemoryResult *memory = (MemoryResult *) result;
	size_t		i;

	if (!step(&memory->array, forward, &i))
		return false;
	row_to_slot(slot, (MinimalTuple) arena_at(&memory->arena, memory->rids[i]));
	return true;
}

static int
rows_take(SortResult *result, MinimalTuple *rows, EqualColumns *equal)
{
	MemoryResult *memory = (MemoryResult *) result;
	size_t		pos = memory->array.pos;
	const uint32 *rids = memory->rids + pos;
	int			n = (int) Min(RESULT_TAKE - pos % RESULT_PREFETCH, memory->array.n - pos);

	if (pos % RESULT_PREFETCH == 0)
		result_rows_prefetch(memory);
	for (int i = 0; i < n; i++)
		rows[i] = (MinimalTuple) arena_at(&memory->arena, rids[i]);
	if (memory->equal != NULL)
		memcpy(equal, memory->equal + pos, n * sizeof(EqualColumns));
	else
		memset(equal, EQUAL_COLUMNS_LEAST, n * sizeof(EqualColumns));
	memory->array.pos += n;
	return n;
}

bool
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

/* Decodes one key, because the block around it may be read once only. */
void
result_keys_peek(SortResult *result, uint64 i, TupleTableSlot *slot)
{
	const KeysResult *keys = (const KeysResult *) result;
	const KeyReader *reader = &keys->reader;
	const KeyBuffer *keybuf = reader->keybuf;
	Datum		values[KEY_MAX_COLUMNS];
	bool		isnull[KEY_MAX_COLUMNS];

	Assert(!reader->rids && reader->cursor == NULL);
	i += keys->array.pos;
	if (key_reader_has(reader, i))
	{
		key_reader_to_slot(reader, i, slot);
		return;
	}
	if (reader->format == SORT_REC_128)
	{
		const SortRec128 *rec = (const SortRec128 *) reader->keys + i;

		decode_key128(keybuf, &reader->layout, (Key128) rec->hi << 64 | rec->lo, 1, values, isnull);
	}
	else
		decode_words(keybuf, &reader->layout, (const uint64 *) reader->keys + i, 1, 1, values, isnull);
	values_slot_begin(slot);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		slot->tts_values[keybuf->cols[c].att] = values[c];
		slot->tts_isnull[keybuf->cols[c].att] = isnull[c];
	}
}

static size_t
keys_take(SortResult *result, const void **recs)
{
	KeysResult *keys = (KeysResult *) result;
	size_t		n = keys->array.n - keys->array.pos;

	*recs = (const char *) keys->reader.keys + keys->array.pos * sort_rec_size(keys->reader.format);
	keys->array.pos = keys->array.n;
	return n;
}

static const ResultMethods rows_methods = {
	.kind = RESULT_ROWS,
	.next = rows_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.skip = result_array_skip,
	.ahead = array_ahead,
	.peek = result_rows_peek,
	.take = rows_take
};

static const ResultMethods keys_methods = {
	.kind = RESULT_KEYS,
	.next = result_keys_next,
	.rewind = result_array_rewind,
	.mark = result_array_mark,
	.restore = result_array_restore,
	.skip = result_array_skip,
	.ahead = array_ahead,
	.peek = result_keys_peek,
	.take_keys = keys_take
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
result_rows_begin(MemoryResult *result, SortEnv *env, const Arena *arena, const uint32 *rids, size_t n)
{
	array_begin(&result->array, &rows_methods, env, n);
	result->rids = rids;
	result->equal = NULL;
	result->row_bytes = result_row_bytes(arena, n);
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
 * Decoding keys
 * ------------------------------------------------------------------------
 */

bool
keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	int			bits = 0;

	for (int k = 0; k < nkeys; k++)
	{
		if (!key_traits[keys[k].kind].decodable)
			return false;
		/* one bit tells NULL */
		bits += key_traits[keys[k].kind].wide ? 65 : 33;
	}
	if (bits > 128)
		return false;

	for (int att = 0; desc != NULL && att < desc->natts; att++)
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
	reader->start = reader->count = reader->first = 0;
	reader->cursor = NULL;
	reader->keybuf = keybuf;
	reader->keys = sorted->keys;
	reader->format = sorted->format;
	reader->rids = env->spec.rids_are_tids;
	reader->rid_bits = sorted->rid_bits;
	reader->layout = sorted->layout;
}

/* Separates count records with row ids of up to 64 bits into keys and row ids. */
static void
separate_rids(const KeyReader *reader, size_t start, int count, uint64 *keys)
{
	uint32	   *rids = reader->decoded->rids;

	if (reader->format == SORT_REC_PACKED)
	{
		const uint64 *recs = (const uint64 *) reader->keys + (start - reader->first);
		const uint64 mask = (UINT64CONST(1) << reader->rid_bits) - 1;

		for (int k = 0; k < count; k++)
		{
			keys[k] = recs[k] >> reader->rid_bits;
			rids[k] = (uint32) (recs[k] & mask);
		}
	}
	else
	{
		const SortRec64 *recs = (const SortRec64 *) reader->keys + (start - reader->first);

		for (int k = 0; k < count; k++)
		{
			keys[k] = recs[k].key;
			rids[k] = recs[k].rid;
		}
	}
}

/* Reads count records of a result on disk. */
static void
read_block(KeyReader *reader, size_t start, int count)
{
	Size		rec_size = sort_rec_size(reader->format);

	run_cursor_read(reader->cursor, start * rec_size, reader->block, count * rec_size);
	reader->keys = reader->block;
	reader->first = start;
}

void
key_reader_decode(KeyReader *reader, size_t i, size_t n)
{
	/* aligned, so that reading backward decodes each block once, too */
	size_t		start = i / KEY_READER_ROWS * KEY_READER_ROWS;
	int			count = (int) Min(KEY_READER_ROWS, n - start);
	DecodedKeys *decoded = reader->decoded;

	if (reader->cursor != NULL)
		read_block(reader, start, count);
	if (reader->format == SORT_REC_128)
	{
		const SortRec128 *recs = (const SortRec128 *) reader->keys + (start - reader->first);

		for (int k = 0; k < count; k++)
		{
			decode_key128(reader->keybuf, &reader->layout, (Key128) recs[k].hi << 64 | recs[k].lo,
						  KEY_READER_ROWS, &decoded->values[0][k], &decoded->isnull[0][k]);
			decoded->rids[k] = recs[k].rid;
		}
	}
	else
	{
		uint64		keys[KEY_READER_ROWS];
		const uint64 *words = keys;

		if (reader->rids)
			separate_rids(reader, start, count, keys);
		else
			words = (const uint64 *) reader->keys + (start - reader->first);
		decode_words(reader->keybuf, &reader->layout, words, count, KEY_READER_ROWS, decoded->values[0],
					 decoded->isnull[0]);
	}
	reader->start = start;
	reader->count = count;
}
