/*
 * merge_tree.h
 *	  MergeTree: k-way merge of sorted streams of rows in memory.
 */
#ifndef GPUSORT_SORT_MERGE_TREE_H
#define GPUSORT_SORT_MERGE_TREE_H

#include "postgres.h"

#include "sort/distinct_test.h"
#include "sort/sort_spec.h"
#include "store/store.h"

/* Some rows of a stream in order, with their keys. */
typedef struct MergeRows
{
	const char *base;			/* address from which the places count */
	const RowPlace *places;		/* where the rows lie; NULL: the rows are
								 * their keys */
	const void *keys;			/* uint64 or uint128, of each row */
	uint32		n;
} MergeRows;

/* A sorted stream. */
typedef struct MergeSource
{
	/*
	 * Gets the stream's next rows; the source may release those before. False
	 * if no rows will come.
	 */
	bool		(*next) (struct MergeSource *source, MergeRows *rows);
} MergeSource;

/*
 * An item of the merge is a row's address followed by its key (uint64 or
 * uint128), so that the merge copies both at once.  Offset of the key:
 */
#define MERGE_KEY_AT	sizeof(MinimalTuple)

typedef struct MergeTree
{
	const char *next;			/* item of the next row */
	const char *end;			/* end of the merged items with rows */
	const char *merged;			/* end of the merged items; those from end on
								 * have no rows yet */
	uint32		item_bytes;		/* size of an item */
	uint32		batch;			/* rows that a node merges at a time */
	bool		begun;			/* a batch was merged */

	bool		wide;			/* keys have 128 bits, otherwise 64 */
	bool		exact;			/* equal keys mean equal rows */

	bool		ties_by_tid;	/* equal rows are ordered by their TIDs */
	TieBreak   *tiebreak;
	struct MergeNode *root;		/* NULL: there are no streams */

	/*
	 * Makes the rows of n merged items from their keys.  NULL: the streams
	 * have rows.
	 */
	void		(*make_rows) (struct MergeTree *tree, char *items, uint32 n);
	void	   *make_rows_arg;

	/* batches of one row */
	struct MergeNode *stream;	/* leaf of the row before the last one, or NULL */
	struct MergeNode *least;	/* the least of the other streams' rows, or NULL */
	bool		again;			/* the last row came from stream, too; least is set */

	EqualColumnsTable equal;

	/* to drop duplicates */
	int			distinct;		/* distinct columns; 0: no row is dropped */
	DistinctTest test;
	uint64		dropped;		/* duplicates */
	bool		have_last;		/* a row was merged */
	uint128		last_key;		/* key of the last one */
	KeptRow		last_row;		/* its bytes, unless keys are exact */
	MemoryContext cxt;
} MergeTree;

/*
 * Creates a merge of n streams, in the current memory context, for keys of this layout.
 * Among equal rows those of an earlier stream come first, or with spec->ties_by_tid those
 * with the lesser TIDs.  tiebreak compares rows with equal keys; not used if keys are exact.
 * With spec->distinct it drops rows that are equal in the distinct columns to the row before.
 */
extern MergeTree *merge_tree_create(MergeSource **sources, int n, uint32 batch, const SortSpec *spec,
									const KeyLayout *layout, TieBreak *tiebreak);
extern void merge_tree_free(MergeTree *tree);

/* Merges more rows; false at the end.  Rows returned before become invalid. */
extern bool merge_tree_more(MergeTree *merge);

/*
 * Sets for each of the next n rows how many leading columns it has in common with the row before it.
 * merge_tree_more() has merged these rows.
 */
extern void merge_tree_equal(const MergeTree *merge, uint32 n, EqualColumns *equal);

/*
 * Skips the next rows, at most this number, without making them.  Returns their items and sets *n;
 * NULL at the end.  *last, if wanted, is the last of these rows.  All are valid until the next call.
 */
extern const char *merge_tree_skip(MergeTree *merge, uint32 most, uint32 *n, MinimalTuple *last);

#endif							/* GPUSORT_SORT_MERGE_TREE_H */
