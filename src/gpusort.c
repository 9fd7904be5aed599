/*
 * gpusort.c
 *	  Module magic and start-up.
 */
#include "postgres.h"

#include "cost/store.h"
#include "executor/gpusort_executor.h"
#include "fmgr.h"
#include "gpu/gpu.h"
#include "index/index_build.h"
#include "monitor/progress.h"
#include "monitor/stat.h"
#include "planner/planner.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort.h"

/*
 * GPUs read keys as little-endian numbers, and no test runs on a big-endian
 * processor.
 */
#ifdef WORDS_BIGENDIAN
#error "gpusort needs a little-endian processor"
#endif

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	bool		has_service;

	gpusort_settings_init();
	gpusort_stat_init();
	gpusort_progress_init();
	sort_threads_init();
	has_service = device_service_init();
	gpusort_store_init(has_service);
	if (has_service)
		device_pause_init();
	gpu_init();
	executor_nodes_init();
	gpusort_planner_init();
	gpusort_ordered_init();
	index_hooks_init();
	gpusort_grouping_init();
	gpusort_joins_init();
	gpusort_shards_init();
}
