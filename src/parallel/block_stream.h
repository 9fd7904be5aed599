/*
 * block_stream.h
 *	  Both ends of a stream of row blocks: a writer of sorted rows, and a source for merges.
 */
#ifndef GPUSORT_PARALLEL_BLOCK_STREAM_H
#define GPUSORT_PARALLEL_BLOCK_STREAM_H

#include "postgres.h"

#include "parallel/parallel.h"

/* Width of keys in blocks of this layout. */
static inline int
block_key_bits(const KeyLayout *layout)
{
	return layout->total_bits <= 64 ? 64 : 128;
}

/* The range that contains the keys of n ranges, in the current memory context. */
extern CommonKeyRange *common_key_range(const CommonKeyRange **ranges, int n, const KeyColumn *keys, int nkeys);

typedef struct BlockWriter BlockWriter;

/*
 * Creates a writer of the rows of a result or, if that is NULL, of a merge, which has returned
 * no row, in the current memory context.  common_range contains the keys of all rows that will
 * be merged.
 */
extern BlockWriter *block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range,
										SortResult *result, MergeTree *merge);

/* Fills a block with the next rows; false if there are none. */
extern bool block_writer_fill(BlockWriter *writer, RowBlock *block);

/* A stream of blocks. */
struct BlockSource
{
	MergeSource base;

	/*
	 * Frees the previous block and returns the next.  NULL at the end of the
	 * stream, or if the exchange was stopped (stopped is set then).
	 */
	RowBlock   *(*next_block) (BlockSource *source);
	bool		stopped;

	/* set by block_source_begin() */
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	bool		keys_only;		/* blocks have keys alone */
	MemoryContext cxt;

	char	   *long_row;		/* last row longer than a block; or NULL */
	Size		long_row_size;	/* allocated size */
	uint128		long_row_key;
};

/* Prepares a source for the caller of base.next: a merge, or a reader.  wide: keys have 128 bits. */
extern void block_source_begin(BlockSource *source, const SortSpec *spec, bool wide);

#endif							/* GPUSORT_PARALLEL_BLOCK_STREAM_H */
