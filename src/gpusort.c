/*
 * gpusort.c
 *	  Module magic and start-up.
 */
#include "postgres.h"

#include "device/service/service.h"
#include "fmgr.h"
#include "node/device_pause.h"
#include "node/gpusort_node.h"
#include "node/parallel/feed.h"
#include "plan/ordered.h"
#include "plan/replace.h"
#include "progress.h"
#include "route/files/learn_store.h"
#include "route/files/model_store.h"
#include "settings.h"
#include "sort/threads.h"
#include "stat.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	gpusort_settings_init();
	gpusort_stat_init();
	gpusort_progress_init();
	sort_threads_init();
	gpusort_model_store_init();
	if (device_service_init())
	{
		device_pause_init();
		gpusort_learn_store_init();
		device_supervisor_saves = gpusort_learn_save;
	}
	gpusort_node_init();
	feed_node_init();
	gpusort_planner_init();
	gpusort_ordered_init();
}
