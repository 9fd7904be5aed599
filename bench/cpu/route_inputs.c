/*
 * route_inputs.c
 *	  Synthetic inputs of the router's kernels, for bench/route_grid and the unit test.
 */
#include <string.h>

#include "route_inputs.h"

const char *const sample_order_names[SAMPLE_ORDERS] = {
	"random", "unique", "repeated", "sorted", "reversed", "swapped",
	"displaced", "scattered", "runs", "flat"
};

/* Bits of the row ids of packed records. */
#define SAMPLE_RID_BITS		32

/* One step of splitmix64. */
static inline uint64_t
mix(uint64_t x)
{
	x += UINT64_C(0x9E3779B97F4A7C15);
	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

/* Parameters of one input's keys. */
typedef struct Shape
{
	size_t		n;				/* records */
	int			key_bits;
	SampleOrder order;
	uint64_t	seed;
	SortKey		step;			/* distance of equidistant keys: 2^96 / n */
	int			perm_bits;		/* width of the permutation: 2^perm_bits >= n */
} Shape;

static Shape
make_shape(size_t n, int key_bits, SampleOrder order, uint64_t seed)
{
	Shape		shape = {n, key_bits, order, mix(seed), 0, 2};

	if (n > 0)
		shape.step = ((SortKey) 1 << 96) / n;
	while (((size_t) 1 << shape.perm_bits) < n)
		shape.perm_bits += 2;
	return shape;
}

/* The i-th random key. */
static inline SortKey
random_key(const Shape *s, uint64_t i)
{
	uint64_t	hi = mix(s->seed + 2 * i);

	if (s->key_bits <= 64)
		return hi >> (64 - s->key_bits);
	return ((SortKey) hi << 64 | mix(s->seed + 2 * i + 1)) >> (128 - s->key_bits);
}

/* The i-th of n ascending equidistant keys. */
static inline SortKey
ascending_key(const Shape *s, uint64_t i)
{
	SortKey		key = i * s->step;	/* a fraction of 96 bits */

	return s->key_bits <= 96 ? key >> (96 - s->key_bits) : key << (s->key_bits - 96);
}

/* A permutation of 0 .. n-1: a Feistel network, repeated until the value is below n. */
static inline uint64_t
permuted(const Shape *s, uint64_t i)
{
	int			half = s->perm_bits / 2;
	uint64_t	mask = ((uint64_t) 1 << half) - 1;

	do
	{
		for (int round = 0; round < 3; round++)
		{
			uint64_t	left = i >> half;
			uint64_t	right = i & mask;

			i = right << half | (left ^ (mix(s->seed + right + ((uint64_t) round << 32)) & mask));
		}
	} while (i >= s->n);
	return i;
}

/* Key i of the input. */
static SortKey
input_key(const Shape *s, uint64_t i)
{
	switch (s->order)
	{
		case SAMPLE_RANDOM:
		case SAMPLE_ORDERS:
			break;
		case SAMPLE_UNIQUE:
			return ascending_key(s, permuted(s, i));
		case SAMPLE_REPEATED:
			return random_key(s, mix(s->seed + i) % 100 + ((uint64_t) 1 << 40));
		case SAMPLE_SORTED:
			return ascending_key(s, i);
		case SAMPLE_REVERSED:
			return ascending_key(s, s->n - 1 - i);
		case SAMPLE_SWAPPED:
			/* pairs (2k, 2k + 1): one in 50 is swapped */
			if (mix(s->seed + i / 2) % 50 == 0 && (i | 1) < s->n)
				return ascending_key(s, i ^ 1);
			return ascending_key(s, i);
		case SAMPLE_DISPLACED:
			if (mix(s->seed + i) % 100 == 0)
				return random_key(s, i);
			return ascending_key(s, i);
		case SAMPLE_SCATTERED:
			if (mix(s->seed + i) % 20 == 0)
				return random_key(s, i);
			return ascending_key(s, i);
		case SAMPLE_RUNS:
			return ascending_key(s, i < s->n / 2 ? 2 * i : 2 * (i - s->n / 2));
		case SAMPLE_FLAT:
			return random_key(s, 0);
	}
	return random_key(s, i);
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
	SortKey		prev = 0;
	SortKey		min = ~(SortKey) 0;
	SortKey		max = 0;
	Shape		shape = make_shape(n, key_bits, order, seed);

	memset(facts, 0, sizeof(*facts));
	facts->n = n;
	facts->format = sample_format(key_bits);
	facts->begin_bit = facts->format == SORT_REC_PACKED ? SAMPLE_RID_BITS : 0;
	facts->end_bit = facts->begin_bit + key_bits;
	facts->order_known = true;
	facts->threads = 1;

	for (size_t i = 0; i < n; i++)
	{
		SortKey		key = input_key(&shape, i);

		if (i > 0)
		{
			facts->descents += key < prev;
			facts->ascents += key > prev;
		}
		prev = key;
		min = key < min ? key : min;
		max = key > max ? key : max;

		sort_rec_set(recs, facts->format, SAMPLE_RID_BITS, i, key, (uint32_t) i);
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
	SortKey		prev = 0;
	uint32_t	prev_rid = 0;
	Shape		shape = make_shape(n, key_bits, order, seed);

	for (size_t i = 0; i < n; i++)
	{
		uint32_t	rid;
		SortKey		key = sort_rec_get(recs, format, SAMPLE_RID_BITS, i, &rid);

		if (rid >= n || key != input_key(&shape, rid))
			return false;
		if (i > 0 && (key < prev || (key == prev && rid <= prev_rid)))
			return false;
		prev = key;
		prev_rid = rid;
	}
	return true;
}
