/*
 * radix_split.h
 *	  Splitters from a sample, for keys whose leading bits are skewed.
 *
 * If most keys have the same leading bits (few bits set, small numbers among
 * large ones, one value in half of the rows), a digit of leading bits puts them
 * all into one part, and so does the next digit.  A splitter class says instead
 * between which two splitters a key is, or which splitter it equals.  Splitters
 * are chosen from a sample such that classes get similar counts.  Values more
 * frequent than that have a class of their own, which needs no more sorting.
 *
 * Keys are 64-bit words here, with the bits that matter at the top.  Classes
 * ascend with the keys.
 */
#ifndef GPUSORT_RADIX_SPLIT_H
#define GPUSORT_RADIX_SPLIT_H

#include <stdint.h>
#include <string.h>

#define SPLIT_MAX_LEVELS	7	/* most levels of the search tree */
#define SPLIT_MAX			((1 << SPLIT_MAX_LEVELS) - 1)	/* most splitters */
#define SPLIT_MAX_CLASSES	(2 * SPLIT_MAX + 2) /* fit a byte */
#define SPLIT_SAMPLE		1024	/* most keys of the sample */
#define SPLIT_FREQUENT		4	/* least samples of a frequent value */
#define SPLIT_MAX_FREQUENT	96	/* most values that count as frequent */
#define SPLIT_LANES			8	/* words classified at once */

/* Splitters, as an array and as a search tree. */
typedef struct SplitDigit
{
	int			levels;			/* levels of the tree */
	unsigned	classes;		/* number of classes */
	int			high_bit;		/* words have the key bits [low_bit, high_bit) */
	int			low_bit;
	int			right;			/* shift of a word before classification ... */
	int			left;			/* ... and left shift after that */
	uint64_t	sorted[SPLIT_MAX + 1];	/* padded with the largest word */
	uint64_t	tree[SPLIT_MAX + 1];	/* children of node i: 2i, 2i + 1 */
} SplitDigit;

/*
 * Number of samples from index i on that are equal to sample[i]; the sample is
 * sorted.
 */
static inline int
split_run(const uint64_t *sample, int n, int i)
{
	int			end = i + 1;

	while (end < n && sample[end] == sample[i])
		end++;
	return end - i;
}

/* Chooses splitters from a sorted sample of n words. */
static inline void
split_make(SplitDigit *s, const uint64_t *sample, int n)
{
	int			frequent = SPLIT_FREQUENT - 1;
	int			values;
	int			keys;
	int			share;
	int			nsplitters = 0;
	int			nodes;

	/*
	 * frequent values first; the other splitters divide the other keys evenly
	 */
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

/*
 * The records of a class are in order by their key bits from this one upwards.
 */
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
 * Stores the classes of n words; n is a multiple of SPLIT_LANES.  Even
 * classes are between two splitters, odd ones equal one.  No branch depends on
 * the data.
 */
typedef void (*SplitClasses) (const SplitDigit *s, const uint64_t *words, int n, uint8_t *classes);

/* The function for the level in use (isa.h). */
extern SplitClasses split_classes(void);

#endif							/* GPUSORT_RADIX_SPLIT_H */
