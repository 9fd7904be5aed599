/*
 * merge_rounds.h
 *	  MergeRounds: the frame of a k-way merge by rounds, of rows or of keys.
 *
 * Each run has a window: some of its keys in memory, in order.  A round takes the keys of
 * all windows up to a bound, sorts them by a kernel, and returns them.  Then the windows
 * are refilled.  The bound is the smallest of the windows' last keys, of runs that have
 * more keys on disk: no key on disk can sort before it.
 *
 * The owner fills windows, makes the records of a round, and returns what they stand for.
 * A key is found by its id, its index in the array of all windows' keys.
 */
#ifndef GPUSORT_SORT_MERGE_ROUNDS_H
#define GPUSORT_SORT_MERGE_ROUNDS_H

#include "postgres.h"

#include "key/key.h"
#include "sort/sort_env.h"

/* Runs that are merged at once at least. */
#define MERGE_MIN_FAN_IN	6

/* The keys of a run that lie in memory. */
typedef struct RunWindow
{
	uint32		first;			/* id of the first key */
	uint32		n;				/* keys from there on */
	uint32		taken;			/* of these, the keys that this round takes */
	bool		more;			/* the run has keys after the window */
} RunWindow;

typedef struct MergeRounds
{
	/* set by the owner */
	SortEnv    *env;
	const KeyLayout *layout;
	int			nruns;
	uint32		window;			/* most keys of a window */

	/*
	 * Compares the rows of two equal keys, if keys do not decide.  NULL: equal
	 * keys are equal rows in any order.
	 */
	int			(*compare_rows) (struct MergeRounds *rounds, uint32 a, uint32 b);

	/* set by rounds_begin() */
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	RunWindow  *windows;		/* of each run; palloc'd */
	void	   *keys;			/* by id */
	Size		records_size;	/* bytes for the records of a round in
								 * env->recs; scratch follows them */
	MemoryContext cxt;

	/* of this round */
	int			sources;		/* runs that have keys in it */
	int			source;			/* a run with keys in it; the only one if sources is 1 */
} MergeRounds;

static inline Size
rounds_key_size(const KeyLayout *layout)
{
	return layout->total_bits > 64 ? sizeof(Key128) : sizeof(uint64);
}

static inline void *
rounds_key_address(const MergeRounds *rounds, uint32 id)
{
	return (char *) rounds->keys + (Size) id * (rounds->wide ? sizeof(Key128) : sizeof(uint64));
}

/* Element i of an array of keys, for loops compiled once for each width. */
static pg_attribute_always_inline Key128
key_of_width(const void *keys, bool wide, size_t i)
{
	return wide ? ((const Key128 *) keys)[i] : ((const uint64 *) keys)[i];
}

static inline Key128
rounds_key(const MergeRounds *rounds, uint32 id)
{
	return key_of_width(rounds->keys, rounds->wide, id);
}

/*
 * Allocates the windows and, in env->recs, bytes for a record of each key and for scratch.
 * Returns further bytes in env->scratch, which has the keys, too.
 */
extern void *rounds_begin(MergeRounds *rounds, Size record, Size scratch, Size further);

/* Chooses the keys of the next round; returns their number. */
extern size_t rounds_choose(MergeRounds *rounds);

/* The smallest key of this round; *bits: the width of its keys less the smallest one. */
extern Key128 rounds_range(const MergeRounds *rounds, int *bits);

/*
 * Sorts the records of this round, which lie in env->recs; returns the sorted records.  The
 * caller has set their format, number, bits, ascents and descents.
 */
extern void *rounds_sort(MergeRounds *rounds, SortProblem *problem);

#endif							/* GPUSORT_SORT_MERGE_ROUNDS_H */
