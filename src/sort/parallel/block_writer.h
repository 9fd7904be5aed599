/*
 * block_writer.h
 *	  A sort's rows into blocks, with keys that mean the same in every process.
 */
#ifndef GPUSORT_BLOCK_WRITER_H
#define GPUSORT_BLOCK_WRITER_H

#include "postgres.h"

#include "key/pack.h"
#include "sort/sorter.h"
#include "store/row_block.h"

typedef struct BlockWriter BlockWriter;

/* The keys' width in blocks of this layout. */
static inline int
block_key_bits(const KeyLayout *layout)
{
	return layout->total_bits <= 64 ? 64 : 128;
}

/*
 * Of sorted rows of this spec, in the current memory context.  The frame is that of
 * all rows that will be merged.
 */
extern BlockWriter *block_writer_create(const SortSpec *spec, const KeyFrame *frame);

/* Fills a block with the result's next rows; false if there are none left. */
extern bool block_writer_fill(BlockWriter *writer, SortResult *result, RowBlock *block);

#endif							/* GPUSORT_BLOCK_WRITER_H */
