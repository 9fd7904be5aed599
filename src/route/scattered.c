/*
 * scattered.c
 *	  Inputs of which each part is in order, but not the whole.
 *
 * Few keys smaller than the one before mean a sorted input with some records out of
 * place, or ascending runs: i % 1000 is one of runs of a thousand.  Pairs of records from
 * anywhere tell: of the first, as few are in the wrong order as records are out of
 * place, an eighth at most (presorted.c); of runs that begin anywhere nearly half are.
 */
#include "route/scattered.h"

#define SCATTERED_MIN_ROWS	4096
#define SCATTERED_SAMPLE	64
#define SCATTERED_PAIRS		(SCATTERED_SAMPLE * (SCATTERED_SAMPLE - 1) / 2)

/* Fewer descents are runs that are merged. */
#define SCATTERED_MIN_RUNS	4

typedef unsigned __int128 Key;

static inline Key
key_at(const RouteFacts *facts, const void *recs, size_t i)
{
	switch (facts->format)
	{
		case SORT_REC_PACKED:
			return ((const uint64_t *) recs)[i] >> facts->begin_bit;
		case SORT_REC_64:
			return ((const SortRec64 *) recs)[i].key;
		case SORT_REC_128:
			break;
	}
	return (Key) ((const SortRec128 *) recs)[i].hi << 64 | ((const SortRec128 *) recs)[i].lo;
}

bool
route_scattered(const RouteFacts *facts, const void *recs)
{
	size_t		step = facts->n / SCATTERED_SAMPLE;
	uint32_t	random = 1;
	Key			keys[SCATTERED_SAMPLE];
	int			wrong = 0;

	if (!facts->order_known || facts->n < SCATTERED_MIN_ROWS ||
		facts->descents < SCATTERED_MIN_RUNS || facts->ascents == 0 ||
		facts->descents > facts->n / ORDERED_PER_DESCENT)
		return false;
	for (int i = 0; i < SCATTERED_SAMPLE; i++)
	{
		/* anywhere in its part: the runs may be of one length */
		random = random * UINT32_C(1664525) + UINT32_C(1013904223);
		keys[i] = key_at(facts, recs, i * step + (random >> 8) % step);
		for (int j = 0; j < i; j++)
			wrong += keys[i] < keys[j];
	}
	return wrong > SCATTERED_PAIRS / 5;
}
