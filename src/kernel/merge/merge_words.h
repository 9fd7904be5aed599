/*
 * merge_words.h
 *	  Merging of 64-bit words, implemented once per instruction set; used by
 *	  cpu_merge and cpu_radix.
 */
#ifndef GPUSORT_MERGE_WORDS_H
#define GPUSORT_MERGE_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/*
 * Chunks are padded to a multiple of this number of words, sorted in registers.
 */
#define MERGE_PAD_WORDS		64

/* Words of the queue of a merge tree's inner node. */
#define MERGE_FIFO_WORDS	128

/* Most words of a block that an instruction set merges at a time. */
#define MERGE_MAX_BLOCK		16

/*
 * Words [ptr, end): the queue of an inner node, or what remains of a leaf's
 * run.
 */
typedef struct MergeStream
{
	const uint64_t *ptr;
	const uint64_t *end;
} MergeStream;

/* An inner node: its queue, and the block that it holds back. */
typedef struct MergeNode
{
	uint64_t	fifo[MERGE_FIFO_WORDS];
	uint64_t	held[MERGE_MAX_BLOCK];
}			__attribute__((aligned(64)))
MergeNode;

/* The last words of a run, padded to a block by the largest word. */
typedef struct MergeTail
{
	uint64_t	words[MERGE_MAX_BLOCK];
}			__attribute__((aligned(64)))
MergeTail;

/*
 * A merge tree.  Node 1 is the root, node i has the children 2i and 2i + 1, and
 * the runs are the leaves nleaves .. 2 * nleaves - 1.
 */
typedef struct MergeTree
{
	size_t		nleaves;		/* a power of two, at least 2 */
	MergeStream *streams;		/* 2 * nleaves, by node */
	MergeNode  *nodes;			/* nleaves, by node */
	MergeTail  *tails;			/* nleaves, by leaf */
} MergeTree;

/* Functions of an instruction set. */
typedef struct MergeOps
{
	/*
	 * Sorts n words at src, n a multiple of MERGE_PAD_WORDS, in the arrays a
	 * and b of n words each; returns the one with the result.  src may be a.
	 */
	uint64_t   *(*sort_chunk) (const uint64_t *src, size_t n, uint64_t *a, uint64_t *b);

	/* Fills the inner nodes of a tree whose leaves' streams are set. */
	void		(*tree_start) (MergeTree *tree);

	/* Stores the next n words in order; behind the last the largest word. */
	void		(*tree_next) (MergeTree *tree, uint64_t *out, size_t n);
} MergeOps;

extern const MergeOps merge_ops_portable;
#ifdef __x86_64__
extern const MergeOps merge_ops_avx2;
extern const MergeOps merge_ops_avx512;
#endif

/* The functions for the level in use (isa.h). */
static inline const MergeOps *
merge_ops(void)
{
#ifdef __x86_64__
	switch (sort_isa())
	{
		case SORT_ISA_AVX512:
			return &merge_ops_avx512;
		case SORT_ISA_AVX2:
			return &merge_ops_avx2;
		default:
			break;
	}
#endif
	return &merge_ops_portable;
}

#endif							/* GPUSORT_MERGE_WORDS_H */
