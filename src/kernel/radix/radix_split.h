/*
 * radix_split.h
 *	  A digit of sampled keys, for keys whose leading bits tell little.
 *
 * Where most keys begin alike (few bits set, small numbers among large ones, one
 * value in half of the rows), a digit of leading bits puts them all into one part, and
 * so does the next.  This digit says between which two splitters a key lies, or which
 * one it equals.  Splitters are taken from a sample such that classes come out about
 * even, but for values more frequent than that: those have a class to themselves, which
 * needs no more sorting.  So a pass tells as much as the keys hold, however they hold it.
 *
 * Keys are words here, the bits that matter uppermost.  Classes ascend as the keys do.
 */
#ifndef GPUSORT_RADIX_SPLIT_H
#define GPUSORT_RADIX_SPLIT_H

#include <stdint.h>
#include <string.h>

#define SPLIT_MAX_LEVELS	7
#define SPLIT_MAX			((1 << SPLIT_MAX_LEVELS) - 1)	/* splitters */
#define SPLIT_MAX_CLASSES	(2 * SPLIT_MAX + 2) /* a class is a byte */
#define SPLIT_SAMPLE		1024
#define SPLIT_FREQUENT		4	/* times in a sample is a value frequent, at least; */
#define SPLIT_MAX_FREQUENT	96	/* ... so often that no more values are */
#define SPLIT_ABREAST		8	/* keys classified at a time */

typedef struct SplitDigit
{
	int			levels;			/* of the tree */
	unsigned	classes;
	int			high_bit;		/* of the records' keys, the word's upper end */
	int			low_bit;		/* ... and its lower end */
	int			right;			/* by which words as given are moved down, */
	int			left;			/* ... and then up */
	uint64_t	sorted[SPLIT_MAX + 1];	/* beyond the last, the largest word */
	uint64_t	tree[SPLIT_MAX + 1];	/* of the same: node i has the children 2i and 2i + 1 */
} SplitDigit;

/* How often the value at i occurs in what follows it. */
static inline int
split_run(const uint64_t *sample, int n, int i)
{
	int			end = i + 1;

	while (end < n && sample[end] == sample[i])
		end++;
	return end - i;
}

/* Of a sample of n keys in order. */
static inline void
split_make(SplitDigit *s, const uint64_t *sample, int n)
{
	int			frequent = SPLIT_FREQUENT - 1;
	int			values;
	int			keys;
	int			share;
	int			nsplitters = 0;
	int			nodes;

	/* Frequent values first; what splitters are left go evenly among the other keys. */
	do
	{
		frequent++;
		values = keys = 0;
		for (int i = 0, run; i < n; i += run)
		{
			run = split_run(sample, n, i);
			if (run >= frequent)
				values++;
			else
				keys += run;
		}
	} while (values > SPLIT_MAX_FREQUENT);
	share = keys / (SPLIT_MAX - values) + 1;
	for (int i = 0, since = 0, run; i < n; i += run)
	{
		run = split_run(sample, n, i);
		since += run;
		if (run >= frequent || since >= share)
		{
			s->sorted[nsplitters++] = sample[i];
			since = 0;
		}
	}
	s->classes = 2 * nsplitters + 2;
	s->levels = nsplitters < 8 ? 3 : nsplitters < 32 ? 5 : SPLIT_MAX_LEVELS;
	nodes = 1 << s->levels;
	for (int i = nsplitters; i < nodes; i++)
		s->sorted[i] = UINT64_MAX;
	for (int level = 0; level < s->levels; level++)
		for (int i = 0; i < 1 << level; i++)
			s->tree[(1 << level) + i] = s->sorted[(2 * i + 1) * (nodes >> (level + 1)) - 1];
}

/* The key bits of a class's records below this one are not in order yet. */
static inline int
split_below(const SplitDigit *s, unsigned class)
{
	unsigned	i = class / 2;
	uint64_t	least = i == 0 ? 0 : s->sorted[i - 1];

	if (class % 2 == 1 || s->sorted[i] == least)
		return s->low_bit;
	return s->high_bit - __builtin_clzll(s->sorted[i] ^ least);
}

/*
 * Classes of n words, n a multiple of SPLIT_ABREAST: even ones lie between two
 * splitters, odd ones equal one.  No branch depends on the data.
 */
typedef void (*SplitClasses) (const SplitDigit *s, const uint64_t *words, int n, uint8_t *classes);

/* That of the instructions in use. */
extern SplitClasses split_classes(void);

#endif							/* GPUSORT_RADIX_SPLIT_H */
