/*
 * merge_tree_next.h
 *	  The next row of a MergeTree, for loops over rows.
 */
#ifndef GPUSORT_SORT_MERGE_TREE_NEXT_H
#define GPUSORT_SORT_MERGE_TREE_NEXT_H

#include "postgres.h"

#include "sort/merge_tree.h"

/* Returns the next row, valid until the next call; NULL at the end. */
static inline MinimalTuple
merge_tree_next(MergeTree *merge)
{
	MinimalTuple row;

	if (unlikely(merge->next == merge->end) && !merge_tree_more(merge))
		return NULL;
	row = *(const MinimalTuple *) merge->next;
	merge->next += merge->item_bytes;
	return row;
}

/* The key of the row that was returned last, uint64 or uint128. */
static inline const char *
merge_tree_key(const MergeTree *merge)
{
	return merge->next - merge->item_bytes + MERGE_KEY_AT;
}

#endif							/* GPUSORT_SORT_MERGE_TREE_NEXT_H */
