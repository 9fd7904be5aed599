/*
 * kernels.c
 *	  The list of CPU kernels.
 */
#include "sort_kernel.h"

#include <string.h>

const SortKernel *const sort_kernels[] = {
	&cpu_radix_kernel,
	&cpu_merge_kernel,
	&cpu_counting_kernel,
	&presorted_kernel,
	NULL
};

const SortKernel *
sort_kernel_by_name(const char *name)
{
	for (const SortKernel *const *k = sort_kernels; *k != NULL; k++)
		if (strcmp((*k)->name, name) == 0)
			return *k;
	return NULL;
}
