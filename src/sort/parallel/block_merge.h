/*
 * block_merge.h
 *	  Merge of sorted streams of rows that come in blocks with their keys.
 */
#ifndef GPUSORT_BLOCK_MERGE_H
#define GPUSORT_BLOCK_MERGE_H

#include "postgres.h"

#include "sort/sorter.h"
#include "store/row_block.h"

/* Where a stream's blocks come from. */
typedef struct BlockSource
{
	/*
	 * The next; the one before it is not needed any more.  NULL at the end, or, with
	 * stopped, because nobody wants the rest.
	 */
	RowBlock   *(*next) (struct BlockSource *source);
	bool		stopped;
} BlockSource;

/* Rows that are merged ahead of those that are asked for. */
#define MERGE_BATCH		128

/*
 * What is merged: a row's place, and behind it its key, uint64 or uint128, in one piece, so that who has
 * chosen one of two copies it at once.
 */
#define MERGE_KEY_AT	sizeof(MinimalTuple)

typedef struct BlockMerge
{
	const char *next;			/* the row that is asked for next, its place and key, */
	const char *end;			/* and where those that are merged end */
	uint32		item_bytes;		/* of such a pair */
	uint64		total;			/* rows that were merged, these included */

	bool		wide;			/* keys of 128 bits, not 64 */
	bool		exact;			/* equal keys are equal rows */
	struct TieBreak *tiebreak;
	MemoryContext cxt;
	struct MergeNode *root;		/* NULL: no streams */
} BlockMerge;

/*
 * Of n streams of rows of this spec, in the current memory context; the frame is
 * the one that the blocks' writers were given.
 */
extern BlockMerge *block_merge_create(const SortSpec *spec, const KeyFrame *frame,
									  BlockSource **sources, int n);

/* Merges more; false if there are none left. */
extern bool block_merge_more(BlockMerge *merge);

/* Are there rows that take no more work? */
static inline bool
block_merge_ready(const BlockMerge *merge)
{
	return merge->next != merge->end;
}

/* The next of them. */
static inline MinimalTuple
block_merge_take(BlockMerge *merge)
{
	MinimalTuple row = *(const MinimalTuple *) merge->next;

	merge->next += merge->item_bytes;
	return row;
}

/* The next row, or NULL; the one before is not valid any more. */
static inline MinimalTuple
block_merge_next(BlockMerge *merge)
{
	if (unlikely(!block_merge_ready(merge)) && !block_merge_more(merge))
		return NULL;
	return block_merge_take(merge);
}

/* The key of the row that was given last, uint64 or uint128. */
static inline const char *
block_merge_key(const BlockMerge *merge)
{
	return merge->next - merge->item_bytes + MERGE_KEY_AT;
}

#endif							/* GPUSORT_BLOCK_MERGE_H */
