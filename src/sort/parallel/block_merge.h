/*
 * block_merge.h
 *	  Merge of sorted streams of rows that come in blocks with their keys.
 */
#ifndef GPUSORT_BLOCK_MERGE_H
#define GPUSORT_BLOCK_MERGE_H

#include "postgres.h"

#include "key/tie/tiebreak.h"
#include "sort/sorter.h"
#include "store/loser_tree.h"
#include "store/row_block.h"

/* Where a stream's blocks come from. */
typedef struct BlockSource
{
	/* The next; the one before it is not needed any more.  NULL at the end. */
	RowBlock   *(*next) (struct BlockSource *source);
} BlockSource;

/* A stream, and where it is. */
typedef struct BlockStream
{
	BlockSource *source;
	char	   *row;			/* the current row; NULL: at the end */
	char	   *next;			/* the next, of left in the block */
	const char *keys;			/* its key */
	uint32		left;
	char	   *whole;			/* palloc'd: a row that came in pieces */
	Size		whole_size;
} BlockStream;

typedef struct BlockMerge
{
	LoserTree	tree;
	bool		wide;			/* keys of 128 bits, not 64 */
	bool		exact;			/* equal keys are equal rows */
	TieBreak   *tiebreak;
	MemoryContext cxt;
	int			n;
	BlockStream streams[FLEXIBLE_ARRAY_MEMBER];
} BlockMerge;

/*
 * Of n streams of rows of this spec, in the current memory context; the frame is
 * the one that the blocks' writers were given.
 */
extern BlockMerge *block_merge_create(const SortSpec *spec, const KeyFrame *frame,
									  BlockSource **sources, int n);

/* The first row, or NULL. */
extern MinimalTuple block_merge_first(BlockMerge *merge);

/* The next; the one before is not valid any more. */
extern MinimalTuple block_merge_next(BlockMerge *merge);

#endif							/* GPUSORT_BLOCK_MERGE_H */
