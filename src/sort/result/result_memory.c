/*
 * result_memory.c
 *	  Results that are an array in memory: of rids of rows, or of sorted keys.
 */
#include "postgres.h"

#include "sort/order.h"
#include "sort/result/result.h"

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
result_keys_begin(KeysResult *result, SortEnv *env, const Stage *stage, const Sorted *sorted)
{
	array_begin(&result->array, &keys_methods, env, sorted->n);
	key_reader_begin(&result->reader, env, stage, sorted);
	return &result->array.base;
}
