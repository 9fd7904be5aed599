/*
 * block_refill.h
 *	  A merge's rows into blocks again.
 */
#ifndef GPUSORT_BLOCK_REFILL_H
#define GPUSORT_BLOCK_REFILL_H

#include "postgres.h"

#include "sort/parallel/block_merge.h"

typedef struct BlockRefill BlockRefill;

/* Of this merge, of which no row has been taken, in the current memory context. */
extern BlockRefill *block_refill_create(BlockMerge *merge);

/* Fills a block with the next rows and their keys; false if there are none left. */
extern bool block_refill_fill(BlockRefill *refill, RowBlock *block);

#endif							/* GPUSORT_BLOCK_REFILL_H */
