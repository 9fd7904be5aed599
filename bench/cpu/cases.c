/*
 * cases.c
 *	  Inputs for sort kernels and the check of their outputs.
 *
 * A rid is the input position of its record.  If the case wants rids that do not
 * ascend, the position is multiplied by an odd number; multiplying by the inverse
 * restores it.  So stability can be checked without the input.
 */
#include "cases.h"

#include "distributions.h"

#define SCRAMBLE	UINT32_C(0x9e3779b1)

typedef struct Filler
{
	const SortCase *c;
	void	   *recs;
} Filler;

static uint64_t
noise(uint64_t z)
{
	z = (z + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 29)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 32);
}

static uint64_t
low_bits(int bits)
{
	return bits <= 0 ? 0 : bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static uint32_t
inverse(uint32_t odd)
{
	uint32_t	x = odd;		/* 3 correct bits; each step doubles them */

	for (int i = 0; i < 4; i++)
		x *= 2 - odd * x;
	return x;
}

static uint32_t
case_rid(const SortCase *c, size_t i)
{
	return c->rids_ascending ? (uint32_t) i : (uint32_t) i * SCRAMBLE;
}

static void
fill_one(void *arg, size_t i, DistKey key)
{
	const Filler *f = arg;
	const SortCase *c = f->c;
	unsigned __int128 wide = ((unsigned __int128) key.hi << 64 | key.lo) << c->begin_bit;
	uint32_t	rid = case_rid(c, i);

	if (c->format == SORT_REC_PACKED)
		((uint64_t *) f->recs)[i] = (uint64_t) wide | (rid & low_bits(c->begin_bit));
	else
	{
		unsigned __int128 outside = (unsigned __int128) noise(i) << 64 | noise(~i);
		unsigned __int128 inside;

		inside = (unsigned __int128) (low_bits(c->end_bit - 64) & ~low_bits(c->begin_bit - 64)) << 64 |
			(low_bits(c->end_bit) & ~low_bits(c->begin_bit));
		wide |= outside & ~inside;
		if (c->format == SORT_REC_64)
		{
			SortRec64  *r = (SortRec64 *) f->recs + i;

			r->key = (uint64_t) wide;
			r->rid = rid;
			r->pad = 0;
		}
		else
		{
			SortRec128 *r = (SortRec128 *) f->recs + i;

			r->hi = (uint64_t) (wide >> 64);
			r->lo = (uint64_t) wide;
			r->rid = rid;
			r->pad = 0;
		}
	}
}

int
case_fill(const SortCase *c, const char *distribution, uint64_t seed, void *recs)
{
	Filler		f = {c, recs};

	return distribution_generate(distribution, c->end_bit - c->begin_bit, c->n,
								 seed, fill_one, &f);
}

uint64_t
case_checksum(const SortCase *c, const void *recs, CaseCheck check)
{
	uint64_t	rid_mask = check == CASE_KEYS ? 0 : UINT64_MAX;
	uint64_t	sum = 0;

	if (c->format == SORT_REC_PACKED)
	{
		uint64_t	mask = rid_mask | ~low_bits(c->begin_bit);

		for (size_t i = 0; i < c->n; i++)
			sum += noise(((const uint64_t *) recs)[i] & mask);
	}
	else if (c->format == SORT_REC_64)
		for (size_t i = 0; i < c->n; i++)
		{
			const SortRec64 *r = (const SortRec64 *) recs + i;

			sum += noise(r->key ^ noise(r->rid & rid_mask));
		}
	else
		for (size_t i = 0; i < c->n; i++)
		{
			const SortRec128 *r = (const SortRec128 *) recs + i;

			sum += noise(r->hi ^ noise(r->lo ^ noise(r->rid & rid_mask)));
		}
	return sum;
}

/* Key bits [begin_bit, end_bit) of record i, in place. */
static unsigned __int128
key_of(const SortCase *c, const void *recs, size_t i)
{
	unsigned __int128 key;

	if (c->format == SORT_REC_PACKED)
		key = ((const uint64_t *) recs)[i];
	else if (c->format == SORT_REC_64)
		key = ((const SortRec64 *) recs)[i].key;
	else
		key = (unsigned __int128) ((const SortRec128 *) recs)[i].hi << 64 |
			((const SortRec128 *) recs)[i].lo;
	key &= (unsigned __int128) low_bits(c->end_bit - 64) << 64 | low_bits(c->end_bit);
	return key >> c->begin_bit;
}

CaseFacts
case_facts(const SortCase *c, const void *recs)
{
	CaseFacts	f = {0, 0, c->begin_bit};
	unsigned __int128 first = c->n > 0 ? key_of(c, recs, 0) : 0;
	unsigned __int128 last = first;
	unsigned __int128 differ = 0;

	for (size_t i = 1; i < c->n; i++)
	{
		unsigned __int128 key = key_of(c, recs, i);

		f.descents += key < last;
		f.ascents += key > last;
		differ |= key ^ first;
		last = key;
	}
	for (; differ != 0; differ >>= 1)
		f.end_bit++;
	return f;
}

size_t
case_first_fault(const SortCase *c, const void *recs, CaseCheck check)
{
	uint32_t	unscramble = c->rids_ascending ? 1 : inverse(SCRAMBLE);
	uint32_t	rid_mask = c->format == SORT_REC_PACKED ?
		(uint32_t) low_bits(c->begin_bit) : UINT32_MAX;
	uint64_t	mask_hi = low_bits(c->end_bit - 64) & ~low_bits(c->begin_bit - 64);
	uint64_t	mask_lo = low_bits(c->end_bit) & ~low_bits(c->begin_bit);
	uint64_t	last_hi = 0;
	uint64_t	last_lo = 0;
	uint64_t	last_position = 0;

	for (size_t i = 0; i < c->n; i++)
	{
		uint64_t	hi = 0;
		uint64_t	lo;
		uint64_t	position;

		if (c->format == SORT_REC_PACKED)
		{
			lo = ((const uint64_t *) recs)[i];
			position = lo;
		}
		else if (c->format == SORT_REC_64)
		{
			lo = ((const SortRec64 *) recs)[i].key;
			position = ((const SortRec64 *) recs)[i].rid;
		}
		else
		{
			hi = ((const SortRec128 *) recs)[i].hi & mask_hi;
			lo = ((const SortRec128 *) recs)[i].lo;
			position = ((const SortRec128 *) recs)[i].rid;
		}
		lo &= mask_lo;
		position = ((uint32_t) position * unscramble) & rid_mask;
		if (i > 0 &&
			(hi < last_hi ||
			 (hi == last_hi &&
			  (lo < last_lo || (check == CASE_STABLE && lo == last_lo && position <= last_position)))))
			return i;
		last_hi = hi;
		last_lo = lo;
		last_position = position;
	}
	return c->n;
}
