/*
 * isa.h
 *	  The level of vector instructions that the kernels use, found at run time.
 */
#ifndef GPUSORT_ISA_H
#define GPUSORT_ISA_H

/* Levels of vector instructions, ascending. */
typedef enum SortIsa
{
	SORT_ISA_PORTABLE,
	SORT_ISA_AVX2,
	SORT_ISA_AVX512
} SortIsa;

/* The highest level that the processor and this build support. */
extern SortIsa sort_isa_best(void);

/*
 * The level in use: the highest, or a lower one that sort_isa_force() has set.
 */
extern SortIsa sort_isa(void);

/*
 * Sets the level in use, for tests and benchmarks; a level that is not
 * supported sets the highest one.  No kernel may run during the call.
 */
extern void sort_isa_force(SortIsa isa);

#endif							/* GPUSORT_ISA_H */
