/*
 * distinct.c
 *	  Estimates how many distinct keys there are, from a sample of the records.
 *
 * Two inputs of the same key range can differ in it: 100 values that lie far
 * apart touch 100 cells of a counting sort's table, uniform keys touch all of
 * them.  Only narrow keys are sampled, as only they can be counted.
 *
 * A sample of m keys out of D equally frequent ones is expected to hold
 * D * (1 - exp(-m / D)) distinct ones; solved for D by bisection.  If some keys
 * are more frequent than others, the estimate is on the low side, which is the
 * side we want: frequent cells stay in the cache.
 */
#include <math.h>
#include <string.h>

#include "route/router.h"
#include "route/scattered.h"

#define SAMPLE_MIN_ROWS		4096	/* no sample of less */
#define SAMPLE_LARGE_ROWS	65536	/* the larger sample from here on */
#define SAMPLE_SMALL		64
#define SAMPLE_LARGE		256
#define SAMPLE_MAX_BITS		24
#define SAMPLE_MIN_BITS		9	/* fewer bits make a table that is small anyway */

#define TABLE_BITS			10	/* of the hash table: 4 times the sample */
#define TABLE_SIZE			(1 << TABLE_BITS)

static inline uint32_t
sample_key(const RouteFacts *facts, const void *recs, size_t i)
{
	uint32_t	mask = ((uint32_t) 1 << (facts->end_bit - facts->begin_bit)) - 1;
	int			shift = facts->begin_bit;
	unsigned __int128 key;

	switch (facts->format)
	{
		case SORT_REC_PACKED:
			return (uint32_t) (((const uint64_t *) recs)[i] >> shift) & mask;
		case SORT_REC_64:
			return (uint32_t) (((const SortRec64 *) recs)[i].key >> shift) & mask;
		case SORT_REC_128:
			break;
	}
	key = (unsigned __int128) ((const SortRec128 *) recs)[i].hi << 64 |
		((const SortRec128 *) recs)[i].lo;
	return (uint32_t) (key >> shift) & mask;
}

/* How many different keys are among m records, evenly spread? */
static unsigned
distinct_in_sample(const RouteFacts *facts, const void *recs, unsigned m)
{
	uint32_t	table[TABLE_SIZE];	/* key + 1; 0 is free */
	uint32_t	keys[SAMPLE_LARGE];
	unsigned	distinct = 0;

	/* all loads first, so that their cache misses overlap */
	for (unsigned i = 0; i < m; i++)
		keys[i] = sample_key(facts, recs, facts->n / m * i) + 1;

	memset(table, 0, sizeof(table));
	for (unsigned i = 0; i < m; i++)
	{
		uint32_t	slot = (keys[i] * UINT32_C(0x9E3779B1)) >> (32 - TABLE_BITS);

		while (table[slot] != 0 && table[slot] != keys[i])
			slot = (slot + 1) % TABLE_SIZE;
		distinct += table[slot] == 0;
		table[slot] = keys[i];
	}
	return distinct;
}

void
gpusort_route_sample(RouteFacts *facts, const void *recs)
{
	int			bits = facts->end_bit - facts->begin_bit;
	unsigned	m = facts->n < SAMPLE_LARGE_ROWS ? SAMPLE_SMALL : SAMPLE_LARGE;
	unsigned	distinct;
	double		low = -9;		/* of log2(D / m) */
	double		high = 6;

	facts->scattered = route_scattered(facts, recs);
	if (facts->n < SAMPLE_MIN_ROWS || bits < SAMPLE_MIN_BITS || bits > SAMPLE_MAX_BITS)
		return;
	distinct = distinct_in_sample(facts, recs, m);
	if (distinct > m * 9 / 10)
		return;

	for (int i = 0; i < 10; i++)
	{
		double		middle = (low + high) / 2;
		double		d = m * exp2(middle);

		if (d * (1 - exp(-(double) m / d)) < distinct)
			low = middle;
		else
			high = middle;
	}
	facts->distinct = (uint64_t) fmax(1, m * exp2(high));
}
