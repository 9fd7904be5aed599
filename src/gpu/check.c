/*
 * check.c
 *	  Checks the result of a device in key mode before it is used.
 *
 * These checks are always on:
 *
 *	rids	Each must be the rid of a row that has not come back before, so that all rids
 *			are a permutation of those that were sent.  A bitmap has a bit for each 8
 *			bytes of rows; the bits of rows that have not come back are set.  It is made
 *			while the device sorts.  A wrong rid is never used to read a row.
 *	keys	Returned keys must ascend, and their checksum must be that of the keys that
 *			were sent.  The checksum adds up hashes that depend on a secret of the sort.
 *	pairs	With SortSpec.gpu_verified each key comes back with its rid.  The checksum
 *			covers the pairs, and the rids of equal keys must ascend.  So the result is the
 *			one stable order of the rows.
 *	groups	If the device drops duplicates, it returns the first key of each group and
 *			the number of its rows.  Keys must ascend strictly; the checksum that these
 *			keys have, each counted as often as its group has rows, must be that of the
 *			keys that were sent.  So each value comes once, and each dropped row has the
 *			key of a row that came back.  In row mode the mark of each row must be that
 *			of its key.
 *
 * In other sorts only gpusort.verify checks that rids are in the order of their keys, since
 * that costs a cache miss per row.
 *
 * Memory policy: the bitmap is 1/64 of the rows, and counts as memory of the sort.  A sort
 * that would exceed work_mem with it does not use a device.
 */
#include "postgres.h"

#include "gpu/job.h"
#include "gpu/key_mode.h"

/* How many rids ahead the bitmap's word is prefetched. */
#define RIDS_AHEAD		32

/* Size of the bitmap; 0 if there are no rows in memory. */
static Size
bitmap_bytes(const SortEnv *env, const KeyBuffer *keybuf)
{
	/* rids that are TIDs read no memory, and are checked as pairs */
	return env->spec.keys_only || keybuf->n == 0 ? 0 :
		((Size) keybuf->rids[keybuf->n - 1] / 64 + 1) * sizeof(uint64);
}

Size
device_check_bytes(const SortEnv *env, const Batch *batch)
{
	const KeyBuffer *keybuf = &batch->keybuf;
	Size		result = !env->spec.keys_only ? sizeof(uint32) :
		env->spec.rids_are_tids ? (keybuf->row_bytes <= (int) (sizeof(uint64) + sizeof(uint32)) ? sizeof(SortRec64) :
						  sizeof(SortRec128)) :
		keybuf->row_bytes < (int) sizeof(uint64) ? sizeof(uint64) : sizeof(SortRec128);

	return arena_used(&batch->arena) + keybuf->n * (keybuf->row_bytes + result) +
		bitmap_bytes(env, keybuf);
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
	pending = dk->pending.ptr;
	memset(pending, 0, bytes);
	for (size_t i = 0; i < keybuf->n; i++)
		pending[keybuf->rids[i] / 64] |= UINT64CONST(1) << (keybuf->rids[i] % 64);
}

bool
device_check_rids(DeviceKeys *dk, const uint32 *rids, size_t n)
{
	uint64	   *pending = dk->pending.ptr;
	uint32		max_rid = dk->batch->keybuf.rids[dk->batch->keybuf.n - 1];

	for (size_t i = 0; i < n; i++)
	{
		uint32		rid = rids[i];
		uint64		bit = UINT64CONST(1) << (rid % 64);

		/* prefetching the word of a wrong rid is harmless */
		if (likely(i + RIDS_AHEAD < n))
			__builtin_prefetch(&pending[rids[i + RIDS_AHEAD] / 64], 1);
		if (unlikely(rid > max_rid || (pending[rid / 64] & bit) == 0))
			return false;
		pending[rid / 64] ^= bit;
	}
	return true;
}

/* A pair's part of the checksum.  hash is that of the key. */
static inline uint64
hash_pair(const JobSecret *secret, uint64 hash, uint32 rid)
{
	/* combined by XOR: a sum would not notice that two rids are exchanged */
	hash = (hash ^ rid * secret->high_factor) * secret->factor;
	return hash ^ hash >> 32;
}

#define KEY_HASH(key_t, key) \
	(sizeof(key_t) <= sizeof(uint64) ? key_hash(secret, (uint64) (key)) : key_hash128(secret, (key)))

/* Loops of scan_keys(), over keys and over pairs. */
#define SCAN_KEYS(key_t) \
	do { \
		const key_t *k = (const key_t *) keys; \
		key_t		prev = (key_t) check->last; \
		for (size_t i = 0; i < n; i++) \
		{ \
			descends |= k[i] < prev; \
			sum += KEY_HASH(key_t, k[i] >> cut); \
			prev = k[i]; \
		} \
		check->last = prev; \
	} while (0)

#define SCAN_PAIRS(key_t) \
	do { \
		const key_t *k = (const key_t *) keys; \
		key_t		prev = (key_t) check->last; \
		uint32		prev_rid = check->last_rid; \
		for (size_t i = 0; i < n; i++) \
		{ \
			descends |= (k[i] < prev) | ((k[i] == prev) & (rids[i] < prev_rid)); \
			sum += hash_pair(secret, KEY_HASH(key_t, k[i]), rids[i]); \
			prev = k[i]; \
			prev_rid = rids[i]; \
		} \
		check->last = prev; \
		check->last_rid = prev_rid; \
	} while (0)

/*
 * Returns the checksum of n keys of width bits, or of pairs.  *ascending: they ascend, also
 * from check->last, which becomes the last key.
 */
static uint64
scan_keys(KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n, bool *ascending)
{
	JobSecret	copy = check->secret;
	const JobSecret *secret = &copy;
	int			cut = check->cut;
	uint64		sum = 0;
	bool		descends = false;

	if (rids == NULL)
		BY_KEY_WIDTH(width, SCAN_KEYS);
	else
		BY_KEY_WIDTH(width, SCAN_PAIRS);
	*ascending = !descends;
	return sum;
}

uint64
device_check_sum(const KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n)
{
	KeyCheck	copy = *check;
	bool		ascending;

	return scan_keys(&copy, keys, rids, width, n, &ascending);
}

bool
device_check_keys(KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n, bool last)
{
	bool		ascending;

	check->sum -= scan_keys(check, keys, rids, width, n, &ascending);
	return ascending && (!last || check->sum == 0);
}

/* Loop of device_check_groups(). */
#define SCAN_GROUPS(key_t) \
	do { \
		const key_t *k = (const key_t *) keys; \
		key_t		prev = (key_t) check->last; \
		for (size_t i = 0; i < n; i++) \
		{ \
			key_t		key = k[i] >> cut; \
			uint32		end = ends[i]; \
			wrong |= (key <= prev && (i > 0 || !first)) | (end <= rows); \
			sum += KEY_HASH(key_t, key) * (end - rows); \
			rows = end; \
			prev = key; \
		} \
		check->last = prev; \
	} while (0)

bool
device_check_groups(KeyCheck *check, const char *keys, const uint32 *ends, int width, size_t n, bool last,
					uint64 all_rows)
{
	JobSecret	copy = check->secret;
	const JobSecret *secret = &copy;
	int			cut = check->cut;
	uint64		rows = check->rows;
	bool		first = rows == 0;
	bool		wrong = false;
	uint64		sum = 0;

	BY_KEY_WIDTH(width, SCAN_GROUPS);
	check->rows = rows;
	check->sum -= sum;
	return !wrong && rows <= all_rows && (!last || (check->sum == 0 && rows == all_rows));
}
