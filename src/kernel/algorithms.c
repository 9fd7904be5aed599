/*
 * algorithms.c
 *	  The table of all algorithms; see algorithm.h.
 */
#include "algorithm.h"

#include <string.h>

#define ALL_FORMATS			(1u << SORT_REC_PACKED | 1u << SORT_REC_64 | 1u << SORT_REC_128)

/* Fields that follow from the algorithm's entry in ALGORITHMS, and its name in EXPLAIN. */
#define NAMED(ID, NAME, DISPLAY) \
	.id = ALGORITHM_##ID, .name = #NAME, .display = (DISPLAY)

/* Most algorithms sort all formats, and are stable. */
#define ON_CPU(ID, NAME, DISPLAY) \
	NAMED(ID, NAME, DISPLAY), .formats = ALL_FORMATS, .stable = true, .kernel = &NAME##_kernel
#define ON_GPU(ID, NAME, DISPLAY) \
	NAMED(ID, NAME, DISPLAY), .formats = ALL_FORMATS, .stable = true

/* The algorithms of Kozakai et al. */
#define OF_KEYS(ID, NAME, DISPLAY) \
	NAMED(ID, NAME, DISPLAY), .formats = 1u << SORT_REC_PACKED | 1u << SORT_REC_64, \
	.keys_only = true, .by_value = true, .paper = "Kozakai et al. 2021"

const Algorithm sort_algorithms[ALGORITHM_COUNT] = {
	[ALGORITHM_CPU_RADIX] = {
		ON_CPU(CPU_RADIX, cpu_radix, "cpu radix"),
		.needs = "",
		.paper = "Satish 2010, 4.2.1 and 4.3"
	},
	[ALGORITHM_CPU_MERGE] = {
		ON_CPU(CPU_MERGE, cpu_merge, "cpu merge"),
		.needs = "",
		.paper = "Satish 2010, 5.2"
	},
	[ALGORITHM_CPU_COUNTING] = {
		ON_CPU(CPU_COUNTING, cpu_counting, "cpu counting"),
		.by_value = true,
		.needs = "key range at most 4 times the rows, and 24 bits",
		.paper = "Abdel-hafeez 2018, 4.1-4.2"
	},
	[ALGORITHM_PRESORTED] = {
		ON_CPU(PRESORTED, presorted, "presorted"),
		.needs = "input sorted, reversed, of few runs, or nearly in order",
		.paper = "Chen 2009, III (disorder)"
	},
	[ALGORITHM_GPU_RADIX] = {
		ON_GPU(GPU_RADIX, gpu_radix, "gpu radix"),
		.needs = "",
		.paper = "Satish et al. 2010; Pirjan 2012"
	},
	[ALGORITHM_GPU_MERGE] = {
		ON_GPU(GPU_MERGE, gpu_merge, "gpu merge"),
		.needs = "",
		.paper = "Satish et al. 2010; Chen et al. 2009"
	},
	[ALGORITHM_GPU_BUCKET] = {
		ON_GPU(GPU_BUCKET, gpu_bucket, "gpu bucket"),
		.needs = "",
		.paper = "Chen et al. 2009"
	},
	[ALGORITHM_GPU_COUNTING] = {
		ON_GPU(GPU_COUNTING, gpu_counting, "gpu counting"),
		.by_value = true,
		.needs = "keys whose range is known and at most 16 times the rows",
		.paper = "Abdel-hafeez et al. 2018"
	},
	[ALGORITHM_GPU_ONEHOT] = {
		ON_GPU(GPU_ONEHOT, gpu_onehot, "gpu onehot"),
		.by_value = true,
		.only_forced = true,	/* the CPU is faster for inputs that it takes */
		.needs = "at most 4096 rows; rows times range at most about a million",
		.paper = "Abdel-hafeez et al. 2018"
	},
	[ALGORITHM_GPU_HP] = {
		OF_KEYS(GPU_HP, gpu_hp, "gpu hp"),
		.only_forced = true,	/* gpu_counting is faster */
		.needs = "keys alone, whose range is known and at most 16 times the rows"
	},
	[ALGORITHM_GPU_HP1] = {
		OF_KEYS(GPU_HP1, gpu_hp1, "gpu hp1"),
		.distinct = true,
		.needs = "distinct keys alone, whose range is known and at most 16 times the rows"
	},
	[ALGORITHM_GPU_HP0] = {
		OF_KEYS(GPU_HP0, gpu_hp0, "gpu hp0"),
		.only_forced = true,	/* gpu_counting is faster */
		.needs = "keys alone, whose range is known and at most 16 times the rows"
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
