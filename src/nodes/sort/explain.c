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
	ParticipantReport report;

	explain_keys(css, node->keys, node->nkeys, 0, ancestors, es);
	if (!es->analyze || !node->sort_done)
		return;
	participant_report_fill(&report, node->sorter->report, node->keys_only);
	explain_report(&report, "", node->filter, es);
	if (es->timing && css->ss.ps.instrument != NULL)
	{
		explain_phases(&css->ss.ps, &report, es);
		if (node->sorter->report->device.bytes_up > 0)
			explain_device(node->sorter->report, es);
	}
}

void
parallel_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	ParallelSortState *node = (ParallelSortState *) css;

	explain_keys(css, node->keys, node->nkeys, 0, ancestors, es);
	if (!es->analyze || node->phase == PARALLEL_SORT_NEW)
		return;
	if (node->on_device)
	{
		const SortReport *report = node->partial->sorter->report;
		ParticipantReport shown;

		participant_report_fill(&shown, report, false);
		explain_report(&shown, "", node->filter, es);
		if (es->timing && css->ss.ps.instrument != NULL)
		{
			explain_phases(&css->ss.ps, &shown, es);
			if (report->device.bytes_up > 0)
				explain_device(report, es);
		}
	}
	else
		ExplainPropertyInteger("Sort Streams", NULL, node->nstreams, es);
	if (!node->on_device && node->distinct > 0 && (node->merge != NULL || node->filter != NULL))
		explain_dropped("", 0, node->merge != NULL ? node->merge->dropped : 0, 0, node->filter, es);
}
