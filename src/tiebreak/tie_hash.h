/*
 * tie_hash.h
 *	  Keyed hash function of the dictionary of values (collated.c).
 *
 * Each dictionary draws a random key, so that nobody can choose values that collide.
 * A word is folded in by a multiplication with a secret factor; both halves of the
 * 128-bit product are used.  The difference of two hashes then depends on the
 * factor, and later words cannot cancel it for all keys.
 */
#ifndef GPUSORT_TIEBREAK_TIE_HASH_H
#define GPUSORT_TIEBREAK_TIE_HASH_H

#include "postgres.h"

#include "common/pg_prng.h"
#include "key/key.h"

typedef struct TieHashKey
{
	uint64		start;
	uint64		factor;
} TieHashKey;

static inline TieHashKey
tie_hash_key(pg_prng_state *state)
{
	TieHashKey	key;

	key.start = pg_prng_uint64(state);
	key.factor = pg_prng_uint64(state) | 1;
	return key;
}

static inline uint64
tie_hash_fold(uint64 h, uint64 factor)
{
	uint128		product = (uint128) h * factor;

	return (uint64) (product >> 64) ^ (uint64) product;
}

/* The hash of len bytes; never 0. */
static inline uint64
tie_hash(const TieHashKey *key, const char *p, size_t len)
{
	uint64		h = tie_hash_fold(key->start ^ len, key->factor);

	for (; len >= BYTES_WORD; p += BYTES_WORD, len -= BYTES_WORD)
		h = tie_hash_fold(h ^ bytes_load(p), key->factor);
	return tie_hash_fold(h ^ bytes_word(p, len), key->factor) | 1;
}

/* Index of the first probe in a table of mask + 1 entries. */
static inline uint32
tie_hash_place(uint64 hash, uint32 mask)
{
	return (uint32) (hash >> 1) & mask;
}

#endif							/* GPUSORT_TIEBREAK_TIE_HASH_H */
