/*
 * algorithm.h
 *	  Every algorithm that can sort, described once.
 *
 * The setting gpusort.algorithm, the view gpusort_stat, the function
 * gpusort_algorithms() and the router all use this table.  A new algorithm needs an entry
 * in ALGORITHMS, a row of the table (algorithms.c), and a function of its name in
 * cost/cpu_model.c or cost/gpu_model.c that predicts its time; the models do not compile
 * without that function.  The prediction is not a field of the table because kernels do not
 * know the router's facts.
 */
#ifndef GPUSORT_ALGORITHM_H
#define GPUSORT_ALGORITHM_H

#include "sort_kernel.h"

/* All of them, for tables that have a row for each; the order is only that of lists. */
#define ALGORITHMS(CPU, GPU) \
	CPU(CPU_RADIX, cpu_radix) \
	CPU(CPU_MERGE, cpu_merge) \
	CPU(CPU_COUNTING, cpu_counting) \
	CPU(PRESORTED, presorted) \
	GPU(GPU_RADIX, gpu_radix) \
	GPU(GPU_MERGE, gpu_merge) \
	GPU(GPU_BUCKET, gpu_bucket) \
	GPU(GPU_COUNTING, gpu_counting) \
	GPU(GPU_ONEHOT, gpu_onehot) \
	GPU(GPU_HP, gpu_hp) \
	GPU(GPU_HP1, gpu_hp1) \
	GPU(GPU_HP0, gpu_hp0)

/* Who it is, wherever algorithms are counted or set. */
typedef enum AlgorithmId
{
#define ALGORITHM_ID(id, name)	ALGORITHM_##id,
	ALGORITHMS(ALGORITHM_ID, ALGORITHM_ID)
} AlgorithmId;

#define ALGORITHM_ONE(id, name)	+ 1
#define ALGORITHM_COUNT		(0 ALGORITHMS(ALGORITHM_ONE, ALGORITHM_ONE))

typedef enum AlgorithmPlace
{
	ALGORITHM_ON_CPU,			/* its kernel runs it */
	ALGORITHM_ON_GPU			/* the GPU library runs it, by its name; its kernel sorts no problem */
} AlgorithmPlace;

typedef struct Algorithm
{
	AlgorithmId id;
	const char *name;			/* in gpusort.algorithm, the statistics, the GPU library */
	AlgorithmPlace place;
	unsigned	formats;		/* bit (1 << SortRecFormat) for each it takes; of a GPU's,
								 * the keys of 32, 64 and 128 bits */
	bool		stable;
	bool		keys_only;		/* it cannot bring rids along */

	/*
	 * It indexes by the keys' values, so that it wants to know their range.  A GPU's
	 * problem of keys alone is faster if told that all bits of their width order,
	 * which changes nothing but that.
	 */
	bool		by_value;
	bool		distinct;		/* no two keys may be equal */
	bool		only_forced;	/* another is never slower, so auto does not ask */
	const char *needs;			/* what input it needs, for users; "" if none */
	const char *paper;			/* source */
	const SortKernel *kernel;
} Algorithm;

/* By their AlgorithmId. */
extern const Algorithm sort_algorithms[ALGORITHM_COUNT];

#define FOR_EACH_ALGORITHM(a) \
	for (const Algorithm *a = sort_algorithms; a < sort_algorithms + ALGORITHM_COUNT; a++)

/* NULL if there is none of that name. */
extern const Algorithm *algorithm_by_name(const char *name);

/* Is it a GPU's?  Nobody's (NULL) is not. */
static inline bool
algorithm_on_gpu(const Algorithm *algorithm)
{
	return algorithm != NULL && algorithm->place == ALGORITHM_ON_GPU;
}

static inline bool
algorithm_takes(const Algorithm *algorithm, SortRecFormat format)
{
	return (algorithm->formats & 1u << format) != 0;
}

#endif							/* GPUSORT_ALGORITHM_H */
