/*
 * merge_rounds.h
 *	  Sorting of an array of 64-bit words by a team: cache-sized runs,
 *	  then rounds of multiway merges.
 */
#ifndef GPUSORT_MERGE_ROUNDS_H
#define GPUSORT_MERGE_ROUNDS_H

#include "kernel/member.h"
#include "kernel/merge/merge_words.h"

typedef struct MergePlan
{
	size_t		n;				/* words */
	size_t		chunk;			/* words of a run as first sorted */
	size_t		nchunks;
	size_t		leaves;			/* runs that a tree merges, a power of two; 0 if one run */
	int			rounds;			/* of merges */
	size_t		member_bytes;	/* scratch of each member, a multiple of 64 */
} MergePlan;

extern void merge_plan(MergePlan *plan, size_t n);

/* Makes the words [from, to) that are to be sorted, at out. */
typedef void (*MergeSource) (void *arg, size_t from, size_t to, uint64_t *out);

/*
 * Run by every member: words come from source, are sorted in a and b (n words
 * each), and end in a if plan->rounds is even, else in b.  room is the member's
 * own plan->member_bytes.  False if the team was stopped.
 */
extern bool merge_rounds(Member *m, const MergePlan *plan, const MergeOps *ops,
						 MergeSource source, void *arg,
						 uint64_t *a, uint64_t *b, void *room);

#endif							/* GPUSORT_MERGE_ROUNDS_H */
