/*
 * device_check.c
 *	  What a device says is checked before it is used.
 *
 * In key mode, always:
 *
 *	rids	Each must be the place of a row that has not come before, so that all of them
 *			together are a permutation of what was sent.  A bitmap with a bit for each
 *			8 bytes of rows has the starts of rows that are still to come; it is made
 *			while the device sorts.  A row that is read is a row, whatever the device.
 *	keys	Where keys come back they must ascend, and in sum be those that were sent.
 *
 * What is not checked without gpusort.verify is that rids are in their keys' order: the
 * keys would have to be fetched from rows all over the memory.
 *
 * Rows are given out while others are on their way, so a fault may show when the first
 * rows are gone.  The CPU then sorts all rows, and its first rows must be those that
 * were given out: then it goes on behind them, and the result is the right one.  If they
 * are not, the query's result can no longer be right, and it ends with an ERROR.
 * Results that are taken as a whole before their first row never come to that.
 *
 * Memory policy: the bitmap is 1/64 of the rows, counted; a sort that would exceed
 * work_mem with it does not go to a device.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/device/keys/device_check.h"

/* Rids whose word is asked for before its turn. */
#define RIDS_AHEAD		32

/* Any odd number: a sum must not take a key's halves for each other. */
#define HIGH_FACTOR		UINT64CONST(0x9E3779B97F4A7C15)

static Size
bitmap_bytes(const SortEnv *env, const Stage *stage)
{
	return env->spec.keys_only || stage->n == 0 ? 0 :
		((Size) stage->rids[stage->n - 1] / 64 + 1) * sizeof(uint64);
}

Size
device_check_bytes(const SortEnv *env, const Batch *batch)
{
	const Stage *stage = &batch->stage;
	Size		result = env->spec.keys_only ? 0 : sizeof(uint32);

	return arena_used(&batch->arena) + stage->n * (stage->row_bytes + result) +
		bitmap_bytes(env, stage);
}

bool
device_check_fits(const SortEnv *env, const Batch *batch)
{
	return device_check_bytes(env, batch) <= env->limit;
}

void
device_check_begin(DeviceKeys *dk)
{
	const Stage *stage = &dk->batch->stage;
	Size		bytes = bitmap_bytes(dk->env, stage);
	uint64	   *pending;

	if (bytes == 0)
		return;
	bulk_reserve(dk->env->bulk, &dk->pending, bytes, 0);
	dk->max_rid = stage->rids[stage->n - 1];
	pending = dk->pending.ptr;
	memset(pending, 0, bytes);
	for (size_t i = 0; i < stage->n; i++)
		pending[stage->rids[i] / 64] |= UINT64CONST(1) << (stage->rids[i] % 64);
}

bool
device_check_rids(DeviceKeys *dk, const uint32 *rids, size_t n)
{
	uint64	   *pending = dk->pending.ptr;
	uint32		max_rid = dk->max_rid;
	size_t		i;

	for (i = 0; i < n; i++)
	{
		uint32		rid = rids[i];
		uint64		bit = UINT64CONST(1) << (rid % 64);

		/* a rid that is none does no harm here */
		if (likely(i + RIDS_AHEAD < n))
			__builtin_prefetch(&pending[rids[i + RIDS_AHEAD] / 64], 1);
		if (unlikely(rid > max_rid || (pending[rid / 64] & bit) == 0))
			break;
		pending[rid / 64] ^= bit;
	}
	if (likely(i == n))
		return true;
	while (i-- > 0)
		pending[rids[i] / 64] |= UINT64CONST(1) << (rids[i] % 64);
	return false;
}

static inline uint64
part_of_sum(Key128 key)
{
	return (uint64) key + (uint64) (key >> 64) * HIGH_FACTOR;
}

/* Adds up keys and notes whether one is less than the one before. */
#define SCAN_KEYS(key_t) \
	do { \
		const key_t *k = (const key_t *) keys; \
		key_t		prev = (key_t) *last; \
		bool		descends = false; \
		for (size_t i = 0; i < n; i++) \
		{ \
			descends |= k[i] < prev; \
			sum += sizeof(key_t) <= sizeof(uint64) ? (uint64) k[i] : part_of_sum(k[i]); \
			prev = k[i]; \
		} \
		*last = prev; \
		*ascending = !descends; \
	} while (0)

static uint64
scan_keys(const char *keys, int width, size_t n, Key128 *last, bool *ascending)
{
	uint64		sum = 0;

	if (width == 32)
		SCAN_KEYS(uint32);
	else if (width == 64)
		SCAN_KEYS(uint64);
	else
		SCAN_KEYS(Key128);
	return sum;
}

uint64
device_check_sum(const char *keys, int width, size_t n)
{
	Key128		last = 0;
	bool		ascending;

	return scan_keys(keys, width, n, &last, &ascending);
}

bool
device_check_keys(KeyCheck *check, const char *keys, int width, size_t n, bool last)
{
	Key128		last_key = check->last;
	bool		ascending;
	uint64		sum = scan_keys(keys, width, n, &last_key, &ascending);

	if (!ascending || (last && check->sum != sum))
		return false;
	check->last = last_key;
	check->sum -= sum;
	return true;
}

void
device_wrong_beginning(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a GPU returned a wrong sort result, of which rows were given out already"),
			 errhint("Set gpusort.verify to on, which checks results before their first row, "
					 "or gpusort.device to off.")));
}

/* The sum of the sorted keys from that on, as they were sent. */
static uint64
sum_from(const DeviceKeys *dk, const Sorted *sorted, size_t from)
{
	const Stage *stage = &dk->batch->stage;
	const KeyLayout *layout = &dk->layout.layout;
	KeyReader	reader;
	uint64		sum = 0;

	key_reader_begin(&reader, dk->env, stage, sorted);
	for (size_t i = from; i < sorted->n; i++)
	{
		Datum		values[STAGE_MAX_COLUMNS];
		bool		isnull[STAGE_MAX_COLUMNS];
		Key128		key = 0;

		if (!key_reader_has(&reader, i))
		{
			CHECK_FOR_INTERRUPTS();
			key_reader_decode(&reader, i, sorted->n);
		}
		key_reader_row(&reader, i, values, isnull);
		if (layout->total_bits > 0)
			key = pack_row(stage, &dk->env->keys, layout, values, isnull) >> (128 - layout->total_bits);
		sum += device_check_sum((const char *) &key, 128, 1);
	}
	return sum;
}

void
device_check_given(const DeviceKeys *dk, const Sorted *sorted, size_t given)
{
	const uint64 *pending = dk->pending.ptr;

	if (dk->env->spec.keys_only)
	{
		/* those that are still to come must make up what is left of the sum */
		if (given > 0 && sum_from(dk, sorted, given) != dk->keys.sum)
			device_wrong_beginning();
		return;
	}
	for (size_t i = 0; i < given; i++)
	{
		uint32		rid = sorted->rids[i];

		if (i % (1 << 18) == 0)
			CHECK_FOR_INTERRUPTS();
		if (pending[rid / 64] & UINT64CONST(1) << (rid % 64))
			device_wrong_beginning();
	}
}
