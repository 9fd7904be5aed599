/*
 * block_internal.h
 *	  Streams of row blocks, and blocks of keys without rows, for sorts whose rows consist of their keys.
 */
#ifndef GPUSORT_BLOCK_BLOCK_INTERNAL_H
#define GPUSORT_BLOCK_BLOCK_INTERNAL_H

#include "postgres.h"

#include "block/block.h"
#include "key/key.h"

/* Prepares a source for the caller of base.next: a merge, or a reader.  wide: keys have 128 bits. */
extern void block_source_begin(BlockSource *source, const SortSpec *spec, bool wide);

/* Do the participants of this sort send keys alone? */
static inline bool
sends_keys(const SortSpec *spec)
{
	return spec->keys_only && !spec->rids_are_tids;
}

/* Width of keys in blocks of this layout. */
static inline int
block_key_bits(const KeyLayout *layout)
{
	return layout->total_bits <= 64 ? 64 : 128;
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

#endif							/* GPUSORT_BLOCK_BLOCK_INTERNAL_H */
