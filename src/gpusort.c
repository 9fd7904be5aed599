/*
 * gpusort.c
 *	  Module magic and start-up.
 */
#include "postgres.h"

#include "cost/store.h"
#include "fmgr.h"
#include "gpu/gpu.h"
#include "index/index_build.h"
#include "monitor/progress.h"
#include "monitor/stat.h"
#include "nodes/aggregate/aggregate.h"
#include "nodes/base/pause.h"
#include "nodes/feed/feed.h"
#include "nodes/incremental/incremental.h"
#include "nodes/join/join.h"
#include "nodes/shared/shared.h"
#include "nodes/sort/sort_node.h"
#include "nodes/window/window.h"
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

/* Registers the plan nodes. */
static void
register_nodes(void)
{
	RegisterCustomScanMethods(&sort_node.scan);
	RegisterCustomScanMethods(&partial_sort_node.scan);
	RegisterCustomScanMethods(&shared_sort_node.scan);
	RegisterCustomScanMethods(&incremental_node.scan);
	RegisterCustomScanMethods(&window_node.scan);
	RegisterCustomScanMethods(&aggregate_node.scan);
	RegisterCustomScanMethods(&join_node.scan);
	gpusort_node_init();
}

void
_PG_init(void)
{
	bool		has_service;

	gpusort_settings_init();
	gpusort_stat_init();
	gpusort_progress_init();
	sort_threads_init();
	has_service = device_service_init();
	if (has_service)
	{
		gpusort_store_init();
		device_pause_init();
	}
	gpu_init();
	register_nodes();
	gpusort_planner_init();
	index_hooks_init();
}
