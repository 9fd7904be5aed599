/*
 * check.c
 *	  What a device says is checked before it is used.
 *
 * In key mode, always:
 *
 *	rids	Each must be the place of a row that has not come before, so that all of them
 *			together are a permutation of what was sent.  A bitmap with a bit for each
 *			8 bytes of rows has the starts of rows that are still to come; it is made
 *			while the device sorts.  A row that is read is a row, whatever the device.
 *	keys	Where keys come back they must ascend, and in sum be those that were sent.  The sum
 *			is one of hashes that depend on a secret of the sort (store/secret.h).  Where keys are all
 *			that there is they become rows: none is returned before the last one has been checked.
 *
 * What is not checked without gpusort.verify is that rids are in their keys' order: the
 * keys would have to be fetched from rows all over the memory.
 *
 * Rows by their rids are returned while others are on their way, so a fault may show when the first
 * rows are gone.  The CPU then sorts all rows, and its first rows must be those that
 * were returned: then it goes on behind them, and the result is the right one.  If they
 * are not, the query's result can no longer be right, and it ends with an ERROR.
 * Results that are taken as a whole before their first row never come to that.
 *
 * Memory policy: the bitmap is 1/64 of the rows, counted; a sort that would exceed
 * work_mem with it does not go to a device.
 */
#include "postgres.h"

#include "gpu/gpu.h"
#include "miscadmin.h"

/* Rids whose word is asked for before its turn. */
#define RIDS_AHEAD		32

static Size
bitmap_bytes(const SortEnv *env, const KeyBuffer *keybuf)
{
	return env->spec.keys_only || keybuf->n == 0 ? 0 :
		((Size) keybuf->rids[keybuf->n - 1] / 64 + 1) * sizeof(uint64);
}

Size
device_check_bytes(const SortEnv *env, const Batch *batch)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	Size		result = !env->spec.keys_only ? sizeof(uint32) :
		keybuf->row_bytes < (int) sizeof(uint64) ? sizeof(uint64) : sizeof(SortRec128);

	return arena_used(&batch->arena) + keybuf->n * (keybuf->row_bytes + result) +
		bitmap_bytes(env, keybuf);
}

bool
device_check_fits(const SortEnv *env, const Batch *batch)
{
	return device_check_bytes(env, batch) <= env->limit;
}

void
device_check_begin(DeviceKeys *dk)
{
	const KeyBuffer *keybuf = &dk->batch->keybuf;
	Size		bytes = bitmap_bytes(dk->env, keybuf);
	uint64	   *pending;

	if (bytes == 0)
		return;
	bulk_reserve(dk->env->bulk, &dk->pending, bytes, 0);
	dk->max_rid = keybuf->rids[keybuf->n - 1];
	pending = dk->pending.ptr;
	memset(pending, 0, bytes);
	for (size_t i = 0; i < keybuf->n; i++)
		pending[keybuf->rids[i] / 64] |= UINT64CONST(1) << (keybuf->rids[i] % 64);
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

/* A key's part of the sum: not linear in the key, or the keys 1, 2, 3 had the sum of 2, 2, 2. */
static inline uint64
hash_key(const JobSecret *secret, uint64 key)
{
	uint64		hash = job_secret_mix(secret, key);

	return hash ^ hash >> 32;
}

static inline uint64
hash_key128(const JobSecret *secret, Key128 key)
{
	uint64		hash = job_secret_mix(secret, (uint64) key) + (uint64) (key >> 64) * secret->high_factor;

	return hash ^ hash >> 32;
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
			sum += sizeof(key_t) <= sizeof(uint64) ? hash_key(secret, (uint64) k[i]) : hash_key128(secret, k[i]); \
			prev = k[i]; \
		} \
		*last = prev; \
		*ascending = !descends; \
	} while (0)

static uint64
scan_keys(const JobSecret *of_job, const char *keys, int width, size_t n, Key128 *last, bool *ascending)
{
	JobSecret	copy = *of_job;
	const JobSecret *secret = &copy;
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
device_check_sum(const JobSecret *secret, const char *keys, int width, size_t n)
{
	Key128		last = 0;
	bool		ascending;

	return scan_keys(secret, keys, width, n, &last, &ascending);
}

bool
device_check_keys(KeyCheck *check, const char *keys, int width, size_t n, bool last)
{
	Key128		last_key = check->last;
	bool		ascending;
	uint64		sum = scan_keys(&check->secret, keys, width, n, &last_key, &ascending);

	if (!ascending || (last && check->sum != sum))
		return false;
	check->last = last_key;
	check->sum -= sum;
	return true;
}

void
device_check_returned(const DeviceKeys *dk, const Sorted *sorted, size_t returned)
{
	const uint64 *pending = dk->pending.ptr;

	for (size_t i = 0; i < returned; i++)
	{
		uint32		rid = sorted->rids[i];

		if (i % (1 << 18) == 0)
			CHECK_FOR_INTERRUPTS();
		if (pending[rid / 64] & UINT64CONST(1) << (rid % 64))
			sort_wrong_beginning();
	}
}
