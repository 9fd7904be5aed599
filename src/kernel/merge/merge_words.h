/*
 * merge_words.h
 *	  Merging of 64-bit words, once per instruction set; the engine of cpu_merge.
 */
#ifndef GPUSORT_MERGE_WORDS_H
#define GPUSORT_MERGE_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* Words sorted in one go, before any run is merged; every chunk is padded to it. */
#define MERGE_PAD_WORDS		64

/* Words that a node of a merge tree hands on at a time. */
#define MERGE_FIFO_WORDS	128

/* Widest block that an instruction set merges at a time, in words. */
#define MERGE_MAX_BLOCK		16

/* Words that are ready at an inner node, or the remaining words of a run at a leaf: [ptr, end). */
typedef struct MergeStream
{
	const uint64_t *ptr;
	const uint64_t *end;
} MergeStream;

/* An inner node of a merge tree: what it has handed on, and holds back. */
typedef struct MergeNode
{
	uint64_t	fifo[MERGE_FIFO_WORDS];
	uint64_t	held[MERGE_MAX_BLOCK];
} __attribute__((aligned(64))) MergeNode;

/* The last words of a run, padded to a block; then blocks of the largest word. */
typedef struct MergeTail
{
	uint64_t	words[MERGE_MAX_BLOCK];
} __attribute__((aligned(64))) MergeTail;

/*
 * Node 1 is the root, node i has the children 2i and 2i + 1, and the runs are
 * the leaves nleaves .. 2 nleaves - 1; nleaves is a power of two, at least 2.
 */
typedef struct MergeTree
{
	size_t		nleaves;
	MergeStream *streams;		/* [2 nleaves] */
	MergeNode  *nodes;			/* [nleaves] */
	MergeTail  *tails;			/* [nleaves] */
} MergeTree;

typedef struct MergeOps
{
	/*
	 * Sorts n words at src, n a multiple of MERGE_PAD_WORDS, through a and b, n
	 * words each.  src may be a.  Returns a or b.
	 */
	uint64_t   *(*sort_chunk) (const uint64_t *src, size_t n, uint64_t *a, uint64_t *b);

	/* Fills the tree from its leaves' streams. */
	void		(*tree_start) (MergeTree *tree);

	/* The next n words in order; beyond the last, the largest word. */
	void		(*tree_next) (MergeTree *tree, uint64_t *out, size_t n);
} MergeOps;

extern const MergeOps merge_ops_portable;
#ifdef __x86_64__
extern const MergeOps merge_ops_avx2;
extern const MergeOps merge_ops_avx512;
#endif

/* Those of the instructions in use. */
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
