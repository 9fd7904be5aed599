/*
 * algorithm.h
 *	  The table of all sort algorithms, on the CPU and on GPUs.
 *
 * The setting gpusort.algorithm, the statistics, the function
 * gpusort_algorithms() and the router read this table.  A new algorithm needs
 * an entry in ALGORITHMS and a row in algorithms.c.  The router also needs a case
 * in the rule of cost/cpu_model.c, or a prediction in cost/gpu_model.c.  They are
 * not in the table, because kernels do not know the router's facts.
 */
#ifndef GPUSORT_ALGORITHM_H
#define GPUSORT_ALGORITHM_H

#include "sort_kernel.h"

/*
 * List of all algorithms, for code that has something for each: CPU(id, name)
 * or GPU(id, name).  The order only matters for output.
 */
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

/* Number of an algorithm. */
typedef enum AlgorithmId
{
#define ALGORITHM_ID(id, name)	ALGORITHM_##id,
	ALGORITHMS(ALGORITHM_ID, ALGORITHM_ID)
} AlgorithmId;

#define ALGORITHM_ONE(id, name)	+ 1
#define ALGORITHM_COUNT		(0 ALGORITHMS(ALGORITHM_ONE, ALGORITHM_ONE))

/* A row of the table. */
typedef struct Algorithm
{
	AlgorithmId id;
	const char *name;			/* in gpusort.algorithm and the GPU library */
	const char *display;		/* the name as EXPLAIN shows it */

	/*
	 * Bit (1 << SortRecFormat) for each format that the algorithm sorts; of a
	 * GPU algorithm, for keys of 32, 64 and 128 bits.
	 */
	unsigned	formats;
	bool		stable;			/* equal keys keep their input order */
	bool		keys_only;		/* sorts keys without row ids only */

	/*
	 * Indexes arrays by the keys' values, and so needs their range.  On a GPU
	 * keys without row ids are sorted faster if the problem says that all
	 * bits of their width order.
	 */
	bool		by_value;
	bool		distinct;		/* requires that no two keys are equal */

	/*
	 * Runs only if gpusort.algorithm names it, because another algorithm is
	 * never slower.
	 */
	bool		only_forced;
	const char *needs;			/* requirement on the input, for users, or "" */
	const char *paper;			/* source, for users */
	const SortKernel *kernel;	/* sorts on the CPU; NULL: the GPU library sorts */
} Algorithm;

/* The table, indexed by AlgorithmId. */
extern const Algorithm sort_algorithms[ALGORITHM_COUNT];

/* Loops over the table. */
#define FOR_EACH_ALGORITHM(a) \
	for (const Algorithm *a = sort_algorithms; a < sort_algorithms + ALGORITHM_COUNT; a++)

/* The algorithm of that name, or NULL. */
extern const Algorithm *algorithm_by_name(const char *name);

/* Does a GPU run the algorithm?  NULL: no. */
static inline bool
algorithm_on_gpu(const Algorithm *algorithm)
{
	return algorithm != NULL && algorithm->kernel == NULL;
}

/* Does the algorithm take that format? */
static inline bool
algorithm_takes(const Algorithm *algorithm, SortRecFormat format)
{
	return (algorithm->formats & 1u << format) != 0;
}

#endif							/* GPUSORT_ALGORITHM_H */
