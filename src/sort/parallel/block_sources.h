/*
 * block_sources.h
 *	  Where the blocks of a merge come from: other participants' rings, and one's own sort.
 */
#ifndef GPUSORT_BLOCK_SOURCES_H
#define GPUSORT_BLOCK_SOURCES_H

#include "postgres.h"

#include "sort/parallel/block_merge.h"
#include "sort/parallel/exchange.h"
#include "sort/sorter.h"

/* A worker's ring, which reader (exchange.h) reads; gone as in exchange_next_block(). */
extern BlockSource *block_source_ring(Exchange *ex, int ring, int reader, ExchangeGone gone,
									  void *gone_arg);

/* This process's own sort, in blocks of its own memory. */
extern BlockSource *block_source_own(const SortSpec *spec, const KeyFrame *frame,
									 SortResult *result);

#endif							/* GPUSORT_BLOCK_SOURCES_H */
