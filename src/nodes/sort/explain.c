/*
 * explain.c
 *	  EXPLAIN output of GpuSort, serial and above a Gather.
 */
#include "postgres.h"

#include "nodes/base/explain_sort.h"
#include "nodes/feed/feed.h"
#include "nodes/sort/sort_state.h"

void
gpusort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	GpuSortState *node = (GpuSortState *) css;

	explain_keys(css, &node->sort, 0, ancestors, es);
	if (es->analyze && node->sort_done)
		explain_sort(css, node->sorter->report, node->keys_only, node->filter, es);
}

void
parallel_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	ParallelSortState *node = (ParallelSortState *) css;

	explain_keys(css, &node->sort, 0, ancestors, es);
	if (!es->analyze || node->phase == PARALLEL_SORT_NEW)
		return;
	if (node->on_device)
	{
		explain_sort(css, node->partial->sorter->report, false, node->filter, es);
		return;
	}
	ExplainPropertyInteger("Sort Streams", NULL, node->nstreams, es);
	if (node->sort.distinct > 0 && (node->merge != NULL || node->filter != NULL))
		explain_dropped("", 0, node->merge != NULL ? node->merge->dropped : 0, 0, node->filter, es);
}
