/*
 * sample.c
 *	  Inputs of known shape; see sample.h.
 */
#include "route/sample.h"

#include <string.h>

typedef unsigned __int128 Key;

const char *const sample_order_names[SAMPLE_ORDERS] = {
	"random", "repeated", "sorted", "reversed", "swapped", "displaced", "flat"
};

/* splitmix64: one step, and as a function of a counter */
static inline uint64_t
mix(uint64_t x)
{
	x += UINT64_C(0x9E3779B97F4A7C15);
	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

static inline Key
random_key(uint64_t seed, uint64_t i, int key_bits)
{
	Key			key = (Key) mix(seed + 2 * i) << 64 | mix(seed + 2 * i + 1);

	return key >> (128 - key_bits);
}

/* The i-th of n ascending keys that span key_bits bits. */
static inline Key
ascending_key(uint64_t i, size_t n, int key_bits)
{
	if (key_bits <= 64)
		return ((Key) i << key_bits) / n;
	return ((Key) i << 64) / n << (key_bits - 64);
}

static Key
sample_key(uint64_t i, size_t n, int key_bits, SampleOrder order, uint64_t seed)
{
	switch (order)
	{
		case SAMPLE_REPEATED:
			return random_key(seed, mix(seed + i) % 100 + ((uint64_t) 1 << 40), key_bits);
		case SAMPLE_SORTED:
			return ascending_key(i, n, key_bits);
		case SAMPLE_REVERSED:
			return ascending_key(n - 1 - i, n, key_bits);
		case SAMPLE_SWAPPED:
			/* pairs (2k, 2k + 1): one in 50 is swapped */
			if (mix(seed + i / 2) % 50 == 0 && (i | 1) < n)
				return ascending_key(i ^ 1, n, key_bits);
			return ascending_key(i, n, key_bits);
		case SAMPLE_DISPLACED:
			if (mix(seed + i) % 100 == 0)
				return random_key(seed, i, key_bits);
			return ascending_key(i, n, key_bits);
		case SAMPLE_FLAT:
			return random_key(seed, 0, key_bits);
		default:
			return random_key(seed, i, key_bits);
	}
}

SortRecFormat
sample_format(int key_bits)
{
	return key_bits <= 32 ? SORT_REC_PACKED :
		key_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
}

void
sample_fill(void *recs, size_t n, int key_bits, SampleOrder order,
			uint64_t seed, RouteFacts *facts)
{
	Key			prev = 0;
	Key			min = ~(Key) 0;
	Key			max = 0;

	memset(facts, 0, sizeof(*facts));
	facts->n = n;
	facts->format = sample_format(key_bits);
	facts->begin_bit = facts->format == SORT_REC_PACKED ? 32 : 0;
	facts->end_bit = facts->begin_bit + key_bits;
	facts->rids_ascending = true;
	facts->order_known = true;
	facts->threads = 1;

	for (size_t i = 0; i < n; i++)
	{
		Key			key = sample_key(i, n, key_bits, order, seed);

		if (i > 0)
		{
			facts->descents += key < prev;
			facts->ascents += key > prev;
		}
		prev = key;
		min = key < min ? key : min;
		max = key > max ? key : max;

		switch (facts->format)
		{
			case SORT_REC_PACKED:
				((uint64_t *) recs)[i] = (uint64_t) key << 32 | i;
				break;
			case SORT_REC_64:
				((SortRec64 *) recs)[i].key = (uint64_t) key;
				((SortRec64 *) recs)[i].rid = (uint32_t) i;
				((SortRec64 *) recs)[i].pad = 0;
				break;
			case SORT_REC_128:
				((SortRec128 *) recs)[i].hi = (uint64_t) (key >> 64);
				((SortRec128 *) recs)[i].lo = (uint64_t) key;
				((SortRec128 *) recs)[i].rid = (uint32_t) i;
				((SortRec128 *) recs)[i].pad = 0;
				break;
		}
	}
	if (n > 0)
		facts->key_range = max - min >= UINT64_MAX ? UINT64_MAX :
			(uint64_t) (max - min) + 1;
}

bool
sample_verify(const void *recs, size_t n, int key_bits, SampleOrder order,
			  uint64_t seed)
{
	SortRecFormat format = sample_format(key_bits);
	Key			prev = 0;
	uint32_t	prev_rid = 0;

	for (size_t i = 0; i < n; i++)
	{
		Key			key;
		uint32_t	rid;

		switch (format)
		{
			case SORT_REC_PACKED:
				key = ((const uint64_t *) recs)[i] >> 32;
				rid = (uint32_t) ((const uint64_t *) recs)[i];
				break;
			case SORT_REC_64:
				key = ((const SortRec64 *) recs)[i].key;
				rid = ((const SortRec64 *) recs)[i].rid;
				break;
			default:
				key = (Key) ((const SortRec128 *) recs)[i].hi << 64 |
					((const SortRec128 *) recs)[i].lo;
				rid = ((const SortRec128 *) recs)[i].rid;
				break;
		}
		if (rid >= n || key != sample_key(rid, n, key_bits, order, seed))
			return false;
		if (i > 0 && (key < prev || (key == prev && rid <= prev_rid)))
			return false;
		prev = key;
		prev_rid = rid;
	}
	return true;
}
