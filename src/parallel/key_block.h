/*
 * key_block.h
 *	  Blocks of keys without rows, for parallel sorts whose rows consist of their keys.
 */
#ifndef GPUSORT_PARALLEL_KEY_BLOCK_H
#define GPUSORT_PARALLEL_KEY_BLOCK_H

#include "postgres.h"

#include "key/key.h"
#include "parallel/parallel.h"

/* Do the participants of this sort send keys alone? */
static inline bool
sends_keys(const SortSpec *spec)
{
	return spec->keys_only && !spec->rids_are_tids;
}

/* The layout of keys in blocks, which is that of all rows. */
extern void key_block_layout(const SortSpec *spec, const CommonKeyRange *common_range, KeyLayout *layout);

/* Fills a block with the next keys, of this size, of a result; false if there are none. */
extern bool key_block_fill(KeyTaker *taker, Size key_bytes, RowBlock *block);

/* Fills a block with the keys of a merge's next rows; false if there are none. */
extern bool key_block_refill(MergeTree *merge, RowBlock *block);

/* Values of exact keys, decoded a batch at a time. */
typedef struct KeyDecoder
{
	KeyBuffer	keybuf;			/* tells the columns of keys */
	KeyLayout	layout;
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	uint32		batch;
	Datum	   *values;			/* column c of key i: c * batch + i */
	bool	   *isnull;
	uint64	   *words;			/* the keys of a batch, if they have 64 bits */
} KeyDecoder;

extern KeyDecoder *key_decoder_create(const SortSpec *spec, const CommonKeyRange *common_range, uint32 batch);

/* Decodes n keys, at most a batch.  distance: bytes from one key to the next. */
extern void key_decoder_run(KeyDecoder *decoder, const char *keys, Size distance, uint32 n);

/* Lets a merge make the rows of its keys. */
extern void key_block_make_rows(MergeTree *merge, const SortSpec *spec, const CommonKeyRange *common_range);

#endif							/* GPUSORT_PARALLEL_KEY_BLOCK_H */
