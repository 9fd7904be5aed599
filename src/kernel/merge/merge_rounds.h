/*
 * merge_rounds.h
 *	  Sorts an array of 64-bit words by a team: runs that fit the L2 cache,
 *	  then rounds of k-way merges.
 */
#ifndef GPUSORT_MERGE_ROUNDS_H
#define GPUSORT_MERGE_ROUNDS_H

#include "kernel/member.h"
#include "kernel/merge/merge_words.h"

/* How n words are sorted; depends on n only. */
typedef struct MergePlan
{
	size_t		n;				/* number of words */
	size_t		chunk;			/* words of a run before the first round */
	size_t		nchunks;		/* number of those runs */

	/* Most runs that a tree merges, a power of two; 0: there is one run. */
	size_t		leaves;
	int			rounds;			/* number of rounds of merges */
	size_t		member_bytes;	/* memory of each member, a multiple of 64 */
} MergePlan;

/* Fills the plan for n words. */
extern void merge_plan(MergePlan *plan, size_t n);

/* Stores the words [from, to) of the input at out. */
typedef void (*MergeSource) (void *arg, size_t from, size_t to, uint64_t *out);

/*
 * Sorts n words that source returns; every member calls it.  a and b are arrays
 * of n words.  The result is in a if plan->rounds is even, else in b.  room is
 * memory of this member, plan->member_bytes long, 64-byte aligned.  False if
 * the team was stopped.
 */
extern bool merge_rounds(Member *m, const MergePlan *plan, const MergeOps *ops,
						 MergeSource source, void *arg,
						 uint64_t *a, uint64_t *b, void *room);

#endif							/* GPUSORT_MERGE_ROUNDS_H */
