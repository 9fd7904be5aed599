/*
 * isa.c
 *	  The level of vector instructions that the kernels use, found at run time.
 */
#include "isa.h"

static int	forced = -1;		/* level set by sort_isa_force(); -1: none */

SortIsa
sort_isa_best(void)
{
#ifdef __x86_64__
	/* the builtins also test that the system saves the registers */
	if (__builtin_cpu_supports("avx512f"))
		return SORT_ISA_AVX512;
	if (__builtin_cpu_supports("avx2"))
		return SORT_ISA_AVX2;
#endif
	return SORT_ISA_PORTABLE;
}

SortIsa
sort_isa(void)
{
	SortIsa		best = sort_isa_best();

	return forced >= 0 && forced < (int) best ? (SortIsa) forced : best;
}

void
sort_isa_force(SortIsa isa)
{
	forced = isa;
}
