/*
 * radix_pivot.h
 *	  A digit around one frequent key, for keys whose leading bits tell little.
 *
 * Where most keys begin alike (few bits set, small numbers among large ones, one
 * value in half of the rows), a digit of leading bits puts them all into one part, and
 * so does the next.  This digit says in which bit, counted from the top, a key first
 * differs from the frequent one, to which side, and what its next few bits are; keys
 * that differ in no bit are one class, which needs no more sorting.  So one pass
 * tells as much as many passes along the frequent key's bits would.
 *
 * Keys are words here, the bits that matter uppermost.  Classes ascend as the keys do.
 */
#ifndef GPUSORT_RADIX_PIVOT_H
#define GPUSORT_RADIX_PIVOT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct PivotDigit
{
	uint64_t	key;
	int			high_bit;		/* of the records' keys, the word's upper end */
	int			low_bit;		/* ... and its lower end */
	int			left;			/* by which such a window is moved up */
	int			depth;			/* leading bits that are looked at */
	int			fine_bits;		/* after the first that differs */
	int			fine_shift;
	unsigned	middle;			/* class of the keys that do not differ */
	unsigned	classes;
	struct
	{
		uint32_t	first;		/* class */
		uint32_t	mask;		/* of the fine bits */
	}			start[2][64];	/* [above the key][bits alike] */
} PivotDigit;

/* Of n keys in order, the one that bit by bit has the more keys beside it. */
static inline uint64_t
frequent_key(const uint64_t *keys, int n)
{
	int			first = 0;
	int			last = n;

	for (int bit = 63; bit >= 0 && last - first > 1; bit--)
	{
		int			ones = first;

		while (ones < last && (keys[ones] >> bit & 1) == 0)
			ones++;
		if (ones - first >= last - ones)
			last = ones;
		else
			first = ones;
	}
	return keys[first];
}

/* The key bits [low_bit, high_bit), at most 64, around a key. */
static inline void
pivot_make(PivotDigit *p, uint64_t key, int low_bit, int high_bit, unsigned max_classes)
{
	int			nbits = high_bit - low_bit;
	int			fine_bits = 0;

	while (nbits << (fine_bits + 2) <= (int) max_classes)
		fine_bits++;
	p->key = key;
	p->high_bit = high_bit;
	p->low_bit = low_bit;
	p->left = 64 - nbits;
	p->fine_bits = fine_bits;
	p->depth = (max_classes - 1) >> (fine_bits + 1);
	if (p->depth > nbits)
		p->depth = nbits;
	/* pivot_class tells the key from the one that differs in bit 63 alone by none */
	if (p->depth > 63)
		p->depth = 63;
	p->middle = (unsigned) p->depth << fine_bits;
	p->classes = 2 * p->middle + 1;
	p->fine_shift = 63 - fine_bits;
	for (int same = 0; same < 64; same++)
	{
		bool		differs = same < p->depth;

		p->start[0][same].first = differs ? p->middle - ((p->depth - same) << fine_bits) : p->middle;
		p->start[1][same].first = differs ? p->middle + 1 + ((p->depth - 1 - same) << fine_bits) : p->middle;
		p->start[0][same].mask = p->start[1][same].mask = differs ? (1u << fine_bits) - 1 : 0;
	}
}

/* Without a branch, for what it would say is what is not known. */
static inline unsigned
pivot_class(const PivotDigit *p, uint64_t w)
{
	int			same = __builtin_clzll((w ^ p->key) | 1);
	int			above = w > p->key;

	return p->start[above][same].first +
		((uint32_t) (w << same >> p->fine_shift) & p->start[above][same].mask);
}

/* The key bits of a class's records below this one are not in order yet. */
static inline int
pivot_below(const PivotDigit *p, unsigned class)
{
	unsigned	off = class > p->middle ? class - p->middle - 1 : p->middle - 1 - class;
	int			bits = p->depth - (int) (off >> p->fine_bits) + p->fine_bits;

	if (class == p->middle)
		bits = p->depth;
	return p->high_bit - bits > p->low_bit ? p->high_bit - bits : p->low_bit;
}

#endif							/* GPUSORT_RADIX_PIVOT_H */
