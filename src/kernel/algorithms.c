/*
 * algorithms.c
 *	  The table of all algorithms; see algorithm.h.
 */
#include "algorithm.h"

#include <string.h>

#define ALL_FORMATS		(1u << SORT_REC_PACKED | 1u << SORT_REC_64 | 1u << SORT_REC_128)
#define HP_FORMATS		(1u << SORT_REC_PACKED | 1u << SORT_REC_64)

const Algorithm sort_algorithms[ALGORITHM_COUNT] = {
	[ALGORITHM_CPU_RADIX] = {
		.id = ALGORITHM_CPU_RADIX,
		.name = "cpu_radix",
		.place = ALGORITHM_ON_CPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.needs = "",
		.paper = "Satish 2010, 4.2.1 and 4.3",
		.kernel = &cpu_radix_kernel
	},
	[ALGORITHM_CPU_MERGE] = {
		.id = ALGORITHM_CPU_MERGE,
		.name = "cpu_merge",
		.place = ALGORITHM_ON_CPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.needs = "",
		.paper = "Satish 2010, 5.2",
		.kernel = &cpu_merge_kernel
	},
	[ALGORITHM_CPU_COUNTING] = {
		.id = ALGORITHM_CPU_COUNTING,
		.name = "cpu_counting",
		.place = ALGORITHM_ON_CPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.by_value = true,
		.needs = "key range at most 4 times the rows, and 24 bits",
		.paper = "Abdel-hafeez 2018, 4.1-4.2",
		.kernel = &cpu_counting_kernel
	},
	[ALGORITHM_PRESORTED] = {
		.id = ALGORITHM_PRESORTED,
		.name = "presorted",
		.place = ALGORITHM_ON_CPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.needs = "input sorted, reversed, of few runs, or nearly in order",
		.paper = "Chen 2009, III (disorder)",
		.kernel = &presorted_kernel
	},
	[ALGORITHM_GPU_RADIX] = {
		.id = ALGORITHM_GPU_RADIX,
		.name = "gpu_radix",
		.place = ALGORITHM_ON_GPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.needs = "",
		.paper = "Satish et al. 2010; Pirjan 2012"
	},
	[ALGORITHM_GPU_MERGE] = {
		.id = ALGORITHM_GPU_MERGE,
		.name = "gpu_merge",
		.place = ALGORITHM_ON_GPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.needs = "",
		.paper = "Satish et al. 2010; Chen et al. 2009"
	},
	[ALGORITHM_GPU_BUCKET] = {
		.id = ALGORITHM_GPU_BUCKET,
		.name = "gpu_bucket",
		.place = ALGORITHM_ON_GPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.needs = "",
		.paper = "Chen et al. 2009"
	},
	[ALGORITHM_GPU_COUNTING] = {
		.id = ALGORITHM_GPU_COUNTING,
		.name = "gpu_counting",
		.place = ALGORITHM_ON_GPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.by_value = true,
		.needs = "keys whose range is known and at most 16 times the rows",
		.paper = "Abdel-hafeez et al. 2018"
	},
	[ALGORITHM_GPU_ONEHOT] = {
		.id = ALGORITHM_GPU_ONEHOT,
		.name = "gpu_onehot",
		.place = ALGORITHM_ON_GPU,
		.formats = ALL_FORMATS,
		.stable = true,
		.by_value = true,
		.only_forced = true,	/* so few rows are sorted before a GPU knows of them */
		.needs = "at most 4096 rows; rows times range at most about a million",
		.paper = "Abdel-hafeez et al. 2018"
	},
	[ALGORITHM_GPU_HP] = {
		.id = ALGORITHM_GPU_HP,
		.name = "gpu_hp",
		.place = ALGORITHM_ON_GPU,
		.formats = HP_FORMATS,
		.keys_only = true,
		.by_value = true,
		.only_forced = true,	/* gpu_counting takes three quarters of the time */
		.needs = "keys alone, whose range is known and at most 16 times the rows",
		.paper = "Kozakai et al. 2021"
	},
	[ALGORITHM_GPU_HP1] = {
		.id = ALGORITHM_GPU_HP1,
		.name = "gpu_hp1",
		.place = ALGORITHM_ON_GPU,
		.formats = HP_FORMATS,
		.keys_only = true,
		.by_value = true,
		.needs = "distinct keys alone, whose range is known and at most 16 times the rows",
		.paper = "Kozakai et al. 2021"
	},
	[ALGORITHM_GPU_HP0] = {
		.id = ALGORITHM_GPU_HP0,
		.name = "gpu_hp0",
		.place = ALGORITHM_ON_GPU,
		.formats = HP_FORMATS,
		.keys_only = true,
		.by_value = true,
		.only_forced = true,	/* as gpu_hp */
		.needs = "keys alone, whose range is known and at most 16 times the rows",
		.paper = "Kozakai et al. 2021"
	}
};

const Algorithm *
algorithm_by_name(const char *name)
{
	FOR_EACH_ALGORITHM(a)
	{
		if (strcmp(a->name, name) == 0)
			return a;
	}
	return NULL;
}
