/*
 * gather.cuh
 *	  Rows into sorted order; described in gpusort_abi.h.
 */
#ifndef GPUSORT_GATHER_CUH
#define GPUSORT_GATHER_CUH

#include "gpusort_abi.h"

extern GpusortStatus gpusort_gather_scratch(GpusortContext *ctx, const GpusortGather *gather,
											uint64_t *bytes, GpusortError *err);
extern GpusortStatus gpusort_gather_plan(GpusortStream *stream, const GpusortGather *gather,
										 uint32_t *chunks, GpusortError *err);
extern GpusortStatus gpusort_gather_rows(GpusortStream *stream, const GpusortGather *gather,
										 uint64_t first, uint64_t last, void *dst,
										 GpusortError *err);

#endif							/* GPUSORT_GATHER_CUH */
