/*
 * isa.h
 *	  Which vector instructions the kernels use, found at run time.
 */
#ifndef GPUSORT_ISA_H
#define GPUSORT_ISA_H

typedef enum SortIsa
{
	SORT_ISA_PORTABLE,
	SORT_ISA_AVX2,
	SORT_ISA_AVX512
} SortIsa;

/* The best level that this processor and this build support. */
extern SortIsa sort_isa_best(void);

/* The level in use: the best, unless a lower one was forced. */
extern SortIsa sort_isa(void);

/*
 * For tests and benchmarks: uses this level, or the best if it is not supported.
 * Not to be called while a kernel runs.
 */
extern void sort_isa_force(SortIsa isa);

extern const char *sort_isa_name(SortIsa isa);

#endif							/* GPUSORT_ISA_H */
