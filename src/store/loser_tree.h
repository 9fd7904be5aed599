/*
 * loser_tree.h
 *	  The tree of losers of a k-way merge.
 *
 * An inner node of the tree holds the source that lost the match there, with its
 * key; the root's parent holds the winner.  The next row of the winner's source plays
 * its way up again: log2(k) comparisons of 128-bit numbers whose outcome nobody
 * can predict, so winner and loser change places without a branch.  Only equal keys
 * branch.
 *
 * What a source is the caller knows: advance() fetches source r's next row and
 * returns its key, the largest at its end; equal_before() tells whether source a's
 * row goes before source b's, whose key is the same, an ended one behind all.  Both
 * are compiled into the merge.
 */
#ifndef GPUSORT_LOSER_TREE_H
#define GPUSORT_LOSER_TREE_H

#include "postgres.h"

typedef uint128 MergeKey;

/* The key of a source that has ended. */
#define MERGE_KEY_END	(~(MergeKey) 0)

/* A source in the tree. */
typedef struct LoserNode
{
	MergeKey	key;			/* of its current row */
	uint64		source;
} LoserNode;

typedef struct LoserTree
{
	int			n;				/* sources */
	LoserNode	winner;
	LoserNode  *losers;			/* inner nodes 1 .. n - 1 */
} LoserTree;

typedef MergeKey (*LoserAdvance) (void *arg, int r);
typedef bool (*LoserEqualBefore) (void *arg, int a, int b);

/* Lets a and b change places if so, without a branch. */
static inline void
loser_swap_if(bool so, LoserNode *a, LoserNode *b)
{
	uint64		mask = -(uint64) so;
	MergeKey	key = (a->key ^ b->key) & ((MergeKey) mask << 64 | mask);
	uint64		source = (a->source ^ b->source) & mask;

	a->key ^= key;
	b->key ^= key;
	a->source ^= source;
	b->source ^= source;
}

static pg_attribute_always_inline bool
loser_before(const LoserNode *a, const LoserNode *b, LoserEqualBefore equal_before, void *arg)
{
	if (unlikely(a->key == b->key))
		return equal_before(arg, (int) a->source, (int) b->source);
	return a->key < b->key;
}

/* Plays the tree below node; leaf r is node n + r.  Returns the winner. */
static inline LoserNode
loser_tree_play(LoserTree *tree, int node, LoserAdvance advance,
				LoserEqualBefore equal_before, void *arg)
{
	LoserNode	a;
	LoserNode	b;

	if (node >= tree->n)
	{
		a.source = node - tree->n;
		a.key = advance(arg, (int) a.source);
		return a;
	}
	a = loser_tree_play(tree, 2 * node, advance, equal_before, arg);
	b = loser_tree_play(tree, 2 * node + 1, advance, equal_before, arg);
	loser_swap_if(loser_before(&b, &a, equal_before, arg), &a, &b);
	tree->losers[node] = b;
	return a;
}

/* The first match of n sources: tree->winner has the first row, if there is any. */
static inline void
loser_tree_begin(LoserTree *tree, int n, LoserAdvance advance,
				 LoserEqualBefore equal_before, void *arg)
{
	tree->n = n;
	tree->losers = palloc(n * sizeof(LoserNode));
	tree->winner = loser_tree_play(tree, 1, advance, equal_before, arg);
}

/* The winner's row has been used: its source's next plays. */
static pg_attribute_always_inline void
loser_tree_next(LoserTree *tree, LoserAdvance advance, LoserEqualBefore equal_before, void *arg)
{
	LoserNode	w = tree->winner;

	w.key = advance(arg, (int) w.source);
	for (int node = (int) (tree->n + w.source) / 2; node > 0; node /= 2)
	{
		LoserNode  *l = &tree->losers[node];

		loser_swap_if(loser_before(l, &w, equal_before, arg), l, &w);
	}
	tree->winner = w;
}

#endif							/* GPUSORT_LOSER_TREE_H */
