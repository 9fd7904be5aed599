/*
 * key_block.h
 *	  Blocks of keys without rows, for parallel sorts whose rows consist of their keys.
 */
#ifndef GPUSORT_PARALLEL_KEY_BLOCK_H
#define GPUSORT_PARALLEL_KEY_BLOCK_H

#include "postgres.h"

#include "parallel/parallel.h"

/* Do the participants of this sort send keys alone? */
static inline bool
sends_keys(const SortSpec *spec)
{
	return spec->keys_only && !spec->rids_are_tids;
}

/* The layout of keys in blocks, which is that of all rows. */
extern void key_block_layout(const SortSpec *spec, const CommonKeyRange *common_range, KeyLayout *layout);

/* Fills a block with the next keys of a result; false if there are none. */
extern bool key_block_fill(KeyTaker *taker, RowBlock *block);

/* Fills a block with the keys of a merge's next rows; false if there are none. */
extern bool key_block_refill(MergeTree *merge, RowBlock *block);

/* Lets a merge make the rows of its keys. */
extern void key_block_make_rows(MergeTree *merge, const SortSpec *spec, const CommonKeyRange *common_range);

#endif							/* GPUSORT_PARALLEL_KEY_BLOCK_H */
