/*
 * gpu_sample.h
 *	  How keys are spread, by a sample of them: what a GPU's sorts by value depend on.
 *
 * The sample is pairs of neighbours, so that it tells order, too.  A thousand keys and
 * a sort of them cost some microseconds (bench/GPU-NOTES.md).
 */
#ifndef GPUSORT_GPU_SAMPLE_H
#define GPUSORT_GPU_SAMPLE_H

#include "../cuda/gpusort_abi.h"
#include "kernel/sort_kernel.h"

#define GPU_SAMPLE_PAIRS	512

/* Aligned as kernels want records. */
typedef struct GpuSample
{
	size_t		n;
	SortRec64	recs[2 * GPU_SAMPLE_PAIRS] __attribute__((aligned(64)));
} GpuSample;

/* What its sort takes: a copy and a byte each, with some to spare. */
typedef struct GpuSampleScratch
{
	SortRec64	recs[2 * GPU_SAMPLE_PAIRS * 5 / 4] __attribute__((aligned(64)));
} GpuSampleScratch;

typedef struct GpuSampleSeen
{
	GpusortSpread spread;
	double		repeated;		/* part of the keys that the sample has twice, or more often */
} GpuSampleSeen;

static inline void
gpu_sample_begin(GpuSample *sample)
{
	sample->n = 0;
}

/* Of n keys every so many is the first of a pair, from 0 on, ... */
static inline size_t
gpu_sample_step(size_t n)
{
	return n < GPU_SAMPLE_PAIRS ? 1 : n / GPU_SAMPLE_PAIRS;
}

/* ... as long as there is a second, and room. */
static inline bool
gpu_sample_wants(const GpuSample *sample, size_t n, size_t i)
{
	return i + 1 < n && sample->n < 2 * GPU_SAMPLE_PAIRS;
}

/* The next key: its leading 64 bits. */
static inline void
gpu_sample_add(GpuSample *sample, uint64_t key)
{
	sample->recs[sample->n].key = key;
	sample->recs[sample->n].rid = (uint32_t) sample->n;
	sample->n++;
}

/* Looks at them; they are lost. */
extern void gpu_sample_look(GpuSample *sample, GpuSampleSeen *seen);

/* Its sort, by cpu_radix; the scratch is not there yet. */
extern void gpu_sample_problem(GpuSample *sample, SortProblem *problem);

/* Two words of a sample, for qsort(). */
extern int	sample_compare(const void *a, const void *b);

#endif							/* GPUSORT_GPU_SAMPLE_H */
