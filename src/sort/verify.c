/*
 * verify.c
 *	  gpusort.verify: checks the result of a kernel or of a device.
 *
 * One pass over the sorted records checks three things.  No key is smaller than the key
 * before it.  Row ids ascend among equal keys, which is stability, because the row ids
 * of the input ascend.  Every buffered row id comes exactly once: a bitmap has a bit for
 * each row id of the input, and the result clears it.
 *
 * Memory policy: the bitmap takes one bit per 8 bytes of rows.  It is palloc'd for the
 * check and not counted against work_mem.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/sort_internal.h"

static Key128
problem_key(const SortProblem *problem, size_t i, uint32 *rid)
{
	return sort_rec_get(problem->result, problem->format, problem->begin_bit, i, rid);
}

/* The row ids of the buffer, a bit for each of 8 bytes of rows. */
static uint64 *
expected_rids(const KeyBuffer *keybuf)
{
	uint64	   *expected = palloc_extended(position_set_bytes(keybuf->rids[keybuf->n - 1]),
										   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (size_t i = 0; i < keybuf->n; i++)
		position_set_add(expected, keybuf->rids[i]);
	return expected;
}

/* Takes a row id from the expected ones.  False if it is none of them. */
static bool
take_expected(const KeyBuffer *keybuf, uint64 *expected, uint32 rid)
{
	if (rid > keybuf->rids[keybuf->n - 1] || !position_set_has(expected, rid))
		return false;
	expected[rid / 64] &= ~(UINT64CONST(1) << rid % 64);
	return true;
}

static void
verify_failed(const char *kernel, size_t i, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("algorithm \"%s\" returned a wrong sort result", kernel),
			 errdetail("Record %zu %s.", i, what),
			 errhint("Set gpusort.algorithm to another algorithm or gpusort.enable to off, "
					 "and report this as a bug.")));
}

/* A checksum of the keys that does not depend on their order. */
static uint64
checksum(const SortProblem *problem)
{
	uint64		sum = 0;
	uint32		rid;

	for (size_t i = 0; i < problem->n; i++)
	{
		Key128		key = problem_key(problem, i, &rid);
		uint64		mixed = (uint64) key * UINT64CONST(0x9E3779B97F4A7C15) ^ (uint64) (key >> 64);

		if (i % (1 << 18) == 0)
			CHECK_FOR_INTERRUPTS();
		mixed ^= mixed >> 32;
		sum += mixed * UINT64CONST(0xD6E8FEB86659FD93);
	}
	return sum;
}

/* Checks that the keys of records without row ids are those of the input. */
static void
verify_keys(const KeyBuffer *keybuf, const KeyLayout *layout, const SortProblem *problem, const char *kernel)
{
	SortProblem input = *problem;
	KeyOrder	order;

	input.result = palloc_extended(problem->n * sort_rec_size(problem->format), MCXT_ALLOC_HUGE);
	pack_records(keybuf, layout, problem->format, problem->end_bit, 0, input.result, &order);
	if (checksum(problem) != checksum(&input))
		verify_failed(kernel, problem->n - 1, "ends a result whose keys are not the keys of the input");
	pfree(input.result);
}

void
verify_problem(const Batch *batch, const KeyLayout *layout, const SortProblem *problem, const char *kernel)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	uint64	   *expected = keybuf->rids == NULL ? NULL : expected_rids(keybuf);
	Key128		prev = 0;
	uint32		prev_rid = 0;

	for (size_t i = 0; i < problem->n; i++)
	{
		uint32		rid;
		Key128		key = problem_key(problem, i, &rid);

		if (i % (1 << 18) == 0)
			CHECK_FOR_INTERRUPTS();
		if (expected != NULL && !take_expected(keybuf, expected, rid))
			verify_failed(kernel, i, VERIFY_NOT_FROM_INPUT);
		if (i > 0 && key < prev)
			verify_failed(kernel, i, "has a smaller key than the record before it");
		if (expected != NULL && i > 0 && key == prev && rid < prev_rid)
			verify_failed(kernel, i, "has the same key as the record before it "
						  "but came earlier in the input");
		prev = key;
		prev_rid = rid;
	}
	if (expected == NULL)
		verify_keys(keybuf, layout, problem, kernel);
	else
		pfree(expected);
}

void
verify_input_order(const KeyBuffer *keybuf, const KeyOrder *order)
{
	if (((keybuf->input_order.possible & INPUT_ASCENDING) && order->descents > 0) ||
		((keybuf->input_order.possible & INPUT_DESCENDING) && order->ascents > 0))
		elog(ERROR, "%zu rows were recorded as presorted, but %zu keys descend and %zu ascend",
			 keybuf->n, order->descents, order->ascents);
}

/*
 * Checks that each row of the batch is one of n kept rows, or stands behind one that is equal
 * to it from equal_bit on.  keys are those of the kept rows.  Returns what is wrong with kept
 * row *at, or NULL.
 */
static const char *
verify_dropped(const Batch *batch, const KeyLayout *layout, const uint32 *rids, const Key128 *keys, size_t n,
			   int equal_bit, size_t *at)
{
	const KeyBuffer *keybuf = &batch->keybuf;

	for (size_t i = 0; i < keybuf->n; i++)
	{
		Key128		key = pack_key(keybuf, layout, i);
		size_t		low = 0;
		size_t		high = n;

		CHECK_FOR_INTERRUPTS();
		/* the last kept row whose key is not greater in the bits that count */
		while (high - low > 1)
		{
			size_t		middle = (low + high) / 2;

			if (keys[middle] >> equal_bit <= key >> equal_bit)
				low = middle;
			else
				high = middle;
		}
		*at = low;
		if (keys[low] >> equal_bit != key >> equal_bit)
			return "stands before a value that is missing";
		if (keys[low] > key || (keys[low] == key && rids[low] > keybuf->rids[i]))
			return "is not the first one of its value";
	}
	return NULL;
}

/* Makes the keys from the rows again, to detect a device that mixes up keys and row ids. */
bool
verify_rids(SortEnv *env, const Batch *batch, const KeyLayout *layout, const uint32 *rids,
			size_t n, int equal_bit, char *why)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	Key128	   *keys = equal_bit < 0 ? NULL : palloc_extended(n * sizeof(Key128), MCXT_ALLOC_HUGE);
	uint64	   *expected = expected_rids(keybuf);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(env->spec.desc, &TTSOpsMinimalTuple);
	Key128		prev = 0;
	const char *what = NULL;
	size_t		i;

	for (i = 0; i < n && what == NULL; i++)
	{
		uint32		rid = rids[i];
		MinimalTuple row;
		Key128		key;

		CHECK_FOR_INTERRUPTS();
		if (!take_expected(keybuf, expected, rid))
		{
			what = VERIFY_NOT_FROM_INPUT;
			break;
		}
		row = (MinimalTuple) arena_at(&batch->arena, rid);
		row_to_slot(slot, row);
		slot_getsomeattrs(slot, keybuf->last_att);
		key = pack_row(keybuf, &env->keys, layout, slot->tts_values, slot->tts_isnull);
		if (keys != NULL)
			keys[i] = key;
		if (i > 0 && key < prev)
			what = "has a smaller key than the row before it";
		else if (i > 0 && equal_bit >= 0 && key >> equal_bit == prev >> equal_bit)
			what = "is equal to the row before it";
		else if (i > 0 && key == prev)
		{
			int			cmp = layout->exact ? 0 :
				tiebreak_compare(env->tiebreak,
								 (MinimalTuple) arena_at(&batch->arena, rids[i - 1]), row);

			if (cmp > 0)
				what = "sorts before the row before it";
			else if (cmp == 0 && rid < rids[i - 1])
				what = "equals the row before it but came earlier in the input";
		}
		prev = key;
	}
	ExecDropSingleTupleTableSlot(slot);
	pfree(expected);
	if (keys != NULL && what == NULL)
		what = verify_dropped(batch, layout, rids, keys, n, equal_bit, &i);
	if (keys != NULL)
		pfree(keys);
	if (what != NULL)
		snprintf(why, 128, "row %zu of the result %s", i, what);
	return what == NULL;
}
