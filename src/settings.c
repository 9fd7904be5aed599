/*
 * settings.c
 *	  Every GUC of the extension.
 */
#include "postgres.h"

#include <limits.h>

#include "settings.h"
#include "utils/guc.h"

bool		gpusort_enable = true;
int			gpusort_algorithm = 0;
int			gpusort_min_rows = 0;
int			gpusort_threads = 1;
bool		gpusort_verify = false;

/* The names of gpusort_algorithms(); the values only tell them apart. */
static const struct config_enum_entry algorithm_options[] = {
	{"auto", 0, false},
	{"cpu_radix", 1, false},
	{"cpu_merge", 2, false},
	{"cpu_counting", 3, false},
	{"gpu_radix", 4, false},
	{"gpu_merge", 5, false},
	{"gpu_bucket", 6, false},
	{"gpu_counting", 7, false},
	{"gpu_onehot", 8, false},
	{"gpu_hp", 9, false},
	{"gpu_hp1", 10, false},
	{"gpu_hp0", 11, false},
	{NULL, 0, false}
};

const char *
gpusort_forced_algorithm(void)
{
	return gpusort_algorithm == 0 ? NULL : algorithm_options[gpusort_algorithm].name;
}

void
gpusort_settings_init(void)
{
	DefineCustomBoolVariable("gpusort.enable",
							 "Lets plans sort with GpuSort nodes instead of Sort nodes.",
							 NULL,
							 &gpusort_enable, true,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("gpusort.algorithm",
							 "Forces a sort algorithm where it can apply.",
							 "Where it cannot, EXPLAIN's Sort Route says why.",
							 &gpusort_algorithm, 0, algorithm_options,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.min_rows",
							"Sets the planner's row estimate below which Sort nodes stay.",
							NULL,
							&gpusort_min_rows, 0, 0, INT_MAX,
							PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.threads",
							"Sets the number of threads that sort in one backend.",
							NULL,
							&gpusort_threads, 1, 1, 64,
							PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("gpusort.verify",
							 "Checks the order and completeness of every sorted result.",
							 "A wrong result of a CPU algorithm is an error, "
							 "one of a GPU is sorted again on the CPU.",
							 &gpusort_verify, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("gpusort");
}
