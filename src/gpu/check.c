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
 * No row is returned before the whole result is checked.  If it is wrong, the CPU sorts all
 * rows.
 *
 * Memory policy: the bitmap is 1/64 of the rows, and counts as memory of the sort.  A sort
 * that would exceed work_mem with it does not use a device.
 */
#include "postgres.h"

#include "gpu/job_key.h"
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

/* Body of scan_keys() for one key type. */
#define SCAN_KEYS(key_t) \
	do { \
		const key_t *k = (const key_t *) keys; \
		key_t		prev = (key_t) *last; \
		bool		descends = false; \
		for (size_t i = 0; i < n; i++) \
		{ \
			descends |= k[i] < prev; \
			sum += KEY_HASH(key_t, k[i] >> cut); \
			prev = k[i]; \
		} \
		*last = prev; \
		*ascending = !descends; \
	} while (0)

/* The same for pairs. */
#define SCAN_PAIRS(key_t) \
	do { \
		const key_t *k = (const key_t *) keys; \
		key_t		prev = (key_t) *last; \
		uint32		prev_rid = *last_rid; \
		bool		descends = false; \
		for (size_t i = 0; i < n; i++) \
		{ \
			descends |= (k[i] < prev) | ((k[i] == prev) & (rids[i] < prev_rid)); \
			sum += hash_pair(secret, KEY_HASH(key_t, k[i]), rids[i]); \
			prev = k[i]; \
			prev_rid = rids[i]; \
		} \
		*last = prev; \
		*last_rid = prev_rid; \
		*ascending = !descends; \
	} while (0)

/*
 * Returns the checksum of n keys of width bits.  *ascending: the keys ascend, also from
 * *last, the key before them; *last becomes the last key.
 */
static uint64
scan_keys(const KeyCheck *check, const char *keys, int width, size_t n, Key128 *last, bool *ascending)
{
	JobSecret	copy = check->secret;
	const JobSecret *secret = &copy;
	int			cut = check->cut;
	uint64		sum = 0;

	if (width == 32)
		SCAN_KEYS(uint32);
	else if (width == 64)
		SCAN_KEYS(uint64);
	else
		SCAN_KEYS(Key128);
	return sum;
}

/* The same for pairs; *last_rid is the rid of *last. */
static uint64
scan_pairs(const KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n, Key128 *last,
		   uint32 *last_rid, bool *ascending)
{
	JobSecret	copy = check->secret;
	const JobSecret *secret = &copy;
	uint64		sum = 0;

	if (width == 32)
		SCAN_PAIRS(uint32);
	else if (width == 64)
		SCAN_PAIRS(uint64);
	else
		SCAN_PAIRS(Key128);
	return sum;
}

uint64
device_check_sum(const KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n)
{
	Key128		last = 0;
	uint32		last_rid = 0;
	bool		ascending;

	return rids == NULL ? scan_keys(check, keys, width, n, &last, &ascending) :
		scan_pairs(check, keys, rids, width, n, &last, &last_rid, &ascending);
}

bool
device_check_keys(KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n, bool last)
{
	Key128		last_key = check->last;
	uint32		last_rid = check->last_rid;
	bool		ascending;
	uint64		sum = rids == NULL ? scan_keys(check, keys, width, n, &last_key, &ascending) :
		scan_pairs(check, keys, rids, width, n, &last_key, &last_rid, &ascending);

	if (!ascending || (last && check->sum != sum))
		return false;
	check->last = last_key;
	check->last_rid = last_rid;
	check->sum -= sum;
	return true;
}

/* Body of device_check_groups() for one key type. */
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

	if (width == 32)
		SCAN_GROUPS(uint32);
	else if (width == 64)
		SCAN_GROUPS(uint64);
	else
		SCAN_GROUPS(Key128);
	check->rows = rows;
	check->sum -= sum;
	return !wrong && rows <= all_rows && (!last || (check->sum == 0 && rows == all_rows));
}
