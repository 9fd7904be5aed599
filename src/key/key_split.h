/*
 * key_split.h
 *	  Staged keys split by range, for sorts that take them part by part.
 *
 * Part after part, sorted, they make the sorted whole: no key of a part is less than one
 * of the part before, and equal keys are in one.  Within a part they stay in the order
 * in which they were staged.
 */
#ifndef GPUSORT_KEY_SPLIT_H
#define GPUSORT_KEY_SPLIT_H

#include "key/pack.h"

#define KEY_SPLIT_MAX	128		/* parts */

typedef struct KeyPart
{
	size_t		n;				/* rows */
	bool		flat;			/* its keys are all equal */
	uint32	   *blocks;			/* where they lie, in order; all but the last are full */
	uint32		nblocks;
	uint32		capacity;		/* of that array */
} KeyPart;

typedef struct KeySplit
{
	int			nparts;
	KeyPart		parts[KEY_SPLIT_MAX];
	Key128		low[KEY_SPLIT_MAX]; /* the least key that a part may have */
	int			key_width;		/* 32, 64, 128: of keys as pack_keys() makes them */
	bool		rids;			/* each with the rid that belongs to it */
	size_t		block_rows;
	Size		block_bytes;
	BulkBuf		blocks;
} KeySplit;

/* Keys of a block, or of what is left of it from some row on, and their rids. */
typedef struct KeySpan
{
	size_t		n;
	char	   *keys;
	uint32	   *rids;
} KeySpan;

/*
 * Chooses ranges from a sample of the keys so that parts have part_rows about, and no
 * more but by chance or where keys are equal; a key that many have is a part of its
 * own.  False if that makes too many parts.
 */
extern bool key_split_plan(KeySplit *split, const Stage *stage, const KeyLayout *layout,
						   int key_width, size_t part_rows);

/* Is there a part in which anything is left to be sorted? */
extern bool key_split_sorts(const KeySplit *split);

/* Bytes that splitting n keys takes, in blocks of up to block_rows. */
extern Size key_split_bytes(KeySplit *split, size_t n, size_t block_rows);

/* Splits the stage's keys.  The arrays are of the current memory context. */
extern void key_split_run(KeySplit *split, BulkOwner *owner, const Stage *stage,
						  const KeyLayout *layout);

/* The rows of a part from number at on, as far as they lie together. */
extern KeySpan key_split_span(const KeySplit *split, int part, size_t at);

extern void key_split_free(KeySplit *split, BulkOwner *owner);

#endif							/* GPUSORT_KEY_SPLIT_H */
