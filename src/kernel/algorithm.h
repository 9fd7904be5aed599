/*
 * algorithm.h
 *	  Every algorithm that can sort, described once.
 *
 * What the setting gpusort.algorithm offers, gpusort_stat counts, gpusort_algorithms()
 * lists and the router chooses from is this table; to add an algorithm is to add a row
 * and to say in the model (route/model.c, route/gpu_model.c: switches over AlgorithmId,
 * which the compiler wants complete) what it costs.
 *
 * The descriptions lie below everything that asks for them.  That is why a prediction
 * is not one of their functions: kernels do not know the router's facts.
 */
#ifndef GPUSORT_ALGORITHM_H
#define GPUSORT_ALGORITHM_H

#include "sort_kernel.h"

/* Who it is, wherever algorithms are counted or set; the order is only that of lists. */
typedef enum AlgorithmId
{
	ALGORITHM_CPU_RADIX,
	ALGORITHM_CPU_MERGE,
	ALGORITHM_CPU_COUNTING,
	ALGORITHM_PRESORTED,
	ALGORITHM_GPU_RADIX,
	ALGORITHM_GPU_MERGE,
	ALGORITHM_GPU_BUCKET,
	ALGORITHM_GPU_COUNTING,
	ALGORITHM_GPU_ONEHOT,
	ALGORITHM_GPU_HP,
	ALGORITHM_GPU_HP1,
	ALGORITHM_GPU_HP0
} AlgorithmId;

#define ALGORITHM_COUNT		(ALGORITHM_GPU_HP0 + 1)

typedef enum AlgorithmPlace
{
	ALGORITHM_ON_CPU,			/* its kernel runs it */
	ALGORITHM_ON_GPU			/* the GPU library runs it, by its name; it has no kernel */
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
	 * job of keys alone is faster if told that all bits of their width order,
	 * which changes nothing but that.
	 */
	bool		by_value;
	bool		only_forced;	/* another is never slower, so auto does not ask */
	const char *needs;			/* what input it needs, for users; "" if none */
	const char *paper;			/* source */
	const SortKernel *kernel;	/* ALGORITHM_ON_CPU */
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
