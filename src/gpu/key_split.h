/*
 * key_split.h
 *	  Keys split by range.
 *
 * A sort that does not fit a device is split into parts.  All keys of a part are greater
 * than those of the previous part, and equal keys are in one part.  Within a part the
 * keys keep their order.  Sorting the parts one by one sorts the whole.
 */
#ifndef GPUSORT_GPU_KEY_SPLIT_H
#define GPUSORT_GPU_KEY_SPLIT_H

#include "key/key.h"
#include "nodes/pg_list.h"
#include "store/store.h"

#define KEY_SPLIT_MAX	128		/* maximal number of parts */

typedef struct KeyPart
{
	size_t		n;				/* rows */
	bool		constant;		/* all keys are equal */

	/* Block numbers, in order.  All blocks but the last are full. */
	List	   *blocks;
} KeyPart;

typedef struct KeySplit
{
	int			nparts;
	KeyPart		parts[KEY_SPLIT_MAX];
	Key128		low[KEY_SPLIT_MAX]; /* least key of each part's range */
	int			key_width;		/* of pack_keys(): 32, 64 or 128 */
	bool		rids;			/* blocks have rids behind the keys */
	size_t		block_rows;
	Size		block_bytes;
	BulkBuf		blocks;			/* memory of all blocks */
} KeySplit;

/* Consecutive keys of a block, and their rids (NULL if there are none). */
typedef struct KeySpan
{
	size_t		n;
	char	   *keys;
	uint32	   *rids;
} KeySpan;

/*
 * Chooses the ranges of parts of about part_rows rows, from a sample of the keys.  The rows
 * of a key that make up half a part or more become a part of their own.  False if there
 * would be more than KEY_SPLIT_MAX parts, or if none needs a sort.
 */
extern bool key_split_plan(KeySplit *split, const KeyBuffer *keybuf, const KeyLayout *layout,
						   int key_width, size_t part_rows);

/* Sets the size of blocks to block_rows rows.  Returns the bytes of the blocks for n keys. */
extern Size key_split_bytes(KeySplit *split, size_t n, size_t block_rows);

/* Splits the buffered keys.  Block numbers are allocated in the current memory context. */
extern void key_split_run(KeySplit *split, BulkOwner *owner, const KeyBuffer *keybuf,
						  const KeyLayout *layout);

/* The rows of the part that follow each other in memory from row "at" on. */
extern KeySpan key_split_span(const KeySplit *split, int part, size_t at);

extern void key_split_free(KeySplit *split, BulkOwner *owner);

#endif							/* GPUSORT_GPU_KEY_SPLIT_H */
